/* linear_tile_grad(x, dy): a tile's part of dW = x^T dy, [tiles, k n], for small weights (pass tile_weight_grads): x
 * and dy are used while they are in cache and need not be kept for the whole batch; the parts are summed in a
 * fixed tree by who reads them (update). Where the vectors would be cut short along n and not along k, the
 * product is made transposed and turned over afterwards. */
#include "ops/ops_private.h"

struct product {
    fth_gemm *gemm;
    int turned; /* dy^T x */
    size_t turned_bytes;
};

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 1, err));
    uint64_t numbers = (uint64_t)fth_ops_input(graph, node, 0).columns *
                       fth_ops_input(graph, node, 1).columns;
    if (numbers > UINT32_MAX / 64)
        return fth_fail(err, FTH_E_ARGUMENT, "%llu weights are too many for one a tile",
                        (unsigned long long)numbers);
    return fth_ops_output_tiles(graph, node, 0, (uint32_t)numbers, err);
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_view *x = &prepare->in[0], *dy = &prepare->in[1];
    uint32_t vector = fth_cpu_get()->isa == FTH_ISA_AVX512 ? 16 : 8;
    int fuller = dy->columns % vector && x->columns % vector == 0; /* vectors along k */
    /* Parts' products are added in an order that turned ones would change: no longer the bits of tiles (pass round_once). */
    int turned = fuller && !x->tiles && prepare->precision <= FTH_BF16;
    const struct fth_view *a = turned ? dy : x, *b = turned ? x : dy;
    struct fth_gemm_shape gemm = {.form = FTH_GEMM_TN,
                                  .m = a->columns,
                                  .n = b->columns,
                                  .k = x->rows,
                                  .lda = a->ld,
                                  .ldb = b->ld,
                                  .ldc = b->columns,
                                  .tiles = x->tiles != 0,
                                  .precision = (fth_precision)prepare->precision};
    struct product *product = fth_ops_state(prepare, sizeof *product, err);
    if (!product)
        return FTH_E_MEMORY;
    FTH_TRY(fth_ops_product(prepare, &gemm, &product->gemm, err));
    product->turned = turned;
    if (turned)
        product->turned_bytes = fth_ops_align((size_t)gemm.m * gemm.n * sizeof(float));
    prepare->scratch_bytes = product->turned_bytes + fth_gemm_scratch(product->gemm, gemm.k);
    return FTH_OK;
}

static void release(void *prepared) {
    struct product *product = prepared;
    fth_gemm_destroy(product->gemm);
    fth_free(product);
}

static void run(const struct fth_run *run) {
    const struct product *product = run->prepared;
    const struct fth_view *x = &run->in[0], *dy = &run->in[1];
    void *scratch = (char *)run->scratch + product->turned_bytes;
    if (!product->turned) {
        fth_gemm_run(product->gemm, x->rows, x->data, dy->data, run->out[0].data, scratch);
        return;
    }
    fth_gemm_run(product->gemm, x->rows, dy->data, x->data, run->scratch, scratch);
    fth_kernels_get()->transpose(dy->columns, x->columns, run->scratch, x->columns,
                                 run->out[0].data, dy->columns);
}

const struct fth_op fth_op_linear_tile_grad = {.name = "linear_tile_grad",
                                               .min_inputs = 2,
                                               .max_inputs = 2,
                                               .n_outputs = 1,
                                               .granularity = FTH_PER_TILE,
                                               .shape = shape,
                                               .prepare = prepare,
                                               .release = release,
                                               .cost = fth_ops_weight_grad_cost,
                                               .run = run};
