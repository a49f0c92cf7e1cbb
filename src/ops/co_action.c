/* co_action(weights, x): CAN's co-action unit (Bian et al., WSDM 2022, eq. 4 to 8). An example's row of `weights` is a
 * small network of its own: for each layer a matrix [in][out] and a bias [out], one after the other. It is applied to the
 * example's row of x, or to each of its positions, once for each power x, x^2, ... up to `orders`; tanh between layers.
 * The outputs of all layers, layer after layer and power after power, summed over the positions, are the example's row of
 * the result. An example without positions gets zeros.
 *
 * co_action_grad(weights, x, dy) runs each network again and gives both gradients. Per tile, example by example; what
 * lies between layers stays in scratch. */
#include <string.h>

#include "ops/layers.h"
#include "ops/ops_private.h"

#define MOST_LAYERS 8

enum { FORWARD, BACK = MOST_LAYERS, PART = 2 * MOST_LAYERS };

struct co_action {
    uint32_t d, orders, layers, positions; /* positions: most an example's */
    uint32_t widths[MOST_LAYERS + 1];      /* widths[0] is d */
    uint32_t weights[MOST_LAYERS];         /* where a layer's matrix begins; its bias behind it */
    uint32_t outputs;                      /* of one power */
    fth_gemm *products[3 * MOST_LAYERS]; /* forward h W; back dy W^T, part h^T dy: the gradient's alone */
    size_t h[MOST_LAYERS + 1], power, dx, dh[2], turned, bias, gemm; /* where in scratch */
};

static const struct fth_co_action_attributes *attributes_of(const struct fth_node *node) {
    return node->attributes;
}

uint32_t fth_co_action_weights(uint32_t d, const uint32_t *widths, uint32_t n) {
    uint64_t numbers = 0;
    for (uint32_t i = 0; i < n && numbers <= UINT32_MAX; d = widths[i++])
        numbers += ((uint64_t)d + 1) * widths[i];
    return numbers > UINT32_MAX ? 0 : (uint32_t)numbers;
}

static uint32_t outputs_of(const struct fth_co_action_attributes *a) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->n; i++)
        n += a->widths[i];
    return n;
}

static fth_status check(const fth_graph *graph, const struct fth_node *node, fth_error *err) {
    const struct fth_co_action_attributes *a = attributes_of(node);
    FTH_TRY(fth_ops_need_rows(graph, node, 1, err));
    struct fth_value x = fth_ops_input(graph, node, 1);
    if (x.columns < 2 || !a->orders || a->orders > 16 || !a->n || a->n > MOST_LAYERS)
        return fth_fail(err, FTH_E_ARGUMENT, "%u columns, %u powers, %u layers: it takes at least 2 columns, 1 to 16 "
                        "powers and 1 to %d layers", x.columns, a->orders, a->n, MOST_LAYERS);
    for (uint32_t i = 0; i < a->n; i++)
        if (a->widths[i] < 2 || a->widths[i] > 65536)
            return fth_fail(err, FTH_E_ARGUMENT, "layer %u has %u units, not 2 to 65536", i, a->widths[i]);
    uint32_t weights = fth_co_action_weights(x.columns, a->widths, a->n);
    if (!weights)
        return fth_fail(err, FTH_E_ARGUMENT, "the layers have too many weights");
    return fth_ops_need_example_row(graph, node, 0, weights, err);
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    const struct fth_co_action_attributes *a = attributes_of(node);
    FTH_TRY(check(graph, node, err));
    return fth_ops_output_like(graph, node, 0, 0, a->orders * outputs_of(a), err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    const struct fth_co_action_attributes *a = attributes_of(node);
    fth_id inputs[3] = {node->inputs[0], node->inputs[1], d_outputs[0]};
    return fth_graph_node(graph, &fth_op_co_action_grad, node->name, inputs, 3, a,
                          sizeof *a + a->n * sizeof a->widths[0], d_inputs, err);
}

static void release(void *prepared) {
    struct co_action *unit = prepared;
    for (uint32_t i = 0; i < 3 * MOST_LAYERS; i++)
        fth_gemm_destroy(unit->products[i]);
    fth_free(unit);
}

static uint32_t ld_of(uint32_t columns) {
    return (columns + 15) & ~15u;
}

static fth_status make_products(const struct fth_prepare *prepare, struct co_action *unit, int backward,
                                fth_error *err) {
    uint32_t usual = prepare->in[1].rows / (prepare->tile ? prepare->tile : 1);
    for (uint32_t i = 0; i < unit->layers; i++) {
        uint32_t in = unit->widths[i], out = unit->widths[i + 1], rows = usual ? usual : 1;
        fth_precision precision = (fth_precision)prepare->precision;
        struct fth_gemm_shape forward = {.form = FTH_GEMM_NN, .m = rows, .n = out, .k = in,
                                         .lda = ld_of(in), .ldb = out, .ldc = ld_of(out), .precision = precision};
        struct fth_gemm_shape back = {.form = FTH_GEMM_NN, .m = rows, .n = in, .k = out,
                                      .lda = ld_of(out), .ldb = in, .ldc = ld_of(in), .precision = precision};
        struct fth_gemm_shape part = {.form = FTH_GEMM_TN, .m = in, .n = out, .k = rows, .lda = ld_of(in),
                                      .ldb = ld_of(out), .ldc = out, .accumulate = 1, .precision = precision};
        FTH_TRY(fth_ops_product(prepare, &forward, &unit->products[FORWARD + i], err));
        if (!backward)
            continue;
        FTH_TRY(fth_ops_product(prepare, &back, &unit->products[BACK + i], err));
        FTH_TRY(fth_ops_product(prepare, &part, &unit->products[PART + i], err));
    }
    return FTH_OK;
}

static void lay_out(struct fth_prepare *prepare, struct co_action *unit) {
    size_t bytes = 0, rows = unit->positions, widest = 0, matrix = 0;
    for (uint32_t i = 0; i <= unit->layers; i++) {
        unit->h[i] = fth_ops_section(&bytes, rows * ld_of(unit->widths[i]));
        widest = ld_of(unit->widths[i]) > widest ? ld_of(unit->widths[i]) : widest;
    }
    for (uint32_t i = 0; i < unit->layers; i++) {
        size_t numbers = (size_t)unit->widths[i] * unit->widths[i + 1];
        matrix = numbers > matrix ? numbers : matrix;
    }
    unit->power = fth_ops_section(&bytes, rows * ld_of(unit->d));
    unit->dx = fth_ops_section(&bytes, rows * ld_of(unit->d));
    for (int i = 0; i < 2; i++)
        unit->dh[i] = fth_ops_section(&bytes, rows * widest);
    unit->turned = fth_ops_section(&bytes, matrix);
    unit->bias = fth_ops_section(&bytes, widest);
    unit->gemm = bytes;
    prepare->scratch_bytes = bytes + fth_ops_products_scratch(unit->products, 3 * MOST_LAYERS, unit->positions);
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_co_action_attributes *a = attributes_of(prepare->node);
    int backward = prepare->node->op == &fth_op_co_action_grad;
    struct co_action *unit = fth_ops_state(prepare, sizeof *unit, err);
    if (!unit)
        return FTH_E_MEMORY;
    unit->d = unit->widths[0] = prepare->in[1].columns;
    unit->orders = a->orders;
    unit->layers = a->n;
    unit->outputs = outputs_of(a);
    unit->positions = prepare->in[1].rows;
    for (uint32_t i = 0; i < a->n; i++) {
        unit->widths[i + 1] = a->widths[i];
        unit->weights[i] = fth_co_action_weights(unit->d, a->widths, i);
    }
    FTH_TRY(make_products(prepare, unit, backward, err));
    lay_out(prepare, unit);
    return FTH_OK;
}

/* Forward one product a layer, backward three with the forward's. */
static void cost(const fth_graph *graph, const struct fth_node *node, double examples, double positions,
                 struct fth_cost *out) {
    const struct fth_co_action_attributes *a = attributes_of(node);
    struct fth_value weights = fth_ops_input(graph, node, 0), x = fth_ops_input(graph, node, 1);
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = 2 * fth_ops_rows(&x, examples, positions) * weights.columns * a->orders *
                 (node->n_inputs == 3 ? 3 : 1);
}

static void print(const struct fth_node *node, struct fth_text *out) {
    const struct fth_co_action_attributes *a = attributes_of(node);
    fth_text_printf(out, "orders=%u layers=", a->orders);
    for (uint32_t i = 0; i < a->n; i++)
        fth_text_printf(out, "%s%u", i ? "-" : "", a->widths[i]);
}

/* ---- an example ---- */

/* The example's rows of x. */
static uint32_t rows_of(const struct fth_view *x, uint32_t example, size_t *first) {
    *first = x->offsets ? x->offsets[example] - x->offsets[0] : example;
    return x->offsets ? x->offsets[example + 1] - x->offsets[example] : 1;
}

/* h[0] becomes the next power; `power` (backwards) keeps the one before. */
static void raise(const struct fth_run *run, const struct co_action *unit, uint32_t order, const float *x,
                  size_t ldx, uint32_t rows) {
    const struct fth_kernels *k = fth_kernels_get();
    float *h = fth_ops_at(run, unit->h[0]);
    uint32_t ld = ld_of(unit->d);
    if (order == 0) {
        k->copy(rows, unit->d, x, ldx, h, ld);
        return;
    }
    k->copy(rows, unit->d, h, ld, fth_ops_at(run, unit->power), ld);
    k->mul(rows, unit->d, h, ld, x, ldx, h, ld);
}

static void forward(const struct fth_run *run, const struct co_action *unit, const float *weights,
                    uint32_t rows) {
    for (uint32_t i = 0; i < unit->layers; i++) {
        uint32_t out = unit->widths[i + 1];
        float *h = fth_ops_at(run, unit->h[i + 1]);
        const float *w = weights + unit->weights[i], *bias = w + (size_t)unit->widths[i] * out;
        fth_gemm_run(unit->products[FORWARD + i], rows, fth_ops_at(run, unit->h[i]), w, h, fth_ops_at(run, unit->gemm));
        fth_kernels_get()->bias_act(rows, out, h, ld_of(out), bias,
                                    i + 1 < unit->layers ? FTH_ACT_TANH : FTH_ACT_NONE, h, ld_of(out));
    }
}

static void run(const struct fth_run *run) {
    const struct co_action *unit = run->prepared;
    const struct fth_view *weights = &run->in[0], *x = &run->in[1], *y = &run->out[0];
    for (uint32_t e = 0; e < y->rows; e++) {
        size_t first;
        uint32_t rows = rows_of(x, e, &first);
        float *out = y->data + (size_t)e * y->ld;
        for (uint32_t order = 0; order < unit->orders; order++) {
            if (!rows) {
                memset(out, 0, unit->orders * unit->outputs * sizeof *out);
                break;
            }
            raise(run, unit, order, x->data + first * x->ld, x->ld, rows);
            forward(run, unit, weights->data + (size_t)e * weights->ld, rows);
            for (uint32_t i = 1; i <= unit->layers; out += unit->widths[i++])
                fth_kernels_get()->col_sum(rows, unit->widths[i], fth_ops_at(run, unit->h[i]),
                                           ld_of(unit->widths[i]), out);
        }
    }
}

const struct fth_op fth_op_co_action = {.name = "co_action",
                                        .min_inputs = 2,
                                        .max_inputs = 2,
                                        .n_outputs = 1,
                                        .granularity = FTH_PER_TILE,
                                        .shape = shape,
                                        .gradient = gradient,
                                        .prepare = prepare,
                                        .release = release,
                                        .cost = cost,
                                        .print = print,
                                        .run = run};

/* ---- gradient ---- */

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    const struct fth_co_action_attributes *a = attributes_of(node);
    FTH_TRY(check(graph, node, err));
    FTH_TRY(fth_ops_need_example_row(graph, node, 2, a->orders * outputs_of(a), err));
    FTH_TRY(fth_ops_output_like(graph, node, 0, 0, fth_ops_input(graph, node, 0).columns, err));
    return fth_ops_output_like(graph, node, 1, 1, fth_ops_input(graph, node, 1).columns, err);
}

/* One power's network from its last layer to its first; dy: its outputs' gradient, the same for every position. Adds to
 * the weights' gradient and returns that of the power, in scratch. */
static const float *backward(const struct fth_run *run, const struct co_action *unit, const float *weights,
                             const float *dy, uint32_t rows, float *dw) {
    const struct fth_kernels *k = fth_kernels_get();
    float *dh = fth_ops_at(run, unit->dh[0]), *next = fth_ops_at(run, unit->dh[1]);
    float *sum = fth_ops_at(run, unit->bias), *turned = fth_ops_at(run, unit->turned);
    float *scratch = fth_ops_at(run, unit->gemm);
    dy += unit->outputs;
    for (uint32_t i = unit->layers; i-- > 0;) {
        uint32_t in = unit->widths[i], out = unit->widths[i + 1], ld = ld_of(out);
        size_t matrix = unit->weights[i], bias = matrix + (size_t)in * out;
        dy -= out;
        if (i + 1 == unit->layers)
            memset(dh, 0, (size_t)rows * ld * sizeof *dh);
        k->bias_act(rows, out, dh, ld, dy, FTH_ACT_NONE, dh, ld);
        if (i + 1 < unit->layers)
            k->act_grad(FTH_ACT_TANH, rows, out, fth_ops_at(run, unit->h[i + 1]), ld, dh, ld, dh, ld);
        k->col_sum(rows, out, dh, ld, sum);
        k->add(1, out, dw + bias, out, sum, out, dw + bias, out);
        fth_gemm_run(unit->products[PART + i], rows, fth_ops_at(run, unit->h[i]), dh, dw + matrix, scratch);
        k->transpose(in, out, weights + matrix, out, turned, in);
        fth_gemm_run(unit->products[BACK + i], rows, dh, turned, next, scratch);
        float *swap = dh;
        dh = next;
        next = swap;
    }
    return dh;
}

static void grad_run(const struct fth_run *run) {
    const struct co_action *unit = run->prepared;
    const struct fth_kernels *k = fth_kernels_get();
    const struct fth_view *weights = &run->in[0], *x = &run->in[1], *dy = &run->in[2];
    const struct fth_view *dweights = &run->out[0], *dx = &run->out[1];
    uint32_t d = unit->d, ld = ld_of(d);
    for (uint32_t e = 0; e < dy->rows; e++) {
        size_t first;
        uint32_t rows = rows_of(x, e, &first);
        const float *w = weights->data + (size_t)e * weights->ld, *in = x->data + first * x->ld;
        float *dw = dweights->data + (size_t)e * dweights->ld, *out = dx->data + first * dx->ld;
        memset(dw, 0, dweights->columns * sizeof *dw);
        for (uint32_t order = 0; rows && order < unit->orders; order++) {
            raise(run, unit, order, in, x->ld, rows);
            forward(run, unit, w, rows);
            const float *dpower = backward(run, unit, w, dy->data + (size_t)e * dy->ld + order * unit->outputs,
                                           rows, dw);
            if (order == 0) {
                k->copy(rows, d, dpower, ld, out, dx->ld);
                continue;
            }
            /* d(x^n) = n x^(n - 1) dx */
            float *term = fth_ops_at(run, unit->dx);
            k->mul(rows, d, dpower, ld, fth_ops_at(run, unit->power), ld, term, ld);
            k->scale(rows, d, term, ld, (float)(order + 1), term, ld);
            k->add(rows, d, out, dx->ld, term, ld, out, dx->ld);
        }
    }
}

const struct fth_op fth_op_co_action_grad = {.name = "co_action_grad",
                                             .min_inputs = 3,
                                             .max_inputs = 3,
                                             .n_outputs = 2,
                                             .granularity = FTH_PER_TILE,
                                             .shape = grad_shape,
                                             .prepare = prepare,
                                             .release = release,
                                             .cost = cost,
                                             .print = print,
                                             .run = grad_run};
