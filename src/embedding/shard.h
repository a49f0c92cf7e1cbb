/* Packs, their shards, their rows: what lives from batch to batch.
 *
 *   pack   rows        | row 0: zeros | chunk 1 | chunk 2 | ...   rows of `stride` floats
 *          row         | member 0: weights, slots | member 1: weights, slots | ...   a member: one of the tables
 *                      that are looked up by the same keys (place.c); mostly there is one
 *          metas       | row 0        | chunk 1 | chunk 2 | ...   one struct fth_row_meta a row; rows whose
 *                      padding has room for theirs end with it (struct fth_row_tail)
 *          shards      64; a key belongs to the shard of its hash's high bits
 *   shard  index       hash -> row number, or candidate number with a mark; the row's meta, or the
 *                      candidate, says whose it is
 *          chunks      numbers of its chunks, in the order it took them: its rows as created
 *          candidates  keys that are counted but not yet admitted
 *
 * Invariants: row 0 is all zeros and never written, it is what keys without a row read. Row numbers
 * depend on which shard took a chunk first, so nothing may depend on them; a shard's order of rows
 * and candidates depends on the batches alone.
 *
 * Threads: a shard belongs to one task at a time; chunks and bytes are handed out by atomic
 * counters. */
#ifndef FTH_EMBEDDING_SHARD_H
#define FTH_EMBEDDING_SHARD_H

#include <stdatomic.h>

#include "base/hash.h"
#include "config/config.h"
#include "embedding/index.h"
#include "optim/optim.h"

#define FTH_SHARD_BITS 6
#define FTH_SHARDS (1 << FTH_SHARD_BITS)
#define FTH_ROW_CHUNK 32
#define FTH_ROW_NONE 0
#define FTH_ROW_CANDIDATE ((uint32_t)1 << 31)

/* Bytes in use by all packs of an embedding, against embedding.memory_limit. */
struct fth_budget {
    _Atomic uint64_t used;
    uint64_t limit;
};

struct fth_table {
    const char *name; /* owned by the embedding */
    uint64_t hash;    /* of the name: salts first values and, of a pack's first member, pack keys */
    uint32_t number;  /* in its view (embedding_private.h) */
    uint64_t min_count;
    int zero_init;
    /* by bucket (table_part.c): rows that are known, FTH_ROW_NONE for others; owned, NULL until it is needed */
    uint32_t *row_of_bucket;
    uint32_t buckets;
    uint64_t salt;
};

struct fth_row_meta {
    uint64_t hash; /* stands for the key: fth_pack_key */
    uint64_t frequency, last_step;
    uint32_t table, spare;
};

/* The last 24 bytes of a row with room for 20: its meta. Frequency and last step have 40 bits each, the table 16:
 *   bits of `high`   | table: 16 | last step's high 8 | frequency's high 8 |
 * What is beyond 40 bits stays at the largest number (2^40 steps are thousands of years).
 * Rows of up to 3 floats, half a cache line, have room by rule, others where padding leaves it. */
#define FTH_SMALL_FLOATS 3
#define FTH_TAIL_FLOATS 5
#define FTH_TAIL_MOST ((UINT64_C(1) << 40) - 1)
struct fth_row_tail {
    uint32_t before; /* the row's */
    uint32_t high;
    uint64_t hash;
    uint32_t frequency, last_step;
};

struct fth_candidate {
    uint64_t key, count;
    uint32_t table;
};

struct fth_shard {
    struct fth_index index;
    uint32_t *chunks;
    uint32_t n_chunks, chunks_capacity;
    uint32_t n_rows;
    uint32_t n_candidates, candidates_capacity;
    struct fth_candidate *candidates;
    /* The current batch, by shard: items and unique keys at [start, ...) of its flat arrays, sources from `list` on. */
    uint32_t start, list, n_items, n_unique;
    uint32_t n_unique_rows; /* those that have a row; by_part (embedding_private.h): that got one in this batch */
    fth_status status;      /* the first failure of this prepare, and the table it met */
    uint32_t failed_table;
} __attribute__((aligned(64)));

/* How a member's rows are trained. */
struct fth_row_optimizer {
    const struct fth_optimizer *is;
    struct fth_optimizer_config config;
};

/* Where one of the tables of a row lies in it; slots are a weight's each, or one a row. */
struct fth_member {
    uint32_t dim;
    int linear; /* linear terms, which may have an optimizer of their own */
    const struct fth_row_optimizer *optimizer; /* the embedding's */
    uint32_t at, floats; /* in the row: where its weights begin; with its slots */
    uint32_t slot_columns[FTH_MAX_SLOTS], slot_at[FTH_MAX_SLOTS];
    struct fth_table *tables; /* [the pack's n_tables], owned */
    uint32_t view;            /* which one shows its columns */
    uint32_t number;          /* of all packs' members */
};

struct fth_pack {
    uint32_t stride; /* floats */
    uint32_t n_members;
    struct fth_member *members; /* owned */
    int single;          /* rows of one number, trained by single.c if nothing special is asked */
    uint32_t one_number; /* the first member of one number, n_members if there is none */
    int firsts;          /* a lookup of it needs first_of (embedding_private.h) */
    int counted;         /* frequencies are read in the step: prepare keeps them, otherwise the update */
    uint32_t n_tables;
    struct fth_table *tables; /* member 0's */
    float *first; /* [stride] a new row, but for drawn weights and its meta; owned */
    struct fth_embedding_config config;
    uint64_t seed;
    const struct fth_kernels *kernels;
    struct fth_budget *budget;
    float *rows;                /* region of max_rows * stride floats */
    int tail;                   /* rows end with struct fth_row_tail */
    struct fth_row_meta *metas; /* region of max_rows; NULL: tail */
    const char *hashes;         /* row r's hash is at r * hash_stride */
    size_t hash_stride;
    uint64_t max_rows;
    _Atomic uint32_t next_chunk;
    /* ahead.c: next_chunk when the last training batch was prepared; pages of rows that are to be touched, from the
     * next that nobody has taken */
    uint32_t chunks_seen;
    uint64_t touch_to;
    _Atomic uint64_t touch_next;
    struct fth_shard *shards; /* [FTH_SHARDS], owned */
    struct fth_index_space index_space;
    /* The current batch, by shard: its parts of this pack are part_order[first_part .. first_part +
     * n_parts). */
    uint32_t first_part, n_parts;
};

/* Sets up rows and shards; members, tables, optimizer, configurations, seed and budget are there already. */
fth_status fth_pack_create(struct fth_pack *pack, fth_error *err);
void fth_pack_destroy(struct fth_pack *pack);
/* Indices as large as so many keys would surely make them, one by one; smaller where there is no room. */
void fth_pack_reserve(struct fth_pack *pack, uint64_t keys);
uint64_t fth_pack_rows(const struct fth_pack *pack);
uint64_t fth_pack_candidates(const struct fth_pack *pack);
uint64_t fth_pack_bytes(const struct fth_pack *pack);
uint64_t fth_pack_row_bytes(const struct fth_pack *pack); /* of a row, its index aside */
uint64_t fth_pack_chunks(const struct fth_pack *pack); /* of FTH_ROW_CHUNK rows, taken by shards */

static inline uint64_t fth_pack_hash(const struct fth_table *table, uint64_t key) {
    return fth_hash_mix(key ^ table->hash);
}
static inline uint64_t fth_pack_key(const struct fth_table *table, uint64_t hash) {
    return fth_hash_unmix(hash) ^ table->hash;
}
static inline uint32_t fth_shard_of(uint64_t hash) {
    return (uint32_t)(hash >> (64 - FTH_SHARD_BITS));
}

static inline float *fth_pack_row(const struct fth_pack *pack, uint32_t row) {
    return pack->rows + (size_t)row * pack->stride;
}

static inline const uint64_t *fth_pack_hash_at(const struct fth_pack *pack, uint32_t row) {
    return (const uint64_t *)(const void *)(pack->hashes + row * pack->hash_stride);
}

static inline struct fth_row_tail *fth_pack_tail(const struct fth_pack *pack, uint32_t row) {
    return (struct fth_row_tail *)(void *)fth_pack_row(pack, row + 1) - 1;
}

static inline void fth_tail_set(struct fth_row_tail *tail, uint32_t table, uint64_t frequency,
                                uint64_t last_step) {
    frequency = frequency < FTH_TAIL_MOST ? frequency : FTH_TAIL_MOST;
    last_step = last_step < FTH_TAIL_MOST ? last_step : FTH_TAIL_MOST;
    tail->frequency = (uint32_t)frequency;
    tail->last_step = (uint32_t)last_step;
    tail->high = table << 16 | (uint32_t)(last_step >> 32) << 8 | (uint32_t)(frequency >> 32);
}

static inline uint64_t fth_tail_frequency(const struct fth_row_tail *tail) {
    return (uint64_t)(tail->high & 0xff) << 32 | tail->frequency;
}

static inline void fth_pack_count(const struct fth_pack *pack, uint32_t row, uint32_t count,
                                  uint64_t step) {
    if (!pack->tail) {
        pack->metas[row].frequency += count;
        pack->metas[row].last_step = step;
        return;
    }
    struct fth_row_tail *tail = fth_pack_tail(pack, row);
    fth_tail_set(tail, tail->high >> 16, fth_tail_frequency(tail) + count, step);
}

/* The whole meta, in or out. */
struct fth_row_meta fth_pack_get_meta(const struct fth_pack *pack, uint32_t row);
void fth_pack_set_meta(const struct fth_pack *pack, uint32_t row, const struct fth_row_meta *meta);

/* Number of the shard's i-th row. */
static inline uint32_t fth_shard_row(const struct fth_shard *shard, uint32_t i) {
    return shard->chunks[i / FTH_ROW_CHUNK] * FTH_ROW_CHUNK + i % FTH_ROW_CHUNK;
}

static inline uint64_t fth_shard_hash(const struct fth_pack *pack, const struct fth_shard *shard,
                                      uint32_t row) {
    if (!(row & FTH_ROW_CANDIDATE))
        return *fth_pack_hash_at(pack, row);
    const struct fth_candidate *candidate = &shard->candidates[row & ~FTH_ROW_CANDIDATE];
    return fth_pack_hash(&pack->tables[candidate->table], candidate->key);
}

/* The index entry of the key, NULL when it has neither row nor candidate. */
static inline uint32_t *fth_shard_find(const struct fth_pack *pack, const struct fth_shard *shard,
                                       uint64_t hash) {
    const struct fth_index *index = &shard->index;
    uint32_t at = fth_index_group(index, hash);
    uint8_t tag = fth_index_tag(fth_index_bits(index, hash));
    for (uint32_t step = 1;; step++) {
        struct fth_index_group *group = &index->groups[at];
        for (uint32_t bits = fth_index_match(group->tags, tag); bits; bits &= bits - 1) {
            uint32_t *entry = &group->rows[__builtin_ctz(bits)];
            if (fth_shard_hash(pack, shard, *entry) == hash)
                return entry;
        }
        if (fth_index_empty(group))
            return NULL;
        at = (at + step) & index->group_mask;
    }
}

/* A new row at its first values for a key that has none, and its number. entry: the key's, as found, when it
 * is a candidate: that goes, its count becomes the row's frequency. */
fth_status fth_shard_add_row(struct fth_pack *pack, struct fth_shard *shard, uint64_t hash,
                             uint32_t table, uint32_t *entry, uint32_t *row, fth_error *err);
/* A new candidate with count 0 for a key that is unknown. */
fth_status fth_shard_add_candidate(struct fth_pack *pack, struct fth_shard *shard, uint64_t hash,
                                   uint32_t table, fth_error *err);

#endif
