/* cin(x, x0, W): a layer of the compressed interaction network (Lian et al., KDD 2018, eq. 6 and 7): x holds h vectors
 * of dim numbers, x0 the f embeddings; map n of the layer is
 *   y[n] = sum over i < h, j < f of W[j h + i][n] (x[i] o x0[j])        and pooled[n] = the sum of y[n]'s numbers.
 *
 * Each of an example's dim numbers is a row of one product: z W with z[j h + i] = x[i] x0[j], [rows, f h] x [f h, maps].
 * z would be hundreds of times larger than x and is never whole: a block of rows and of fields is made in the second
 * cache, multiplied, and overwritten. The gradient makes it again:
 *   dW += z^T dy (a part a tile)      dz = dy W^T      dx[i] = sum over j of dz[j h + i] x0[j]; dx0 likewise.
 *
 * Rows lie in scratch as the products want them (numbers outside, vectors inside), copied from and to the graph's
 * vectors, which costs a thousandth of the products. Per tile; blocks depend on shapes alone. */
#include <string.h>

#include "ops/ops_private.h"

#define BLOCK_ROWS 256u
#define BLOCK_WIDTH 512u
#define GRADIENT 2

/* What a node's blocks look like. The last block of fields may be smaller: products[1], [3]. */
struct cin {
    uint32_t dim, h, fields, maps;
    uint32_t block_rows, block_fields, n_blocks; /* n_blocks: of fields */
    uint32_t ldx, ldx0, ldy, ldz;
    fth_gemm *products[4]; /* z W, or dy W^T; from GRADIENT on z^T dy */
    size_t x, x0, y, z, dx, dx0, sum, gemm; /* where in scratch, bytes */
};

static const struct fth_cin_attributes *attributes_of(const struct fth_node *node) {
    return node->attributes;
}

/* Inputs x, x0, W. */
static fth_status check(const fth_graph *graph, const struct fth_node *node, fth_error *err) {
    const struct fth_cin_attributes *a = attributes_of(node);
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 1, err));
    uint32_t x = fth_ops_input(graph, node, 0).columns, x0 = fth_ops_input(graph, node, 1).columns;
    if (!a->dim || x % a->dim || x0 % a->dim)
        return fth_fail(err, FTH_E_ARGUMENT, "%u and %u columns are not vectors of %u", x, x0, a->dim);
    uint64_t products = (uint64_t)(x / a->dim) * (x0 / a->dim);
    if (products < 2 || a->maps < 2 || products * a->maps > UINT32_MAX / 64)
        return fth_fail(err, FTH_E_ARGUMENT, "%llu products of vectors and %u maps: at least 2 of each, and fewer "
                        "weights", (unsigned long long)products, a->maps);
    return fth_ops_need_whole(graph, node, 2, (uint32_t)products, a->maps, err);
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    const struct fth_cin_attributes *a = attributes_of(node);
    FTH_TRY(check(graph, node, err));
    FTH_TRY(fth_ops_output_like(graph, node, 0, 0, a->maps * a->dim, err));
    return fth_ops_output_like(graph, node, 1, 0, a->maps, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id inputs[5] = {node->inputs[0], node->inputs[1], node->inputs[2], d_outputs[0], d_outputs[1]};
    return fth_graph_node(graph, &fth_op_cin_grad, node->name, inputs, 5, node->attributes,
                          sizeof(struct fth_cin_attributes), d_inputs, err);
}

static void release(void *prepared) {
    struct cin *cin = prepared;
    for (int i = 0; i < 4; i++)
        fth_gemm_destroy(cin->products[i]);
    fth_free(cin);
}

static uint32_t fields_of(const struct cin *cin, uint32_t block) {
    uint32_t left = cin->fields - block * cin->block_fields;
    return left < cin->block_fields ? left : cin->block_fields;
}

static int is_last(const struct cin *cin, uint32_t block) {
    return block + 1 == cin->n_blocks;
}

static fth_status make_products(const struct fth_prepare *prepare, struct cin *cin, int backward,
                                fth_error *err) {
    const struct fth_view *w = &prepare->in[2];
    for (int i = 0; i < 2; i++) {
        uint32_t width = fields_of(cin, i ? cin->n_blocks - 1 : 0) * cin->h;
        struct fth_gemm_shape product = {.form = FTH_GEMM_NN,
                                         .m = cin->block_rows,
                                         .n = backward ? width : cin->maps,
                                         .k = backward ? cin->maps : width,
                                         .lda = backward ? cin->ldy : cin->ldz,
                                         .ldb = backward ? w->ld_transposed : w->ld,
                                         .ldc = backward ? cin->ldz : cin->ldy,
                                         .accumulate = !backward,
                                         .precision = (fth_precision)prepare->precision};
        struct fth_gemm_shape part = {.form = FTH_GEMM_TN,
                                      .m = width,
                                      .n = cin->maps,
                                      .k = cin->block_rows,
                                      .lda = cin->ldz,
                                      .ldb = cin->ldy,
                                      .ldc = cin->maps,
                                      .accumulate = 1,
                                      .precision = (fth_precision)prepare->precision};
        FTH_TRY(fth_ops_product(prepare, &product, &cin->products[i], err));
        if (backward)
            FTH_TRY(fth_ops_product(prepare, &part, &cin->products[GRADIENT + i], err));
    }
    return FTH_OK;
}

static void lay_out(struct fth_prepare *prepare, struct cin *cin, int backward) {
    size_t bytes = 0, rows = (size_t)prepare->in[0].rows * cin->dim;
    cin->x = fth_ops_section(&bytes, rows * cin->ldx);
    cin->x0 = fth_ops_section(&bytes, rows * cin->ldx0);
    cin->y = fth_ops_section(&bytes, rows * cin->ldy);
    cin->z = fth_ops_section(&bytes, (size_t)cin->block_rows * cin->ldz);
    cin->dx = fth_ops_section(&bytes, backward ? rows * cin->ldx : 0);
    cin->dx0 = fth_ops_section(&bytes, backward ? rows * cin->ldx0 : 0);
    cin->sum = fth_ops_section(&bytes, cin->ldx);
    cin->gemm = bytes;
    prepare->scratch_bytes = bytes + fth_ops_products_scratch(cin->products, 4, cin->block_rows);
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_cin_attributes *a = attributes_of(prepare->node);
    int backward = prepare->node->op == &fth_op_cin_grad;
    struct cin *cin = fth_ops_state(prepare, sizeof *cin, err);
    if (!cin)
        return FTH_E_MEMORY;
    cin->dim = a->dim;
    cin->maps = a->maps;
    cin->h = prepare->in[0].columns / a->dim;
    cin->fields = prepare->in[1].columns / a->dim;
    uint32_t most = BLOCK_WIDTH / cin->h ? BLOCK_WIDTH / cin->h : 1;
    if (most * cin->h < 2)
        most = 2;
    cin->n_blocks = (cin->fields + most - 1) / most;
    cin->block_fields = (cin->fields + cin->n_blocks - 1) / cin->n_blocks;
    cin->n_blocks = (cin->fields + cin->block_fields - 1) / cin->block_fields;
    cin->block_rows = a->dim > BLOCK_ROWS ? a->dim : BLOCK_ROWS / a->dim * a->dim;
    cin->ldx = fth_padded_columns(cin->h);
    cin->ldx0 = fth_padded_columns(cin->fields);
    cin->ldy = fth_padded_columns(cin->maps);
    cin->ldz = fth_padded_columns(cin->block_fields * cin->h);
    FTH_TRY(make_products(prepare, cin, backward, err));
    lay_out(prepare, cin, backward);
    return FTH_OK;
}

/* One product; the gradient makes two. */
static void cost(const fth_graph *graph, const struct fth_node *node, double examples, double positions,
                 struct fth_cost *out) {
    const struct fth_cin_attributes *a = attributes_of(node);
    struct fth_value x = fth_ops_input(graph, node, 0), w = fth_ops_input(graph, node, 2);
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = 2 * fth_ops_rows(&x, examples, positions) * a->dim * w.rows * w.columns *
                 (node->n_inputs == 5 ? 2 : 1);
}

static void print(const struct fth_node *node, struct fth_text *out) {
    const struct fth_cin_attributes *a = attributes_of(node);
    fth_text_printf(out, "dim=%u maps=%u", a->dim, a->maps);
}

/* Vectors of dim numbers to rows and back: row e dim + d of `rows` has number d of each of example e's vectors. */
static void to_rows(const struct fth_view *vectors, uint32_t dim, float *rows, uint32_t ld) {
    for (uint32_t e = 0; e < vectors->rows; e++)
        fth_kernels_get()->transpose(vectors->columns / dim, dim, vectors->data + (size_t)e * vectors->ld, dim,
                                     rows + (size_t)e * dim * ld, ld);
}

static void to_vectors(const float *rows, uint32_t ld, uint32_t dim, const struct fth_view *vectors) {
    for (uint32_t e = 0; e < vectors->rows; e++)
        fth_kernels_get()->transpose(dim, vectors->columns / dim, rows + (size_t)e * dim * ld, ld,
                                     vectors->data + (size_t)e * vectors->ld, dim);
}

/* z of some rows and of the block's fields. */
static void make_z(const struct cin *cin, uint32_t block, uint32_t rows, const float *x, const float *x0,
                   float *z) {
    uint32_t fields = fields_of(cin, block);
    x0 += block * cin->block_fields;
    for (uint32_t r = 0; r < rows; r++)
        fth_kernels_get()->outer(fields, cin->h, x0 + (size_t)r * cin->ldx0, 1, x + (size_t)r * cin->ldx,
                                 z + (size_t)r * cin->ldz, cin->h);
}

static void run(const struct fth_run *run) {
    const struct cin *cin = run->prepared;
    const struct fth_view *w = &run->in[2], *pooled = &run->out[1];
    uint32_t all = run->in[0].rows * cin->dim;
    float *x = fth_ops_at(run, cin->x), *x0 = fth_ops_at(run, cin->x0);
    float *y = fth_ops_at(run, cin->y), *z = fth_ops_at(run, cin->z);
    to_rows(&run->in[0], cin->dim, x, cin->ldx);
    to_rows(&run->in[1], cin->dim, x0, cin->ldx0);
    memset(y, 0, (size_t)all * cin->ldy * sizeof *y);
    for (uint32_t row = 0; row < all; row += cin->block_rows) {
        uint32_t rows = all - row < cin->block_rows ? all - row : cin->block_rows;
        for (uint32_t block = 0; block < cin->n_blocks; block++) {
            make_z(cin, block, rows, x + (size_t)row * cin->ldx, x0 + (size_t)row * cin->ldx0, z);
            fth_gemm_run(cin->products[is_last(cin, block)], rows, z,
                         w->data + (size_t)block * cin->block_fields * cin->h * w->ld,
                         y + (size_t)row * cin->ldy, fth_ops_at(run, cin->gemm));
        }
    }
    to_vectors(y, cin->ldy, cin->dim, &run->out[0]);
    for (uint32_t e = 0; e < pooled->rows; e++)
        fth_kernels_get()->col_sum(cin->dim, cin->maps, y + (size_t)e * cin->dim * cin->ldy, cin->ldy,
                                   pooled->data + (size_t)e * pooled->ld);
}

const struct fth_op fth_op_cin = {.name = "cin",
                                  .min_inputs = 3,
                                  .max_inputs = 3,
                                  .n_outputs = 2,
                                  .granularity = FTH_PER_TILE,
                                  .shape = shape,
                                  .gradient = gradient,
                                  .prepare = prepare,
                                  .release = release,
                                  .cost = cost,
                                  .print = print,
                                  .run = run};

/* ---- cin_grad(x, x0, W, dy or none, dpooled or none) -> dx, dx0, dW's part a tile ---- */

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    const struct fth_cin_attributes *a = attributes_of(node);
    FTH_TRY(check(graph, node, err));
    const uint32_t columns[2] = {a->maps * a->dim, a->maps};
    for (uint32_t i = 0; i < 2; i++) {
        struct fth_value d = fth_ops_input(graph, node, 3 + i);
        if (d.id == FTH_NONE)
            continue;
        FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 3 + i, err));
        if (d.columns != columns[i])
            return fth_fail(err, FTH_E_ARGUMENT, "input %u has %u columns, not %u", 3 + i, d.columns, columns[i]);
    }
    FTH_TRY(fth_ops_output_like(graph, node, 0, 0, fth_ops_input(graph, node, 0).columns, err));
    FTH_TRY(fth_ops_output_like(graph, node, 1, 1, fth_ops_input(graph, node, 1).columns, err));
    struct fth_value w = fth_ops_input(graph, node, 2);
    return fth_ops_output_tiles(graph, node, 2, w.rows * w.columns, err);
}

/* The gradient of the layer's rows: dy's and, the same for all of an example's, dpooled's. */
static void gather_dy(const struct fth_run *run, const struct cin *cin, float *y) {
    const struct fth_view *dy = &run->in[3], *pooled = &run->in[4];
    if (dy->data)
        to_rows(dy, cin->dim, y, cin->ldy);
    else
        memset(y, 0, (size_t)run->in[0].rows * cin->dim * cin->ldy * sizeof *y);
    for (uint32_t e = 0; pooled->data && e < pooled->rows; e++) {
        float *rows = y + (size_t)e * cin->dim * cin->ldy;
        fth_kernels_get()->bias_act(cin->dim, cin->maps, rows, cin->ldy, pooled->data + (size_t)e * pooled->ld,
                                    FTH_ACT_NONE, rows, cin->ldy);
    }
}

/* dx and dx0 from a block of dz. */
static void spread(const struct cin *cin, uint32_t block, uint32_t row, uint32_t rows, const struct fth_run *run) {
    const struct fth_kernels *k = fth_kernels_get();
    uint32_t fields = fields_of(cin, block), first = block * cin->block_fields;
    float *sum = fth_ops_at(run, cin->sum);
    for (uint32_t r = 0; r < rows; r++) {
        const float *z = fth_ops_at(run, cin->z) + (size_t)r * cin->ldz;
        size_t wide = (size_t)(row + r) * cin->ldx, narrow = (size_t)(row + r) * cin->ldx0 + first;
        float *dx = fth_ops_at(run, cin->dx) + wide, *dx0 = fth_ops_at(run, cin->dx0) + narrow;
        k->row_dot(fields, cin->h, z, cin->h, fth_ops_at(run, cin->x) + wide, 0.0f, dx0, 1);
        k->col_weighted_sum(fields, cin->h, fth_ops_at(run, cin->x0) + narrow, 1, z, cin->h, block ? sum : dx);
        if (block)
            k->add(1, cin->h, dx, cin->h, sum, cin->h, dx, cin->h);
    }
}

static void grad_run(const struct fth_run *run) {
    const struct cin *cin = run->prepared;
    const struct fth_view *w = &run->in[2], *dw = &run->out[2];
    uint32_t all = run->in[0].rows * cin->dim;
    float *x = fth_ops_at(run, cin->x), *x0 = fth_ops_at(run, cin->x0);
    float *y = fth_ops_at(run, cin->y), *z = fth_ops_at(run, cin->z);
    to_rows(&run->in[0], cin->dim, x, cin->ldx);
    to_rows(&run->in[1], cin->dim, x0, cin->ldx0);
    gather_dy(run, cin, y);
    fth_ops_zero_row(dw);
    for (uint32_t block = 0; block < cin->n_blocks; block++) {
        size_t first = (size_t)block * cin->block_fields * cin->h;
        int last = is_last(cin, block);
        for (uint32_t row = 0; row < all; row += cin->block_rows) {
            uint32_t rows = all - row < cin->block_rows ? all - row : cin->block_rows;
            const float *dy = y + (size_t)row * cin->ldy;
            make_z(cin, block, rows, x + (size_t)row * cin->ldx, x0 + (size_t)row * cin->ldx0, z);
            fth_gemm_run(cin->products[GRADIENT + last], rows, z, dy, dw->data + first * cin->maps,
                         fth_ops_at(run, cin->gemm));
            fth_gemm_run(cin->products[last], rows, dy, w->transposed + first, z, fth_ops_at(run, cin->gemm));
            spread(cin, block, row, rows, run);
        }
    }
    to_vectors(fth_ops_at(run, cin->dx), cin->ldx, cin->dim, &run->out[0]);
    to_vectors(fth_ops_at(run, cin->dx0), cin->ldx0, cin->dim, &run->out[1]);
}

const struct fth_op fth_op_cin_grad = {.name = "cin_grad",
                                       .min_inputs = 5,
                                       .max_inputs = 5,
                                       .n_outputs = 3,
                                       .granularity = FTH_PER_TILE,
                                       .inputs_transposed = 1 << 2,
                                       .shape = grad_shape,
                                       .prepare = prepare,
                                       .release = release,
                                       .cost = cost,
                                       .print = print,
                                       .run = grad_run};
