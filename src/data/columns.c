/* A data set's columns, from the first lines of its files: csv's header, and whether labels lack. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
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
                               &out->n, &out->used, &out->lines, err));
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
        const char *end = fth_parser_line_end(&set->parser, line->text + at, n - at);
        size_t next = end ? (size_t)(end - line->text) + 1 : n; /* behind a malformed line */
        fth_status status = fth_csv_header(&set->parser, name, line->text + at, n - at, at_end, line->cells,
                                           &line->n, &line->used, &line->lines, err);
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

fth_status fth_data_set_take_header(fth_data_set *set, const char *name, fth_source *source, uint64_t *offset,
                                    uint64_t *line, fth_error *err) {
    struct header header = {0};
    fth_status status = take_header(set, name, source, &header, offset, line, err);
    header_free(&header);
    return status;
}

fth_status fth_data_set_look_for_labels(fth_data_set *set, const char *name, fth_source *source, fth_error *err) {
    if (!set->labels_optional)
        return FTH_OK;
    if (set->config->format == FTH_FORMAT_CSV)
        return set->config->header ? FTH_OK : drop_labels(set, name, source, err);
    if (set->config->format != FTH_FORMAT_CRITEO)
        return FTH_OK;
    const char *text;
    size_t n;
    FTH_TRY(fth_source_peek(source, LOOKED_AT, &text, &n, err));
    set->parser.labels_lack = fth_criteo_labels_lack(text, n, n < LOOKED_AT);
    return FTH_OK;
}
