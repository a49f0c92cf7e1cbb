/* Opening: everything is verified before anybody reads a tensor. */
#include <stdio.h>
#include <string.h>

#include "checkpoint/checkpoint_private.h"
#include "config/config.h"

#define TRIES 64 /* of a checkpoint.dir whose run removes what is being read */

static fth_status no_memory(fth_error *err) {
    return fth_fail(err, FTH_E_MEMORY, "no memory to read a checkpoint");
}

static fth_status verify_file(fth_checkpoint *c, const struct fth_listed_file *listed, fth_error *err) {
    const char *path = fth_arena_printf(c->arena, "%s/%s", c->path, listed->name);
    uint64_t bytes = 0, checksum = 0;
    if (!path)
        return no_memory(err);
    fth_status status = fth_file_checksum(c->io, path, &bytes, &checksum, err);
    if (status == FTH_E_MEMORY)
        return status;
    if (status != FTH_OK)
        return err ? (err->code = FTH_E_CHECKPOINT) : FTH_E_CHECKPOINT;
    if (bytes != listed->bytes)
        return fth_fail(err, FTH_E_CHECKPOINT, "%s: damaged: %llu bytes, the manifest says %llu", path,
                        (unsigned long long)bytes, (unsigned long long)listed->bytes);
    if (checksum != listed->checksum)
        return fth_fail(err, FTH_E_CHECKPOINT, "%s: damaged: its checksum is not the manifest's", path);
    return FTH_OK;
}

static int is_tensors(const char *name) {
    size_t n = strlen(name), m = strlen(".safetensors");
    return n > m && strcmp(name + n - m, ".safetensors") == 0;
}

static fth_status list_tensors(fth_checkpoint *c, fth_error *err) {
    struct fth_tensor **each = fth_arena_alloc(c->arena, c->n_files + 1, sizeof *each);
    uint32_t *counts = fth_arena_alloc(c->arena, c->n_files + 1, sizeof *counts);
    if (!each || !counts)
        return no_memory(err);
    for (uint32_t i = 0; i < c->n_files; i++) {
        if (!is_tensors(c->files[i].name))
            continue;
        const char *path = fth_arena_printf(c->arena, "%s/%s", c->path, c->files[i].name);
        if (!path)
            return no_memory(err);
        FTH_TRY(fth_safetensors_open(c->io, path, c->arena, &each[i], &counts[i], err));
        c->n_tensors += counts[i];
    }
    c->tensors = fth_arena_alloc(c->arena, c->n_tensors + 1, sizeof *c->tensors);
    c->tensor_files = fth_arena_alloc(c->arena, c->n_tensors + 1, sizeof *c->tensor_files);
    if (!c->tensors || !c->tensor_files)
        return no_memory(err);
    for (uint32_t i = 0, at = 0; i < c->n_files; i++)
        for (uint32_t t = 0; t < counts[i]; t++, at++) {
            c->tensors[at] = each[i][t];
            c->tensor_files[at] = c->files[i].name;
        }
    return FTH_OK;
}

const struct fth_tensor *fth_checkpoint_find(const fth_checkpoint *c, const char *file,
                                             const char *name) {
    for (uint32_t i = 0; i < c->n_tensors; i++)
        if (strcmp(c->tensor_files[i], file) == 0 && strcmp(c->tensors[i].name, name) == 0)
            return &c->tensors[i];
    return NULL;
}

/* The two files that every checkpoint has stand in the manifest, each once: what it does not list was not
 * verified. */
static fth_status check_listed(const fth_checkpoint *c, fth_error *err) {
    static const char *const names[] = {"config.yaml", "dense.safetensors"};
    for (size_t k = 0; k < 2; k++) {
        uint32_t times = 0;
        for (uint32_t i = 0; i < c->n_files; i++)
            times += strcmp(c->files[i].name, names[k]) == 0;
        if (times != 1)
            return fth_fail(err, FTH_E_CHECKPOINT, "%s/manifest.json: lists %s %u times", c->path,
                            names[k], times);
    }
    return FTH_OK;
}

static fth_status read_config(fth_checkpoint *c, fth_error *err) {
    const char *path = fth_arena_printf(c->arena, "%s/config.yaml", c->path);
    char *text = NULL;
    size_t n = 0;
    if (!path)
        return no_memory(err);
    FTH_TRY(fth_io_read_file(c->io, path, FTH_CONFIG_MAX_PRINTED, &text, &n, err));
    c->state.config_yaml = fth_arena_strdup(c->arena, text);
    fth_free(text);
    return c->state.config_yaml ? FTH_OK : no_memory(err);
}

fth_status fth_checkpoint_open_manifest(const struct fth_io *io, const char *path, fth_checkpoint **out, fth_error *err) {
    fth_checkpoint *c = fth_alloc(1, sizeof *c);
    if (!c)
        return no_memory(err);
    c->io = io;
    c->arena = fth_arena_create(1 << 14);
    c->path = c->arena ? fth_arena_strdup(c->arena, path) : NULL;
    fth_status status = c->path ? fth_manifest_read(c, err) : no_memory(err);
    if (status != FTH_OK) {
        fth_checkpoint_close(c);
        return status;
    }
    *out = c;
    return FTH_OK;
}

/* One step-* folder, whole or refused. */
static fth_status open_folder(const struct fth_io *io, const char *path, fth_checkpoint **out,
                              fth_error *err) {
    fth_checkpoint *c = NULL;
    FTH_TRY(fth_checkpoint_open_manifest(io, path, &c, err));
    fth_status status = check_listed(c, err);
    for (uint32_t i = 0; status == FTH_OK && i < c->n_files; i++)
        status = verify_file(c, &c->files[i], err);
    if (status == FTH_OK)
        status = list_tensors(c, err);
    if (status == FTH_OK)
        status = fth_checkpoint_check_packs(c, err);
    if (status == FTH_OK)
        status = read_config(c, err);
    if (status != FTH_OK) {
        fth_checkpoint_close(c);
        return status;
    }
    *out = c;
    return FTH_OK;
}

/* Says behind a refusal which earlier checkpoint could be taken instead. */
static void name_earlier(const struct fth_io *io, const struct fth_step_folder *folders, size_t n,
                         fth_error *err) {
    for (size_t i = n; err && i-- > 0;) {
        fth_checkpoint *c = NULL;
        if (open_folder(io, folders[i].path, &c, NULL) != FTH_OK)
            continue;
        fth_checkpoint_close(c);
        fth_error_append(err, "; %s is whole", folders[i].path);
        return;
    }
}

static const char *parent_of(fth_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? fth_arena_printf(arena, "%.*s", (int)(slash - path + (slash == path)), path) : ".";
}

/* One that was given another step's name would be taken for the newest, whatever is trained behind it. */
static fth_status open_of_step(const struct fth_io *io, const struct fth_step_folder *folder, fth_checkpoint **out,
                               fth_error *err) {
    fth_checkpoint *c = NULL;
    FTH_TRY(open_folder(io, folder->path, &c, err));
    uint64_t step = c->state.step;
    if (step != folder->step) {
        fth_checkpoint_close(c);
        return fth_fail(err, FTH_E_CHECKPOINT,
                        "%s holds step %llu, not that of its name: it was renamed or copied; move it elsewhere, or name it "
                        "step-%012llu", folder->path, (unsigned long long)step, (unsigned long long)step);
    }
    *out = c;
    return FTH_OK;
}

/* The newest checkpoint of a folder. A run that saves there may be removing it, file by file, while it is read: then there
 * is a later one. */
static fth_status open_newest(const struct fth_io *io, const char *dir, fth_arena *arena,
                              struct fth_step_folder **folders, size_t *n, fth_checkpoint **out, fth_error *err) {
    fth_status status = FTH_OK;
    uint64_t step;
    int later = 1;
    for (int i = 0; later && i < TRIES; i++) {
        if (*n == 0)
            return fth_fail(err, FTH_E_CHECKPOINT, "%s: no checkpoint here (neither a manifest.json nor step-* folders)",
                            dir);
        step = (*folders)[*n - 1].step;
        status = open_of_step(io, &(*folders)[*n - 1], out, err);
        if (status != FTH_E_CHECKPOINT && status != FTH_E_IO)
            return status;
        FTH_TRY(fth_step_folders(io, dir, arena, folders, n, err));
        later = *n > 0 && (*folders)[*n - 1].step > step;
    }
    return status;
}

fth_status fth_checkpoint_open(const struct fth_io *io, const char *given, fth_checkpoint **out,
                               fth_error *err) {
    fth_arena *arena = fth_arena_create(1 << 12);
    char *path = arena ? fth_arena_strdup(arena, given) : NULL;
    if (!path) {
        fth_arena_destroy(arena);
        return no_memory(err);
    }
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = 0;
    struct fth_io_stat stat;
    struct fth_step_folder *folders = NULL;
    size_t n = 0, newest = 0;
    const char *manifest = fth_arena_printf(arena, "%s/manifest.json", path);
    const char *parent = parent_of(arena, path);
    int single = manifest && io->stat(io->ctx, manifest, &stat) >= 0;
    fth_status status = manifest && parent ? fth_step_folders(io, single ? parent : path, arena, &folders, &n, err)
                                           : no_memory(err);
    if (status == FTH_OK && single) {
        status = open_folder(io, path, out, err);
        while (newest < n && strcmp(strrchr(folders[newest].path, '/') + 1,
                                    strrchr(path, '/') ? strrchr(path, '/') + 1 : path) != 0)
            newest++;
    } else if (status == FTH_OK) {
        status = open_newest(io, path, arena, &folders, &n, out, err);
        newest = n ? n - 1 : 0;
    } else if (status == FTH_E_IO) {
        fth_error_frame(err, "no checkpoint");
        status = err ? (err->code = FTH_E_CHECKPOINT) : FTH_E_CHECKPOINT;
    }
    if (status == FTH_E_CHECKPOINT)
        name_earlier(io, folders, newest < n ? newest : n, err);
    fth_arena_destroy(arena);
    return status;
}

void fth_checkpoint_close(fth_checkpoint *checkpoint) {
    if (!checkpoint)
        return;
    json_decref(checkpoint->manifest);
    fth_arena_destroy(checkpoint->arena);
    fth_free(checkpoint);
}

const char *fth_checkpoint_path(const fth_checkpoint *checkpoint) {
    return checkpoint->path;
}

/* Whether the folder has a later checkpoint than this one of it. */
static int later_there(const char *dir, const fth_checkpoint *checkpoint) {
    fth_arena *arena = fth_arena_create(1 << 12);
    struct fth_step_folder *folders = NULL;
    size_t n = 0;
    int later = arena && fth_step_folders(checkpoint->io, dir, arena, &folders, &n, NULL) == FTH_OK && n > 0 &&
                folders[n - 1].step > checkpoint->state.step;
    fth_arena_destroy(arena);
    return later;
}

fth_status fth_checkpoint_read(const struct fth_io *io, const char *path,
                               fth_status (*fn)(void *ctx, fth_checkpoint *checkpoint, fth_error *err), void *ctx,
                               fth_error *err) {
    fth_status status = FTH_OK;
    int later = 1;
    for (int i = 0; later && i < TRIES; i++) {
        fth_checkpoint *checkpoint = NULL;
        FTH_TRY(fth_checkpoint_open(io, path, &checkpoint, err));
        status = fn(ctx, checkpoint, err);
        later = status == FTH_E_IO && later_there(path, checkpoint);
        fth_checkpoint_close(checkpoint);
    }
    return status;
}

const struct fth_checkpoint_state *fth_checkpoint_state(const fth_checkpoint *checkpoint) {
    return &checkpoint->state;
}

const char *fth_checkpoint_digest(const fth_checkpoint *checkpoint) {
    return checkpoint->digest;
}
