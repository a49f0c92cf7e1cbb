/* The table of row gradients that embedding_update and row_squares hand to the rows: checked when
 * the node is made, filled in the worker's scratch when it runs. */
#include "graph/rows.h"
#include "ops/ops_private.h"

fth_status fth_ops_check_row_entries(const fth_graph *graph, const struct fth_node *node,
                                     const struct fth_row_update_attributes *a, fth_error *err) {
    if (!a || !a->n)
        return fth_fail(err, FTH_E_ARGUMENT, "needs at least one lookup");
    if (a->clip >= 0)
        FTH_TRY(fth_ops_need_whole(graph, node, (uint32_t)a->clip, 1, 1, err));
    for (uint32_t i = 0; i < a->n; i++) {
        const struct fth_row_entry *entry = &a->entries[i];
        if (entry->lookup >= graph->n_lookups)
            return fth_fail(err, FTH_E_ARGUMENT, "there is no lookup %u", entry->lookup);
        FTH_TRY(fth_ops_need_rows(graph, node, entry->input, err));
        uint32_t dim = graph->lookups[entry->lookup].dim;
        if (entry->parts)
            dim *= entry->parts;
        if (entry->column + dim > fth_ops_input(graph, node, entry->input).columns)
            return fth_fail(err, FTH_E_ARGUMENT, "lookup %u lies outside input %u", entry->lookup,
                            entry->input);
    }
    return FTH_OK;
}

size_t fth_ops_row_entries_bytes(const struct fth_row_update_attributes *a) {
    return fth_ops_align(a->n * sizeof(struct fth_row_gradient));
}

/* Of a lookup that is factorised backward; else 0. */
static uint32_t unique_rows(const struct fth_run *run, const struct fth_row_entry *entry) {
    const struct fth_rows *rows = run->rows;
    const struct fth_unique_rows *unique = rows->unique ? rows->unique(rows->ctx, entry->lookup) : NULL;
    return unique && fth_unique_few(unique, entry->most) ? unique->n : 0;
}

/* Rows of a layer's row gradients: of entry i's input, or of those of its entries before i. */
static size_t layer_rows(const struct fth_run *run, const struct fth_row_update_attributes *a,
                         uint32_t i, int before) {
    size_t rows = 0;
    for (uint32_t j = 0; j < (before ? i : a->n); j++)
        if (a->entries[j].parts && a->entries[j].input == a->entries[i].input)
            rows += unique_rows(run, &a->entries[j]);
    return rows;
}

const struct fth_row_gradient *fth_ops_row_entries(const struct fth_run *run,
                                                   const struct fth_row_update_attributes *a,
                                                   uint32_t *n) {
    struct fth_row_gradient *gradients = run->scratch;
    *n = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct fth_row_entry *entry = &a->entries[i];
        const struct fth_view *in = &run->in[entry->input];
        if (unique_rows(run, entry) ? entry->not_factored : entry->parts != 0)
            continue;
        struct fth_row_gradient *gradient = &gradients[(*n)++];
        *gradient = (struct fth_row_gradient){.lookup = entry->lookup,
                                              .gradient = in->data + entry->column,
                                              .ld = in->ld,
                                              .parts = entry->parts};
        if (entry->parts) {
            gradient->ld = entry->dim;
            gradient->gradient += layer_rows(run, a, i, 1) * entry->dim;
            gradient->part_stride = layer_rows(run, a, i, 0) * entry->dim;
        }
    }
    return gradients;
}
