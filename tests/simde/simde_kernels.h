/* Declares fth_k_<kernel>_simde for every line of kernels.def. */
#ifndef FTH_TEST_SIMDE_KERNELS_H
#define FTH_TEST_SIMDE_KERNELS_H

#include "kernels/kernels.h"

#define FTH_KERNEL(name, returns, args) returns fth_k_##name##_simde args;
#include "kernels/kernels.def"
#undef FTH_KERNEL

extern const struct fth_kernels fth_kernels_simde;

#endif
