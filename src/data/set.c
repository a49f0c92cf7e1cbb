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

struct header {
    char *text; /* owned copy of the file's beginning, quotes resolved */
    struct fth_cell *cells;
    uint32_t n;
    size_t used;
    uint64_t lines;
};

static void header_free(struct header *header) {
    free(header->text);
    free(header->cells);
}

/* The first line with cells, without taking it. n == 0: the file has none. */
static fth_status read_header(fth_data_set *set, const char *name, fth_source *source,
                              struct header *out, fth_error *err) {
    out->cells = malloc(FTH_COLUMN_LIMIT * sizeof *out->cells);
    if (!out->cells)
        return fth_fail(err, FTH_E_MEMORY, "%s: no memory for its header", name);
    for (size_t want = 65536; want <= FTH_LINE_LIMIT; want *= 2) {
        const char *text;
        size_t n;
        FTH_TRY(fth_source_peek(source, want, &text, &n, err));
        free(out->text);
        out->text = malloc(n + 1);
        if (!out->text)
            return fth_fail(err, FTH_E_MEMORY, "%s: no memory for its header", name);
        memcpy(out->text, text, n);
        FTH_TRY(fth_csv_header(&set->parser, name, out->text, n, n < want, out->cells,
                               FTH_COLUMN_LIMIT, &out->n, &out->used, &out->lines, err));
        if (out->n || n < want)
            return FTH_OK;
    }
    return fth_fail(err, FTH_E_DATA, "%s:1: no data line in its first %zu MiB", name,
                    FTH_LINE_LIMIT >> 20);
}

static fth_status keep_names(fth_data_set *set, const struct header *header, fth_error *err) {
    const char **names = fth_arena_alloc(set->arena, header->n, sizeof *names);
    if (!names)
        return fth_fail(err, FTH_E_MEMORY, "no memory for %u column names", header->n);
    for (uint32_t c = 0; c < header->n; c++) {
        char *name = fth_arena_alloc(set->arena, (size_t)header->cells[c].length + 1, 1);
        if (!name)
            return fth_fail(err, FTH_E_MEMORY, "no memory for %u column names", header->n);
        memcpy(name, header->text + header->cells[c].offset, header->cells[c].length);
        names[c] = name;
    }
    set->columns = (struct fth_strings){names, header->n};
    return FTH_OK;
}

static fth_status compare_names(const fth_data_set *set, const char *name,
                                const struct header *header, fth_error *err) {
    unsigned long long line = header->lines;
    if (header->n != set->columns.n)
        return fth_fail(err, FTH_E_DATA, "%s:%llu: the header has %u columns, that of %s has %u",
                        name, line, header->n, set->files.items[0], set->columns.n);
    for (uint32_t c = 0; c < header->n; c++) {
        const struct fth_cell *cell = &header->cells[c];
        if (strlen(set->columns.items[c]) != cell->length ||
            memcmp(set->columns.items[c], header->text + cell->offset, cell->length) != 0)
            return fth_fail(
                err, FTH_E_DATA, "%s:%llu: column %u of the header is '%.*s', in %s it is '%s'",
                name, line, c + 1, (int)(cell->length < 200 ? cell->length : 200),
                header->text + cell->offset, set->files.items[0], set->columns.items[c]);
    }
    return FTH_OK;
}

/* Names in the configuration beside a header, as happens when header: false was forgotten. Files to predict are read by
 * their header alone. */
static fth_status check_given_names(const fth_data_set *set, const char *name, const struct header *header,
                                    fth_error *err) {
    const struct fth_strings *given = &set->config->columns;
    if (!given->n || set->labels_optional)
        return FTH_OK;
    uint32_t c = 0;
    while (c < given->n && c < header->n && strcmp(given->items[c], set->columns.items[c]) == 0)
        c++;
    if (c == given->n && c == header->n)
        return FTH_OK;
    struct fth_text names = {0};
    fth_text_names(&names, set->columns.items, header->n);
    fth_status status = fth_fail(err, FTH_E_DATA,
                                 "%s:%llu: data.csv.columns and the header differ from column %u on; it has: %s "
                                 "(data.csv.header: false reads a first line as data)",
                                 name, (unsigned long long)header->lines, c + 1, fth_text_get(&names));
    fth_text_free(&names);
    return status;
}

static int is_label(const fth_data_set *set, const char *column) {
    int found = !set->labels.n && strcmp(column, set->config->label) == 0;
    for (uint32_t t = 0; t < set->labels.n; t++)
        found |= strcmp(column, set->labels.items[t]) == 0;
    return found;
}

#define LOOKED_AT ((size_t)1 << 16) /* bytes of the first file */

/* Lines of text[n] that have as many cells as there are columns, and as many as without labels; malformed ones count for
 * neither. The text is rewritten. */
static fth_status count_widths(fth_data_set *set, const char *name, struct header *line, size_t n, int at_end,
                               uint32_t labels, uint32_t *with, uint32_t *without, fth_error *err) {
    for (size_t at = 0;;) {
        const char *end = memchr(line->text + at, '\n', n - at);
        size_t next = end ? (size_t)(end - line->text) + 1 : n; /* behind a malformed line */
        fth_status status = fth_csv_header(&set->parser, name, line->text + at, n - at, at_end, line->cells,
                                           FTH_COLUMN_LIMIT, &line->n, &line->used, &line->lines, err);
        if (status != FTH_OK && status != FTH_E_DATA)
            return status;
        if (status == FTH_OK && !line->n)
            return FTH_OK;
        *with += status == FTH_OK && line->n == set->columns.n;
        *without += status == FTH_OK && line->n + labels == set->columns.n;
        at = status == FTH_OK ? at + line->used : next;
    }
}

/* Whether more of a csv file's first lines lack the labels' cells than have all: one of them may be malformed. */
static fth_status csv_labels_lack(fth_data_set *set, const char *name, fth_source *source, uint32_t labels, int *lack,
                                  fth_error *err) {
    struct header line = {.cells = malloc(FTH_COLUMN_LIMIT * sizeof *line.cells)};
    uint32_t with = 0, without = 0;
    size_t n;
    int more = 1; /* no whole line yet */
    fth_status status = line.cells ? FTH_OK : fth_fail(err, FTH_E_MEMORY, "%s: no memory for its first lines", name);
    for (size_t want = LOOKED_AT; status == FTH_OK && more && want <= FTH_LINE_LIMIT; want *= 2) {
        const char *peeked;
        FTH_TRY_GOTO(status, fth_source_peek(source, want, &peeked, &n, err), done);
        free(line.text);
        line.text = malloc(n + 1);
        if (!line.text) {
            status = fth_fail(err, FTH_E_MEMORY, "%s: no memory for its first lines", name);
            goto done;
        }
        memcpy(line.text, peeked, n);
        status = count_widths(set, name, &line, n, n < want, labels, &with, &without, err);
        more = !with && !without && n >= want;
    }
done:
    header_free(&line);
    *lack = without > with;
    return status;
}

/* Files to predict may lack the labels: without data.csv.header as many cells less than data.csv.columns names. */
static fth_status drop_labels(fth_data_set *set, const char *name, fth_source *source, fth_error *err) {
    uint32_t labels = 0, n = 0;
    int lack;
    for (uint32_t c = 0; c < set->columns.n; c++)
        labels += (uint32_t)is_label(set, set->columns.items[c]);
    if (!labels || labels == set->columns.n)
        return FTH_OK;
    FTH_TRY(csv_labels_lack(set, name, source, labels, &lack, err));
    if (!lack)
        return FTH_OK;
    const char **names = fth_arena_alloc(set->arena, set->columns.n - labels, sizeof *names);
    if (!names)
        return fth_fail(err, FTH_E_MEMORY, "no memory for %u column names", set->columns.n - labels);
    for (uint32_t c = 0; c < set->columns.n; c++)
        if (!is_label(set, set->columns.items[c]))
            names[n++] = set->columns.items[c];
    set->columns = (struct fth_strings){names, n};
    return FTH_OK;
}

static fth_status take_header(fth_data_set *set, const char *name, fth_source *source,
                              struct header *header, uint64_t *offset, uint64_t *line,
                              fth_error *err) {
    FTH_TRY(read_header(set, name, source, header, err));
    if (header->n == 0)
        return fth_fail(err, FTH_E_DATA, "%s: no header line, which names the columns", name);
    if (set->columns.n) {
        FTH_TRY(compare_names(set, name, header, err));
    } else {
        FTH_TRY(keep_names(set, header, err));
        FTH_TRY(check_given_names(set, name, header, err));
    }
    FTH_TRY(fth_source_skip(source, header->used, err));
    *offset += header->used;
    *line += header->lines;
    return FTH_OK;
}

fth_status fth_data_set_open_raw(fth_data_set *set, uint32_t index, int wake, fth_source **source,
                                 fth_error *err) {
    if (set->memory)
        return fth_source_open_memory(set->files.items[index], set->memory, set->memory_bytes,
                                      source, err);
    return fth_source_open(set->io, set->files.items[index], wake, source, err);
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

static const char *message_name(const fth_data_set *set, uint32_t index) {
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
    const char *name = message_name(set, index), *text;
    fth_source *source;
    struct header header = {0};
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
        status = take_header(set, name, source, &header, offset, line, err);
done:
    header_free(&header);
    if (status != FTH_OK)
        fth_source_close(source);
    else
        *out = source;
    return status;
}

/* Where labels may lack, the first file says whether they do. */
static fth_status look_for_labels(fth_data_set *set, fth_source *source, fth_error *err) {
    if (!set->labels_optional)
        return FTH_OK;
    if (set->config->format == FTH_FORMAT_CSV)
        return set->config->header ? FTH_OK : drop_labels(set, message_name(set, 0), source, err);
    if (set->config->format != FTH_FORMAT_CRITEO)
        return FTH_OK;
    const char *text;
    size_t n;
    FTH_TRY(fth_source_peek(source, LOOKED_AT, &text, &n, err));
    set->parser.labels_lack = fth_criteo_labels_lack(text, n, n < LOOKED_AT);
    return FTH_OK;
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
    fth_status status = look_for_labels(set, source, err);
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
        struct fth_io_stat info;
        if (strcmp(set->files.items[f], "-") == 0 ||
            (set->io->stat(set->io->ctx, set->files.items[f], &info) >= 0 &&
             info.kind == FTH_IO_OTHER))
            set->again = 0;
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
    return fth_fail(err, FTH_E_CONFIG, "data.holdout.column: the data has no column '%s'", name);
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
