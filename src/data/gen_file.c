/* The generator into files: see fathom/gen.h. A file gets its name when it is whole, so that what was there before
 * stays until then, whatever fails. One thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/gen_private.h"
#include "fathom/tools.h"
#include "io/io.h"

struct file_sink {
    const struct fth_io *io;
    const char *path;
    char *beside; /* written first and renamed to `path` when whole; NULL: written into at once. Owned: free() */
    int file;     /* -1: none to be closed */
    int standard; /* output: not closed */
};

static fth_status write_file(void *ctx, const void *bytes, size_t n, fth_error *err) {
    const struct file_sink *sink = ctx;
    return fth_io_write(sink->io, sink->file, sink->beside ? sink->beside : sink->path, bytes, n, err);
}

/* Whether `path` is, or is going to be, a file of its own: no device, no pipe, no link to anything. */
static int is_own_file(const struct fth_io *io, const char *path) {
    struct fth_io_stat found;
    struct stat link;
    if (lstat(path, &link) == 0 && S_ISLNK(link.st_mode))
        return 0;
    return io->stat(io->ctx, path, &found) != 0 || found.kind == FTH_IO_FILE;
}

static fth_status open_sink(const struct fth_io *io, const char *path, struct file_sink *sink,
                            fth_error *err) {
    struct stat there;
    *sink = (struct file_sink){.io = io, .path = path, .file = -1};
    if (strcmp(path, "-") == 0) {
        sink->path = "standard output";
        sink->file = STDOUT_FILENO;
        sink->standard = 1;
        return FTH_OK;
    }
    FTH_TRY(fth_check_output(path, err));
    if (is_own_file(io, path) && asprintf(&sink->beside, "%s.part", path) < 0) {
        sink->beside = NULL;
        return fth_fail(err, FTH_E_MEMORY, "no memory for %s", path);
    }
    int file = io->open(io->ctx, sink->beside ? sink->beside : path, FTH_IO_WRITE);
    if (file < 0) {
        free(sink->beside);
        return fth_io_error(err, "write", path, file);
    }
    sink->file = file;
    if (sink->beside && stat(path, &there) == 0)
        fchmod(file, there.st_mode & 0777); /* as the file that it replaces; not every file system can */
    return FTH_OK;
}

/* Closes; what is whole gets its name, what is not goes. */
static fth_status close_sink(struct file_sink *sink, fth_status status, fth_error *err) {
    if (sink->file < 0 || sink->standard)
        return FTH_OK;
    const struct fth_io *io = sink->io;
    int result = io->close(io->ctx, sink->file), whole = status == FTH_OK && result >= 0;
    if (sink->beside && whole) {
        result = io->rename(io->ctx, sink->beside, sink->path);
        whole = result >= 0;
    }
    if (sink->beside && !whole)
        io->unlink(io->ctx, sink->beside);
    free(sink->beside);
    return result < 0 ? fth_io_error(status == FTH_OK ? err : NULL, "write", sink->path, result) : FTH_OK;
}

static int same_file(const struct stat *a, const struct stat *b) {
    return S_ISREG(a->st_mode) && a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether two paths are one file, however they are written; links, too. */
static int same_path(const char *a, const char *b) {
    struct stat first, second;
    return strcmp(a, b) == 0 || (stat(a, &first) == 0 && stat(b, &second) == 0 && same_file(&first, &second));
}

/* The same of files that are open: those that were not there before. */
static int same_sink(const struct file_sink *a, const struct file_sink *b) {
    struct stat first, second;
    return fstat(a->file, &first) == 0 && fstat(b->file, &second) == 0 && same_file(&first, &second);
}

static fth_status both_to(const char *path, fth_error *err) {
    return fth_fail(err, FTH_E_ARGUMENT, "generator: data and truth cannot both go to '%s'", path);
}

fth_status fth_gen_file_io(const struct fth_io *io, const fth_gen_options *options, const char *path,
                           const char *truth_path, fth_gen_result *result, fth_error *err) {
    struct file_sink data, truth = {.file = -1};
    int with_truth = truth_path != NULL && *truth_path != 0;
    FTH_TRY(fth_gen_check_options(options, err)); /* before a file that is there is emptied */
    if (with_truth && same_path(path, truth_path))
        return both_to(path, err);
    FTH_TRY(open_sink(io, path, &data, err));
    fth_status status = with_truth ? open_sink(io, truth_path, &truth, err) : FTH_OK;
    if (status == FTH_OK && with_truth && (same_sink(&data, &truth) || same_path(path, truth_path)))
        status = both_to(path, err);
    const fth_gen_sink data_sink = {write_file, &data}, truth_sink = {write_file, &truth};
    if (status == FTH_OK)
        status = fth_gen_run(options, &data_sink, with_truth ? &truth_sink : NULL, result, err);
    FTH_KEEP_FIRST(status, close_sink(&data, status, err));
    FTH_KEEP_FIRST(status, close_sink(&truth, status, err));
    return status;
}

fth_status fth_gen_file(const fth_gen_options *options, const char *path, const char *truth_path,
                        fth_gen_result *result, fth_error *err) {
    if (!options || !path)
        return fth_fail_null(err, "fth_gen_file", "options, path");
    return fth_gen_file_io(fth_io_posix(), options, path, truth_path, result, err);
}
