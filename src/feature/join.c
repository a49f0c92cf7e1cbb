/* Feature programs, joins whose values are only keys or numbers: a value's key or float is worked out once, when the
 * side table comes (keys of a vocabulary: when that is there), and a cell or a list's element gets it by its own text.
 * The joined text is never written, so no list is put together to be split again, and what is cut off is not
 * looked up. derive.c makes the column for every other use, with the same keys and numbers. Any thread, but for
 * setting tables and vocabularies. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/number.h"
#include "feature/program_private.h"

#define FIRST_LOOKUPS 1000u

void fth_feature_count_lookups(const struct fth_feature_derived *derived, uint64_t values, uint64_t found) {
    struct fth_feature_lookups *lookups = derived->lookups;
    const struct fth_derived_config *config = derived->config;
    if (atomic_load_explicit(&lookups->values, memory_order_relaxed) >= FIRST_LOOKUPS)
        return;
    atomic_fetch_add(&lookups->found, found);
    uint64_t before = atomic_fetch_add(&lookups->values, values);
    if (before < FIRST_LOOKUPS && before + values >= FIRST_LOOKUPS && atomic_load(&lookups->found) == 0)
        fth_log(FTH_LOG_WARN, "column '%s': none of the first %u values of '%s' is a key ('%s') of %s", config->name,
                FIRST_LOOKUPS, config->from.items[0], config->key.items[0], config->file);
}

/* ---- when the side table, or a vocabulary, comes ---- */

struct filling {
    const fth_feature_program *program;
    const struct fth_feature_field *field;
    uint64_t *codes;
    float *numbers;
};

static void fill_code(void *ctx, uint32_t number, const char *value, uint32_t length) {
    const struct filling *filling = ctx;
    filling->codes[number - 1] = fth_feature_text_code(filling->program, filling->field, value, length);
}

static void fill_number(void *ctx, uint32_t number, const char *value, uint32_t length) {
    const struct filling *filling = ctx;
    float x;
    int plain = !fth_feature_is_missing(filling->program, value, length) &&
                fth_number_parse(value, length, &x) == FTH_NUMBER_OK;
    filling->numbers[number - 1] = plain ? x : NAN;
}

static fth_status no_memory(const struct fth_feature_derived *derived, fth_error *err) {
    return fth_fail(err, FTH_E_MEMORY, "no memory for the values of column '%s'", derived->config->name);
}

static fth_status fill_field(const fth_feature_program *program, struct fth_feature_field *field,
                             const fth_side_table *table, fth_error *err) {
    fth_free(field->joined_codes);
    field->joined_codes = fth_alloc((size_t)fth_side_table_size(table) + 1, sizeof *field->joined_codes);
    if (!field->joined_codes)
        return no_memory(field->joined, err);
    if (field->lookups) { /* what was counted before the vocabulary came anew */
        atomic_store(&field->lookups->values, 0);
        atomic_store(&field->lookups->found, 0);
    }
    fth_side_table_each(table, fill_code,
                        &(struct filling){.program = program, .field = field, .codes = field->joined_codes});
    return FTH_OK;
}

static fth_status fill_numeric(const fth_feature_program *program, struct fth_feature_numeric *numeric,
                               const fth_side_table *table, fth_error *err) {
    fth_free(numeric->joined_numbers);
    numeric->joined_numbers = fth_alloc((size_t)fth_side_table_size(table) + 1, sizeof *numeric->joined_numbers);
    if (!numeric->joined_numbers)
        return no_memory(numeric->joined, err);
    fth_side_table_each(table, fill_number,
                        &(struct filling){.program = program, .numbers = numeric->joined_numbers});
    return FTH_OK;
}

fth_status fth_feature_set_side_table(fth_feature_program *program, uint32_t k,
                                      const fth_side_table *table, fth_error *err) {
    struct fth_feature_derived *derived = &program->derived[k];
    derived->table = NULL;
    for (uint32_t f = 0; f < program->n_fields; f++) {
        struct fth_feature_field *field = &program->fields[f];
        if (field->joined == derived && (!field->vocabulary || field->vocabulary->ready))
            FTH_TRY(fill_field(program, field, table, err));
    }
    for (uint32_t i = 0; i < program->n_numeric; i++)
        if (program->numeric[i].joined == derived)
            FTH_TRY(fill_numeric(program, &program->numeric[i], table, err));
    derived->table = table;
    return FTH_OK;
}

fth_status fth_feature_join_vocabularies(fth_feature_program *program, fth_error *err) {
    for (uint32_t f = 0; f < program->n_fields; f++) {
        struct fth_feature_field *field = &program->fields[f];
        if (field->joined && field->joined->table && field->vocabulary && field->vocabulary->ready)
            FTH_TRY(fill_field(program, field, field->joined->table, err));
    }
    return FTH_OK;
}

/* ---- lines ---- */

/* The pairs' numbers of n texts, at most FTH_FEATURE_CHUNK; 0: missing, or no key. Slots are far apart, in no order:
 * they come into the cache while the others' hashes are worked out. */
static void look_up(const fth_feature_program *program, const struct fth_feature_derived *derived,
                    const struct fth_feature_text *texts, uint32_t n, uint32_t *numbers) {
    const fth_side_table *table = derived->table;
    uint64_t hashes[FTH_FEATURE_CHUNK];
    for (uint32_t i = 0; i < n; i++) {
        hashes[i] = XXH3_64bits_withSeed(texts[i].bytes, texts[i].length, 0);
        fth_side_table_prefetch(table, hashes[i]);
    }
    uint32_t values = 0, found = 0;
    for (uint32_t i = 0; i < n; i++) {
        int missing = fth_feature_is_missing(program, texts[i].bytes, texts[i].length);
        numbers[i] = missing ? 0 : fth_side_table_number(table, hashes[i], texts[i].bytes, texts[i].length);
        values += !missing;
        found += numbers[i] != 0;
    }
    fth_feature_count_lookups(derived, values, found);
}

static void join_texts(const fth_feature_program *program, const struct fth_feature_field *field,
                       const struct fth_feature_text *texts, uint32_t n, const struct fth_keys *to, uint32_t at) {
    uint32_t numbers[FTH_FEATURE_CHUNK];
    look_up(program, field->joined, texts, n, numbers);
    for (uint32_t i = 0; i < n; i++)
        fth_feature_put(to, at + i, numbers[i] ? field->joined_codes[numbers[i] - 1] : field->missing);
}

void fth_feature_join_cells(const fth_feature_program *program, const struct fth_feature_field *field,
                            const struct fth_feature_text *cells, uint32_t n, const struct fth_keys *to, uint32_t at) {
    join_texts(program, field, cells, n, to, at);
}

void fth_feature_join_elements(const fth_feature_program *program, const struct fth_feature_numeric *numeric,
                               const struct fth_feature_text *elements, uint32_t n, float *numbers,
                               struct fth_feature_text *texts) {
    uint32_t pairs[FTH_FEATURE_CHUNK];
    look_up(program, numeric->joined, elements, n, pairs);
    for (uint32_t i = 0; i < n; i++) {
        numbers[i] = pairs[i] ? numeric->joined_numbers[pairs[i] - 1] : NAN;
        texts[i] = (struct fth_feature_text){"", 0};
        if (pairs[i] && isnan(numbers[i]))
            fth_side_table_find(numeric->joined->table, elements[i].bytes, elements[i].length, &texts[i].bytes,
                                &texts[i].length);
    }
}

void fth_feature_join_numbers(struct fth_feature_chunk *chunk, const struct fth_feature_numeric *numeric,
                              const struct fth_feature_text *cells, float *x, uint32_t *present) {
    struct fth_feature_text texts[FTH_FEATURE_CHUNK];
    fth_feature_join_elements(chunk->program, numeric, cells, chunk->n, x, texts);
    for (uint32_t i = 0; i < chunk->n; i++) {
        int missing = isnan(x[i]) && fth_feature_is_missing(chunk->program, texts[i].bytes, texts[i].length);
        present[i] = missing ? 0 : UINT32_MAX;
        if (isnan(x[i]) && (missing || !fth_feature_number(chunk, i, texts[i], numeric->column, &x[i])))
            x[i] = 0;
    }
}

uint32_t fth_feature_join_text(const fth_feature_program *program, const struct fth_feature_derived *derived,
                               struct fth_feature_text list, char *out, uint32_t room) {
    const struct fth_separator *separator = &derived->separator;
    uint32_t written = 0;
    for (uint32_t start = 0, end; start <= list.length && written < room; start = end + separator->length) {
        const char *hit = memmem(list.bytes + start, list.length - start, separator->bytes, separator->length);
        struct fth_feature_text value = {"", 0};
        end = hit ? (uint32_t)(hit - list.bytes) : list.length;
        for (uint32_t i = 0; start && i < separator->length && written < room; i++)
            out[written++] = separator->bytes[i];
        if (!fth_feature_is_missing(program, list.bytes + start, end - start))
            fth_side_table_find(derived->table, list.bytes + start, end - start, &value.bytes, &value.length);
        uint32_t n = value.length < room - written ? value.length : room - written;
        memcpy(out + written, value.bytes, n);
        written += n;
    }
    return written;
}

uint32_t fth_feature_join_list(const fth_feature_program *program, const struct fth_feature_field *field,
                               const char *text, uint32_t start, uint32_t length, uint32_t keep,
                               const struct fth_keys *to, uint32_t at) {
    struct fth_feature_text texts[FTH_FEATURE_CHUNK];
    struct fth_split split;
    uint32_t written = 0, n = 0;
    fth_split_begin(&split, text, start, length);
    for (int last = 0; !last && written + n < keep;) {
        fth_split_window(&split, &field->separator);
        if (split.window == length) { /* the last element has no separator behind it */
            split.ends[split.n++] = length;
            last = 1;
        }
        for (uint32_t t = 0; t < split.n && written + n < keep; t++) {
            texts[n++] = (struct fth_feature_text){text + split.start, split.ends[t] - split.start};
            split.start = split.ends[t] + field->separator.length;
            if (n == FTH_FEATURE_CHUNK) {
                join_texts(program, field, texts, n, to, at + written);
                written += n;
                n = 0;
            }
        }
    }
    join_texts(program, field, texts, n, to, at + written);
    return written + n;
}
