/* Moving rows out of and into packs, as views show them: checkpoints, inspection, initial weights. Order: source
 * by source, shard by shard, in each the order in which rows were made; importing in that order gives it again,
 * because a key's shard never changes. A row of more than one member is shown by each one's view; importing any of
 * them makes it, with the others' first values.
 *
 * Threads: between steps; rows are copied out by any, as that only reads, and imported by any, each with shards of its
 * own; all else is the owner's. */
#include <string.h>

#include "embedding/embedding_private.h"

#define ROWS_AHEAD 32 /* whose groups of the index are asked for together */

/* Rows that are copied out together, of one chunk, and how far behind each the row lies that is asked for meanwhile: chunks
 * lie anywhere in memory. */
struct stretch {
    const struct fth_pack *pack;
    uint32_t row, n, ahead;
};

static void copy_metas(const struct stretch *s, const struct fth_member *member, const struct fth_row_arrays *arrays,
                       uint64_t at) {
    for (uint32_t row = s->row; row < s->row + s->n; row++, at++) {
        __builtin_prefetch(fth_pack_hash_at(s->pack, row + s->ahead));
        struct fth_row_meta meta = fth_pack_get_meta(s->pack, row);
        if (arrays->keys)
            arrays->keys[at] = fth_pack_key(&s->pack->tables[meta.table], meta.hash);
        if (arrays->tables)
            arrays->tables[at] = member->tables[meta.table].number;
        if (arrays->frequency)
            arrays->frequency[at] = meta.frequency;
        if (arrays->last_step)
            arrays->last_step[at] = meta.last_step;
    }
}

/* Columns [column, + columns) of the rows' floats. */
static void copy_floats(const struct stretch *s, uint32_t column, uint32_t columns, float *out) {
    for (uint32_t row = s->row; row < s->row + s->n; row++, out += columns) {
        const float *from = fth_pack_row(s->pack, row) + column, *ahead = fth_pack_row(s->pack, row + s->ahead) + column;
        for (uint32_t i = 0; i < columns; i += FTH_CACHE_LINE / sizeof *ahead)
            __builtin_prefetch(ahead + i);
        __builtin_prefetch(ahead + columns - 1);
        memcpy(out, from, columns * sizeof *out);
    }
}

/* Column by column, as a checkpoint asks for one at a time: of a row no line is read that has nothing of it. */
static void copy_out(const struct stretch *s, const struct fth_member *member, const struct fth_row_arrays *arrays,
                     uint64_t at) {
    if (arrays->keys || arrays->tables || arrays->frequency || arrays->last_step)
        copy_metas(s, member, arrays, at);
    if (arrays->weights)
        copy_floats(s, member->at, member->dim, arrays->weights + at * member->dim);
    for (uint32_t i = 0; i < member->optimizer->is->n_slots; i++)
        if (arrays->slots[i])
            copy_floats(s, member->slot_at[i], member->slot_columns[i], arrays->slots[i] + at * member->slot_columns[i]);
}

/* From the shard's i-th row on, as many as lie side by side, up to `max`. */
static struct stretch stretch_at(const struct fth_pack *pack, const struct fth_shard *shard, uint32_t i, uint64_t max) {
    uint32_t row = fth_shard_row(shard, i), next = i + FTH_ROW_CHUNK;
    uint32_t n = FTH_ROW_CHUNK - i % FTH_ROW_CHUNK, left = shard->n_rows - i;
    n = n < left ? n : left;
    return (struct stretch){pack, row, n < max ? n : (uint32_t)max, next < shard->n_rows ? fth_shard_row(shard, next) - row : 0};
}

uint64_t fth_embedding_export(const fth_embedding *embedding, uint32_t number, uint64_t first,
                              uint64_t max, const struct fth_row_arrays *arrays) {
    const struct fth_view *view = &embedding->views[number];
    uint64_t before = 0, n = 0;
    for (uint32_t i = 0; i < view->n_sources * FTH_SHARDS && n < max; i++) {
        const struct fth_pack *pack = &embedding->packs[view->sources[i / FTH_SHARDS].pack];
        const struct fth_member *member = &pack->members[view->sources[i / FTH_SHARDS].member];
        const struct fth_shard *shard = &pack->shards[i % FTH_SHARDS];
        while (first + n < before + shard->n_rows && n < max) {
            struct stretch stretch = stretch_at(pack, shard, (uint32_t)(first + n - before), max - n);
            copy_out(&stretch, member, arrays, n);
            n += stretch.n;
        }
        before += shard->n_rows;
    }
    return n;
}

uint64_t fth_embedding_export_candidates(const fth_embedding *embedding, uint32_t number,
                                         uint64_t first, uint64_t max, uint64_t *keys,
                                         uint32_t *tables, uint64_t *counts) {
    const struct fth_view *view = &embedding->views[number];
    uint64_t before = 0, n = 0;
    for (uint32_t i = 0; i < view->n_sources * FTH_SHARDS && n < max; i++) {
        const struct fth_pack *pack = &embedding->packs[view->sources[i / FTH_SHARDS].pack];
        const struct fth_member *member = &pack->members[view->sources[i / FTH_SHARDS].member];
        const struct fth_shard *shard = &pack->shards[i % FTH_SHARDS];
        for (; first + n < before + shard->n_candidates && n < max; n++) {
            const struct fth_candidate *candidate = &shard->candidates[first + n - before];
            if (keys)
                keys[n] = candidate->key;
            if (tables)
                tables[n] = member->tables[candidate->table].number;
            if (counts)
                counts[n] = candidate->count;
        }
        before += shard->n_candidates;
    }
    return n;
}

static void copy_in(const struct fth_pack *pack, const struct fth_member *member, uint32_t row,
                    const struct fth_row_arrays *arrays, uint64_t i) {
    struct fth_row_meta meta = fth_pack_get_meta(pack, row);
    float *to = fth_pack_row(pack, row);
    if (arrays->weights)
        memcpy(to + member->at, arrays->weights + i * member->dim, member->dim * sizeof(float));
    for (uint32_t s = 0; s < member->optimizer->is->n_slots; s++) {
        if (arrays->slots[s])
            memcpy(to + member->slot_at[s], arrays->slots[s] + i * member->slot_columns[s],
                   member->slot_columns[s] * sizeof(float));
    }
    if (arrays->frequency)
        meta.frequency = arrays->frequency[i];
    if (arrays->last_step)
        meta.last_step = arrays->last_step[i];
    fth_pack_set_meta(pack, row, &meta);
}

/* Where a key of a view's table is. */
struct found {
    struct fth_pack *pack;
    const struct fth_member *member;
    uint32_t table;
    struct fth_shard *shard;
    uint64_t hash, i; /* i: of the rows that are imported */
    uint32_t *entry;  /* NULL: nowhere yet */
};

static fth_status find_shard(const fth_embedding *embedding, struct fth_embedding_table of, uint64_t key, struct found *out,
                             fth_error *err) {
    const struct fth_view *view = &embedding->views[of.pack];
    if (of.table >= view->n_tables)
        return fth_fail(err, FTH_E_CHECKPOINT, "an embedding row of table number %u in a pack of %u", of.table,
                        view->n_tables);
    struct fth_place place = view->places[of.table];
    out->pack = &embedding->packs[place.pack];
    out->member = &out->pack->members[place.member];
    out->table = place.table;
    out->hash = fth_pack_hash(&out->pack->tables[place.table], key);
    out->shard = &out->pack->shards[fth_shard_of(out->hash)];
    return FTH_OK;
}

static fth_status find_key(const fth_embedding *embedding, uint32_t number, uint64_t key,
                           uint32_t table, struct found *out, fth_error *err) {
    FTH_TRY(find_shard(embedding, (struct fth_embedding_table){number, table}, key, out, err));
    out->entry = fth_shard_find(out->pack, out->shard, out->hash);
    return FTH_OK;
}

void fth_embedding_reserve(fth_embedding *embedding, uint32_t number, uint64_t keys) {
    const struct fth_view *view = &embedding->views[number];
    if (view->n_sources == 1) /* else nobody knows how many are in each */
        fth_pack_reserve(&embedding->packs[view->sources[0].pack], keys);
}

static fth_status import_row(const struct found *at, const struct fth_row_arrays *arrays, fth_error *err) {
    uint32_t *entry = fth_shard_find(at->pack, at->shard, at->hash), row = entry ? *entry : FTH_ROW_NONE;
    if (row == FTH_ROW_NONE || row & FTH_ROW_CANDIDATE) {
        at->shard->status = fth_shard_add_row(at->pack, at->shard, at->hash, at->table, entry, &row, err);
        at->shard->failed_table = at->table;
        FTH_TRY(at->shard->status);
    }
    copy_in(at->pack, at->member, row, arrays, at->i);
    return FTH_OK;
}

uint32_t fth_embedding_shard(const fth_embedding *embedding, struct fth_embedding_table table, uint64_t key) {
    struct found at;
    return find_shard(embedding, table, key, &at, NULL) == FTH_OK ? fth_shard_of(at.hash) : 0;
}

fth_status fth_embedding_import_shards(fth_embedding *embedding, const struct fth_embedding_table *tables, uint64_t shards,
                                       uint64_t n, const struct fth_row_arrays *arrays, fth_error *err) {
    struct found found[ROWS_AHEAD];
    for (uint64_t i = 0; i < n;) {
        uint32_t m = 0;
        for (; m < ROWS_AHEAD && i < n; i++) {
            FTH_TRY(find_shard(embedding, tables[arrays->tables[i]], arrays->keys[i], &found[m], err));
            if (!(shards >> fth_shard_of(found[m].hash) & 1))
                continue;
            fth_index_prefetch(&found[m].shard->index, found[m].hash);
            found[m++].i = i;
        }
        for (uint32_t k = 0; k < m; k++)
            FTH_TRY(import_row(&found[k], arrays, err));
    }
    return FTH_OK;
}

fth_status fth_embedding_import_limit(const fth_embedding *embedding, fth_error *err) {
    for (uint32_t i = 0; i < embedding->n_packs * FTH_SHARDS; i++) {
        const struct fth_pack *pack = &embedding->packs[i / FTH_SHARDS];
        const struct fth_shard *shard = &pack->shards[i % FTH_SHARDS];
        if (shard->status == FTH_E_LIMIT)
            return fth_embedding_limit_error(embedding, pack, shard->failed_table, err);
    }
    return FTH_E_LIMIT;
}

fth_status fth_embedding_import_candidates(fth_embedding *embedding, uint32_t number, uint64_t n,
                                           const uint64_t *keys, const uint32_t *tables,
                                           const uint64_t *counts, fth_error *err) {
    for (uint64_t i = 0; i < n; i++) {
        struct found at;
        FTH_TRY(find_key(embedding, number, keys[i], tables[i], &at, err));
        uint32_t row = at.entry ? *at.entry : FTH_ROW_NONE;
        if (row != FTH_ROW_NONE && !(row & FTH_ROW_CANDIDATE))
            continue; /* admitted: it is counted no more */
        if (row == FTH_ROW_NONE) {
            fth_status status =
                fth_shard_add_candidate(at.pack, at.shard, at.hash, at.table, err);
            if (status == FTH_E_LIMIT)
                return fth_embedding_limit_error(embedding, at.pack, at.table, err);
            FTH_TRY(status);
            row = (at.shard->n_candidates - 1) | FTH_ROW_CANDIDATE;
        }
        at.shard->candidates[row & ~FTH_ROW_CANDIDATE].count = counts[i];
    }
    return FTH_OK;
}
