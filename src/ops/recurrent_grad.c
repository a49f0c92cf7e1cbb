/* gru_grad(dy, U, scores or none, W or none, states, kept) and lstm_grad: backwards in time. Outputs, a row a
 * position each:
 *   gates    gradients of what the gates take in (kernels.h)    before   the state before
 *   dscore   where scores are                                   dx       with W: the gradient of x, step by step
 * so that the gradients of U (and W) are one product over all positions, by the nodes that linear layers have; what
 * is not there is one column that nobody reads. Of a GRU's gates columns [0, 3n) are those of x, [n, 4n) those of the
 * products with U. */
#include "ops/recurrent.h"

#include <string.h>

enum { DY, U, SCORE, W, STATES, KEPT };
enum { GATES, BEFORE, DSCORE, DX };

fth_status fth_recurrent_gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                                  fth_id *d_inputs, fth_error *err) {
    const fth_id *in = node->inputs;
    int lstm = fth_recurrent_is_lstm(node), split = !fth_recurrent_has(node, FTH_RECURRENT_W);
    uint32_t n = fth_ops_input(graph, node, FTH_RECURRENT_U).rows;
    fth_id inputs[6] = {d_outputs[0], in[FTH_RECURRENT_U], in[FTH_RECURRENT_SCORE],
                        in[FTH_RECURRENT_W], node->outputs[0], node->outputs[1]};
    fth_id made[4], dx, dr;
    FTH_TRY(fth_graph_node(graph, lstm ? &fth_op_lstm_grad : &fth_op_gru_grad, node->name, inputs, 6,
                           node->attributes, sizeof(struct fth_recurrent_attributes), made, err));
    dx = dr = made[GATES];
    if (!lstm) {
        FTH_TRY(fth_graph_view(graph, made[GATES], 0, 3 * n, &dx, err));
        FTH_TRY(fth_graph_view(graph, made[GATES], n, 3 * n, &dr, err));
    }
    fth_id recurrent[2] = {made[BEFORE], dr}, weights[2] = {in[FTH_RECURRENT_X], dx};
    if (fth_ops_wants(graph, node, FTH_RECURRENT_U))
        FTH_TRY(fth_graph_node(graph, &fth_op_linear_weight_grad, node->name, recurrent, 2, NULL, 0,
                               &d_inputs[FTH_RECURRENT_U], err));
    if (fth_ops_wants(graph, node, FTH_RECURRENT_W))
        FTH_TRY(fth_graph_node(graph, &fth_op_linear_weight_grad, node->name, weights, 2, NULL, 0,
                               &d_inputs[FTH_RECURRENT_W], err));
    if (fth_ops_wants(graph, node, FTH_RECURRENT_B))
        FTH_TRY(fth_graph_node(graph, &fth_op_col_sum, node->name, &dx, 1, NULL, 0,
                               &d_inputs[FTH_RECURRENT_B], err));
    d_inputs[FTH_RECURRENT_X] = split ? dx : made[DX];
    d_inputs[FTH_RECURRENT_SCORE] = made[DSCORE];
    return FTH_OK;
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_positions(graph, node, DY, err));
    FTH_TRY(fth_ops_need(graph, node, U, err));
    struct fth_value dy = fth_ops_input(graph, node, DY), w = fth_ops_input(graph, node, W);
    FTH_TRY(fth_ops_need_whole(graph, node, U, dy.columns,
                               fth_recurrent_gates(fth_recurrent_is_lstm(node)) * dy.columns, err));
    FTH_TRY(fth_ops_need_same(graph, node, DY, STATES, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, DY, KEPT, err));
    FTH_TRY(fth_ops_output_like(graph, node, GATES, DY, 4 * dy.columns, err));
    FTH_TRY(fth_ops_output_like(graph, node, BEFORE, DY, dy.columns, err));
    FTH_TRY(fth_ops_output_like(graph, node, DSCORE, DY, 1, err));
    return fth_ops_output_like(graph, node, DX, DY, w.id == FTH_NONE ? 1 : w.rows, err);
}

static void clear_rows(float *x, size_t ld, uint32_t from, uint32_t to) {
    if (x)
        memset(x + from * ld, 0, (to - from) * ld * sizeof *x);
}

static void inputs_of_step(const struct fth_run *run, const uint32_t *rows, uint32_t n) {
    const struct fth_recurrent_state *state = run->prepared;
    const struct fth_step_product *input = &state->input;
    const struct fth_view *gates = &run->out[GATES], *dx = &run->out[DX];
    fth_steps_gather(n, rows, input->k, gates->data, gates->ld, fth_ops_at(run, input->x), input->ldx);
    fth_step_product_run(run, input, n);
    fth_steps_scatter(n, rows, dx->columns, fth_ops_at(run, input->y), input->ldy, dx->data, dx->ld);
}

static void run(const struct fth_run *run) {
    const struct fth_recurrent_attributes *a = run->node->attributes;
    const struct fth_recurrent_state *state = run->prepared;
    const struct fth_step_product *recurrent = &state->recurrent;
    const struct fth_view *in = run->in, *out = run->out;
    const struct fth_kernels *k = fth_kernels_get();
    int lstm = fth_recurrent_is_lstm(run->node), unsplit = fth_recurrent_has(run->node, W);
    size_t ld = recurrent->ldy;
    uint32_t *rows = (uint32_t *)fth_ops_at(run, state->rows), *previous = (uint32_t *)fth_ops_at(run, state->other);
    uint32_t *earlier = (uint32_t *)fth_ops_at(run, state->earlier);
    float *dh = fth_ops_at(run, recurrent->y), *dc = fth_ops_at(run, state->cell);
    struct fth_steps steps;
    fth_steps_make(in[DY].offsets, run->examples, a->reverse, (uint32_t *)fth_ops_at(run, state->steps), &steps);
    struct fth_recurrent_grad step = {.n = in[DY].columns,
                                      .rows = rows,
                                      .kept = in[KEPT].data,
                                      .ldk = in[KEPT].ld,
                                      .states = in[STATES].data,
                                      .lds = in[STATES].ld,
                                      .dy = in[DY].data,
                                      .lddy = in[DY].ld,
                                      .score = fth_recurrent_has(run->node, SCORE) ? in[SCORE].data : NULL,
                                      .dh = dh,
                                      .lddh = ld,
                                      .dc = dc,
                                      .lddc = ld,
                                      .gates = out[GATES].data,
                                      .ldg = out[GATES].ld,
                                      .before = out[BEFORE].data,
                                      .ldb = out[BEFORE].ld,
                                      .dr = fth_ops_at(run, recurrent->x),
                                      .lddr = recurrent->ldx,
                                      .dscore = out[DSCORE].data};
    uint32_t running = 0;
    for (uint32_t t = steps.longest; t-- > 0;) {
        uint32_t n = steps.running[t];
        /* Nothing comes from behind to an example whose last step this is. */
        clear_rows(dh, ld, running, n);
        clear_rows(lstm ? dc : NULL, ld, running, n);
        running = n;
        step.m = n;
        fth_steps_rows(&steps, t, n, rows);
        if (t)
            fth_steps_rows(&steps, t - 1, n, previous);
        if (t > 1)
            fth_steps_rows(&steps, t - 2, n, earlier);
        step.previous = t ? previous : NULL;
        step.earlier = t > 1 ? earlier : NULL;
        (lstm ? k->lstm_grad : k->gru_grad)(&step);
        if (t)
            fth_step_product_run(run, recurrent, n);
        if (unsplit)
            inputs_of_step(run, rows, n);
    }
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    struct fth_value u = fth_ops_input(graph, node, U), w = fth_ops_input(graph, node, W);
    fth_ops_cost(graph, node, examples, positions, out);
    double in = w.id == FTH_NONE ? 0 : w.rows;
    out->flops = positions * u.columns * (2 * (u.rows + in) + 8);
}

#define GRAD_OP(called)                                                                            \
    {                                                                                              \
        .name = called, .min_inputs = 6, .max_inputs = 6, .n_outputs = 4,                          \
        .granularity = FTH_PER_TILE, .inputs_transposed = 1 << U | 1 << W,                         \
        .fp32 = 1, .shape = shape, .prepare = fth_recurrent_prepare,                               \
        .release = fth_recurrent_release, .cost = cost, .print = fth_recurrent_print, .run = run   \
    }

const struct fth_op fth_op_gru_grad = GRAD_OP("gru_grad");
const struct fth_op fth_op_lstm_grad = GRAD_OP("lstm_grad");
