/* See bf16_model.h. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/memory.h"
#include "bf16_model.h"

static uint64_t seed = 1;
uint32_t bf16_draw(uint32_t below) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(seed >> 33) % below;
}

float *bf16_numbers(size_t n) {
    float *x = fth_alloc(n, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = ((float)bf16_draw(1 << 20) * 0x1p-19f - 1.0f) * (float)(1 << bf16_draw(6));
    return x;
}

float bf16_part(float x, uint32_t part) {
    float rounded = fth_bf16_to_float(fth_bf16_from_float(x));
    return part ? bf16_part(x - rounded, part - 1) : rounded;
}

float bf16_a(const struct bf16_operands *o, uint32_t i, uint32_t p) {
    const struct fth_gemm_shape *s = &o->shape;
    return s->form == FTH_GEMM_TN ? o->a[(size_t)p * s->lda + i] : o->a[(size_t)i * s->lda + p];
}
float bf16_b(const struct bf16_operands *o, uint32_t p, uint32_t j) {
    const struct fth_gemm_shape *s = &o->shape;
    return s->form == FTH_GEMM_NT ? o->b[(size_t)j * s->ldb + p] : o->b[(size_t)p * s->ldb + j];
}

/* Which parts are multiplied, in which order: by AVX512-BF16, by AMX. */
struct terms {
    uint32_t n;
    struct {
        uint32_t a, b;
    } part[6];
};
static const struct terms of_avx512[FTH_PRECISIONS] = {
    [FTH_BF16] = {1, {{0, 0}}},
    [FTH_BF16X3] = {3, {{1, 0}, {0, 1}, {0, 0}}},
    [FTH_BF16X6] = {6, {{2, 0}, {1, 1}, {0, 2}, {1, 0}, {0, 1}, {0, 0}}},
};
static const struct terms of_amx[FTH_PRECISIONS] = {
    [FTH_BF16] = {1, {{0, 0}}},
    [FTH_BF16X3] = {3, {{1, 0}, {0, 0}, {0, 1}}},
    [FTH_BF16X6] = {6, {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}}},
};

/* Products of k in [from, to), to - from even or the end, added to sum in the order of AVX512-BF16. */
static float model_avx512(const struct bf16_operands *o, uint32_t i, uint32_t j, uint32_t from, uint32_t to, float sum) {
    const struct terms *terms = &of_avx512[o->shape.precision];
    for (uint32_t t = 0; t < terms->n; t++)
        for (uint32_t q = from; q < to; q += 2)
            for (uint32_t p = q + 1 < to ? q + 1 : q; p + 1 > q; p--)
                sum = fmaf(bf16_part(bf16_a(o, i, p), terms->part[t].a), bf16_part(bf16_b(o, p, j), terms->part[t].b), sum);
    return sum;
}

/* All terms of 32 of k, then the next. */
static float model_amx(const struct bf16_operands *o, uint32_t i, uint32_t j, uint32_t from, uint32_t to, float sum) {
    const struct terms *terms = &of_amx[o->shape.precision];
    for (uint32_t start = from; start < to; start += 32)
        for (uint32_t t = 0; t < terms->n; t++) {
            float sums[2] = {0, 0};
            for (uint32_t p = start; p < to && p < start + 32; p++)
                sums[(p - start) % 2] = fmaf(bf16_part(bf16_a(o, i, p), terms->part[t].a),
                                             bf16_part(bf16_b(o, p, j), terms->part[t].b), sums[(p - start) % 2]);
            sum += sums[0] + sums[1];
        }
    return sum;
}

static float model(const struct bf16_operands *o, int amx, uint32_t i, uint32_t j, float c) {
    int tn = o->shape.form == FTH_GEMM_TN;
    uint32_t k = tn ? o->rows : o->shape.k, chunk = tn ? (amx ? 512 : 256) : k;
    for (uint32_t from = 0; from < k; from += chunk) {
        uint32_t to = k - from < chunk ? k : from + chunk;
        int add = from > 0 || o->shape.accumulate;
        float sum = amx && add ? c : 0; /* tiles of sums begin with C */
        sum = (amx ? model_amx : model_avx512)(o, i, j, from, to, sum);
        c = add && !amx ? sum + c : sum;
    }
    return c;
}

/* Columns of NN that are told of: in order, and as they will stay. */
struct told {
    const struct bf16_operands *o;
    uint32_t columns;
    const float *c;
    float *copy;
    size_t second;        /* of two panels by turns */
    uint32_t last, steps; /* columns of the last one; calls of `step` */
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

/* What is put off until the next panel has been made: the panel before lies where it was. */
static void told_of_before(void *ctx, uint32_t column, uint32_t columns) {
    struct told *told = ctx;
    uint32_t before = told->columns - told->last;
    const float *panel = told->c + before / FTH_PANEL % 2 * told->second;
    for (uint32_t i = 0; i < told->o->rows; i++)
        memcpy(told->copy + i * told->o->shape.ldc + before, panel + i * FTH_GEMM_PASSING, told->last * sizeof(float));
    assert_int_equal(column, told->columns);
    told->columns += columns;
    told->last = columns;
}
static void count_steps(void *ctx) {
    struct told *told = ctx;
    told->steps++;
}

/* c[rows][ldc], which the product made, once more with panels of C that pass: in one place, then in two by turns. */
static void check_passing(const struct bf16_operands *o, const struct fth_bf16_kernel *kernel,
                          const struct fth_gemm_shape *shape, const float *c, size_t floats, void *scratch) {
    struct fth_gemm_shape passing = *shape;
    size_t panel = (size_t)o->rows * FTH_GEMM_PASSING;
    passing.passing = 1;
    passing.ldc = FTH_GEMM_PASSING;
    for (int by_turns = 0; by_turns < 2; by_turns++) {
        float *panels = fth_alloc(2 * panel, sizeof *panels), *copy = fth_alloc(floats, sizeof *copy);
        assert_non_null(panels);
        assert_non_null(copy);
        memcpy(copy, c, floats * sizeof *c);
        for (uint32_t i = 0; i < o->rows; i++)
            memset(copy + i * shape->ldc, 0xff, shape->n * sizeof *c);
        struct told told = {.o = o, .c = panels, .copy = copy, .second = panel};
        struct fth_gemm_finish finish = {.done = told_of_passing, .ctx = &told};
        if (by_turns)
            finish = (struct fth_gemm_finish){told_of_before, &told, count_steps, panel};
        fth_bf16_run(&passing, kernel, o->rows, o->tiles_a, o->panels, panels, scratch, &finish);
        assert_int_equal(told.columns, shape->n);
        assert_int_equal(told.steps > 0, by_turns && shape->precision != FTH_BF16);
        if (by_turns)
            told_of_before(&told, shape->n, 0);
        assert_memory_equal(copy, c, floats * sizeof *c);
        fth_free(copy);
        fth_free(panels);
    }
}

float *bf16_run(const struct bf16_operands *o, const struct fth_bf16_kernel *kernel, const float *before,
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
                 tells ? &(struct fth_gemm_finish){.done = told_of, .ctx = &told} : NULL);
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
    size_t ld = index == cut.count - 1 ? cut.ld_last : strip;
    return (size_t)index * strip * pairs + q * ld + j - index * strip;
}

/* The panels that this machine's kernel reads, in another one's strips. */
static float *in_strips(const struct bf16_operands *o, uint32_t strip) {
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

void bf16_check(const struct bf16_operands *o) {
    const struct fth_gemm_shape *s = &o->shape;
    uint32_t m = s->form == FTH_GEMM_TN ? s->m : o->rows;
    size_t floats = (size_t)(m + 1) * s->ldc;
    float *before = bf16_numbers(floats);
    for (int amx = o->shape.tiles; amx < 2; amx++) {
        const struct fth_bf16_kernel *emulated = amx ? &emulated_bf16_amx : &emulated_bf16_avx512;
        struct bf16_operands its = *o;
        its.panels = o->panels ? in_strips(o, emulated->strip) : NULL;
        float *c = bf16_run(&its, emulated, before, floats);
        for (size_t at = 0; at < floats; at++) {
            uint32_t i = (uint32_t)(at / s->ldc), j = (uint32_t)(at % s->ldc);
            float want = i < m && j < s->n ? model(o, amx, i, j, before[at]) : before[at];
            if (memcmp(&c[at], &want, 4))
                fail_msg("%s form %d m %u n %u k %u precision %d: row %u column %u is %.9g, not %.9g",
                         amx ? "amx" : "avx512", s->form, m, s->n, s->k, s->precision, i, j, (double)c[at],
                         (double)want);
        }
        if (amx ? fth_cpu_get()->amx_bf16 : fth_cpu_get()->avx512_bf16) {
            float *own = bf16_run(&its, amx ? &fth_bf16_amx : &fth_bf16_avx512, before, floats);
            assert_memory_equal(own, c, floats * sizeof *c);
            fth_free(own);
        }
        fth_free(its.panels);
        fth_free(c);
    }
    fth_free(before);
}

struct bf16_operands bf16_operands(fth_gemm_form form, fth_precision precision, uint32_t rows, uint32_t fixed,
                                uint32_t n) {
    struct bf16_operands o = {.rows = rows};
    o.shape = (struct fth_gemm_shape){.form = form, .m = form == FTH_GEMM_TN ? fixed : 64, .n = n,
                                      .k = form == FTH_GEMM_TN ? 64 : fixed, .lda = fixed + bf16_draw(5),
                                      .ldc = n + bf16_draw(5), .accumulate = (int)bf16_draw(2),
                                      .precision = precision};
    o.shape.ldb = (form == FTH_GEMM_NT ? fixed : n) + bf16_draw(5);
    uint32_t k = form == FTH_GEMM_TN ? rows : fixed;
    o.a = bf16_numbers((size_t)rows * o.shape.lda);
    o.b = bf16_numbers((size_t)(form == FTH_GEMM_NT ? n : k) * o.shape.ldb);
    return o;
}

float *bf16_panels(const struct bf16_operands *o, int way) {
    uint32_t k = o->shape.k, n = o->shape.n, ld = o->shape.ldb;
    float *panels = fth_alloc(fth_panels_room(o->shape.precision, k, n), sizeof *panels);
    float *turned = fth_alloc((size_t)n * k, sizeof *turned);
    assert_non_null(panels);
    assert_non_null(turned);
    struct fth_panels_target to = {panels, k, n, (int)o->shape.precision};
    for (uint32_t p = 0; p < k; p++)
        for (uint32_t j = 0; j < n; j++)
            turned[j * k + p] = o->b[(size_t)p * ld + j];
    /* The last block first: none may write what lies behind it. */
    uint32_t rows = way == 0 ? 7 : k, columns = way == 0 ? 19 : n;
    for (uint32_t p = (k - 1) / rows * rows; p < k && way < 2; p -= rows)
        for (uint32_t j = (n - 1) / columns * columns; j < n; j -= columns)
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
