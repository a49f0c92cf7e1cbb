/* Operands in the tiles that AMX loads, rounded where they are made: where their numbers lie, what is kept and summed
 * on the way, and that products of them are those of a scalar model. */
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

/* A block at a time, as nodes make it that round what they make. */
struct made {
    const float *x;
    size_t ldx;
    float block[32 * 32];
};

static const float *make(const void *maker, uint32_t row, uint32_t column, uint32_t rows, uint32_t columns) {
    struct made *made = (struct made *)(uintptr_t)maker;
    for (uint32_t i = 0; i < 32 * 32; i++)
        made->block[i] = NAN;
    for (uint32_t i = 0; i < rows; i++)
        memcpy(made->block + 32 * i, made->x + (row + i) * made->ldx + column, columns * sizeof(float));
    return made->block;
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
    struct made made = {.x = x, .ldx = ldx};
    if (columns % 2) {
        store.x = NULL;
        store.ldx = 32;
        store.make = make;
        store.maker = &made;
    }
    fth_bf16_tiles_store(&emulated_bf16_amx, &store);
    return tiles;
}

/* Where tiles.h says that x[row][column] lies, as the number of a half word. */
static size_t half_at(fth_precision precision, fth_tiles_way way, uint32_t row, uint32_t column, size_t ld) {
    uint32_t line = row % 16, word = column % 32 / 2, half = column % 2, tile = column / 32, group = 16;
    if (way != FTH_TILES_ROWS) {
        group = 32;
        half = row % 2;
        tile = column / 16;
        line = way == FTH_TILES_PAIRS ? row % 32 / 2 : column % 16;
        word = way == FTH_TILES_PAIRS ? column % 16 : row % 32 / 2;
    }
    tile *= fth_gemm_parts(precision);
    return 2 * (row / group * group * ld + 256 * tile + 16 * line + word) + half;
}

static void check_tiles(fth_precision precision) {
    static const uint32_t rows[] = {1, 15, 16, 33, 70, 64}, columns[] = {1, 16, 17, 32, 49, 130};
    for (int i = 0; i < 18; i++) {
        fth_tiles_way way = (fth_tiles_way)(1 + i % 3);
        uint32_t m = rows[i % 6], n = columns[i / 3], ldx = n + bf16_draw(5);
        float *x = bf16_numbers((size_t)m * ldx), *tiles = tiles_of(precision, way, x, ldx, m, n);
        uint32_t group = way == FTH_TILES_ROWS ? 16 : 32, wide = way == FTH_TILES_ROWS ? 32 : 16;
        uint32_t ld = fth_tiles_ld(precision, n);
        const uint16_t *halves = (const uint16_t *)(const void *)tiles;
        for (uint32_t r = 0; r < (m + group - 1) / group * group; r++)
            for (uint32_t c = 0; c < (n + wide - 1) / wide * wide; c++) {
                size_t at = half_at(precision, way, r, c, ld);
                float want = c >= n || r >= m ? 0 : x[(size_t)r * ldx + c];
                if (r >= m && way == FTH_TILES_ROWS)
                    continue;
                for (uint32_t part = 0; part < fth_gemm_parts(precision); part++)
                    assert_int_equal(halves[at + 512 * part], fth_bf16_from_float(bf16_part(want, part)));
            }
        fth_free(tiles);
        fth_free(x);
    }
}

static void tiles_lie_as_they_say(void **state) {
    (void)state;
    check_tiles(FTH_BF16);
    check_tiles(FTH_BF16X3);
    check_tiles(FTH_BF16X6);
}

/* Numbers taken as 0, bits of what is positive (NaN counts), sums: as one by one. */
static void tiles_keep_and_sum(void **state) {
    (void)state;
    static const uint32_t rows[] = {1, 15, 32, 33, 70, 64}, columns[] = {1, 16, 17, 32, 49, 130};
    for (int i = 0; i < 36; i++) {
        uint32_t m = rows[i % 6], n = columns[i / 6], ldx = n + bf16_draw(5);
        uint32_t words = (n + 31) / 32, ld = words + bf16_draw(3);
        uint32_t keep[70 * 8], positive[70 * 8];
        float *x = bf16_numbers((size_t)m * ldx), *bias = bf16_numbers(160), sums[160], want[160];
        int biased = i % 3 > 0, relu = i % 4 > 1;
        x[bf16_draw(m) * ldx] = NAN;
        x[bf16_draw(m) * ldx + n - 1] = 0.0f;
        memset(positive, 0xaa, sizeof positive);
        for (uint32_t w = 0; w < 70 * 8; w++)
            keep[w] = bf16_draw(1u << 16) << 16 | bf16_draw(1u << 16);
        for (uint32_t c = 0; c < 160; c++)
            sums[c] = want[c] = c < n ? (float)c : 0;
        fth_precision precision = i % 5 ? FTH_BF16X3 : FTH_BF16X6;
        uint32_t ld_tiles = fth_tiles_ld(precision, n);
        size_t floats = (size_t)(m + 31) / 32 * 32 * ld_tiles;
        float *tiles = fth_alloc(floats, sizeof *tiles);
        assert_non_null(tiles);
        struct fth_tiles_store store = {.x = x, .ldx = ldx, .rows = m, .columns = n, .by_rows = tiles, .ld = ld_tiles,
                                        .precision = precision, .keep = keep, .ld_keep = ld, .positive = positive,
                                        .ld_positive = ld, .sums = sums, .bias = biased ? bias : NULL, .relu = relu};
        fth_bf16_tiles_store(i % 2 && fth_cpu_get()->amx_bf16 ? &fth_bf16_amx : &emulated_bf16_amx, &store);
        const uint16_t *halves = (const uint16_t *)(const void *)tiles;
        for (uint32_t r = 0; r < m; r++)
            for (uint32_t c = 0; c < n; c++) {
                float number = keep[r * ld + c / 32] >> c % 32 & 1 ? x[(size_t)r * ldx + c] : 0;
                number = biased ? number + bias[c] : number;
                number = relu && number < 0 ? 0 : number;
                want[c] += number;
                size_t at = half_at(precision, FTH_TILES_ROWS, r, c, ld_tiles);
                assert_int_equal(halves[at], fth_bf16_from_float(number));
                assert_true(isnan(number) || halves[at + 512] == fth_bf16_from_float(bf16_part(number, 1)));
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

/* In steps, some columns after the others, with sums a tile: the bits of the whole store, block for block of rows that have
 * the same sums. */
static void steps_make_the_same(void **state) {
    (void)state;
    enum { LD = 5, SUM_ROWS = 64 };
    static const uint32_t rows[] = {1, 32, 64, 70, 128, 160}, columns[] = {1, 32, 49, 64, 130, 128};
    for (int i = 0; i < 36; i++) {
        uint32_t m = rows[i % 6], n = columns[i / 6], ldx = n + bf16_draw(5);
        fth_precision precision = i % 3 == 0 ? FTH_BF16 : i % 3 == 1 ? FTH_BF16X3 : FTH_BF16X6;
        fth_tiles_way way = i % 2 ? FTH_TILES_TURNED : FTH_TILES_PAIRS;
        uint32_t keep[160 * LD], positive[2][160 * LD], ld = fth_tiles_ld(precision, n);
        float *x = bf16_numbers((size_t)m * ldx), *bias = bf16_numbers(160), sums[2][3 * 32 * LD];
        size_t floats = (size_t)(m + 31) / 32 * 32 * ld;
        float *tiles = fth_alloc(4 * floats, sizeof *tiles);
        assert_non_null(tiles);
        memset(tiles, 0xff, 4 * floats * sizeof *tiles);
        memset(positive, 0xaa, sizeof positive);
        for (uint32_t w = 0; w < 160 * LD; w++)
            keep[w] = bf16_draw(1u << 16) << 16 | bf16_draw(1u << 16);
        for (uint32_t c = 0; c < 3 * 32 * LD; c++)
            sums[0][c] = sums[1][c] = (float)c;
        const struct fth_bf16_kernel *kernel = i % 4 > 1 && fth_cpu_get()->amx_bf16 ? &fth_bf16_amx : &emulated_bf16_amx;
        struct fth_tiles_store store = {.ldx = ldx, .way = way, .ld = ld, .precision = precision, .ld_keep = LD,
                                        .ld_positive = LD, .bias = i % 5 ? bias : NULL, .relu = i % 4 > 0};
        for (uint32_t row = 0; row < m; row += SUM_ROWS) {
            struct fth_tiles_store whole = store;
            whole.x = x + (size_t)row * ldx;
            whole.rows = m - row < SUM_ROWS ? m - row : SUM_ROWS;
            whole.columns = n;
            whole.by_rows = tiles + row * ld;
            whole.summed = i % 7 ? tiles + floats + row * ld : NULL;
            whole.keep = keep + row * LD;
            whole.positive = positive[0] + row * LD;
            whole.sums = sums[0] + row / SUM_ROWS * 32 * LD;
            fth_bf16_tiles_store(kernel, &whole);
        }
        struct fth_tiles_steps *steps = fth_alloc(1, sizeof *steps);
        assert_non_null(steps);
        store.rows = m;
        store.by_rows = tiles + 2 * floats;
        store.summed = i % 7 ? tiles + 3 * floats : NULL;
        store.keep = keep;
        store.positive = positive[1];
        store.sums = sums[1];
        store.sum_rows = SUM_ROWS;
        store.ld_sums = 32 * LD;
        for (uint32_t column = 0; column < n; column += 64) {
            store.x = x + column;
            fth_tiles_steps_begin(steps, &store, column, n - column < 64 ? n - column : 64);
            for (uint32_t next = bf16_draw(2 * m); next > 0; next--)
                fth_bf16_tiles_next(kernel, steps);
            fth_bf16_tiles_end(kernel, steps);
        }
        assert_memory_equal(tiles, tiles + 2 * floats, 2 * floats * sizeof *tiles);
        assert_memory_equal(positive[0], positive[1], sizeof positive[0]);
        assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
        fth_free(steps);
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
    for (int i = 0; i < 96; i++) {
        fth_precision precision = FTH_BF16 + i / 32;
        int tn = i % 2;
        struct bf16_operands o = bf16_operands(tn ? FTH_GEMM_TN : FTH_GEMM_NN, precision, rows[bf16_draw(5)],
                                               fixed[bf16_draw(6)], widths[i % 32 / 4]);
        uint32_t k = o.shape.k, m = o.shape.m;
        o.shape.tiles = 1;
        o.shape.panels = !tn && i % 4 < 2;
        o.panels = o.shape.panels ? bf16_panels(&o, 1) : NULL;
        o.tiles_a = tn ? tiles_of(precision, FTH_TILES_TURNED, o.a, o.shape.lda, o.rows, m)
                       : tiles_of(precision, FTH_TILES_ROWS, o.a, o.shape.lda, o.rows, k);
        o.tiles_b = tn ? tiles_of(precision, FTH_TILES_PAIRS, o.b, o.shape.ldb, o.rows, o.shape.n) : NULL;
        bf16_check(&o);
        fth_free(o.tiles_a);
        fth_free(o.tiles_b);
        fth_free(o.panels);
        fth_free(o.a);
        fth_free(o.b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_lie_as_they_say),
        cmocka_unit_test(tiles_keep_and_sum),
        cmocka_unit_test(steps_make_the_same),
        cmocka_unit_test(tiles_equal_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
