/* The built-in table: which provider multiplies which shape.
 *
 * Fixed data, so that the bits of a product depend on the shape and the instruction set alone; the
 * first line that fits wins. Two things decided it: nothing may be allocated in a step, which leaves
 * oneDNN only where it does not call malloc (gemm_onednn.c), and these measurements:
 *
 * AVX-512: AMD Zen 4, one core, peak 118 GFLOP/s, rows padded to an odd number of cache lines, 64 examples
 * (NN) or 512 (TN); GFLOP/s of libxsmm / oneDNN 2.6.3 / OpenBLAS 0.3.21:
 *   NN k,n  13,512: 106/90/103   512,256: 116/114/99   256,64: 116/114/96   64,16: 114/72/108
 *           367,512: 116/113/98  429,1024: 115/112/99  1024,512: 115/113/98  80,40: 95/101/104
 *   TN m,n  128,256: 115/111/101  64,1024: 115/114/99  13,256: 116/109/71  64,16: 117/83/114
 *   NT k,n  512,256: -/104/93    367,512: -/107/92     64,16: -/59/80
 * AVX2: the same CPU limited to AVX2 (OpenBLAS: its Zen kernels). Not repeated on a CPU that has no
 * AVX-512: `fathom tune` there may know better.
 *   NN k,n  13,512: 113/99/106   512,256: 114/114/99   256,64: 115/114/90   64,16: 89/97/59
 *           367,512: 114/113/99  429,1024: 111/112/100  1024,512: 112/113/98
 *   TN m,n  128,256: 113/110/104  64,1024: 110/108/100  13,256: 106/95/56  64,16: 92/108/78
 *           128,367: 97/109/101
 * scalar: libxsmm's SSE kernels obey the limit (40 GFLOP/s); OpenBLAS cannot be limited at run time.
 * bf16: libxsmm is the only one. */
#include "kernels/gemm_private.h"

#define ANY UINT32_MAX

struct line {
    fth_gemm_form form;
    uint32_t max_n, n_multiple;
    uint32_t max_mn; /* m n; m is not looked at where it is the number of examples */
    fth_gemm_provider provider;
};

static const struct line avx512[] = {
    {FTH_GEMM_NN, ANY, 1, ANY, FTH_GEMM_XSMM},
    {FTH_GEMM_TN, ANY, 1, ANY, FTH_GEMM_XSMM},
    {FTH_GEMM_NT, ANY, 1, ANY, FTH_GEMM_OPENBLAS},
};

static const struct line avx2[] = {
    {FTH_GEMM_NN, ANY, 1, ANY, FTH_GEMM_XSMM},
    /* libxsmm is slow at small n and where n is no multiple of 8, at the rest as fast as oneDNN, which
     * calls malloc when C is large. */
    {FTH_GEMM_TN, 31, 1, FTH_ONEDNN_QUIET_MN, FTH_GEMM_ONEDNN},
    {FTH_GEMM_TN, ANY, 8, ANY, FTH_GEMM_XSMM},
    {FTH_GEMM_TN, ANY, 1, FTH_ONEDNN_QUIET_MN, FTH_GEMM_ONEDNN},
    {FTH_GEMM_TN, ANY, 1, ANY, FTH_GEMM_XSMM},
    {FTH_GEMM_NT, ANY, 1, ANY, FTH_GEMM_OPENBLAS},
};

static const struct line scalar[] = {
    {FTH_GEMM_NN, ANY, 1, ANY, FTH_GEMM_XSMM},
    {FTH_GEMM_TN, ANY, 1, ANY, FTH_GEMM_XSMM},
    {FTH_GEMM_NT, ANY, 1, ANY, FTH_GEMM_OPENBLAS},
};

static const struct {
    const struct line *lines;
    size_t count;
} tables[FTH_ISA_COUNT] = {
    [FTH_ISA_SCALAR] = {scalar, sizeof scalar / sizeof *scalar},
    [FTH_ISA_AVX2] = {avx2, sizeof avx2 / sizeof *avx2},
    [FTH_ISA_AVX512] = {avx512, sizeof avx512 / sizeof *avx512},
};

fth_gemm_provider fth_gemm_table_choose(const struct fth_gemm_shape *s, fth_isa isa) {
    if (s->precision == FTH_BF16)
        return FTH_GEMM_XSMM;
    for (size_t i = 0; i < tables[isa].count; i++) {
        const struct line *l = &tables[isa].lines[i];
        if (l->form == s->form && s->n <= l->max_n && s->n % l->n_multiple == 0 &&
            (s->form != FTH_GEMM_TN || (uint64_t)s->m * s->n <= l->max_mn || l->max_mn == ANY))
            return l->provider;
    }
    return FTH_GEMM_REFERENCE;
}
