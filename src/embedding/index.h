/* One shard's index: hashed 64-bit key -> row number. Open addressing in groups of 16 tag bytes,
 * load at most 7/8, no removal.
 *
 *   tags   | 16 bytes | 16 bytes | ...   0: empty; else 0x80 + the hash's low 7 bits
 *   slots  | 16 slots | 16 slots | ...   key, row, unique: 16 bytes each
 *
 * A lookup compares a whole group's tags at once and reads, as a rule, one slot. The hash is a
 * bijective mix of the key, so that it stands for the key. A hash's bits: | shard: 6 | group: the
 * low ones above the tag's | tag: 7 |.
 *
 * On a batch's way: fth_embedding_prepare asks here once an occurrence. Threads: one at a time. */
#ifndef FTH_EMBEDDING_INDEX_H
#define FTH_EMBEDDING_INDEX_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/error.h"

#define FTH_INDEX_GROUP 16
#define FTH_INDEX_SLOT_BYTES (sizeof(struct fth_index_slot) + 1)

struct fth_index_slot {
    uint64_t hash;
    uint32_t row;    /* what the user stores: see shard.h */
    uint32_t unique; /* place in the last batch's unique keys; stale if that does not point back */
};

/* Memory of the indices of one pack: a region for each capacity, 2^i, that any of them has. */
struct fth_index_region {
    char *_Atomic base;
    _Atomic uint32_t left; /* indices that had a block here and have no more */
};
struct fth_index_space {
    uint32_t n; /* indices */
    struct fth_index_region regions[32];
};
/* When all its indices are destroyed. */
void fth_index_space_free(struct fth_index_space *space);

struct fth_index {
    struct fth_index_slot *slots; /* owned; the tags lie behind them in the same block */
    uint8_t *tags;
    uint32_t group_mask;
    uint32_t used, capacity;
    struct fth_index_space *space; /* borrowed for life */
    uint32_t number;               /* among the space's indices */
};

/* capacity: a power of two, at least 16. FTH_E_MEMORY. */
fth_status fth_index_create(struct fth_index *index, struct fth_index_space *space,
                            uint32_t number, uint32_t capacity, fth_error *err);
void fth_index_destroy(struct fth_index *index);
/* Twice the slots; every key's slot moves. */
fth_status fth_index_grow(struct fth_index *index, fth_error *err);

static inline int fth_index_full(const struct fth_index *index) {
    return index->used >= index->capacity / 8 * 7;
}

/* Bit i set where tags[i] == tag. */
static inline uint32_t fth_index_match(const uint8_t *tags, uint8_t tag) {
#ifdef __SSE2__
    __m128i group = _mm_load_si128((const __m128i *)tags);
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(group, _mm_set1_epi8((char)tag)));
#else
    uint32_t bits = 0;
    for (uint32_t i = 0; i < FTH_INDEX_GROUP; i++)
        bits |= (uint32_t)(tags[i] == tag) << i;
    return bits;
#endif
}

static inline uint8_t fth_index_tag(uint64_t hash) {
    return (uint8_t)(0x80 | (hash & 0x7f));
}

static inline uint32_t fth_index_group(const struct fth_index *index, uint64_t hash) {
    return (uint32_t)(hash >> 7) & index->group_mask;
}

static inline void fth_index_prefetch_tags(const struct fth_index *index, uint64_t hash) {
    __builtin_prefetch(index->tags + (size_t)fth_index_group(index, hash) * FTH_INDEX_GROUP);
}

/* The tags should be in cache by now: fetches the slot that the key is probably in. */
static inline void fth_index_prefetch_slot(const struct fth_index *index, uint64_t hash) {
    size_t first = (size_t)fth_index_group(index, hash) * FTH_INDEX_GROUP;
    uint32_t bits = fth_index_match(index->tags + first, fth_index_tag(hash));
    __builtin_prefetch(index->slots + first + (bits ? (uint32_t)__builtin_ctz(bits) : 0));
}

/* The hash's slot and *found 1, or the empty slot where it would go and *found 0 (there is one: the
 * load is below 1). Groups are tried at triangular distances, which reaches all of a power of
 * two. */
static inline uint32_t fth_index_find(const struct fth_index *index, uint64_t hash, int *found) {
    uint32_t group = fth_index_group(index, hash);
    uint8_t tag = fth_index_tag(hash);
    for (uint32_t step = 1;; step++) {
        const uint8_t *tags = index->tags + (size_t)group * FTH_INDEX_GROUP;
        uint32_t bits = fth_index_match(tags, tag);
        for (; bits; bits &= bits - 1) {
            uint32_t at = group * FTH_INDEX_GROUP + (uint32_t)__builtin_ctz(bits);
            if (index->slots[at].hash == hash) {
                *found = 1;
                return at;
            }
        }
        uint32_t empty = fth_index_match(tags, 0);
        if (empty) {
            *found = 0;
            return group * FTH_INDEX_GROUP + (uint32_t)__builtin_ctz(empty);
        }
        group = (group + step) & index->group_mask;
    }
}

/* Fills the empty slot that fth_index_find gave; the index must not be full. */
static inline void fth_index_fill(struct fth_index *index, uint32_t at, uint64_t hash) {
    index->tags[at] = fth_index_tag(hash);
    index->slots[at] = (struct fth_index_slot){.hash = hash};
    index->used++;
}

#endif
