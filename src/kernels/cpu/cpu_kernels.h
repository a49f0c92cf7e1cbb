/* Declares fth_k_<kernel>_<instruction set> for every line of kernels.def: what cpu/<group>_<isa>.c
 * define and kernels.c puts into tables. Elements are floats where the name says nothing else. */
#ifndef FTH_KERNELS_CPU_CPU_KERNELS_H
#define FTH_KERNELS_CPU_CPU_KERNELS_H

#include "kernels/kernels.h"

#define FTH_KERNEL(name, returns, args) \
    returns fth_k_##name##_scalar args; \
    returns fth_k_##name##_avx2 args; \
    returns fth_k_##name##_avx512 args;
#include "kernels/kernels.def"
#undef FTH_KERNEL

/* The column part of a dropout unit's draw. Philox gives four words a draw; columns are taken in
 * blocks of 64, and word w of draw l (0..15) of a block decides column 16 w + l of it, so that 16
 * (or twice 8) draws made side by side fill whole vectors without a transpose. The draw of unit
 * (row, column) is word fth_dropout_word(column) of
 *   fth_random_draw(seed, FTH_RANDOM_DROPOUT, step, fth_dropout_counter(node, row, column)),
 * counter = node (16 bits) | row (32 bits) | 16 * (column / 64) + column % 16 (16 bits): numbers
 * repeat only beyond 65536 nodes, 2^32 rows of a batch or 262144 columns. */
static inline uint64_t fth_dropout_counter(uint32_t node, uint64_t row, size_t column) {
    return (uint64_t)(node & 0xffff) << 48 | (row & 0xffffffffu) << 16 |
           ((column / 64 * 16 + column % 16) & 0xffff);
}
static inline unsigned fth_dropout_word(size_t column) { return (unsigned)(column % 64 / 16); }

#endif
