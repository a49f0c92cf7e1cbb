/* Feature programs, one cell a line: a column of cells to floats or keys. Runs on the lines of one chunk,
 * on any thread.
 *
 * Most cells of click logs are short numbers, texts of eight bytes (hashes in hexadecimal) or empty, and
 * which of them a cell is cannot be predicted: those three go through without branches, eight bytes of
 * text in a register (behind a block's text FTH_TEXT_PADDING bytes may be read). Everything else takes
 * the general functions, whose results are the same. */
#include "feature/plain.h"
#include "feature/program_private.h"

#include <math.h>
#include <string.h>

/* How many boundaries are <= x. No branch on what is compared: which half it is cannot be guessed. */
static uint32_t bucket_of(const struct fth_feature_boundaries *boundaries, float x) {
    const float *low = boundaries->values;
    uint32_t n = boundaries->n;
    for (uint32_t half; n > 1; n -= half) {
        half = n / 2;
        low += half & -(uint32_t)(low[half - 1] <= x);
    }
    return (uint32_t)(low - boundaries->values) + (n && *low <= x);
}

/* sign(x) log(1 + |x|); whole numbers from a table, then those that are not in it. */
static void log1p_all(const float *table, float *x, uint32_t n) {
    uint8_t other[FTH_FEATURE_NUMBERS + sizeof(uint64_t)];
    for (uint32_t i = n; i % 8 && i < FTH_FEATURE_NUMBERS; i++) /* the kernel looks up whole vectors */
        x[i] = 0;
    fth_kernels_get()->look_up_whole(n, table, FTH_FEATURE_LOG1P_TABLE, x, other);
    memset(other + n, 0, sizeof(uint64_t));
    for (uint32_t i = 0; i < n; i += 8) {
        uint64_t any;
        memcpy(&any, other + i, sizeof any);
        while (any) {
            uint32_t byte = (uint32_t)__builtin_ctzll(any) / 8, k = i + byte;
            x[k] = copysignf(log1pf(fabsf(x[k])), x[k]);
            any &= ~((uint64_t)0xff << 8 * byte);
        }
    }
}

void fth_feature_transform(const fth_feature_program *program,
                           const struct fth_feature_numeric *numeric, float *x, uint32_t n) {
    const struct fth_numeric_config *config = numeric->config;
    float low = numeric->clip_low, high = numeric->clip_high;
    if (config->clip)
        for (uint32_t i = 0; i < n; i++)
            x[i] = x[i] < low ? low : x[i] > high ? high : x[i];
    if (config->log1p)
        log1p_all(program->log1p_table, x, n);
    if (config->standardise == FTH_STANDARDISE_GIVEN)
        for (uint32_t i = 0; i < n; i++)
            x[i] = (float)(((double)x[i] - config->mean) / config->deviation);
}

void fth_feature_column(const struct fth_feature_chunk *chunk, uint32_t column, struct fth_feature_text *restrict out) {
    const uint32_t *lines = chunk->lines;
    const char *text = chunk->block->text;
    size_t columns = chunk->block->n_columns;
    if (column >= columns) {
        memcpy(out, chunk->derived + (column - columns) * FTH_FEATURE_CHUNK, chunk->n * sizeof *out);
        return;
    }
    const struct fth_cell *cells = chunk->block->cells + column;
    for (uint32_t i = 0, n = chunk->n; i < n; i++) {
        struct fth_cell cell = cells[lines[i] * columns];
        out[i] = (struct fth_feature_text){text + cell.offset, cell.length};
    }
}

/* The column's numbers, 0 where there is none; where a cell is missing, present is 0, else all ones. */
static void parse_column(struct fth_feature_chunk *chunk, uint32_t column, float *restrict x,
                         uint32_t *restrict present) {
    const fth_feature_program *program = chunk->program;
    struct fth_feature_text cells[FTH_FEATURE_CHUNK];
    uint64_t words[FTH_FEATURE_CHUNK];
    uint32_t lengths[FTH_FEATURE_CHUNK], n = chunk->n;
    uint8_t other[FTH_FEATURE_CHUNK];
    fth_feature_column(chunk, column, cells);
    for (uint32_t i = 0; i < n; i++) {
        memcpy(&words[i], cells[i].bytes, sizeof *words);
        lengths[i] = cells[i].length;
        present[i] = (uint32_t)((int32_t)(0 - cells[i].length) >> 31);
    }
    fth_kernels_get()->decimals(n, words, lengths, x, other);
    int rest = program->config->features.missing.n || fth_feature_any(other, n);
    for (uint32_t i = 0; rest && i < n; i++) {
        if (fth_feature_is_missing(program, cells[i].bytes, cells[i].length))
            present[i] = 0;
        if (present[i] && other[i] &&
            !fth_feature_number(chunk, i, cells[i], column, &x[i]))
            x[i] = 0;
    }
    for (uint32_t i = 0; i < n; i++)
        x[i] = present[i] ? x[i] : 0;
}

/* To every ld-th float: x where present is all ones, else `absent`. */
static void write_column(const float *restrict x, const uint32_t *restrict present, float absent,
                         uint32_t n, float *restrict out, size_t ld) {
    uint32_t other;
    memcpy(&other, &absent, sizeof other);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits = (bits & present[i]) | (other & ~present[i]);
        memcpy(&out[i * ld], &bits, sizeof bits);
    }
}

fth_status fth_feature_numbers(struct fth_feature_chunk *chunk,
                               const struct fth_feature_numeric *numeric, float *x,
                               uint32_t *present) {
    if (numeric->separator.length == 0 && numeric->joined) {
        struct fth_feature_text cells[FTH_FEATURE_CHUNK];
        fth_feature_column(chunk, numeric->joined->from[0], cells);
        fth_feature_join_numbers(chunk, numeric, cells, x, present);
    } else if (numeric->separator.length == 0)
        parse_column(chunk, numeric->column, x, present);
    else if (chunk->program->plain & FTH_PLAIN_NUMBERS)
        return fth_feature_plain_number_lists(chunk, numeric, x, present);
    else
        fth_feature_number_lists(chunk, numeric, x, present);
    return FTH_OK;
}

fth_status fth_feature_run_numeric(struct fth_feature_chunk *chunk,
                                   const struct fth_feature_numeric *numeric) {
    const fth_feature_program *program = chunk->program;
    struct fth_batch *out = chunk->out;
    float x[FTH_FEATURE_CHUNK];
    uint32_t present[FTH_FEATURE_CHUNK];
    FTH_TRY(fth_feature_numbers(chunk, numeric, x, present));
    if (numeric->field >= 0) {
        uint64_t *keys = out->fields[numeric->field].keys + chunk->base;
        uint64_t missing = fth_missing_key(numeric->salt);
        for (uint32_t i = 0; i < chunk->n; i++) {
            uint64_t key = fth_number_key(numeric->salt, bucket_of(&numeric->boundaries, x[i]));
            keys[i] = present[i] ? key : missing;
        }
    }
    if (numeric->dense < 0)
        return FTH_OK;
    fth_feature_transform(program, numeric, x, chunk->n);
    float absent = numeric->running >= 0 ? NAN : numeric->missing_value;
    float *dense = out->dense + (size_t)chunk->base * out->dense_ld;
    write_column(x, present, absent, chunk->n, dense + numeric->dense, out->dense_ld);
    for (uint32_t i = 0; numeric->indicator >= 0 && i < chunk->n; i++)
        dense[(size_t)i * out->dense_ld + (uint32_t)numeric->indicator] = present[i] ? 0.0f : 1.0f;
    return FTH_OK;
}

uint64_t fth_feature_text_code(const fth_feature_program *program, const struct fth_feature_field *field, const char *bytes,
                               size_t length) {
    if (fth_feature_is_missing(program, bytes, length))
        return field->missing;
    if (field->vocabulary)
        return fth_feature_vocabulary_key(field, bytes, length);
    uint64_t key = fth_hash_bytes(bytes, length, field->salt);
    return field->buckets ? key % field->buckets : key;
}

void fth_feature_hash_texts(const struct fth_feature_field *field, uint32_t n, const char *text, const uint32_t *begins,
                            const uint32_t *ends, const struct fth_keys *to, uint32_t at) {
    if (field->vocabulary) {
        fth_feature_vocabulary_keys(field, n, text, begins, ends, to->keys + at);
        return;
    }
    struct fth_text_hash hash = fth_feature_hash(field);
    fth_kernels_get()->text_keys(n, text, begins, ends, &hash, to->keys ? to->keys + at : NULL,
                                 to->numbers ? to->numbers + at : NULL);
}

/* The keys of a column's cells that are empty or have eight bytes, straight from where they lie; whether the field's
 * are made so. Not where a line that was refused lies between. others: not 0 where other cells are left. */
static int hash_eights(struct fth_feature_chunk *chunk, const struct fth_feature_field *field, const struct fth_keys *to,
                       uint32_t *others) {
    const struct fth_block *block = chunk->block;
    uint32_t first = chunk->lines[0];
    if (chunk->lines[chunk->n - 1] - first != chunk->n - 1 || field->column >= block->n_columns ||
        field->joined || field->vocabulary || !fth_feature_only_empty_missing(chunk->program))
        return 0;
    struct fth_text_hash hash = fth_feature_hash(field);
    _Static_assert(sizeof(struct fth_cell) == 2 * sizeof(uint32_t), "as the kernel takes cells");
    const struct fth_cell *cells = block->cells + (size_t)first * block->n_columns + field->column;
    *others = fth_kernels_get()->cell_keys(chunk->n, block->text, &cells->offset, block->n_columns, &hash,
                                           to->keys ? to->keys + chunk->base : NULL,
                                           to->numbers ? to->numbers + chunk->base : NULL);
    return 1;
}

/* Of a column of the block by its vocabulary; whether it was. */
static int look_up_cells(const struct fth_feature_chunk *chunk, const struct fth_feature_field *field,
                         const struct fth_keys *to) {
    const struct fth_block *block = chunk->block;
    uint32_t begins[FTH_FEATURE_CHUNK], ends[FTH_FEATURE_CHUNK];
    if (!field->vocabulary || field->joined || field->column >= block->n_columns ||
        !fth_feature_only_empty_missing(chunk->program))
        return 0;
    for (uint32_t i = 0; i < chunk->n; i++) {
        struct fth_cell cell = block->cells[(size_t)chunk->lines[i] * block->n_columns + field->column];
        begins[i] = cell.offset;
        ends[i] = cell.offset + cell.length;
    }
    fth_feature_hash_texts(field, chunk->n, block->text, begins, ends, to, chunk->base);
    return 1;
}

void fth_feature_run_single(struct fth_feature_chunk *chunk, uint32_t index) {
    const fth_feature_program *program = chunk->program;
    const struct fth_feature_field *field = &program->fields[index];
    struct fth_feature_text cells[FTH_FEATURE_CHUNK];
    const struct fth_keys *to = &chunk->out->fields[index];
    uint32_t n = chunk->n, others = 1;
    int hashed = n > 0 && hash_eights(chunk, field, to, &others);
    if (!others || look_up_cells(chunk, field, to))
        return;
    fth_feature_column(chunk, field->column, cells);
    if (field->joined) {
        fth_feature_join_cells(program, field, cells, n, to, chunk->base);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!hashed || (cells[i].length & ~8u))
            fth_feature_put(to, chunk->base + i, fth_feature_text_code(program, field, cells[i].bytes, cells[i].length));
}
