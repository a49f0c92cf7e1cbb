/* The generator into files: see fathom/gen.h. A file gets its name when it is whole, so that what was there before
 * stays until then, whatever fails. One thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/gen_private.h"
#include "io/output.h"

struct file_sink {
    const struct fth_io *io;
    fth_output out;
};

static fth_status write_file(void *ctx, const void *bytes, size_t n, fth_error *err) {
    const struct file_sink *sink = ctx;
    return fth_io_write(sink->io, sink->out.file, sink->out.beside ? sink->out.beside : sink->out.path, bytes, n, err);
}

static int same_file(const struct stat *a, const struct stat *b) {
    return S_ISREG(a->st_mode) && a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether two paths are one file, however they are written; links, too. */
static int same_path(const char *a, const char *b) {
    struct stat first, second;
    return strcmp(a, b) == 0 || (stat(a, &first) == 0 && stat(b, &second) == 0 && same_file(&first, &second));
}

/* Whether another output to `path` would be written where this one is: files that were not there before, too. */
static int writes_to(const struct file_sink *sink, const char *path) {
    struct stat first, second;
    char *beside = NULL;
    int same = fstat(sink->out.file, &first) == 0 && asprintf(&beside, "%s.part", path) >= 0 &&
               ((stat(beside, &second) == 0 && same_file(&first, &second)) ||
                (stat(path, &second) == 0 && same_file(&first, &second)));
    free(beside);
    return same;
}

static fth_status both_to(const char *path, fth_error *err) {
    return fth_fail(err, FTH_E_ARGUMENT, "generator: data and truth cannot both go to '%s'", path);
}

fth_status fth_gen_file_io(const struct fth_io *io, const fth_gen_options *options, const char *path,
                           const char *truth_path, fth_gen_result *result, fth_error *err) {
    struct file_sink data = {.io = io}, truth = {.io = io, .out.file = -1};
    int with_truth = truth_path != NULL && *truth_path != 0;
    FTH_TRY(fth_gen_check_options(options, err)); /* before a file that is there is emptied */
    if (with_truth && same_path(path, truth_path))
        return both_to(path, err);
    FTH_TRY(fth_output_open_io(io, path, &data.out, err));
    fth_status status = FTH_OK;
    if (with_truth && writes_to(&data, truth_path))
        status = both_to(path, err);
    if (status == FTH_OK && with_truth)
        status = fth_output_open_io(io, truth_path, &truth.out, err);
    if (status == FTH_OK && with_truth && writes_to(&truth, path))
        status = both_to(path, err);
    const fth_gen_sink data_sink = {write_file, &data}, truth_sink = {write_file, &truth};
    if (status == FTH_OK)
        status = fth_gen_run(options, &data_sink, with_truth ? &truth_sink : NULL, result, err);
    FTH_KEEP_FIRST(status, fth_output_close_io(io, &data.out, status == FTH_OK, status == FTH_OK ? err : NULL));
    FTH_KEEP_FIRST(status, fth_output_close_io(io, &truth.out, status == FTH_OK, status == FTH_OK ? err : NULL));
    return status;
}

fth_status fth_gen_file(const fth_gen_options *options, const char *path, const char *truth_path,
                        fth_gen_result *result, fth_error *err) {
    if (!options || !path)
        return fth_fail_null(err, "fth_gen_file", "options, path");
    return fth_gen_file_io(fth_io_posix(), options, path, truth_path, result, err);
}
