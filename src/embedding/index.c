/* A shard's index: see index.h. Blocks of a huge page and more are regions of their own: the slots,
 * a power of two of bytes, then fill huge pages, and the tags behind them take ordinary ones.
 * Threads: one at a time per index. */
#include "embedding/index.h"

#include "base/memory.h"

#define REGION_BYTES ((size_t)2 << 20)

static size_t block_bytes(uint32_t capacity) {
    return (size_t)capacity * FTH_INDEX_SLOT_BYTES;
}

fth_status fth_index_create(struct fth_index *index, uint32_t capacity, fth_error *err) {
    size_t bytes = block_bytes(capacity);
    void *block = bytes >= REGION_BYTES ? fth_region_alloc(bytes) : fth_alloc(bytes, 1);
    if (!block)
        return fth_fail(err, FTH_E_MEMORY, "no memory for an embedding index of %zu bytes", bytes);
    index->slots = block;
    index->tags = (uint8_t *)(index->slots + capacity);
    index->capacity = capacity;
    index->group_mask = capacity / FTH_INDEX_GROUP - 1;
    index->used = 0;
    return FTH_OK;
}

void fth_index_destroy(struct fth_index *index) {
    size_t bytes = block_bytes(index->capacity);
    if (bytes >= REGION_BYTES)
        fth_region_free(index->slots, bytes);
    else
        fth_free(index->slots);
    *index = (struct fth_index){0};
}

fth_status fth_index_grow(struct fth_index *index, fth_error *err) {
    struct fth_index bigger;
    if (index->capacity >= (uint32_t)1 << 31)
        return fth_fail(err, FTH_E_LIMIT, "an embedding index has reached 2^31 keys");
    FTH_TRY(fth_index_create(&bigger, index->capacity * 2, err));
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
