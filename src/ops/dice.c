/* dice(x, scale, mean, count, slope): bn_apply and dice_gate in one read of x and one write (the pass fuse_dice
 * makes it of them; the same bits). Backwards nothing of the size of x is kept: dice_sums gives a tile's sums that
 * batch norm's gradient needs of the whole batch (bn_grad_finalize) and the slope's part, and y once more for the
 * next layer's weight gradient (the pass recompute_dice), dice_grad the gradient of x; both work the gate out
 * again, which costs less than reading it from memory.
 *
 *   tiles: dice_sums | whole batch: bn_grad_finalize | tiles: dice_grad */
#include "ops/ops_private.h"

/* x in input 0, the four rows that belong to it in inputs 1 to 4. */
static fth_status check(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    FTH_TRY(fth_ops_need_whole(graph, node, 1, 1, columns, err));
    FTH_TRY(fth_ops_need_whole(graph, node, 2, 1, columns, err));
    FTH_TRY(fth_ops_need_whole(graph, node, 3, 1, 1, err));
    return fth_ops_need_whole(graph, node, 4, 1, columns, err);
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(check(graph, node, err));
    return fth_ops_output_like(graph, node, 0, 0, fth_ops_input(graph, node, 0).columns, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id inputs[9] = {node->inputs[0], node->inputs[1], node->inputs[2],
                        node->inputs[3], node->inputs[4], d_outputs[0]};
    fth_id sums[4], factors[3]; /* of dice_sums' outputs the first three, then bn_grad_finalize's inputs */
    FTH_TRY(fth_graph_node(graph, &fth_op_dice_sums, node->name, inputs, 6, NULL, 0, sums, err));
    d_inputs[4] = sums[2];
    sums[2] = node->inputs[1];
    sums[3] = node->inputs[3];
    FTH_TRY(fth_graph_node(graph, &fth_op_bn_grad_finalize, node->name, sums, 4, NULL, 0, factors, err));
    for (uint32_t i = 0; i < 3; i++)
        inputs[6 + i] = factors[i];
    return fth_graph_node(graph, &fth_op_dice_grad, node->name, inputs, 9, NULL, 0, d_inputs, err);
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops *= 26; /* an exponential */
}

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *y = &run->out[0];
    fth_kernels_get()->dice(x->rows, x->columns, x->data, x->ld, run->in[1].data, run->in[2].data,
                            run->in[4].data, y->data, y->ld);
}

const struct fth_op fth_op_dice = {.name = "dice",
                                   .min_inputs = 5,
                                   .max_inputs = 5,
                                   .n_outputs = 1,
                                   .granularity = FTH_PER_TILE,
                                   .shape = shape,
                                   .gradient = gradient,
                                   .cost = cost,
                                   .run = run};

static fth_status sums_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(check(graph, node, err));
    FTH_TRY(fth_ops_need_same(graph, node, 0, 5, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    for (uint32_t i = 0; i < 3; i++)
        FTH_TRY(fth_ops_output_tiles(graph, node, i, columns, err));
    return fth_ops_output_like(graph, node, 3, 0, columns, err);
}

static void sums_run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *dy = &run->in[5];
    fth_kernels_get()->dice_sums(x->rows, x->columns, x->data, x->ld, run->in[1].data,
                                 run->in[2].data, run->in[4].data, dy->data, dy->ld,
                                 run->out[0].data, run->out[1].data, run->out[2].data,
                                 run->out[3].data, run->out[3].ld);
}

const struct fth_op fth_op_dice_sums = {.name = "dice_sums",
                                        .min_inputs = 6,
                                        .max_inputs = 6,
                                        .n_outputs = 4,
                                        .granularity = FTH_PER_TILE,
                                        .shape = sums_shape,
                                        .cost = cost,
                                        .run = sums_run};

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(check(graph, node, err));
    FTH_TRY(fth_ops_need_same(graph, node, 0, 5, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    for (uint32_t i = 6; i < 9; i++)
        FTH_TRY(fth_ops_need_whole(graph, node, i, 1, columns, err));
    return fth_ops_output_like(graph, node, 0, 0, columns, err);
}

static void grad_run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *dy = &run->in[5], *dx = &run->out[0];
    fth_kernels_get()->dice_grad(x->rows, x->columns, x->data, x->ld, run->in[1].data,
                                 run->in[2].data, run->in[4].data, dy->data, dy->ld,
                                 run->in[6].data, run->in[7].data, run->in[8].data, dx->data, dx->ld);
}

const struct fth_op fth_op_dice_grad = {.name = "dice_grad",
                                        .min_inputs = 9,
                                        .max_inputs = 9,
                                        .n_outputs = 1,
                                        .granularity = FTH_PER_TILE,
                                        .shape = grad_shape,
                                        .cost = cost,
                                        .run = grad_run};
