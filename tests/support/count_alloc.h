/* Counts what a stretch of code asks of the allocator and of mmap, on all threads together: malloc,
 * calloc, realloc, aligned_alloc, posix_memalign and memalign, called from anywhere in the program
 * or its shared libraries; mmap called from outside libc.
 *
 * Linked into every test program, where it only counts between start and stop. Under a sanitizer,
 * which needs these functions for itself, nothing is counted: ask count_alloc_works. */
#ifndef FTH_TESTS_COUNT_ALLOC_H
#define FTH_TESTS_COUNT_ALLOC_H

struct count_alloc {
    long allocations, mappings;
};

int count_alloc_works(void);
void count_alloc_start(void);
/* The same, and from the from-th on (1: the first) every one fails but mappings. */
void count_alloc_start_failing(long from);
struct count_alloc count_alloc_stop(void);

#endif
