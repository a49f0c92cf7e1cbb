/* What the reader and the writer of tuning files agree on. */
#ifndef FTH_KERNELS_GEMM_TUNING_PRIVATE_H
#define FTH_KERNELS_GEMM_TUNING_PRIVATE_H

#define FTH_TUNING_FORMAT "fathom-tuning"
#define FTH_TUNING_VERSION 1

#endif
