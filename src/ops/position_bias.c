/* position_bias(x, w): adds to each position's row the row of w that belongs to where the position stands (ops.h:
 * its number in its segment, or its session's number); numbers beyond w's rows take the last. A w of n columns is a
 * position embedding, one of a single column the session or position part of DSIN's bias encoding (Feng et al. 2019,
 * eq. 2). The gradient of x is dy itself; that of w one part a tile. */
#include <string.h>

#include "ops/ops_private.h"

static const struct fth_position_bias_attributes *attributes(const struct fth_node *node) {
    return node->attributes;
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    const struct fth_position_bias_attributes *a = attributes(node);
    FTH_TRY(fth_ops_need_segments(graph, node, 0, a->sessions, err));
    FTH_TRY(fth_ops_need_whole(graph, node, 1, a->rows, a->columns, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    if (a->columns != 1 && a->columns != columns)
        return fth_fail(err, FTH_E_ARGUMENT, "input 1 has %u columns, it takes one or %u", a->columns,
                        columns);
    if (a->index == FTH_SESSION_FROM_END && a->sessions == FTH_NO_SESSIONS)
        return fth_fail(err, FTH_E_ARGUMENT, "sessions are to be counted, but there are none");
    return fth_ops_output_like(graph, node, 0, 0, columns, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    d_inputs[0] = d_outputs[0];
    if (!fth_ops_wants(graph, node, 1))
        return FTH_OK;
    return fth_graph_node(graph, &fth_op_position_bias_grad, node->name, d_outputs, 1,
                          node->attributes, sizeof(struct fth_position_bias_attributes), &d_inputs[1],
                          err);
}

static void print(const struct fth_node *node, struct fth_text *out) {
    static const char *const names[] = {"from_start", "from_end", "session_from_end"};
    fth_text_printf(out, "%s", names[attributes(node)->index]);
    fth_ops_print_sessions(attributes(node)->sessions, out);
}

/* Calls `each` with every position of the tile and its row of w. */
static void positions(const struct fth_run *run, const struct fth_view *x,
                      void (*each)(const struct fth_run *run, uint32_t position, uint32_t row)) {
    const struct fth_position_bias_attributes *a = attributes(run->node);
    struct fth_segments s = fth_ops_segments(run, x, a->sessions);
    uint32_t example = 0, after = 0; /* sessions of this and earlier examples */
    for (uint32_t i = 0; i < s.n; i++) {
        const uint32_t *sessions =
            a->sessions < 0 ? NULL
                            : run->sessions[a->sessions - FTH_SESSIONS].offsets + run->example0;
        while (sessions && i >= after)
            after = sessions[++example] - sessions[0];
        uint32_t rows = s.offsets[i + 1] - s.offsets[i];
        for (uint32_t t = 0; t < rows; t++) {
            uint32_t index = a->index == FTH_POSITION_FROM_START ? t
                             : a->index == FTH_POSITION_FROM_END ? rows - 1 - t
                                                                 : after - 1 - i;
            each(run, s.offsets[i] - s.offsets[0] + t, index < a->rows ? index : a->rows - 1);
        }
    }
}

static void add_row(const struct fth_run *run, uint32_t position, uint32_t row) {
    const struct fth_view *x = &run->in[0], *w = &run->in[1], *y = &run->out[0];
    const float *from = x->data + (size_t)position * x->ld, *add = w->data + (size_t)row * w->ld;
    float *to = y->data + (size_t)position * y->ld;
    if (w->columns == x->columns) {
        fth_kernels_get()->add(1, x->columns, from, x->ld, add, w->ld, to, y->ld);
        return;
    }
    for (uint32_t j = 0; j < x->columns; j++)
        to[j] = from[j] + *add;
}

static void run(const struct fth_run *run) {
    positions(run, &run->in[0], add_row);
}

const struct fth_op fth_op_position_bias = {.name = "position_bias",
                                            .min_inputs = 2,
                                            .max_inputs = 2,
                                            .n_outputs = 1,
                                            .granularity = FTH_PER_TILE,
                                            .shape = shape,
                                            .gradient = gradient,
                                            .cost = fth_ops_cost,
                                            .print = print,
                                            .run = run};

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    const struct fth_position_bias_attributes *a = attributes(node);
    FTH_TRY(fth_ops_need_segments(graph, node, 0, a->sessions, err));
    return fth_ops_output_tiles(graph, node, 0, a->rows * a->columns, err);
}

static fth_status grad_prepare(struct fth_prepare *prepare, fth_error *err) {
    prepare->scratch_bytes =
        (size_t)attributes(prepare->node)->rows * prepare->in[0].columns * sizeof(float);
    return FTH_OK;
}

static void sum_row(const struct fth_run *run, uint32_t position, uint32_t row) {
    const struct fth_view *dy = &run->in[0];
    float *sum = (float *)run->scratch + (size_t)row * dy->columns;
    fth_kernels_get()->add(1, dy->columns, sum, dy->columns, dy->data + (size_t)position * dy->ld,
                           dy->ld, sum, dy->columns);
}

/* Rows are summed whole; what one column gets is summed up at the end. */
static void grad_run(const struct fth_run *run) {
    const struct fth_position_bias_attributes *a = attributes(run->node);
    uint32_t columns = run->in[0].columns;
    const float *sums = run->scratch;
    float *out = run->out[0].data;
    memset(run->scratch, 0, (size_t)a->rows * columns * sizeof(float));
    positions(run, &run->in[0], sum_row);
    if (a->columns == columns) {
        memcpy(out, sums, (size_t)a->rows * columns * sizeof(float));
        return;
    }
    for (uint32_t row = 0; row < a->rows; row++) {
        out[row] = 0;
        for (uint32_t j = 0; j < columns; j++)
            out[row] += sums[(size_t)row * columns + j];
    }
}

const struct fth_op fth_op_position_bias_grad = {.name = "position_bias_grad",
                                                 .min_inputs = 1,
                                                 .max_inputs = 1,
                                                 .n_outputs = 1,
                                                 .granularity = FTH_PER_TILE,
                                                 .shape = grad_shape,
                                                 .prepare = grad_prepare,
                                                 .cost = fth_ops_cost,
                                                 .print = print,
                                                 .run = grad_run};
