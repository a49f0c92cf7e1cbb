/* Taking a batch in: the lookups' keys, the parts, room for the batch's arrays. The first half of
 * prepare, sequential and short. Threads: the one that prepares.
 *
 * Memory grows with the largest batch seen and is kept, so that later batches allocate nothing. */
#include <string.h>

#include "base/memory.h"
#include "embedding/embedding_private.h"

#define BATCH_ARRAYS 17 /* three of 64 bits an occurrence, the others of 32 */
/* Arrays begin an odd number of cache lines after a multiple of their size: equal places in two of
 * them then do not fall on the same cache sets. */
#define STAGGER (5 * FTH_CACHE_LINE)

static size_t block_bytes(uint32_t capacity) {
    return (size_t)capacity * (3 * sizeof(uint64_t) + 14 * sizeof(uint32_t)) +
           BATCH_ARRAYS * STAGGER;
}

static void *carve(char **from, uint32_t capacity, size_t size) {
    void *array = *from;
    *from += capacity * size + STAGGER;
    return array;
}

static fth_status make_room(struct fth_embedding *embedding, uint64_t occurrences, fth_error *err) {
    if (occurrences > (uint64_t)1 << 31)
        return fth_fail(err, FTH_E_LIMIT, "a batch of more than 2^31 embedding keys");
    if (occurrences <= embedding->capacity)
        return FTH_OK;
    /* More than this batch has: of lists each has others, and all of a new block is touched anew. What is not used
     * takes no memory. */
    uint32_t capacity = (uint32_t)(occurrences + occurrences / 8);
    if (capacity < embedding->capacity / 2 * 3)
        capacity = embedding->capacity / 2 * 3;
    capacity = (capacity + 1023) / 1024 * 1024;
    char *block = fth_region_alloc(block_bytes(capacity));
    if (!block)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a batch of %u embedding keys", capacity);
    if (embedding->block)
        fth_region_free(embedding->block, block_bytes(embedding->capacity));
    embedding->block = block;
    embedding->capacity = capacity;
    embedding->part_hash = carve(&block, capacity, sizeof(uint64_t));
    embedding->hash = carve(&block, capacity, sizeof(uint64_t)); /* by_part these three are `missing` */
    embedding->shard_count = carve(&block, capacity, sizeof(uint32_t));
    embedding->unique_first = carve(&block, capacity, sizeof(uint32_t));
    embedding->seen = carve(&block, capacity, sizeof(uint64_t));
    uint32_t **arrays[] = {
        &embedding->item_of,      &embedding->item_count,   &embedding->item_first,
        &embedding->item_row,     &embedding->item_at,      &embedding->item_place, &embedding->list,
        &embedding->unique_row,   &embedding->unique_end,   &embedding->first_of,   &embedding->example_of};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        *arrays[i] = carve(&block, capacity, sizeof(uint32_t));
    embedding->unique_weight = carve(&block, capacity, sizeof(float));
    embedding->missing = (struct fth_missing *)(void *)embedding->hash;
    embedding->item_bucket = embedding->item_place;
    embedding->weight_of = (float *)(void *)embedding->seen;
    return FTH_OK;
}

/* Room for so many parts and units; there are no more parts than units. */
static fth_status make_parts(struct fth_embedding *embedding, uint64_t n, fth_error *err) {
    if (n <= embedding->parts_capacity)
        return FTH_OK;
    if (n > UINT32_MAX / 2)
        return fth_fail(err, FTH_E_LIMIT, "a batch of more than 2^31 embedding keys");
    struct fth_part *parts = fth_alloc(n + n / 2, sizeof *parts);
    uint32_t *order = fth_alloc(n + n / 2, sizeof *order);
    uint32_t *lookup_of = fth_alloc(n + n / 2, sizeof *lookup_of);
    if (!parts || !order || !lookup_of) {
        fth_free(parts);
        fth_free(order);
        fth_free(lookup_of);
        return fth_fail(err, FTH_E_MEMORY, "no memory for a batch of embedding keys");
    }
    fth_free(embedding->parts);
    fth_free(embedding->part_order);
    fth_free(embedding->lookup_of);
    embedding->parts = parts;
    embedding->part_order = order;
    embedding->lookup_of = lookup_of;
    embedding->parts_capacity = (uint32_t)(n + n / 2);
    return FTH_OK;
}

void fth_embedding_free_batch(struct fth_embedding *embedding) {
    if (embedding->block)
        fth_region_free(embedding->block, block_bytes(embedding->capacity));
    fth_free(embedding->parts);
    fth_free(embedding->part_order);
    fth_free(embedding->lookup_of);
}

static fth_status take_field(struct fth_embedding_lookup *lookup, const struct fth_batch *batch,
                             fth_error *err) {
    if (lookup->is.field >= batch->schema->n_fields)
        return fth_fail(err, FTH_E_ARGUMENT, "table '%s' looks up field %u of a batch of %u fields",
                        lookup->is.table, lookup->is.field, batch->schema->n_fields);
    const struct fth_keys *keys = &batch->fields[lookup->is.field];
    if (keys->group != lookup->is.group)
        return fth_fail(
            err, FTH_E_ARGUMENT,
            "table '%s' looks up field %u as of ragged group %d; the batch has it in %d",
            lookup->is.table, lookup->is.field, (int)lookup->is.group, (int)keys->group);
    lookup->unique.n = 0; /* until unique.c has numbered this batch */
    int ragged = keys->group != FTH_NO_GROUP;
    lookup->offsets = ragged ? batch->groups[keys->group].offsets : NULL;
    lookup->n = ragged ? batch->groups[keys->group].total : batch->n;
    lookup->keys = keys;
    lookup->buckets = batch->schema->field_buckets ? batch->schema->field_buckets[lookup->is.field] : 0;
    lookup->values = lookup->is.weighted ? keys->values : NULL;
    lookup->by_example = fth_lookup_pooled(&lookup->is) && !lookup->values && !lookup->argmax;
    for (uint32_t i = 0; lookup->share && i < batch->n; i++)
        lookup->share[i] = 1 / (float)(int32_t)(lookup->offsets[i + 1] - lookup->offsets[i]);
    return FTH_OK;
}

static struct fth_pack *pack_of(struct fth_embedding *embedding, uint32_t lookup) {
    return &embedding->packs[embedding->lookups[lookup].pack];
}

/* The number of a leading lookup's parts. */
static uint32_t parts_of(const struct fth_embedding *embedding, uint32_t lookup) {
    const struct fth_embedding_lookup *from = &embedding->lookups[lookup];
    return from->member > 0 ? 0 : from->n_parts;
}

/* part_order and each pack's place in it: a counting sort by pack. */
static void order_parts(struct fth_embedding *embedding) {
    for (uint32_t p = 0; p < embedding->n_packs; p++)
        embedding->packs[p].n_parts = 0;
    for (uint32_t i = 0; i < embedding->n_lookups; i++)
        pack_of(embedding, i)->n_parts += parts_of(embedding, i);
    uint32_t first = 0;
    for (uint32_t p = 0; p < embedding->n_packs; p++) {
        embedding->packs[p].first_part = first;
        first += embedding->packs[p].n_parts;
        embedding->packs[p].n_parts = 0;
    }
    for (uint32_t i = 0; i < embedding->n_lookups; i++) {
        struct fth_pack *pack = pack_of(embedding, i);
        for (uint32_t j = 0; j < parts_of(embedding, i); j++)
            embedding->part_order[pack->first_part + pack->n_parts++] =
                embedding->lookups[i].first_part + j;
    }
}

/* Units of so many numbers. */
static uint64_t units_of(const struct fth_embedding *embedding, uint64_t n) {
    return (n + ((uint64_t)1 << embedding->part_shift) - 1) >> embedding->part_shift;
}

/* A lookup's: as many as its occurrences need, and its sources. */
static uint64_t lookup_units(const struct fth_embedding *embedding,
                             const struct fth_embedding_lookup *lookup, uint32_t examples) {
    uint64_t n = lookup->n;
    if (n > 0 && lookup->by_example && n < examples)
        n = examples;
    return units_of(embedding, n);
}

#define SHARES 2 /* parts are at most this share of what a worker has to do */

/* Whether the keys of a leading lookup's table can be one part: they are a unit's (else not short_parts), or leave each
 * of the workers several of about their size, where rows are not trained item by item (single.c: a unit's at most) and
 * first occurrences are not asked for. */
static int one_part(struct fth_embedding *embedding, uint32_t head, uint64_t most) {
    const struct fth_pack *pack = pack_of(embedding, head);
    uint64_t units = 0, n = 0;
    for (uint32_t i = head; i != FTH_NO_LOOKUP; i = embedding->lookups[i].next) {
        units += units_of(embedding, embedding->lookups[i].n);
        n += embedding->lookups[i].n;
    }
    embedding->short_parts &= units <= 1;
    return units <= 1 || (n <= most && !pack->single && !pack->firsts);
}

/* A lookup is one part where that leaves each of the workers several of about its size. */
static uint32_t part_shift_of(const struct fth_embedding *embedding, uint32_t n, uint64_t most) {
    uint32_t shift = embedding->part_shift;
    while (shift < FTH_LONG_PART_SHIFT_MAX && n > (uint32_t)1 << shift && (uint64_t)2 << shift <= most)
        shift++;
    return shift;
}

/* The lookup's place among the numbers, from unit `unit` on. */
static void place_lookup(struct fth_embedding *embedding, uint32_t number, uint32_t unit, uint32_t units) {
    struct fth_embedding_lookup *lookup = &embedding->lookups[number];
    lookup->spread = !embedding->by_part;
    lookup->base = unit << embedding->part_shift;
    lookup->end = lookup->base + (units << embedding->part_shift);
    lookup->n_parts = 0;
    for (uint32_t i = 0; i < units; i++)
        embedding->lookup_of[unit + i] = number;
}

/* Its parts, behind the others', of at most `most` occurrences if they are larger than a unit; the size of one. */
static uint32_t cut_lookup(struct fth_embedding *embedding, uint32_t number, uint64_t most) {
    struct fth_embedding_lookup *lookup = &embedding->lookups[number];
    uint32_t shift = part_shift_of(embedding, lookup->n, most), size = (uint32_t)1 << shift;
    uint32_t first = lookup->first_part = embedding->n_parts;
    lookup->n_parts = (uint32_t)(((uint64_t)lookup->n + size - 1) >> shift);
    embedding->n_parts += lookup->n_parts;
    for (uint32_t i = 0, done = 0; i < lookup->n_parts; i++) {
        struct fth_part *part = &embedding->parts[first + i];
        part->lookup = number;
        part->shift = shift;
        part->by_bucket = 0;
        part->base = part->items = lookup->base + done;
        part->n = lookup->n - done < size ? lookup->n - done : size;
        done += part->n;
    }
    return size;
}

/* What an item costs beside an occurrence. */
#define ITEM_COST 8

#define MOST_PLACES 32 /* that a lookup moves up at once: thousands cost time, the next batch goes on */

/* by_cost after another batch. It changes little from batch to batch. */
static void sort_by_cost(struct fth_embedding *embedding) {
    uint32_t *by_cost = embedding->by_cost;
    for (uint32_t i = 0; i < embedding->n_lookups; i++) {
        struct fth_embedding_lookup *lookup = &embedding->lookups[by_cost[i]];
        if (lookup->n_parts == 1 && lookup->member == 0)
            lookup->cost = embedding->parts[lookup->first_part].n +
                           ITEM_COST * embedding->parts[lookup->first_part].n_items;
        uint32_t number = by_cost[i], at = i;
        for (; at > 0 && i - at < MOST_PLACES && embedding->lookups[by_cost[at - 1]].cost < lookup->cost; at--)
            by_cost[at] = by_cost[at - 1];
        by_cost[at] = number;
    }
}

/* The part of all of a table's keys, number `first`. */
static void cut_table(struct fth_embedding *embedding, uint32_t head, uint32_t number) {
    struct fth_part *part = &embedding->parts[number];
    *part = (struct fth_part){.lookup = head, .shift = embedding->part_shift};
    uint64_t units = 0;
    while (embedding->lookups[part->lookup].n == 0)
        part->lookup = embedding->lookups[part->lookup].next;
    part->base = part->items = embedding->lookups[part->lookup].base;
    for (uint32_t i = head; i != FTH_NO_LOOKUP; i = embedding->lookups[i].next) {
        units += units_of(embedding, embedding->lookups[i].n);
        part->n += embedding->lookups[i].n;
        embedding->lookups[i].first_part = number;
    }
    part->shift += units > 1;
    for (uint32_t i = head; i != FTH_NO_LOOKUP; i = embedding->lookups[i].next)
        embedding->lookups[i].spread = units > 1;
}

/* A part a table: worker w's run of the tasks, and of the segments of the updates behind it, are parts [w n /
 * workers, (w + 1) n / workers). The costliest go round, so that runs cost about the same, begin with their
 * large parts, and are the same ones' in the next batch. */
static void deal_parts(struct fth_embedding *embedding, uint32_t workers) {
    uint32_t next = 0;
    uint64_t n = embedding->n_parts;
    for (uint64_t round = 0; round * workers < n + workers; round++) {
        for (uint64_t w = 0; w < workers; w++) {
            uint64_t at = w * n / workers + round;
            if (at >= (w + 1) * n / workers)
                continue;
            while (parts_of(embedding, embedding->by_cost[next]) == 0)
                next++;
            cut_table(embedding, embedding->by_cost[next++], (uint32_t)at);
        }
    }
}

/* Places the lookups of a table one behind the other and cuts them, if not by_part; the size of its largest part. */
static uint64_t place_table(struct fth_embedding *embedding, uint32_t head, uint32_t *unit, uint32_t examples,
                            uint64_t most) {
    uint64_t largest = 0, all = 0;
    for (uint32_t i = head; i != FTH_NO_LOOKUP; i = embedding->lookups[i].next) {
        struct fth_embedding_lookup *lookup = &embedding->lookups[i];
        uint32_t own = (uint32_t)lookup_units(embedding, lookup, examples);
        place_lookup(embedding, i, *unit, own);
        *unit += own;
        all += units_of(embedding, lookup->n) << embedding->part_shift;
        uint32_t size = embedding->by_part ? 0 : cut_lookup(embedding, i, most);
        largest = largest > size ? largest : size;
    }
    if (!embedding->by_part)
        return largest;
    embedding->lookups[head].n_parts = all > 0;
    embedding->n_parts += all > 0;
    return all;
}

/* Sources are a row's, so all its members' lookups have to be content with examples. */
static fth_status take_fields(struct fth_embedding *embedding, const struct fth_batch *batch,
                              fth_error *err) {
    for (uint32_t i = 0; i < embedding->n_lookups; i++)
        FTH_TRY(take_field(&embedding->lookups[i], batch, err));
    for (uint32_t i = 0; i < embedding->n_lookups; i++)
        embedding->lookups[embedding->lookups[i].leading].by_example &=
            embedding->lookups[i].by_example;
    return FTH_OK;
}

/* Its occurrences are the leading one's. */
static void follow(struct fth_embedding_lookup *lookup, const struct fth_embedding_lookup *leading) {
    lookup->base = leading->base;
    lookup->end = leading->end;
    lookup->first_part = leading->first_part;
    lookup->n_parts = leading->n_parts;
    lookup->by_example = leading->by_example;
    lookup->spread = leading->spread;
}

fth_status fth_embedding_take_batch(struct fth_embedding *embedding, const struct fth_batch *batch,
                                    uint32_t workers, fth_error *err) {
    if (batch->n > embedding->max_batch)
        return fth_fail(err, FTH_E_ARGUMENT, "a batch of %u examples; embeddings were made for %u",
                        batch->n, embedding->max_batch);
    uint64_t units = 0;
    if (embedding->by_part)
        sort_by_cost(embedding);
    FTH_TRY(take_fields(embedding, batch, err));
    embedding->n_runs = 0;
    for (uint32_t i = 0; i < embedding->n_lookups; i++) {
        const struct fth_embedding_lookup *lookup = &embedding->lookups[i];
        embedding->n_keys += lookup->n;
        embedding->n_runs += units_of(embedding, lookup->n);
        units += lookup->member > 0 ? 0 : lookup_units(embedding, lookup, batch->n);
    }
    /* Room even where a batch has no key at all: what is read by lookup adds places to the arrays. */
    FTH_TRY(make_room(embedding, (units ? units : 1) << embedding->part_shift, err));
    FTH_TRY(make_parts(embedding, units, err));
    uint64_t most = (units << embedding->part_shift) / (SHARES * workers), largest = 0;
    int by_part = embedding->short_parts = 1;
    for (uint32_t i = 0; i < embedding->n_lookups; i++)
        by_part &= embedding->lookups[i].member > 0 || embedding->lookups[i].head != i || one_part(embedding, i, most);
    embedding->by_part = by_part;
    embedding->unique_count = by_part ? embedding->item_count : embedding->shard_count;
    embedding->item_weight = (float *)(void *)(by_part ? embedding->item_row : embedding->item_first);
    embedding->row_of = by_part ? embedding->first_of : embedding->item_of;
    uint32_t unit = 0;
    embedding->n_parts = 0;
    for (uint32_t i = 0; i < embedding->n_lookups; i++) {
        if (embedding->lookups[i].member > 0 || embedding->lookups[i].head != i)
            continue;
        uint64_t size = place_table(embedding, i, &unit, batch->n, most);
        largest = size > largest ? size : largest;
        if (by_part && size > (uint64_t)1 << embedding->part_shift)
            FTH_TRY(fth_table_part_room(embedding, i, err));
    }
    embedding->met_stride = largest * workers <= embedding->capacity ? (uint32_t)largest : 0;
    if (by_part)
        deal_parts(embedding, workers);
    for (uint32_t i = 0; i < embedding->n_lookups; i++)
        follow(&embedding->lookups[i], &embedding->lookups[embedding->lookups[i].leading]);
    if (!by_part)
        order_parts(embedding);
    return FTH_OK;
}
