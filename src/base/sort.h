/* Sorting measurements, for medians and percentiles. Threads: any. */
#ifndef FTH_BASE_SORT_H
#define FTH_BASE_SORT_H

#include <stddef.h>

/* Ascending; no NaN. */
void fth_sort_doubles(double *values, size_t n);

#endif
