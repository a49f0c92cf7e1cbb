/* Parts that are all of a table's keys, of long lists or of several lookups (by_part): rows by bucket, and what
 * occurrences read. Where a table's keys are those of few buckets, a table of its rows by bucket takes the place of the
 * index for those that are known; the others are looked for there, and noted once they are found or made. Row numbers
 * never change, so nothing is ever taken back.
 *
 * Threads: a part's task, whose table no other reads. */
#include "base/memory.h"
#include "embedding/embedding_private.h"

#define ROWS_AHEAD 24
#define REPEATED 8 /* occurrences an item, at least, for which copies of rows pay */
#define CLASSES 32 /* of counts; the first is of those that are larger */

static struct fth_table *table_of(struct fth_embedding *embedding, uint32_t lookup) {
    const struct fth_embedding_lookup *from = &embedding->lookups[lookup];
    return &embedding->packs[from->pack].tables[from->table];
}

fth_status fth_table_part_room(struct fth_embedding *embedding, uint32_t lookup, fth_error *err) {
    const struct fth_embedding_lookup *head = &embedding->lookups[lookup];
    struct fth_table *table = table_of(embedding, lookup);
    uint64_t n = 0;
    for (uint32_t i = lookup; i != FTH_NO_LOOKUP; i = embedding->lookups[i].next)
        n += embedding->lookups[i].n;
    if (table->row_of_bucket || head->buckets == 0 || head->buckets >= 2 * n)
        return FTH_OK;
    table->row_of_bucket = fth_alloc((size_t)head->buckets + 1, sizeof *table->row_of_bucket);
    if (!table->row_of_bucket)
        return fth_fail(err, FTH_E_MEMORY, "no memory for %u buckets of table '%s'", head->buckets, table->name);
    table->buckets = head->buckets;
    table->salt = head->keys->salt;
    return FTH_OK;
}

/* The last entry, of the missing value's key, stays empty. */
static inline void note_row(const struct fth_table *table, uint32_t bucket, uint32_t row) {
    if (bucket < table->buckets)
        table->row_of_bucket[bucket] = row;
}

/* The rows of the items' single numbers are asked for some ahead. */
static void copy_weights(const struct fth_pack *pack, const uint32_t *rows, uint32_t n, float *weight) {
    uint32_t at = pack->members[pack->one_number].at;
    for (uint32_t u = 0; u < n; u++) {
        if (u + ROWS_AHEAD < n)
            __builtin_prefetch(fth_pack_row(pack, rows[u + ROWS_AHEAD]) + at, 0, 2);
        weight[u] = fth_pack_row(pack, rows[u])[at];
    }
}

uint32_t fth_table_part_find(struct fth_embedding *embedding, const struct fth_part *part, uint32_t worker,
                             uint32_t *missing) {
    const struct fth_pack *pack = &embedding->packs[embedding->lookups[part->lookup].pack];
    const struct fth_table *table = table_of(embedding, part->lookup);
    const struct fth_embedding_lookup *lookup = &embedding->lookups[part->lookup];
    const uint32_t *bucket = embedding->item_bucket + part->base;
    uint64_t *item_hash = embedding->part_hash + part->base, *hash = (void *)fth_part_room(embedding, part, worker);
    uint32_t *rows = embedding->unique_row + part->base, *found = embedding->unique_end + part->base;
    uint32_t n = part->n_items, unknown = 0, n_missing = 0;
    for (uint32_t u = 0; u < n; u++) {
        rows[u] = table->row_of_bucket[bucket[u]];
        missing[unknown] = u;
        unknown += rows[u] == FTH_ROW_NONE;
    }
    for (uint32_t k = 0; k < unknown; k++)
        hash[k] = item_hash[missing[k]] = fth_pack_hash(table, fth_entry_key(lookup, bucket[missing[k]]));
    fth_find_rows(pack, hash, unknown, found, NULL);
    for (uint32_t k = 0; k < unknown; k++) {
        uint32_t u = missing[k];
        rows[u] = found[k];
        note_row(table, bucket[u], found[k]);
        missing[n_missing] = u;
        n_missing += found[k] == FTH_ROW_NONE;
    }
    if (pack->one_number < pack->n_members)
        copy_weights(pack, rows, n, embedding->item_weight + part->base);
    return n_missing;
}

/* Rows that have been made are known by bucket from now on. */
static void note_made(struct fth_embedding *embedding, const struct fth_part *part) {
    struct fth_table *table = table_of(embedding, part->lookup);
    const struct fth_missing *missing = embedding->missing + part->base;
    uint32_t n = part->n_items - part->n_rows;
    for (uint32_t k = 0; k < n; k++)
        note_row(table, embedding->item_bucket[missing[k].item], embedding->unique_row[missing[k].item]);
}

/* Copies lie in lines of their own and close together, where rows with their slots and meta lie about in the pack. */
static int copies_pay(const struct fth_pack *pack, const struct fth_part *part) {
    size_t bytes = (size_t)part->n_items * fth_copy_at(pack, pack->n_members) * sizeof(float);
    return part->n / REPEATED >= part->n_items && bytes > 0 && bytes <= part->n * sizeof(struct fth_missing);
}

/* What occurrences read, but for rows of lookups of a key an example, which others may ask for (unique.c). */
static void copy_part(struct fth_embedding *embedding, const struct fth_pack *pack, const struct fth_part *part) {
    const uint32_t *rows = embedding->unique_row + part->base;
    float *copies = fth_part_copies(embedding, part);
    for (uint32_t m = 0; m < pack->n_members; m++)
        if (m != pack->one_number)
            pack->kernels->gather(part->n_items, rows, pack->rows + pack->members[m].at, pack->stride,
                                  pack->members[m].dim, copies + fth_copy_at(pack, m),
                                  fth_copy_at(pack, pack->n_members));
    struct fth_span span = fth_first_span(embedding, part);
    for (; span.lookup != FTH_NO_LOOKUP; span = fth_next_span(embedding, span))
        for (uint32_t i = span.base; !embedding->lookups[span.lookup].offsets && i < span.base + span.n; i++)
            embedding->row_of[i] = rows[embedding->item_of[i]];
}

/* What occurrences take of their items, in memory that is read no more. */
static void spread_part(struct fth_embedding *embedding, const struct fth_pack *pack, const struct fth_part *part) {
    struct fth_met *met = (struct fth_met *)(void *)(embedding->missing + part->base);
    int copied = pack->one_number < pack->n_members;
    for (uint32_t u = part->base; u < part->base + part->n_items; u++)
        met[u - part->base] =
            (struct fth_met){embedding->unique_row[u], copied ? embedding->item_weight[u] : 0};
    struct fth_span span = fth_first_span(embedding, part);
    for (; span.lookup != FTH_NO_LOOKUP; span = fth_next_span(embedding, span))
        fth_part_spread(embedding, pack, span, met);
}

static inline uint32_t class_of(uint32_t count) {
    return count < CLASSES ? count : 0;
}

/* Sorts the items as unique keys by their counts, so that how many sources a row has is foretold when it is updated;
 * item_at: the items' places among them. What is kept of keys without a row has to stay where it is: 0 where there are
 * some. */
static int sort_items(struct fth_embedding *embedding, const struct fth_part *part, uint32_t *item_at) {
    uint32_t *rows = embedding->unique_row + part->base, *count = embedding->item_count + part->base;
    struct sorted {
        uint32_t row, count;
    } *sorted = (void *)(embedding->part_hash + part->base); /* hashes are those keys' only, from here on */
    uint32_t n = part->n_items, next[CLASSES] = {0}, at = 0, without_row = 0;
    for (uint32_t u = 0; u < n; u++) {
        next[class_of(count[u])]++;
        without_row |= rows[u] == FTH_ROW_NONE;
    }
    if (without_row)
        return 0;
    for (uint32_t c = 0; c < CLASSES; c++) {
        uint32_t of = next[c];
        next[c] = at;
        at += of;
    }
    for (uint32_t u = 0; u < n; u++) {
        item_at[u] = next[class_of(count[u])]++;
        sorted[item_at[u]] = (struct sorted){rows[u], count[u]};
    }
    for (uint32_t u = 0; u < n; u++) {
        rows[u] = sorted[u].row;
        count[u] = sorted[u].count;
    }
    return 1;
}

/* Where the lists of the items' sources begin, and the unique keys' end. */
static void place_lists(struct fth_embedding *embedding, const struct fth_part *part, uint32_t *item_at) {
    const uint32_t *count = embedding->item_count + part->base;
    uint32_t *end = embedding->unique_end + part->base, at = part->base, n = part->n_items;
    int sorted = sort_items(embedding, part, item_at);
    for (uint32_t u = 0; u < n; u++)
        end[u] = at += count[u];
    for (uint32_t u = 0; u < n; u++) {
        uint32_t unique = sorted ? item_at[u] : u;
        item_at[u] = end[unique] - count[unique];
    }
}

static void list_part(struct fth_embedding *embedding, const struct fth_part *part) {
    uint32_t *item_at = embedding->item_at + part->base;
    place_lists(embedding, part, item_at);
    struct fth_span span = fth_first_span(embedding, part);
    for (; span.lookup != FTH_NO_LOOKUP; span = fth_next_span(embedding, span))
        if (span.n > 0)
            fth_part_list(embedding, span, item_at);
}

void fth_table_part_keep(struct fth_embedding *embedding, struct fth_part *part) {
    const struct fth_pack *pack = &embedding->packs[embedding->lookups[part->lookup].pack];
    if (embedding->training && part->by_bucket)
        note_made(embedding, part);
    part->copied = copies_pay(pack, part);
    if (part->copied)
        copy_part(embedding, pack, part);
    else
        spread_part(embedding, pack, part);
    if (!embedding->training)
        return;
    part->summed = fth_items_can_be_summed(embedding, part);
    if (!part->summed)
        list_part(embedding, part);
    if (pack->counted)
        fth_count_range(embedding, pack, part->base, part->base + part->n_items);
}
