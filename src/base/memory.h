/* Memory: overflow-checked 64-byte-aligned blocks, lazily backed huge-page regions, arenas.
 * Threads: blocks and regions are independent; an arena belongs to one thread at a time. */
#ifndef FTH_BASE_MEMORY_H
#define FTH_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#define FTH_CACHE_LINE 64

/* count * size zeroed bytes, aligned to 64; NULL when the product overflows or memory is out. For blocks that fill huge
 * pages these are asked for. Owned: give to fth_free. */
void *fth_alloc(size_t count, size_t size);
void fth_free(void *block); /* NULL-safe */

/* A private anonymous mapping of at least `bytes`, zero-filled, backed page by page on first touch
 * (reserving more than is ever touched costs address space only), huge pages asked for; NULL when
 * refused. Owned: give to fth_region_free with the same `bytes`. */
void *fth_region_alloc(size_t bytes);
void fth_region_free(void *region, size_t bytes);
/* Backs these bytes of a region with memory now, on this thread, as if they were touched. Only advice: where the
 * kernel does not know it (Linux before 5.14), the first touch does it as ever. */
void fth_region_touch(void *at, size_t bytes);
/* Gives the memory of these bytes of a region back: whole pages, which nobody reads or writes meanwhile and which read as 0
 * afterwards (memory that is locked stays as it was). */
void fth_region_drop(void *at, size_t bytes);

/* True (and *out set) when a * b fits. */
int fth_mul_size(size_t a, size_t b, size_t *out);

/* An arena: many small blocks with one lifetime. */
typedef struct fth_arena fth_arena;
fth_arena *fth_arena_create(size_t chunk_bytes); /* NULL when memory is out */
void fth_arena_destroy(fth_arena *arena);        /* NULL-safe; frees every block */
/* Zeroed, 16-byte aligned, borrowed until the arena is destroyed; NULL when memory is out. */
void *fth_arena_alloc(fth_arena *arena, size_t count, size_t size);
char *fth_arena_strdup(fth_arena *arena, const char *text);
char *fth_arena_printf(fth_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Columns of a row of floats padded so that a row is an odd number of cache lines: consecutive rows
 * then never fall on the same cache sets (docs/layout.md). A single column stays a plain vector. */
static inline uint32_t fth_padded_columns(uint32_t columns) {
    if (columns == 1)
        return 1;
    uint32_t lines = (columns + 15) / 16;
    return (lines | 1u) * 16;
}

#endif
