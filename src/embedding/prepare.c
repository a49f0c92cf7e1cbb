/* Finding the rows of a batch's keys: between the reader and the step. Three phases over the pool
 * (embedding_private.h draws their arrays); each task writes only what is its part's or its
 * shard's.
 *
 * Keys repeat within a batch, so a part first numbers its unique keys, its items, in a table that stays
 * in the first cache; only items are looked up, and only their rows and counts are brought back. The
 * phases of batches whose tables have one part each are in parts.c; here are those that bring the
 * parts' items together by shard.
 *
 * A failure leaves no batch prepared and the tables whole: rows that were made already have the values they would
 * have had later. Frequencies, last steps and candidates' counts change only after every shard has succeeded, most of them in
 * the update. */
#include <string.h>

#include "embedding/embedding_private.h"

#define METAS_AHEAD 16

/* Numbers for a part's items, after those of the parts that came before, so that no more memory is touched than items
 * take. Which numbers they are decides nothing. */
static uint32_t take_items(struct fth_embedding *embedding, uint32_t n) {
    return atomic_fetch_add_explicit(&embedding->items, (n + 15) & ~15u, memory_order_relaxed);
}

/* Phase 1: a part's items, hashed, in the order of their shards, in each as they were met; item_place: where they are. */
static void split_part(void *arg, uint32_t task, uint32_t worker) {
    struct fth_embedding *embedding = arg;
    struct fth_part *part = &embedding->parts[task];
    /* As they are met: in arrays that nobody uses yet, the worker's always in the same place. */
    uint32_t met = embedding->met_stride ? worker * embedding->met_stride : part->base;
    uint64_t *met_hash = embedding->hash + met;
    uint32_t *met_count = embedding->shard_count + met;
    uint32_t *met_first = embedding->unique_first + met;
    uint32_t n = fth_part_number(embedding, part, worker, met_hash, met_count, met_first);
    part->items = take_items(embedding, n);
    uint32_t *place = embedding->item_place + part->items, next[FTH_SHARDS] = {0}, at = 0;
    memset(part->occurrences, 0, sizeof part->occurrences);
    for (uint32_t u = 0; u < n; u++) {
        uint32_t s = fth_shard_of(met_hash[u]);
        next[s]++;
        part->occurrences[s] += met_count[u];
    }
    for (uint32_t s = 0; s < FTH_SHARDS; s++) {
        part->at[s] = at;
        at += next[s];
        next[s] = part->at[s];
    }
    part->at[FTH_SHARDS] = at;
    for (uint32_t u = 0; u < n; u++) {
        uint32_t to = next[fth_shard_of(met_hash[u])]++;
        place[u] = to;
        embedding->part_hash[part->items + to] = met_hash[u];
        embedding->item_count[part->items + to] = met_count[u];
        embedding->item_first[part->items + to] = met_first[u];
    }
    if (embedding->training && embedding->lookups[part->lookup].firsts)
        memset(embedding->first_of + part->base, 0xff, part->n * sizeof *embedding->first_of);
}

/* Each shard's place in the flat arrays: room for its items, and for its occurrences in the list. */
static void place_shards(struct fth_embedding *embedding) {
    uint32_t start = 0, list = 0;
    for (uint32_t p = 0; p < embedding->n_packs; p++) {
        struct fth_pack *pack = &embedding->packs[p];
        uint32_t occurrences[FTH_SHARDS] = {0}, items[FTH_SHARDS] = {0};
        for (uint32_t i = 0; i < pack->n_parts; i++) {
            const struct fth_part *part =
                &embedding->parts[embedding->part_order[pack->first_part + i]];
            for (uint32_t s = 0; s < FTH_SHARDS; s++) {
                items[s] += part->at[s + 1] - part->at[s];
                occurrences[s] += part->occurrences[s];
            }
        }
        for (uint32_t s = 0; s < FTH_SHARDS; s++) {
            struct fth_shard *shard = &pack->shards[s];
            shard->start = start;
            shard->list = list;
            shard->n_items = items[s];
            shard->n_unique = shard->n_unique_rows = 0;
            shard->status = FTH_OK;
            start += items[s];
            list += occurrences[s];
        }
    }
}

/* The shard's items of part number i of the pack: [first, last) of the items' arrays. */
struct items {
    uint32_t first, last;
};

static struct items items_of(const struct fth_embedding *embedding, const struct fth_pack *pack,
                         uint32_t i, uint32_t s) {
    const struct fth_part *part =
        &embedding->parts[embedding->part_order[pack->first_part + i]];
    return (struct items){part->items + part->at[s], part->items + part->at[s + 1]};
}

/* Numbers the shard's unique keys in the order of their first occurrence; a key has an item in every
 * part where it is met. item_row: the items' unique keys within the shard, until their rows are known. */
static void number_unique(struct fth_embedding *embedding, const struct fth_pack *pack,
                          struct fth_shard *shard, uint32_t s) {
    uint32_t start = shard->start, size = 2 * shard->n_items, n = 0;
    uint32_t *seen = embedding->seen + 2 * (size_t)start;
    uint64_t *unique_hash = embedding->hash + start;
    uint32_t *unique_first = embedding->unique_first + start;
    uint32_t *unique_count = embedding->unique_count + start;
    memset(seen, 0, size * sizeof *seen);
    for (uint32_t l = 0; l < embedding->n_lookups; l++)
        if (&embedding->packs[embedding->lookups[l].pack] == pack)
            embedding->runs[l * FTH_SHARDS + s].n = 0;
    for (uint32_t p = 0; p < pack->n_parts; p++) {
        const struct fth_part *part = &embedding->parts[embedding->part_order[pack->first_part + p]];
        struct items items = items_of(embedding, pack, p, s);
        uint32_t before = n;
        for (uint32_t item = items.first; item < items.last; item++) {
            uint64_t hash = embedding->part_hash[item];
            uint32_t at = (uint32_t)((hash * embedding->factor >> 32) * size >> 32), unique;
            while ((unique = seen[at]) != 0 && unique_hash[unique - 1] != hash)
                at = at + 1 == size ? 0 : at + 1;
            if (unique == 0) {
                unique_hash[n] = hash;
                unique_first[n] = embedding->item_first[item];
                unique_count[n] = 0;
                seen[at] = unique = ++n;
            }
            unique_count[unique - 1] += embedding->item_count[item];
            embedding->item_row[item] = unique - 1;
        }
        struct fth_run *run = &embedding->runs[part->lookup * FTH_SHARDS + s];
        run->start = run->n ? run->start : start + before;
        run->n += n - before;
    }
    shard->n_unique = n;
}

/* Where each unique key's list of sources lies, and in it each item's part; the items' rows. */
static void place_items(struct fth_embedding *embedding, const struct fth_pack *pack,
                        struct fth_shard *shard, uint32_t s) {
    uint32_t start = shard->start, at = shard->list;
    int copied = pack->one_number < pack->n_members;
    for (uint32_t u = start; u < start + shard->n_unique; u++) {
        embedding->unique_end[u] = at;
        at += embedding->unique_count[u];
        shard->n_unique_rows += embedding->unique_row[u] != FTH_ROW_NONE;
        if (embedding->training && pack->firsts &&
            fth_lookup_of(embedding, embedding->unique_first[u])->firsts)
            embedding->first_of[embedding->unique_first[u]] = u;
    }
    for (uint32_t p = 0; p < pack->n_parts; p++) {
        struct items items = items_of(embedding, pack, p, s);
        for (uint32_t item = items.first; item < items.last; item++) {
            uint32_t unique = start + embedding->item_row[item];
            if (copied)
                embedding->item_weight[item] = embedding->unique_weight[unique];
            embedding->item_row[item] = embedding->unique_row[unique];
            embedding->item_at[item] = embedding->unique_end[unique];
            embedding->unique_end[unique] += embedding->item_count[item];
        }
    }
}

/* Phase 2. */
static void find_rows(void *arg, uint32_t task, uint32_t worker) {
    struct fth_embedding *embedding = arg;
    struct fth_pack *pack = &embedding->packs[task / FTH_SHARDS];
    struct fth_shard *shard = &pack->shards[task % FTH_SHARDS];
    number_unique(embedding, pack, shard, task % FTH_SHARDS);
    const uint64_t *hash = embedding->hash + shard->start;
    const uint32_t *rows = embedding->unique_row + shard->start;
    uint32_t n = shard->n_unique, one = pack->one_number;
    float *weight = one < pack->n_members ? embedding->unique_weight + shard->start : NULL;
    int all = fth_find_rows(pack, hash, n, embedding->unique_row + shard->start, weight) == n;
    for (uint32_t u = 0; u < n && !all && embedding->training && shard->status == FTH_OK; u++) {
        if (rows[u] != FTH_ROW_NONE)
            continue;
        uint32_t table = fth_lookup_of(embedding, embedding->unique_first[shard->start + u])->table;
        shard->status = fth_create_row(pack, shard, table, hash[u], embedding->unique_count[shard->start + u],
                                       &embedding->unique_row[shard->start + u]);
        if (weight)
            weight[u] = fth_pack_row(pack, rows[u])[pack->members[one].at];
    }
    if (shard->status == FTH_OK)
        place_items(embedding, pack, shard, task % FTH_SHARDS);
}

void fth_count_range(const struct fth_embedding *embedding, const struct fth_pack *pack, uint32_t unique,
                     uint32_t last) {
    for (; unique < last; unique++) {
        if (unique + METAS_AHEAD < last)
            __builtin_prefetch(fth_pack_hash_at(pack, embedding->unique_row[unique + METAS_AHEAD]), 1);
        fth_count_unique(embedding, pack, unique);
    }
}

/* Every occurrence's row and single number, and its source's place in its unique key's list. Occurrences know their
 * items as they were met; in that order these are brought first, into arrays that nobody reads any more. */
static void spread_part(struct fth_embedding *embedding, const struct fth_part *part) {
    const struct fth_pack *pack = &embedding->packs[embedding->lookups[part->lookup].pack];
    const uint32_t *place = embedding->item_place + part->items;
    struct fth_met *met = (struct fth_met *)(void *)(embedding->part_hash + part->items);
    uint32_t *at = embedding->item_count + part->items;
    int copied = pack->one_number < pack->n_members;
    for (uint32_t u = 0; u < part->n_items; u++) {
        uint32_t item = part->items + place[u];
        met[u].row = embedding->item_row[item];
        met[u].weight = copied ? embedding->item_weight[item] : 0;
        at[u] = embedding->item_at[item];
    }
    struct fth_span span = fth_first_span(embedding, part);
    if (embedding->training)
        fth_part_list(embedding, span, at);
    fth_part_spread(embedding, pack, span, met);
}

/* Phase 3: a task a part, then, in training, one a shard of what is counted here. */
static void keep_rows(void *arg, uint32_t task, uint32_t worker) {
    struct fth_embedding *embedding = arg;
    if (task < embedding->n_parts) {
        spread_part(embedding, &embedding->parts[task]);
        return;
    }
    task -= embedding->n_parts;
    const struct fth_pack *pack = &embedding->packs[task / FTH_SHARDS];
    const struct fth_shard *shard = &pack->shards[task % FTH_SHARDS];
    if (pack->counted)
        fth_count_range(embedding, pack, shard->start, shard->start + shard->n_unique);
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

/* By part: what shards tell of this batch; how many items are to get a row. */
static uint32_t begin_shards(struct fth_embedding *embedding) {
    uint32_t missing = 0;
    for (uint32_t s = 0; s < embedding->n_packs * FTH_SHARDS; s++) {
        struct fth_shard *shard = &embedding->packs[s / FTH_SHARDS].shards[s % FTH_SHARDS];
        shard->n_unique_rows = 0;
        shard->status = FTH_OK;
    }
    for (uint32_t p = 0; p < embedding->n_parts; p++)
        missing += embedding->training ? embedding->parts[p].n_items - embedding->parts[p].n_rows : 0;
    return missing;
}

static fth_status prepare_by_part(struct fth_embedding *embedding, fth_pool *pool, fth_error *err) {
    fth_pool_for(pool, embedding->n_parts, fth_part_find, embedding);
    if (begin_shards(embedding) > 0) {
        fth_pool_for(pool, embedding->n_packs * FTH_SHARDS, fth_part_create, embedding);
        FTH_TRY(check_shards(embedding, err));
    }
    int keep = 0;
    for (uint32_t p = 0; p < embedding->n_packs; p++)
        keep |= !embedding->packs[p].single;
    if (keep)
        fth_pool_for(pool, embedding->n_parts, fth_part_keep, embedding);
    for (uint32_t p = 0; p < embedding->n_parts; p++)
        embedding->n_unique += (uint64_t)embedding->parts[p].n_rows *
                               fth_segment_of(embedding, p).pack->n_members;
    for (uint32_t s = 0; s < embedding->n_packs * FTH_SHARDS; s++) {
        const struct fth_pack *pack = &embedding->packs[s / FTH_SHARDS];
        embedding->n_unique += (uint64_t)pack->shards[s % FTH_SHARDS].n_unique_rows * pack->n_members;
    }
    return FTH_OK;
}

static fth_status prepare_by_shard(struct fth_embedding *embedding, fth_pool *pool,
                                   fth_error *err) {
    uint32_t shards = embedding->n_packs * FTH_SHARDS;
    embedding->items = 0;
    fth_pool_for(pool, embedding->n_parts, split_part, embedding);
    place_shards(embedding);
    fth_pool_for(pool, shards, find_rows, embedding);
    FTH_TRY(check_shards(embedding, err));
    int counted = 0;
    for (uint32_t p = 0; p < embedding->n_packs; p++)
        counted |= embedding->training && embedding->packs[p].counted;
    fth_pool_for(pool, embedding->n_parts + (counted ? shards : 0), keep_rows, embedding);
    for (uint32_t i = 0; i < shards; i++) {
        const struct fth_pack *pack = &embedding->packs[i / FTH_SHARDS];
        embedding->n_unique += (uint64_t)pack->shards[i % FTH_SHARDS].n_unique_rows * pack->n_members;
    }
    return FTH_OK;
}

static fth_status prepare(struct fth_embedding *embedding, fth_pool *pool, fth_error *err) {
    FTH_TRY(embedding->by_part ? prepare_by_part(embedding, pool, err)
                               : prepare_by_shard(embedding, pool, err));
    fth_embedding_unique_number(embedding, pool);
    if (!embedding->training)
        return FTH_OK;
    fth_embedding_cut_updates(embedding);
    for (uint32_t p = 0; p < embedding->n_packs; p++)
        fth_pack_plan_ahead(&embedding->packs[p], fth_pool_size(pool));
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
    FTH_TRY(fth_embedding_take_batch(embedding, batch, fth_pool_size(pool), err));
    embedding->batch = batch;
    fth_status status = prepare(embedding, pool, err);
    if (status != FTH_OK)
        embedding->batch = NULL;
    return status;
}
