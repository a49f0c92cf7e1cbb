/* Feature programs, columns made from others: joins with side tables, parts of dates, crosses, texts with some
 * characters replaced. They run first on a chunk, in the order of the configuration, so that one may be made from another;
 * what they make are texts like any cell's. Any thread; text that is not a cell's or a side table's own lies in
 * the scratch.
 *
 * A missing cell stays missing, as does a cross with one; in a list the elements do. */
#include <string.h>

#include "base/text.h"
#include "feature/date.h"
#include "feature/program_private.h"

#define PIECE_BYTES (64u << 10)

struct fth_feature_piece {
    struct fth_feature_piece *next;
    size_t used, capacity;
    char text[];
};

static const char nothing[FTH_TEXT_PADDING + 1];
const char fth_feature_one_missing[FTH_TEXT_PADDING + 1];

fth_status fth_feature_scratch_create(const fth_feature_program *program,
                                      struct fth_feature_scratch **out, fth_error *err) {
    struct fth_feature_scratch *scratch = fth_alloc(1, sizeof *scratch);
    if (scratch)
        scratch->derived =
            fth_alloc((size_t)program->n_derived * FTH_FEATURE_CHUNK + 1, sizeof *scratch->derived);
    if (!scratch || !scratch->derived) {
        fth_feature_scratch_destroy(scratch);
        return fth_fail(err, FTH_E_MEMORY, "no memory for derived columns");
    }
    *out = scratch;
    return FTH_OK;
}

static void drop_pieces(struct fth_feature_piece *piece) {
    while (piece) {
        struct fth_feature_piece *next = piece->next;
        fth_free(piece);
        piece = next;
    }
}

void fth_feature_scratch_destroy(struct fth_feature_scratch *scratch) {
    if (!scratch)
        return;
    drop_pieces(scratch->pieces);
    fth_free(scratch->derived);
    fth_free(scratch->values);
    fth_free(scratch);
}

char *fth_feature_scratch_take(struct fth_feature_scratch *scratch, size_t length) {
    struct fth_feature_piece *piece = scratch->pieces;
    size_t need = length + FTH_TEXT_PADDING;
    if (!piece || piece->capacity - piece->used < need) {
        size_t capacity = piece ? 2 * piece->capacity : PIECE_BYTES;
        capacity = capacity < need ? need : capacity;
        piece = fth_alloc(1, sizeof *piece + capacity);
        if (!piece)
            return NULL;
        piece->capacity = capacity;
        piece->next = scratch->pieces;
        scratch->pieces = piece;
    }
    char *text = piece->text + piece->used;
    piece->used += length;
    return text;
}

/* The newest piece, the largest, is kept: it is enough after a few chunks. */
static void reset(struct fth_feature_scratch *scratch) {
    if (!scratch->pieces)
        return;
    drop_pieces(scratch->pieces->next);
    scratch->pieces->next = NULL;
    scratch->pieces->used = 0;
}

struct context {
    struct fth_feature_chunk *chunk;
    struct fth_feature_scratch *scratch;
    const struct fth_feature_derived *derived;
    uint32_t row;
    int bad; /* a value of the list was no date */
};

static fth_status no_memory(const struct context *c) {
    return fth_fail(c->chunk->err, FTH_E_MEMORY, "no memory for column '%s'", c->derived->config->name);
}

/* A text that is no date leaves *out, which is missing, as it is. */
static void bad_date(struct context *c, struct fth_feature_text in) {
    static const char *const message = "column '%s': '%s' is not a date of the format %s%s";
    const struct fth_derived_config *config = c->derived->config;
    char quoted[96];
    const char *advice = fth_feature_about_missing(in.bytes, in.length);
    fth_text_quote(quoted, sizeof quoted, in.bytes, in.length);
    c->bad = 1;
    if (config->on_bad_value != FTH_BAD_VALUE_STOP)
        fth_feature_skip_value(c->chunk, c->row, in.bytes, message, config->from.items[0], quoted, config->format, advice);
    else
        fth_feature_refuse(c->chunk, c->row, in.bytes, message, config->from.items[0], quoted, config->format, advice);
}

static fth_status date_of(struct context *c, struct fth_feature_text in, struct fth_feature_text *out) {
    const struct fth_derived_config *config = c->derived->config;
    struct fth_date date;
    if (!fth_date_parse(config->format, in.bytes, in.length, &date)) {
        bad_date(c, in);
        return FTH_OK;
    }
    char number[FTH_WHOLE_TEXT];
    uint32_t length = fth_format_i64(number, fth_date_part(&date, (enum fth_date_part)config->part));
    char *text = fth_feature_scratch_take(c->scratch, length);
    if (!text)
        return no_memory(c);
    memcpy(text, number, length);
    *out = (struct fth_feature_text){text, length};
    return FTH_OK;
}

/* One value of a join or a date. */
static fth_status map_value(struct context *c, struct fth_feature_text in, struct fth_feature_text *out) {
    *out = (struct fth_feature_text){nothing, 0};
    if (fth_feature_is_missing(c->chunk->program, in.bytes, in.length))
        return FTH_OK;
    if (c->derived->config->as == FTH_DERIVE_DATE)
        return date_of(c, in, out);
    int found = fth_side_table_find(c->derived->table, in.bytes, in.length, &out->bytes, &out->length);
    fth_feature_count_lookups(c->derived, 1, (uint64_t)found);
    return FTH_OK;
}

static fth_status reserve_values(const struct context *c, uint32_t n) {
    struct fth_feature_scratch *scratch = c->scratch;
    if (n <= scratch->n_values)
        return FTH_OK;
    fth_free(scratch->values);
    scratch->n_values = 0;
    scratch->values = fth_alloc(n + n / 2, sizeof *scratch->values);
    if (!scratch->values)
        return no_memory(c);
    scratch->n_values = n + n / 2;
    return FTH_OK;
}

/* Values with separators between them, as one text. */
static fth_status put_together(const struct context *c, const struct fth_feature_text *values,
                               uint32_t n, const struct fth_separator *separator,
                               struct fth_feature_text *out) {
    size_t length = (size_t)(n - 1) * separator->length;
    for (uint32_t i = 0; i < n; i++)
        length += values[i].length;
    if (length > UINT32_MAX / 2)
        return fth_fail(c->chunk->err, FTH_E_LIMIT, "%s:%llu: column '%s' would have %zu bytes",
                        c->chunk->block->file,
                        (unsigned long long)c->chunk->block->line_number[c->chunk->lines[c->row]],
                        c->derived->config->name, length);
    char *text = fth_feature_scratch_take(c->scratch, length), *at = text;
    if (!text)
        return no_memory(c);
    for (uint32_t i = 0; i < n; i++) {
        if (i) {
            memcpy(at, separator->bytes, separator->length);
            at += separator->length;
        }
        memcpy(at, values[i].bytes, values[i].length);
        at += values[i].length;
    }
    *out = (struct fth_feature_text){text, (uint32_t)length};
    return FTH_OK;
}

static fth_status map_list(struct context *c, struct fth_feature_text in, struct fth_feature_text *out) {
    const struct fth_separator *separator = &c->derived->separator;
    struct fth_split split;
    uint32_t n = 0;
    int sessions = c->derived->config->as == FTH_DERIVE_SESSIONS;
    c->bad = 0;
    *out = (struct fth_feature_text){nothing, 0};
    if (fth_feature_no_list(c->chunk->program, in))
        return FTH_OK;
    FTH_TRY(reserve_values(c, fth_split_count(in.bytes, in.length, separator)));
    fth_split_begin(&split, in.bytes, 0, in.length);
    for (int more = 1; more;) {
        more = fth_split_window(&split, separator);
        uint32_t ends = more ? split.n : 1;
        for (uint32_t i = 0; i < ends; i++) {
            uint32_t end = more ? split.ends[i] : in.length;
            struct fth_feature_text value = {in.bytes + split.start, end - split.start};
            if (sessions)
                c->scratch->values[n++] = value;
            else
                FTH_TRY(map_value(c, value, &c->scratch->values[n++]));
            split.start = end + separator->length;
        }
    }
    if (sessions)
        FTH_TRY(fth_feature_sessions(c->chunk, c->scratch, c->derived, c->row, c->scratch->values, n));
    if (c->bad && c->derived->config->on_bad_value == FTH_BAD_VALUE_MISSING)
        for (uint32_t i = 0; i < n; i++)
            c->scratch->values[i].length = 0;
    if (n == 1 && fth_feature_is_missing(c->chunk->program, c->scratch->values[0].bytes,
                                         c->scratch->values[0].length)) {
        *out = (struct fth_feature_text){fth_feature_one_missing, 0};
        return FTH_OK;
    }
    return put_together(c, c->scratch->values, n, separator, out);
}

static fth_status replace(const struct context *c, struct fth_feature_text in, struct fth_feature_text *out) {
    const struct fth_feature_put *puts = c->derived->puts;
    uint32_t n = 0;
    *out = in.bytes == fth_feature_one_missing ? in : (struct fth_feature_text){nothing, 0};
    if (fth_feature_is_missing(c->chunk->program, in.bytes, in.length))
        return FTH_OK;
    char *text = fth_feature_scratch_take(c->scratch, in.length);
    if (!text)
        return no_memory(c);
    for (uint32_t i = 0; i < in.length; i++) {
        struct fth_feature_put put = puts[(uint8_t)in.bytes[i]];
        text[n] = (char)put.byte;
        n += put.length;
    }
    *out = (struct fth_feature_text){text, n};
    return FTH_OK;
}

/* "a", "bc" and "ab", "c" differ. */
static fth_status cross(const struct context *c, struct fth_feature_text *out) {
    static const struct fth_separator between = {FTH_CROSS, 1};
    uint32_t n = c->derived->config->from.n;
    FTH_TRY(reserve_values(c, n));
    *out = (struct fth_feature_text){nothing, 0};
    for (uint32_t i = 0; i < n; i++) {
        struct fth_feature_text text = fth_feature_cell(c->chunk, c->row, c->derived->from[i]);
        if (fth_feature_is_missing(c->chunk->program, text.bytes, text.length))
            return FTH_OK;
        c->scratch->values[i] = text;
    }
    return put_together(c, c->scratch->values, n, &between, out);
}

fth_status fth_feature_run_derived(struct fth_feature_chunk *chunk,
                                   struct fth_feature_scratch *scratch, int learning) {
    const fth_feature_program *program = chunk->program;
    reset(scratch);
    chunk->derived = scratch->derived;
    for (uint32_t d = 0; d < program->n_derived; d++) {
        const struct fth_feature_derived *derived = &program->derived[d];
        if (derived->left_out || (!derived->not_fused && !(learning && derived->counted)))
            continue;
        struct context c = {.chunk = chunk, .scratch = scratch, .derived = derived};
        struct fth_feature_text *out = scratch->derived + (size_t)d * FTH_FEATURE_CHUNK;
        for (c.row = 0; c.row < chunk->n; c.row++) {
            struct fth_feature_text in = fth_feature_cell(chunk, c.row, derived->from[0]);
            if (derived->config->as == FTH_DERIVE_CROSS)
                FTH_TRY(cross(&c, &out[c.row]));
            else if (derived->puts)
                FTH_TRY(replace(&c, in, &out[c.row]));
            else if (derived->separator.length)
                FTH_TRY(map_list(&c, in, &out[c.row]));
            else
                FTH_TRY(map_value(&c, in, &out[c.row]));
        }
    }
    return FTH_OK;
}
