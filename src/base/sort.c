/* Sorting measurements: see sort.h. */
#include "base/sort.h"

#include <stdlib.h>

static int by_value(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

void fth_sort_doubles(double *values, size_t n) { qsort(values, n, sizeof *values, by_value); }
