/* The monotonic clock, for intervals. Threads: any. */
#ifndef FTH_BASE_CLOCK_H
#define FTH_BASE_CLOCK_H

#include <stdint.h>

uint64_t fth_now_ns(void);

#endif
