/* Saving: every file beside, then one rename. */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "checkpoint/checkpoint_private.h"

/* One save in progress. */
struct save {
    const struct fth_io *io;
    fth_arena *arena;
    const char *folder; /* the temporary one */
    const struct fth_checkpoint_source *source;
    struct fth_listed_file *files;
    uint32_t n_files, files_room;
    struct fth_saved_pack *packs;
    uint32_t n_packs;
    int published; /* the folder has got its final name */
};

static fth_status no_memory(fth_error *err) {
    return fth_fail(err, FTH_E_MEMORY, "no memory to save a checkpoint");
}

static fth_status list_file(struct save *save, const char *name, uint64_t bytes, uint64_t checksum,
                            fth_error *err) {
    if (!name || save->n_files == save->files_room)
        return no_memory(err);
    save->files[save->n_files++] = (struct fth_listed_file){name, bytes, checksum};
    return FTH_OK;
}

/* ---- diverged models: neither weights nor slots that are not finite are saved, as a save may be what removes the last
 * good ones. A slot of infinity keeps its weights where they are for ever, and no loss tells. ---- */

static int all_finite(const float *x, uint64_t n) {
    int finite = 1;
    for (uint64_t i = 0; i < n; i++)
        finite &= isfinite(x[i]) != 0;
    return finite;
}

/* ---- dense.safetensors ---- */

struct dense_fill {
    const struct fth_parameter **parameter; /* [tensors] */
    const float **slot; /* NULL: its weights */
    const struct fth_tensor *tensors;
    const char *diverged; /* a tensor that is not finite, or NULL */
};

static void fill_dense(void *ctx, uint32_t index, uint64_t first, uint64_t n, void *bytes) {
    struct dense_fill *fill = ctx;
    const struct fth_parameter *p = fill->parameter[index];
    const float *slot = fill->slot[index];
    float *out = bytes;
    for (uint64_t r = 0; slot && r < n; r++)
        memcpy(out + r * p->columns, slot + (first + r) * p->ld, p->columns * sizeof(float));
    if (!slot)
        fth_parameter_get(p, (uint32_t)first, (uint32_t)n, out);
    if (!all_finite(out, n * p->columns))
        fill->diverged = fill->tensors[index].name;
}

static fth_status save_dense(struct save *save, fth_error *err) {
    uint32_t room = save->source->parameters->n * (1 + FTH_MAX_SLOTS) + 1, n = 0;
    struct fth_tensor *tensors = fth_arena_alloc(save->arena, room, sizeof *tensors);
    struct dense_fill fill = {fth_arena_alloc(save->arena, room, sizeof *fill.parameter),
                              fth_arena_alloc(save->arena, room, sizeof *fill.slot), tensors, NULL};
    const char *path = fth_arena_printf(save->arena, "%s/dense.safetensors", save->folder);
    if (!tensors || !fill.parameter || !fill.slot || !path)
        return no_memory(err);
    for (uint32_t i = 0; i < save->source->parameters->n; i++) {
        const struct fth_parameter *p = &save->source->parameters->items[i];
        for (uint32_t s = 0; s <= p->n_slots; s++, n++) {
            tensors[n] = (struct fth_tensor){
                .name = s ? fth_arena_printf(save->arena, "%s/%s", p->name,
                                             p->slot_names[s - 1])
                          : p->name,
                .type = FTH_TENSOR_F32,
                .n_dims = 2,
                .rows = p->rows,
                .columns = p->columns};
            if (!tensors[n].name)
                return no_memory(err);
            fill.parameter[n] = p;
            fill.slot[n] = s ? p->slots[s - 1] : NULL;
        }
    }
    uint64_t bytes, checksum;
    FTH_TRY(fth_safetensors_write(save->io, save->source->pool, path, tensors, n, fill_dense, &fill, &bytes, &checksum,
                                  err));
    if (fill.diverged)
        return fth_fail(err, FTH_E_NUMERIC, "%s holds numbers that are not finite", fill.diverged);
    return list_file(save, "dense.safetensors", bytes, checksum, err);
}

/* ---- packs ---- */

/* The tensors of a shard in their order; candidates stand in a pack's first shard. */
enum pack_tensor { KEYS, TABLES, WEIGHTS, FREQUENCY, LAST_STEP, SLOT0 };
#define MOST_PACK_TENSORS (SLOT0 + FTH_MAX_SLOTS + 3)

struct pack_fill {
    const fth_embedding *embedding;
    uint32_t pack, n_slots;
    uint64_t first; /* row of the shard's first */
    const struct fth_tensor *tensors;
    const char *diverged; /* a tensor that is not finite, or NULL */
};

static void fill_pack(void *ctx, uint32_t index, uint64_t first, uint64_t n, void *bytes) {
    struct pack_fill *fill = ctx;
    struct fth_row_arrays rows = {0};
    uint32_t candidates = SLOT0 + fill->n_slots;
    if (index >= candidates) {
        fth_embedding_export_candidates(fill->embedding, fill->pack, first, n,
                                        index == candidates ? bytes : NULL,
                                        index == candidates + 1 ? bytes : NULL,
                                        index == candidates + 2 ? bytes : NULL);
        return;
    }
    if (index == KEYS)
        rows.keys = bytes;
    else if (index == TABLES)
        rows.tables = bytes;
    else if (index == WEIGHTS)
        rows.weights = bytes;
    else if (index == FREQUENCY)
        rows.frequency = bytes;
    else if (index == LAST_STEP)
        rows.last_step = bytes;
    else
        rows.slots[index - SLOT0] = bytes;
    fth_embedding_export(fill->embedding, fill->pack, fill->first + first, n, &rows);
    const struct fth_tensor *tensor = &fill->tensors[index];
    if (tensor->type == FTH_TENSOR_F32 && !all_finite(bytes, n * tensor->columns))
        fill->diverged = tensor->name;
}

static uint32_t pack_tensors(const struct fth_pack_info *info, uint64_t rows, int with_candidates,
                             struct fth_tensor *out) {
    out[KEYS] = (struct fth_tensor){"keys", FTH_TENSOR_U64, 1, rows, 1, 0};
    out[TABLES] = (struct fth_tensor){"tables", FTH_TENSOR_U32, 1, rows, 1, 0};
    out[WEIGHTS] = (struct fth_tensor){"weights", FTH_TENSOR_F32, 2, rows, info->dim, 0};
    out[FREQUENCY] = (struct fth_tensor){"frequency", FTH_TENSOR_U64, 1, rows, 1, 0};
    out[LAST_STEP] = (struct fth_tensor){"last_step", FTH_TENSOR_U64, 1, rows, 1, 0};
    uint32_t n = SLOT0;
    for (uint32_t s = 0; s < info->n_slots; s++)
        out[n++] = (struct fth_tensor){info->slot_names[s], FTH_TENSOR_F32, 2, rows,
                                       info->slot_columns[s], 0};
    if (with_candidates) {
        out[n++] = (struct fth_tensor){"candidate_keys", FTH_TENSOR_U64, 1, info->candidates, 1, 0};
        out[n++] = (struct fth_tensor){"candidate_tables", FTH_TENSOR_U32, 1, info->candidates, 1, 0};
        out[n++] = (struct fth_tensor){"candidate_counts", FTH_TENSOR_U64, 1, info->candidates, 1, 0};
    }
    return n;
}

static fth_status save_pack(struct save *save, uint32_t pack, fth_error *err) {
    struct fth_pack_info info;
    fth_embedding_pack_info(save->source->embedding, pack, &info);
    uint32_t shards = (uint32_t)((info.rows + FTH_SHARD_ROWS - 1) / FTH_SHARD_ROWS);
    if (!shards)
        shards = 1;
    struct fth_saved_pack *saved = &save->packs[save->n_packs++];
    *saved = (struct fth_saved_pack){.dim = info.dim,
                                     .n_tables = info.n_tables,
                                     .n_slots = info.n_slots,
                                     .tables = (const char **)info.table_names,
                                     .slots = (const char **)info.slot_names,
                                     .rows = info.rows,
                                     .candidates = info.candidates,
                                     .files = fth_arena_alloc(save->arena, shards, sizeof(char *))};
    if (!saved->files)
        return no_memory(err);
    for (uint32_t shard = 0; shard < shards; shard++) {
        struct fth_tensor tensors[MOST_PACK_TENSORS];
        uint64_t first = shard * FTH_SHARD_ROWS, left = info.rows - first;
        uint32_t n = pack_tensors(&info, left < FTH_SHARD_ROWS ? left : FTH_SHARD_ROWS,
                                  shard == 0 && info.candidates, tensors);
        const char *name =
            shard ? fth_arena_printf(save->arena, "pack-%u.%u.safetensors", pack, shard)
                  : fth_arena_printf(save->arena, "pack-%u.safetensors", pack);
        const char *path = name ? fth_arena_printf(save->arena, "%s/%s", save->folder, name) : NULL;
        if (!path)
            return no_memory(err);
        struct pack_fill fill = {save->source->embedding, pack, info.n_slots, first, tensors, NULL};
        uint64_t bytes, checksum;
        FTH_TRY(fth_safetensors_write(save->io, save->source->pool, path, tensors, n, fill_pack, &fill, &bytes, &checksum,
                                      err));
        if (fill.diverged)
            return fth_fail(err, FTH_E_NUMERIC, "%s: %s holds numbers that are not finite", name, fill.diverged);
        saved->files[saved->n_files++] = name;
        FTH_TRY(list_file(save, name, bytes, checksum, err));
    }
    return FTH_OK;
}

static uint32_t count_files(const fth_embedding *embedding) {
    uint64_t n = 2; /* dense and config */
    for (uint32_t p = 0; embedding && p < fth_embedding_packs(embedding); p++) {
        struct fth_pack_info info;
        fth_embedding_pack_info(embedding, p, &info);
        n += info.rows / FTH_SHARD_ROWS + 1;
    }
    return (uint32_t)n;
}

/* ---- the folder ---- */

static fth_status write_text(struct save *save, const char *name, const char *text, int listed,
                             fth_error *err) {
    const char *path = fth_arena_printf(save->arena, "%s/%s", save->folder, name);
    if (!path || !text)
        return no_memory(err);
    size_t n = strlen(text);
    int file = save->io->open(save->io->ctx, path, FTH_IO_WRITE);
    if (file < 0)
        return fth_io_error(err, "create", path, file);
    fth_status status = fth_io_write(save->io, file, path, text, n, err);
    if (status == FTH_OK)
        status = fth_io_sync_close(save->io, file, path, err);
    else
        save->io->close(save->io->ctx, file);
    if (status != FTH_OK || !listed)
        return status;
    return list_file(save, name, n, fth_hash_bytes(text, n, 0), err);
}

static fth_status write_folder(struct save *save, const struct fth_checkpoint_state *state,
                               uint64_t digest, fth_error *err) {
    uint32_t n_packs = save->source->embedding ? fth_embedding_packs(save->source->embedding) : 0;
    save->files_room = count_files(save->source->embedding);
    save->files = fth_arena_alloc(save->arena, save->files_room, sizeof *save->files);
    save->packs = fth_arena_alloc(save->arena, n_packs + 1, sizeof *save->packs);
    if (!save->files || !save->packs)
        return no_memory(err);
    FTH_TRY(fth_io_remove(save->io, save->folder, err));
    FTH_TRY(fth_io_make_dirs(save->io, save->folder, err));
    FTH_TRY(write_text(save, "config.yaml", state->config_yaml, 1, err));
    FTH_TRY(save_dense(save, err));
    for (uint32_t p = 0; p < n_packs; p++)
        FTH_TRY(save_pack(save, p, err));
    char *text = fth_manifest_make(state, digest, save->files, save->n_files, save->packs, save->n_packs);
    fth_status status = write_text(save, "manifest.json", text, 0, err);
    free(text);
    if (status == FTH_OK)
        status = fth_io_sync_dir(save->io, save->folder, err);
    return status;
}

/* What stays is met again by every save: it is told once, unless another text came between in its place. */
static void warn_once(const char *dir, const char *what, const char *why) {
    static _Atomic uint64_t told[64];
    uint64_t hash = fth_hash_bytes(why, strlen(why), fth_hash_bytes(dir, strlen(dir), 0));
    if (atomic_exchange(&told[hash % 64], hash) != hash)
        fth_log(FTH_LOG_WARN, "%s: %s: %s", dir, what, why);
}

/* Removes what earlier saves left unfinished. What cannot be removed (another owner's, write-protected) is no reason not to
 * save, unless it is in this save's own way, which write_folder sees. */
static fth_status sweep(struct save *save, const char *dir, fth_error *err) {
    char **names = NULL;
    size_t n = 0;
    FTH_TRY(fth_io_list(save->io, dir, save->arena, &names, &n, err));
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(names[i], ".step-", 6) != 0 || length < 4 ||
            strcmp(names[i] + length - 4, ".tmp") != 0)
            continue;
        const char *path = fth_arena_printf(save->arena, "%s/%s", dir, names[i]);
        if (!path)
            return no_memory(err);
        fth_error why = {0};
        if (fth_io_remove(save->io, path, &why) != FTH_OK)
            warn_once(dir, "what an earlier save left unfinished stays", why.message);
    }
    return FTH_OK;
}

/* Takes a checkpoint away; it loses its final name first, so that half of one never has it. One that turns out to be
 * write-protected, of which nothing was removed (files go in the order of their names), gets that name back. */
static fth_status discard(struct save *save, const char *dir, const struct fth_step_folder *folder,
                          fth_error *err) {
    const char *out = fth_arena_printf(save->arena, "%s/.%s.old.tmp", dir,
                                       fth_step_name(save->arena, folder->step));
    const char *first = out ? fth_arena_printf(save->arena, "%s/config.yaml", out) : NULL;
    if (!first)
        return no_memory(err);
    int result = save->io->rename(save->io->ctx, folder->path, out);
    if (result < 0)
        return fth_io_error(err, "remove", folder->path, result);
    fth_status status = fth_io_remove(save->io, out, err);
    struct fth_io_stat stat;
    if (status != FTH_OK && save->io->stat(save->io->ctx, first, &stat) >= 0)
        save->io->rename(save->io->ctx, out, folder->path);
    return status;
}

/* Keeps the newest `keep` up to this one, and that of step `best`. Later ones, of a run that was further before it was
 * resumed from an earlier checkpoint, neither count nor go. */
static fth_status prune(struct save *save, const char *dir, uint64_t step, int64_t keep, uint64_t best,
                        fth_error *err) {
    struct fth_step_folder *folders;
    size_t all, n = 0;
    FTH_TRY(fth_step_folders(save->io, dir, save->arena, &folders, &all, err));
    while (n < all && folders[n].step <= step)
        n++;
    fth_status status = FTH_OK;
    for (size_t i = 0; keep > 0 && i + (size_t)keep < n; i++) { /* one that stays keeps no other one */
        if (best && folders[i].step == best)
            continue;
        fth_error why = {0};
        fth_status one = discard(save, dir, &folders[i], &why);
        if (one != FTH_OK && status == FTH_OK)
            status = fth_fail(err, one, "%s", why.message);
    }
    return status;
}

/* A checkpoint of this step that is there already. */
enum there { THERE_NONE, THERE_SAME, THERE_DAMAGED, THERE_OTHER };

static fth_status already_there(struct save *save, const char *final, uint64_t digest, enum there *out,
                                fth_error *err) {
    struct fth_io_stat stat;
    *out = THERE_NONE;
    if (save->io->stat(save->io->ctx, final, &stat) < 0)
        return FTH_OK;
    fth_checkpoint *there = NULL;
    char hex[17];
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)digest);
    fth_error why = {0};
    fth_status status = fth_checkpoint_open(save->io, final, &there, &why);
    *out = THERE_DAMAGED;
    if (status == FTH_E_CHECKPOINT)
        return FTH_OK;
    if (status != FTH_OK)
        return fth_fail(err, status, "%s", why.message);
    *out = strcmp(fth_checkpoint_digest(there), hex) == 0 ? THERE_SAME : THERE_OTHER;
    fth_checkpoint_close(there);
    return FTH_OK;
}

/* Takes the final name of a checkpoint that was given up away, not its content. */
static fth_status set_aside(struct save *save, const struct fth_step_folder *folder, fth_error *err) {
    for (unsigned k = 1;; k++) {
        struct fth_io_stat stat;
        const char *aside = fth_arena_printf(save->arena, "%s.replaced-%u", folder->path, k);
        if (!aside)
            return no_memory(err);
        if (save->io->stat(save->io->ctx, aside, &stat) >= 0)
            continue;
        int result = save->io->rename(save->io->ctx, folder->path, aside);
        if (result < 0)
            return fth_io_error(err, "rename", folder->path, result);
        fth_log(FTH_LOG_WARN, "%s held another state, or could not be read: it is %s now, and may be removed", folder->path,
                aside);
        return FTH_OK;
    }
}

/* Those of this step and behind it are of a run that was given up for this one. From the latest on: ends this halfway, that
 * run's are there as they were up to some step. */
static fth_status set_later_aside(struct save *save, const char *dir, uint64_t step, fth_error *err) {
    struct fth_step_folder *folders;
    size_t n = 0;
    FTH_TRY(fth_step_folders(save->io, dir, save->arena, &folders, &n, err));
    while (n > 0 && folders[n - 1].step >= step)
        FTH_TRY(set_aside(save, &folders[--n], err));
    return FTH_OK;
}

/* The new folder gets its final name, for good. A damaged one (an earlier one was resumed from) makes room. */
static fth_status publish(struct save *save, const char *dir, const struct fth_step_folder *final,
                          enum there there, fth_error *err) {
    if (there == THERE_DAMAGED) /* or it could not be read just now (no descriptor, no memory): not removed */
        FTH_TRY(set_aside(save, final, err));
    else if (there == THERE_OTHER)
        FTH_TRY(set_later_aside(save, dir, final->step, err));
    int result = save->io->rename(save->io->ctx, save->folder, final->path);
    if (result < 0)
        return fth_io_error(err, "rename", save->folder, result);
    save->published = 1;
    return fth_io_sync_dir(save->io, dir, err);
}

/* Names the last whole checkpoint behind the reason why this save failed. Of a directory that cannot be read any more (a disk
 * that failed, another file system there) it is not known whether there are any. */
static void say_last(struct save *save, const char *dir, fth_error *err) {
    struct fth_step_folder *folders;
    struct fth_io_stat stat;
    size_t n = 0;
    if (!err)
        return;
    int listed = fth_step_folders(save->io, dir, save->arena, &folders, &n, NULL) == FTH_OK;
    int none = listed ? n == 0 : save->io->stat(save->io->ctx, dir, &stat) == -ENOENT;
    for (size_t i = listed ? n : 0; i-- > 0;) {
        fth_checkpoint *whole = NULL;
        if (fth_checkpoint_open(save->io, folders[i].path, &whole, NULL) != FTH_OK)
            continue;
        fth_checkpoint_close(whole);
        fth_error_append(err, " (the last whole checkpoint is %s)", folders[i].path);
        return;
    }
    fth_error_append(err, " (no %s)", none ? "checkpoint was saved before" : "whole checkpoint can be read there now");
}

fth_status fth_checkpoint_save(const struct fth_io *io, const char *dir, int64_t keep, uint64_t best, int replace,
                               const struct fth_checkpoint_source *source, const struct fth_checkpoint_state *state,
                               char **path_out, fth_error *err) {
    struct save save = {.io = io, .arena = fth_arena_create(1 << 14), .source = source};
    const char *name = save.arena ? fth_step_name(save.arena, state->step) : NULL;
    const char *final = name ? fth_arena_printf(save.arena, "%s/%s", dir, name) : NULL;
    save.folder = final ? fth_arena_printf(save.arena, "%s/.%s.tmp", dir, name) : NULL;
    char *path = save.folder ? strdup(final) : NULL;
    fth_status status = FTH_E_MEMORY;
    uint64_t digest = 0;
    enum there there = THERE_NONE;
    if (!path) {
        fth_arena_destroy(save.arena);
        return no_memory(err);
    }
    FTH_TRY_GOTO(status, fth_checkpoint_digest_u64(source, state, &digest, err), done);
    FTH_TRY_GOTO(status, fth_io_make_dirs(io, dir, err), failed);
    FTH_TRY_GOTO(status, already_there(&save, final, digest, &there, err), done);
    if (there == THERE_OTHER && !replace) {
        status = fth_fail(err, FTH_E_CHECKPOINT,
                          "%s is there already and holds another state; name another checkpoint.dir", final);
        goto done;
    }
    FTH_TRY_GOTO(status, sweep(&save, dir, err), failed);
    if (there == THERE_SAME) {
        FTH_TRY_GOTO(status, fth_io_sync_dir(io, dir, err), failed);
    } else {
        const struct fth_step_folder folder = {final, state->step};
        FTH_TRY_GOTO(status, write_folder(&save, state, digest, err), failed);
        FTH_TRY_GOTO(status, publish(&save, dir, &folder, there, err), failed);
    }
    fth_error why = {0};
    if (prune(&save, dir, state->step, keep, best, &why) != FTH_OK) /* the new one is safe: no failure */
        warn_once(dir, "earlier checkpoints stay", why.message);
    goto done;
failed:
    fth_io_remove(io, save.folder, NULL); /* frees the space at once; the next save would too */
    fth_error_frame(err, "cannot save a checkpoint into %s", dir);
    say_last(&save, dir, err);
done:
    if (path_out && (status == FTH_OK || save.published)) {
        *path_out = path;
        path = NULL;
    }
    free(path);
    fth_arena_destroy(save.arena);
    return status;
}

void fth_checkpoint_tidy(const struct fth_io *io, const char *dir) {
    struct save save = {.io = io, .arena = fth_arena_create(1 << 12)};
    fth_error why = {0};
    if (save.arena && sweep(&save, dir, &why) != FTH_OK)
        fth_log(FTH_LOG_WARN, "%s: what earlier saves left unfinished stays: %s", dir, why.message);
    fth_arena_destroy(save.arena);
}
