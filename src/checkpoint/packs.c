/* Packs as the manifest describes them, against the tensors of their files. */
#include <string.h>

#include "checkpoint/checkpoint_private.h"

static int is_tensor(const fth_checkpoint *c, const char *file, const char *name, enum fth_tensor_type type,
                     uint64_t rows, uint64_t columns) {
    const struct fth_tensor *t = fth_checkpoint_find(c, file, name);
    return t && t->type == type && t->rows == rows && t->columns == columns;
}

static int slot_fits(const fth_checkpoint *c, const struct fth_saved_pack *pack, const char *file,
                     const char *slot, uint64_t rows) {
    const struct fth_tensor *first = fth_checkpoint_find(c, pack->files[0], slot);
    return first && (first->columns == pack->dim || first->columns == 1) &&
           is_tensor(c, file, slot, FTH_TENSOR_F32, rows, first->columns);
}

static fth_status check_shard(const fth_checkpoint *c, const struct fth_saved_pack *pack,
                              const char *file, uint64_t *rows, fth_error *err) {
    const struct fth_tensor *keys = fth_checkpoint_find(c, file, "keys");
    uint64_t n = keys ? keys->rows : 0;
    int ok = is_tensor(c, file, "keys", FTH_TENSOR_U64, n, 1) &&
             is_tensor(c, file, "tables", FTH_TENSOR_U32, n, 1) &&
             is_tensor(c, file, "weights", FTH_TENSOR_F32, n, pack->dim) &&
             is_tensor(c, file, "frequency", FTH_TENSOR_U64, n, 1) &&
             is_tensor(c, file, "last_step", FTH_TENSOR_U64, n, 1);
    for (uint32_t s = 0; ok && s < pack->n_slots; s++)
        ok = slot_fits(c, pack, file, pack->slots[s], n);
    if (!ok)
        return fth_fail(err, FTH_E_CHECKPOINT, "%s/%s: a tensor of the pack is missing or of the wrong shape",
                        c->path, file);
    *rows += n;
    return FTH_OK;
}

/* A table lies in one pack, once. */
static fth_status check_tables(const fth_checkpoint *c, uint32_t pack, fth_error *err) {
    for (uint32_t t = 0; t < c->packs[pack].n_tables; t++) {
        const char *name = c->packs[pack].tables[t];
        for (uint32_t p = 0; p <= pack; p++)
            for (uint32_t other = 0; other < (p == pack ? t : c->packs[p].n_tables); other++)
                if (strcmp(c->packs[p].tables[other], name) == 0)
                    return fth_fail(err, FTH_E_CHECKPOINT, "%s: table '%s' stands there twice", c->path,
                                    name);
    }
    return FTH_OK;
}

static fth_status check_pack(const fth_checkpoint *c, const struct fth_saved_pack *pack, fth_error *err) {
    uint64_t rows = 0, n = pack->candidates;
    if (pack->n_slots > FTH_MAX_SLOTS || !pack->n_files || !pack->n_tables || !pack->dim)
        return fth_fail(err, FTH_E_CHECKPOINT, "%s: a pack's description is impossible", c->path);
    for (uint32_t f = 0; f < pack->n_files; f++)
        FTH_TRY(check_shard(c, pack, pack->files[f], &rows, err));
    if (rows != pack->rows)
        return fth_fail(err, FTH_E_CHECKPOINT, "%s: a pack of %llu rows has %llu in its files", c->path,
                        (unsigned long long)pack->rows, (unsigned long long)rows);
    if (n && (!is_tensor(c, pack->files[0], "candidate_keys", FTH_TENSOR_U64, n, 1) ||
              !is_tensor(c, pack->files[0], "candidate_tables", FTH_TENSOR_U32, n, 1) ||
              !is_tensor(c, pack->files[0], "candidate_counts", FTH_TENSOR_U64, n, 1)))
        return fth_fail(err, FTH_E_CHECKPOINT, "%s/%s: the candidates are missing or of the wrong shape",
                        c->path, pack->files[0]);
    return FTH_OK;
}

fth_status fth_checkpoint_check_packs(const fth_checkpoint *c, fth_error *err) {
    for (uint32_t p = 0; p < c->n_packs; p++) {
        FTH_TRY(check_pack(c, &c->packs[p], err));
        FTH_TRY(check_tables(c, p, err));
    }
    return FTH_OK;
}
