/* factor_linear(x, W, bias or none, y0, W') -> y, x': on a tile's rows, act(y0 + x' W' + bias), where of x' only the columns
 * count whose fields are not factorised forward in this batch, its first; those behind them, not factorised backward, are
 * kept for the weight gradient alone. When none is factorised, and in evaluation: act(x W + bias).
 * factor_data_grad(dy, W, W'^T, sum or none) -> dx: the gradient of what is not factorised backward; added to `sum`, which
 * lies in dx' own memory and may be some of its columns. */
#include <string.h>

#include "kernels/panels.h"
#include "ops/factor.h"

struct state {
    /* [lookups that are not factorised]; the last, none being factorised, on x and W; NULL: no columns */
    fth_gemm *products[FTH_FACTOR_LOOKUPS + 1];
    uint32_t ld; /* data gradient: of the product in scratch */
};

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    struct fth_value x = fth_ops_input(graph, node, 0), w = fth_ops_input(graph, node, 1);
    FTH_TRY(fth_ops_need_whole(graph, node, 1, x.columns, w.columns, err));
    if (node->inputs[2] != FTH_NONE)
        FTH_TRY(fth_ops_need_whole(graph, node, 2, 1, w.columns, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 3, err));
    FTH_TRY(fth_ops_need_whole(graph, node, 4, x.columns, w.columns, err));
    FTH_TRY(fth_factor_check(graph, node->attributes, x.columns, err));
    FTH_TRY(fth_ops_output_like(graph, node, 0, 0, w.columns, err));
    return fth_ops_output_like(graph, node, 1, 0, x.columns, err);
}

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    struct fth_value dy = fth_ops_input(graph, node, 0), w = fth_ops_input(graph, node, 1);
    FTH_TRY(fth_ops_need_whole(graph, node, 1, w.rows, dy.columns, err));
    FTH_TRY(fth_ops_need_whole(graph, node, 2, dy.columns, w.rows, err));
    FTH_TRY(fth_factor_check(graph, node->attributes, w.rows, err));
    if (fth_ops_input(graph, node, 3).id != FTH_NONE)
        FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 3, err));
    return fth_ops_output_like(graph, node, 0, 0, w.rows, err);
}

static void release(void *prepared) {
    struct state *state = prepared;
    for (uint32_t i = 0; i <= FTH_FACTOR_LOOKUPS; i++)
        fth_gemm_destroy(state->products[i]);
    fth_free(state);
}

/* `rest`: the shape of the products without the factorised columns, but for their number, which is
 * its k or (gradient) its n. */
static fth_status make_products(struct fth_prepare *prepare, const struct fth_gemm_shape *whole,
                                const struct fth_gemm_shape *rest, enum fth_factor_way way,
                                struct state *state, fth_error *err) {
    const struct fth_factor_attributes *a = prepare->node->attributes;
    FTH_TRY(fth_ops_product(prepare, whole, &state->products[a->n_lookups], err));
    for (uint32_t plain = 0; plain < a->n_lookups && prepare->training; plain++) {
        struct fth_gemm_shape shape = *rest;
        uint32_t columns = fth_factor_columns(a, way, plain);
        *(way == FTH_FACTOR_DATA ? &shape.n : &shape.k) = columns;
        /* A gradient of one column is no matrix product. */
        if (columns > (way == FTH_FACTOR_DATA ? 1 : 0))
            FTH_TRY(fth_gemm_create(&shape, FTH_GEMM_AUTO, prepare->tuning,
                                    &state->products[plain], err));
    }
    return FTH_OK;
}

static fth_status prepare_products(struct fth_prepare *prepare, const struct fth_gemm_shape *whole,
                                   const struct fth_gemm_shape *rest, enum fth_factor_way way,
                                   fth_error *err) {
    struct state *state = fth_ops_state(prepare, sizeof *state, err);
    if (!state)
        return FTH_E_MEMORY;
    state->ld = rest->ldc;
    return make_products(prepare, whole, rest, way, state, err);
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_view *x = &prepare->in[0], *w = &prepare->in[1];
    struct fth_gemm_shape whole = {.form = FTH_GEMM_NN,
                                   .m = x->rows,
                                   .n = w->columns,
                                   .k = w->rows,
                                   .lda = x->ld,
                                   .ldb = w->ld,
                                   .ldc = prepare->out[0].ld};
    struct fth_gemm_shape rest = whole;
    rest.lda = prepare->out[1].ld;
    rest.panels = 1;
    rest.accumulate = 1;
    return prepare_products(prepare, &whole, &rest, FTH_FACTOR_FORWARD, err);
}

static int has_sum(const struct fth_node *node) {
    return node->inputs[3] != FTH_NONE;
}

static fth_status check_sum(const fth_graph *graph, const struct fth_node *node, fth_error *err) {
    struct fth_value sum = fth_ops_input(graph, node, 3), dx = graph->values[node->outputs[0]];
    uint32_t from = fth_graph_column(graph, sum.id), to = fth_graph_column(graph, dx.id);
    if (fth_graph_root(graph, sum.id) != fth_graph_root(graph, dx.id) || from < to ||
        from + sum.columns > to + dx.columns)
        return fth_fail(err, FTH_E_ARGUMENT, "the sum, value %d, does not lie where the output does", (int)sum.id);
    return FTH_OK;
}

static fth_status grad_prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_view *dy = &prepare->in[0], *w = &prepare->in[1];
    struct fth_gemm_shape whole = {.form = FTH_GEMM_NN,
                                   .m = dy->rows,
                                   .n = w->rows,
                                   .k = w->columns,
                                   .lda = dy->ld,
                                   .ldb = w->ld_transposed,
                                   .ldc = prepare->out[0].ld};
    struct fth_gemm_shape rest = whole;
    rest.panels = 1;
    rest.zeros = fth_ops_zeros_of(prepare, prepare->node->inputs[0], FTH_NONE);
    rest.ldc = fth_padded_columns(w->rows);
    if (has_sum(prepare->node)) {
        FTH_TRY(check_sum(prepare->graph, prepare->node, err));
        whole.ldc = rest.ldc;
    }
    FTH_TRY(prepare_products(prepare, &whole, &rest, FTH_FACTOR_DATA, err));
    prepare->scratch_bytes = (size_t)dy->rows * rest.ldc * sizeof(float);
    return FTH_OK;
}

/* The factorised sums were written a phase ago, by columns: far away by now. What the product begins with; it asks
 * for the others itself. */
static void fetch(const struct fth_view *y) {
    for (uint32_t i = 0; i < y->rows; i++)
        for (uint32_t j = 0; j < y->columns && j < FTH_PANEL; j += FTH_CACHE_LINE / sizeof(float))
            __builtin_prefetch(y->data + (size_t)i * y->ld + j, 1, 2);
}

static void run(const struct fth_run *run) {
    const struct fth_factor_attributes *a = run->node->attributes;
    const struct state *state = run->prepared;
    const struct fth_kernels *kernels = fth_kernels_get();
    const struct fth_view *x = &run->in[0], *y = &run->out[0], *rest = &run->out[1];
    struct fth_factor_layout layout;
    fth_factor_layout_make(run, FTH_FACTOR_WEIGHTS, &layout);
    for (uint32_t i = 0; run->training && i < layout.n_ranges; i++) {
        const struct fth_factor_range *range = &layout.ranges[i];
        kernels->copy(x->rows, range->columns, x->data + range->column, x->ld,
                      rest->data + range->at, rest->ld);
    }
    fth_factor_layout_make(run, FTH_FACTOR_FORWARD, &layout);
    const fth_gemm *product = state->products[a->n_lookups - layout.n_fields];
    struct fth_ops_bias_act f = {.act = a->act, .bias = run->in[2].data, .y = y->data, .rows = y->rows, .ld = y->ld};
    const struct fth_gemm_finish finish = {.done = fth_ops_bias_act, .ctx = &f};
    if (layout.n_fields)
        fetch(y);
    if (layout.n_fields && product)
        fth_gemm_run_finish(product, x->rows, rest->data, run->in[4].data, y->data, run->scratch, &finish);
    else if (layout.n_fields)
        fth_ops_bias_act(&f, 0, y->columns);
    else
        fth_gemm_run_finish(product, x->rows, x->data, run->in[1].data, y->data, run->scratch, &finish);
}

static void write_zeros(const struct fth_factor_layout *layout, uint32_t dim,
                        const struct fth_view *dx) {
    for (uint32_t f = 0; f < layout->n_fields; f++)
        for (uint32_t i = 0; i < dx->rows; i++)
            memset(dx->data + (size_t)i * dx->ld + layout->fields[f].column, 0, dim * sizeof(float));
}

/* The product of columns [from, + columns) of dx, in scratch from column `at` on, into place. */
static void put(const struct fth_run *run, uint32_t from, uint32_t columns, uint32_t at) {
    const struct state *state = run->prepared;
    const struct fth_view *dx = &run->out[0];
    const float *product = (const float *)run->scratch + at;
    float *out = dx->data + from;
    if (has_sum(run->node))
        fth_kernels_get()->add(dx->rows, columns, out, dx->ld, product, state->ld, out, dx->ld);
    else
        fth_kernels_get()->copy(dx->rows, columns, product, state->ld, out, dx->ld);
}

static void grad_run(const struct fth_run *run) {
    const struct fth_factor_attributes *a = run->node->attributes;
    const struct state *state = run->prepared;
    const struct fth_view *dy = &run->in[0], *w = &run->in[1], *sum = &run->in[3], *dx = &run->out[0];
    struct fth_factor_layout layout;
    fth_factor_layout_make(run, FTH_FACTOR_DATA, &layout);
    const fth_gemm *product = state->products[a->n_lookups - layout.n_fields];
    if (!layout.n_fields) {
        float *out = has_sum(run->node) ? run->scratch : dx->data;
        fth_gemm_run(product, dy->rows, dy->data, w->transposed, out, NULL);
        if (has_sum(run->node)) {
            uint32_t column = (uint32_t)(sum->data - dx->data);
            put(run, column, sum->columns, column);
        }
        return;
    }
    if (product)
        fth_gemm_run(product, dy->rows, dy->data, run->in[2].data, run->scratch, NULL);
    else if (layout.columns)
        fth_kernels_get()->row_dot(dy->rows, dy->columns, dy->data, dy->ld,
                                   w->data + (size_t)layout.ranges[0].column * w->ld, 0.0f, run->scratch,
                                   state->ld);
    for (uint32_t i = 0; i < layout.n_ranges; i++)
        put(run, layout.ranges[i].column, layout.ranges[i].columns, layout.ranges[i].at);
    if (a->zeros)
        write_zeros(&layout, a->dim, dx);
}

static void print(const struct fth_node *node, struct fth_text *out) {
    static const char *const names[FTH_ACT_COUNT] = {"none", "relu", "sigmoid", "tanh", "gelu"};
    const struct fth_factor_attributes *a = node->attributes;
    fth_text_printf(out, "act=%s ", names[a->act]);
    fth_factor_print(node, out);
}

const struct fth_op fth_op_factor_linear = {.name = "factor_linear",
                                            .min_inputs = 5,
                                            .max_inputs = 5,
                                            .n_outputs = 2,
                                            .granularity = FTH_PER_TILE,
                                            .shape = shape,
                                            .prepare = prepare,
                                            .release = release,
                                            .cost = fth_ops_product_cost,
                                            .print = print,
                                            .run = run};

const struct fth_op fth_op_factor_data_grad = {.name = "factor_data_grad",
                                               .min_inputs = 4,
                                               .max_inputs = 4,
                                               .n_outputs = 1,
                                               .granularity = FTH_PER_TILE,
                                               .inputs_transposed = 1 << 1,
                                               .shape = grad_shape,
                                               .prepare = grad_prepare,
                                               .release = release,
                                               .cost = fth_ops_product_cost,
                                               .print = fth_factor_print,
                                               .run = grad_run};
