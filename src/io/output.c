/* Files that results are written to: see io/output.h.
 *
 * Who writes `path`.part holds a lock on it, which the system lets go with the process: a file without one is what is left
 * of a run that was killed, and makes room. Any thread. */
#include "io/output.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANYBODY_WRITES (S_IWUSR | S_IWGRP | S_IWOTH)
#define ABANDONED_MOST 16

/* Files beside that are being written, of the outputs that are open; a signal handler reads it. */
static _Atomic(char *) unfinished[ABANDONED_MOST];

static void swap_unfinished(char *from, char *to) {
    int done = 0;
    for (int i = 0; from != to && !done && i < ABANDONED_MOST; i++) {
        char *expected = from;
        done = atomic_compare_exchange_strong(&unfinished[i], &expected, to);
    }
}

void fth_output_abandon(void) {
    for (int i = 0; i < ABANDONED_MOST; i++) {
        const char *path = atomic_load(&unfinished[i]);
        if (path)
            unlink(path);
    }
}

/* access() alone would allow root what nobody may write. */
fth_status fth_check_output(const char *path, fth_error *err) {
    struct stat there;
    if (!path)
        return fth_fail_null(err, "fth_check_output", "path");
    if (!*path)
        return fth_fail(err, FTH_E_IO, "cannot write to the empty name ''; name a file");
    if (stat(path, &there) != 0)
        return FTH_OK;
    if (S_ISDIR(there.st_mode))
        return fth_io_error(err, "write", path, -EISDIR);
    if (!S_ISREG(there.st_mode) || ((there.st_mode & ANYBODY_WRITES) && access(path, W_OK) == 0))
        return FTH_OK;
    if ((there.st_mode & ANYBODY_WRITES) && errno != EACCES)
        return fth_io_error(err, "write", path, -errno);
    return fth_fail(err, FTH_E_IO,
                    "cannot write %.800s: it is there and read-only; allow it (chmod u+w), remove it, or name another file", path);
}

/* Whether `path` is, or is going to be, a file of its own: no device, no pipe, no link to anything (/dev/stdout is one). */
static int is_own_file(const char *path) {
    struct stat found;
    return lstat(path, &found) != 0 || S_ISREG(found.st_mode);
}

static int is_locked(int file) {
    return flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

static fth_status in_use(const struct fth_io *io, const fth_output *out, int file, fth_error *err) {
    io->close(io->ctx, file);
    return fth_fail(err, FTH_E_IO, "cannot write %.800s: another run is writing it; wait for its end, or name another file",
                    out->path);
}

/* A file that nobody else has. */
static fth_status create_beside(const struct fth_io *io, const fth_output *out, int *file, fth_error *err) {
    *file = io->open(io->ctx, out->beside, FTH_IO_NEW);
    if (*file != -EEXIST)
        return FTH_OK;
    int left = io->open(io->ctx, out->beside, FTH_IO_READ);
    if (left >= 0 && is_locked(left))
        return in_use(io, out, left, err);
    if (left >= 0)
        io->close(io->ctx, left);
    io->unlink(io->ctx, out->beside);
    *file = io->open(io->ctx, out->beside, FTH_IO_NEW);
    return FTH_OK;
}

static fth_status open_beside(const struct fth_io *io, fth_output *out, fth_error *err) {
    struct stat there;
    int file, is_there = stat(out->path, &there) == 0;
    FTH_TRY(create_beside(io, out, &file, err));
    if (file < 0) /* where there is a file that could be written, it is the one beside that cannot */
        return fth_io_error(err, "write", is_there || file == -EEXIST ? out->beside : out->path, file);
    if (is_locked(file))
        return in_use(io, out, file, err);
    if (is_there)
        fchmod(file, there.st_mode & 0777); /* not every file system can */
    out->file = file;
    swap_unfinished(NULL, out->beside);
    return FTH_OK;
}

fth_status fth_output_open_io(const struct fth_io *io, const char *path, fth_output *out, fth_error *err) {
    *out = (fth_output){.path = path, .file = -1};
    if (!path || strcmp(path, "-") == 0) {
        *out = (fth_output){.path = "standard output", .file = STDOUT_FILENO, .standard = 1};
        return FTH_OK;
    }
    FTH_TRY(fth_check_output(path, err));
    if (!is_own_file(path)) {
        out->file = io->open(io->ctx, path, FTH_IO_WRITE);
        return out->file < 0 ? fth_io_error(err, "write", path, out->file) : FTH_OK;
    }
    if (asprintf(&out->beside, "%s.part", path) < 0) {
        out->beside = NULL;
        return fth_fail(err, FTH_E_MEMORY, "no memory for %.800s", path);
    }
    fth_status status = open_beside(io, out, err);
    if (status != FTH_OK) {
        free(out->beside);
        out->beside = NULL;
    }
    return status;
}

fth_status fth_output_close_io(const struct fth_io *io, fth_output *out, int whole, fth_error *err) {
    if (out->file < 0 || out->standard)
        return FTH_OK;
    int lock = out->beside ? dup(out->file) : -1; /* held until the name is right */
    int result = io->close(io->ctx, out->file), good = whole && result >= 0;
    if (out->beside && good) {
        result = io->rename(io->ctx, out->beside, out->path);
        good = result >= 0;
    }
    if (out->beside && !good)
        io->unlink(io->ctx, out->beside);
    swap_unfinished(out->beside, NULL);
    if (lock >= 0)
        close(lock);
    fth_status status = result < 0 && whole ? fth_io_error(err, "write", out->path, result) : FTH_OK;
    free(out->beside);
    *out = (fth_output){.file = -1};
    return status;
}

fth_status fth_output_open(const char *path, fth_output *out, fth_error *err) {
    if (!out)
        return fth_fail_null(err, "fth_output_open", "out");
    return fth_output_open_io(fth_io_posix(), path, out, err);
}

fth_status fth_output_close(fth_output *out, int whole, fth_error *err) {
    if (!out)
        return fth_fail_null(err, "fth_output_close", "out");
    return fth_output_close_io(fth_io_posix(), out, whole, err);
}
