/* Small fp32 products by AVX2 and FMA, where kernels begin and end often: 4 rows by 24 columns of C or 6 by 16, whichever
 * fit its columns, in assembly (compilers spill the sums). Nothing but a last vector is packed.
 *
 *     NN   for columns, 24 or 16:  for rows, 4 or 6:  C[rows, columns] = A B over all of k
 *     TN   for examples, as many as stay in the first cache:  the same over them
 *
 * C's columns begin at any multiple of 8: a vector of B's is read where it lies, in a panel (panels.h) or by rows. The sums
 * of a vector that is not full are made as if it was, and written in pieces, as AMD's masked stores take some twenty cycles.
 * C's next rows are fetched, as stores wait for lines that others have.
 *
 * Every element of C is summed in increasing k by FMA, beginning with what it is added to: the bits of gemm_fp32_avx2.c.
 * Threads: pure functions. */
#include "kernels/cpu/simd_avx2.h"

#include "base/memory.h"
#include "kernels/gemm_fp32.h"
#include "kernels/panels.h"

#define STRIP 16u
#define MOST_VECTORS 3u
#define MOST_DEPTH 128u /* whose columns of B stay in the first cache */
#define SMALL 64u       /* rows or columns of C up to which TN gains */
#define FIRST_CACHE 24576u /* bytes of it that examples may take */
_Static_assert(FIRST_CACHE / (3 * FTH_CACHE_LINE) <= MOST_DEPTH, "more examples at once than can be packed");

/* Rows of C by two or three vectors of its columns. */
struct block {
    const float *a;
    size_t a_row, a_step; /* bytes from row to row, from one of k to the next */
    const float *b[MOST_VECTORS];
    size_t b_step;
    size_t depth;
    float *c;
    size_t ldc;    /* floats */
    uint32_t part; /* columns of the last vector; 0: all */
    int add;
};

/* One step of k: B's vectors, `at` behind where four steps begin, in ymm12 to 14 (three) or 12 and 13, an element of A in
 * ymm15. */
#define TIMES_2(sum) "vfmadd231ps %%ymm12, %%ymm15, %[" sum "0]\n\tvfmadd231ps %%ymm13, %%ymm15, %[" sum "1]\n\t"
#define TIMES_3(sum) TIMES_2(sum) "vfmadd231ps %%ymm14, %%ymm15, %[" sum "2]\n\t"
#define ROW(address, times, sum) "vbroadcastss (%[a]" address "), %%ymm15\n\t" times(sum)
#define ROWS_1(times) ROW("", times, "r")
#define ROWS_2(times) ROWS_1(times) ROW(",%[row]", times, "s")
#define ROWS_3(times) ROWS_2(times) ROW(",%[row],2", times, "t")
#define ROWS_4(times) ROWS_3(times) ROW(",%[row3]", times, "u")
#define ROWS_5(times) ROWS_4(times) ROW(",%[row],4", times, "v")
#define ROWS_6(times) ROWS_5(times) ROW(",%[row5]", times, "w")
#define LOAD_2(at) "vmovups (%[b0]" at "), %%ymm12\n\tvmovups (%[b1]" at "), %%ymm13\n\t"
#define LOAD_3(at) LOAD_2(at) "vmovups (%[b2]" at "), %%ymm14\n\t"
#define STEP(r, v, at) LOAD_##v(at) ROWS_##r(TIMES_##v) "add %[step], %[a]\n\t"
#define ADVANCE_2(by) "add %[" by "], %[b0]\n\tadd %[" by "], %[b1]\n\t"
#define ADVANCE_3(by) ADVANCE_2(by) "add %[" by "], %[b2]\n\t"

/* The sums begin with C's rows or with zeros. */
#define ZERO_2(sum) "vxorps %[" sum "0], %[" sum "0], %[" sum "0]\n\tvxorps %[" sum "1], %[" sum "1], %[" sum "1]\n\t"
#define ZERO_3(sum) ZERO_2(sum) "vxorps %[" sum "2], %[" sum "2], %[" sum "2]\n\t"
#define FROM_2(sum) "vmovups (%[from]), %[" sum "0]\n\tvmovups 32(%[from]), %[" sum "1]\n\t"
#define FROM_3(sum) FROM_2(sum) "vmovups 64(%[from]), %[" sum "2]\n\t"
#define DOWN "add %[ld], %[from]\n\t"
#define EACH_1(what) what("r")
#define EACH_2(what) EACH_1(what) what("s")
#define EACH_3(what) EACH_2(what) what("t")
#define EACH_4(what) EACH_3(what) what("u")
#define EACH_5(what) EACH_4(what) what("v")
#define EACH_6(what) EACH_5(what) what("w")
#define BEGIN_2(sum) FROM_2(sum) DOWN
#define BEGIN_3(sum) FROM_3(sum) DOWN

#define MULTIPLY(r, v)                                                                                                 \
    "test %[from], %[from]\n\t"                                                                                        \
    "jz 1f\n\t" EACH_##r(BEGIN_##v)                                                                                    \
    "jmp 2f\n"                                                                                                         \
    "1:\n\t" EACH_##r(ZERO_##v)                                                                                        \
    "2:\n\t"                                                                                                           \
    "sub $4, %[k]\n\t"                                                                                                 \
    "jb 4f\n\t"                                                                                                        \
    ".p2align 5\n"                                                                                                     \
    "3:\n\t" STEP(r, v, "") STEP(r, v, ",%[next]") STEP(r, v, ",%[next],2") STEP(r, v, ",%[next3]")                     \
    ADVANCE_##v("next") ADVANCE_##v("next3")                                                                           \
    "sub $4, %[k]\n\t"                                                                                                 \
    "jae 3b\n"                                                                                                         \
    "4:\n\t"                                                                                                           \
    "add $4, %[k]\n\t"                                                                                                 \
    "jz 6f\n"                                                                                                          \
    "5:\n\t" STEP(r, v, "") ADVANCE_##v("next")                                                                        \
    "dec %[k]\n\t"                                                                                                     \
    "jnz 5b\n"                                                                                                         \
    "6:\n\t"

#define SUMS_2(row, i) [row##0] "=&x"(sum[i][0]), [row##1] "=&x"(sum[i][1])
#define SUMS_3(row, i) SUMS_2(row, i), [row##2] "=&x"(sum[i][2])
#define OUT_1(sums) sums(r, 0)
#define OUT_2(sums) OUT_1(sums), sums(s, 1)
#define OUT_3(sums) OUT_2(sums), sums(t, 2)
#define OUT_4(sums) OUT_3(sums), sums(u, 3)
#define OUT_5(sums) OUT_4(sums), sums(v, 4)
#define OUT_6(sums) OUT_5(sums), sums(w, 5)
#define VECTORS_2 [b0] "+r"(b0), [b1] "+r"(b1)
#define VECTORS_3 VECTORS_2, [b2] "+r"(b2)

/* What sums begin with whose last vector has `part` columns of C. */
static void begin_part(const struct block *p, uint32_t rows, uint32_t vectors, const float *c, float *own) {
    vt tail = v_tail(p->part);
    for (uint32_t row = 0; row < rows; row++, c += p->ldc, own += vectors * VW) {
        for (uint32_t j = 0; j + 1 < vectors; j++)
            v_store(own + j * VW, v_load(c + j * VW));
        v_store(own + (vectors - 1) * VW, v_load_part(c + (vectors - 1) * VW, tail));
    }
}

/* Rows' places in bytes; A's rows beyond four only where there are two vectors. */
#define PLACES_2 [row] "r"(p->a_row), [row3] "r"(3 * p->a_row), [row5] "r"(5 * p->a_row)
#define PLACES_3 [row] "r"(p->a_row), [row3] "r"(3 * p->a_row)

/* `count` blocks of r rows, one below the other. */
#define BLOCKS(r, v)                                                                                                   \
    static void blocks_##r##x##v(const struct block *p, uint32_t count) {                                              \
        const char *at = (const char *)p->a;                                                                           \
        float *c = p->c;                                                                                               \
        size_t ldc = p->ldc;                                                                                           \
        uint32_t part = p->part;                                                                                       \
        for (uint32_t i = 0; i < count; i++, at += (r) * p->a_row, c += (r) * ldc) {                                   \
            float own[r][(v) * VW] __attribute__((aligned(32)));                                                       \
            const float *b0 = p->b[0], *b1 = p->b[1], *b2 = p->b[2], *from = p->add ? c : NULL;                        \
            const char *a = at;                                                                                        \
            size_t k = p->depth, ld = ldc;                                                                             \
            if (p->add && part) {                                                                                      \
                begin_part(p, r, v, c, own[0]);                                                                        \
                from = own[0];                                                                                         \
                ld = (v) * VW;                                                                                         \
            }                                                                                                          \
            (void)b2;                                                                                                  \
            for (uint32_t row = 0; row < (r); row++) {                                                                 \
                __builtin_prefetch(c + ((r) + row) * ldc, 1, 3);                                                       \
                __builtin_prefetch(c + ((r) + row) * ldc + (v) * VW - 1, 1, 3);                                        \
            }                                                                                                          \
            vf sum[r][v];                                                                                              \
            __asm__ volatile(MULTIPLY(r, v)                                                                            \
                             : OUT_##r(SUMS_##v), VECTORS_##v, [a] "+r"(a), [k] "+r"(k), [from] "+r"(from)             \
                             : PLACES_##v, [step] "r"(p->a_step), [ld] "r"(ld * sizeof *c), [next] "r"(p->b_step),     \
                               [next3] "r"(3 * p->b_step)                                                              \
                             : "ymm12", "ymm13", "ymm14", "ymm15", "cc", "memory");                                    \
            for (uint32_t row = 0; row < (r); row++)                                                                   \
                for (uint32_t j = 0; j < (v); j++)                                                                     \
                    if (j + 1 < (v) || !part)                                                                          \
                        v_store(c + row * ldc + j * VW, sum[row][j]);                                                  \
                    else                                                                                               \
                        v_store_first(c + row * ldc + j * VW, part, sum[row][j]);                                      \
        }                                                                                                              \
    }

BLOCKS(1, 2)
BLOCKS(2, 2)
BLOCKS(3, 2)
BLOCKS(4, 2)
BLOCKS(5, 2)
BLOCKS(6, 2)
BLOCKS(1, 3)
BLOCKS(2, 3)
BLOCKS(3, 3)
BLOCKS(4, 3)

typedef void blocks(const struct block *, uint32_t count);
static blocks *const by_2[] = {NULL, blocks_1x2, blocks_2x2, blocks_3x2, blocks_4x2, blocks_5x2, blocks_6x2};
static blocks *const by_3[] = {NULL, blocks_1x3, blocks_2x3, blocks_3x3, blocks_4x3};

/* Rows in nearly equal parts. */
static void run_rows(struct block p, uint32_t rows, uint32_t vectors) {
    uint32_t most = vectors == 3 ? 4 : 6;
    uint32_t parts = (rows + most - 1) / most, size = rows / parts, longer = rows % parts, done = longer * (size + 1);
    blocks *const *by = vectors == 3 ? by_3 : by_2;
    if (longer) {
        by[size + 1](&p, longer);
        p.a = (const float *)((const char *)p.a + done * p.a_row);
        p.c += done * p.ldc;
    }
    by[size](&p, parts - longer);
}

/* B from row k on: panels, or rows `ld` apart, of which the last may end with the columns. */
struct right {
    const float *b;
    size_t ld; /* 0: panels */
    uint32_t rows, columns, k, depth;
};

/* Vectors from the v-th on; those of a last row that ends within the last one are packed. */
static void place_vectors(const struct right *r, uint32_t v, uint32_t vectors, struct block *p,
                          float packed[2][MOST_DEPTH * STRIP]) {
    uint32_t first = v * VW, end = r->columns - first < vectors * VW ? r->columns : first + vectors * VW;
    int pack = r->ld && end % VW && r->k + r->depth == r->rows;
    p->part = end % VW;
    p->b_step = (r->ld && !pack ? r->ld : STRIP) * sizeof *r->b;
    for (uint32_t i = 0; i < vectors; i++) {
        uint32_t column = first + i * VW;
        const float *from = r->ld ? r->b + r->k * r->ld + column
                                  : r->b + (size_t)(column / STRIP * STRIP) * r->rows + r->k * STRIP + column % STRIP;
        float *to = packed[i / 2] + i % 2 * VW;
        vt there = v_tail(end - column < VW ? end - column : VW);
        p->b[i] = pack ? to : from;
        for (uint32_t k = 0; pack && k < r->depth; k++)
            v_store(to + k * STRIP, v_load_part(from + k * r->ld, there));
    }
}

/* Vectors that go together, of so many: three, and two where three would leave one. */
static uint32_t together(uint32_t left) {
    return left == 2 || left == 4 ? 2 : 3;
}

#define FINISHED 64u /* columns told of at a time, at least */

int fth_small_avx2(const struct fth_gemm_shape *s) {
    return s->n > VW && (s->form == FTH_GEMM_NN ? s->k <= MOST_DEPTH : s->m <= SMALL || s->n <= SMALL);
}

void fth_small_avx2_nn(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                       const struct fth_gemm_finish *finish) {
    float packed[2][MOST_DEPTH * STRIP] __attribute__((aligned(FTH_CACHE_LINE)));
    const struct right right = {b, s->panels ? 0 : s->ldb, s->k, s->n, 0, s->k};
    struct block p = {.a = a, .a_row = s->lda * sizeof *a, .a_step = sizeof *a, .depth = s->k, .ldc = s->ldc,
                      .add = s->accumulate};
    uint32_t vectors = (s->n + VW - 1) / VW, told = 0;
    for (uint32_t v = 0, n; v < vectors; v += n) {
        n = together(vectors - v);
        place_vectors(&right, v, n, &p, packed);
        p.c = c + v * VW;
        run_rows(p, rows, n);
        uint32_t end = v + n == vectors ? s->n : (v + n) * VW;
        if (finish && (end - told >= FINISHED || end == s->n)) {
            finish->done(finish->ctx, told, end - told);
            told = end;
        }
    }
}

/* Examples whose elements of A, and of three vectors of B, stay in the first cache. */
static uint32_t examples_at_once(const struct fth_gemm_shape *s) {
    uint32_t row = (s->m * sizeof(float) + FTH_CACHE_LINE - 1) / FTH_CACHE_LINE * FTH_CACHE_LINE + 2 * FTH_CACHE_LINE;
    uint32_t most = FIRST_CACHE / row;
    return most < 32 ? 32 : most;
}

void fth_small_avx2_tn(const struct fth_gemm_shape *s, uint32_t examples, const float *a, const float *b, float *c) {
    float packed[2][MOST_DEPTH * STRIP] __attribute__((aligned(FTH_CACHE_LINE)));
    uint32_t vectors = (s->n + VW - 1) / VW, most = examples_at_once(s);
    for (uint32_t k = 0, depth; k < examples; k += depth) {
        depth = examples - k < most ? examples - k : most;
        const struct right right = {b, s->ldb, examples, s->n, k, depth};
        struct block p = {.a = a + (size_t)k * s->lda, .a_row = sizeof *a, .a_step = s->lda * sizeof *a, .depth = depth,
                          .ldc = s->ldc, .add = s->accumulate || k > 0};
        for (uint32_t v = 0, n; v < vectors; v += n) {
            n = together(vectors - v);
            place_vectors(&right, v, n, &p, packed);
            p.c = c + v * VW;
            run_rows(p, s->m, n);
        }
    }
}
