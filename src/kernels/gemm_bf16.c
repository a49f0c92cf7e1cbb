/* bf16 products through libxsmm (AVX512-BF16): operands are rounded and packed into the caller's
 * scratch, multiplied by kernels generated at creation, summed in fp32.
 *
 * The hardware multiplies pairs of neighbours along k, so libxsmm wants our B as pairs:
 *
 *   B packed   [k/2][n][2]     A packed   [rows][k]     k made even, a zero behind it
 *
 *   NN, NT   B is packed once a run, A in chunks of 64 examples.
 *   TN       both in chunks of 256 examples (A turned to [m][256]); a shorter last chunk is filled
 *            with zeros to a multiple of 32 and goes through kernels of 32.
 *
 * Threads: the state is read-only; scratch belongs to the caller. */
#include <libxsmm.h>

#include "base/memory.h"
#include "kernels/gemm_private.h"

#define CHUNK 64       /* examples of A packed at a time, NN and NT */
#define SUM_CHUNK 256u /* examples packed at a time, TN */
#define SUM_REST 32u
#define SIZES 4

static const uint32_t row_sizes[SIZES] = {CHUNK, 16, 4, 1};
static const uint32_t sum_sizes[2] = {SUM_CHUNK, SUM_REST};

struct state {
    libxsmm_bsmmfunction kernel[SIZES][2]; /* [size][C is added to] */
};

static uint32_t even(uint32_t k) {
    return k + (k & 1u);
}

static size_t align(size_t bytes) {
    return (bytes + FTH_CACHE_LINE - 1) / FTH_CACHE_LINE * FTH_CACHE_LINE;
}

static size_t packed_b_bytes(const struct fth_gemm_shape *s) {
    size_t depth = s->form == FTH_GEMM_TN ? SUM_CHUNK : even(s->k);
    return align(depth * s->n * sizeof(uint16_t));
}

size_t fth_gemm_bf16_scratch(const struct fth_gemm_shape *s) {
    size_t a = s->form == FTH_GEMM_TN ? (size_t)s->m * SUM_CHUNK : (size_t)CHUNK * even(s->k);
    return packed_b_bytes(s) + align(a * sizeof(uint16_t));
}

fth_status fth_gemm_bf16_create(const struct fth_gemm_shape *s, void **out, fth_error *err) {
    int tn = s->form == FTH_GEMM_TN;
    struct state *state = fth_alloc(1, sizeof *state);
    if (!state)
        return fth_fail(err, FTH_E_MEMORY, "matrix product: out of memory");
    for (int size = 0; size < (tn ? 2 : SIZES); size++)
        for (int add = 0; add < 2; add++) {
            int rows = (int)(tn ? s->m : row_sizes[size]);
            int depth = (int)(tn ? sum_sizes[size] : even(s->k));
            int lda = (int)s->n, ldb = (int)(tn ? SUM_CHUNK : even(s->k)), ldc = (int)s->ldc;
            float alpha = 1.0f, beta = add ? 1.0f : 0.0f;
            int flags = LIBXSMM_GEMM_FLAG_VNNI_A, prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
            state->kernel[size][add] = libxsmm_bsmmdispatch((int)s->n, rows, depth, &lda, &ldb,
                                                            &ldc, &alpha, &beta, &flags, &prefetch);
            if (!state->kernel[size][add]) {
                fth_free(state);
                return fth_fail(err, FTH_E_UNSUPPORTED,
                                "libxsmm generates no bf16 kernel for the "
                                "product %s of m %u, n %u, k %u",
                                fth_gemm_form_name(s->form), s->m, s->n, s->k);
            }
        }
    *out = state;
    return FTH_OK;
}

static void run_rows(const struct fth_gemm_shape *s, const struct state *state, uint32_t rows,
                     const float *a, const float *b, float *c, uint32_t *packed_b, void *packed_a) {
    uint32_t k = even(s->k);
    if (s->form == FTH_GEMM_NN)
        fth_bf16_pack_pairs(s->k, k, s->n, b, s->ldb, packed_b);
    else
        fth_bf16_pack_pairs_transposed(s->k, k, s->n, b, s->ldb, packed_b);
    for (uint32_t i = 0; i < rows; i += CHUNK) {
        uint32_t chunk = rows - i < CHUNK ? rows - i : CHUNK, done = 0;
        fth_bf16_pack_plain(chunk, s->k, k, a + (size_t)i * s->lda, s->lda, packed_a, k);
        for (int size = 0; size < SIZES; size++)
            for (; chunk - done >= row_sizes[size]; done += row_sizes[size])
                state->kernel[size][s->accumulate != 0]((const libxsmm_bfloat16 *)packed_b,
                                                        (const libxsmm_bfloat16 *)packed_a +
                                                            (size_t)done * k,
                                                        c + (size_t)(i + done) * s->ldc);
    }
}

static void run_sum(const struct fth_gemm_shape *s, const struct state *state, uint32_t rows,
                    const float *a, const float *b, float *c, uint32_t *packed_b, void *packed_a) {
    for (uint32_t p = 0; p < rows; p += SUM_CHUNK) {
        uint32_t chunk = rows - p < SUM_CHUNK ? rows - p : SUM_CHUNK;
        uint32_t padded = (chunk + SUM_REST - 1) / SUM_REST * SUM_REST;
        fth_bf16_pack_transposed(s->m, chunk, padded, a + (size_t)p * s->lda, s->lda, packed_a,
                                 SUM_CHUNK / 2);
        fth_bf16_pack_pairs(chunk, padded, s->n, b + (size_t)p * s->ldb, s->ldb, packed_b);
        int size = padded == SUM_CHUNK ? 0 : 1;
        for (uint32_t q = 0; q < padded; q += sum_sizes[size])
            state->kernel[size][s->accumulate || p + q > 0](
                (const libxsmm_bfloat16 *)(packed_b + (size_t)q / 2 * s->n),
                (const libxsmm_bfloat16 *)packed_a + q, c);
    }
}

void fth_gemm_bf16_run(const struct fth_gemm_shape *s, const void *state, uint32_t rows,
                       const float *a, const float *b, float *c, void *scratch) {
    uint32_t *packed_b = scratch;
    void *packed_a = (char *)scratch + packed_b_bytes(s);
    if (s->form == FTH_GEMM_TN)
        run_sum(s, state, rows, a, b, c, packed_b, packed_a);
    else
        run_rows(s, state, rows, a, b, c, packed_b, packed_a);
}
