/* What the tests of refused configurations share: cases of a text, an override and the exact message. */
#ifndef FTH_TESTS_REFUSALS_H
#define FTH_TESTS_REFUSALS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "config/config.h"

#define MODEL "model: {name: lr}\n"
#define FEATURES "features: {categorical: [{columns: C1}]}\n"
#define NUMBERS "features: {numeric: [{columns: I1}], categorical: [{columns: C1}]}\n"
#define HISTORY                                                                                    \
    "features: {categorical: [{columns: item}, {columns: hist, table: item, "                      \
    "sequence: true, separator: \";\"}]}\n"
#define CSV "data: {format: csv, label: y}\n"

struct bad {
    const char *text, *override, *message;
};

static inline void check(const struct bad *bad, size_t n) {
    for (size_t i = 0; i < n; i++) {
        fth_error err = {0};
        struct fth_config *config = NULL;
        fth_status status =
            fth_config_parse("f.yaml", bad[i].text, strlen(bad[i].text), &bad[i].override,
                             bad[i].override != NULL, &config, &err);
        if (status != FTH_E_CONFIG || strcmp(err.message, bad[i].message) != 0)
            fail_msg("case %zu\n%s%s\nexpected: %s\n     got: %s", i, bad[i].text,
                     bad[i].override ? bad[i].override : "", bad[i].message,
                     status == FTH_OK ? "accepted" : err.message);
        assert_null(config);
        assert_int_equal(err.code, FTH_E_CONFIG);
    }
}
#define CHECK(cases) check(cases, sizeof cases / sizeof cases[0])

#endif
