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
#define FEW 8 /* keys a unique one, at least, where unique keys are few */

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

/* Where items are put as they are met; what is NULL nobody asks for. */
struct items {
    uint32_t n;
    uint64_t *key;
    uint32_t *count, *first, *bucket;
};

/* Where keys are numbers of few buckets: a number's entry is its item's, from 1 on, so that nothing is looked for. The
 * last entry is the missing value's. */
struct buckets {
    uint32_t n;
    uint32_t *item;
};

/* Those of a part, if its lookups have the same buckets, and the table has room for them; else n is 0. */
static struct buckets buckets_of(const struct fth_embedding *embedding, const struct fth_part *part, uint32_t *table) {
    const struct fth_embedding_lookup *lookup = &embedding->lookups[part->lookup];
    struct buckets buckets = {.n = lookup->buckets < 2 * part->n ? lookup->buckets : 0, .item = table};
    uint64_t salt = lookup->keys->salt;
    struct fth_span span = fth_first_span(embedding, part);
    for (; span.lookup != FTH_NO_LOOKUP; span = fth_next_span(embedding, span)) {
        lookup = &embedding->lookups[span.lookup];
        if (lookup->buckets != buckets.n || lookup->keys->salt != salt)
            buckets.n = 0;
    }
    return buckets;
}

/* What a new key needs is written for every key, but where unique keys are `few` (number_items in parts.c). */
static inline __attribute__((always_inline)) void number_by_bucket(const struct fth_embedding *embedding,
                                                                   struct fth_span span, const struct buckets *buckets,
                                                                   struct items *to, int few) {
    const struct fth_embedding_lookup *lookup = &embedding->lookups[span.lookup];
    const uint32_t *numbers = lookup->keys->numbers + (span.base - lookup->base);
    uint32_t *item_of = embedding->item_of + span.base, *item_of_bucket = buckets->item, n = to->n;
    struct items at = *to;
    for (uint32_t i = 0; i < span.n; i++) {
        uint32_t bucket = numbers[i] < buckets->n ? numbers[i] : buckets->n, item = item_of_bucket[bucket];
        if (few && __builtin_expect(item != 0, 1)) {
            at.count[item - 1]++;
            item_of[i] = item - 1;
            continue;
        }
        if (at.bucket)
            at.bucket[n] = bucket;
        else
            at.key[n] = bucket;
        at.count[n] = 0;
        if (at.first)
            at.first[n] = span.base + i;
        uint32_t is_new = (item - 1) >> 31;
        n += is_new;
        item |= n & (0 - is_new);
        item_of_bucket[bucket] = item;
        at.count[item - 1]++;
        item_of[i] = item - 1;
    }
    to->n = n;
}

/* The n keys of a lookup from `from` on: where they are, or made, of numbers. */
static const uint64_t *keys_of(const struct fth_keys *keys, uint32_t from, uint32_t n, uint64_t *made) {
    if (keys->keys)
        return keys->keys + from;
    for (uint32_t i = 0; i < n; i++)
        made[i] = fth_bucket_key(keys->salt, keys->numbers[from + i]);
    return made;
}

/* Keys a stretch at a time, in short loops: groups are asked for, items guessed, then compared. */
static void number_by_hash(const struct fth_embedding *embedding, struct fth_span span, struct table *table,
                           struct items *to) {
    const struct fth_embedding_lookup *lookup = &embedding->lookups[span.lookup];
    uint32_t n = to->n;
    struct items at = *to;
    for (uint32_t from = 0; from < span.n; from += STRETCH) {
        uint32_t count = span.n - from < STRETCH ? span.n - from : STRETCH;
        uint32_t *item_of = embedding->item_of + span.base + from;
        uint64_t made[STRETCH];
        const uint64_t *keys = keys_of(lookup->keys, span.base - lookup->base + from, count, made);
        for (uint32_t i = 0; i < count; i++)
            __builtin_prefetch(&table->groups[group_of(table, spread(table, keys[i]))]);
        for (uint32_t i = 0; i < count; i++) {
            item_of[i] = guess(table, spread(table, keys[i]));
            __builtin_prefetch(&at.key[item_of[i]]);
        }
        for (uint32_t i = 0; i < count; i++) {
            uint64_t key = keys[i];
            uint32_t item = item_of[i];
            if (item >= n || at.key[item] != key) {
                item = find(table, at.key, key, spread(table, key));
                if (item == UINT32_MAX) {
                    item = add_item(table, at.key, n, key);
                    at.count[item] = 0;
                    if (at.first)
                        at.first[item] = span.base + from + i;
                    n++;
                }
                item_of[i] = item;
            }
            at.count[item]++;
        }
    }
    to->n = n;
}

/* By part: how many items are first met in the span. */
static void note_new(const struct fth_embedding *embedding, struct fth_span span, uint32_t n) {
    if (embedding->by_part)
        embedding->lookups[span.lookup].n_new = n;
}

static int number_all_by_bucket(const struct fth_embedding *embedding, const struct fth_part *part, uint32_t *table,
                                struct items *to) {
    struct buckets buckets = buckets_of(embedding, part, table);
    if (buckets.n == 0)
        return 0;
    memset(table, 0, ((size_t)buckets.n + 1) * sizeof *table);
    struct fth_span span = fth_first_span(embedding, part);
    for (; span.lookup != FTH_NO_LOOKUP; span = fth_next_span(embedding, span)) {
        uint32_t before = to->n;
        int few = embedding->by_part && embedding->lookups[span.lookup].n_new < span.n / FEW; /* of the batch before */
        if (few)
            number_by_bucket(embedding, span, &buckets, to, 1);
        else
            number_by_bucket(embedding, span, &buckets, to, 0);
        note_new(embedding, span, to->n - before);
    }
    for (uint32_t u = 0; !to->bucket && u < to->n; u++)
        to->key[u] = fth_entry_key(&embedding->lookups[part->lookup], (uint32_t)to->key[u]);
    return 1;
}

static void number_all_by_hash(const struct fth_embedding *embedding, const struct fth_part *part, uint32_t *memory,
                               struct items *to) {
    struct table table = {.groups = (void *)memory, .most = (part->n + 7) / 8, .factor = embedding->factor};
    clear(&table, FIRST_GROUPS);
    struct fth_span span = fth_first_span(embedding, part);
    for (; span.lookup != FTH_NO_LOOKUP; span = fth_next_span(embedding, span)) {
        uint32_t before = to->n;
        number_by_hash(embedding, span, &table, to);
        note_new(embedding, span, to->n - before);
    }
}

uint32_t fth_long_part_number(const struct fth_embedding *embedding, struct fth_part *part, uint32_t *table,
                              uint64_t *item_key, uint32_t *item_count, uint32_t *item_first,
                              uint32_t *item_bucket) {
    struct items to = {.key = item_key, .count = item_count, .first = item_first, .bucket = item_bucket};
    part->by_bucket = number_all_by_bucket(embedding, part, table, &to);
    if (!part->by_bucket)
        number_all_by_hash(embedding, part, table, &to);
    return to.n;
}
