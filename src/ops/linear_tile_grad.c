/* linear_tile_grad(x, dy): a tile's part of dW = x^T dy, [tiles, k n], for small weights over many positions: x
 * and dy are used while they are in cache and need not be kept for the whole batch; the parts are summed in a
 * fixed tree by who reads them (update). */
#include "ops/ops_private.h"

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
    struct fth_gemm_shape gemm = {.form = FTH_GEMM_TN,
                                  .m = x->columns,
                                  .n = dy->columns,
                                  .k = x->rows,
                                  .lda = x->ld,
                                  .ldb = dy->ld,
                                  .ldc = dy->columns,
                                  .precision = (fth_precision)prepare->precision};
    fth_gemm *made;
    FTH_TRY(fth_ops_product(prepare, &gemm, &made, err));
    prepare->prepared = made;
    prepare->scratch_bytes = fth_gemm_scratch(made, gemm.k);
    return FTH_OK;
}

static void release(void *prepared) {
    fth_gemm_destroy(prepared);
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    struct fth_value x = fth_ops_input(graph, node, 0), dy = fth_ops_input(graph, node, 1);
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = 2 * fth_ops_rows(&x, examples, positions) * x.columns * dy.columns;
}

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *dy = &run->in[1];
    fth_gemm_run(run->prepared, x->rows, x->data, dy->data, run->out[0].data, run->scratch);
}

const struct fth_op fth_op_linear_tile_grad = {.name = "linear_tile_grad",
                                               .min_inputs = 2,
                                               .max_inputs = 2,
                                               .n_outputs = 1,
                                               .granularity = FTH_PER_TILE,
                                               .resource = FTH_COMPUTE,
                                               .shape = shape,
                                               .prepare = prepare,
                                               .release = release,
                                               .cost = cost,
                                               .run = run};
