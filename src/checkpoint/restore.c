/* Restoring: first everything is compared by name and shape, then copied. */
#include <string.h>

#include "checkpoint/checkpoint_private.h"

#define AT_ONCE ((uint64_t)1 << 14) /* rows read at once */

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

struct target {
    uint32_t pack, table; /* of the session's embedding */
};

static fth_status find_table(const fth_checkpoint *c, const fth_embedding *embedding,
                             const struct fth_saved_pack *saved, const char *table,
                             struct target *out, fth_error *err) {
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
            *out = (struct target){p, t};
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

/* Arrays for AT_ONCE rows, twice: as read, and one target pack's share of them. */
struct pieces {
    struct fth_row_arrays read, share;
};

static int make_arrays(struct fth_row_arrays *rows, const struct fth_saved_pack *saved) {
    rows->keys = fth_alloc(AT_ONCE, sizeof(uint64_t));
    rows->tables = fth_alloc(AT_ONCE, sizeof(uint32_t));
    rows->weights = fth_alloc(AT_ONCE * saved->dim, sizeof(float));
    rows->frequency = fth_alloc(AT_ONCE, sizeof(uint64_t));
    rows->last_step = fth_alloc(AT_ONCE, sizeof(uint64_t));
    int ok = rows->keys && rows->tables && rows->weights && rows->frequency && rows->last_step;
    for (uint32_t s = 0; s < saved->n_slots; s++) {
        rows->slots[s] = fth_alloc(AT_ONCE * saved->dim, sizeof(float));
        ok = ok && rows->slots[s];
    }
    return ok;
}

static void free_arrays(struct fth_row_arrays *rows) {
    fth_free(rows->keys);
    fth_free(rows->tables);
    fth_free(rows->weights);
    fth_free(rows->frequency);
    fth_free(rows->last_step);
    for (uint32_t s = 0; s < FTH_MAX_SLOTS; s++)
        fth_free(rows->slots[s]);
}

static fth_status read_piece(const fth_checkpoint *c, const struct fth_saved_pack *saved,
                             const char *file, uint64_t first, uint64_t n,
                             const struct fth_row_arrays *rows, fth_error *err) {
    FTH_TRY(read_rows(c, file, "keys", first, n, rows->keys, err));
    FTH_TRY(read_rows(c, file, "tables", first, n, rows->tables, err));
    FTH_TRY(read_rows(c, file, "weights", first, n, rows->weights, err));
    FTH_TRY(read_rows(c, file, "frequency", first, n, rows->frequency, err));
    FTH_TRY(read_rows(c, file, "last_step", first, n, rows->last_step, err));
    for (uint32_t s = 0; s < saved->n_slots; s++)
        FTH_TRY(read_rows(c, file, saved->slots[s], first, n, rows->slots[s], err));
    for (uint64_t i = 0; i < n; i++)
        if (rows->tables[i] >= saved->n_tables)
            return fth_fail(err, FTH_E_CHECKPOINT, "%s/%s: a row of a table that the pack does not have",
                            c->path, file);
    return FTH_OK;
}

/* The rows of the piece whose table lies in `pack`, imported there. */
static fth_status import_share(const struct pieces *pieces, const struct fth_saved_pack *saved,
                               const struct target *targets, const uint32_t *slot_columns, uint64_t n,
                               fth_embedding *embedding, uint32_t pack, fth_error *err) {
    uint64_t m = 0;
    const struct fth_row_arrays *from = &pieces->read, *to = &pieces->share;
    for (uint64_t i = 0; i < n; i++) {
        struct target target = targets[from->tables[i]];
        if (target.pack != pack)
            continue;
        to->keys[m] = from->keys[i];
        to->tables[m] = target.table;
        to->frequency[m] = from->frequency[i];
        to->last_step[m] = from->last_step[i];
        memcpy(to->weights + m * saved->dim, from->weights + i * saved->dim,
               saved->dim * sizeof(float));
        for (uint32_t s = 0; s < saved->n_slots; s++)
            memcpy(to->slots[s] + m * slot_columns[s], from->slots[s] + i * slot_columns[s],
                   slot_columns[s] * sizeof(float));
        m++;
    }
    return m ? fth_embedding_import(embedding, pack, m, to, err) : FTH_OK;
}

static fth_status restore_candidates(const fth_checkpoint *c, const struct fth_saved_pack *saved,
                                     const struct target *targets, const struct pieces *pieces,
                                     fth_embedding *embedding, fth_error *err) {
    const char *file = saved->files[0];
    const struct fth_row_arrays *from = &pieces->read;
    for (uint64_t first = 0; first < saved->candidates; first += AT_ONCE) {
        uint64_t left = saved->candidates - first, n = left < AT_ONCE ? left : AT_ONCE;
        FTH_TRY(read_rows(c, file, "candidate_keys", first, n, from->keys, err));
        FTH_TRY(read_rows(c, file, "candidate_tables", first, n, from->tables, err));
        FTH_TRY(read_rows(c, file, "candidate_counts", first, n, from->frequency, err));
        for (uint64_t i = 0; i < n; i++) {
            if (from->tables[i] >= saved->n_tables)
                return fth_fail(err, FTH_E_CHECKPOINT, "%s/%s: a candidate of an unknown table", c->path,
                                file);
            struct target target = targets[from->tables[i]];
            FTH_TRY(fth_embedding_import_candidates(embedding, target.pack, 1, &from->keys[i],
                                                    &target.table, &from->frequency[i], err));
        }
    }
    return FTH_OK;
}

static fth_status restore_pack(const fth_checkpoint *c, const struct fth_saved_pack *saved,
                               const struct target *targets, fth_embedding *embedding,
                               fth_error *err) {
    struct pieces pieces = {0};
    uint32_t slot_columns[FTH_MAX_SLOTS] = {0};
    for (uint32_t s = 0; s < saved->n_slots; s++)
        slot_columns[s] = (uint32_t)fth_checkpoint_find(c, saved->files[0], saved->slots[s])->columns;
    fth_status status = FTH_OK;
    if (!make_arrays(&pieces.read, saved) || !make_arrays(&pieces.share, saved))
        status = no_memory(err);
    for (uint32_t f = 0; status == FTH_OK && f < saved->n_files; f++) {
        uint64_t rows = fth_checkpoint_find(c, saved->files[f], "keys")->rows;
        for (uint64_t first = 0; status == FTH_OK && first < rows; first += AT_ONCE) {
            uint64_t n = rows - first < AT_ONCE ? rows - first : AT_ONCE;
            status = read_piece(c, saved, saved->files[f], first, n, &pieces.read, err);
            for (uint32_t p = 0; status == FTH_OK && p < fth_embedding_packs(embedding); p++)
                status = import_share(&pieces, saved, targets, slot_columns, n, embedding, p, err);
        }
    }
    if (status == FTH_OK && saved->candidates)
        status = restore_candidates(c, saved, targets, &pieces, embedding, err);
    if (status == FTH_E_LIMIT)
        fth_error_frame(err, "%s does not fit into memory", c->path);
    free_arrays(&pieces.read);
    free_arrays(&pieces.share);
    return status;
}

fth_status fth_checkpoint_restore(fth_checkpoint *c, fth_parameters *parameters,
                                  fth_embedding *embedding, int weights_only, fth_error *err) {
    struct target **targets = fth_arena_alloc(c->arena, c->n_packs + 1, sizeof *targets);
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
        FTH_TRY(restore_pack(c, &packs[p], targets[p], embedding, err));
    return FTH_OK;
}
