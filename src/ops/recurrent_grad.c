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

struct state {
    struct fth_step_product recurrent, input;
    uint32_t tile, positions;
};

struct scratch {
    void *steps, *product;
    uint32_t *rows, *previous;
    float *dh, *dc, *dr, *gates, *dx;
};

static size_t cut(const struct state *state, int lstm, char *base, struct scratch *out) {
    struct fth_cutter cutter = {base, 0};
    size_t rows = state->tile * sizeof(float);
    out->steps = fth_cut(&cutter, fth_steps_bytes(state->tile, state->positions));
    out->rows = fth_cut(&cutter, state->tile * sizeof *out->rows);
    out->previous = fth_cut(&cutter, state->tile * sizeof *out->previous);
    out->dh = fth_cut(&cutter, rows * state->recurrent.ldy);
    out->dc = fth_cut(&cutter, lstm ? rows * state->recurrent.ldy : 0);
    out->dr = fth_cut(&cutter, rows * state->recurrent.ldx);
    out->gates = fth_cut(&cutter, rows * state->input.ldx);
    out->dx = fth_cut(&cutter, rows * state->input.ldy);
    size_t products = fth_gemm_scratch(state->recurrent.gemm, state->tile);
    if (state->input.gemm && fth_gemm_scratch(state->input.gemm, state->tile) > products)
        products = fth_gemm_scratch(state->input.gemm, state->tile);
    out->product = fth_cut(&cutter, products);
    return cutter.used;
}

static void release(void *prepared) {
    struct state *state = prepared;
    fth_gemm_destroy(state->recurrent.gemm);
    fth_gemm_destroy(state->input.gemm);
    fth_free(state);
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    struct state *state = fth_alloc(1, sizeof *state);
    struct scratch scratch;
    if (!state)
        return fth_fail(err, FTH_E_MEMORY, "out of memory");
    state->tile = prepare->tile;
    state->positions = prepare->in[DY].rows;
    fth_status status = fth_step_product_make(prepare, U, 1, 1, &state->recurrent, err);
    if (status == FTH_OK && fth_recurrent_has(prepare->node, W))
        status = fth_step_product_make(prepare, W, 1, 0, &state->input, err);
    if (status != FTH_OK) {
        release(state);
        return status;
    }
    prepare->prepared = state;
    prepare->scratch_bytes = cut(state, fth_recurrent_is_lstm(prepare->node), NULL, &scratch);
    return FTH_OK;
}

static void clear_rows(float *x, size_t ld, uint32_t from, uint32_t to) {
    if (x)
        memset(x + from * ld, 0, (to - from) * ld * sizeof *x);
}

static void inputs_of_step(const struct fth_run *run, const struct state *state, const struct scratch *s,
                           uint32_t n) {
    const struct fth_view *gates = &run->out[GATES], *dx = &run->out[DX];
    fth_steps_gather(n, s->rows, run->in[W].columns, gates->data, gates->ld, s->gates, state->input.ldx);
    fth_step_product_run(&state->input, &run->in[W], n, s->gates, s->dx, s->product);
    fth_steps_scatter(n, s->rows, dx->columns, s->dx, state->input.ldy, dx->data, dx->ld);
}

static void run(const struct fth_run *run) {
    const struct fth_recurrent_attributes *a = run->node->attributes;
    const struct state *state = run->prepared;
    const struct fth_view *in = run->in, *out = run->out;
    const struct fth_kernels *k = fth_kernels_get();
    int lstm = fth_recurrent_is_lstm(run->node), unsplit = fth_recurrent_has(run->node, W);
    size_t ld = state->recurrent.ldy;
    struct scratch s;
    struct fth_steps steps;
    cut(state, lstm, run->scratch, &s);
    fth_steps_make(in[DY].offsets, run->examples, a->reverse, s.steps, &steps);
    struct fth_recurrent_grad step = {.n = in[DY].columns,
                                      .rows = s.rows,
                                      .kept = in[KEPT].data,
                                      .ldk = in[KEPT].ld,
                                      .states = in[STATES].data,
                                      .lds = in[STATES].ld,
                                      .dy = in[DY].data,
                                      .lddy = in[DY].ld,
                                      .score = fth_recurrent_has(run->node, SCORE) ? in[SCORE].data : NULL,
                                      .dh = s.dh,
                                      .lddh = ld,
                                      .dc = s.dc,
                                      .lddc = ld,
                                      .gates = out[GATES].data,
                                      .ldg = out[GATES].ld,
                                      .before = out[BEFORE].data,
                                      .ldb = out[BEFORE].ld,
                                      .dr = s.dr,
                                      .lddr = state->recurrent.ldx,
                                      .dscore = out[DSCORE].data};
    uint32_t running = 0;
    for (uint32_t t = steps.longest; t-- > 0;) {
        uint32_t n = steps.running[t];
        /* Nothing comes from behind to an example whose last step this is. */
        clear_rows(s.dh, ld, running, n);
        clear_rows(lstm ? s.dc : NULL, ld, running, n);
        running = n;
        step.m = n;
        fth_steps_rows(&steps, t, n, s.rows);
        if (t)
            fth_steps_rows(&steps, t - 1, n, s.previous);
        step.previous = t ? s.previous : NULL;
        (lstm ? k->lstm_grad : k->gru_grad)(&step);
        if (t)
            fth_step_product_run(&state->recurrent, &in[U], n, s.dr, s.dh, s.product);
        if (unsplit)
            inputs_of_step(run, state, &s, n);
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
        .granularity = FTH_PER_TILE, .resource = FTH_COMPUTE, .inputs_transposed = 1 << U | 1 << W, \
        .shape = shape, .prepare = prepare, .release = release, .cost = cost,                      \
        .print = fth_recurrent_print, .run = run                                                   \
    }

const struct fth_op fth_op_gru_grad = GRAD_OP("gru_grad");
const struct fth_op fth_op_lstm_grad = GRAD_OP("lstm_grad");
