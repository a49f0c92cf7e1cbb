/* fp32 products by AVX2 and FMA: kernels of up to 6 rows by 16 columns of C, twelve sums in registers, in
 * assembly (compilers spill the sums), and the loops around them.
 *
 *   C in strips of 16 columns, k in pieces, so that a piece's strip of B stays in the first cache (20 KB at
 *   most) while all rows of A go past it, 6 or fewer at a time:
 *       NN   for strip:  for piece of k:  for rows
 *            A is read as it lies; panels (panels.h) are these strips
 *       TN   for piece of k (examples):  pack A:  for strip:  for rows
 *            A, that is x, is packed in sixes of columns, so that a kernel reads it in a row
 *   Where B lies by rows, the kernel of the first rows packs the strip while it multiplies, so that the others
 *   read it in a row. Between their multiplications kernels fetch what comes next into the second cache: the
 *   next piece of a panel, or the next strip of B and then the next piece of A.
 *
 * Every element of C is summed in increasing k by FMA, beginning with what it is added to. Kernels always do 16
 * columns; a narrow last strip is padded by zeros (panels: by what lies there), and only what belongs to C is
 * written.
 *
 * Threads: pure functions; each run has its own scratch. */
#include <immintrin.h>

#include "base/memory.h"
#include "kernels/gemm_fp32.h"
#include "kernels/panels.h"

#define STRIP 16u
#define ROWS 6u
#define MOST_DEPTH 320u /* NN */
#define DEPTH 256u      /* TN */

/* A's element of row r and depth p lies at a + r a_row + p a_step; strides are bytes. */
struct piece {
    const float *a;
    size_t a_row, a_step;
    const float *b;
    size_t b_step;
    size_t depth;
    float *pack; /* a strip of depth rows of 16, aligned */
    float *c;
    size_t ldc; /* floats */
    uint32_t columns;
    int add;
    const char *fetch; /* a line for every four of depth, to be in the second cache later */
    size_t fetch_step;
};

static inline __attribute__((always_inline)) __m256i lanes(uint32_t n) {
    static const int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(ones + 8 - n));
}

static inline __attribute__((always_inline)) void write_half(float *c, int32_t n, __m256 sum) {
    if (n >= 8)
        _mm256_storeu_ps(c, sum);
    else if (n > 0)
        _mm256_maskstore_ps(c, lanes((uint32_t)n), sum);
}

static inline __attribute__((always_inline)) void write_row(const struct piece *p, uint32_t row, __m256 low,
                                                            __m256 high) {
    float *c = p->c + row * p->ldc;
    write_half(c, (int32_t)p->columns, low);
    write_half(c + 8, (int32_t)p->columns - 8, high);
}

/* What the sums of `rows` rows begin with: C, by way of `own`, or zeros. */
static inline __attribute__((always_inline)) const float *begin(const struct piece *p, uint32_t rows, float own[ROWS * STRIP]) {
    static const float zeros[ROWS * STRIP] __attribute__((aligned(32)));
    __m256i low = lanes(p->columns < 8 ? p->columns : 8), high = lanes(p->columns < 8 ? 0 : p->columns - 8);
    for (uint32_t r = 0; r < rows && p->add; r++) {
        _mm256_store_ps(own + r * STRIP, _mm256_maskload_ps(p->c + r * p->ldc, low));
        _mm256_store_ps(own + r * STRIP + 8, _mm256_maskload_ps(p->c + r * p->ldc + 8, high));
    }
    return p->add ? own : zeros;
}

/* One step of k: B's 16 in ymm12 and 13, an element of A in ymm14 or 15. */
#define ROW(address, temp, low, high)                                                                   \
    "vbroadcastss (" address "), %%" temp "\n\t"                                                        \
    "vfmadd231ps %%ymm12, %%" temp ", %[" low "]\n\t"                                                   \
    "vfmadd231ps %%ymm13, %%" temp ", %[" high "]\n\t"
#define ROWS_1 ROW("%[a]", "ymm14", "l0", "h0")
#define ROWS_2 ROWS_1 ROW("%[a],%[row]", "ymm15", "l1", "h1")
#define ROWS_3 ROWS_2 ROW("%[a],%[row],2", "ymm14", "l2", "h2")
#define ROWS_4 ROWS_3 ROW("%[a3]", "ymm15", "l3", "h3")
#define ROWS_5 ROWS_4 ROW("%[a3],%[row]", "ymm14", "l4", "h4")
#define ROWS_6 ROWS_5 ROW("%[a3],%[row],2", "ymm15", "l5", "h5")

#define LOAD(offset)                                                                                    \
    "vmovups " offset "(%[b]), %%ymm12\n\t"                                                             \
    "vmovups 32+" offset "(%[b]), %%ymm13\n\t"
#define LOAD_AND_PACK(offset)                                                                           \
    "vmovups (%[b]), %%ymm12\n\t"                                                                       \
    "vmovups 32(%[b]), %%ymm13\n\t"                                                                     \
    "add %[b_step], %[b]\n\t"                                                                           \
    "vmovaps %%ymm12, " offset "(%[pack])\n\t"                                                          \
    "vmovaps %%ymm13, 32+" offset "(%[pack])\n\t"
#define NEXT "add %[step], %[a]\n\tadd %[step], %[a3]\n\t"
#define LOOP(load, rows, advance)                                                                       \
    "sub $4, %[k]\n\t"                                                                                  \
    "jb 2f\n\t"                                                                                         \
    ".p2align 5\n"                                                                                      \
    "1:\n\t" load("0") rows NEXT load("64") rows NEXT load("128") rows NEXT load("192") rows NEXT       \
    "prefetcht1 (%[fetch])\n\t"                                                                         \
    "add %[fetch_step], %[fetch]\n\t"                                                                   \
    "add $256, %[" advance "]\n\t"                                                                      \
    "sub $4, %[k]\n\t"                                                                                  \
    "jae 1b\n"                                                                                          \
    "2:\n\t"                                                                                            \
    "add $4, %[k]\n\t"                                                                                  \
    "jz 4f\n"                                                                                           \
    "3:\n\t" load("0") rows NEXT                                                                        \
    "add $64, %[" advance "]\n\t"                                                                       \
    "dec %[k]\n\t"                                                                                      \
    "jnz 3b\n"                                                                                          \
    "4:\n\t"

#define FROM(low, high, offset)                                                                         \
    "vmovaps " offset "(%[from]), %[" low "]\n\t"                                                       \
    "vmovaps 32+" offset "(%[from]), %[" high "]\n\t"
#define FROM_1 FROM("l0", "h0", "0")
#define FROM_2 FROM_1 FROM("l1", "h1", "64")
#define FROM_3 FROM_2 FROM("l2", "h2", "128")
#define FROM_4 FROM_3 FROM("l3", "h3", "192")
#define FROM_5 FROM_4 FROM("l4", "h4", "256")
#define FROM_6 FROM_5 FROM("l5", "h5", "320")
#define SUMS_1 [l0] "=&x"(l[0]), [h0] "=&x"(h[0])
#define SUMS_2 SUMS_1, [l1] "=&x"(l[1]), [h1] "=&x"(h[1])
#define SUMS_3 SUMS_2, [l2] "=&x"(l[2]), [h2] "=&x"(h[2])
#define SUMS_4 SUMS_3, [l3] "=&x"(l[3]), [h3] "=&x"(h[3])
#define SUMS_5 SUMS_4, [l4] "=&x"(l[4]), [h4] "=&x"(h[4])
#define SUMS_6 SUMS_5, [l5] "=&x"(l[5]), [h5] "=&x"(h[5])

#define KERNEL(n)                                                                                       \
    static void packed_##n(const struct piece *p) {                                                     \
        float own[ROWS * STRIP] __attribute__((aligned(32)));                                           \
        __m256 l[n], h[n];                                                                              \
        const float *from = begin(p, n, own);                                                           \
        const float *a = p->a, *a3 = (const float *)((const char *)a + 3 * p->a_row), *b = p->pack;     \
        const char *fetch = p->fetch;                                                                   \
        size_t k = p->depth;                                                                            \
        __asm__ volatile(FROM_##n LOOP(LOAD, ROWS_##n, "b")                                             \
                         : SUMS_##n, [a] "+r"(a), [a3] "+r"(a3), [b] "+r"(b), [k] "+r"(k),              \
                           [fetch] "+r"(fetch)                                                          \
                         : [row] "r"(p->a_row), [step] "r"(p->a_step), [from] "r"(from),                \
                           [fetch_step] "r"(p->fetch_step)                                              \
                         : "ymm12", "ymm13", "ymm14", "ymm15", "cc", "memory");                         \
        for (uint32_t i = 0; i < n; i++)                                                                \
            write_row(p, i, l[i], h[i]);                                                                \
    }                                                                                                   \
    static void packing_##n(const struct piece *p) {                                                    \
        float own[ROWS * STRIP] __attribute__((aligned(32)));                                           \
        __m256 l[n], h[n];                                                                              \
        const float *from = begin(p, n, own);                                                           \
        const float *a = p->a, *a3 = (const float *)((const char *)a + 3 * p->a_row), *b = p->b;        \
        float *pack = p->pack;                                                                          \
        const char *fetch = p->fetch;                                                                   \
        size_t k = p->depth;                                                                            \
        __asm__ volatile(FROM_##n LOOP(LOAD_AND_PACK, ROWS_##n, "pack")                                 \
                         : SUMS_##n, [a] "+r"(a), [a3] "+r"(a3), [b] "+r"(b), [k] "+r"(k),              \
                           [pack] "+r"(pack), [fetch] "+r"(fetch)                                       \
                         : [row] "r"(p->a_row), [step] "r"(p->a_step), [b_step] "r"(p->b_step),         \
                           [from] "r"(from), [fetch_step] "r"(p->fetch_step)                            \
                         : "ymm12", "ymm13", "ymm14", "ymm15", "cc", "memory");                         \
        for (uint32_t i = 0; i < n; i++)                                                                \
            write_row(p, i, l[i], h[i]);                                                                \
    }
KERNEL(1)
KERNEL(2)
KERNEL(3)
KERNEL(4)
KERNEL(5)
KERNEL(6)

static void (*const packed[ROWS + 1])(const struct piece *) = {NULL,     packed_1, packed_2, packed_3,
                                                               packed_4, packed_5, packed_6};
static void (*const packing[ROWS + 1])(const struct piece *) = {NULL,      packing_1, packing_2, packing_3,
                                                                packing_4, packing_5, packing_6};

/* ---- what comes next ---- */

/* Lines of a matrix: column of lines after column of lines. */
struct fetch {
    const char *at;
    size_t ld; /* bytes */
    uint32_t rows, lines, row;
};

static struct fetch fetch_of(const float *x, size_t ld, uint32_t rows, uint32_t columns) {
    return (struct fetch){(const char *)x, ld * sizeof *x, rows, rows ? (columns + 15) / 16 : 0, 0};
}

/* What one kernel asks for. */
static inline void fetch_some(struct fetch *f, struct piece *p) {
    p->fetch = f->at + f->row * f->ld;
    p->fetch_step = f->ld;
    f->row += (uint32_t)(p->depth / 4);
    if (f->row >= f->rows) {
        f->row = 0;
        f->at += FTH_CACHE_LINE;
        f->lines--;
    }
}

/* ---- loops ---- */

/* n in pieces of nearly one size, at most `most`; the first `more` are longer by one. */
struct cut {
    uint32_t count, size, more;
};
static inline struct cut cut(uint32_t n, uint32_t most) {
    uint32_t count = (n + most - 1) / most;
    return (struct cut){count, n / count, n % count};
}
static inline uint32_t cut_at(struct cut c, uint32_t i) {
    return i * c.size + (i < c.more ? i : c.more);
}

static void pack_narrow(const struct piece *p) {
    __m256i low = lanes(p->columns < 8 ? p->columns : 8), high = lanes(p->columns < 8 ? 0 : p->columns - 8);
    const char *b = (const char *)p->b;
    for (size_t i = 0; i < p->depth; i++, b += p->b_step) {
        _mm256_store_ps(p->pack + i * STRIP, _mm256_maskload_ps((const float *)b, low));
        _mm256_store_ps(p->pack + i * STRIP + 8, _mm256_maskload_ps((const float *)b + 8, high));
    }
}

/* A strip of C; piece is that of row 0. six: floats between packed rows of two kernels, 0 where A is not packed. */
struct strip {
    struct piece piece;
    struct cut rows;
    size_t six;
    int packed; /* before: B lies in panels of a strip each */
};

static void run_strip(const struct strip *s, struct fetch *next, struct fetch *after) {
    struct piece p = s->piece;
    p.fetch = (const char *)p.pack;
    int read = s->packed || p.columns < STRIP;
    if (!s->packed && read)
        pack_narrow(&p);
    for (uint32_t i = 0; i < s->rows.count; i++) {
        uint32_t row = cut_at(s->rows, i), n = cut_at(s->rows, i + 1) - row;
        p.c = s->piece.c + row * p.ldc;
        if (s->six) {
            p.a = s->piece.a + i * s->six;
            p.a_step = n * sizeof(float);
        } else {
            p.a = (const float *)((const char *)s->piece.a + row * p.a_row);
        }
        p.fetch_step = 0;
        if (next->lines)
            fetch_some(next, &p);
        else if (after->lines)
            fetch_some(after, &p);
        for (uint32_t r = 0; r < n; r++)
            __builtin_prefetch(p.c + r * p.ldc, 1, 3);
        (read || i > 0 ? packed : packing)[n](&p);
    }
}

#define FINISHED 64 /* columns told of at a time */

/* finish: or NULL. */
static void run_nn(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                   const struct fth_gemm_finish *finish) {
    float pack[MOST_DEPTH * STRIP] __attribute__((aligned(64)));
    struct cut depths = cut(s->k, MOST_DEPTH);
    struct strip strip = {.rows = cut(rows, ROWS),
                          .packed = s->panels,
                          .piece = {.a_row = s->lda * sizeof(float),
                                    .a_step = sizeof(float),
                                    .b_step = s->ldb * sizeof(float),
                                    .pack = pack,
                                    .ldc = s->ldc}};
    struct piece *piece = &strip.piece;
    for (uint32_t j = 0; j < s->n; j += STRIP) {
        piece->columns = s->n - j < STRIP ? s->n - j : STRIP;
        piece->c = c + j;
        for (uint32_t d = 0; d < depths.count; d++) {
            uint32_t p = cut_at(depths, d), end = cut_at(depths, d + 1);
            struct fetch next = {0}, after = {0};
            piece->a = a + p;
            piece->depth = end - p;
            piece->add = s->accumulate || d > 0;
            if (s->panels) {
                const float *panel = b + (size_t)j * s->k;
                piece->pack = (float *)(uintptr_t)(panel + p * STRIP); /* read only */
                next = fetch_of(panel + end * STRIP, STRIP, end - p, STRIP);
            } else {
                piece->b = b + (size_t)p * s->ldb + j;
            }
            run_strip(&strip, &next, &after);
        }
        uint32_t end = j + piece->columns, begin = j / FINISHED * FINISHED;
        if (finish && (end % FINISHED == 0 || end == s->n))
            finish->done(finish->ctx, begin, end - begin);
    }
}

void fth_fp32_run_finish(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                         const struct fth_gemm_finish *finish) {
    run_nn(s, rows, a, b, c, finish);
}

/* Floats between two sixes; beyond the depth's: a store of 8 runs over. */
#define SIX (DEPTH * ROWS + STRIP)

static void pack_a(const struct fth_gemm_shape *s, struct cut rows, const float *a, uint32_t depth, float *out) {
    __m256i full = lanes(rows.more ? rows.size + 1 : rows.size), less = lanes(rows.size);
    for (uint32_t p = 0; p < depth; p++, a += s->lda) {
        if (p + 8 < depth)
            for (uint32_t j = 0; j < s->m; j += 16)
                _mm_prefetch((const char *)(a + 8 * (size_t)s->lda + j), _MM_HINT_T0);
        const float *from = a;
        float *to = out + p * (rows.size + 1);
        uint32_t i = 0;
        for (; i < rows.more; i++, from += rows.size + 1, to += SIX)
            _mm256_storeu_ps(to, _mm256_maskload_ps(from, full));
        to = out + i * (size_t)SIX + p * rows.size;
        for (; i < rows.count; i++, from += rows.size, to += SIX)
            _mm256_storeu_ps(to, _mm256_maskload_ps(from, less));
    }
}

static void run_tn(const struct fth_gemm_shape *s, uint32_t examples, const float *a, const float *b, float *c,
                   float *scratch) {
    float pack[MOST_DEPTH * STRIP] __attribute__((aligned(64)));
    struct cut depths = cut(examples, DEPTH);
    struct strip strip = {.rows = cut(s->m, ROWS),
                          .six = SIX,
                          .piece = {.a = scratch, .a_row = sizeof(float), .b_step = s->ldb * sizeof(float),
                                    .pack = pack, .ldc = s->ldc}};
    uint32_t strips = (s->n + STRIP - 1) / STRIP;
    for (uint32_t d = 0; d < depths.count; d++) {
        uint32_t p = cut_at(depths, d), end = cut_at(depths, d + 1);
        uint32_t following = d + 1 < depths.count ? cut_at(depths, d + 2) - end : 0;
        struct fetch after = fetch_of(a + (size_t)end * s->lda, s->lda, following, s->m);
        pack_a(s, strip.rows, a + (size_t)p * s->lda, end - p, scratch);
        strip.piece.depth = end - p;
        strip.piece.add = s->accumulate || d > 0;
        for (uint32_t j = 0; j < strips; j++) {
            int last = j + 1 == strips;
            const float *strip_b = b + (size_t)p * s->ldb + j * STRIP;
            struct fetch next = last ? fetch_of(b + (size_t)end * s->ldb, s->ldb, following, 1)
                                     : fetch_of(strip_b + STRIP, s->ldb, end - p, 1);
            strip.piece.b = strip_b;
            strip.piece.c = c + j * STRIP;
            strip.piece.columns = last ? s->n - j * STRIP : STRIP;
            run_strip(&strip, &next, &after);
        }
    }
}

size_t fth_fp32_scratch(const struct fth_gemm_shape *s) {
    return s->form == FTH_GEMM_TN ? cut(s->m, ROWS).count * (size_t)SIX * sizeof(float) : 0;
}

void fth_fp32_run(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                  void *scratch) {
    if (s->form == FTH_GEMM_TN)
        run_tn(s, rows, a, b, c, scratch);
    else
        run_nn(s, rows, a, b, c, NULL);
}
