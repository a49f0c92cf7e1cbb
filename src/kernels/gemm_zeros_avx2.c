/* Products that leave out the zeros of A, by AVX2: NN by three rows together, which share each line of B, by pairs of strips
 * of 16 columns (panels.h), whether or not B lies in them:
 *
 *     for 64 rows:  for 128 of k:  of three rows each, the columns of A that are not zero in all of them, side by side
 *         for two strips (128 x 32 of B, which stay in the first cache):  for three rows:  C[3, 32] += columns B
 *
 * Twelve sums in registers, three elements of A and one vector of B are all sixteen; compilers spill them, so the kernel is
 * assembly. Every element of C is summed in increasing k. Threads: pure functions. */
#include "kernels/cpu/simd_avx2.h"

#include "base/memory.h"
#include "kernels/gemm_zeros.h"
#include "kernels/panels.h"

#define TOGETHER 3u
#define MOST_TRIPLES ((FTH_ZEROS_ROWS + TOGETHER - 1) / TOGETHER)
#define DEPTH 128u
#define STRIP 16u
#define PAIR (2 * STRIP)
#define FINISHED 64u /* columns told of at a time */

/* The columns of three rows of A that are not zero in all of them; rows that are not there are zeros. The kernels count on
 * x lying behind k, each as long. */
struct triple {
    uint32_t k[DEPTH + VW]; /* VW are stored at a time */
    float x[TOGETHER][DEPTH + VW];
    size_t n;
    uint32_t rows; /* that are there */
};

/* A strip of C or two by a piece of k. Row k of B's second strip lies at b + strip + k ld. */
struct piece {
    const float *b;
    size_t strip, ld;
    float *c;
    size_t ldc;
    uint32_t columns; /* of C */
    int add;
    const float *ahead; /* in panels, what is read behind it: a piece of one strip or two, `strip` apart; or NULL */
    uint32_t ahead_strips, ahead_rows;
};

/* Up to VW columns of three rows. Returns which of them are not zero in all, a bit each. */
static FTH_INLINE uint32_t load_columns(const float *const rows[TOGETHER], uint32_t k, vt columns, vf x[TOGETHER]) {
    uint32_t there = 0;
#pragma GCC unroll 3
    for (uint32_t i = 0; i < TOGETHER; i++) {
        x[i] = v_load_part(rows[i] + k, columns);
        there |= v_bits(v_not_zero(x[i]));
    }
    return there;
}

uint64_t fth_zeros_avx2_triples(const float *a, uint32_t rows, uint32_t columns, uint32_t ld, uint32_t every) {
    uint64_t counted = 0;
    for (uint32_t i = 0; i < rows; i += every * TOGETHER) {
        const float *from[TOGETHER]; /* the last is there more than once rather than a row too many */
        for (uint32_t r = 0; r < TOGETHER; r++)
            from[r] = a + (size_t)(i + r < rows ? i + r : rows - 1) * ld;
        for (uint32_t k = 0; k < columns; k += VW) {
            vf x[TOGETHER];
            uint32_t there = load_columns(from, k, v_tail(columns - k < VW ? columns - k : VW), x);
            counted += (uint32_t)__builtin_popcount(there);
        }
    }
    return counted;
}

static FTH_INLINE size_t pack_vector(const float *const rows[TOGETHER], uint32_t k, vt columns, struct triple *out,
                                     size_t n) {
    vf x[TOGETHER];
    uint32_t there = load_columns(rows, k, columns, x);
    vi lanes = vi_places(there);
    _mm256_storeu_si256((__m256i *)(void *)(out->k + n), vi_add(lanes, vi_set(k)));
#pragma GCC unroll 3
    for (uint32_t i = 0; i < TOGETHER; i++)
        v_store(out->x[i] + n, v_permute(lanes, x[i]));
    return n + (uint32_t)__builtin_popcount(there);
}

/* VW columns are stored at a time, those that are not zeros first; the next ones overwrite the others. */
static void pack_columns(const float *a, size_t lda, uint32_t rows, uint32_t depth, struct triple *out) {
    static const float zeros[DEPTH];
    const float *from[TOGETHER];
    for (uint32_t i = 0; i < TOGETHER; i++)
        from[i] = i < rows ? a + i * lda : zeros;
    size_t n = 0;
    uint32_t k = 0;
    for (; k + VW <= depth; k += VW)
        n = pack_vector(from, k, v_tail(VW), out, n);
    if (k < depth)
        n = pack_vector(from, k, v_tail(depth - k), out, n);
    out->n = n;
    out->rows = rows;
}

/* ---- kernels: 3 x 32 and 3 x 16 of C ---- */

#define LOAD(row, offset, sum) "vmovups " offset "(%[" row "]), %%ymm" sum "\n\t"
#define STORE(row, offset, sum) "vmovups %%ymm" sum ", " offset "(%[" row "])\n\t"
#define ZERO(sum) "vxorps %%ymm" sum ", %%ymm" sum ", %%ymm" sum "\n\t"
#define LOAD_STRIP(at, next, a, b, c, d, e, f) \
    LOAD("c0", at, a) LOAD("c0", next, b) LOAD("c1", at, c) LOAD("c1", next, d) LOAD("c2", at, e) LOAD("c2", next, f)
#define STORE_STRIP(at, next, a, b, c, d, e, f) \
    STORE("c0", at, a) STORE("c0", next, b) STORE("c1", at, c) STORE("c1", next, d) STORE("c2", at, e) STORE("c2", next, f)
#define ZERO_STRIP(a, b, c, d, e, f) ZERO(a) ZERO(b) ZERO(c) ZERO(d) ZERO(e) ZERO(f)
#define MULTIPLY(b, offset, sum0, sum1, sum2)                \
    "vmovups " offset "(%[" b "],%[k]), %%ymm15\n\t"         \
    "vfmadd231ps %%ymm12, %%ymm15, %%ymm" sum0 "\n\t"        \
    "vfmadd231ps %%ymm13, %%ymm15, %%ymm" sum1 "\n\t"        \
    "vfmadd231ps %%ymm14, %%ymm15, %%ymm" sum2 "\n\t"

/* The sums are C or begin with zeros; then column after column. */
#define LOOP(load, zero, multiply, store)                    \
    "test %[add], %[add]\n\t"                                \
    "jz 1f\n\t" load                                         \
    "jmp 2f\n"                                               \
    "1:\n\t" zero                                            \
    "2:\n\t"                                                 \
    "test %[n], %[n]\n\t"                                    \
    "jz 4f\n\t"                                              \
    ".p2align 5\n"                                           \
    "3:\n\t"                                                 \
    "movl (%[column]), %k[k]\n\t"                            \
    "vbroadcastss %c[x](%[column]), %%ymm12\n\t"             \
    "vbroadcastss 2*%c[x](%[column]), %%ymm13\n\t"           \
    "vbroadcastss 3*%c[x](%[column]), %%ymm14\n\t"           \
    "imul %[ld], %[k]\n\t" multiply                          \
    "add $4, %[column]\n\t"                                  \
    "dec %[n]\n\t"                                           \
    "jnz 3b\n"                                               \
    "4:\n\t" store

#define KERNEL(load, zero, multiply, store)                                                                            \
    __asm__ volatile(LOOP(load, zero, multiply, store)                                                                 \
                     : [column] "+r"(column), [n] "+r"(n), [k] "=&r"(k)                                                \
                     : [b0] "r"(p->b), [b1] "r"(p->b + p->strip), [ld] "r"(p->ld * sizeof(float)), [c0] "r"(c[0]),     \
                       [c1] "r"(c[1]), [c2] "r"(c[2]), [add] "r"(add), [x] "i"(sizeof t->k)                            \
                     : "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8", "ymm9", "ymm10",        \
                       "ymm11", "ymm12", "ymm13", "ymm14", "ymm15", "cc", "memory")

static FTH_INLINE void run_two_strips(const struct triple *t, const struct piece *p, float *const c[TOGETHER], int add) {
    const uint32_t *column = t->k;
    size_t n = t->n, k;
    KERNEL(LOAD_STRIP("", "32", "0", "1", "4", "5", "8", "9") LOAD_STRIP("64", "96", "2", "3", "6", "7", "10", "11"),
           ZERO_STRIP("0", "1", "4", "5", "8", "9") ZERO_STRIP("2", "3", "6", "7", "10", "11"),
           MULTIPLY("b0", "", "0", "4", "8") MULTIPLY("b0", "32", "1", "5", "9")
           MULTIPLY("b1", "", "2", "6", "10") MULTIPLY("b1", "32", "3", "7", "11"),
           STORE_STRIP("", "32", "0", "1", "4", "5", "8", "9") STORE_STRIP("64", "96", "2", "3", "6", "7", "10", "11"));
}

static FTH_INLINE void run_strip(const struct triple *t, const struct piece *p, float *const c[TOGETHER], int add) {
    const uint32_t *column = t->k;
    size_t n = t->n, k;
    KERNEL(LOAD_STRIP("", "32", "0", "1", "4", "5", "8", "9"), ZERO_STRIP("0", "1", "4", "5", "8", "9"),
           MULTIPLY("b0", "", "0", "4", "8") MULTIPLY("b0", "32", "1", "5", "9"),
           STORE_STRIP("", "32", "0", "1", "4", "5", "8", "9"));
}

/* C's rows that are not there, and all of them where a strip is not full, are scratch. */
static FTH_INLINE void run_triple(const struct triple *t, const struct piece *p, float *c) {
    float scratch[TOGETHER][PAIR], *rows[TOGETHER];
    int full = p->columns % STRIP == 0;
    for (uint32_t i = 0; i < TOGETHER; i++) {
        rows[i] = full && i < t->rows ? c + i * p->ldc : scratch[i];
        if (!full && p->add && i < t->rows)
            memcpy(scratch[i], c + i * p->ldc, p->columns * sizeof *c);
    }
    if (p->columns > STRIP)
        run_two_strips(t, p, rows, p->add);
    else
        run_strip(t, p, rows, p->add);
    for (uint32_t i = 0; !full && i < t->rows; i++)
        memcpy(c + i * p->ldc, scratch[i], p->columns * sizeof *c);
}

/* ---- loops ---- */

static void run_piece(const struct triple *triples, uint32_t count, const struct piece *p) {
    uint32_t share = (p->ahead_rows + count - 1) / count, fetched = 0;
    float *c = p->c;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t end = fetched + share; fetched < end && fetched < p->ahead_rows; fetched++)
            for (uint32_t j = 0; j < p->ahead_strips; j++)
                _mm_prefetch((const char *)(p->ahead + j * p->strip + fetched * STRIP), _MM_HINT_T1);
        run_triple(&triples[i], p, c);
        c += triples[i].rows * p->ldc;
    }
}

/* What is read behind the columns before `column` of the piece that ends before row `end`: the next two strips of it, or the
 * first two of the next one. */
static void look_ahead(const struct fth_gemm_shape *s, const float *b, uint32_t column, uint32_t k, uint32_t end,
                       struct piece *p) {
    if (column >= s->n) {
        column = 0;
        k = end;
        end = s->k - k < DEPTH ? s->k : k + DEPTH;
    }
    p->ahead = b + (size_t)column * s->k + k * STRIP;
    p->ahead_rows = end - k;
    p->ahead_strips = s->n - column > STRIP ? 2 : 1;
}

/* Where B does not lie in panels, a last strip that is not full: its rows, padded. */
static const float *pad(const float *b, size_t ld, uint32_t rows, uint32_t columns, float out[DEPTH][PAIR]) {
    memset(out, 0, DEPTH * sizeof *out);
    for (uint32_t k = 0; k < rows; k++)
        memcpy(out[k], b + k * ld, columns * sizeof *b);
    return out[0];
}

static void run_rows(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                     const struct fth_gemm_finish *finish) {
    struct triple triples[MOST_TRIPLES];
    float padded[DEPTH][PAIR];
    uint32_t count = (rows + TOGETHER - 1) / TOGETHER;
    for (uint32_t k = 0; k < s->k; k += DEPTH) {
        uint32_t end = s->k - k < DEPTH ? s->k : k + DEPTH;
        for (uint32_t i = 0, row = 0; i < count; row += triples[i++].rows) {
            uint32_t left = rows - row;
            pack_columns(a + row * s->lda + k, s->lda, left < TOGETHER ? left : TOGETHER, end - k, &triples[i]);
        }
        for (uint32_t j = 0; j < s->n; j += PAIR) {
            uint32_t columns = s->n - j < PAIR ? s->n - j : PAIR;
            struct piece p = {.strip = STRIP, .ld = s->ldb, .c = c + j, .ldc = s->ldc, .columns = columns,
                              .add = s->accumulate || k > 0};
            if (s->panels) {
                p.strip = (size_t)STRIP * s->k;
                p.ld = STRIP;
                p.b = b + (size_t)j * s->k + k * STRIP;
                look_ahead(s, b, j + PAIR, k, end, &p);
            } else if (columns % STRIP) {
                p.ld = PAIR;
                p.b = pad(b + (size_t)k * s->ldb + j, s->ldb, end - k, columns, padded);
            } else {
                p.b = b + (size_t)k * s->ldb + j;
            }
            run_piece(triples, count, &p);
            uint32_t done = j + columns, begin = j / FINISHED * FINISHED;
            if (finish && end == s->k && (done % FINISHED == 0 || done == s->n))
                finish->done(finish->ctx, begin, done - begin);
        }
    }
}

void fth_zeros_avx2_nn(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                       const struct fth_gemm_finish *finish) {
    fth_zeros_by_rows(s, rows, a, b, c, finish, run_rows);
}
