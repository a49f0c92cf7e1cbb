/* Numbering the unique keys of a long list's part, which may be the whole list: phase 1 of prepare. A list repeats
 * its keys, and an item more has to be brought together with those of other parts, so parts are as long as
 * threads to share them allow. The table of what has been met has groups as the index has them (index.h): one
 * comparison of tags finds a key's entry, where a search from place to place would be mispredicted at each second
 * key. It grows with the items, so that it is large only where keys do not repeat. Keys of few buckets need no search.
 *
 * Threads: a part's task. The table lies in the batch's `seen`, which nobody else uses before phase 2, where the keys
 * lie in `hash`. */
#include <string.h>

#include "embedding/embedding_private.h"

#define FIRST_GROUPS 64u
#define ENTRIES_A_GROUP 6 /* on average, when the table grows */
#define STRETCH 64u

struct table {
    struct fth_index_group *groups;
    uint32_t n, most; /* groups; as many as there is room for: eight entries each in a full part */
    uint64_t factor;  /* the embedding's */
};

static inline uint64_t spread(const struct table *table, uint64_t key) { return key * table->factor; }

static inline uint32_t group_of(const struct table *table, uint64_t hash) {
    return (uint32_t)((hash >> 32) * table->n >> 32);
}

static inline uint8_t tag_of(uint64_t hash) { return fth_index_tag(hash >> 24); }

static void insert(const struct table *table, uint64_t hash, uint32_t item) {
    uint32_t at = group_of(table, hash), empty;
    while (!(empty = fth_index_empty(&table->groups[at])))
        at = at + 1 == table->n ? 0 : at + 1;
    uint32_t i = (uint32_t)__builtin_ctz(empty);
    table->groups[at].tags[i] = tag_of(hash);
    table->groups[at].rows[i] = item;
}

static void clear(struct table *table, uint32_t n) {
    table->n = n < table->most ? n : table->most;
    for (uint32_t g = 0; g < table->n; g++)
        memset(table->groups[g].tags, 0, sizeof table->groups[g].tags);
}

/* The key's item, or UINT32_MAX. */
static inline uint32_t find(const struct table *table, const uint64_t *item_key, uint64_t key,
                            uint64_t hash) {
    for (uint32_t at = group_of(table, hash);;) {
        const struct fth_index_group *group = &table->groups[at];
        uint32_t bits = fth_index_match(group->tags, tag_of(hash));
        for (; bits; bits &= bits - 1) {
            uint32_t item = group->rows[__builtin_ctz(bits)];
            if (item_key[item] == key)
                return item;
        }
        if (fth_index_empty(group))
            return UINT32_MAX;
        at = at + 1 == table->n ? 0 : at + 1;
    }
}

/* The item that has the key's tag in the first group where it may be, if there is one; any otherwise. */
static inline uint32_t guess(const struct table *table, uint64_t hash) {
    const struct fth_index_group *group = &table->groups[group_of(table, hash)];
    uint32_t bits = fth_index_match(group->tags, tag_of(hash));
    return group->rows[__builtin_ctz(bits | 1u << (FTH_INDEX_ENTRIES - 1))];
}

static uint32_t add_item(struct table *table, uint64_t *item_key, uint32_t n, uint64_t key) {
    item_key[n] = key;
    insert(table, spread(table, key), n);
    if (n + 1 >= table->n * ENTRIES_A_GROUP && table->n < table->most) {
        clear(table, table->n * 2);
        for (uint32_t u = 0; u <= n; u++)
            insert(table, spread(table, item_key[u]), u);
    }
    return n;
}

/* Where keys are those of few buckets: a bucket's entry is its item's number, from 1 on, so that nothing is looked for.
 * There is one entry more, for one other key, as a missing value's. What a new key needs is written for every key
 * (number_items in parts.c); UINT32_MAX where there are several other keys. */
static uint32_t number_by_bucket(const struct fth_embedding *embedding, const struct fth_part *part,
                                 const uint64_t *keys, uint64_t *item_key, uint32_t *item_count,
                                 uint32_t *item_first) {
    const struct fth_embedding_lookup *lookup = &embedding->lookups[part->lookup];
    uint32_t *item_of_bucket = embedding->seen + 2 * (item_key - embedding->hash);
    uint32_t *item_of = embedding->item_of + part->base, bucket[STRETCH], n = 0, others = 0;
    uint64_t other = 0;
    memset(item_of_bucket, 0, ((size_t)lookup->buckets + 1) * sizeof *item_of_bucket);
    for (uint32_t from = 0; from < part->n; from += STRETCH) {
        uint32_t end = part->n - from < STRETCH ? part->n : from + STRETCH;
        int odd = embedding->kernels->key_buckets(end - from, keys + from, lookup->salt, lookup->buckets, bucket) > 0;
        for (uint32_t i = from; odd && i < end; i++) {
            if (bucket[i - from] < lookup->buckets)
                continue;
            if (others++ == 0)
                other = keys[i];
            if (keys[i] != other)
                return UINT32_MAX;
        }
        for (uint32_t i = from; i < end; i++) {
            uint32_t item = item_of_bucket[bucket[i - from]];
            item_key[n] = keys[i];
            item_count[n] = 0;
            item_first[n] = part->base + i;
            uint32_t is_new = (item - 1) >> 31;
            n += is_new;
            item |= n & (0 - is_new);
            item_of_bucket[bucket[i - from]] = item;
            item_count[item - 1]++;
            item_of[i] = item - 1;
        }
    }
    return n;
}

/* Keys a stretch at a time, in short loops: groups are asked for, items guessed, then compared. */
static uint32_t number_by_hash(const struct fth_embedding *embedding, const struct fth_part *part,
                               const uint64_t *keys, uint64_t *item_key, uint32_t *item_count,
                               uint32_t *item_first) {
    struct table table = {.groups = (void *)(embedding->seen + 2 * (item_key - embedding->hash)),
                          .most = (part->n + 7) / 8,
                          .factor = embedding->factor};
    uint32_t *item_of = embedding->item_of + part->base, n = 0;
    clear(&table, FIRST_GROUPS);
    for (uint32_t from = 0; from < part->n; from += STRETCH) {
        uint32_t end = part->n - from < STRETCH ? part->n : from + STRETCH;
        for (uint32_t i = from; i < end; i++)
            __builtin_prefetch(&table.groups[group_of(&table, spread(&table, keys[i]))]);
        for (uint32_t i = from; i < end; i++) {
            item_of[i] = guess(&table, spread(&table, keys[i]));
            __builtin_prefetch(&item_key[item_of[i]]);
        }
        for (uint32_t i = from; i < end; i++) {
            uint64_t key = keys[i];
            uint32_t item = item_of[i];
            if (item >= n || item_key[item] != key) {
                item = find(&table, item_key, key, spread(&table, key));
                if (item == UINT32_MAX) {
                    item = add_item(&table, item_key, n, key);
                    item_count[item] = 0;
                    item_first[item] = part->base + i;
                    n++;
                }
                item_of[i] = item;
            }
            item_count[item]++;
        }
    }
    return n;
}

/* By bucket where the table has room for that: two numbers an occurrence. */
uint32_t fth_long_part_number(const struct fth_embedding *embedding, const struct fth_part *part,
                              const uint64_t *keys, uint64_t *item_key, uint32_t *item_count,
                              uint32_t *item_first) {
    uint32_t buckets = embedding->lookups[part->lookup].buckets, n = UINT32_MAX;
    if (buckets > 0 && buckets < 2 * part->n)
        n = number_by_bucket(embedding, part, keys, item_key, item_count, item_first);
    return n != UINT32_MAX ? n : number_by_hash(embedding, part, keys, item_key, item_count, item_first);
}
