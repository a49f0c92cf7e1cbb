/* scale_rows(s, x, c or none): s x + c, one factor a row (DCN's cross layer), and row_dot_rows(a,
 * b): dot products row by row, its gradient for s. */
#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 1, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 1, err));
    if (fth_ops_input(graph, node, 0).columns != 1)
        return fth_fail(err, FTH_E_ARGUMENT, "input 0 has %u columns, it takes one factor a row",
                        fth_ops_input(graph, node, 0).columns);
    if (fth_ops_input(graph, node, 2).id != FTH_NONE)
        FTH_TRY(fth_ops_need_same(graph, node, 1, 2, err));
    return fth_ops_output_like(graph, node, 0, 1, fth_ops_input(graph, node, 1).columns, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id products[2] = {d_outputs[0], node->inputs[1]};
    fth_id scaled[3] = {node->inputs[0], d_outputs[0], FTH_NONE};
    if (fth_ops_wants(graph, node, 0))
        FTH_TRY(fth_graph_node(graph, &fth_op_row_dot_rows, node->name, products, 2, NULL, 0,
                               &d_inputs[0], err));
    if (fth_ops_wants(graph, node, 1))
        FTH_TRY(fth_graph_node(graph, &fth_op_scale_rows, node->name, scaled, 3, NULL, 0,
                               &d_inputs[1], err));
    if (fth_ops_wants(graph, node, 2))
        d_inputs[2] = d_outputs[0];
    return FTH_OK;
}

static void run(const struct fth_run *run) {
    const struct fth_view *s = &run->in[0], *x = &run->in[1], *y = &run->out[0];
    int addend = run->node->n_inputs > 2 && run->node->inputs[2] != FTH_NONE;
    fth_kernels_get()->scale_rows(x->rows, x->columns, s->data, s->ld, x->data, x->ld,
                                  addend ? run->in[2].data : NULL, addend ? run->in[2].ld : 0,
                                  y->data, y->ld);
}

const struct fth_op fth_op_scale_rows = {.name = "scale_rows",
                                         .min_inputs = 2,
                                         .max_inputs = 3,
                                         .n_outputs = 1,
                                         .granularity = FTH_PER_TILE,
                                         .shape = shape,
                                         .gradient = gradient,
                                         .cost = fth_ops_cost,
                                         .run = run};

static fth_status dot_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_need_same(graph, node, 0, 1, err));
    return fth_ops_output_like(graph, node, 0, 0, 1, err);
}

static void dot_run(const struct fth_run *run) {
    const struct fth_view *a = &run->in[0], *b = &run->in[1];
    fth_kernels_get()->row_dot_rows(a->rows, a->columns, a->data, a->ld, b->data, b->ld,
                                    run->out[0].data, run->out[0].ld);
}

const struct fth_op fth_op_row_dot_rows = {.name = "row_dot_rows",
                                           .min_inputs = 2,
                                           .max_inputs = 2,
                                           .n_outputs = 1,
                                           .granularity = FTH_PER_TILE,
                                           .shape = dot_shape,
                                           .cost = fth_ops_cost,
                                           .run = dot_run};
