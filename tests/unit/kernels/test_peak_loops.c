/* The loops that kernels/peaks times do the work that is counted: sums of every number read, copies of all of them,
 * the rows that were asked for, two operations a lane and multiply-add. With FTH_TEST_SIMDE the loops are the
 * emulated AVX-512 ones (tests/simde). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "kernels/peaks_private.h"

#define FLOATS 640u
#define DIM 20u

#ifdef FTH_TEST_SIMDE
extern const struct fth_peak_loops fth_peak_loops_simde;
#endif

static size_t loops_under_test(const struct fth_peak_loops *loops[3]) {
    size_t n = 0;
#ifdef FTH_TEST_SIMDE
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) /* what it is built on */
        loops[n++] = &fth_peak_loops_simde;
#else
    loops[n++] = &fth_peak_loops_scalar;
    if (fth_cpu_get()->isa >= FTH_ISA_AVX2)
        loops[n++] = &fth_peak_loops_avx2;
    if (fth_cpu_get()->isa >= FTH_ISA_AVX512)
        loops[n++] = &fth_peak_loops_avx512;
#endif
    return n;
}

/* Small whole numbers, so that sums are exact in any order. */
static float *numbers(size_t n) {
    float *x = fth_alloc(n, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i % 97) + 1.0f;
    return x;
}

static void reads_and_copies_all(void **state) {
    (void)state;
    const struct fth_peak_loops *loops[3];
    size_t n = loops_under_test(loops);
    float *x = numbers(FLOATS), *y = fth_alloc(FLOATS + 16, sizeof *y), sum = 0;
    for (size_t i = 0; i < FLOATS; i++)
        sum += x[i];
    for (size_t l = 0; l < n; l++) {
        assert_true(loops[l]->read(x, FLOATS) == sum);
        memset(y, 0, (FLOATS + 16) * sizeof *y);
        loops[l]->copy(x, y, FLOATS);
        assert_memory_equal(x, y, FLOATS * sizeof *x);
        assert_true(y[FLOATS] == 0.0f);
    }
    fth_free(x);
    fth_free(y);
}

static void gathers_the_rows(void **state) {
    (void)state;
    const struct fth_peak_loops *loops[3];
    size_t n = loops_under_test(loops);
    float *table = numbers(32 * DIM);
    uint32_t rows[7 + FTH_PEAKS_PREFETCH] = {3, 31, 0, 3, 17, 8, 30};
    for (size_t l = 0; l < n; l++) {
        float sum[DIM] = {0};
        loops[l]->gather(table, DIM, rows, 7, sum);
        for (uint32_t j = 0; j < DIM; j++) {
            float want = 0;
            for (uint32_t i = 0; i < 7; i++)
                want += table[rows[i] * DIM + j];
            assert_true(sum[j] == want);
        }
    }
    fth_free(table);
}

/* s <- s f + f with f = 1: the sums 0, 1, 2, ... become s + turns each; whatever the number of sums S and of lanes L,
 * the result is L (S (S - 1) / 2 + S turns), and a turn has 2 L S operations. */
static void counts_its_operations(void **state) {
    (void)state;
    const struct fth_peak_loops *loops[3];
    size_t n = loops_under_test(loops);
    for (size_t l = 0; l < n; l++) {
        double a_turn = (double)loops[l]->fma(101, 1.0f) - (double)loops[l]->fma(100, 1.0f);
        assert_true(2.0 * a_turn == loops[l]->flop_per_turn);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_and_copies_all), cmocka_unit_test(gathers_the_rows),
                                       cmocka_unit_test(counts_its_operations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
