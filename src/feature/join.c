/* Feature programs, joins whose values are only hashed: a value's key is worked out once, when the side table comes, and
 * a cell or a list's element gets it by its own text. The joined text is never written, so no list is put together
 * to be split again, and what is cut off is not looked up. derive.c makes the column for every other use, with the
 * same keys. Any thread, but for setting tables. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/log.h"
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
                FIRST_LOOKUPS, config->from.items[0], config->key, config->file);
}

struct filling {
    const fth_feature_program *program;
    const struct fth_feature_field *field;
    uint64_t *keys;
};

static void fill_key(void *ctx, uint32_t number, const char *value, uint32_t length) {
    const struct filling *filling = ctx;
    filling->keys[number - 1] = fth_feature_text_key(filling->program, filling->field, value, length);
}

fth_status fth_feature_set_side_table(fth_feature_program *program, uint32_t k,
                                      const fth_side_table *table, fth_error *err) {
    struct fth_feature_derived *derived = &program->derived[k];
    derived->table = NULL;
    for (uint32_t f = 0; f < program->n_fields; f++) {
        struct fth_feature_field *field = &program->fields[f];
        if (field->joined != derived)
            continue;
        fth_free(field->joined_keys);
        field->joined_keys = fth_alloc((size_t)fth_side_table_size(table) + 1, sizeof *field->joined_keys);
        if (!field->joined_keys)
            return fth_fail(err, FTH_E_MEMORY, "no memory for the keys of column '%s'", derived->config->name);
        fth_side_table_each(table, fill_key,
                            &(struct filling){.program = program, .field = field, .keys = field->joined_keys});
    }
    derived->table = table;
    return FTH_OK;
}

/* Slots are far apart, in no order: they come into the cache while the others' hashes are worked out. */
static void join_texts(const fth_feature_program *program, const struct fth_feature_field *field,
                       const struct fth_feature_text *texts, uint32_t n, uint64_t *keys) {
    const fth_side_table *table = field->joined->table;
    uint64_t hashes[FTH_FEATURE_CHUNK];
    for (uint32_t i = 0; i < n; i++) {
        hashes[i] = XXH3_64bits_withSeed(texts[i].bytes, texts[i].length, 0);
        fth_side_table_prefetch(table, hashes[i]);
    }
    uint32_t values = 0, found = 0;
    for (uint32_t i = 0; i < n; i++) {
        int missing = fth_feature_is_missing(program, texts[i].bytes, texts[i].length);
        uint32_t number =
            missing ? 0 : fth_side_table_number(table, hashes[i], texts[i].bytes, texts[i].length);
        keys[i] = number ? field->joined_keys[number - 1] : field->missing;
        values += !missing;
        found += number != 0;
    }
    fth_feature_count_lookups(field->joined, values, found);
}

void fth_feature_join_cells(const fth_feature_program *program, const struct fth_feature_field *field,
                            const struct fth_feature_text *cells, uint32_t n, uint64_t *keys) {
    join_texts(program, field, cells, n, keys);
}

uint32_t fth_feature_join_list(const fth_feature_program *program, const struct fth_feature_field *field,
                               const char *text, uint32_t start, uint32_t length, uint32_t keep,
                               uint64_t *keys) {
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
                join_texts(program, field, texts, n, keys + written);
                written += n;
                n = 0;
            }
        }
    }
    join_texts(program, field, texts, n, keys + written);
    return written + n;
}
