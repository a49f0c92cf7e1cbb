/* Data sets: see set.h. What is held out by position is a cut in the decompressed bytes of all
 * files. */
#include "data/set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/random.h"
#include "base/text.h"
#include "data/paths.h"
#include "data/set_private.h"

fth_status fth_data_set_open_raw(fth_data_set *set, uint32_t index, int wake, fth_source **source,
                                 fth_error *err) {
    if (set->memory)
        return fth_source_open_memory(set->files.items[index], set->memory, set->memory_bytes,
                                      source, err);
    FTH_TRY(fth_source_open(set->io, set->files.items[index], wake, source, err));
    fth_source_set_direct(*source, set->config->direct_reads, set->bytes);
    return FTH_OK;
}

fth_status fth_data_set_check(fth_data_set *set, uint32_t index, const fth_source *source, fth_error *err) {
    struct fth_io_stat first, now;
    if (!fth_source_stat(source, &now))
        return FTH_OK;
    pthread_mutex_lock(&set->seen_lock);
    if (set->first_seen[index].kind != FTH_IO_FILE)
        set->first_seen[index] = now;
    first = set->first_seen[index];
    pthread_mutex_unlock(&set->seen_lock);
    char why[128];
    if (first.size != now.size)
        snprintf(why, sizeof why, "is not the file that was read before: it had %llu bytes, now %llu",
                 (unsigned long long)first.size, (unsigned long long)now.size);
    else if (first.modified != now.modified)
        snprintf(why, sizeof why, "was written to since it was read before");
    else
        return FTH_OK;
    return fth_fail(err, FTH_E_DATA, "%s: %s; every pass reads the same data: write new data into a new file",
                    set->files.items[index], why);
}

int fth_data_set_seen(fth_data_set *set, uint32_t index, struct fth_io_stat *out) {
    pthread_mutex_lock(&set->seen_lock);
    *out = set->first_seen[index];
    pthread_mutex_unlock(&set->seen_lock);
    return out->kind == FTH_IO_FILE;
}

const char *fth_data_set_message_name(const fth_data_set *set, uint32_t index) {
    return strcmp(set->files.items[index], "-") == 0 ? "standard input" : set->files.items[index];
}

fth_status fth_data_set_open(fth_data_set *set, uint32_t index, int wake, fth_source **out,
                             uint64_t *offset, uint64_t *line, fth_error *err) {
    if (index == 0 && set->held) {
        *out = set->held;
        *offset = set->held_offset;
        *line = set->held_line;
        fth_source_set_wake(set->held, wake);
        set->held = NULL;
        return FTH_OK;
    }
    const char *name = fth_data_set_message_name(set, index), *text;
    fth_source *source;
    size_t n;
    fth_status status;
    FTH_TRY(fth_data_set_open_raw(set, index, wake, &source, err));
    *offset = 0;
    *line = 1;
    FTH_TRY_GOTO(status, fth_source_peek(source, 3, &text, &n, err), done);
    if (n == 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        FTH_TRY_GOTO(status, fth_source_skip(source, 3, err), done);
        *offset = 3;
    }
    if (set->config->format == FTH_FORMAT_CSV && set->config->header)
        status = fth_data_set_take_header(set, name, source, offset, line, err);
done:
    if (status != FTH_OK)
        fth_source_close(source);
    else
        *out = source;
    return status;
}

static fth_status find_columns(fth_data_set *set, fth_error *err) {
    const struct fth_data_config *config = set->config;
    if (config->format == FTH_FORMAT_CRITEO)
        set->columns = (struct fth_strings){fth_criteo_columns, FTH_CRITEO_COLUMNS};
    if (config->format == FTH_FORMAT_CSV && !config->header) {
        if (config->columns.n == 0 || config->columns.n > FTH_COLUMN_LIMIT)
            return fth_fail(
                err, FTH_E_CONFIG,
                "data.csv.columns: %u names; csv without header needs 1 to %u, in the order of "
                "the cells",
                config->columns.n, FTH_COLUMN_LIMIT);
        set->columns = config->columns;
    }
    /* The first file is opened now: what is wrong with it is said before training starts. */
    uint64_t offset, line;
    fth_source *source;
    FTH_TRY(fth_data_set_open(set, 0, set->wake, &source, &offset, &line, err));
    fth_status status = fth_data_set_look_for_labels(set, fth_data_set_message_name(set, 0), source, err);
    if (status != FTH_OK) {
        fth_source_close(source);
        return status;
    }
    if (fth_source_again(source)) {
        fth_source_close(source);
    } else {
        set->held = source;
        set->held_offset = offset;
        set->held_line = line;
    }
    if (config->format == FTH_FORMAT_CSV)
        set->parser.n_columns = set->columns.n;
    return FTH_OK;
}

/* A file with other columns is told of now, not in the middle of an epoch; what is no regular file is left alone. */
static fth_status check_headers(fth_data_set *set, fth_error *err) {
    if (set->config->format != FTH_FORMAT_CSV || !set->config->header)
        return FTH_OK;
    for (uint32_t f = 1; f < set->files.n; f++) {
        struct fth_io_stat stat;
        fth_source *source;
        uint64_t offset, line;
        if (set->io->stat(set->io->ctx, set->files.items[f], &stat) < 0 || stat.kind != FTH_IO_FILE)
            continue;
        FTH_TRY(fth_data_set_open(set, f, set->wake, &source, &offset, &line, err));
        fth_source_close(source);
    }
    return FTH_OK;
}

static fth_status file_bytes(fth_data_set *set, uint32_t index, uint64_t *bytes, fth_error *err) {
    fth_source *source;
    FTH_TRY(fth_data_set_open_raw(set, index, set->wake, &source, err));
    fth_status status = fth_data_set_check(set, index, source, err);
    if (status == FTH_OK && !fth_source_size(source, bytes)) {
        static const size_t size = 1 << 18;
        char *discard = malloc(size);
        size_t got = discard ? 1 : 0;
        if (!discard)
            status = fth_fail(err, FTH_E_MEMORY, "no memory to count bytes");
        for (*bytes = 0; status == FTH_OK && got; *bytes += got)
            status = fth_source_read(source, discard, size, &got, err);
        free(discard);
    }
    fth_source_close(source);
    return status;
}

static fth_status find_cut(fth_data_set *set, fth_error *err) {
    set->file_start =
        fth_arena_alloc(set->arena, (size_t)set->files.n + 1, sizeof *set->file_start);
    if (!set->file_start)
        return fth_fail(err, FTH_E_MEMORY, "no memory for %u files", set->files.n);
    for (uint32_t f = 0; f < set->files.n; f++) {
        uint64_t bytes;
        FTH_TRY(file_bytes(set, f, &bytes, err));
        set->file_start[f + 1] = set->file_start[f] + bytes;
    }
    double total = (double)set->file_start[set->files.n];
    set->cut = (uint64_t)(total * (1.0 - set->config->holdout_fraction));
    return FTH_OK;
}

/* Which files, and which of their examples. */
static fth_status choose(fth_data_set *set, const struct fth_data_set_options *options,
                         fth_error *err) {
    const struct fth_data_config *config = set->config;
    const struct fth_strings *list = &config->train;
    const char *key = "data.train";
    int holds_out = config->valid.n == 0;
    switch (options->part) {
    case FTH_PART_TRAIN:
        if (holds_out && config->holdout == FTH_HOLDOUT_HASH)
            set->select = FTH_SELECT_NOT_DRAWN;
        else if (holds_out && config->holdout == FTH_HOLDOUT_TAIL)
            set->select = FTH_SELECT_HEAD;
        break;
    case FTH_PART_VALID:
        if (holds_out && config->holdout == FTH_HOLDOUT_NONE)
            return fth_fail(
                err, FTH_E_CONFIG,
                "data.valid: nothing is held out; name files there or set data.holdout");
        if (!holds_out) {
            list = &config->valid;
            key = "data.valid";
        } else {
            set->select = config->holdout == FTH_HOLDOUT_HASH ? FTH_SELECT_DRAWN : FTH_SELECT_TAIL;
        }
        break;
    case FTH_PART_TEST:
        list = &config->test;
        key = "data.test";
        break;
    case FTH_PART_FILES:
        list = &options->files;
        key = options->files_key ? options->files_key : "files";
        break;
    }
    if (options->memory) {
        const char **name = fth_arena_alloc(set->arena, 1, sizeof *name);
        if (!name)
            return fth_fail(err, FTH_E_MEMORY, "no memory for a path");
        *name = "memory";
        set->files = (struct fth_strings){name, 1};
    } else {
        FTH_TRY(fth_paths_expand(list, key, set->arena, &set->files, err));
    }
    set->again = 1;
    set->first_seen = fth_arena_alloc(set->arena, set->files.n, sizeof *set->first_seen);
    if (!set->first_seen)
        return fth_fail(err, FTH_E_MEMORY, "no memory for %u files", set->files.n);
    for (uint32_t f = 0; f < set->files.n; f++)
        set->first_seen[f].kind = FTH_IO_OTHER;
    for (uint32_t f = 0; f < set->files.n && !options->memory; f++) {
        struct fth_io_stat info = {0};
        if (strcmp(set->files.items[f], "-") == 0 ||
            (set->io->stat(set->io->ctx, set->files.items[f], &info) >= 0 &&
             info.kind == FTH_IO_OTHER))
            set->again = 0;
        else
            set->bytes += info.size;
    }
    if (!set->again && set->select != FTH_SELECT_ALL)
        return fth_fail(
            err, FTH_E_CONFIG,
            "%s: standard input and pipes are read once and cannot be held out from; name "
            "files in data.valid",
            key);
    return FTH_OK;
}

static fth_status find_drawn_by(fth_data_set *set, fth_error *err) {
    const char *name = set->config->holdout_column;
    if (!name || !*name || (set->select != FTH_SELECT_DRAWN && set->select != FTH_SELECT_NOT_DRAWN))
        return FTH_OK;
    for (uint32_t c = 0; c < set->columns.n; c++)
        if (strcmp(set->columns.items[c], name) == 0) {
            set->parser.drawn_by = c;
            return FTH_OK;
        }
    struct fth_text names = {0};
    fth_text_names(&names, set->columns.items, set->columns.n);
    fth_status status = fth_fail(err, FTH_E_CONFIG, "data.holdout.column: the data has no column '%s'; it has: %s", name,
                                 fth_text_get(&names));
    fth_text_free(&names);
    return status;
}

static fth_status set_init(fth_data_set *set, const struct fth_data_set_options *options,
                           fth_error *err) {
    set->arena = fth_arena_create(4096);
    if (!set->arena)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a data set");
    set->labels_optional = options->labels_optional;
    set->labels = options->labels;
    set->io = options->io ? options->io : fth_io_posix();
    set->wake = options->wake ? options->wake : -1;
    set->memory = options->memory;
    set->memory_bytes = options->memory_bytes;
    set->seed = options->seed;
    fth_parser_init(set->config, &set->parser);
    set->parser.labels_optional = options->labels_optional;
    FTH_TRY(choose(set, options, err));
    FTH_TRY(find_columns(set, err));
    FTH_TRY(find_drawn_by(set, err));
    if (options->part == FTH_PART_TRAIN || options->part == FTH_PART_VALID)
        FTH_TRY(check_headers(set, err));
    if (set->select == FTH_SELECT_HEAD || set->select == FTH_SELECT_TAIL)
        FTH_TRY(find_cut(set, err));
    return FTH_OK;
}

fth_status fth_data_set_create(const struct fth_data_config *config,
                               const struct fth_data_set_options *options, fth_data_set **out,
                               fth_error *err) {
    fth_data_set *set = fth_alloc(1, sizeof *set);
    if (!set)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a data set");
    set->config = config;
    pthread_mutex_init(&set->seen_lock, NULL);
    fth_status status = set_init(set, options, err);
    if (status != FTH_OK) {
        fth_data_set_destroy(set);
        return status;
    }
    *out = set;
    return FTH_OK;
}

void fth_data_set_destroy(fth_data_set *set) {
    if (!set)
        return;
    fth_source_close(set->held);
    fth_arena_destroy(set->arena);
    pthread_mutex_destroy(&set->seen_lock);
    fth_free(set);
}

struct fth_strings fth_data_set_columns(const fth_data_set *set) {
    return set->columns;
}
struct fth_strings fth_data_set_files(const fth_data_set *set) {
    return set->files;
}
int fth_data_set_again(const fth_data_set *set) {
    return set->again;
}

int fth_data_set_has(const fth_data_set *set, const struct fth_block *block, uint32_t row, uint64_t example_number) {
    uint32_t draw[4];
    uint64_t drawn = example_number;
    if (set->select != FTH_SELECT_DRAWN && set->select != FTH_SELECT_NOT_DRAWN)
        return 1;
    if (set->parser.drawn_by != FTH_NO_NAME)
        drawn = block->drawn_by[row];
    fth_random_draw(set->seed, FTH_RANDOM_HOLDOUT, drawn, 0, draw);
    return (fth_random_unit(draw[0]) < set->config->holdout_fraction) ==
           (set->select == FTH_SELECT_DRAWN);
}
