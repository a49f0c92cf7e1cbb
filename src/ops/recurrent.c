/* gru(x, U, scores or none, W or none, b) and lstm(x, U, none, W or none, b): recurrent layers over an example's
 * positions, forwards or (`reverse`) from the last to the first. kernels.h has the arithmetic. Outputs the state at
 * every position and what the gradient needs.
 *
 * With W the input is x W + b, made at every step from the rows of x; without it x is x W already, one product over
 * all positions before the loop (pass gate_split). What must stay in the loop is one dense product a step, of the
 * states of the examples still running with U (recurrent.h), and a kernel over the gates. */
#include "ops/recurrent.h"

#include <string.h>

enum { X = FTH_RECURRENT_X, U, SCORE, W, B };

int fth_recurrent_is_lstm(const struct fth_node *node) {
    return node->op == &fth_op_lstm || node->op == &fth_op_lstm_grad;
}

void fth_recurrent_print(const struct fth_node *node, struct fth_text *out) {
    const struct fth_recurrent_attributes *a = node->attributes;
    fth_text_printf(out, a->reverse ? "reverse" : "forward");
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    int lstm = fth_recurrent_is_lstm(node);
    uint32_t gates = fth_recurrent_gates(lstm);
    FTH_TRY(fth_ops_need_positions(graph, node, X, err));
    FTH_TRY(fth_ops_need(graph, node, U, err));
    struct fth_value x = fth_ops_input(graph, node, X), u = fth_ops_input(graph, node, U);
    if (u.rows < 2)
        return fth_fail(err, FTH_E_ARGUMENT, "%u units are too few, a recurrent layer takes 2 or more", u.rows);
    FTH_TRY(fth_ops_need_whole(graph, node, U, u.rows, gates * u.rows, err));
    FTH_TRY(fth_ops_need(graph, node, B, err));
    FTH_TRY(fth_ops_need_whole(graph, node, B, 1, gates * u.rows, err));
    if (fth_recurrent_has(node, W))
        FTH_TRY(fth_ops_need_whole(graph, node, W, x.columns, gates * u.rows, err));
    else if (x.columns != gates * u.rows)
        return fth_fail(err, FTH_E_ARGUMENT, "input %d has %u columns, %u units take %u", X, x.columns, u.rows,
                        gates * u.rows);
    if (fth_recurrent_has(node, SCORE)) {
        FTH_TRY(fth_ops_need_same_rows(graph, node, X, SCORE, err));
        if (lstm || fth_ops_input(graph, node, SCORE).columns != 1)
            return fth_fail(err, FTH_E_ARGUMENT, "scores are for gru, one number a position");
    }
    FTH_TRY(fth_ops_output_like(graph, node, 0, X, u.rows, err));
    return fth_ops_output_like(graph, node, 1, X, fth_recurrent_kept(lstm) * u.rows, err);
}

/* The gates' inputs of one step from the rows of x. */
static void inputs_of_step(const struct fth_run *run, const uint32_t *rows, uint32_t n) {
    const struct fth_recurrent_state *state = run->prepared;
    const struct fth_step_product *input = &state->input;
    const struct fth_view *x = &run->in[X];
    fth_steps_gather(n, rows, x->columns, x->data, x->ld, fth_ops_at(run, input->x), input->ldx);
    fth_step_product_run(run, input, n);
}

static void run(const struct fth_run *run) {
    const struct fth_recurrent_attributes *a = run->node->attributes;
    const struct fth_recurrent_state *state = run->prepared;
    const struct fth_step_product *recurrent = &state->recurrent;
    const struct fth_view *x = &run->in[X], *states = &run->out[0], *kept = &run->out[1];
    const struct fth_kernels *k = fth_kernels_get();
    int lstm = fth_recurrent_is_lstm(run->node), split = !fth_recurrent_has(run->node, W);
    uint32_t *rows = (uint32_t *)fth_ops_at(run, state->rows), *next = (uint32_t *)fth_ops_at(run, state->other);
    float *h = fth_ops_at(run, recurrent->x), *c = fth_ops_at(run, state->cell);
    struct fth_steps steps;
    fth_steps_make(x->offsets, run->examples, a->reverse, (uint32_t *)fth_ops_at(run, state->steps), &steps);
    size_t bytes = (size_t)run->examples * recurrent->ldx * sizeof(float);
    memset(h, 0, bytes);
    if (lstm)
        memset(c, 0, bytes);
    struct fth_recurrent step = {.n = states->columns,
                                 .rows = rows,
                                 .next = next,
                                 .x = split ? x->data : fth_ops_at(run, state->input.y),
                                 .ldx = split ? x->ld : state->input.ldy,
                                 .x_by_step = !split,
                                 .bias = run->in[B].data,
                                 .r = fth_ops_at(run, recurrent->y),
                                 .ldr = recurrent->ldy,
                                 .score = fth_recurrent_has(run->node, SCORE) ? run->in[SCORE].data : NULL,
                                 .h = h,
                                 .c = c,
                                 .ldh = recurrent->ldx,
                                 .ldc = recurrent->ldx,
                                 .states = states->data,
                                 .lds = states->ld,
                                 .kept = kept->data,
                                 .ldk = kept->ld};
    for (uint32_t t = 0; t < steps.longest; t++) {
        step.m = steps.running[t];
        step.n_next = t + 1 < steps.longest ? steps.running[t + 1] : 0;
        fth_steps_rows(&steps, t, (uint32_t)step.m, rows);
        fth_steps_rows(&steps, t + 1, (uint32_t)step.n_next, next);
        fth_step_product_run(run, recurrent, (uint32_t)step.m);
        if (!split)
            inputs_of_step(run, rows, (uint32_t)step.m);
        (lstm ? k->lstm : k->gru)(&step);
    }
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    struct fth_value x = fth_ops_input(graph, node, X), u = fth_ops_input(graph, node, U);
    fth_ops_cost(graph, node, examples, positions, out);
    double in = fth_recurrent_has(node, W) ? x.columns : 0;
    out->flops = positions * u.columns * (2 * (u.rows + in) + 20); /* 20: a sigmoid */
}

#define OP(called)                                                                                  \
    {                                                                                               \
        .name = called, .min_inputs = 5, .max_inputs = 5, .n_outputs = 2,                           \
        .granularity = FTH_PER_TILE, .fp32 = 1, .shape = shape,                                     \
        .gradient = fth_recurrent_gradient, .prepare = fth_recurrent_prepare,                       \
        .release = fth_recurrent_release, .cost = cost, .print = fth_recurrent_print, .run = run    \
    }

const struct fth_op fth_op_gru = OP("gru");
const struct fth_op fth_op_lstm = OP("lstm");
