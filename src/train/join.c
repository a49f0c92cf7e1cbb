/* Side files of joins: read whole, once a session, when lines are going to be read. */
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "data/inspect.h"
#include "train/session_private.h"

struct filling {
    struct fth_session *session;
    const struct fth_derived_config *config;
    fth_side_table *table;
    const char *key_path; /* in the configuration, for messages */
    const char *separator; /* of lists that are joined, or of a key's several values; "" none */
    const char *several;   /* between these; "": a key has one */
    const uint32_t *key;  /* [n_key] columns */
    uint32_t n_key, value;
    struct fth_text cross; /* a line's key of several columns */
    int begun;
};

/* The text of a line's key: of several columns as a cross of them has it (FTH_CROSS). */
static const char *key_of(struct filling *filling, const struct fth_block *block, const struct fth_cell *cells,
                          uint32_t *length) {
    static const char padding[FTH_TEXT_PADDING];
    struct fth_cell first = cells[filling->key[0]];
    *length = first.length;
    if (filling->n_key == 1)
        return block->text + first.offset;
    filling->cross.length = 0;
    for (uint32_t k = 0; k < filling->n_key; k++) {
        struct fth_cell cell = cells[filling->key[k]];
        fth_text_append(&filling->cross, FTH_CROSS, k > 0);
        fth_text_append(&filling->cross, block->text + cell.offset, cell.length);
    }
    *length = (uint32_t)filling->cross.length;
    fth_text_append(&filling->cross, padding, sizeof padding); /* read behind it */
    return fth_text_get(&filling->cross);
}

/* Whether a list with the value and the separator behind it would be split elsewhere than between the two: "::" behind
 * "a:" is found a byte too early. */
static int splits_otherwise(const char *separator, const char *value, size_t length) {
    size_t n = strlen(separator);
    if (n && memmem(value, length, separator, n))
        return 1;
    for (size_t k = 1; k < n && k <= length; k++) /* its last k bytes and the separator's first n - k */
        if (memcmp(value + length - k, separator, k) == 0 && memcmp(separator, separator + k, n - k) == 0)
            return 1;
    return 0;
}

/* Nothing that a line could be found by, or have: as in a cell of the data (features.missing). */
static int is_missing(const struct filling *filling, const char *text, uint32_t length) {
    const struct fth_strings *missing = &filling->session->config->features.missing;
    for (uint32_t i = 0; i < missing->n; i++)
        if (strlen(missing->items[i]) == length && memcmp(missing->items[i], text, length) == 0)
            return 1;
    return length == 0;
}

static int says(const struct fth_block *block, struct fth_cell cell, const char *name) {
    return strlen(name) == cell.length && memcmp(block->text + cell.offset, name, cell.length) == 0;
}

/* Whether a file's first line, of which the configuration has it that it is data, names the columns. */
static int is_header(const struct filling *filling, const struct fth_block *block, const struct fth_cell *cells) {
    const struct fth_derived_config *config = filling->config;
    int same = config->columns.n && says(block, cells[filling->value], config->value);
    for (uint32_t k = 0; same && k < filling->n_key; k++)
        same = says(block, cells[filling->key[k]], config->key.items[k]);
    return same;
}

/* One of a key's several values. */
static fth_status collect(struct filling *filling, const char *key, uint32_t length, const char *value, uint32_t value_length,
                          fth_error *err) {
    if (is_missing(filling, key, length))
        return FTH_OK;
    return fth_side_table_collect(filling->table, key, length, value,
                                  is_missing(filling, value, value_length) ? 0 : value_length, filling->several, err);
}

static fth_status add_block(void *ctx, struct fth_block *block, int *more, fth_error *err) {
    struct filling *filling = ctx;
    (void)more;
    if (atomic_load(&filling->session->interrupted))
        return fth_fail(err, FTH_E_INTERRUPTED, "%s: reading was stopped", block->file);
    if (block->n_bad)
        return fth_fail(err, FTH_E_DATA, "%s: %s", filling->key_path, block->first_bad.message);
    for (uint32_t i = 0; i < block->n_lines; i++) {
        const struct fth_cell *cells = block->cells + (size_t)i * block->n_columns;
        struct fth_cell value = cells[filling->value];
        uint32_t length;
        const char *key = key_of(filling, block, cells, &length);
        if (!filling->begun && is_header(filling, block, cells))
            return fth_fail(err, FTH_E_DATA, "%s: %s:%llu: the line names the columns; a file with such a line takes no "
                            "columns in the configuration", filling->key_path, block->file,
                            (unsigned long long)block->line_number[i]);
        filling->begun = 1;
        if (filling->cross.failed)
            return fth_fail(err, FTH_E_MEMORY, "no memory to read it");
        int differs = 0;
        if (splits_otherwise(filling->separator, block->text + value.offset, value.length)) {
            char quoted[96];
            fth_text_quote(quoted, sizeof quoted, block->text + value.offset, value.length);
            return fth_fail(err, FTH_E_DATA,
                            "%s: %s:%llu: the value '%s' has the separator '%s' of the list in it%s",
                            filling->key_path, block->file, (unsigned long long)block->line_number[i],
                            quoted, filling->separator,
                            strlen(filling->separator) > 1 ? ", or with the one behind it" : "");
        }
        const char *text = block->text + value.offset;
        fth_status status = *filling->several
                                ? collect(filling, key, length, text, value.length, err)
                                : fth_side_table_add(filling->table, key, length, text, value.length, &differs, err);
        if (status == FTH_E_LIMIT)
            fth_error_frame(err, "%s: %s:%llu", filling->key_path, block->file, (unsigned long long)block->line_number[i]);
        FTH_TRY(status);
        if (differs) {
            char quoted[96];
            fth_text_quote(quoted, sizeof quoted, key, length);
            return fth_fail(err, FTH_E_DATA,
                            "%s: %s:%llu: the key '%s' has another value on an earlier line, and a join takes one "
                            "(several: \"%s\" makes a list of all)%s",
                            filling->key_path, block->file, (unsigned long long)block->line_number[i], quoted,
                            *filling->separator ? filling->separator : ";",
                            filling->n_key == 1 ? "; a key of several columns is compared with a cross" : "");
        }
    }
    return FTH_OK;
}

static fth_status find_column(const struct fth_derived_config *config, const fth_data_set *set, const char *path,
                              const char *key, const char *name, uint32_t *out, fth_error *err) {
    struct fth_strings columns = fth_data_set_columns(set);
    uint32_t found = columns.n;
    for (uint32_t i = 0; i < columns.n; i++) {
        if (strcmp(columns.items[i], name) != 0)
            continue;
        if (found < columns.n)
            return fth_fail(err, FTH_E_CONFIG, "%s.%s: %s has two columns named '%s' (the %u. and the %u.)", path, key,
                            config->file, name, found + 1, i + 1);
        found = i;
    }
    *out = found;
    if (found < columns.n)
        return FTH_OK;
    struct fth_text list = {0};
    fth_text_names(&list, (const char *const *)columns.items, columns.n);
    int one_cell = columns.n == 1 && strpbrk(columns.items[0], ",;:\t|");
    int data = !one_cell && config->columns.n == 0 && fth_names_like_data((const char *const *)columns.items, columns.n);
    fth_status status = fth_fail(err, FTH_E_CONFIG, "%s.%s: %s has no column '%s'; it has: %s%s%s%s", path, key,
                                 config->file, name, fth_text_get(&list),
                                 one_cell ? " (all in one: is " : data ? " (is the first line data? Then " : "",
                                 one_cell || data ? path : "",
                                 one_cell ? ".delimiter another?)" : data ? ".columns names them)" : "");
    fth_text_free(&list);
    return status;
}

static fth_status load(struct fth_session *session, const struct fth_derived_config *config, const char *path,
                       fth_side_table **out, fth_error *err) {
    char file_key[80];
    snprintf(file_key, sizeof file_key, "%s.file", path);
    struct fth_data_config data = {.format = FTH_FORMAT_CSV, .delimiter = config->delimiter, .strip = config->strip,
                                   .quotes = config->quotes, .escape = config->escape, .header = config->columns.n == 0,
                                   .columns = config->columns, .skip_blank = 1, .comment = "", .label = "", .weight = "",
                                   .query = "", .block_bytes = 1 << 20};
    struct fth_data_set_options options = {.part = FTH_PART_FILES, .files = {&config->file, 1},
                                           .files_key = file_key, .labels_optional = 1, .wake = session->wake};
    struct filling filling = {.session = session, .config = config, .key_path = file_key, .several = config->several,
                              .separator = *config->several ? config->several : config->separator};
    fth_data_set *set = NULL;
    fth_status status;
    uint32_t *key = fth_alloc(config->key.n, sizeof *key);
    if (!key)
        return fth_fail(err, FTH_E_MEMORY, "%s: no memory to read it", file_key);
    filling.key = key;
    filling.n_key = config->key.n;
    FTH_TRY_GOTO(status, fth_data_set_create(&data, &options, &set, err), done);
    for (uint32_t k = 0; k < config->key.n; k++)
        FTH_TRY_GOTO(status, find_column(config, set, path, "key", config->key.items[k], &key[k], err), done);
    FTH_TRY_GOTO(status, find_column(config, set, path, "value", config->value, &filling.value, err), done);
    FTH_TRY_GOTO(status, fth_side_table_create(&filling.table, err), done);
    status = fth_data_each_block(set, session->wake, add_block, &filling, err);
done:
    fth_data_set_destroy(set);
    fth_text_free(&filling.cross);
    fth_free(key);
    if (status == FTH_E_MEMORY)
        fth_error_frame(err, "%s", file_key);
    if (status == FTH_OK)
        *out = filling.table;
    else
        fth_side_table_destroy(filling.table);
    return status;
}

static int reads_side_file(const struct fth_session *session, const fth_feature_program *program, uint32_t k) {
    return session->config->features.derived[k].as == FTH_DERIVE_JOIN && fth_feature_makes(program, k);
}

/* A pipe's lines are gone once a join has read them, for this program or one before. */
static fth_status check_read_once(const struct fth_session *session, const fth_feature_program *program, uint32_t join,
                                  fth_error *err) {
    const struct fth_features_config *features = &session->config->features;
    const char *file = features->derived[join].file;
    if (session->side_tables[join] || !fth_session_is_pipe(file))
        return FTH_OK;
    for (uint32_t k = 0; k < features->n_derived; k++)
        if (k != join && (session->side_tables[k] || reads_side_file(session, program, k)) &&
            strcmp(features->derived[k].file, file) == 0)
            return fth_fail(err, FTH_E_CONFIG,
                            "features.derived.%u.file: %s is no regular file and can be read once, and features.derived.%u "
                            "reads it, too; use a file", join, file, k);
    return FTH_OK;
}

fth_status fth_session_join(struct fth_session *session, fth_feature_program *program,
                            fth_error *err) {
    const struct fth_features_config *features = &session->config->features;
    if (!session->side_tables)
        session->side_tables = fth_alloc(features->n_derived + 1, sizeof *session->side_tables);
    if (!session->side_tables)
        return fth_fail(err, FTH_E_MEMORY, "no memory for side tables");
    for (uint32_t k = 0; k < features->n_derived; k++)
        if (reads_side_file(session, program, k))
            FTH_TRY(check_read_once(session, program, k, err));
    for (uint32_t k = 0; k < features->n_derived; k++) {
        if (!reads_side_file(session, program, k))
            continue;
        char path[64];
        snprintf(path, sizeof path, "features.derived.%u", k);
        if (!session->side_tables[k])
            FTH_TRY(load(session, &features->derived[k], path, &session->side_tables[k], err));
        FTH_TRY(fth_feature_set_side_table(program, k, session->side_tables[k], err));
    }
    return FTH_OK;
}

void fth_session_drop_joins(struct fth_session *session) {
    for (uint32_t k = 0; session->side_tables && k < session->config->features.n_derived; k++)
        fth_side_table_destroy(session->side_tables[k]);
    fth_free(session->side_tables);
}
