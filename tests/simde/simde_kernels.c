/* The table of the AVX-512 kernels compiled through SIMDe: what the tests of tests/unit/kernels compare
 * with scalar when they are built with FTH_TEST_SIMDE. */
#include "simde_kernels.h"

const struct fth_kernels fth_kernels_simde = {
#define FTH_KERNEL(name, returns, args) .name = fth_k_##name##_simde,
#include "kernels/kernels.def"
#undef FTH_KERNEL
};
