/* dice_gate(x, xn, slope): Dice's switch between x and slope x (Zhou et al., KDD 2018, eq. 3); xn
 * is x normalised over the batch (bn_apply). Its gradient goes to x, xn and, a part a tile, the
 * slope. */
#include "ops/ops_private.h"

static fth_status check(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_need_same(graph, node, 0, 1, err));
    return fth_ops_need_whole(graph, node, 2, 1, fth_ops_input(graph, node, 0).columns, err);
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(check(graph, node, err));
    return fth_ops_output_like(graph, node, 0, 0, fth_ops_input(graph, node, 0).columns, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id inputs[4] = {node->inputs[0], node->inputs[1], node->inputs[2], d_outputs[0]};
    return fth_graph_node(graph, &fth_op_dice_gate_grad, node->name, inputs, 4, NULL, 0, d_inputs,
                          err);
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops *= 24; /* an exponential */
}

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *xn = &run->in[1], *y = &run->out[0];
    fth_kernels_get()->dice_gate(x->rows, x->columns, x->data, x->ld, xn->data, xn->ld,
                                 run->in[2].data, y->data, y->ld);
}

const struct fth_op fth_op_dice_gate = {.name = "dice_gate",
                                        .min_inputs = 3,
                                        .max_inputs = 3,
                                        .n_outputs = 1,
                                        .granularity = FTH_PER_TILE,
                                        .shape = shape,
                                        .gradient = gradient,
                                        .cost = cost,
                                        .run = run};

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(check(graph, node, err));
    FTH_TRY(fth_ops_need_same(graph, node, 0, 3, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    FTH_TRY(fth_ops_output_like(graph, node, 0, 0, columns, err));
    FTH_TRY(fth_ops_output_like(graph, node, 1, 0, columns, err));
    return fth_ops_output_tiles(graph, node, 2, columns, err);
}

static void grad_run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *xn = &run->in[1], *dy = &run->in[3];
    const struct fth_view *dx = &run->out[0], *dxn = &run->out[1];
    if (!x->rows)
        fth_ops_zero_row(&run->out[2]);
    else
        fth_kernels_get()->dice_gate_grad(x->rows, x->columns, x->data, x->ld, xn->data, xn->ld,
                                          run->in[2].data, dy->data, dy->ld, dx->data, dx->ld,
                                          dxn->data, dxn->ld, run->out[2].data);
}

const struct fth_op fth_op_dice_gate_grad = {.name = "dice_gate_grad",
                                             .min_inputs = 4,
                                             .max_inputs = 4,
                                             .n_outputs = 3,
                                             .granularity = FTH_PER_TILE,
                                             .shape = grad_shape,
                                             .cost = cost,
                                             .run = grad_run};
