/* Finding the rows of a batch's keys: between the reader and the step. Three phases over the pool
 * (embedding_private.h draws their arrays); each task writes only what is its part's or its
 * shard's.
 *
 * Keys repeat within a batch, so a part first numbers its unique keys, its items, in a table that stays
 * in the first cache; only items are looked up, and only their rows and counts are brought back. The
 * phases of batches whose tables have one part each are in parts.c; here are those that bring the
 * parts' items together by shard.
 *
 * A failure leaves no batch prepared and the tables whole: keys that got an entry but no row count
 * as unknown, rows that were made already have the values they would have had later. Frequencies,
 * last steps and candidates' counts change only after every shard has succeeded. */
#include <string.h>

#include "embedding/embedding_private.h"

/* How far ahead, in items, tags and then slots are fetched. */
#define TAGS_AHEAD 64
#define SLOTS_AHEAD 32
#define METAS_AHEAD 16

/* Phase 1: a part's items, hashed and sorted by shard, keeping their order. */
static void split_part(void *arg, uint32_t task, uint32_t worker) {
    struct fth_embedding *embedding = arg;
    struct fth_part *part = &embedding->parts[task];
    const uint64_t *hashes = embedding->part_hash + part->base;
    const uint32_t *count = embedding->item_count + part->base;
    uint32_t n = fth_part_number(embedding, part);
    (void)worker;
    fth_part_sort(embedding, part, n, 1);
    memset(part->occurrences, 0, sizeof part->occurrences);
    for (uint32_t u = 0; u < n; u++)
        part->occurrences[fth_shard_of(hashes[u])] += count[u];
    if (embedding->training)
        memset(embedding->first_of + part->base, 0xff, part->n * sizeof *embedding->first_of);
}

/* Each shard's place in the flat arrays: room for its occurrences, or for the items it has to make rows
 * for; returns how much in all. */
static uint32_t place_shards(struct fth_embedding *embedding) {
    uint32_t start = 0;
    for (uint32_t p = 0; p < embedding->n_packs; p++) {
        struct fth_pack *pack = &embedding->packs[p];
        uint32_t occurrences[FTH_SHARDS] = {0};
        for (uint32_t i = 0; i < pack->n_parts; i++) {
            const struct fth_part *part =
                &embedding->parts[embedding->part_order[pack->first_part + i]];
            for (uint32_t s = 0; s < FTH_SHARDS; s++)
                occurrences[s] += embedding->by_part ? part->at[s + 1] - part->at[s]
                                                     : part->occurrences[s];
        }
        for (uint32_t s = 0; s < FTH_SHARDS; s++) {
            struct fth_shard *shard = &pack->shards[s];
            shard->start = start;
            shard->n_items = shard->n_unique = shard->n_unique_rows = 0;
            shard->status = FTH_OK;
            start += occurrences[s];
        }
    }
    return start;
}

static void fetch_first(const struct fth_index *index, const uint64_t *hash, uint32_t n) {
    for (uint32_t i = 0; i < n && i < TAGS_AHEAD; i++)
        fth_index_prefetch_tags(index, hash[i]);
    for (uint32_t i = 0; i < n && i < SLOTS_AHEAD; i++)
        fth_index_prefetch_slot(index, hash[i]);
}

/* Every item's slot into `slots`, FTH_NO_UNIQUE where there is none (evaluation only). When the index
 * grows, slots move: all are looked up again. */
static fth_status find_slots(struct fth_embedding *embedding, struct fth_pack *pack,
                             struct fth_shard *shard, uint32_t *slots) {
    const uint64_t *hash = embedding->hash + shard->start;
    uint32_t n = shard->n_items;
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0)
            fetch_first(&shard->index, hash, n);
        if (i + TAGS_AHEAD < n)
            fth_index_prefetch_tags(&shard->index, hash[i + TAGS_AHEAD]);
        if (i + SLOTS_AHEAD < n)
            fth_index_prefetch_slot(&shard->index, hash[i + SLOTS_AHEAD]);
        int found;
        slots[i] = fth_index_find(&shard->index, hash[i], &found);
        if (found)
            continue;
        if (!embedding->training) {
            slots[i] = FTH_NO_UNIQUE;
            continue;
        }
        uint32_t capacity = shard->index.capacity;
        shard->failed_table =
            fth_lookup_of(embedding, embedding->item[shard->start + i])->table;
        FTH_TRY(fth_shard_slot(pack, shard, hash[i], &slots[i], NULL));
        if (shard->index.capacity != capacity)
            i = UINT32_MAX; /* and with the loop's increment: from 0 */
    }
    return FTH_OK;
}

/* Numbers the shard's unique keys in the order of their first occurrence; a key has an item in every
 * part where it is met. An entry's `unique` is true when the list points back at it, so nothing has to
 * be cleared between batches. No branches: whether a key was seen before may be a coin toss. */
static void number_unique(struct fth_embedding *embedding, struct fth_shard *shard) {
    uint32_t start = shard->start, n = 0;
    uint32_t *unique_of = embedding->unique_of + start; /* slots, until here */
    uint32_t *unique_slot = embedding->unique_slot + start;
    uint32_t *unique_first = embedding->unique_first + start;
    uint32_t *unique_count = embedding->unique_count + start;
    const uint32_t *item = embedding->item + start;
    for (uint32_t i = 0; i < shard->n_items; i++) {
        uint32_t at = unique_of[i];
        if (at == FTH_NO_UNIQUE)
            continue;
        struct fth_index_slot *slot = &shard->index.slots[at];
        uint32_t inside = -(uint32_t)(slot->unique < n);
        uint32_t known = inside & -(uint32_t)(unique_slot[slot->unique & inside] == at);
        uint32_t unique = (slot->unique & known) | (n & ~known);
        n += 1 + known;
        slot->unique = unique;
        unique_slot[unique] = at;
        unique_first[unique] =
            (unique_first[unique] & known) | (embedding->item_first[item[i]] & ~known);
        unique_count[unique] = (unique_count[unique] & known) + embedding->item_count[item[i]];
        unique_of[i] = unique;
    }
    shard->n_unique = n;
}

/* The unique keys' rows; new ones for those that have none, where their count with this batch's
 * occurrences allows it. */
static fth_status make_rows(struct fth_embedding *embedding, struct fth_pack *pack,
                            struct fth_shard *shard) {
    for (uint32_t u = shard->start; u < shard->start + shard->n_unique; u++) {
        /* Read only now: an admission before this one may have renumbered a candidate. */
        uint32_t at = embedding->unique_slot[u], row = shard->index.slots[at].row;
        int has_row = row != FTH_ROW_NONE && !(row & FTH_ROW_CANDIDATE);
        embedding->unique_row[u] = has_row ? row : FTH_ROW_NONE;
        if (has_row || !embedding->training)
            continue;
        uint32_t first = embedding->unique_first[u];
        const struct fth_embedding_lookup *lookup = fth_lookup_of(embedding, first);
        uint64_t key = lookup->keys[first - lookup->base];
        shard->failed_table = lookup->table;
        uint64_t count = embedding->unique_count[u];
        if (row & FTH_ROW_CANDIDATE)
            count += shard->candidates[row & ~FTH_ROW_CANDIDATE].count;
        if (count >= pack->tables[lookup->table].min_count)
            FTH_TRY(fth_shard_add_row(pack, shard, at, key, lookup->table,
                                      &embedding->unique_row[u], NULL));
        else if (row == FTH_ROW_NONE)
            FTH_TRY(fth_shard_add_candidate(pack, shard, at, key, lookup->table, NULL));
    }
    return FTH_OK;
}

/* Where each unique key's list of occurrences lies, and in it each item's part; the items' rows. */
static void place_items(struct fth_embedding *embedding, struct fth_shard *shard) {
    uint32_t start = shard->start, at = start;
    for (uint32_t u = start; u < start + shard->n_unique; u++) {
        embedding->unique_end[u] = at;
        at += embedding->unique_count[u];
        shard->n_unique_rows += embedding->unique_row[u] != FTH_ROW_NONE;
        if (embedding->training)
            embedding->first_of[embedding->unique_first[u]] = u;
    }
    for (uint32_t i = start; i < start + shard->n_items; i++) {
        uint32_t item = embedding->item[i], unique = start + embedding->unique_of[i];
        if (embedding->unique_of[i] == FTH_NO_UNIQUE) {
            embedding->item_row[item] = FTH_ROW_NONE;
            continue;
        }
        embedding->item_row[item] = embedding->unique_row[unique];
        embedding->item_at[item] = embedding->unique_end[unique];
        embedding->unique_end[unique] += embedding->item_count[item];
    }
}

/* Phase 2. */
static void find_rows(void *arg, uint32_t task, uint32_t worker) {
    struct fth_embedding *embedding = arg;
    struct fth_pack *pack = &embedding->packs[task / FTH_SHARDS];
    struct fth_shard *shard = &pack->shards[task % FTH_SHARDS];
    fth_part_collect(embedding, pack, task % FTH_SHARDS);
    shard->status = find_slots(embedding, pack, shard, embedding->unique_of + shard->start);
    if (shard->status != FTH_OK)
        return;
    number_unique(embedding, shard);
    shard->status = make_rows(embedding, pack, shard);
    if (shard->status == FTH_OK)
        place_items(embedding, shard);
}

/* Counts the shard's unique keys' occurrences where they are kept. */
static void count_unique(const struct fth_embedding *embedding, const struct fth_pack *pack,
                         const struct fth_shard *shard) {
    const uint32_t *rows = embedding->unique_row;
    uint32_t last = shard->start + shard->n_unique;
    for (uint32_t u = shard->start; u < last; u++) {
        if (u + METAS_AHEAD < last)
            __builtin_prefetch(&pack->metas[rows[u + METAS_AHEAD]], 1);
        uint32_t count = embedding->unique_count[u];
        if (rows[u] != FTH_ROW_NONE) {
            pack->metas[rows[u]].frequency += count;
            pack->metas[rows[u]].last_step = embedding->step;
        } else {
            uint32_t row = shard->index.slots[embedding->unique_slot[u]].row;
            shard->candidates[row & ~FTH_ROW_CANDIDATE].count += count;
        }
    }
}

/* Every occurrence's row, and the occurrence's place in its unique key's list. */
static void spread_part(struct fth_embedding *embedding, const struct fth_part *part) {
    const uint32_t *item_of = embedding->item_of + part->base;
    const uint32_t *item_row = embedding->item_row + part->base;
    uint32_t *item_at = embedding->item_at + part->base, *row_of = embedding->row_of + part->base;
    uint32_t *list = embedding->list;
    if (!embedding->training) {
        for (uint32_t i = 0; i < part->n; i++)
            row_of[i] = item_row[item_of[i]];
        return;
    }
    for (uint32_t i = 0; i < part->n; i++) {
        uint32_t item = item_of[i];
        row_of[i] = item_row[item];
        list[item_at[item]++] = part->base + i;
    }
}

/* Phase 3: a task a part, then, in training, one a shard. */
static void keep_rows(void *arg, uint32_t task, uint32_t worker) {
    struct fth_embedding *embedding = arg;
    if (task < embedding->n_parts) {
        spread_part(embedding, &embedding->parts[task]);
        return;
    }
    task -= embedding->n_parts;
    const struct fth_pack *pack = &embedding->packs[task / FTH_SHARDS];
    count_unique(embedding, pack, &pack->shards[task % FTH_SHARDS]);
}

static fth_status check_shards(const struct fth_embedding *embedding, fth_error *err) {
    for (uint32_t i = 0; i < embedding->n_packs * FTH_SHARDS; i++) {
        const struct fth_pack *pack = &embedding->packs[i / FTH_SHARDS];
        const struct fth_shard *shard = &pack->shards[i % FTH_SHARDS];
        if (shard->status == FTH_E_LIMIT)
            return fth_embedding_limit_error(embedding, pack, shard->failed_table, err);
        if (shard->status != FTH_OK)
            return fth_fail(err, shard->status, "no memory for new rows of embedding table '%s'",
                            pack->tables[shard->failed_table].name);
    }
    return FTH_OK;
}

static fth_status prepare_by_part(struct fth_embedding *embedding, fth_pool *pool, fth_error *err) {
    fth_pool_for(pool, embedding->n_parts, fth_part_find, embedding);
    if (place_shards(embedding) > 0) {
        fth_pool_for(pool, embedding->n_packs * FTH_SHARDS, fth_part_create, embedding);
        FTH_TRY(check_shards(embedding, err));
    }
    fth_pool_for(pool, embedding->n_parts, fth_part_keep, embedding);
    for (uint32_t p = 0; p < embedding->n_parts; p++)
        embedding->n_unique += embedding->parts[p].n_rows;
    return FTH_OK;
}

static fth_status prepare_by_shard(struct fth_embedding *embedding, fth_pool *pool,
                                   fth_error *err) {
    uint32_t shards = embedding->n_packs * FTH_SHARDS;
    fth_pool_for(pool, embedding->n_parts, split_part, embedding);
    place_shards(embedding);
    fth_pool_for(pool, shards, find_rows, embedding);
    FTH_TRY(check_shards(embedding, err));
    fth_pool_for(pool, embedding->n_parts + (embedding->training ? shards : 0), keep_rows,
                 embedding);
    for (uint32_t i = 0; i < shards; i++)
        embedding->n_unique +=
            embedding->packs[i / FTH_SHARDS].shards[i % FTH_SHARDS].n_unique_rows;
    return FTH_OK;
}

static fth_status prepare(struct fth_embedding *embedding, fth_pool *pool, fth_error *err) {
    FTH_TRY(embedding->by_part ? prepare_by_part(embedding, pool, err)
                               : prepare_by_shard(embedding, pool, err));
    fth_embedding_unique_number(embedding, pool);
    if (embedding->training)
        fth_embedding_cut_updates(embedding);
    return FTH_OK;
}

fth_status fth_embedding_prepare(fth_embedding *embedding, fth_pool *pool,
                                 const struct fth_batch *batch, int training, uint64_t step,
                                 fth_error *err) {
    embedding->batch = NULL;
    embedding->n_keys = embedding->n_unique = 0;
    embedding->n_tasks = 0;
    embedding->training = training;
    embedding->step = step;
    FTH_TRY(fth_embedding_take_batch(embedding, batch, err));
    embedding->batch = batch;
    fth_status status = prepare(embedding, pool, err);
    if (status != FTH_OK)
        embedding->batch = NULL;
    return status;
}
