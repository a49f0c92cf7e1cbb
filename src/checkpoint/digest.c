/* The digest: what training depends on, independent of how it is packed, ordered or written. Tensors and rows
 * are hashed one by one and the hashes added, so that their order does not matter. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/hash.h"
#include "checkpoint/checkpoint_private.h"

static fth_status no_memory(fth_error *err) {
    return fth_fail(err, FTH_E_MEMORY, "no memory for a digest");
}

static uint64_t hash_name(const char *name) {
    return fth_hash_bytes(name, strlen(name), 0);
}

/* row: room for one. */
static uint64_t hash_parameter(const struct fth_parameter *p, float *row) {
    size_t bytes = p->columns * sizeof *row;
    uint64_t hash = hash_name(p->name);
    for (uint32_t r = 0; r < p->rows; r++) {
        fth_parameter_get(p, r, 1, row);
        hash = fth_hash_bytes(row, bytes, hash);
    }
    for (uint32_t s = 0; s < p->n_slots; s++)
        for (uint32_t r = 0; r < p->rows; r++)
            hash = fth_hash_bytes(p->slots[s] + (size_t)r * p->ld, bytes, hash);
    return fth_hash_mix(hash);
}

static fth_status hash_dense(const fth_parameters *parameters, uint64_t *out, fth_error *err) {
    uint32_t columns = 1;
    for (uint32_t i = 0; i < parameters->n; i++)
        columns = parameters->items[i].columns > columns ? parameters->items[i].columns : columns;
    float *row = fth_alloc(columns, sizeof *row);
    if (!row)
        return no_memory(err);
    *out = 0;
    for (uint32_t i = 0; i < parameters->n; i++)
        *out += hash_parameter(&parameters->items[i], row);
    fth_free(row);
    return FTH_OK;
}

/* What each worker has buffers for: rows of a task. */
#define BUFFER_BYTES ((size_t)256 << 10)
#define MOST_AT_ONCE 1024u

struct hashed_rows {
    const fth_embedding *embedding;
    uint32_t pack;
    const struct fth_pack_info *info;
    uint32_t at_once;
    struct fth_row_arrays *buffers; /* [workers] */
    _Atomic uint64_t sum;
};

static void hash_rows(void *arg, uint32_t task, uint32_t worker) {
    struct hashed_rows *hashed = arg;
    const struct fth_pack_info *info = hashed->info;
    const struct fth_row_arrays *rows = &hashed->buffers[worker];
    uint64_t sum = 0, first = (uint64_t)task * hashed->at_once;
    uint64_t n = fth_embedding_export(hashed->embedding, hashed->pack, first, hashed->at_once, rows);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t head[3] = {rows->keys[i], rows->frequency[i], rows->last_step[i]};
        uint64_t hash = fth_hash_bytes(head, sizeof head, hash_name(info->table_names[rows->tables[i]]));
        hash = fth_hash_bytes(rows->weights + i * info->dim, info->dim * sizeof(float), hash);
        for (uint32_t s = 0; s < info->n_slots; s++)
            hash = fth_hash_bytes(rows->slots[s] + i * info->slot_columns[s], info->slot_columns[s] * sizeof(float), hash);
        sum += fth_hash_mix(hash);
    }
    atomic_fetch_add_explicit(&hashed->sum, sum, memory_order_relaxed);
}

/* By one worker, through its buffers. */
static uint64_t hash_candidates(const struct hashed_rows *hashed) {
    const struct fth_row_arrays *rows = &hashed->buffers[0];
    uint64_t sum = 0, n;
    for (uint64_t first = 0; first < hashed->info->candidates; first += n) {
        n = fth_embedding_export_candidates(hashed->embedding, hashed->pack, first, hashed->at_once, rows->keys,
                                            rows->tables, rows->frequency);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t head[2] = {rows->keys[i], rows->frequency[i]};
            uint64_t name = hash_name(hashed->info->table_names[rows->tables[i]]);
            sum += fth_hash_mix(fth_hash_bytes(head, sizeof head, ~name));
        }
        if (!n)
            break;
    }
    return sum;
}

static void buffers_free(struct fth_row_arrays *buffers, uint32_t n) {
    for (uint32_t i = 0; buffers && i < n; i++) {
        fth_free(buffers[i].keys);
        fth_free(buffers[i].tables);
        fth_free(buffers[i].weights);
        fth_free(buffers[i].frequency);
        fth_free(buffers[i].last_step);
        for (uint32_t s = 0; s < FTH_MAX_SLOTS; s++)
            fth_free(buffers[i].slots[s]);
    }
    fth_free(buffers);
}

static uint32_t rows_at_once(const struct fth_pack_info *info) {
    size_t floats = info->dim;
    for (uint32_t s = 0; s < info->n_slots; s++)
        floats += info->slot_columns[s];
    size_t rows = BUFFER_BYTES / (floats * sizeof(float));
    return rows > MOST_AT_ONCE ? MOST_AT_ONCE : rows ? (uint32_t)rows : 1;
}

/* Of n workers. NULL: no memory. */
static struct fth_row_arrays *buffers_create(const struct fth_pack_info *info, uint32_t at_once, uint32_t n) {
    struct fth_row_arrays *buffers = fth_alloc(n, sizeof *buffers);
    int ok = buffers != NULL;
    for (uint32_t i = 0; i < n && ok; i++) {
        struct fth_row_arrays *rows = &buffers[i];
        rows->keys = fth_alloc(at_once, sizeof *rows->keys);
        rows->tables = fth_alloc(at_once, sizeof *rows->tables);
        rows->weights = fth_alloc((size_t)at_once * info->dim, sizeof *rows->weights);
        rows->frequency = fth_alloc(at_once, sizeof *rows->frequency);
        rows->last_step = fth_alloc(at_once, sizeof *rows->last_step);
        ok = rows->keys && rows->tables && rows->weights && rows->frequency && rows->last_step;
        for (uint32_t s = 0; s < info->n_slots; s++) {
            rows->slots[s] = fth_alloc((size_t)at_once * info->slot_columns[s], sizeof *rows->slots[s]);
            ok = ok && rows->slots[s];
        }
    }
    if (ok)
        return buffers;
    buffers_free(buffers, n);
    return NULL;
}

static fth_status hash_packs(const struct fth_checkpoint_source *source, uint64_t *out, fth_error *err) {
    const fth_embedding *embedding = source->embedding;
    *out = 0;
    for (uint32_t p = 0; embedding && p < fth_embedding_packs(embedding); p++) {
        struct fth_pack_info info;
        fth_embedding_pack_info(embedding, p, &info);
        uint32_t workers = fth_pool_size(source->pool), at_once = rows_at_once(&info);
        struct hashed_rows hashed = {embedding, p, &info, at_once, buffers_create(&info, at_once, workers), 0};
        if (!hashed.buffers)
            return no_memory(err);
        fth_pool_for(source->pool, (uint32_t)((info.rows + at_once - 1) / at_once), hash_rows, &hashed);
        *out += hashed.sum + hash_candidates(&hashed);
        buffers_free(hashed.buffers, workers);
    }
    return FTH_OK;
}

fth_status fth_checkpoint_digest_u64(const struct fth_checkpoint_source *source, const struct fth_checkpoint_state *state,
                                     uint64_t *out, fth_error *err) {
    uint64_t dense = 0, rows = 0;
    FTH_TRY(hash_dense(source->parameters, &dense, err));
    FTH_TRY(hash_packs(source, &rows, err));
    char *features = json_dumps(state->features, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    if (!features)
        return no_memory(err);
    uint64_t hash = fth_hash_bytes(features, strlen(features), 1) + (uint64_t)state->evaluation_due;
    free(features);
    const struct fth_position *at = &state->position;
    uint64_t best = 0; /* all values that are not numbers are one */
    if (!isnan(state->best_metric))
        memcpy(&best, &state->best_metric, sizeof best);
    uint64_t head[] = {dense, rows, state->step, state->seed, at->epoch,
                       at->file_index, at->byte_offset, at->line, at->example, at->block, at->taken,
                       at->examples_seen, at->lines_read, at->lines_bad, best, state->best_step,
                       state->evaluations_without_better, (uint64_t)state->stopped_early};
    *out = fth_hash_bytes(head, sizeof head, hash);
    return FTH_OK;
}

fth_status fth_checkpoint_digest_of(const struct fth_checkpoint_source *source, const struct fth_checkpoint_state *state,
                                    char out[17], fth_error *err) {
    uint64_t digest = 0;
    FTH_TRY(fth_checkpoint_digest_u64(source, state, &digest, err));
    snprintf(out, 17, "%016llx", (unsigned long long)digest);
    return FTH_OK;
}
