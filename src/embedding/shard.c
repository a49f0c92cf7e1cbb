/* Packs, shards and rows: making and freeing them, new rows, candidates. See shard.h for layout,
 * threads and invariants. Once every key is known nothing here runs any more; while keys are new,
 * memory is taken only to double an index or a list. */
#include "embedding/shard.h"

#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/random.h"

#define FIRST_CAPACITY 16

int fth_budget_take(struct fth_budget *budget, uint64_t bytes) {
    uint64_t before = atomic_fetch_add_explicit(&budget->used, bytes, memory_order_relaxed);
    if (before + bytes <= budget->limit)
        return 1;
    atomic_fetch_sub_explicit(&budget->used, bytes, memory_order_relaxed);
    return 0;
}

static fth_status past_limit(fth_error *err) {
    /* prepare and import put names and numbers in place of this. */
    return fth_fail(err, FTH_E_LIMIT, "embedding.memory_limit is reached");
}

static uint64_t row_bytes(const struct fth_pack *pack) {
    return (uint64_t)pack->stride * sizeof(float) + sizeof(struct fth_row_meta);
}

static fth_status region(size_t count, size_t size, int huge_pages, void **out, fth_error *err) {
    size_t bytes;
    void *block = fth_mul_size(count, size, &bytes) ? fth_region_alloc(bytes) : NULL;
    if (!block)
        return fth_fail(err, FTH_E_MEMORY,
                        "cannot reserve address space for %zu embedding rows of %zu bytes: a lower "
                        "embedding.memory_limit reserves less",
                        count, size);
    if (!huge_pages)
        (void)madvise(block, bytes, MADV_NOHUGEPAGE); /* only advice */
    *out = block;
    return FTH_OK;
}

static fth_status lay_out_row(struct fth_pack *pack, const struct fth_optimizer_config *config,
                              fth_error *err) {
    uint64_t floats = pack->dim;
    for (uint32_t i = 0; i < pack->optimizer->n_slots; i++) {
        pack->slot_at[i] = (uint32_t)floats;
        pack->slot_columns[i] = pack->optimizer->rowwise ? 1 : pack->dim;
        pack->slot_first[i] = pack->optimizer->initial(config, i);
        floats += pack->slot_columns[i];
    }
    uint64_t unit = floats >= 16 ? 16 : 4;
    floats = (floats + unit - 1) / unit * unit;
    if (pack->dim == 0 || floats > UINT32_MAX / 64)
        return fth_fail(err, FTH_E_ARGUMENT, "embedding dimension %u: must be 1 to %u", pack->dim,
                        UINT32_MAX / 64 / 3);
    pack->stride = (uint32_t)floats;
    return FTH_OK;
}

fth_status fth_pack_create(struct fth_pack *pack, const struct fth_optimizer_config *optimizer,
                           fth_error *err) {
    FTH_TRY(lay_out_row(pack, optimizer, err));
    /* One more chunk for row 0, one because the limit may end inside a chunk. */
    pack->max_rows = pack->budget->limit / row_bytes(pack) + 2 * FTH_ROW_CHUNK;
    if (pack->max_rows > FTH_ROW_CANDIDATE)
        pack->max_rows = FTH_ROW_CANDIDATE;
    pack->next_chunk = 1;
    void *block;
    FTH_TRY(
        region(pack->max_rows, pack->stride * sizeof(float), pack->config.huge_pages, &block, err));
    pack->rows = block;
    FTH_TRY(
        region(pack->max_rows, sizeof(struct fth_row_meta), pack->config.huge_pages, &block, err));
    pack->metas = block;
    pack->shards = fth_alloc(FTH_SHARDS, sizeof *pack->shards);
    if (!pack->shards)
        return fth_fail(err, FTH_E_MEMORY, "no memory for an embedding pack's shards");
    pack->index_space.n = FTH_SHARDS;
    for (uint32_t i = 0; i < FTH_SHARDS; i++)
        FTH_TRY(fth_index_create(&pack->shards[i].index, &pack->index_space, i, FIRST_CAPACITY,
                                 err));
    if (!fth_budget_take(pack->budget, FTH_SHARDS * FIRST_CAPACITY * FTH_INDEX_SLOT_BYTES))
        return fth_fail(err, FTH_E_LIMIT,
                        "embedding.memory_limit of %llu bytes is too small to hold empty tables",
                        (unsigned long long)pack->budget->limit);
    return FTH_OK;
}

void fth_pack_destroy(struct fth_pack *pack) {
    for (uint32_t i = 0; pack->shards && i < FTH_SHARDS; i++) {
        fth_index_destroy(&pack->shards[i].index);
        fth_free(pack->shards[i].chunks);
        fth_free(pack->shards[i].candidates);
    }
    fth_index_space_free(&pack->index_space);
    fth_free(pack->shards);
    fth_region_free(pack->rows, pack->max_rows * pack->stride * sizeof(float));
    fth_region_free(pack->metas, pack->max_rows * sizeof(struct fth_row_meta));
    fth_free(pack->tables);
    fth_free(pack->table_names);
}

uint64_t fth_pack_rows(const struct fth_pack *pack) {
    uint64_t rows = 0;
    for (uint32_t i = 0; i < FTH_SHARDS; i++)
        rows += pack->shards[i].n_rows;
    return rows;
}

uint64_t fth_pack_candidates(const struct fth_pack *pack) {
    uint64_t candidates = 0;
    for (uint32_t i = 0; i < FTH_SHARDS; i++)
        candidates += pack->shards[i].n_candidates;
    return candidates;
}

uint64_t fth_pack_bytes(const struct fth_pack *pack) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < FTH_SHARDS; i++) {
        const struct fth_shard *shard = &pack->shards[i];
        bytes += shard->n_chunks * FTH_ROW_CHUNK * row_bytes(pack) +
                 shard->index.capacity * FTH_INDEX_SLOT_BYTES +
                 shard->candidates_capacity * sizeof(struct fth_candidate);
    }
    return bytes;
}

fth_status fth_shard_slot(struct fth_pack *pack, struct fth_shard *shard, uint64_t hash,
                          uint32_t *at, fth_error *err) {
    struct fth_index *index = &shard->index;
    int found;
    *at = fth_index_find(index, hash, &found);
    if (found)
        return FTH_OK;
    if (fth_index_full(index)) {
        if (!fth_budget_take(pack->budget, index->capacity * FTH_INDEX_SLOT_BYTES))
            return past_limit(err);
        FTH_TRY(fth_index_grow(index, err));
        *at = fth_index_find(index, hash, &found);
    }
    fth_index_fill(index, *at, hash);
    return FTH_OK;
}

/* Doubles an owned array; the new capacity is in *capacity. */
static fth_status grow_list(void **list, uint32_t *capacity, size_t size, fth_error *err) {
    uint32_t more = *capacity ? *capacity * 2 : FIRST_CAPACITY;
    void *bigger = more > *capacity ? fth_alloc(more, size) : NULL;
    if (!bigger)
        return fth_fail(err, FTH_E_MEMORY, "no memory for %u entries of an embedding shard", more);
    if (*capacity)
        memcpy(bigger, *list, *capacity * size);
    fth_free(*list);
    *list = bigger;
    *capacity = more;
    return FTH_OK;
}

static fth_status take_chunk(struct fth_pack *pack, struct fth_shard *shard, fth_error *err) {
    if (shard->n_chunks == shard->chunks_capacity) {
        void *list = shard->chunks;
        FTH_TRY(grow_list(&list, &shard->chunks_capacity, sizeof *shard->chunks, err));
        shard->chunks = list;
    }
    if (!fth_budget_take(pack->budget, FTH_ROW_CHUNK * row_bytes(pack)))
        return past_limit(err);
    uint32_t chunk = atomic_fetch_add_explicit(&pack->next_chunk, 1, memory_order_relaxed);
    if (((uint64_t)chunk + 1) * FTH_ROW_CHUNK > pack->max_rows)
        return fth_fail(err, FTH_E_LIMIT, "an embedding pack is full at %llu rows",
                        (unsigned long long)pack->max_rows);
    shard->chunks[shard->n_chunks++] = chunk;
    return FTH_OK;
}

static void set_first_values(const struct fth_pack *pack, const struct fth_table *table,
                             uint64_t key, float *row) {
    const struct fth_embedding_config *config = &pack->config;
    float scale = (float)config->init_scale;
    uint64_t seed = pack->seed ^ table->hash;
    if (table->zero_init || config->init == FTH_INIT_ZERO)
        memset(row, 0, pack->dim * sizeof *row);
    else if (config->init == FTH_INIT_NORMAL)
        fth_random_normal(seed, FTH_RANDOM_ROW_INIT, key, pack->dim, 0, scale, row);
    else
        fth_random_uniform(seed, FTH_RANDOM_ROW_INIT, key, pack->dim, -scale, scale, row);
    for (uint32_t i = 0; i < pack->optimizer->n_slots; i++) {
        for (uint32_t j = 0; j < pack->slot_columns[i]; j++)
            row[pack->slot_at[i] + j] = pack->slot_first[i];
    }
}

/* Takes candidate `number` out; the last one takes its place, and its slot learns of it. */
static void remove_candidate(struct fth_pack *pack, struct fth_shard *shard, uint32_t number) {
    struct fth_candidate *last = &shard->candidates[--shard->n_candidates];
    if (number == shard->n_candidates)
        return;
    int found;
    uint32_t at =
        fth_index_find(&shard->index, fth_pack_hash(&pack->tables[last->table], last->key), &found);
    shard->index.slots[at].row = number | FTH_ROW_CANDIDATE;
    shard->candidates[number] = *last;
}

fth_status fth_shard_add_row(struct fth_pack *pack, struct fth_shard *shard, uint32_t at,
                             uint64_t key, uint32_t table, uint32_t *row, fth_error *err) {
    if (shard->n_rows == shard->n_chunks * FTH_ROW_CHUNK)
        FTH_TRY(take_chunk(pack, shard, err));
    uint32_t number = fth_shard_row(shard, shard->n_rows++);
    struct fth_row_meta *meta = &pack->metas[number];
    *meta = (struct fth_row_meta){.key = key, .table = table};
    uint32_t before = shard->index.slots[at].row;
    if (before & FTH_ROW_CANDIDATE) {
        meta->frequency = shard->candidates[before & ~FTH_ROW_CANDIDATE].count;
        remove_candidate(pack, shard, before & ~FTH_ROW_CANDIDATE);
    }
    set_first_values(pack, &pack->tables[table], key, fth_pack_row(pack, number));
    shard->index.slots[at].row = number;
    *row = number;
    return FTH_OK;
}

fth_status fth_shard_add_candidate(struct fth_pack *pack, struct fth_shard *shard, uint32_t at,
                                   uint64_t key, uint32_t table, fth_error *err) {
    if (shard->n_candidates == shard->candidates_capacity) {
        uint32_t more = shard->candidates_capacity ? shard->candidates_capacity : FIRST_CAPACITY;
        if (!fth_budget_take(pack->budget, more * sizeof(struct fth_candidate)))
            return past_limit(err);
        void *list = shard->candidates;
        FTH_TRY(grow_list(&list, &shard->candidates_capacity, sizeof *shard->candidates, err));
        shard->candidates = list;
    }
    shard->index.slots[at].row = shard->n_candidates | FTH_ROW_CANDIDATE;
    shard->candidates[shard->n_candidates++] = (struct fth_candidate){.key = key, .table = table};
    return FTH_OK;
}
