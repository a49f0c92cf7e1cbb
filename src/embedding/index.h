/* One shard's index: hashed 64-bit key -> what the user stores of it, its row. Open addressing in groups
 * of a cache line, 12 entries, load at most 3/4, no removal.
 *
 *   group   | 12 tag bytes | 4 bytes 0 | 12 rows of 4 bytes |      tag 0: empty; else 0x80 + 7 bits
 *
 * The index holds no keys: whose row an entry is, the row's own data says (shard.h), which the user of a row
 * reads anyway. So a lookup reads one line here and, one time in ten, the data of a row that has only
 * the same tag. The bits of hash * factor (base/hash.h): | group | tag: 7 | unused |.
 *
 * On a batch's way: fth_embedding_prepare asks here once a unique key. Threads: any number that look up, or
 * one that changes. */
#ifndef FTH_EMBEDDING_INDEX_H
#define FTH_EMBEDDING_INDEX_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/error.h"

#define FTH_INDEX_ENTRIES 12
#define FTH_INDEX_LOAD 9 /* entries a group on average when the index is full */

struct fth_index_group {
    _Alignas(64) uint8_t tags[16];
    uint32_t rows[FTH_INDEX_ENTRIES];
};

/* Memory of the indices of one pack: a region for each number of groups, 2^i, that any of them has. */
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
    struct fth_index_group *groups; /* owned */
    uint32_t group_mask;
    uint32_t used, n_groups;
    uint32_t shift; /* of hash * factor, to group and tag */
    uint64_t factor;
    struct fth_index_space *space; /* borrowed for life */
    uint32_t number;               /* among the space's indices */
};

/* n_groups: a power of two. FTH_E_MEMORY. */
fth_status fth_index_create(struct fth_index *index, struct fth_index_space *space,
                            uint32_t number, uint32_t n_groups, fth_error *err);
void fth_index_destroy(struct fth_index *index);

static inline int fth_index_full(const struct fth_index *index) {
    return index->used >= index->n_groups * FTH_INDEX_LOAD;
}

static inline uint64_t fth_index_bytes(const struct fth_index *index) {
    return (uint64_t)index->n_groups * sizeof(struct fth_index_group);
}

/* Bit i set where tags[i] == tag. */
static inline uint32_t fth_index_match(const uint8_t *tags, uint8_t tag) {
#ifdef __SSE2__
    __m128i group = _mm_load_si128((const __m128i *)tags);
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(group, _mm_set1_epi8((char)tag)));
#else
    uint32_t bits = 0;
    for (uint32_t i = 0; i < 16; i++)
        bits |= (uint32_t)(tags[i] == tag) << i;
    return bits;
#endif
}

static inline uint32_t fth_index_empty(const struct fth_index_group *group) {
    return fth_index_match(group->tags, 0) & ((1u << FTH_INDEX_ENTRIES) - 1);
}

/* Of the low 7 bits. */
static inline uint8_t fth_index_tag(uint64_t bits) {
    return (uint8_t)(0x80 | (bits & 0x7f));
}

/* The hash's group and, in the low 7 bits, its tag. */
static inline uint64_t fth_index_bits(const struct fth_index *index, uint64_t hash) {
    return hash * index->factor >> index->shift;
}

/* Where the hash's search begins. Groups are tried at triangular distances, which reaches all of a power
 * of two. */
static inline uint32_t fth_index_group(const struct fth_index *index, uint64_t hash) {
    return (uint32_t)(fth_index_bits(index, hash) >> 7);
}

static inline void fth_index_prefetch(const struct fth_index *index, uint64_t hash) {
    __builtin_prefetch(&index->groups[fth_index_group(index, hash)], 0, 2);
}

/* A key that is not in the index; the index must not be full. */
static inline void fth_index_insert(struct fth_index *index, uint64_t hash, uint32_t row) {
    uint32_t at = fth_index_group(index, hash), empty;
    for (uint32_t step = 1; !(empty = fth_index_empty(&index->groups[at])); step++)
        at = (at + step) & index->group_mask;
    uint32_t i = (uint32_t)__builtin_ctz(empty);
    index->groups[at].tags[i] = fth_index_tag(fth_index_bits(index, hash));
    index->groups[at].rows[i] = row;
    index->used++;
}

#endif
