/* bf16 and bf16x3 products, kernels of AVX512-BF16 and AMX emulated: to the bit what a scalar model makes,
 * which knows nothing of packing and panels, only the order of gemm_bf16.h. Where this machine has the
 * instructions, its own kernel gives the same bits as the emulation. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/memory.h"
#include "kernels/gemm_bf16.h"
#include "kernels/gemm_private.h"
#include "kernels/panels.h"

extern const struct fth_bf16_kernel emulated_bf16_avx512, emulated_bf16_amx;

static uint64_t seed = 1;
static uint32_t draw(uint32_t below) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(seed >> 33) % below;
}

static float *numbers(size_t n) {
    float *x = fth_alloc(n, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = ((float)draw(1 << 20) * 0x1p-19f - 1.0f) * (float)(1 << draw(6));
    return x;
}

static float high(float x) {
    return fth_bf16_to_float(fth_bf16_from_float(x));
}

/* The part of an operand that a term takes: 0 high high, 1 high low, 2 low high. */
static float part(float x, int low) {
    return low ? high(x - high(x)) : high(x);
}

struct operands {
    struct fth_gemm_shape shape;
    uint32_t rows;
    float *a, *b;
    float *panels; /* B's, where the shape says so */
    float *tiles_a, *tiles_b; /* what the shape says is in tiles */
};

static float a_of(const struct operands *o, uint32_t i, uint32_t p) {
    const struct fth_gemm_shape *s = &o->shape;
    return s->form == FTH_GEMM_TN ? o->a[(size_t)p * s->lda + i] : o->a[(size_t)i * s->lda + p];
}
static float b_of(const struct operands *o, uint32_t p, uint32_t j) {
    const struct fth_gemm_shape *s = &o->shape;
    return s->form == FTH_GEMM_NT ? o->b[(size_t)j * s->ldb + p] : o->b[(size_t)p * s->ldb + j];
}

/* Products of k in [from, to), to - from even or the end, added to sum in the order of AVX512-BF16. */
static float model_avx512(const struct operands *o, uint32_t i, uint32_t j, uint32_t from, uint32_t to,
                          int term, float sum) {
    for (uint32_t p = from; p < to; p += 2) {
        if (p + 1 < to)
            sum = fmaf(part(a_of(o, i, p + 1), term == 2), part(b_of(o, p + 1, j), term == 1), sum);
        sum = fmaf(part(a_of(o, i, p), term == 2), part(b_of(o, p, j), term == 1), sum);
    }
    return sum;
}

/* All terms of 32 of k, then the next. */
static float model_amx(const struct operands *o, uint32_t i, uint32_t j, uint32_t from, uint32_t to, float sum) {
    static const int order[] = {2, 0, 1};
    int three = o->shape.precision == FTH_BF16X3;
    for (uint32_t start = from; start < to; start += 32)
        for (int t = three ? 0 : 1; t < (three ? 3 : 2); t++) {
            float sums[2] = {0, 0};
            for (uint32_t p = start; p < to && p < start + 32; p++)
                sums[(p - start) % 2] = fmaf(part(a_of(o, i, p), order[t] == 2), part(b_of(o, p, j), order[t] == 1),
                                             sums[(p - start) % 2]);
            sum += sums[0] + sums[1];
        }
    return sum;
}

static float model(const struct operands *o, int amx, uint32_t i, uint32_t j, float c) {
    int tn = o->shape.form == FTH_GEMM_TN;
    uint32_t k = tn ? o->rows : o->shape.k, chunk = tn ? (amx ? 512 : 256) : k;
    for (uint32_t from = 0; from < k; from += chunk) {
        uint32_t to = k - from < chunk ? k : from + chunk;
        int add = from > 0 || o->shape.accumulate;
        float sum = amx && add ? c : 0; /* tiles of sums begin with C */
        if (amx)
            sum = model_amx(o, i, j, from, to, sum);
        for (int term = o->shape.precision == FTH_BF16X3 ? 2 : 0; term >= 0 && !amx; term--)
            sum = model_avx512(o, i, j, from, to, term, sum);
        c = add && !amx ? sum + c : sum;
    }
    return c;
}

/* Columns of NN that are told of: in order, and as they will stay. */
struct told {
    const struct operands *o;
    uint32_t columns;
    const float *c;
    float *copy;
};

static void told_of(void *ctx, uint32_t column, uint32_t columns) {
    struct told *told = ctx;
    size_t ldc = told->o->shape.ldc;
    assert_int_equal(column, told->columns);
    told->columns += columns;
    for (uint32_t i = 0; i < told->o->rows; i++)
        memcpy(told->copy + i * ldc + column, told->c + i * ldc + column, columns * sizeof(float));
}

/* The same, panel after panel in one place. */
static void told_of_passing(void *ctx, uint32_t column, uint32_t columns) {
    struct told *told = ctx;
    assert_int_equal(column, told->columns);
    told->columns += columns;
    for (uint32_t i = 0; i < told->o->rows; i++)
        memcpy(told->copy + i * told->o->shape.ldc + column, told->c + i * FTH_GEMM_PASSING, columns * sizeof(float));
}

/* c[rows][ldc], which the product made, once more with panels of C that pass. */
static void check_passing(const struct operands *o, const struct fth_bf16_kernel *kernel, const struct fth_gemm_shape *shape,
                          const float *c, size_t floats, void *scratch) {
    struct fth_gemm_shape passing = *shape;
    float *panel = fth_alloc((size_t)o->rows * FTH_GEMM_PASSING, sizeof *panel), *copy = fth_alloc(floats, sizeof *copy);
    assert_non_null(panel);
    assert_non_null(copy);
    memcpy(copy, c, floats * sizeof *c);
    for (uint32_t i = 0; i < o->rows; i++)
        memset(copy + i * shape->ldc, 0xff, shape->n * sizeof *c);
    struct told told = {.o = o, .c = panel, .copy = copy};
    passing.passing = 1;
    passing.ldc = FTH_GEMM_PASSING;
    fth_bf16_run(&passing, kernel, o->rows, o->tiles_a, o->panels, panel, scratch,
                 &(struct fth_gemm_finish){told_of_passing, &told});
    assert_int_equal(told.columns, shape->n);
    assert_memory_equal(copy, c, floats * sizeof *c);
    fth_free(copy);
    fth_free(panel);
}

static float *run(const struct operands *o, const struct fth_bf16_kernel *kernel, const float *before,
                  size_t floats) {
    size_t bytes = fth_bf16_scratch(&o->shape, kernel);
    unsigned char *scratch = fth_alloc(bytes + 64, 1);
    float *c = fth_alloc(floats, sizeof *c), *copy = fth_alloc(floats, sizeof *c);
    assert_non_null(scratch);
    assert_non_null(c);
    assert_non_null(copy);
    memset(scratch, 0xff, bytes + 64); /* NaN: nothing may be read that was not written */
    memcpy(c, before, floats * sizeof *c);
    memcpy(copy, before, floats * sizeof *c);
    struct told told = {.o = o, .c = c, .copy = copy};
    int tells = o->shape.form == FTH_GEMM_NN;
    struct fth_gemm_shape shape = o->shape;
    const float *a = o->tiles_a ? o->tiles_a : o->a, *b = o->shape.panels ? o->panels : o->tiles_b ? o->tiles_b : o->b;
    if (o->tiles_a)
        shape.lda = fth_tiles_ld(shape.precision, shape.form == FTH_GEMM_TN ? shape.m : shape.k);
    if (o->tiles_b)
        shape.ldb = fth_tiles_ld(shape.precision, shape.n);
    fth_bf16_run(&shape, kernel, o->rows, a, b, c, scratch,
                 tells ? &(struct fth_gemm_finish){told_of, &told} : NULL);
    if (tells) {
        assert_int_equal(told.columns, o->shape.n);
        assert_memory_equal(copy, c, floats * sizeof *c);
    }
    if (shape.tiles && shape.panels && !shape.accumulate && o->rows <= kernel->rows)
        check_passing(o, kernel, &shape, c, floats, scratch);
    fth_free(copy);
    for (int i = 0; i < 64; i++)
        assert_int_equal(scratch[bytes + i], 0xff);
    fth_free(scratch);
    return c;
}

static size_t word_at(uint32_t n, uint32_t strip, uint32_t pairs, uint32_t q, uint32_t j) {
    struct fth_panels cut = fth_panels_cut(n, strip);
    uint32_t index = j / strip < cut.count ? j / strip : cut.count - 1;
    return (size_t)index * strip * pairs + (size_t)q * (index == cut.count - 1 ? cut.ld_last : strip) + j - index * strip;
}

/* The panels that this machine's kernel reads, in another one's strips. */
static float *in_strips(const struct operands *o, uint32_t strip) {
    uint32_t n = o->shape.n, pairs = fth_panels_pairs(o->shape.k);
    size_t words = fth_panels_words(o->shape.k, n), room = fth_panels_room(o->shape.precision, o->shape.k, n);
    uint32_t *from = (uint32_t *)o->panels, *to = fth_alloc(room, sizeof *to);
    assert_non_null(to);
    for (size_t part = 0; part < room; part += words)
        for (uint32_t q = 0; q < pairs; q++)
            for (uint32_t j = 0; j < (n + 15) / 16 * 16; j++)
                to[part + word_at(n, strip, pairs, q, j)] = from[part + word_at(n, fth_panels_strip(), pairs, q, j)];
    return (float *)to;
}

static void check(const struct operands *o) {
    const struct fth_gemm_shape *s = &o->shape;
    uint32_t m = s->form == FTH_GEMM_TN ? s->m : o->rows;
    size_t floats = (size_t)(m + 1) * s->ldc;
    float *before = numbers(floats);
    for (int amx = o->shape.tiles; amx < 2; amx++) {
        const struct fth_bf16_kernel *emulated = amx ? &emulated_bf16_amx : &emulated_bf16_avx512;
        struct operands its = *o;
        its.panels = o->panels ? in_strips(o, emulated->strip) : NULL;
        float *c = run(&its, emulated, before, floats);
        for (size_t at = 0; at < floats; at++) {
            uint32_t i = (uint32_t)(at / s->ldc), j = (uint32_t)(at % s->ldc);
            float want = i < m && j < s->n ? model(o, amx, i, j, before[at]) : before[at];
            if (memcmp(&c[at], &want, 4))
                fail_msg("%s form %d m %u n %u k %u precision %d: row %u column %u is %.9g, not %.9g",
                         amx ? "amx" : "avx512", s->form, m, s->n, s->k, s->precision, i, j, (double)c[at],
                         (double)want);
        }
        if (amx ? fth_cpu_get()->amx_bf16 : fth_cpu_get()->avx512_bf16) {
            float *own = run(&its, amx ? &fth_bf16_amx : &fth_bf16_avx512, before, floats);
            assert_memory_equal(own, c, floats * sizeof *c);
            fth_free(own);
        }
        fth_free(its.panels);
        fth_free(c);
    }
    fth_free(before);
}

static struct operands operands(fth_gemm_form form, fth_precision precision, uint32_t rows, uint32_t fixed,
                                uint32_t n) {
    struct operands o = {.rows = rows};
    o.shape = (struct fth_gemm_shape){.form = form, .m = form == FTH_GEMM_TN ? fixed : 64, .n = n,
                                      .k = form == FTH_GEMM_TN ? 64 : fixed, .lda = fixed + draw(5),
                                      .ldc = n + draw(5), .accumulate = (int)draw(2),
                                      .precision = precision};
    o.shape.ldb = (form == FTH_GEMM_NT ? fixed : n) + draw(5);
    uint32_t k = form == FTH_GEMM_TN ? rows : fixed;
    o.a = numbers((size_t)rows * o.shape.lda);
    o.b = numbers((size_t)(form == FTH_GEMM_NT ? n : k) * o.shape.ldb);
    return o;
}

static void equals_the_model(void **state) {
    (void)state;
    static const uint32_t rows[] = {1, 7, 16, 33, 131, 300}, fixed[] = {1, 2, 31, 33, 64, 70},
                          widths[] = {2, 15, 16, 40, 64, 79, 81, 150};
    for (int form = 0; form < FTH_GEMM_FORMS; form++)
        for (int i = 0; i < 24; i++) {
            struct operands o = operands(form, i % 2 ? FTH_BF16 : FTH_BF16X3, rows[draw(6)], fixed[draw(6)],
                                         widths[i % 8]);
            check(&o);
            fth_free(o.a);
            fth_free(o.b);
        }
    struct operands o = operands(FTH_GEMM_TN, FTH_BF16X3, 600, 20, 35);
    check(&o);
    fth_free(o.a);
    fth_free(o.b);
}

/* B's panels, stored in blocks that end anywhere, so half a word at a time, or in one block; or the transposed
 * copy's from B turned over. All the same memory. */
static float *panels_of(const struct operands *o, int way) {
    uint32_t k = o->shape.k, n = o->shape.n, ld = o->shape.ldb;
    float *panels = fth_alloc(fth_panels_room(o->shape.precision, k, n), sizeof *panels);
    float *turned = fth_alloc((size_t)n * k, sizeof *turned);
    assert_non_null(panels);
    assert_non_null(turned);
    struct fth_panels_target to = {panels, k, n, (int)o->shape.precision};
    for (uint32_t p = 0; p < k; p++)
        for (uint32_t j = 0; j < n; j++)
            turned[j * k + p] = o->b[(size_t)p * ld + j];
    uint32_t rows = way == 0 ? 7 : k, columns = way == 0 ? 19 : n;
    for (uint32_t p = 0; p < k && way < 2; p += rows)
        for (uint32_t j = 0; j < n; j += columns)
            fth_panels_store(&to, p, j, k - p < rows ? k - p : rows, n - j < columns ? n - j : columns,
                             o->b + (size_t)p * ld + j, ld);
    if (way == 2)
        fth_panels_store_transposed(&to, 0, 0, n, k, turned, k);
    for (uint32_t j = 0; j < n && way == 3; j += 21)
        for (uint32_t p = 0; p < k; p += 15)
            fth_panels_store_transposed(&to, j, p, n - j < 21 ? n - j : 21, k - p < 15 ? k - p : 15,
                                        turned + (size_t)j * k + p, k);
    fth_free(turned);
    return panels;
}

static void panels_equal_the_model(void **state) {
    (void)state;
    static const uint32_t depths[] = {1, 2, 31, 64, 70, 300}, widths[] = {2, 15, 16, 40, 64, 79, 81, 150};
    for (int i = 0; i < 24; i++) {
        struct operands o = operands(FTH_GEMM_NN, i % 2 ? FTH_BF16 : FTH_BF16X3, 1 + draw(70), depths[i % 6],
                                     widths[i / 3]);
        size_t bytes = fth_panels_room(o.shape.precision, o.shape.k, o.shape.n) * sizeof(float);
        o.b[draw(o.shape.n)] = 0x1p-130f; /* taken as 0, by the model, too */
        o.panels = panels_of(&o, 0);
        for (int way = 1; way < 4; way++) {
            float *same = panels_of(&o, way);
            if (memcmp(o.panels, same, bytes))
                fail_msg("k %u n %u precision %d: stored another way (%d) they are others", o.shape.k, o.shape.n,
                         (int)o.shape.precision, way);
            fth_free(same);
        }
        for (uint32_t j = 0; j < o.shape.n; j++)
            o.b[j] = o.b[j] == 0x1p-130f ? 0.0f : o.b[j];
        o.shape.panels = 1;
        check(&o);
        fth_free(o.panels);
        fth_free(o.a);
        fth_free(o.b);
    }
}

static float *tiles_of(fth_precision precision, fth_tiles_way way, const float *x, size_t ldx, uint32_t rows,
                       uint32_t columns) {
    size_t n = (size_t)(rows + 31) / 32 * 32 * fth_tiles_ld(precision, columns);
    float *tiles = fth_alloc(n, sizeof *tiles);
    assert_non_null(tiles);
    memset(tiles, 0xff, n * sizeof *tiles);
    struct fth_tiles_store store = {.x = x, .ldx = ldx, .rows = rows, .columns = columns, .way = way,
                                    .precision = precision, .ld = fth_tiles_ld(precision, columns)};
    *(way == FTH_TILES_ROWS ? &store.by_rows : &store.summed) = tiles;
    fth_bf16_tiles_store(&emulated_bf16_amx, &store);
    return tiles;
}

/* Where tiles.h says that x[row][column] lies, as the number of a half word. */
static size_t half_at(fth_tiles_way way, uint32_t row, uint32_t column, size_t ld) {
    uint32_t line = row % 16, word = column % 32 / 2, half = column % 2, tile = column / 32, group = 16;
    if (way != FTH_TILES_ROWS) {
        group = 32;
        half = row % 2;
        tile = column / 16;
        line = way == FTH_TILES_PAIRS ? row % 32 / 2 : column % 16;
        word = way == FTH_TILES_PAIRS ? column % 16 : row % 32 / 2;
    }
    return 2 * (row / group * group * ld + 256 * tile + 16 * line + word) + half;
}

static void check_tiles(fth_precision precision) {
    static const uint32_t rows[] = {1, 15, 16, 33, 70, 64}, columns[] = {1, 16, 17, 32, 49, 130};
    for (int i = 0; i < 18; i++) {
        fth_tiles_way way = (fth_tiles_way)(1 + i % 3);
        uint32_t m = rows[i % 6], n = columns[i / 3], ldx = n + draw(5);
        float *x = numbers((size_t)m * ldx), *tiles = tiles_of(precision, way, x, ldx, m, n);
        uint32_t group = way == FTH_TILES_ROWS ? 16 : 32, wide = way == FTH_TILES_ROWS ? 32 : 16;
        uint32_t ld = fth_tiles_ld(precision, n);
        const uint16_t *halves = (const uint16_t *)(const void *)tiles;
        for (uint32_t r = 0; r < (m + group - 1) / group * group; r++)
            for (uint32_t c = 0; c < (n + wide - 1) / wide * wide; c++) {
                size_t at = half_at(way, r, c, ld);
                float want = c >= n || r >= m ? 0 : x[(size_t)r * ldx + c];
                if (r >= m && way == FTH_TILES_ROWS)
                    continue;
                assert_int_equal(halves[at], fth_bf16_from_float(want));
                if (precision == FTH_BF16X3)
                    assert_int_equal(halves[at + group * ld], fth_bf16_from_float(part(want, 1)));
            }
        fth_free(tiles);
        fth_free(x);
    }
}

static void tiles_lie_as_they_say(void **state) {
    (void)state;
    check_tiles(FTH_BF16);
    check_tiles(FTH_BF16X3);
}

/* Numbers taken as 0, bits of what is positive (NaN counts), sums: as one by one. */
static void tiles_keep_and_sum(void **state) {
    (void)state;
    static const uint32_t rows[] = {1, 15, 32, 33, 70, 64}, columns[] = {1, 16, 17, 32, 49, 130};
    for (int i = 0; i < 36; i++) {
        uint32_t m = rows[i % 6], n = columns[i / 6], ldx = n + draw(5), words = (n + 31) / 32, ld = words + draw(3);
        uint32_t keep[70 * 8], positive[70 * 8];
        float *x = numbers((size_t)m * ldx), *bias = numbers(160), sums[160], want[160];
        int biased = i % 3 > 0, relu = i % 4 > 1;
        x[draw(m) * ldx] = NAN;
        x[draw(m) * ldx + n - 1] = 0.0f;
        memset(positive, 0xaa, sizeof positive);
        for (uint32_t w = 0; w < 70 * 8; w++)
            keep[w] = draw(1u << 16) << 16 | draw(1u << 16);
        for (uint32_t c = 0; c < 160; c++)
            sums[c] = want[c] = c < n ? (float)c : 0;
        uint32_t ld_tiles = fth_tiles_ld(FTH_BF16X3, n);
        size_t floats = (size_t)(m + 31) / 32 * 32 * ld_tiles;
        float *tiles = fth_alloc(floats, sizeof *tiles);
        assert_non_null(tiles);
        struct fth_tiles_store store = {.x = x, .ldx = ldx, .rows = m, .columns = n, .by_rows = tiles, .ld = ld_tiles,
                                        .precision = FTH_BF16X3, .keep = keep, .ld_keep = ld, .positive = positive, .ld_positive = ld, .sums = sums,
                                        .bias = biased ? bias : NULL, .relu = relu};
        fth_bf16_tiles_store(i % 2 && fth_cpu_get()->amx_bf16 ? &fth_bf16_amx : &emulated_bf16_amx, &store);
        const uint16_t *halves = (const uint16_t *)(const void *)tiles;
        for (uint32_t r = 0; r < m; r++)
            for (uint32_t c = 0; c < n; c++) {
                float number = keep[r * ld + c / 32] >> c % 32 & 1 ? x[(size_t)r * ldx + c] : 0;
                number = biased ? number + bias[c] : number;
                number = relu && number < 0 ? 0 : number;
                want[c] += number;
                size_t at = half_at(FTH_TILES_ROWS, r, c, ld_tiles);
                assert_int_equal(halves[at], fth_bf16_from_float(number));
                assert_true(isnan(number) || halves[at + 16 * ld_tiles] == fth_bf16_from_float(part(number, 1)));
                assert_int_equal(positive[r * ld + c / 32] >> c % 32 & 1, !(number <= 0));
            }
        for (uint32_t w = words; w < ld; w++)
            assert_int_equal(positive[(m - 1) * ld + w], 0xaaaaaaaa);
        assert_int_equal(positive[m * ld], 0xaaaaaaaa);
        for (uint32_t c = 0; c < 160; c++)
            assert_true(isnan(want[c]) ? isnan(sums[c]) : sums[c] == want[c]);
        fth_free(tiles);
        fth_free(bias);
        fth_free(x);
    }
}

/* Depths and examples beyond the kernel's pieces, too. */
static void tiles_equal_the_model(void **state) {
    (void)state;
    static const uint32_t rows[] = {1, 16, 33, 300, 600}, fixed[] = {1, 31, 33, 64, 70, 600},
                          widths[] = {2, 15, 16, 40, 64, 79, 81, 150};
    for (int i = 0; i < 64; i++) {
        fth_precision precision = i < 32 ? FTH_BF16 : FTH_BF16X3;
        int tn = i % 2;
        struct operands o = operands(tn ? FTH_GEMM_TN : FTH_GEMM_NN, precision, rows[draw(5)], fixed[draw(6)], widths[i % 32 / 4]);
        uint32_t k = o.shape.k, m = o.shape.m;
        o.shape.tiles = 1;
        o.shape.panels = !tn && i % 4 < 2;
        o.panels = o.shape.panels ? panels_of(&o, 1) : NULL;
        o.tiles_a = tn ? tiles_of(precision, FTH_TILES_TURNED, o.a, o.shape.lda, o.rows, m)
                       : tiles_of(precision, FTH_TILES_ROWS, o.a, o.shape.lda, o.rows, k);
        o.tiles_b = tn ? tiles_of(precision, FTH_TILES_PAIRS, o.b, o.shape.ldb, o.rows, o.shape.n) : NULL;
        check(&o);
        fth_free(o.tiles_a);
        fth_free(o.tiles_b);
        fth_free(o.panels);
        fth_free(o.a);
        fth_free(o.b);
    }
}

/* What bf16x3 is for: 17 bits of every operand. */
static void three_products_are_near_fp32(void **state) {
    (void)state;
    for (int amx = 0; amx < 2; amx++) {
        struct operands o = operands(FTH_GEMM_NN, FTH_BF16X3, 20, 300, 50);
        o.shape.accumulate = 0;
        float *before = numbers(21 * (size_t)o.shape.ldc);
        float *c = run(&o, amx ? &emulated_bf16_amx : &emulated_bf16_avx512, before, 21 * (size_t)o.shape.ldc);
        for (uint32_t i = 0; i < 20; i++)
            for (uint32_t j = 0; j < 50; j++) {
                double sum = 0, size = 0;
                for (uint32_t p = 0; p < 300; p++) {
                    double product = (double)a_of(&o, i, p) * b_of(&o, p, j);
                    sum += product;
                    size += fabs(product);
                }
                assert_true(fabs(c[i * o.shape.ldc + j] - sum) < 0x1p-17 * size);
            }
        fth_free(c);
        fth_free(before);
        fth_free(o.a);
        fth_free(o.b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_model),
        cmocka_unit_test(panels_equal_the_model),
        cmocka_unit_test(tiles_lie_as_they_say),
        cmocka_unit_test(tiles_keep_and_sum),
        cmocka_unit_test(tiles_equal_the_model),
        cmocka_unit_test(three_products_are_near_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
