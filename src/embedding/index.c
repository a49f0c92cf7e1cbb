/* A shard's index: see index.h. The indices of a pack grow together, so the blocks of one size lie side
 * by side in one region of huge pages, made when the first index reaches it and given back when the last
 * one has left, the memory of a large block as soon as its index has left it: a block alone would take
 * ordinary pages, and a lookup would miss their addresses as well as the cache. Small blocks come from
 * the heap.
 *
 * Threads: one at a time per index; indices share a space without locks. */
#include "embedding/index.h"

#include "base/hash.h"
#include "base/memory.h"

#define SMALL_GROUPS 256u
#define LARGE_BLOCK ((size_t)2 << 20) /* a huge page */

static size_t block_bytes(uint32_t n_groups) {
    return (size_t)n_groups * sizeof(struct fth_index_group);
}

static size_t region_bytes(const struct fth_index_space *space, uint32_t n_groups) {
    return block_bytes(n_groups) * space->n;
}

/* The region for blocks of this size, made if it is not there; NULL when memory is out. */
static char *region_of(struct fth_index_space *space, uint32_t n_groups) {
    struct fth_index_region *region = &space->regions[__builtin_ctz(n_groups)];
    char *there = atomic_load_explicit(&region->base, memory_order_acquire);
    if (there)
        return there;
    char *made = fth_region_alloc(region_bytes(space, n_groups));
    if (!made)
        return NULL;
    if (atomic_compare_exchange_strong(&region->base, &there, made))
        return made;
    fth_region_free(made, region_bytes(space, n_groups));
    return there;
}

static void *take_block(struct fth_index *index, uint32_t n_groups) {
    if (n_groups <= SMALL_GROUPS)
        return fth_alloc(n_groups, sizeof(struct fth_index_group));
    char *region = region_of(index->space, n_groups);
    return region ? region + index->number * block_bytes(n_groups) : NULL;
}

/* An index never shrinks, so nobody comes to a region that all have left. While a checkpoint is read the indices grow one
 * behind the other: what one has left is not kept until the last one leaves, but for blocks of less than a huge page, which
 * giving back would split (less than 2 MiB a shard in all). */
static void leave_block(struct fth_index *index) {
    struct fth_index_space *space = index->space;
    if (index->n_groups <= SMALL_GROUPS) {
        fth_free(index->groups);
        return;
    }
    struct fth_index_region *region = &space->regions[__builtin_ctz(index->n_groups)];
    if (block_bytes(index->n_groups) >= LARGE_BLOCK)
        fth_region_drop(index->groups, block_bytes(index->n_groups));
    if (atomic_fetch_add(&region->left, 1) + 1 == space->n)
        fth_region_free(atomic_exchange(&region->base, NULL),
                        region_bytes(space, index->n_groups));
}

void fth_index_space_free(struct fth_index_space *space) {
    for (uint32_t i = 0; i < 32; i++) {
        char *base = atomic_load(&space->regions[i].base);
        if (base)
            fth_region_free(base, region_bytes(space, (uint32_t)1 << i));
    }
    *space = (struct fth_index_space){0};
}

fth_status fth_index_create(struct fth_index *index, struct fth_index_space *space,
                            uint32_t number, uint32_t n_groups, fth_error *err) {
    index->space = space;
    index->number = number;
    void *block = take_block(index, n_groups);
    if (!block)
        return fth_fail(err, FTH_E_MEMORY, "no memory for an embedding index of %zu bytes",
                        block_bytes(n_groups));
    index->groups = block;
    index->n_groups = n_groups;
    index->group_mask = n_groups - 1;
    index->shift = 57 - (uint32_t)__builtin_ctz(n_groups);
    index->factor = fth_hash_factor();
    index->used = 0;
    return FTH_OK;
}

void fth_index_destroy(struct fth_index *index) {
    if (index->groups)
        leave_block(index);
    *index = (struct fth_index){0};
}
