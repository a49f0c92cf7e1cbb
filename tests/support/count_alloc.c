/* Takes the allocator's names in the test program, counts and passes on. glibc's own names for the
 * same functions are used, because dlsym itself allocates. */
#include "count_alloc.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COUNTED 0
#endif
#endif
#ifndef COUNTED
#define COUNTED 1
#endif

static atomic_int counting;
static atomic_long allocations, mappings, failing_from;

int count_alloc_works(void) {
    return COUNTED;
}

void count_alloc_start(void) {
    atomic_store(&allocations, 0);
    atomic_store(&mappings, 0);
    atomic_store(&failing_from, LONG_MAX);
    atomic_store(&counting, 1);
}

void count_alloc_start_failing(long from) {
    count_alloc_start();
    atomic_store(&failing_from, from);
}

struct count_alloc count_alloc_stop(void) {
    atomic_store(&counting, 0);
    return (struct count_alloc){atomic_load(&allocations), atomic_load(&mappings)};
}

#if COUNTED
#define TAKEN __attribute__((visibility("default")))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

TAKEN void *malloc(size_t size);
TAKEN void *calloc(size_t count, size_t size);
TAKEN void *realloc(void *block, size_t size);
TAKEN void *memalign(size_t alignment, size_t size);
TAKEN void *aligned_alloc(size_t alignment, size_t size);
TAKEN int posix_memalign(void **out, size_t alignment, size_t size);

/* Whether it is to fail. */
static int count(atomic_long *counter) {
    if (!atomic_load_explicit(&counting, memory_order_relaxed))
        return 0;
    return atomic_fetch_add(counter, 1) + 1 >= failing_from && counter == &allocations;
}

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t size) {
    return count(&allocations) ? no_memory() : __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    return count(&allocations) ? no_memory() : __libc_calloc(number, size);
}

void *realloc(void *block, size_t size) {
    return count(&allocations) ? no_memory() : __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size) {
    return count(&allocations) ? no_memory() : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return count(&allocations) ? no_memory() : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
    void *block = count(&allocations) ? NULL : __libc_memalign(alignment, size);
    if (!block)
        return ENOMEM;
    *out = block;
    return 0;
}

TAKEN void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    count(&mappings);
    return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}
#endif
