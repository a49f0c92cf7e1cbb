/* linear_rounded(x, W, bias or none) and linear_data_grad_rounded(dy, W, none, positive or none): linear and
 * linear_data_grad of tiles (kernels/tiles.h) whose result only such products read (pass round_once). A panel of
 * columns is finished and rounded where it was made, in cache, and its floats are never written:
 *
 *   linear_rounded             act(x W + bias) by rows and turned; a bit for each number that is not <= 0
 *   linear_data_grad_rounded   dy W^T, 0 where `positive` has no bit, by rows and in pairs; the sums of the tiles' rows
 *
 * The same bits as linear, linear_data_grad, col_sum and to_tiles. */
#include "kernels/tiles.h"
#include "ops/ops_private.h"

static uint32_t words(uint32_t columns) {
    return (columns + 31) / 32;
}

/* Outputs 0 and 1. */
static fth_status shape_tiles(fth_graph *graph, struct fth_node *node, uint32_t columns, fth_tiles_way way,
                              fth_error *err) {
    int weight = node->inputs[1] != FTH_NONE && graph->values[node->inputs[1]].panels;
    if (fth_ops_input(graph, node, 0).tiles != FTH_TILES_ROWS || !weight)
        return fth_fail(err, FTH_E_ARGUMENT, "its input is not in tiles by rows, or its weight not in panels");
    for (uint32_t i = 0; i < 2; i++) {
        FTH_TRY(fth_ops_output_like(graph, node, i, 0, columns, err));
        graph->values[node->outputs[i]].tiles = i ? (int)way : FTH_TILES_ROWS;
    }
    return FTH_OK;
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    struct fth_value x = fth_ops_input(graph, node, 0), w = fth_ops_input(graph, node, 1);
    FTH_TRY(fth_ops_need_whole(graph, node, 1, x.columns, w.columns, err));
    if (fth_ops_input(graph, node, 2).id != FTH_NONE)
        FTH_TRY(fth_ops_need_whole(graph, node, 2, 1, w.columns, err));
    if (fth_linear_act(node) != FTH_ACT_NONE && fth_linear_act(node) != FTH_ACT_RELU)
        return fth_fail(err, FTH_E_ARGUMENT, "its activation is neither none nor ReLU");
    FTH_TRY(shape_tiles(graph, node, w.columns, FTH_TILES_TURNED, err));
    return fth_ops_output_like(graph, node, 2, 0, words(w.columns), err);
}

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    struct fth_value dy = fth_ops_input(graph, node, 0), w = fth_ops_input(graph, node, 1);
    FTH_TRY(fth_ops_need_whole(graph, node, 1, w.rows, dy.columns, err));
    if (fth_ops_input(graph, node, 3).id != FTH_NONE) {
        FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 3, err));
        if (fth_ops_input(graph, node, 3).columns != words(w.rows))
            return fth_fail(err, FTH_E_ARGUMENT, "input 3 has %u columns, not %u",
                            fth_ops_input(graph, node, 3).columns, words(w.rows));
    }
    FTH_TRY(shape_tiles(graph, node, w.rows, FTH_TILES_PAIRS, err));
    return fth_ops_output_tiles(graph, node, 2, w.rows, err);
}

/* In scratch: a panel of floats, or two, `second` floats apart, where a panel is stored between the products of the next
 * one (bf16x3 and bf16x6); how far that is; and of gradients the tiles' sums with room for the last word's columns. */
struct state {
    fth_gemm *product;
    size_t panels, second, steps, sums;
    uint32_t tile;
};

static uint32_t rows_at_once(int precision) {
    return fth_gemm_cut((fth_precision)precision).tile;
}

/* sums: how many tiles'. */
static fth_status product_prepare(struct fth_prepare *prepare, uint32_t n, uint32_t k, uint32_t sums, fth_error *err) {
    struct state *state = fth_ops_state(prepare, sizeof *state, err);
    if (!state)
        return FTH_E_MEMORY;
    uint32_t most = rows_at_once(prepare->precision), rows = prepare->in[0].rows;
    struct fth_gemm_shape gemm = {.form = FTH_GEMM_NN,
                                  .m = rows < most ? rows : most,
                                  .n = n,
                                  .k = k,
                                  .lda = prepare->in[0].ld,
                                  .ldc = FTH_GEMM_PASSING,
                                  .passing = 1,
                                  .panels = 1,
                                  .tiles = 1,
                                  .precision = (fth_precision)prepare->precision};
    size_t panel = (size_t)gemm.m * gemm.ldc;
    state->second = fth_gemm_parts(gemm.precision) > 1 ? panel : 0;
    state->panels = fth_ops_section(&prepare->scratch_bytes, panel + state->second);
    state->steps = fth_ops_section(&prepare->scratch_bytes, sizeof(struct fth_tiles_steps) / sizeof(float));
    state->sums = fth_ops_section(&prepare->scratch_bytes, (size_t)sums * words(n) * 32);
    state->tile = prepare->tile;
    return fth_ops_product(prepare, &gemm, &state->product, err);
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    return product_prepare(prepare, prepare->in[1].columns, prepare->in[1].rows, 0, err);
}
static fth_status grad_prepare(struct fth_prepare *prepare, fth_error *err) {
    return product_prepare(prepare, prepare->in[1].rows, prepare->in[1].columns, prepare->out[2].rows, err);
}

static void release(void *prepared) {
    struct state *state = prepared;
    fth_gemm_destroy(state->product);
    fth_free(state);
}

static void print(const struct fth_node *node, struct fth_text *out) {
    fth_text_printf(out, "act=%s", fth_ops_act_name(fth_linear_act(node)));
}

/* Where the rows of all panels go, and the panel that is being stored: while the next one is multiplied, if there are two. */
struct stored {
    struct fth_tiles_store to;
    struct fth_tiles_steps *steps;
    const float *panels;
    size_t second; /* 0: there is one */
};

static void panel_done(void *stored, uint32_t column, uint32_t columns) {
    struct stored *s = stored;
    fth_tiles_steps_end(s->steps);
    s->to.x = s->panels + column / FTH_PANEL % 2 * s->second;
    fth_tiles_steps_begin(s->steps, &s->to, column, columns);
    if (s->second == 0)
        fth_tiles_steps_end(s->steps);
}

static void panel_step(void *stored) {
    const struct stored *s = stored;
    fth_tiles_steps_next(s->steps);
}

/* Tiles that nobody reads stay NULL. */
static float *from_row(float *tiles, uint32_t row, size_t ld) {
    return tiles ? tiles + row * ld : NULL;
}

/* sum_rows: a tile's, whose sums are its own. */
static void run_rows(const struct fth_run *run, const float *weights, struct stored *stored) {
    const struct state *state = run->prepared;
    const struct fth_view *x = &run->in[0], *by_rows = &run->out[0], *summed = &run->out[1];
    uint32_t most = rows_at_once((int)fth_gemm_precision(state->product));
    float *panels = fth_ops_at(run, state->panels), *sums = stored->to.sums;
    struct fth_tiles_store *to = &stored->to;
    stored->steps = (struct fth_tiles_steps *)(void *)fth_ops_at(run, state->steps);
    stored->steps->row = stored->steps->at = stored->steps->store.rows = 0; /* nothing to be done */
    stored->panels = panels;
    stored->second = state->second;
    const struct fth_gemm_finish finish = {panel_done, stored, stored->second ? panel_step : NULL, state->second};
    to->ldx = FTH_GEMM_PASSING;
    to->ld = by_rows->ld;
    to->way = (fth_tiles_way)summed->tiles;
    to->precision = (fth_precision)by_rows->precision;
    for (uint32_t row = 0; row < x->rows; row += most) {
        to->rows = x->rows - row < most ? x->rows - row : most;
        to->by_rows = from_row(by_rows->data, row, to->ld);
        to->summed = from_row(summed->data, row, to->ld);
        to->sums = sums ? sums + row / to->sum_rows * to->ld_sums : NULL;
        fth_gemm_run_finish(state->product, to->rows, x->data + (size_t)row * x->ld, weights, panels, NULL, &finish);
        fth_tiles_steps_end(stored->steps);
        to->positive = to->positive ? to->positive + most * to->ld_positive : NULL;
        to->keep = to->keep ? to->keep + most * to->ld_keep : NULL;
    }
}

static void run(const struct fth_run *run) {
    const struct fth_view *positive = &run->out[2];
    struct stored stored = {.to = {.bias = run->node->n_inputs > 2 ? run->in[2].data : NULL,
                                   .relu = fth_linear_act(run->node) == FTH_ACT_RELU,
                                   .positive = (uint32_t *)(void *)positive->data,
                                   .ld_positive = positive->ld}};
    run_rows(run, run->in[1].panels, &stored);
}

/* Rows of several tiles are never more than a product takes at a time; those of one may be, and have one sum. */
static void grad_run(const struct fth_run *run) {
    const struct state *state = run->prepared;
    const struct fth_view *w = &run->in[1], *sums = &run->out[2];
    const struct fth_view *positive = run->node->n_inputs > 3 ? &run->in[3] : NULL;
    float *made = fth_ops_at(run, state->sums);
    size_t room = (size_t)words(w->rows) * 32;
    struct stored stored = {.to = {.keep = positive ? (const uint32_t *)(const void *)positive->data : NULL,
                                   .ld_keep = positive ? positive->ld : 0,
                                   .sums = made, .sum_rows = state->tile, .ld_sums = room}};
    memset(made, 0, sums->rows * room * sizeof *made);
    run_rows(run, w->transposed, &stored);
    for (uint32_t i = 0; i < sums->rows; i++)
        memcpy(sums->data + (size_t)i * sums->ld, made + i * room, w->rows * sizeof *made);
}

const struct fth_op fth_op_linear_rounded = {.name = "linear_rounded",
                                             .min_inputs = 2,
                                             .max_inputs = 3,
                                             .n_outputs = 3,
                                             .granularity = FTH_PER_TILE,
                                             .spans = 1,
                                             .shape = shape,
                                             .prepare = prepare,
                                             .release = release,
                                             .cost = fth_ops_product_cost,
                                             .print = print,
                                             .run = run};

const struct fth_op fth_op_linear_data_grad_rounded = {.name = "linear_data_grad_rounded",
                                                       .min_inputs = 2,
                                                       .max_inputs = 4,
                                                       .n_outputs = 3,
                                                       .granularity = FTH_PER_TILE,
                                                       .spans = 1,
                                                       .inputs_transposed = 1 << 1,
                                                       .shape = grad_shape,
                                                       .prepare = grad_prepare,
                                                       .release = release,
                                                       .cost = fth_ops_product_cost,
                                                       .run = grad_run};
