/* What the fuzz targets stop by. */
#ifndef FTH_TESTS_FUZZ_CHECK_H
#define FTH_TESTS_FUZZ_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) {                                                   \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);           \
            abort();                                                          \
        }                                                                     \
    } while (0)

#endif
