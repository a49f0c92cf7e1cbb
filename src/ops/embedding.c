/* embedding: rows of several lookups side by side, through the batch's table of functions
 * (graph/rows.h). It has no inputs: keys belong to the batch, rows to embedding/. Its output's
 * gradient is what embedding_update trains the rows with. */
#include "graph/rows.h"
#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    const struct fth_embedding_attributes *a = node->attributes;
    if (!a || !a->n_lookups)
        return fth_fail(err, FTH_E_ARGUMENT, "needs at least one lookup");
    uint32_t columns = 0;
    for (uint32_t i = 0; i < a->n_lookups; i++) {
        if (a->lookups[i] >= graph->n_lookups)
            return fth_fail(err, FTH_E_ARGUMENT, "there is no lookup %u", a->lookups[i]);
        const struct fth_lookup *lookup = &graph->lookups[a->lookups[i]];
        const struct fth_lookup *first = &graph->lookups[a->lookups[0]];
        if (lookup->dim != first->dim)
            return fth_fail(
                err, FTH_E_ARGUMENT,
                "tables %s and %s have dimensions %u and %u; one node takes one dimension",
                first->table, lookup->table, first->dim, lookup->dim);
        int positions = lookup->group >= 0 && lookup->pooling == FTH_POOL_NONE;
        if (positions && a->n_lookups > 1)
            return fth_fail(err, FTH_E_ARGUMENT,
                            "table %s: a sequence that is not pooled needs a node of its own",
                            lookup->table);
        columns += lookup->dim;
    }
    const struct fth_lookup *first = &graph->lookups[a->lookups[0]];
    if (first->group >= 0 && first->pooling == FTH_POOL_NONE)
        return fth_graph_output(graph, node, 0, FTH_POSITIONS, first->group, 0, columns, err);
    return fth_graph_output(graph, node, 0, FTH_EXAMPLES, -1, 0, columns, err);
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = 0;
    out->bytes *= 2; /* rows read, values written */
}

static void print(const struct fth_node *node, struct fth_text *out) {
    const struct fth_embedding_attributes *a = node->attributes;
    fth_text_printf(out, "lookups=");
    for (uint32_t i = 0; i < a->n_lookups; i++)
        fth_text_printf(out, "%s%u", i ? "," : "", a->lookups[i]);
}

static void run(const struct fth_run *run) {
    const struct fth_embedding_attributes *a = run->node->attributes;
    const struct fth_rows *rows = run->rows;
    if (a->skip_factored) {
        float *out = run->out[0].data;
        for (uint32_t i = 0; i < a->n_lookups; i++) {
            if (!rows->unique || !fth_unique_few(rows->unique(rows->ctx, a->lookups[i]), a->skip_factored))
                rows->gather(rows->ctx, a->lookups[i], run->example0, run->examples, out,
                             run->out[0].ld);
            out += run->out[0].columns / a->n_lookups;
        }
    } else if (a->n_lookups == 1)
        rows->gather(rows->ctx, a->lookups[0], run->example0, run->examples, run->out[0].data,
                     run->out[0].ld);
    else
        rows->gather_many(rows->ctx, a->lookups, a->n_lookups, run->example0, run->examples,
                          run->out[0].data, run->out[0].ld);
}

const struct fth_op fth_op_embedding = {.name = "embedding",
                                        .n_outputs = 1,
                                        .granularity = FTH_PER_TILE,
                                        .shape = shape,
                                        .trains_rows = 1,
                                        .cost = cost,
                                        .print = print,
                                        .run = run};
