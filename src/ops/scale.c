/* scale(x): x times a fixed factor. */
#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    return fth_ops_output_like(graph, node, 0, 0, fth_ops_input(graph, node, 0).columns, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    return fth_graph_node(graph, &fth_op_scale, node->name, d_outputs, 1, node->attributes,
                          sizeof(struct fth_scale_attributes), &d_inputs[0], err);
}

static void print(const struct fth_node *node, struct fth_text *out) {
    const struct fth_scale_attributes *a = node->attributes;
    fth_text_printf(out, "factor=%g", (double)a->factor);
}

static void run(const struct fth_run *run) {
    const struct fth_scale_attributes *a = run->node->attributes;
    const struct fth_view *x = &run->in[0], *out = &run->out[0];
    fth_kernels_get()->scale(out->rows, out->columns, x->data, x->ld, a->factor, out->data,
                             out->ld);
}

const struct fth_op fth_op_scale = {.name = "scale",
                                    .min_inputs = 1,
                                    .max_inputs = 1,
                                    .n_outputs = 1,
                                    .granularity = FTH_PER_TILE,
                                    .shape = shape,
                                    .gradient = gradient,
                                    .cost = fth_ops_cost,
                                    .print = print,
                                    .run = run};
