/* Files that results are written to: see io/output.h.
 *
 * Who writes `path`.part holds a lock on it, which the system lets go with the process: a file without one is what is
 * left of a run that was killed, and makes room, under its lock. Any thread. */
#include "io/output.h"

#include <errno.h>
#include <fcntl.h>
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
static atomic_int abandoned; /* set before the names are read: from then on none is freed */

static void swap_unfinished(char *from, char *to) {
    int done = 0;
    for (int i = 0; from != to && !done && i < ABANDONED_MOST; i++) {
        char *expected = from;
        done = atomic_compare_exchange_strong(&unfinished[i], &expected, to);
    }
}

/* Another thread may be closing an output meanwhile: it takes the name out before it asks whether names are read. */
static void forget_unfinished(char *beside) {
    swap_unfinished(beside, NULL);
    if (!atomic_load(&abandoned))
        free(beside);
}

void fth_output_abandon(void) {
    atomic_store(&abandoned, 1);
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
                    "cannot write %.800s: it is there and read-only; allow it (chmod u+w), remove it, or name another "
                    "file",
                    path);
}

/* Whether `path` is, or is going to be, a file of its own: no device, no pipe, no link to anything (/dev/stdout is
 * one). */
static int is_own_file(const char *path) {
    struct stat found;
    return lstat(path, &found) != 0 || S_ISREG(found.st_mode);
}

/* Locks it where nobody else has. */
static int is_locked(int file) {
    return flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/* Whether `path` is still this file: who makes room takes its name away. */
static int is_at(int file, const char *path) {
    struct stat own, there;
    return fstat(file, &own) == 0 && lstat(path, &there) == 0 && own.st_dev == there.st_dev &&
           own.st_ino == there.st_ino;
}

/* Removes what is left at `path`, under its lock, so that of several runs that meet it none removes what another one
 * has put there; 0: another run writes it. Opened for writing, as a lock over NFS needs; no pipe is waited for. */
static int make_room(const struct fth_io *io, const char *path) {
    int left = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), may = left >= 0 ? !is_locked(left) : 1;
    if (left >= 0 ? may && is_at(left, path) : errno != ENOENT)
        io->unlink(io->ctx, path);
    if (left >= 0)
        close(left);
    return may;
}

static fth_status others_write(const char *path, fth_error *err) {
    return fth_fail(err, FTH_E_IO,
                    "cannot write %.800s: another run is writing it; wait for its end, or name another file", path);
}

/* A file that nobody else has. Between being made and being locked it looks like one that is left. */
static fth_status create_beside(const struct fth_io *io, const fth_output *out, int *file, fth_error *err) {
    *file = io->open(io->ctx, out->beside, FTH_IO_NEW);
    int others = *file == -EEXIST && !make_room(io, out->beside);
    if (*file == -EEXIST && !others)
        *file = io->open(io->ctx, out->beside, FTH_IO_NEW);
    if (*file >= 0 && (is_locked(*file) || !is_at(*file, out->beside))) {
        io->close(io->ctx, *file);
        others = 1;
    }
    return others ? others_write(out->path, err) : FTH_OK;
}

static fth_status open_beside(const struct fth_io *io, fth_output *out, fth_error *err) {
    struct stat there;
    int file, is_there = stat(out->path, &there) == 0;
    FTH_TRY(create_beside(io, out, &file, err));
    if (file < 0) /* where there is a file that could be written, it is the one beside that cannot */
        return fth_io_error(err, "write", is_there || file == -EEXIST ? out->beside : out->path, file);
    if (is_there)
        fchmod(file, there.st_mode & 0777); /* not every file system can */
    out->file = file;
    swap_unfinished(NULL, out->beside);
    return FTH_OK;
}

/* What is written in its place: a device, a pipe, or the file that a link leads to, which is locked before it is emptied,
 * and while it is written. */
static fth_status open_in_place(const struct fth_io *io, fth_output *out, fth_error *err) {
    struct stat there;
    int is_file = stat(out->path, &there) == 0 && S_ISREG(there.st_mode);
    int lock = is_file ? open(out->path, O_WRONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (lock >= 0 && is_locked(lock)) {
        close(lock);
        return others_write(out->path, err);
    }
    out->file = io->open(io->ctx, out->path, FTH_IO_WRITE);
    if (lock >= 0)
        close(lock); /* another run may come now: one of the two is refused below, before either has written */
    if (out->file >= 0 && fstat(out->file, &there) == 0 && S_ISREG(there.st_mode) && is_locked(out->file)) {
        io->close(io->ctx, out->file);
        out->file = -1;
        return others_write(out->path, err);
    }
    return out->file < 0 ? fth_io_error(err, "write", out->path, out->file) : FTH_OK;
}

fth_status fth_output_open_io(const struct fth_io *io, const char *path, fth_output *out, fth_error *err) {
    *out = (fth_output){.path = path, .file = -1};
    if (!path || strcmp(path, "-") == 0) {
        *out = (fth_output){.path = "standard output", .file = STDOUT_FILENO, .standard = 1};
        return FTH_OK;
    }
    FTH_TRY(fth_check_output(path, err));
    if (!is_own_file(path))
        return open_in_place(io, out, err);
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
    forget_unfinished(out->beside);
    if (lock >= 0)
        close(lock);
    fth_status status = result < 0 && whole ? fth_io_error(err, "write", out->path, result) : FTH_OK;
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
