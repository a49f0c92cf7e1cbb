/* kernels/cpu/scan: every instruction set against scalar, scalar against a search by libc. */
#include "kernel_test.h"

/* Text of n bytes of which about one in `sparsity` is a separator, and 64 more of the same behind it. */
static char *draw_text(size_t n, uint32_t sparsity, uint64_t seed) {
    struct call c = {.state = seed};
    char *text = malloc(n + 64);
    assert_non_null(text);
    for (size_t i = 0; i < n + 64; i++) {
        uint32_t bits = call_bits(&c) >> 8;
        text[i] = bits % sparsity == 0 ? "\t\n\0"[bits / sparsity % 3] : (char)(bits / 7919);
    }
    return text;
}

/* Calls check for every instruction set and texts of every length up to some windows, with few and many separators. */
static void check_texts(void (*check)(const struct fth_kernels *k, const char *text, size_t n, size_t s)) {
    static const uint32_t sparsity[] = {1, 2, 7, 40, 1000};
    const struct fth_kernels *tables[FTH_ISA_COUNT];
    const char *names[FTH_ISA_COUNT];
    size_t count = tables_under_test(tables, names);
    tables[count++] = fth_kernels_for(FTH_ISA_SCALAR);
    for (size_t k = 0; k < count; k++)
        for (size_t n = 0; n < 400; n += n < 200 ? 1 : 13)
            for (size_t s = 0; s < 5; s++) {
                char *text = draw_text(n, sparsity[s], n + s);
                check(tables[k], text, n, s);
                free(text);
            }
}

/* As many as a kernel may write. */
static uint32_t *offsets_for(size_t n) {
    uint32_t *offsets = malloc((n + 64) * sizeof *offsets);
    assert_non_null(offsets);
    return offsets;
}

static void check_scan(const struct fth_kernels *k, const char *text, size_t n, size_t s) {
    const struct fth_kernels *scalar = fth_kernels_for(FTH_ISA_SCALAR);
    uint32_t *got = offsets_for(n), *want = offsets_for(n);
    const char set[3] = {'\t', '\n', s % 2 ? '\0' : '\n'};
    size_t found = k->scan(text, n, set, got);
    assert_int_equal(found, scalar->scan(text, n, set, want));
    assert_memory_equal(got, want, found * sizeof *got);
    assert_int_equal(k->count_byte(text, n, set[2]), scalar->count_byte(text, n, set[2]));
    free(got), free(want);
}

static void scans_agree(void **state) {
    check_texts(check_scan);
}

static size_t places_of_lines(const char *text, size_t n, uint32_t *places) {
    return fth_kernels_for(FTH_ISA_SCALAR)->scan(text, n, (const char[3]){'\n', '\n', '\n'}, places);
}

static void check_elements(const struct fth_kernels *k, const char *text, size_t n, size_t s) {
    uint32_t *places = offsets_for(n), *begins = offsets_for(n + 1), *ends = offsets_for(n);
    uint32_t base = s % 2 ? 0 : 0xfffffff0u + (uint32_t)n, gap = 1 + (uint32_t)n % 5;
    begins[0] = 77;
    size_t found = k->split(text, n, '\n', base, ends);
    assert_int_equal(found, places_of_lines(text, n, places));
    k->begins(found, ends, gap, begins);
    assert_int_equal(begins[0], 77);
    for (size_t i = 0; i < found; i++) {
        assert_int_equal(ends[i], base + places[i]);
        assert_int_equal(begins[i + 1], base + places[i] + gap);
    }
    free(places), free(begins), free(ends);
}

/* Places count from any base, modulo 2^32; the first element's begin is left alone. */
static void elements_agree(void **state) {
    check_texts(check_elements);
}

static void check_tail(const struct fth_kernels *k, const char *text, size_t n, size_t s) {
    uint32_t *places = offsets_for(n);
    size_t found = places_of_lines(text, n, places);
    for (size_t keep = 1; keep <= found + 2; keep += 1 + keep / 4)
        assert_int_equal(k->tail(text, n, '\n', keep), keep <= found ? places[found - keep] + 1 : 0);
    free(places);
}

/* Where the last elements begin, by the places of all separators. */
static void tails_agree(void **state) {
    check_texts(check_tail);
}

static void scalar_scan_finds_what_libc_finds(void **state) {
    const struct fth_kernels *k = fth_kernels_for(FTH_ISA_SCALAR);
    static const char text[] = "1\t2,3\n\n4\t5";
    uint32_t offsets[sizeof text + 64];
    size_t found = k->scan(text, sizeof text - 1, (const char[3]){'\t', ',', '\n'}, offsets), at = 0;
    for (const char *p = text; (p = strpbrk(p, "\t,\n")); p++)
        assert_int_equal(offsets[at++], p - text);
    assert_int_equal(found, at);
    assert_int_equal(at, 5);
    assert_int_equal(k->count_byte(text, sizeof text - 1, '\n'), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scans_agree),
        cmocka_unit_test(elements_agree),
        cmocka_unit_test(tails_agree),
        cmocka_unit_test(scalar_scan_finds_what_libc_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
