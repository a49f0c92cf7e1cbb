/* Configuration to feature program: one-hot, multi-hot and counted inputs. */
#include <string.h>

#include "feature/compile.h"

/* Takes a short text into the table; one that is there already keeps its number. */
static void add_word(struct fth_word *words, uint32_t *n, const char *text, uint32_t number) {
    char padded[FTH_WORD_BYTES] = {0};
    size_t length = strlen(text);
    if (length > FTH_WORD_BYTES)
        return;
    memcpy(padded, text, length);
    uint64_t bytes = fth_word_bytes(padded, (uint32_t)length);
    for (uint32_t i = 0; i < *n && number == FTH_INDICATOR_NONE; i++)
        if (words[i].bytes == bytes && words[i].length == length) {
            words[i].number = number;
            return;
        }
    words[(*n)++] = (struct fth_word){.bytes = bytes, .length = (uint32_t)length, .number = number};
}

static fth_status number_values(fth_feature_program *p, struct fth_feature_indicator *indicator,
                                const char *key, fth_error *err) {
    const struct fth_strings *values = &indicator->config->values;
    const struct fth_strings *missing = &p->config->features.missing;
    uint64_t *hashes = fth_arena_alloc(p->arena, values->n + 1, sizeof *hashes);
    struct fth_word *words =
        fth_arena_alloc(p->arena, (size_t)values->n + missing->n + 1, sizeof *words);
    uint32_t twice, n = 0;
    if (!hashes || !words)
        return fth_compile_no_memory(err);
    for (uint32_t i = 0; i < values->n; i++) {
        hashes[i] = fth_hash_bytes(values->items[i], strlen(values->items[i]), 0);
        add_word(words, &n, values->items[i], i);
        indicator->long_texts |= strlen(values->items[i]) > FTH_WORD_BYTES;
    }
    FTH_TRY(fth_codes_build(hashes, values->n, &indicator->codes, &twice, err));
    if (twice < values->n)
        return fth_fail(err, FTH_E_CONFIG, "%s.values: '%s' is listed twice", key, values->items[twice]);
    add_word(words, &n, "", FTH_INDICATOR_NONE);
    for (uint32_t i = 0; i < missing->n; i++) {
        add_word(words, &n, missing->items[i], FTH_INDICATOR_NONE);
        indicator->long_texts |= strlen(missing->items[i]) > FTH_WORD_BYTES;
    }
    return fth_words_build(words, n, p->arena, &indicator->words, err);
}

fth_status fth_compile_indicator(fth_feature_program *p, const char *key,
                                 const struct fth_indicator_config *config, const char *column,
                                 const char **dense_names, fth_error *err) {
    struct fth_feature_indicator *indicator = &p->indicators[p->n_indicators];
    const char *name = config->name && *config->name ? config->name : column;
    char *columns = fth_arena_printf(p->arena, "%s.columns", key);
    *indicator = (struct fth_feature_indicator){.config = config, .name = name, .dense = p->schema.n_dense,
                                                .width = config->values.n + (config->other != 0)};
    indicator->other = config->other ? config->values.n : FTH_INDICATOR_NONE;
    FTH_TRY(columns ? fth_compile_find_column(p, columns, column, &indicator->column, err)
                    : fth_compile_no_memory(err));
    fth_compile_separator(&indicator->separator, config->separator);
    for (uint32_t i = 0; i < indicator->width; i++) {
        const char *value = i < config->values.n ? config->values.items[i] : "other";
        FTH_TRY(fth_compile_dense(p, dense_names, fth_arena_printf(p->arena, "%s=%s", name, value), key, err));
    }
    fth_compile_emit(p, FTH_FEATURE_INDICATOR, p->n_indicators++, 0);
    FTH_TRY(number_values(p, indicator, key, err));
    return FTH_OK;
}
