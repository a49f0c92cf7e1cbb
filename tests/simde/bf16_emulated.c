/* The bf16 kernels compiled over the emulation of their intrinsics, under names of their own. */
#define FTH_SIMDE
#define fth_bf16_avx512 emulated_bf16_avx512
#define fth_bf16_amx emulated_bf16_amx
#define fth_bf16_pack_rows emulated_bf16_pack_rows
#define fth_bf16_pack_pairs emulated_bf16_pack_pairs
#define fth_bf16_round_block emulated_bf16_round_block
#include "kernels/gemm_bf16_avx512bf16.c"
#include "kernels/gemm_bf16_amx.c"
