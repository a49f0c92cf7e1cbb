/* Restoring: first everything is compared by name and shape, then copied; rows by all workers.
 *
 * A pack's rows are read in pieces. Workers look into which shards a piece's keys fall; then each takes shards, and of
 * the pieces that have rows of them these, in the files' order, so that a shard's rows have that order at any number of
 * threads. A save writes shard by shard, so that hardly a piece is read twice. */
#include <stdatomic.h>
#include <string.h>

#include "checkpoint/checkpoint_private.h"

#ifndef AT_ONCE
#define AT_ONCE ((uint64_t)1 << 14) /* rows read at once, at most */
#endif
#define FEWEST_AT_ONCE 64u
#define PIECE_BYTES ((uint64_t)256 << 10) /* that a worker reads at once: they stay in its second cache */
#define SHARDS 64u                        /* of a pack: fth_embedding_shard */

static fth_status no_memory(fth_error *err) {
    return fth_fail(err, FTH_E_MEMORY, "no memory to restore a checkpoint");
}

/* ---- dense ---- */

static fth_status check_dense_tensor(const fth_checkpoint *c, const struct fth_parameter *p,
                                     const char *name, fth_error *err) {
    const struct fth_tensor *t = fth_checkpoint_find(c, "dense.safetensors", name);
    if (!t)
        return fth_fail(err, FTH_E_CHECKPOINT,
                        "%s has no '%s': it was made with another model or optimizer than the "
                        "configuration now asks for", c->path, name);
    if (t->type != FTH_TENSOR_F32 || t->rows != p->rows || t->columns != p->columns)
        return fth_fail(err, FTH_E_CHECKPOINT,
                        "%s: '%s' is %llu x %llu; the configuration now asks for %u x %u", c->path, name,
                        (unsigned long long)t->rows, (unsigned long long)t->columns, p->rows,
                        p->columns);
    return FTH_OK;
}

/* Whether the checkpoint was made before the model had this parameter. */
static int from_before(const fth_checkpoint *c, const struct fth_parameter *p) {
    return p->later && !fth_checkpoint_find(c, "dense.safetensors", p->name);
}

static fth_status check_dense(const fth_checkpoint *c, const fth_parameters *parameters,
                              fth_error *err) {
    uint32_t expected = 0, there = 0;
    for (uint32_t i = 0; i < parameters->n; i++) {
        const struct fth_parameter *p = &parameters->items[i];
        if (from_before(c, p))
            continue;
        FTH_TRY(check_dense_tensor(c, p, p->name, err));
        for (uint32_t s = 0; s < p->n_slots; s++) {
            const char *name = fth_arena_printf(c->arena, "%s/%s", p->name, p->slot_names[s]);
            if (!name)
                return no_memory(err);
            FTH_TRY(check_dense_tensor(c, p, name, err));
        }
        expected += 1 + p->n_slots;
    }
    for (uint32_t i = 0; i < c->n_tensors; i++)
        there += strcmp(c->tensor_files[i], "dense.safetensors") == 0;
    if (there != expected)
        return fth_fail(err, FTH_E_CHECKPOINT,
                        "%s holds %u dense tensors; the configuration now asks for %u: another model or "
                        "optimizer", c->path, there, expected);
    return FTH_OK;
}

static fth_status read_rows(const fth_checkpoint *c, const char *file, const char *name,
                            uint64_t first, uint64_t n, void *bytes, fth_error *err) {
    const struct fth_tensor *t = fth_checkpoint_find(c, file, name);
    const char *path = fth_arena_printf(c->arena, "%s/%s", c->path, file);
    if (!path)
        return no_memory(err);
    int handle = c->io->open(c->io->ctx, path, FTH_IO_READ);
    if (handle < 0)
        return fth_io_error(err, "open", path, handle);
    size_t row = fth_tensor_row_bytes(t);
    fth_status status =
        fth_io_pread(c->io, handle, path, bytes, (size_t)n * row, t->offset + first * row, err);
    c->io->close(c->io->ctx, handle);
    return status;
}

/* slot: NULL: the weights. */
static fth_status read_matrix(const fth_checkpoint *c, struct fth_parameter *p, const char *name, float *slot,
                              fth_error *err) {
    float *rows = fth_alloc((size_t)p->rows * p->columns, sizeof(float));
    if (!rows)
        return no_memory(err);
    fth_status status = read_rows(c, "dense.safetensors", name, 0, p->rows, rows, err);
    for (uint32_t r = 0; status == FTH_OK && slot && r < p->rows; r++)
        memcpy(slot + (size_t)r * p->ld, rows + (size_t)r * p->columns, p->columns * sizeof(float));
    if (status == FTH_OK && !slot)
        fth_parameter_set(p, rows, p->columns);
    fth_free(rows);
    return status;
}

static fth_status restore_dense(const fth_checkpoint *c, fth_parameters *parameters, fth_error *err) {
    for (uint32_t i = 0; i < parameters->n; i++) {
        struct fth_parameter *p = &parameters->items[i];
        if (from_before(c, p))
            continue;
        FTH_TRY(read_matrix(c, p, p->name, NULL, err));
        for (uint32_t s = 0; s < p->n_slots; s++) {
            const char *name = fth_arena_printf(c->arena, "%s/%s", p->name, p->slot_names[s]);
            if (!name)
                return no_memory(err);
            FTH_TRY(read_matrix(c, p, name, p->slots[s], err));
        }
    }
    return FTH_OK;
}

/* ---- packs: tables may be packed otherwise than when they were saved ---- */

static fth_status find_table(const fth_checkpoint *c, const fth_embedding *embedding,
                             const struct fth_saved_pack *saved, const char *table,
                             struct fth_embedding_table *out, fth_error *err) {
    for (uint32_t p = 0; embedding && p < fth_embedding_packs(embedding); p++) {
        struct fth_pack_info info;
        fth_embedding_pack_info(embedding, p, &info);
        for (uint32_t t = 0; t < info.n_tables; t++) {
            if (strcmp(info.table_names[t], table) != 0)
                continue;
            int slots = info.n_slots == saved->n_slots;
            for (uint32_t s = 0; slots && s < info.n_slots; s++)
                slots = strcmp(info.slot_names[s], saved->slots[s]) == 0 &&
                        fth_checkpoint_find(c, saved->files[0], saved->slots[s])->columns ==
                            info.slot_columns[s];
            if (info.dim != saved->dim || !slots)
                return fth_fail(err, FTH_E_CHECKPOINT,
                                "%s: table '%s' has dimension %u and %u optimizer slots (%s); the "
                                "configuration now asks for %u and %u (%s)",
                                c->path, table, saved->dim, saved->n_slots,
                                saved->n_slots ? saved->slots[0] : "none", info.dim, info.n_slots,
                                info.n_slots ? info.slot_names[0] : "none");
            *out = (struct fth_embedding_table){p, t};
            return FTH_OK;
        }
    }
    return fth_fail(err, FTH_E_CHECKPOINT,
                    "%s: table '%s' is not one of the tables that the configuration now asks for", c->path,
                    table);
}

/* No table of the configuration may be left without its rows. */
static fth_status check_tables(const fth_checkpoint *c, const fth_embedding *embedding, fth_error *err) {
    for (uint32_t p = 0; embedding && p < fth_embedding_packs(embedding); p++) {
        struct fth_pack_info info;
        fth_embedding_pack_info(embedding, p, &info);
        for (uint32_t t = 0; t < info.n_tables; t++) {
            int there = 0;
            for (uint32_t s = 0; s < c->n_packs && !there; s++)
                for (uint32_t k = 0; k < c->packs[s].n_tables && !there; k++)
                    there = strcmp(c->packs[s].tables[k], info.table_names[t]) == 0;
            if (!there)
                return fth_fail(err, FTH_E_CHECKPOINT,
                                "%s has no table '%s', which the configuration now asks for", c->path,
                                info.table_names[t]);
        }
    }
    return FTH_OK;
}

/* Rows that are read at once, of one file, and the shards of their keys, a bit each. */
struct piece {
    uint32_t file;
    uint64_t first, n, shards;
};

/* A pack that is restored. */
struct restored {
    const fth_checkpoint *c;
    const struct fth_saved_pack *saved;
    const struct fth_embedding_table *targets;
    fth_embedding *embedding;
    const char **paths;                /* [files] */
    const struct fth_tensor **tensors; /* [files][columns] */
    uint32_t columns, n_pieces, tasks;
    uint64_t at_once;
    struct piece *pieces;
    pthread_mutex_t lock; /* of the failure of the first task that has one; later tasks end as well */
    _Atomic uint32_t failed;
    fth_status status;
    fth_error why;
};

static void free_arrays(struct fth_row_arrays *rows) {
    fth_free(rows->keys);
    fth_free(rows->tables);
    fth_free(rows->weights);
    fth_free(rows->frequency);
    fth_free(rows->last_step);
    for (uint32_t s = 0; s < FTH_MAX_SLOTS; s++)
        fth_free(rows->slots[s]);
}

/* To be freed even when this fails. */
static fth_status make_arrays(const struct restored *r, int only_keys, struct fth_row_arrays *rows, fth_error *err) {
    size_t n = (size_t)r->at_once, floats = n * r->saved->dim;
    *rows = (struct fth_row_arrays){.keys = fth_alloc(n, sizeof(uint64_t)), .tables = fth_alloc(n, sizeof(uint32_t))};
    int ok = rows->keys && rows->tables;
    if (!only_keys) {
        rows->weights = fth_alloc(floats, sizeof(float));
        rows->frequency = fth_alloc(n, sizeof(uint64_t));
        rows->last_step = fth_alloc(n, sizeof(uint64_t));
        ok = ok && rows->weights && rows->frequency && rows->last_step;
    }
    for (uint32_t s = 0; s < r->saved->n_slots && !only_keys; s++) {
        rows->slots[s] = fth_alloc(floats, sizeof(float));
        ok = ok && rows->slots[s];
    }
    return ok ? FTH_OK : no_memory(err);
}

static fth_status read_piece(const struct restored *r, const struct piece *piece, const struct fth_row_arrays *rows,
                             fth_error *err) {
    const struct fth_io *io = r->c->io;
    const char *path = r->paths[piece->file];
    void *to[5 + FTH_MAX_SLOTS] = {rows->keys, rows->tables, rows->weights, rows->frequency, rows->last_step};
    memcpy(&to[5], rows->slots, sizeof rows->slots);
    int handle = io->open(io->ctx, path, FTH_IO_READ);
    if (handle < 0)
        return fth_io_error(err, "open", path, handle);
    fth_status status = FTH_OK;
    for (uint32_t k = 0; k < r->columns && status == FTH_OK; k++) {
        const struct fth_tensor *t = r->tensors[piece->file * r->columns + k];
        size_t row = fth_tensor_row_bytes(t);
        if (to[k])
            status = fth_io_pread(io, handle, path, to[k], (size_t)piece->n * row, t->offset + piece->first * row, err);
    }
    io->close(io->ctx, handle);
    for (uint64_t i = 0; status == FTH_OK && i < piece->n; i++)
        if (rows->tables[i] >= r->saved->n_tables)
            status = fth_fail(err, FTH_E_CHECKPOINT, "%s: a row of a table that the pack does not have", path);
    return status;
}

static void keep_failure(struct restored *r, uint32_t task, fth_status status, const fth_error *why) {
    if (status == FTH_OK)
        return;
    pthread_mutex_lock(&r->lock);
    if (task < r->failed) {
        r->failed = task;
        r->status = status;
        r->why = *why;
    }
    pthread_mutex_unlock(&r->lock);
}

/* Of the pieces of a task, a run of them. */
static void find_shards(void *arg, uint32_t task, uint32_t worker) {
    (void)worker;
    struct restored *r = arg;
    struct fth_row_arrays rows;
    fth_error why = {0};
    fth_status status = make_arrays(r, 1, &rows, &why);
    uint32_t end = fth_pool_first(r->n_pieces, SHARDS, task + 1);
    for (uint32_t p = fth_pool_first(r->n_pieces, SHARDS, task); status == FTH_OK && p < end && task <= r->failed; p++) {
        struct piece *piece = &r->pieces[p];
        status = read_piece(r, piece, &rows, &why);
        piece->shards = 0;
        for (uint64_t i = 0; status == FTH_OK && i < piece->n; i++)
            piece->shards |= UINT64_C(1) << fth_embedding_shard(r->embedding, r->targets[rows.tables[i]], rows.keys[i]);
    }
    keep_failure(r, task, status, &why);
    free_arrays(&rows);
}

/* Those of one of `tasks` tasks. */
static uint64_t task_shards(uint32_t tasks, uint32_t task) {
    return UINT64_MAX >> (SHARDS - SHARDS / tasks) << SHARDS / tasks * task;
}

static void import_shards(void *arg, uint32_t task, uint32_t worker) {
    (void)worker;
    struct restored *r = arg;
    struct fth_row_arrays rows;
    fth_error why = {0};
    fth_status status = make_arrays(r, 0, &rows, &why);
    uint64_t shards = task_shards(r->tasks, task);
    for (uint32_t p = 0; status == FTH_OK && p < r->n_pieces && task <= r->failed; p++) {
        if (!(r->pieces[p].shards & shards))
            continue;
        status = read_piece(r, &r->pieces[p], &rows, &why);
        if (status == FTH_OK)
            status = fth_embedding_import_shards(r->embedding, r->targets, shards, r->pieces[p].n, &rows, &why);
    }
    keep_failure(r, task, status, &why);
    free_arrays(&rows);
}

/* As many tasks as leave most pieces to one of them: rows are in no order of shards where tables share other rows than when
 * they were saved. */
static uint32_t count_tasks(const struct restored *r) {
    uint32_t tasks = SHARDS;
    for (; tasks > 1; tasks /= 2) {
        uint64_t reads = 0;
        for (uint32_t p = 0; p < r->n_pieces; p++)
            for (uint32_t t = 0; t < tasks; t++)
                reads += (r->pieces[p].shards & task_shards(tasks, t)) != 0;
        if (tasks <= r->n_pieces / 2 && reads <= r->n_pieces + (uint64_t)r->n_pieces / 2)
            break;
    }
    return tasks;
}

static fth_status cut_pieces(struct restored *r, fth_error *err) {
    const struct fth_saved_pack *saved = r->saved;
    const char *names[5 + FTH_MAX_SLOTS] = {"keys", "tables", "weights", "frequency", "last_step"};
    uint64_t bytes = 28 + (uint64_t)saved->dim * sizeof(float) * (1 + saved->n_slots), n = 0;
    r->at_once = PIECE_BYTES / bytes < FEWEST_AT_ONCE ? FEWEST_AT_ONCE : PIECE_BYTES / bytes;
    r->at_once = r->at_once < AT_ONCE ? r->at_once : AT_ONCE;
    r->columns = 5 + saved->n_slots;
    memcpy(&names[5], saved->slots, saved->n_slots * sizeof *names);
    r->paths = fth_arena_alloc(r->c->arena, saved->n_files, sizeof *r->paths);
    r->tensors = fth_arena_alloc(r->c->arena, (size_t)saved->n_files * r->columns, sizeof *r->tensors);
    r->pieces = fth_alloc((size_t)(saved->rows / r->at_once) + saved->n_files, sizeof *r->pieces);
    if (!r->paths || !r->tensors || !r->pieces)
        return no_memory(err);
    for (uint32_t f = 0; f < saved->n_files; f++) {
        r->paths[f] = fth_arena_printf(r->c->arena, "%s/%s", r->c->path, saved->files[f]);
        if (!r->paths[f])
            return no_memory(err);
        for (uint32_t k = 0; k < r->columns; k++)
            r->tensors[f * r->columns + k] = fth_checkpoint_find(r->c, saved->files[f], names[k]);
        uint64_t rows = r->tensors[f * r->columns]->rows;
        for (uint64_t first = 0; first < rows; first += n) {
            n = rows - first < r->at_once ? rows - first : r->at_once;
            r->pieces[r->n_pieces++] = (struct piece){f, first, n, UINT64_MAX};
        }
    }
    return FTH_OK;
}

static fth_status restore_rows(struct restored *r, fth_pool *pool, fth_error *err) {
    FTH_TRY(cut_pieces(r, err));
    uint32_t pack = r->targets[0].pack, same = 1;
    while (same < r->saved->n_tables && r->targets[same].pack == pack)
        same++;
    if (same == r->saved->n_tables)
        fth_embedding_reserve(r->embedding, pack, r->saved->rows + r->saved->candidates);
    if (fth_pool_size(pool) > 1 && r->n_pieces > 3) {
        fth_pool_for(pool, SHARDS, find_shards, r);
        r->tasks = count_tasks(r);
    }
    if (r->status == FTH_OK)
        fth_pool_for(pool, r->tasks, import_shards, r);
    if (r->status != FTH_OK && err)
        *err = r->why;
    return r->status == FTH_E_LIMIT ? fth_embedding_import_limit(r->embedding, err) : r->status;
}

static fth_status restore_candidates(const struct restored *r, fth_error *err) {
    const fth_checkpoint *c = r->c;
    const char *file = r->saved->files[0];
    struct fth_row_arrays rows;
    fth_status status;
    FTH_TRY_GOTO(status, make_arrays(r, 0, &rows, err), done);
    for (uint64_t first = 0; status == FTH_OK && first < r->saved->candidates; first += r->at_once) {
        uint64_t left = r->saved->candidates - first, n = left < r->at_once ? left : r->at_once;
        FTH_TRY_GOTO(status, read_rows(c, file, "candidate_keys", first, n, rows.keys, err), done);
        FTH_TRY_GOTO(status, read_rows(c, file, "candidate_tables", first, n, rows.tables, err), done);
        FTH_TRY_GOTO(status, read_rows(c, file, "candidate_counts", first, n, rows.frequency, err), done);
        for (uint64_t i = 0; status == FTH_OK && i < n; i++) {
            if (rows.tables[i] >= r->saved->n_tables) {
                status = fth_fail(err, FTH_E_CHECKPOINT, "%s/%s: a candidate of an unknown table", c->path, file);
                break;
            }
            struct fth_embedding_table target = r->targets[rows.tables[i]];
            status = fth_embedding_import_candidates(r->embedding, target.pack, 1, &rows.keys[i], &target.table,
                                                     &rows.frequency[i], err);
        }
    }
done:
    free_arrays(&rows);
    return status;
}

static fth_status restore_pack(const fth_checkpoint *c, fth_pool *pool, const struct fth_saved_pack *saved,
                               const struct fth_embedding_table *targets, fth_embedding *embedding, fth_error *err) {
    struct restored restored = {.c = c, .saved = saved, .targets = targets, .embedding = embedding, .tasks = 1,
                                .lock = PTHREAD_MUTEX_INITIALIZER, .failed = UINT32_MAX};
    fth_status status = restore_rows(&restored, pool, err);
    if (status == FTH_OK && saved->candidates)
        status = restore_candidates(&restored, err);
    if (status == FTH_E_LIMIT)
        fth_error_frame(err, "%s does not fit into memory", c->path);
    fth_free(restored.pieces);
    return status;
}

fth_status fth_checkpoint_restore(fth_checkpoint *c, fth_pool *pool, fth_parameters *parameters,
                                  fth_embedding *embedding, int weights_only, fth_error *err) {
    struct fth_embedding_table **targets = fth_arena_alloc(c->arena, c->n_packs + 1, sizeof *targets);
    struct fth_saved_pack *packs = fth_arena_alloc(c->arena, c->n_packs + 1, sizeof *packs);
    if (!targets || !packs)
        return no_memory(err);
    FTH_TRY(check_dense(c, parameters, err));
    for (uint32_t p = 0; p < c->n_packs; p++) {
        packs[p] = c->packs[p];
        packs[p].n_slots = weights_only ? 0 : packs[p].n_slots;
        targets[p] = fth_arena_alloc(c->arena, packs[p].n_tables + 1, sizeof **targets);
        if (!targets[p])
            return no_memory(err);
        for (uint32_t t = 0; t < packs[p].n_tables; t++)
            FTH_TRY(find_table(c, embedding, &packs[p], packs[p].tables[t], &targets[p][t], err));
    }
    FTH_TRY(check_tables(c, embedding, err));
    FTH_TRY(restore_dense(c, parameters, err));
    for (uint32_t p = 0; p < c->n_packs; p++)
        FTH_TRY(restore_pack(c, pool, &packs[p], targets[p], embedding, err));
    return FTH_OK;
}
