/* Parts of a batch's keys: numbering a part's unique keys, its items, sorting them by shard; and all of
 * prepare where every table's keys are one part, so that items are unique keys (embedding_private.h).
 *
 * There, known keys are looked up and kept by their part alone: the indices are only read, by all tasks at
 * once. Only keys that have no row yet go to their shards' tasks, in the order in which they would have
 * come there with all others, so that rows are made in the same order.
 *
 * Threads: a task writes what is its part's; phase 2 what is its shard's. */
#include <string.h>

#include "embedding/embedding_private.h"

/* How far ahead, in items, rows are fetched. */
#define ROWS_AHEAD 16

#define KEYS_AHEAD 64 /* of a part that are numbered */
#define FEW 16        /* keys a unique one, at least, where unique keys are few */
#define LIST_AHEAD 24 /* sources, the places where they go in the list */

/* The example of a position of a ragged field. */
static uint32_t example_at(const struct fth_embedding *embedding,
                           const struct fth_embedding_lookup *lookup, uint32_t position) {
    const uint32_t *offsets = lookup->offsets;
    uint32_t low = 0, high = embedding->batch->n; /* offsets[low] <= position < offsets[high] */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (offsets[middle] <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void number_examples(struct fth_embedding *embedding, struct fth_span span) {
    const struct fth_embedding_lookup *lookup = &embedding->lookups[span.lookup];
    const uint32_t *offsets = lookup->offsets;
    uint32_t position = span.base - lookup->base, last = position + span.n;
    for (uint32_t low = example_at(embedding, lookup, position); position < last; position++) {
        while (offsets[low + 1] <= position)
            low++;
        embedding->example_of[lookup->base + position] = low;
    }
}

/* Numbers the part's unique keys in the order of their first occurrence; how many there are. A table of
 * twice the part's size, filled linearly; its entries are numbers from 1 on. Which keys are new nothing foretells:
 * number 0, an empty entry, has the key that is looked for, so that there is no branch, and what a new key needs is
 * written for every key. Where unique keys are `few` a new one is rare enough to be foretold, and known ones write no table
 * entry that the next would wait for. */
static inline __attribute__((always_inline)) uint32_t
number_items(const struct fth_embedding *embedding, const struct fth_part *part, const uint64_t *keys,
             const uint32_t *numbers, uint64_t *item_key, uint32_t *item_count, uint32_t *item_first, int few) {
    uint16_t table[2 << FTH_PART_SHIFT_MAX];
    uint64_t key_of[1 + (1 << FTH_PART_SHIFT_MAX)];
    uint32_t *item_of = embedding->item_of + part->base;
    uint32_t n_keys = part->n, base = part->base, shift = 63 - part->shift;
    uint32_t mask = ((uint32_t)2 << part->shift) - 1, n = 0;
    uint64_t factor = embedding->factor;
    memset(table, 0, (mask + 1) * sizeof *table);
    for (uint32_t i = 0; i < n_keys; i++) {
        uint64_t key = numbers ? numbers[i] : keys[i];
        uint32_t at = (uint32_t)(key * factor >> shift), item;
        if (numbers) /* written by both cores */
            __builtin_prefetch(numbers + i + KEYS_AHEAD);
        else
            __builtin_prefetch(keys + i + KEYS_AHEAD);
        key_of[0] = key;
        while (key_of[item = table[at]] != key)
            at = (at + 1) & mask;
        if (few && __builtin_expect(item != 0, 1)) {
            item_count[item - 1]++;
            item_of[i] = item - 1;
            continue;
        }
        item_count[n] = 0;
        if (item_first)
            item_first[n] = base + i;
        uint32_t is_new = (item - 1) >> 31;
        n += is_new;
        item |= n & (0 - is_new);
        key_of[item] = key;
        table[at] = (uint16_t)item;
        item_count[item - 1]++;
        item_of[i] = item - 1;
    }
    memcpy(item_key, key_of + 1, n * sizeof *item_key);
    return n;
}

static inline __attribute__((always_inline)) uint32_t
number_keys(const struct fth_embedding *embedding, const struct fth_part *part, const uint64_t *keys,
            const uint32_t *numbers, uint64_t *item_key, uint32_t *count, uint32_t *first) {
    if (first)
        return number_items(embedding, part, keys, numbers, item_key, count, first, 0);
    if (embedding->lookups[part->lookup].n_new < part->n / FEW) /* of the batch before */
        return number_items(embedding, part, keys, numbers, item_key, count, NULL, 1);
    return number_items(embedding, part, keys, numbers, item_key, count, NULL, 0);
}

/* Of a part that is not long: its first lookup's, others have no keys. */
static uint32_t number_unit(struct fth_embedding *embedding, struct fth_part *part, uint64_t *item_key,
                            uint32_t *count, uint32_t *first) {
    const struct fth_embedding_lookup *lookup = &embedding->lookups[part->lookup];
    const struct fth_keys *keys = lookup->keys;
    uint32_t from = part->base - lookup->base, n;
    if (keys->numbers)
        n = number_keys(embedding, part, NULL, keys->numbers + from, item_key, count, first);
    else
        n = number_keys(embedding, part, keys->keys + from, NULL, item_key, count, first);
    for (uint32_t u = 0; keys->numbers && u < n; u++)
        item_key[u] = fth_bucket_key(keys->salt, (uint32_t)item_key[u]);
    for (uint32_t i = part->lookup; embedding->by_part && i != FTH_NO_LOOKUP; i = embedding->lookups[i].next)
        embedding->lookups[i].n_new = i == part->lookup ? n : 0;
    return n;
}

uint32_t fth_part_number(struct fth_embedding *embedding, struct fth_part *part, uint32_t worker, uint64_t *hashes,
                         uint32_t *count, uint32_t *first) {
    const struct fth_embedding_lookup *lookup = &embedding->lookups[part->lookup];
    const struct fth_pack *pack = &embedding->packs[lookup->pack];
    const struct fth_table *table = &pack->tables[lookup->table];
    int is_long = fth_part_is_long(embedding, part), by_part = embedding->by_part;
    uint32_t n = is_long ? fth_long_part_number(embedding, part, fth_part_room(embedding, part, worker), hashes, count,
                                                first, by_part ? embedding->item_bucket + part->base : NULL)
                         : number_unit(embedding, part, hashes, count, first);
    int known = table->row_of_bucket && table->buckets == lookup->buckets && table->salt == lookup->keys->salt;
    int no_keys = by_part && part->by_bucket;
    part->by_bucket &= !by_part || known;
    for (uint32_t u = 0; u < n && !(by_part && part->by_bucket); u++) {
        uint64_t key = no_keys ? fth_entry_key(lookup, embedding->item_bucket[part->base + u]) : hashes[u];
        hashes[u] = fth_pack_hash(table, key);
        if (by_part && !is_long) /* looked up next, by this task */
            fth_index_prefetch(&pack->shards[fth_shard_of(hashes[u])].index, hashes[u]);
    }
    part->n_items = n;
    struct fth_span span = fth_first_span(embedding, part);
    for (; span.lookup != FTH_NO_LOOKUP; span = fth_next_span(embedding, span)) {
        lookup = &embedding->lookups[span.lookup];
        if (span.n > 0 && lookup->pooled && ((by_part && !is_long) || !lookup->by_example))
            number_examples(embedding, span);
    }
    return n;
}

/* The items without a row, n_missing of them, brought together by shard, keeping their order, with all
 * that making a row needs: the shard's task reads a run of them, written by another core, instead of a line here and
 * there for each. Lookup by lookup, which is the order of rows. */
static void sort_missing(struct fth_embedding *embedding, const struct fth_part *part, const uint32_t *items,
                         uint32_t n_missing) {
    const uint64_t *hashes = embedding->part_hash + part->base;
    const uint32_t *count = embedding->item_count + part->base;
    struct fth_missing *sorted = embedding->missing + part->base;
    uint32_t first = 0, end = 0, at = 0;
    for (uint32_t l = part->lookup; l != FTH_NO_LOOKUP; l = embedding->lookups[l].next) {
        struct fth_embedding_lookup *lookup = &embedding->lookups[l];
        uint32_t next[FTH_SHARDS] = {0}, from = first;
        end += lookup->n_new;
        for (; first < n_missing && items[first] < end; first++)
            next[fth_shard_of(hashes[items[first]])]++;
        for (uint32_t s = 0; s < FTH_SHARDS; s++) {
            lookup->missing_at[s] = at;
            at += next[s];
            next[s] = lookup->missing_at[s];
        }
        lookup->missing_at[FTH_SHARDS] = at;
        for (; from < first; from++)
            sorted[next[fth_shard_of(hashes[items[from]])]++] = (struct fth_missing){
                .hash = hashes[items[from]], .item = part->base + items[from], .count = count[items[from]]};
    }
}

/* Of n items those without a row; how many. */
static uint32_t list_missing(const uint32_t *rows, uint32_t n, uint32_t *items) {
    uint32_t missing = 0;
    for (uint32_t u = 0; u < n; u++) {
        items[missing] = u;
        missing += rows[u] == FTH_ROW_NONE;
    }
    return missing;
}

static inline const struct fth_shard *shard_of(const struct fth_pack *pack, uint64_t hash) {
    return &pack->shards[fth_shard_of(hash)];
}

/* Finding rows goes in three steps, each a short loop over a stretch of hashes, one stretch behind the other: the
 * groups of the index are asked for, then the rows that they name, then whose these are is compared. Most lines
 * are on pages that no TLB knows, and an instruction that asks for a line is not done before its address is
 * translated: that takes as long as several lines, and only what is close by in the program overlaps. */
#define STRETCH 64
#define SEARCH UINT32_MAX /* a row that only fth_shard_find can tell */

static inline void fetch_groups(const struct fth_pack *pack, const uint64_t *hash, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        fth_index_prefetch(&shard_of(pack, hash[i])->index, hash[i]);
}

/* More than one row may be the key's, or it may be in another group. */
static void fetch_all(const struct fth_pack *pack, const struct fth_index *index,
                      const struct fth_index_group *group, uint32_t bits) {
    if (!fth_index_empty(group))
        __builtin_prefetch(&index->groups[(group - index->groups + 1) & index->group_mask], 0, 2);
    for (; bits; bits &= bits - 1) {
        uint32_t row = group->rows[__builtin_ctz(bits)];
        if (!(row & FTH_ROW_CANDIDATE))
            __builtin_prefetch(fth_pack_hash_at(pack, row), 0, 2);
    }
}

/* The row that is to be the key's, FTH_ROW_NONE where the key is not in the index, or SEARCH. Which of these it is nothing
 * foretells, and behind a wrong guess nothing is asked for: no branch, the odd ones come last. A full group's key may be
 * elsewhere, but where one row has its tag it hardly ever is. */
_Static_assert(FTH_ROW_NONE == 0 && SEARCH == UINT32_MAX, "rows are chosen by masks");
static inline void fetch_rows(const struct fth_pack *pack, const uint64_t *hash, uint32_t n,
                              uint32_t *rows) {
    uint32_t odd[STRETCH], n_odd = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct fth_index *index = &shard_of(pack, hash[i])->index;
        const struct fth_index_group *group = &index->groups[fth_index_group(index, hash[i])];
        uint32_t bits = fth_index_match(group->tags, fth_index_tag(fth_index_bits(index, hash[i])));
        uint32_t last = 1u << (FTH_INDEX_ENTRIES - 1);
        uint32_t row = group->rows[__builtin_ctz(bits | last)] & (0 - (uint32_t)(bits != 0));
        uint32_t is_odd = ((bits & (bits - 1)) | (row & FTH_ROW_CANDIDATE)) != 0;
        is_odd |= (bits | fth_index_empty(group)) == 0;
        odd[n_odd] = i;
        n_odd += is_odd;
        row &= is_odd - 1;
        __builtin_prefetch(fth_pack_hash_at(pack, row), 0, 2);
        rows[i] = row | (0 - is_odd);
    }
    for (uint32_t k = 0; k < n_odd; k++) {
        const struct fth_index *index = &shard_of(pack, hash[odd[k]])->index;
        const struct fth_index_group *group = &index->groups[fth_index_group(index, hash[odd[k]])];
        uint8_t tag = fth_index_tag(fth_index_bits(index, hash[odd[k]]));
        fetch_all(pack, index, group, fth_index_match(group->tags, tag));
    }
}

static uint32_t search(const struct fth_pack *pack, uint64_t hash) {
    const uint32_t *entry = fth_shard_find(pack, shard_of(pack, hash), hash);
    return !entry || *entry & FTH_ROW_CANDIDATE ? FTH_ROW_NONE : *entry;
}

/* weight: those of the rows' member of one number besides, or NULL. */
static inline uint32_t compare_rows(const struct fth_pack *pack, const uint64_t *hash, uint32_t n,
                                    uint32_t *rows, float *weight) {
    uint32_t odd[STRETCH], n_odd = 0, found = 0, at = weight ? pack->members[pack->one_number].at : 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t named = rows[i], row = named & (0 - (uint32_t)(named != SEARCH));
        row &= 0 - (uint32_t)(*fth_pack_hash_at(pack, row) == hash[i]); /* else another key's, with the same tag */
        odd[n_odd] = i;
        n_odd += row != named;
        rows[i] = row;
        found += row != FTH_ROW_NONE;
        if (weight)
            weight[i] = fth_pack_row(pack, row)[at];
    }
    for (uint32_t k = 0; k < n_odd; k++) {
        uint32_t i = odd[k], row = search(pack, hash[i]);
        rows[i] = row;
        found += row != FTH_ROW_NONE;
        if (weight)
            weight[i] = fth_pack_row(pack, row)[at];
    }
    return found;
}

static inline uint32_t stretch(uint32_t n, uint32_t from) {
    return n - from < STRETCH ? n - from : STRETCH;
}

/* As fth_find_rows; weight as above. */
static inline uint32_t find_rows(const struct fth_pack *pack, const uint64_t *hash, uint32_t n,
                                 uint32_t *rows, float *weight, int fetched) {
    uint32_t found = 0;
    if (!fetched)
        fetch_groups(pack, hash, n < 2 * STRETCH ? n : 2 * STRETCH);
    fetch_rows(pack, hash, stretch(n, 0), rows);
    for (uint32_t i = 0; i < n; i += STRETCH) {
        uint32_t next = i + STRETCH, far = next + STRETCH;
        if (far < n && !fetched)
            fetch_groups(pack, hash + far, stretch(n, far));
        if (next < n)
            fetch_rows(pack, hash + next, stretch(n, next), rows + next);
        found += compare_rows(pack, hash + i, stretch(n, i), rows + i, weight ? weight + i : NULL);
    }
    return found;
}

uint32_t fth_find_rows(const struct fth_pack *pack, const uint64_t *hash, uint32_t n,
                       uint32_t *rows, float *weight) {
    return find_rows(pack, hash, n, rows, weight, 0);
}

/* Phase 1. */
void fth_part_find(void *arg, uint32_t task, uint32_t worker) {
    struct fth_embedding *embedding = arg;
    struct fth_part *part = &embedding->parts[task];
    const struct fth_pack *pack = &embedding->packs[embedding->lookups[part->lookup].pack];
    uint64_t *hash = embedding->part_hash + part->base;
    uint32_t n = fth_part_number(embedding, part, worker, hash, embedding->item_count + part->base, NULL);
    uint32_t *rows = embedding->unique_row + part->base, *missing = embedding->item_at + part->base, n_missing = 0;
    float *weight = embedding->item_weight + part->base;
    int copied = fth_part_is_long(embedding, part) && pack->one_number < pack->n_members;
    if (part->by_bucket) {
        n_missing = fth_table_part_find(embedding, part, worker, missing);
        part->n_rows = n - n_missing;
    } else {
        /* A row of one number is in the line that says whose it is. The groups of short parts have been asked for. */
        part->n_rows = find_rows(pack, hash, n, rows, pack->single || copied ? weight : NULL,
                                 !fth_part_is_long(embedding, part));
        if (part->n_rows < n)
            n_missing = list_missing(rows, n, missing);
    }
    sort_missing(embedding, part, missing, embedding->training ? n_missing : 0);
}

fth_status fth_create_row(struct fth_pack *pack, struct fth_shard *shard, uint32_t table, uint64_t hash,
                          uint64_t count, uint32_t *row) {
    uint32_t *entry = shard->n_candidates ? fth_shard_find(pack, shard, hash) : NULL;
    shard->failed_table = table;
    if (entry)
        count += shard->candidates[*entry & ~FTH_ROW_CANDIDATE].count;
    if (count >= pack->tables[table].min_count)
        return fth_shard_add_row(pack, shard, hash, table, entry, row, NULL);
    return entry ? FTH_OK : fth_shard_add_candidate(pack, shard, hash, table, NULL);
}

/* Makes the rows of the shard's run of one lookup. */
static void create_run(struct fth_embedding *embedding, struct fth_pack *pack, struct fth_shard *shard,
                       const struct fth_embedding_lookup *lookup, uint32_t s) {
    const struct fth_missing *missing = embedding->missing + embedding->parts[lookup->first_part].base;
    for (uint32_t k = lookup->missing_at[s]; k < lookup->missing_at[s + 1] && shard->status == FTH_OK; k++) {
        uint32_t row = FTH_ROW_NONE;
        shard->status = fth_create_row(pack, shard, lookup->table, missing[k].hash, missing[k].count, &row);
        if (row == FTH_ROW_NONE)
            continue;
        embedding->unique_row[missing[k].item] = row;
        shard->n_unique_rows++;
        uint32_t one = pack->one_number;
        float weight = one < pack->n_members ? fth_pack_row(pack, row)[pack->members[one].at] : 0;
        if (weight != 0) /* 0 is there already, and the line another core's */
            embedding->item_weight[missing[k].item] = weight;
    }
}

/* Whether the lookup leads, is of the pack, and has keys. */
static int looked_up(const struct fth_embedding *embedding, uint32_t lookup, const struct fth_pack *pack) {
    const struct fth_embedding_lookup *at = &embedding->lookups[lookup];
    return at->member == 0 && at->n > 0 && &embedding->packs[at->pack] == pack;
}

/* Phase 2: lookup after lookup, so in the batch's order. */
void fth_part_create(void *arg, uint32_t task, uint32_t worker) {
    struct fth_embedding *embedding = arg;
    struct fth_pack *pack = &embedding->packs[task / FTH_SHARDS];
    struct fth_shard *shard = &pack->shards[task % FTH_SHARDS];
    uint32_t s = task % FTH_SHARDS;
    (void)worker;
    for (uint32_t l = 0; l < embedding->n_lookups; l++) {
        if (!looked_up(embedding, l, pack))
            continue;
        const struct fth_embedding_lookup *lookup = &embedding->lookups[l];
        const struct fth_missing *missing = embedding->missing + embedding->parts[lookup->first_part].base;
        for (uint32_t k = lookup->missing_at[s]; k < lookup->missing_at[s + 1]; k++)
            fth_index_prefetch(&shard->index, missing[k].hash);
    }
    for (uint32_t l = 0; l < embedding->n_lookups; l++)
        if (looked_up(embedding, l, pack))
            create_run(embedding, pack, shard, &embedding->lookups[l], s);
}

void fth_count_candidate(const struct fth_pack *pack, uint64_t hash, uint32_t count) {
    const struct fth_shard *shard = shard_of(pack, hash);
    const uint32_t *entry = fth_shard_find(pack, shard, hash);
    shard->candidates[*entry & ~FTH_ROW_CANDIDATE].count += count;
}

/* Frequencies and last steps, if they are kept here; the copies of single numbers. */
static void keep_items(struct fth_embedding *embedding, const struct fth_part *part,
                       const struct fth_pack *pack) {
    const uint32_t *rows = embedding->unique_row + part->base;
    const struct fth_member *copied =
        pack->one_number < pack->n_members ? &pack->members[pack->one_number] : NULL;
    float *weight = copied ? embedding->item_weight + part->base : NULL;
    uint32_t n = part->n_items;
    for (uint32_t u = 0; weight && u < n; u++) {
        if (u + ROWS_AHEAD < n)
            __builtin_prefetch(fth_pack_row(pack, rows[u + ROWS_AHEAD]) + copied->at);
        weight[u] = fth_pack_row(pack, rows[u])[copied->at];
    }
    if (embedding->training && pack->counted)
        fth_count_range(embedding, pack, part->base, part->base + n);
}

void fth_part_list(struct fth_embedding *embedding, struct fth_span span, uint32_t *item_at) {
    const struct fth_embedding_lookup *lookup = &embedding->lookups[span.lookup];
    const uint32_t *item_of = embedding->item_of + span.base;
    uint32_t *list = embedding->list;
    if (!lookup->by_example) {
        for (uint32_t i = 0; i < span.n; i++)
            list[item_at[item_of[i]]++] = span.base + i;
        return;
    }
    uint32_t first = span.base - lookup->base, i = 0;
    for (uint32_t example = example_at(embedding, lookup, first); i < span.n; example++) {
        uint32_t end = lookup->offsets[example + 1] - first, source = lookup->base + example;
        for (end = end < span.n ? end : span.n; i < end; i++) {
            if (i + LIST_AHEAD < span.n)
                __builtin_prefetch(&list[item_at[item_of[i + LIST_AHEAD]]], 1);
            list[item_at[item_of[i]]++] = source;
        }
    }
}

void fth_part_spread(const struct fth_embedding *embedding, const struct fth_pack *pack, struct fth_span span,
                     const struct fth_met *met) {
    const uint32_t *item_of = embedding->item_of + span.base;
    uint32_t *row_of = embedding->row_of + span.base; /* may take the place of item_of */
    float *weight_of = embedding->weight_of + span.base;
    int copied = pack->one_number < pack->n_members;
    for (uint32_t i = 0; i < span.n; i++) {
        struct fth_met of = met[item_of[i]];
        row_of[i] = of.row;
        if (copied)
            weight_of[i] = of.weight;
    }
}

/* Every occurrence's row and its source's place in its unique key's list. */
static void keep_occurrences(struct fth_embedding *embedding, const struct fth_part *part) {
    const uint32_t *item_of = embedding->item_of + part->base;
    const uint32_t *rows = embedding->unique_row + part->base;
    uint32_t *row_of = embedding->row_of + part->base;
    uint32_t *end = embedding->unique_end + part->base, at = part->base;
    for (uint32_t u = 0; u < part->n_items; u++) {
        end[u] = at;
        at += embedding->item_count[part->base + u];
    }
    for (uint32_t i = 0; i < part->n; i++)
        row_of[i] = rows[item_of[i]];
    for (struct fth_span span = fth_first_span(embedding, part); span.lookup != FTH_NO_LOOKUP;
         span = fth_next_span(embedding, span))
        fth_part_list(embedding, span, end);
}

/* Phase 3. */
void fth_part_keep(void *arg, uint32_t task, uint32_t worker) {
    struct fth_embedding *embedding = arg;
    struct fth_part *part = &embedding->parts[task];
    const struct fth_pack *pack = &embedding->packs[embedding->lookups[part->lookup].pack];
    (void)worker;
    if (pack->single)
        return;
    if (fth_part_is_long(embedding, part)) {
        fth_table_part_keep(embedding, part);
        return;
    }
    keep_items(embedding, part, pack);
    keep_occurrences(embedding, part);
}
