/* next_loss(h, x, negatives or none): DIEN's auxiliary loss (Zhou et al., AAAI 2019, eq. 6) an example,
 *
 *   factor / pairs * sum over its positions t but the last of
 *     softplus(-<h[t], x[t + 1]>) + softplus(<h[t], negative[t + 1]>)
 *
 * and at once the gradients by the two products: backward begins here, as in bce. Examples of fewer than two positions
 * have none. (The paper sums over t; here an example's pairs are averaged, so that the factor means the same whatever
 * the lengths. Sample weights are left out: what a user did next is true whatever the example's weight.)
 *
 * Without negatives a pair's is a row of x that belongs to another example of the tile, a draw of (seed, step, node,
 * position), made again for the gradient; none where no other example has positions.
 *
 * next_loss_grad(h, x, negatives or none, dpositive, dnegative) gives dh, dx and dnegatives. */
#include <string.h>

#include "base/random.h"
#include "ops/ops_private.h"

enum { H, X, NEGATIVES, DPOSITIVE, DNEGATIVE };

static const struct fth_next_loss_attributes *attributes_of(const struct fth_node *node) {
    return node->attributes;
}

static int given(const struct fth_node *node) {
    return node->inputs[NEGATIVES] != FTH_NONE;
}

static fth_status check(fth_graph *graph, const struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_positions(graph, node, H, err));
    FTH_TRY(fth_ops_need_same(graph, node, H, X, err));
    return given(node) ? fth_ops_need_same(graph, node, H, NEGATIVES, err) : FTH_OK;
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(check(graph, node, err));
    FTH_TRY(fth_graph_output(graph, node, 0, FTH_EXAMPLES, -1, 0, 1, err));
    FTH_TRY(fth_ops_output_like(graph, node, 1, H, 1, err));
    return fth_ops_output_like(graph, node, 2, H, 1, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id inputs[5] = {node->inputs[H], node->inputs[X], node->inputs[NEGATIVES], node->outputs[1],
                        node->outputs[2]};
    return fth_graph_node(graph, &fth_op_next_loss_grad, node->name, inputs, 5, node->attributes,
                          sizeof(struct fth_next_loss_attributes), d_inputs, err);
}

static void print(const struct fth_node *node, struct fth_text *out) {
    fth_text_printf(out, "factor=%g %s", (double)attributes_of(node)->factor,
                    given(node) ? "given" : "drawn");
}

/* Rows of the negatives of `pairs` positions of example i from `first` on (all counted in the tile); 0: no other example
 * has any. A draw serves four positions. */
static int draw_rows(const struct fth_run *run, const uint32_t *offsets, uint32_t i, uint32_t first, uint32_t pairs,
                     uint32_t *rows) {
    uint32_t draw[4], all = offsets[run->examples] - offsets[0], own = offsets[i + 1] - offsets[i];
    uint32_t begin = offsets[0] + first, stream = attributes_of(run->node)->stream;
    if (all == own)
        return 0;
    for (uint32_t at = begin; at < begin + pairs; at++) {
        if (at == begin || at % 4 == 0)
            fth_random_draw(run->seed, FTH_RANDOM_NEGATIVE, run->step, (uint64_t)stream << 32 | at / 4, draw);
        uint32_t row = (uint32_t)((uint64_t)draw[at % 4] * (all - own) >> 32);
        rows[at - begin] = row < first ? row : row + own;
    }
    return 1;
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    prepare->scratch_bytes = 2 * fth_ops_align(prepare->in[H].rows * sizeof(float));
    return FTH_OK;
}

/* The dot products of an example's pairs with its negatives, and the rows of those that are drawn; 0: it has none. */
static int negative_dots(const struct fth_run *run, uint32_t i, uint32_t first, uint32_t pairs, float *z,
                         uint32_t *rows) {
    const struct fth_view *h = &run->in[H], *x = &run->in[X], *negatives = &run->in[NEGATIVES];
    const struct fth_kernels *k = fth_kernels_get();
    const float *from = h->data + (size_t)first * h->ld;
    if (given(run->node)) {
        k->row_dot_rows(pairs, h->columns, from, h->ld, negatives->data + (size_t)(first + 1) * negatives->ld,
                        negatives->ld, z, 1);
        return 1;
    }
    if (!draw_rows(run, h->offsets, i, first, pairs, rows))
        return 0;
    k->picked_dots(pairs, h->columns, from, h->ld, x->data, x->ld, rows, z);
    return 1;
}

/* Loss and gradients of `pairs` products that are to be large (label 1) or small (0); returns the sum. */
static float pairs_loss(uint32_t pairs, const float *z, float label, float scale, float *labels,
                        const struct fth_view *dz, uint32_t first) {
    float losses[64], sum = 0;
    for (uint32_t t = 0; t < pairs; t += 64) {
        uint32_t n = pairs - t < 64 ? pairs - t : 64;
        for (uint32_t j = 0; j < n; j++)
            labels[j] = label;
        fth_kernels_get()->bce(n, z + t, 1, labels, NULL, 0.0f, scale, losses,
                               dz->data + (size_t)(first + t) * dz->ld, dz->ld);
        for (uint32_t j = 0; j < n; j++)
            sum += losses[j];
    }
    return sum;
}

static void run(const struct fth_run *run) {
    const struct fth_view *h = &run->in[H], *x = &run->in[X], *loss = &run->out[0];
    const struct fth_view *dpositive = &run->out[1], *dnegative = &run->out[2];
    float factor = attributes_of(run->node)->factor, labels[64], *z = run->scratch;
    uint32_t *rows = (uint32_t *)(void *)((char *)run->scratch + fth_ops_align(h->rows * sizeof *z));
    for (uint32_t i = 0; i < run->examples; i++) {
        uint32_t first = h->offsets[i] - h->offsets[0], length = h->offsets[i + 1] - h->offsets[i];
        float *at = loss->data + (size_t)i * loss->ld;
        *at = 0;
        if (length) { /* the last one has no next */
            dpositive->data[(size_t)(first + length - 1) * dpositive->ld] = 0;
            dnegative->data[(size_t)(first + length - 1) * dnegative->ld] = 0;
        }
        if (length < 2)
            continue;
        uint32_t pairs = length - 1;
        float each = factor / (float)pairs, scale = each / (float)run->mean_over;
        fth_kernels_get()->row_dot_rows(pairs, h->columns, h->data + (size_t)first * h->ld, h->ld,
                                        x->data + (size_t)(first + 1) * x->ld, x->ld, z, 1);
        float sum = pairs_loss(pairs, z, 1.0f, scale, labels, dpositive, first);
        if (negative_dots(run, i, first, pairs, z, rows))
            sum += pairs_loss(pairs, z, 0.0f, scale, labels, dnegative, first);
        else
            for (uint32_t t = 0; t < pairs; t++)
                dnegative->data[(size_t)(first + t) * dnegative->ld] = 0;
        *at = sum * each;
    }
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = positions * (4 * fth_ops_input(graph, node, H).columns + 80);
}

const struct fth_op fth_op_next_loss = {.name = "next_loss",
                                        .min_inputs = 3,
                                        .max_inputs = 3,
                                        .n_outputs = 3,
                                        .granularity = FTH_PER_TILE,
                                        .shape = shape,
                                        .gradient = gradient,
                                        .begins_backward = 1,
                                        .prepare = prepare,
                                        .cost = cost,
                                        .print = print,
                                        .run = run};

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(check(graph, node, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, H, DPOSITIVE, err));
    FTH_TRY(fth_ops_need_same(graph, node, DPOSITIVE, DNEGATIVE, err));
    uint32_t n = fth_ops_input(graph, node, H).columns;
    FTH_TRY(fth_ops_output_like(graph, node, H, H, n, err));
    FTH_TRY(fth_ops_output_like(graph, node, X, H, n, err));
    return fth_ops_output_like(graph, node, NEGATIVES, H, given(node) ? n : 1, err);
}

static void zero_row(const struct fth_view *v, uint32_t row) {
    memset(v->data + (size_t)row * v->ld, 0, v->columns * sizeof(float));
}

static float *row_of(const struct fth_view *v, size_t row) {
    return v->data + row * v->ld;
}

/* What the products with negatives give: dh is added to, the rest is theirs. */
static void negative_grads(const struct fth_run *run, uint32_t i, uint32_t first, uint32_t pairs) {
    const struct fth_view *h = &run->in[H], *x = &run->in[X], *negatives = &run->in[NEGATIVES];
    const struct fth_view *dn = &run->in[DNEGATIVE], *dh = &run->out[H], *dx = &run->out[X];
    const struct fth_view *out = &run->out[NEGATIVES];
    const struct fth_kernels *k = fth_kernels_get();
    const float *scale = row_of(dn, first);
    if (given(run->node)) {
        zero_row(out, first);
        k->scale_rows(pairs, h->columns, scale, dn->ld, row_of(h, first), h->ld, NULL, 0,
                      row_of(out, first + 1), out->ld);
        k->scale_rows(pairs, h->columns, scale, dn->ld, row_of(negatives, first + 1), negatives->ld,
                      row_of(dh, first), dh->ld, row_of(dh, first), dh->ld);
        return;
    }
    uint32_t *rows = run->scratch;
    if (draw_rows(run, h->offsets, i, first, pairs, rows))
        k->picked_grads(pairs, h->columns, scale, dn->ld, row_of(h, first), h->ld, x->data, x->ld, rows, row_of(dh, first),
                        dh->ld, dx->data, dx->ld);
}

/* Positive pairs of all examples first: drawn negatives are rows of any of them, and are added. */
static void grad_run(const struct fth_run *run) {
    const struct fth_view *h = &run->in[H], *x = &run->in[X], *dp = &run->in[DPOSITIVE];
    const struct fth_view *dh = &run->out[H], *dx = &run->out[X];
    const struct fth_kernels *k = fth_kernels_get();
    for (uint32_t i = 0; i < run->examples; i++) {
        uint32_t first = h->offsets[i] - h->offsets[0], length = h->offsets[i + 1] - h->offsets[i];
        if (!length)
            continue;
        zero_row(dx, first);
        zero_row(dh, first + length - 1);
        k->scale_rows(length - 1, h->columns, row_of(dp, first), dp->ld, row_of(x, first + 1), x->ld, NULL, 0,
                      row_of(dh, first), dh->ld);
        k->scale_rows(length - 1, h->columns, row_of(dp, first), dp->ld, row_of(h, first), h->ld, NULL, 0,
                      row_of(dx, first + 1), dx->ld);
    }
    for (uint32_t i = 0; i < run->examples; i++) {
        uint32_t first = h->offsets[i] - h->offsets[0], length = h->offsets[i + 1] - h->offsets[i];
        if (length)
            negative_grads(run, i, first, length - 1);
    }
}

const struct fth_op fth_op_next_loss_grad = {.name = "next_loss_grad",
                                             .min_inputs = 5,
                                             .max_inputs = 5,
                                             .n_outputs = 3,
                                             .granularity = FTH_PER_TILE,
                                             .shape = grad_shape,
                                             .prepare = prepare,
                                             .cost = cost,
                                             .print = print,
                                             .run = grad_run};
