/* Packs, shards and rows: making and freeing them, new rows, candidates. See shard.h for layout,
 * threads and invariants. Once every key is known nothing here runs any more; while keys are new,
 * memory is taken only to double an index or a list. */
#include "embedding/shard.h"

#include <math.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/random.h"

#define FIRST_CAPACITY 16 /* of lists */
#define FIRST_GROUPS 2u
#define MOST_GROUPS ((uint32_t)1 << 27)
#define CHUNK_FETCHED 1024 /* bytes of a new chunk's rows that are asked for */
#define ROWS_AHEAD 16      /* whose groups an index that doubles asks for */

/* Takes the bytes and returns 1, or 0 when they would pass the limit. */
static int take_bytes(struct fth_budget *budget, uint64_t bytes) {
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

uint64_t fth_pack_row_bytes(const struct fth_pack *pack) {
    return (uint64_t)pack->stride * sizeof(float) + (pack->tail ? 0 : sizeof(struct fth_row_meta));
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

static fth_status lay_out_member(struct fth_member *member, uint64_t *floats, fth_error *err) {
    uint32_t dim = member->dim, n_slots = member->optimizer->is->n_slots;
    uint64_t most = UINT32_MAX / 64;
    if (dim == 0 || dim > most / 3 || *floats > most - (1 + n_slots) * (uint64_t)dim)
        return fth_fail(err, FTH_E_ARGUMENT,
                        "embedding dimension %u: must be at least 1, and a row's weights and slots %u at most",
                        dim, (uint32_t)most);
    member->at = (uint32_t)*floats;
    *floats += dim;
    for (uint32_t i = 0; i < n_slots; i++) {
        member->slot_at[i] = (uint32_t)*floats;
        member->slot_columns[i] = member->optimizer->is->rowwise ? 1 : dim;
        *floats += member->slot_columns[i];
    }
    member->floats = (uint32_t)*floats - member->at;
    return FTH_OK;
}

static uint64_t round_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

static fth_status lay_out_row(struct fth_pack *pack, fth_error *err) {
    uint64_t floats = 0;
    for (uint32_t m = 0; m < pack->n_members; m++)
        FTH_TRY(lay_out_member(&pack->members[m], &floats, err));
    uint64_t unit = floats >= 16 ? 16 : 4, padded = round_up(floats, unit), with_tail = floats + FTH_TAIL_FLOATS;
    int fits = pack->n_tables <= UINT16_MAX + 1;
    pack->tail = fits && (with_tail <= padded || floats <= FTH_SMALL_FLOATS);
    if (pack->tail) /* half a line less takes no more lines */
        padded = round_up(with_tail, 8);
    pack->stride = (uint32_t)padded;
    pack->first = fth_alloc(padded, sizeof *pack->first);
    if (!pack->first)
        return fth_fail(err, FTH_E_MEMORY, "no memory for an embedding row");
    for (uint32_t m = 0; m < pack->n_members; m++) {
        const struct fth_member *member = &pack->members[m];
        const struct fth_row_optimizer *optimizer = member->optimizer;
        for (uint32_t i = 0; i < optimizer->is->n_slots; i++)
            for (uint32_t c = 0; c < member->slot_columns[i]; c++)
                pack->first[member->slot_at[i] + c] = optimizer->is->initial(&optimizer->config, i);
    }
    return FTH_OK;
}

fth_status fth_pack_create(struct fth_pack *pack, fth_error *err) {
    FTH_TRY(lay_out_row(pack, err));
    /* One more chunk for row 0, one because the limit may end inside a chunk. */
    pack->max_rows = pack->budget->limit / fth_pack_row_bytes(pack) + 2 * FTH_ROW_CHUNK;
    if (pack->max_rows > FTH_ROW_CANDIDATE)
        pack->max_rows = FTH_ROW_CANDIDATE;
    pack->next_chunk = 1;
    void *block;
    FTH_TRY(
        region(pack->max_rows, pack->stride * sizeof(float), pack->config.huge_pages, &block, err));
    pack->rows = block;
    if (!pack->tail) {
        FTH_TRY(region(pack->max_rows, sizeof(struct fth_row_meta), pack->config.huge_pages, &block,
                       err));
        pack->metas = block;
    }
    pack->hashes = pack->tail ? (const char *)&fth_pack_tail(pack, 0)->hash
                              : (const char *)pack->metas + offsetof(struct fth_row_meta, hash);
    pack->hash_stride = pack->tail ? pack->stride * sizeof(float) : sizeof(struct fth_row_meta);
    pack->shards = fth_alloc(FTH_SHARDS, sizeof *pack->shards);
    if (!pack->shards)
        return fth_fail(err, FTH_E_MEMORY, "no memory for an embedding pack's shards");
    pack->index_space.n = FTH_SHARDS;
    for (uint32_t i = 0; i < FTH_SHARDS; i++)
        FTH_TRY(fth_index_create(&pack->shards[i].index, &pack->index_space, i, FIRST_GROUPS,
                                 err));
    if (!take_bytes(pack->budget, FTH_SHARDS * FIRST_GROUPS * sizeof(struct fth_index_group)))
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
    for (uint32_t t = 0; pack->tables && t < pack->n_tables; t++)
        fth_free(pack->tables[t].row_of_bucket);
    for (uint32_t m = 0; pack->members && m < pack->n_members; m++)
        fth_free(pack->members[m].tables);
    fth_free(pack->members);
    fth_free(pack->first);
}

struct fth_row_meta fth_pack_get_meta(const struct fth_pack *pack, uint32_t row) {
    if (!pack->tail)
        return pack->metas[row];
    const struct fth_row_tail *tail = fth_pack_tail(pack, row);
    return (struct fth_row_meta){
        .hash = tail->hash,
        .frequency = fth_tail_frequency(tail),
        .last_step = (uint64_t)(tail->high >> 8 & 0xff) << 32 | tail->last_step,
        .table = tail->high >> 16,
    };
}

static inline void set_meta(const struct fth_pack *pack, uint32_t row, const struct fth_row_meta *meta) {
    if (!pack->tail) {
        /* Number by number: copied as a whole it would be loaded from the stack by vectors, which waits for all stores
         * before, and those to a new row miss the cache. */
        struct fth_row_meta *to = &pack->metas[row];
        to->hash = meta->hash;
        to->frequency = meta->frequency;
        to->last_step = meta->last_step;
        to->table = meta->table;
        return;
    }
    struct fth_row_tail *tail = fth_pack_tail(pack, row);
    tail->hash = meta->hash;
    fth_tail_set(tail, meta->table, meta->frequency, meta->last_step);
}

void fth_pack_set_meta(const struct fth_pack *pack, uint32_t row, const struct fth_row_meta *meta) {
    set_meta(pack, row, meta);
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

uint64_t fth_pack_chunks(const struct fth_pack *pack) {
    uint64_t chunks = 0;
    for (uint32_t i = 0; i < FTH_SHARDS; i++)
        chunks += pack->shards[i].n_chunks;
    return chunks;
}

uint64_t fth_pack_bytes(const struct fth_pack *pack) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < FTH_SHARDS; i++) {
        const struct fth_shard *shard = &pack->shards[i];
        bytes += shard->n_chunks * FTH_ROW_CHUNK * fth_pack_row_bytes(pack) +
                 fth_index_bytes(&shard->index) +
                 shard->candidates_capacity * sizeof(struct fth_candidate);
    }
    return bytes;
}

/* The shard's rows are walked through as they were made, so their memory is read in order. */
static fth_status grow_index(const struct fth_pack *pack, struct fth_shard *shard, uint32_t n_groups, fth_error *err) {
    struct fth_index *index = &shard->index, bigger;
    if (n_groups > MOST_GROUPS)
        return fth_fail(err, FTH_E_LIMIT, "an embedding index has reached 2^30 keys");
    FTH_TRY(fth_index_create(&bigger, index->space, index->number, n_groups, err));
    for (uint32_t i = 0; i < shard->n_rows; i++) {
        uint32_t row = fth_shard_row(shard, i);
        if (i + ROWS_AHEAD < shard->n_rows)
            fth_index_prefetch(&bigger, *fth_pack_hash_at(pack, fth_shard_row(shard, i + ROWS_AHEAD)));
        fth_index_insert(&bigger, fth_shard_hash(pack, shard, row), row);
    }
    for (uint32_t i = 0; i < shard->n_candidates; i++) {
        uint32_t row = i | FTH_ROW_CANDIDATE;
        fth_index_insert(&bigger, fth_shard_hash(pack, shard, row), row);
    }
    fth_index_destroy(index);
    *index = bigger;
    return FTH_OK;
}

/* What is not grown is not counted. */
static fth_status grow_within_budget(struct fth_pack *pack, struct fth_shard *shard, uint32_t n_groups, fth_error *err) {
    uint64_t bytes = (uint64_t)(n_groups - shard->index.n_groups) * sizeof(struct fth_index_group);
    if (!take_bytes(pack->budget, bytes))
        return past_limit(err);
    fth_status status = grow_index(pack, shard, n_groups, err);
    if (status != FTH_OK)
        atomic_fetch_sub_explicit(&pack->budget->used, bytes, memory_order_relaxed);
    return status;
}

void fth_pack_reserve(struct fth_pack *pack, uint64_t keys) {
    double mean = (double)keys / FTH_SHARDS, fewest = mean - 5 * sqrt(mean); /* of a shard: five deviations */
    uint32_t n_groups = FIRST_GROUPS;
    while (n_groups < MOST_GROUPS && (double)n_groups * FTH_INDEX_LOAD < fewest)
        n_groups *= 2;
    for (uint32_t i = 0; i < FTH_SHARDS; i++)
        if (pack->shards[i].index.n_groups < n_groups &&
            grow_within_budget(pack, &pack->shards[i], n_groups, NULL) != FTH_OK)
            return;
}

/* Room for one more key. */
static inline fth_status reserve_entry(struct fth_pack *pack, struct fth_shard *shard, fth_error *err) {
    return fth_index_full(&shard->index) ? grow_within_budget(pack, shard, shard->index.n_groups * 2, err) : FTH_OK;
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
    if (!take_bytes(pack->budget, FTH_ROW_CHUNK * fth_pack_row_bytes(pack)))
        return past_limit(err);
    uint32_t chunk = atomic_fetch_add_explicit(&pack->next_chunk, 1, memory_order_relaxed);
    if (((uint64_t)chunk + 1) * FTH_ROW_CHUNK > pack->max_rows)
        return fth_fail(err, FTH_E_LIMIT, "an embedding pack is full at %llu rows",
                        (unsigned long long)pack->max_rows);
    shard->chunks[shard->n_chunks++] = chunk;
    const char *rows = (const char *)fth_pack_row(pack, chunk * FTH_ROW_CHUNK);
    for (size_t at = 0; at < FTH_ROW_CHUNK * pack->stride * sizeof(float) && at < CHUNK_FETCHED; at += FTH_CACHE_LINE)
        __builtin_prefetch(rows + at, 1, 2);
    if (pack->tail)
        return FTH_OK;
    const char *metas = (const char *)&pack->metas[chunk * FTH_ROW_CHUNK];
    for (size_t at = 0; at < FTH_ROW_CHUNK * sizeof *pack->metas; at += FTH_CACHE_LINE)
        __builtin_prefetch(metas + at, 1, 2);
    return FTH_OK;
}

static __attribute__((noinline)) void draw_weights(const struct fth_pack *pack, const struct fth_member *member,
                                                   uint32_t table, uint64_t hash, float *row) {
    const struct fth_embedding_config *config = &pack->config;
    float scale = (float)config->init_scale, *weights = row + member->at;
    uint64_t seed = pack->seed ^ member->tables[table].hash, key = fth_pack_key(&pack->tables[table], hash);
    if (config->init == FTH_INIT_NORMAL)
        fth_random_normal(seed, FTH_RANDOM_ROW_INIT, key, member->dim, 0, scale, weights);
    else
        pack->kernels->draw_uniform(seed, FTH_RANDOM_ROW_INIT, key, member->dim, -scale, scale, weights);
    if (member->optimizer->is->begin)
        member->optimizer->is->begin(&member->optimizer->config, member->dim, weights,
                                     (float *[]){row + member->slot_at[0], row + member->slot_at[1]});
}

static inline void set_first_values(const struct fth_pack *pack, uint32_t table, uint64_t hash, float *row) {
    if (pack->stride == FTH_SMALL_FLOATS + FTH_TAIL_FLOATS) /* linear terms: no call */
        memcpy(row, pack->first, (FTH_SMALL_FLOATS + FTH_TAIL_FLOATS) * sizeof *row);
    else
        memcpy(row, pack->first, pack->stride * sizeof *row);
    for (uint32_t m = 0; pack->config.init != FTH_INIT_ZERO && m < pack->n_members; m++)
        if (!pack->members[m].tables[table].zero_init)
            draw_weights(pack, &pack->members[m], table, hash, row);
}

/* Takes candidate `number` out; the last one takes its place, and its entry learns of it. */
static void remove_candidate(struct fth_pack *pack, struct fth_shard *shard, uint32_t number) {
    uint32_t last = shard->n_candidates - 1;
    if (number != last) {
        uint64_t hash = fth_shard_hash(pack, shard, last | FTH_ROW_CANDIDATE);
        *fth_shard_find(pack, shard, hash) = number | FTH_ROW_CANDIDATE;
        shard->candidates[number] = shard->candidates[last];
    }
    shard->n_candidates = last;
}

fth_status fth_shard_add_row(struct fth_pack *pack, struct fth_shard *shard, uint64_t hash,
                             uint32_t table, uint32_t *entry, uint32_t *row, fth_error *err) {
    if (!entry)
        FTH_TRY(reserve_entry(pack, shard, err));
    if (shard->n_rows == shard->n_chunks * FTH_ROW_CHUNK)
        FTH_TRY(take_chunk(pack, shard, err));
    uint32_t number = fth_shard_row(shard, shard->n_rows++);
    struct fth_row_meta meta = {.hash = hash, .table = table};
    set_first_values(pack, table, hash, fth_pack_row(pack, number));
    if (entry) {
        uint32_t candidate = *entry & ~FTH_ROW_CANDIDATE;
        meta.frequency = shard->candidates[candidate].count;
        *entry = number;
        remove_candidate(pack, shard, candidate);
    } else {
        fth_index_insert(&shard->index, hash, number);
    }
    set_meta(pack, number, &meta);
    *row = number;
    return FTH_OK;
}

fth_status fth_shard_add_candidate(struct fth_pack *pack, struct fth_shard *shard, uint64_t hash,
                                   uint32_t table, fth_error *err) {
    FTH_TRY(reserve_entry(pack, shard, err));
    if (shard->n_candidates == shard->candidates_capacity) {
        uint32_t more = shard->candidates_capacity ? shard->candidates_capacity : FIRST_CAPACITY;
        if (!take_bytes(pack->budget, more * sizeof(struct fth_candidate)))
            return past_limit(err);
        void *list = shard->candidates;
        FTH_TRY(grow_list(&list, &shard->candidates_capacity, sizeof *shard->candidates, err));
        shard->candidates = list;
    }
    fth_index_insert(&shard->index, hash, shard->n_candidates | FTH_ROW_CANDIDATE);
    shard->candidates[shard->n_candidates++] =
        (struct fth_candidate){.key = fth_pack_key(&pack->tables[table], hash), .table = table};
    return FTH_OK;
}
