/* What the tests of data/gen share: a preset, run into memory. */
#ifndef FTH_TESTS_GEN_TEST_H
#define FTH_TESTS_GEN_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "fathom/gen.h"

struct bytes {
    char *data;
    size_t n, capacity, limit;
};

static inline fth_status collect(void *ctx, const void *data, size_t n, fth_error *err) {
    struct bytes *bytes = ctx;
    if (bytes->limit && bytes->n + n > bytes->limit)
        return fth_fail(err, FTH_E_IO, "full");
    if (bytes->n + n + 1 > bytes->capacity) {
        bytes->capacity = 2 * (bytes->n + n + 1);
        bytes->data = realloc(bytes->data, bytes->capacity);
    }
    memcpy(bytes->data + bytes->n, data, n);
    bytes->n += n;
    bytes->data[bytes->n] = 0;
    return FTH_OK;
}

static fth_gen_options o;
static fth_gen_result result;

static inline void preset(const char *name, uint64_t examples) {
    assert_true(fth_gen_preset(name, &o));
    o.examples = examples;
}

static inline void generate(struct bytes *data, struct bytes *truth) {
    fth_error err = {0};
    *data = (struct bytes){0};
    fth_gen_sink data_sink = {collect, data}, truth_sink = {collect, truth};
    if (truth)
        *truth = (struct bytes){0};
    if (fth_gen_run(&o, &data_sink, truth ? &truth_sink : NULL, &result, &err) != FTH_OK)
        fail_msg("%s", err.message);
    assert_int_equal(result.bytes, data->n);
    assert_int_equal(result.examples, o.examples);
}

/* Splits one line in place; returns the number of cells. */
static inline size_t split(char *line, char delimiter, char **cells, size_t max) {
    size_t n = 0;
    cells[n++] = line;
    for (char *p = line; *p; p++)
        if (*p == delimiter && n < max) {
            *p = 0;
            cells[n++] = p + 1;
        }
    return n;
}

#endif
