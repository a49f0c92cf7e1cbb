/* A shard's index: see index.h. Blocks of two huge pages and more are regions of their own, so that
 * they can be backed by huge pages. Threads: one at a time per index. */
#include "embedding/index.h"

#include "base/memory.h"

#define REGION_BYTES ((size_t)4 << 20)

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

fth_status fth_index_grow(struct fth_index *index, uint32_t *slot_of_unique, uint32_t n_unique,
                          fth_error *err) {
    struct fth_index bigger;
    if (index->capacity >= (uint32_t)1 << 31)
        return fth_fail(err, FTH_E_LIMIT, "an embedding index has reached 2^31 keys");
    FTH_TRY(fth_index_create(&bigger, index->capacity * 2, err));
    for (uint32_t i = 0; i < index->capacity; i++) {
        if (!index->tags[i])
            continue;
        struct fth_index_slot *slot = &index->slots[i];
        int found;
        uint32_t at = fth_index_find(&bigger, slot->hash, &found);
        fth_index_fill(&bigger, at, slot->hash);
        bigger.slots[at] = *slot;
        if (slot->unique < n_unique && slot_of_unique[slot->unique] == i)
            slot_of_unique[slot->unique] = at | (uint32_t)1 << 31;
    }
    /* The mark kept a moved position from being taken for an old one. */
    for (uint32_t i = 0; i < n_unique; i++)
        slot_of_unique[i] &= ~((uint32_t)1 << 31);
    fth_index_destroy(index);
    *index = bigger;
    return FTH_OK;
}
