/* A shard's index: see index.h. The indices of a pack grow together, so the blocks of one capacity lie side
 * by side in one region of huge pages, made when the first index reaches it and given back when the last
 * one has left: a block alone would take ordinary pages, and a lookup would miss their addresses as well
 * as the cache. Small blocks come from the heap.
 *
 * Threads: one at a time per index; indices share a space without locks. */
#include "embedding/index.h"

#include "base/memory.h"

#define SMALL_CAPACITY 1024u

static size_t block_bytes(uint32_t capacity) {
    return (size_t)capacity * FTH_INDEX_SLOT_BYTES;
}

static size_t region_bytes(const struct fth_index_space *space, uint32_t capacity) {
    return block_bytes(capacity) * space->n;
}

/* The region for this capacity, made if it is not there; NULL when memory is out. */
static char *region_of(struct fth_index_space *space, uint32_t capacity) {
    struct fth_index_region *region = &space->regions[__builtin_ctz(capacity)];
    char *there = atomic_load_explicit(&region->base, memory_order_acquire);
    if (there)
        return there;
    char *made = fth_region_alloc(region_bytes(space, capacity));
    if (!made)
        return NULL;
    if (atomic_compare_exchange_strong(&region->base, &there, made))
        return made;
    fth_region_free(made, region_bytes(space, capacity));
    return there;
}

static void *take_block(struct fth_index *index, uint32_t capacity) {
    if (capacity <= SMALL_CAPACITY)
        return fth_alloc(block_bytes(capacity), 1);
    char *region = region_of(index->space, capacity);
    return region ? region + index->number * block_bytes(capacity) : NULL;
}

/* An index never shrinks, so nobody comes to a region that all have left. */
static void leave_block(struct fth_index *index) {
    struct fth_index_space *space = index->space;
    if (index->capacity <= SMALL_CAPACITY) {
        fth_free(index->slots);
        return;
    }
    struct fth_index_region *region = &space->regions[__builtin_ctz(index->capacity)];
    if (atomic_fetch_add(&region->left, 1) + 1 == space->n)
        fth_region_free(atomic_exchange(&region->base, NULL),
                        region_bytes(space, index->capacity));
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
                            uint32_t number, uint32_t capacity, fth_error *err) {
    index->space = space;
    index->number = number;
    void *block = take_block(index, capacity);
    if (!block)
        return fth_fail(err, FTH_E_MEMORY, "no memory for an embedding index of %zu bytes",
                        block_bytes(capacity));
    index->slots = block;
    index->tags = (uint8_t *)(index->slots + capacity);
    index->capacity = capacity;
    index->group_mask = capacity / FTH_INDEX_GROUP - 1;
    index->used = 0;
    return FTH_OK;
}

void fth_index_destroy(struct fth_index *index) {
    if (index->slots)
        leave_block(index);
    *index = (struct fth_index){0};
}

fth_status fth_index_grow(struct fth_index *index, fth_error *err) {
    struct fth_index bigger;
    if (index->capacity >= (uint32_t)1 << 31)
        return fth_fail(err, FTH_E_LIMIT, "an embedding index has reached 2^31 keys");
    FTH_TRY(fth_index_create(&bigger, index->space, index->number, index->capacity * 2, err));
    for (uint32_t i = 0; i < index->capacity; i++) {
        if (!index->tags[i])
            continue;
        int found;
        uint32_t at = fth_index_find(&bigger, index->slots[i].hash, &found);
        fth_index_fill(&bigger, at, index->slots[i].hash);
        bigger.slots[at] = index->slots[i];
    }
    fth_index_destroy(index);
    *index = bigger;
    return FTH_OK;
}
