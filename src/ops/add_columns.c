/* add_columns(pieces...): zeros with each piece added to its columns: the gradient of a value whose
 * views were used. */
#include <string.h>

#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    const struct fth_add_columns_attributes *a = node->attributes;
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        FTH_TRY(fth_ops_need_same_rows(graph, node, 0, i, err));
        uint32_t columns = fth_ops_input(graph, node, i).columns;
        if (a->offsets[i] > a->columns || columns > a->columns - a->offsets[i])
            return fth_fail(err, FTH_E_ARGUMENT, "columns %u + %u of input %u lie outside the %u",
                            a->offsets[i], columns, i, a->columns);
    }
    return fth_ops_output_like(graph, node, 0, 0, a->columns, err);
}

static void print(const struct fth_node *node, struct fth_text *out) {
    const struct fth_add_columns_attributes *a = node->attributes;
    fth_text_printf(out, "at=");
    for (uint32_t i = 0; i < node->n_inputs; i++)
        fth_text_printf(out, "%s%u", i ? "," : "", a->offsets[i]);
}

static void run(const struct fth_run *run) {
    const struct fth_add_columns_attributes *a = run->node->attributes;
    const struct fth_view *out = &run->out[0];
    for (uint32_t i = 0; i < out->rows; i++)
        memset(out->data + (size_t)i * out->ld, 0, out->columns * sizeof(float));
    for (uint32_t i = 0; i < run->node->n_inputs; i++) {
        const struct fth_view *in = &run->in[i];
        float *at = out->data + a->offsets[i];
        fth_kernels_get()->add(in->rows, in->columns, at, out->ld, in->data, in->ld, at, out->ld);
    }
}

const struct fth_op fth_op_add_columns = {.name = "add_columns",
                                          .min_inputs = 1,
                                          .max_inputs = UINT32_MAX,
                                          .n_outputs = 1,
                                          .granularity = FTH_PER_TILE,
                                          .shape = shape,
                                          .cost = fth_ops_cost,
                                          .print = print,
                                          .run = run};
