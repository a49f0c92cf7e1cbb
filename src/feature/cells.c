/* Feature programs, one cell a line: a column of cells to floats or keys. Runs on the lines of one chunk,
 * on any thread.
 *
 * Most cells of click logs are short numbers, texts of eight bytes (hashes in hexadecimal) or empty, and
 * which of them a cell is cannot be predicted: those three go through without branches, eight bytes of
 * text in a register (behind a block's text FTH_TEXT_PADDING bytes may be read). Everything else takes
 * the general functions, whose results are the same. */
#define XXH_INLINE_ALL /* a hash of a constant length is a few multiplications */
#include <xxhash.h>

#include "feature/plain.h"
#include "feature/program_private.h"

#include <math.h>
#include <string.h>

/* How many boundaries are <= x. */
static uint32_t bucket_of(const struct fth_feature_boundaries *boundaries, float x) {
    uint32_t low = 0, n = boundaries->n;
    while (n > 0) {
        uint32_t half = n / 2;
        if (boundaries->values[low + half] <= x) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

/* sign(x) log(1 + |x|); whole numbers from a table, then those that are not in it. */
_Static_assert(FTH_FEATURE_CHUNK <= 64, "a bit a number");
static void log1p_all(const float *table, float *x, uint32_t n) {
    const float last = FTH_FEATURE_LOG1P_TABLE - 1;
    uint64_t rest = 0;
    for (uint32_t i = 0; i < n; i++) {
        float magnitude = fabsf(x[i]);
        int32_t whole = (int32_t)(magnitude < last ? magnitude : last); /* fminf would be a call */
        int other = (float)whole != magnitude;
        rest |= (uint64_t)other << i;
        x[i] = other ? x[i] : copysignf(table[whole], x[i]);
    }
    for (; rest; rest &= rest - 1) {
        float *at = &x[__builtin_ctzll(rest)];
        *at = copysignf(log1pf(fabsf(*at)), *at);
    }
}

static void transform(const fth_feature_program *program, const struct fth_feature_numeric *numeric,
                      float *x, uint32_t n) {
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

/* The chunk's texts of one column, one after the other. */
static void take_column(const struct fth_feature_chunk *chunk, uint32_t column,
                        struct fth_feature_text *restrict out) {
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
    uint32_t rest = program->config->features.missing.n;
    take_column(chunk, column, cells);
    for (uint32_t i = 0; i < n; i++) {
        memcpy(&words[i], cells[i].bytes, sizeof *words);
        lengths[i] = cells[i].length;
        present[i] = (uint32_t)((int32_t)(0 - cells[i].length) >> 31);
    }
    fth_kernels_get()->decimals(n, words, lengths, x, other);
    for (uint32_t i = 0; i < n; i++)
        rest |= other[i] & present[i];
    for (uint32_t i = 0; rest && i < n; i++) {
        if (fth_feature_is_missing(program, cells[i].bytes, cells[i].length))
            present[i] = 0;
        if (present[i] && other[i] &&
            !fth_feature_number(chunk, i, cells[i], program->columns[column], &x[i]))
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
        take_column(chunk, numeric->joined->from[0], cells);
        fth_feature_join_numbers(chunk, numeric, cells, x, present);
    } else if (numeric->separator.length == 0)
        parse_column(chunk, numeric->column, x, present);
    else if (chunk->program->plain)
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
        uint64_t missing = fth_feature_missing_key(numeric->salt);
        for (uint32_t i = 0; i < chunk->n; i++) {
            uint64_t key =
                fth_feature_number_key(numeric->salt, bucket_of(&numeric->boundaries, x[i]));
            keys[i] = present[i] ? key : missing;
        }
    }
    if (numeric->dense < 0)
        return FTH_OK;
    transform(program, numeric, x, chunk->n);
    float absent = numeric->running >= 0 ? NAN : numeric->missing_value;
    float *dense = out->dense + (size_t)chunk->base * out->dense_ld;
    write_column(x, present, absent, chunk->n, dense + numeric->dense, out->dense_ld);
    for (uint32_t i = 0; numeric->indicator >= 0 && i < chunk->n; i++)
        dense[(size_t)i * out->dense_ld + (uint32_t)numeric->indicator] = present[i] ? 0.0f : 1.0f;
    return FTH_OK;
}

uint64_t fth_feature_text_key(const fth_feature_program *program,
                              const struct fth_feature_field *field, const char *bytes,
                              size_t length) {
    if (fth_feature_is_missing(program, bytes, length))
        return field->missing;
    if (field->vocabulary) {
        uint64_t number = fth_feature_vocabulary_number(field->vocabulary, bytes, length);
        uint64_t all = (uint64_t)field->vocabulary->codes.n + field->vocabulary->oov;
        return number < all ? fth_feature_number_key(field->salt, number) : field->missing;
    }
    uint64_t key = fth_hash_bytes(bytes, length, field->salt);
    return field->buckets ? fth_feature_number_key(field->salt, key % field->buckets) : key;
}

void fth_feature_run_single(struct fth_feature_chunk *chunk, uint32_t index) {
    const fth_feature_program *program = chunk->program;
    const struct fth_feature_field *field = &program->fields[index];
    struct fth_feature_text cells[FTH_FEATURE_CHUNK];
    uint64_t *restrict keys = chunk->out->fields[index].keys + chunk->base;
    uint64_t salt = field->salt, missing = field->missing;
    uint32_t n = chunk->n, rest = 0;
    take_column(chunk, field->column, cells);
    if (field->joined) {
        fth_feature_join_cells(program, field, cells, n, keys);
        return;
    }
    int plain = field->buckets == 0 && !field->vocabulary && program->config->features.missing.n == 0;
    for (uint32_t i = 0; plain && i < n; i++) {
        uint64_t key = XXH3_64bits_withSeed(cells[i].bytes, 8, salt);
        uint64_t present = 0 - (uint64_t)(cells[i].length != 0);
        keys[i] = (key & present) | (missing & ~present);
        rest |= cells[i].length & ~8u;
    }
    for (uint32_t i = 0; (!plain || rest) && i < n; i++)
        if (!plain || (cells[i].length & ~8u))
            keys[i] = fth_feature_text_key(program, field, cells[i].bytes, cells[i].length);
}
