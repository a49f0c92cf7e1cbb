/* Memory: see base/memory.h. Blocks come from the C heap, regions from mmap, arenas from blocks.
 *
 * An arena is a list of chunks, newest first; only the newest has room:
 *
 *   arena -> [header | used bytes ... | free] -> [header | used ... ] -> NULL
 *
 * A block larger than a quarter of a chunk gets a chunk of its own behind the newest, so that it does
 * not waste the newest chunk's room. */
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define ARENA_ALIGN 16

int fth_mul_size(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

/* *out = bytes rounded up to a multiple of `unit` (a power of two); 0 when that overflows. */
static int round_up(size_t bytes, size_t unit, size_t *out) {
    if (__builtin_add_overflow(bytes, unit - 1, out))
        return 0;
    *out &= ~(unit - 1);
    return 1;
}

/* Huge pages that begin with the block and that it fills: the last one, too, where that takes an eighth more at most. */
void *fth_alloc(size_t count, size_t size) {
    size_t bytes, whole;
    if (!fth_mul_size(count, size, &bytes) || !round_up(bytes ? bytes : 1, FTH_CACHE_LINE, &bytes))
        return NULL;
    size_t room = bytes, huge = bytes & ~(HUGE_PAGE - 1);
    if (round_up(bytes, HUGE_PAGE, &whole) && whole - bytes <= bytes / 8)
        room = huge = whole;
    void *block;
    if (posix_memalign(&block, huge ? HUGE_PAGE : FTH_CACHE_LINE, room))
        return NULL;
    if (huge)
        (void)madvise(block, huge, MADV_HUGEPAGE); /* only advice */
    memset(block, 0, bytes);
    return block;
}

void fth_free(void *block) { free(block); }

/* A region of a huge page or more starts on a huge page: the mapping is made one huge page longer and
 * the ends outside are given back, so that the kernel can back all of it with huge pages. */
void *fth_region_alloc(size_t bytes) {
    size_t length, mapped;
    if (!round_up(bytes ? bytes : 1, 4096, &length))
        return NULL;
    size_t slack = length >= HUGE_PAGE ? HUGE_PAGE : 0;
    if (__builtin_add_overflow(length, slack, &mapped))
        return NULL;
    char *base = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    if (slack) {
        size_t head = -(uintptr_t)base & (HUGE_PAGE - 1);
        if (head)
            munmap(base, head);
        base += head;
        munmap(base + length, slack - head);
    }
    /* Only advice: without it the region works, on small pages. */
    (void)madvise(base, length, MADV_HUGEPAGE);
    return base;
}

void fth_region_free(void *region, size_t bytes) {
    size_t length;
    if (region && round_up(bytes ? bytes : 1, 4096, &length))
        munmap(region, length);
}

void fth_region_touch(void *at, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
    uintptr_t first = (uintptr_t)at & ~(uintptr_t)4095, last = (uintptr_t)at + bytes;
    if (bytes)
        (void)madvise((char *)at - ((uintptr_t)at - first), ((last + 4095) & ~(uintptr_t)4095) - first,
                      MADV_POPULATE_WRITE);
#else
    (void)at;
    (void)bytes;
#endif
}

void fth_region_drop(void *at, size_t bytes) { (void)madvise(at, bytes, MADV_DONTNEED); }

struct chunk {
    struct chunk *next;
    size_t used, size; /* bytes behind the header */
    char pad[FTH_CACHE_LINE - sizeof(void *) - 2 * sizeof(size_t)];
};

struct fth_arena {
    struct chunk *first;
    size_t chunk_bytes;
};

static struct chunk *chunk_create(size_t bytes) {
    size_t whole;
    if (__builtin_add_overflow(bytes, sizeof(struct chunk), &whole))
        return NULL;
    struct chunk *chunk = fth_alloc(whole, 1);
    if (chunk)
        chunk->size = bytes;
    return chunk;
}

fth_arena *fth_arena_create(size_t chunk_bytes) {
    fth_arena *arena = fth_alloc(1, sizeof *arena);
    if (!arena)
        return NULL;
    arena->chunk_bytes = chunk_bytes < 1024 ? 1024 : chunk_bytes;
    arena->first = chunk_create(arena->chunk_bytes);
    if (!arena->first) {
        fth_free(arena);
        return NULL;
    }
    return arena;
}

void fth_arena_destroy(fth_arena *arena) {
    if (!arena)
        return;
    for (struct chunk *chunk = arena->first, *next; chunk; chunk = next) {
        next = chunk->next;
        fth_free(chunk);
    }
    fth_free(arena);
}

void *fth_arena_alloc(fth_arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (!fth_mul_size(count, size, &bytes) || !round_up(bytes ? bytes : 1, ARENA_ALIGN, &bytes))
        return NULL;
    struct chunk *chunk = arena->first;
    if (chunk->size - chunk->used < bytes) {
        int own = bytes > arena->chunk_bytes / 4;
        struct chunk *fresh = chunk_create(own ? bytes : arena->chunk_bytes);
        if (!fresh)
            return NULL;
        if (own) {
            fresh->next = chunk->next;
            chunk->next = fresh;
        } else {
            fresh->next = chunk;
            arena->first = fresh;
        }
        chunk = fresh;
    }
    void *block = (char *)(chunk + 1) + chunk->used;
    chunk->used += bytes;
    return block;
}

char *fth_arena_strdup(fth_arena *arena, const char *text) {
    size_t length = strlen(text) + 1;
    char *copy = fth_arena_alloc(arena, length, 1);
    if (copy)
        memcpy(copy, text, length);
    return copy;
}

char *fth_arena_printf(fth_arena *arena, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : fth_arena_alloc(arena, (size_t)length + 1, 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}
