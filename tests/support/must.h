/* A call of the library that has to succeed; else the test fails with its message. */
#ifndef FTH_TESTS_MUST_H
#define FTH_TESTS_MUST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"

static inline void must(fth_status status, const fth_error *err) {
    if (status != FTH_OK)
        fail_msg("%s", err->message);
}

#endif
