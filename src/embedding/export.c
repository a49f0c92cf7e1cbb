/* Moving rows out of and into packs: checkpoints, inspection, initial weights. Order: shard by
 * shard, in each the order in which rows were made; importing in that order gives it again, because
 * a key's shard never changes.
 *
 * Threads: the owner's, between steps. */
#include <string.h>

#include "embedding/embedding_private.h"

static void copy_out(const struct fth_pack *pack, uint32_t row, const struct fth_row_arrays *arrays,
                     uint64_t i) {
    struct fth_row_meta meta = fth_pack_get_meta(pack, row);
    const float *from = fth_pack_row(pack, row);
    if (arrays->keys)
        arrays->keys[i] = fth_pack_key(&pack->tables[meta.table], meta.hash);
    if (arrays->tables)
        arrays->tables[i] = meta.table;
    if (arrays->weights)
        memcpy(arrays->weights + i * pack->dim, from, pack->dim * sizeof(float));
    for (uint32_t s = 0; s < pack->optimizer->n_slots; s++) {
        if (arrays->slots[s])
            memcpy(arrays->slots[s] + i * pack->slot_columns[s], from + pack->slot_at[s],
                   pack->slot_columns[s] * sizeof(float));
    }
    if (arrays->frequency)
        arrays->frequency[i] = meta.frequency;
    if (arrays->last_step)
        arrays->last_step[i] = meta.last_step;
}

uint64_t fth_embedding_export(const fth_embedding *embedding, uint32_t number, uint64_t first,
                              uint64_t max, const struct fth_row_arrays *arrays) {
    const struct fth_pack *pack = &embedding->packs[number];
    uint64_t before = 0, n = 0;
    for (uint32_t s = 0; s < FTH_SHARDS && n < max; s++) {
        const struct fth_shard *shard = &pack->shards[s];
        for (; first + n < before + shard->n_rows && n < max; n++)
            copy_out(pack, fth_shard_row(shard, (uint32_t)(first + n - before)), arrays, n);
        before += shard->n_rows;
    }
    return n;
}

uint64_t fth_embedding_export_candidates(const fth_embedding *embedding, uint32_t number,
                                         uint64_t first, uint64_t max, uint64_t *keys,
                                         uint32_t *tables, uint64_t *counts) {
    const struct fth_pack *pack = &embedding->packs[number];
    uint64_t before = 0, n = 0;
    for (uint32_t s = 0; s < FTH_SHARDS && n < max; s++) {
        const struct fth_shard *shard = &pack->shards[s];
        for (; first + n < before + shard->n_candidates && n < max; n++) {
            const struct fth_candidate *candidate = &shard->candidates[first + n - before];
            if (keys)
                keys[n] = candidate->key;
            if (tables)
                tables[n] = candidate->table;
            if (counts)
                counts[n] = candidate->count;
        }
        before += shard->n_candidates;
    }
    return n;
}

static void copy_in(const struct fth_pack *pack, uint32_t row, const struct fth_row_arrays *arrays,
                    uint64_t i) {
    struct fth_row_meta meta = fth_pack_get_meta(pack, row);
    float *to = fth_pack_row(pack, row);
    if (arrays->weights)
        memcpy(to, arrays->weights + i * pack->dim, pack->dim * sizeof(float));
    for (uint32_t s = 0; s < pack->optimizer->n_slots; s++) {
        if (arrays->slots[s])
            memcpy(to + pack->slot_at[s], arrays->slots[s] + i * pack->slot_columns[s],
                   pack->slot_columns[s] * sizeof(float));
    }
    if (arrays->frequency)
        meta.frequency = arrays->frequency[i];
    if (arrays->last_step)
        meta.last_step = arrays->last_step[i];
    fth_pack_set_meta(pack, row, &meta);
}

/* The key's shard, its hash and its index entry, NULL when it has none. */
static fth_status find_key(const struct fth_pack *pack, uint64_t key, uint32_t table,
                           struct fth_shard **shard, uint64_t *hash, uint32_t **entry,
                           fth_error *err) {
    if (table >= pack->n_tables)
        return fth_fail(err, FTH_E_CHECKPOINT,
                        "an embedding row of table number %u in a pack of %u", table,
                        pack->n_tables);
    *hash = fth_pack_hash(&pack->tables[table], key);
    *shard = &pack->shards[fth_shard_of(*hash)];
    *entry = fth_shard_find(pack, *shard, *hash);
    return FTH_OK;
}

fth_status fth_embedding_import(fth_embedding *embedding, uint32_t number, uint64_t n,
                                const struct fth_row_arrays *arrays, fth_error *err) {
    struct fth_pack *pack = &embedding->packs[number];
    if (!arrays->keys || !arrays->tables)
        return fth_fail(err, FTH_E_ARGUMENT, "embedding rows need keys and tables");
    embedding->batch = NULL; /* rows found before may have a row now */
    embedding->n_tasks = 0;
    for (uint64_t i = 0; i < n; i++) {
        struct fth_shard *shard;
        uint64_t hash;
        uint32_t row, *entry, table = arrays->tables[i];
        FTH_TRY(find_key(pack, arrays->keys[i], table, &shard, &hash, &entry, err));
        row = entry ? *entry : FTH_ROW_NONE;
        if (row == FTH_ROW_NONE || row & FTH_ROW_CANDIDATE) {
            fth_status status = fth_shard_add_row(pack, shard, hash, table, entry, &row, err);
            if (status == FTH_E_LIMIT)
                return fth_embedding_limit_error(embedding, pack, table, err);
            FTH_TRY(status);
        }
        copy_in(pack, row, arrays, i);
    }
    return FTH_OK;
}

fth_status fth_embedding_import_candidates(fth_embedding *embedding, uint32_t number, uint64_t n,
                                           const uint64_t *keys, const uint32_t *tables,
                                           const uint64_t *counts, fth_error *err) {
    struct fth_pack *pack = &embedding->packs[number];
    for (uint64_t i = 0; i < n; i++) {
        struct fth_shard *shard;
        uint64_t hash;
        uint32_t row, *entry;
        FTH_TRY(find_key(pack, keys[i], tables[i], &shard, &hash, &entry, err));
        row = entry ? *entry : FTH_ROW_NONE;
        if (row != FTH_ROW_NONE && !(row & FTH_ROW_CANDIDATE))
            continue; /* admitted: it is counted no more */
        if (row == FTH_ROW_NONE) {
            fth_status status = fth_shard_add_candidate(pack, shard, hash, tables[i], err);
            if (status == FTH_E_LIMIT)
                return fth_embedding_limit_error(embedding, pack, tables[i], err);
            FTH_TRY(status);
            row = (shard->n_candidates - 1) | FTH_ROW_CANDIDATE;
        }
        shard->candidates[row & ~FTH_ROW_CANDIDATE].count = counts[i];
    }
    return FTH_OK;
}
