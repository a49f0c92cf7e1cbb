/* Directories: making, listing and removing them, over any table of functions: see io/io.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "io/io.h"

/* Deeper trees are refused: nothing Fathom writes is deeper than three. */
#define MAX_DEPTH 16

/* A new one's name lasts as long as what will be in it. */
static fth_status make_dir(const struct fth_io *io, const char *path, fth_error *err) {
    struct fth_io_stat found;
    int result = io->mkdir(io->ctx, path);
    if (result >= 0)
        return fth_io_sync_parent(io, path, err);
    if (result == -EEXIST || result == -EISDIR) {
        result = io->stat(io->ctx, path, &found);
        if (result >= 0 && found.kind != FTH_IO_DIRECTORY)
            result = -ENOTDIR;
    }
    return result < 0 ? fth_io_error(err, "make directory", path, result) : FTH_OK;
}

fth_status fth_io_make_dirs(const struct fth_io *io, const char *path, fth_error *err) {
    struct fth_text prefix = {0};
    struct fth_io_stat found;
    fth_status status = FTH_OK;
    size_t length = strlen(path);
    for (size_t end = 1; end <= length && status == FTH_OK; end++) {
        if (end < length && (path[end] != '/' || path[end - 1] == '/'))
            continue;
        prefix.length = 0;
        fth_text_append(&prefix, path, end);
        if (prefix.failed)
            status = fth_fail(err, FTH_E_MEMORY, "no memory for %s", path);
        /* Directories above may be there without the right to make one beside them: look first. */
        else if (end == length || io->stat(io->ctx, fth_text_get(&prefix), &found) < 0)
            status = make_dir(io, fth_text_get(&prefix), err);
    }
    fth_text_free(&prefix);
    if (length == 0)
        return fth_fail(err, FTH_E_ARGUMENT, "cannot make directory: its name is empty");
    return status;
}

struct listing {
    fth_arena *arena;
    char **names;
    size_t n, capacity;
};

static int add_name(void *arg, const char *name) {
    struct listing *list = arg;
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        char **names = fth_arena_alloc(list->arena, capacity, sizeof *names);
        if (!names)
            return -ENOMEM;
        if (list->n)
            memcpy(names, list->names, list->n * sizeof *names);
        list->names = names;
        list->capacity = capacity;
    }
    list->names[list->n] = fth_arena_strdup(list->arena, name);
    return list->names[list->n++] ? 0 : -ENOMEM;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

fth_status fth_io_list(const struct fth_io *io, const char *path, fth_arena *arena, char ***names,
                       size_t *n, fth_error *err) {
    struct listing list = {.arena = arena};
    int result = io->list(io->ctx, path, add_name, &list);
    if (result < 0)
        return fth_io_error(err, "list directory", path, result);
    if (list.n)
        qsort(list.names, list.n, sizeof *list.names, compare_names);
    *names = list.names;
    *n = list.n;
    return FTH_OK;
}

static fth_status remove_at(const struct fth_io *io, const char *path, fth_arena *arena, int depth,
                            fth_error *err) {
    /* unlink first: it takes links away without following them, and says so of a directory. */
    int result = io->unlink(io->ctx, path);
    if (result >= 0 || result == -ENOENT)
        return FTH_OK;
    if (result != -EISDIR) /* EPERM: an immutable file, or one in a folder whose names stay */
        return fth_io_error(err, "remove", path, result);
    if (depth == MAX_DEPTH)
        return fth_io_error(err, "remove", path, -ELOOP);
    char **names;
    size_t n;
    FTH_TRY(fth_io_list(io, path, arena, &names, &n, err));
    for (size_t i = 0; i < n; i++) {
        char *inner = fth_arena_printf(arena, "%s/%s", path, names[i]);
        if (!inner)
            return fth_fail(err, FTH_E_MEMORY, "no memory for %s", path);
        FTH_TRY(remove_at(io, inner, arena, depth + 1, err));
    }
    result = io->rmdir(io->ctx, path);
    return result < 0 && result != -ENOENT ? fth_io_error(err, "remove", path, result) : FTH_OK;
}

fth_status fth_io_remove(const struct fth_io *io, const char *path, fth_error *err) {
    fth_arena *arena = fth_arena_create(4096);
    if (!arena)
        return fth_fail(err, FTH_E_MEMORY, "no memory for %s", path);
    fth_status status = remove_at(io, path, arena, 0, err);
    fth_arena_destroy(arena);
    return status;
}
