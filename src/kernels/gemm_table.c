/* The built-in table: which provider multiplies which shape.
 *
 * Fixed data, so that the bits of a product depend on the shape and the instruction set alone; the
 * first line that fits wins. Two things decided it: nothing may be allocated in a step, which
 * leaves oneDNN only where it does not call malloc (gemm_onednn.c), and these measurements:
 *
 * AVX-512: AMD Zen 4, one core, peak 117 GFLOP/s, rows padded to an odd number of cache lines,
 * 64 examples (NN, NT) or 512 (TN); GFLOP/s of libxsmm / oneDNN 2.6.3 / OpenBLAS 0.3.21, medians of
 * fth_tuning_measure, best of four runs:
 *
 *   NN k,n  13,512: 104/91/105   512,256: 114/109/95    256,64: 113/101/93   64,16: 114/70/107
 *           367,512: 113/113/93  429,1024: 112/111/92  1024,512: 108/111/88  80,40: 94/86/103
 *   TN m,n  128,256: 111/108/96  64,1024: 110/112/93   13,256: 113/107/68    64,16: 115/81/111
 *   NT k,n  512,256: -/98/89     367,512: -/102/88     64,16: -/59/80
 *
 * AVX-512 where a core begins two FMAs a cycle: a Xeon with AMX (two shared virtual CPUs), one core, NN by panels of 64,
 * tiles of 64 examples of 4096, share of the FMA bursts measured between them; libxsmm / our own:
 *
 *   k,n  1024,512: .82/.90   512,1024: .81/.91   512,256: .90/.95   429,1024: .77/.94   256,429: .84/.95
 *        192,256: .87/.90    128,256: .95/.90    64,256: .88/.86    13,512: .57/.53     512,48: .91/.89   512,16: .79/.58
 *   a Xeon without AMX, TN by 860 examples in L2, GFLOP/s of a core's 174:  m,n  36,108: 160/140   36,36: 124/94
 *
 * AVX2: the AMD limited to AVX2: our own kernels do 108-113 (NN by panels) and 103-110 (TN) also where the
 * operands come from beyond the second cache; libxsmm 87-95 and 86-105 there, and as much as ours on operands
 * in cache (docs/performance.md). Alone in cache, libxsmm / oneDNN / OpenBLAS (its Zen kernels):
 *
 *   NN k,n  13,512: 112/98/47    512,256: 113/111/96    256,64: 114/112/89   64,16: 88/92/60
 *   TN m,n  128,256: 110/105/98  64,1024: 101/101/93    13,256: 101/88/53    64,16: 89/102/76
 *   NT k,n  512,256: -/102/90    367,512: -/103/91      64,16: -/90/57
 *
 * AMD Zen 3, one core, peak 93, 64 examples; libxsmm / our own (gemm_small_avx2.c but for 256,256 and 512,256):
 *
 *   NN k,n  4,512: 70/39  8,256: 81/63  13,512: 77/75  16,32: 78/80  36,108: 63/80  64,256: 71/92  108,36: 52/80  256,256: 69/92  512,256: 64/84
 *   TN m,n  16,32: 84/83   36,36: 58/65  36,108: 69/78  128,64: 87/81
 *
 * scalar: libxsmm's SSE kernels obey the limit (40 GFLOP/s); OpenBLAS cannot be limited so late.
 * bf16, bf16x3, bf16x6: our own are the only ones. */
#include "kernels/gemm_private.h"

#define ANY UINT32_MAX

struct line {
    fth_gemm_form form;
    uint32_t max_n, n_multiple;
    uint32_t max_mn; /* m n; m is not looked at where it is the number of examples */
    fth_gemm_provider provider;
    uint32_t least_n, least_k;
};

static const struct line avx512[] = {
    {FTH_GEMM_NN, ANY, 1, ANY, FTH_GEMM_XSMM, 0, 0},
    {FTH_GEMM_TN, ANY, 1, ANY, FTH_GEMM_FATHOM, 0, 0},
    {FTH_GEMM_NT, ANY, 1, ANY, FTH_GEMM_OPENBLAS, 0, 0},
};

static const struct line avx512_two[] = {
    {FTH_GEMM_NN, ANY, 1, ANY, FTH_GEMM_FATHOM, 64, 192},
    {FTH_GEMM_NN, ANY, 1, ANY, FTH_GEMM_XSMM, 0, 0},
    /* Of a recurrent layer's weights; narrower ones are gemm_fp32_narrow_avx512.c's. */
    {FTH_GEMM_TN, ANY, 1, 4096, FTH_GEMM_XSMM, 33, 0},
    {FTH_GEMM_TN, ANY, 1, ANY, FTH_GEMM_FATHOM, 0, 0},
    {FTH_GEMM_NT, ANY, 1, ANY, FTH_GEMM_OPENBLAS, 0, 0},
};

static const struct line avx2[] = {
    {FTH_GEMM_NN, ANY, 1, ANY, FTH_GEMM_FATHOM, 9, 12},
    {FTH_GEMM_NN, ANY, 1, ANY, FTH_GEMM_FATHOM, 0, 20},
    {FTH_GEMM_NN, ANY, 8, ANY, FTH_GEMM_XSMM, 0, 0},
    {FTH_GEMM_NN, ANY, 1, ANY, FTH_GEMM_FATHOM, 0, 0},
    /* Our own kernels want more than 8 columns; oneDNN calls malloc when C is large. */
    {FTH_GEMM_TN, 8, 1, FTH_ONEDNN_QUIET_MN, FTH_GEMM_ONEDNN, 0, 0},
    {FTH_GEMM_TN, ANY, 1, ANY, FTH_GEMM_FATHOM, 0, 0},
    {FTH_GEMM_NT, ANY, 1, ANY, FTH_GEMM_OPENBLAS, 0, 0},
};

static const struct line scalar[] = {
    {FTH_GEMM_NN, ANY, 1, ANY, FTH_GEMM_XSMM, 0, 0},
    {FTH_GEMM_TN, ANY, 1, ANY, FTH_GEMM_XSMM, 0, 0},
    {FTH_GEMM_NT, ANY, 1, ANY, FTH_GEMM_OPENBLAS, 0, 0},
};

static const struct table {
    const struct line *lines;
    size_t count;
} two_fmas = {avx512_two, sizeof avx512_two / sizeof *avx512_two}, tables[FTH_ISA_COUNT] = {
    [FTH_ISA_SCALAR] = {scalar, sizeof scalar / sizeof *scalar},
    [FTH_ISA_AVX2] = {avx2, sizeof avx2 / sizeof *avx2},
    [FTH_ISA_AVX512] = {avx512, sizeof avx512 / sizeof *avx512},
};

fth_gemm_provider fth_gemm_table_choose(const struct fth_gemm_shape *s, const struct fth_cpu *cpu) {
    const struct table *table = cpu->isa == FTH_ISA_AVX512 && cpu->two_fmas ? &two_fmas : &tables[cpu->isa];
    if (s->precision != FTH_FP32)
        return FTH_GEMM_FATHOM;
    for (size_t i = 0; i < table->count; i++) {
        const struct line *l = &table->lines[i];
        if (l->form == s->form && s->n >= l->least_n && s->k >= l->least_k && s->n <= l->max_n && s->n % l->n_multiple == 0 &&
            (s->form != FTH_GEMM_TN || (uint64_t)s->m * s->n <= l->max_mn || l->max_mn == ANY))
            return l->provider;
    }
    return FTH_GEMM_REFERENCE;
}
