/* Products leave out the zeros that a ReLU and its gradient make of their operands, where these are many: operations ask
 * fth_ops_zeros_of for the values that may be such. By AVX2 and AVX-512 (kernels/gemm_zeros.h). */
#include "passes/passes.h"

static fth_status run(fth_graph *graph, fth_error *err) {
    (void)err;
    graph->skip_zeros = 1;
    return FTH_OK;
}

const struct fth_pass fth_pass_skip_zeros = {
    .name = "skip_zeros",
    .when = FTH_PASS_FORWARD,
    .rounding = 1,
    .run = run};
