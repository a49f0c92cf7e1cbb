/* Feature programs over cells of any bytes: what the fused forms give must be what the separate steps give
 * (feature/plain.c), for lists of numbers and texts, indicators, vocabularies, joins, dates, sessions, crosses and
 * replaced characters. The input's first eight bytes choose a configuration, the rest are lines of up to four cells:
 * LF ends a line, TAB a cell. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "feature/program.h"

#define LINES 300u
#define COLUMNS 4u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const columns[COLUMNS] = {"label", "x", "c", "t"};
static const char *const of_x[] = {"x"}, *const of_c[] = {"c"}, *const of_t[] = {"t"};
static const char *const of_kinds[] = {"kinds"}, *const of_kind[] = {"kind"}, *const of_pair[] = {"pair"};
static const char *const of_visit[] = {"visit"}, *const of_bare[] = {"bare"};
static const char *const of_hour[] = {"hour"}, *const pair[] = {"c", "t"};

/* All of a configuration; it points into itself. */
struct setting {
    struct fth_derived_config derived[6];
    struct fth_numeric_config numeric[4];
    struct fth_indicator_config indicator[2];
    struct fth_categorical_config categorical[7];
    struct fth_config config;
};

static void derive(struct setting *s, const uint8_t *choice, const char *separator) {
    s->derived[0] = (struct fth_derived_config){.as = FTH_DERIVE_JOIN, .several = "", .name = "kinds", .from = {of_c, 1},
                                                .separator = separator};
    s->derived[1] = (struct fth_derived_config){.as = FTH_DERIVE_JOIN, .several = "", .name = "kind", .from = {of_t, 1}};
    s->derived[2] = (struct fth_derived_config){.as = FTH_DERIVE_CROSS, .name = "pair", .from = {pair, 2}};
    s->derived[3] = (struct fth_derived_config){.as = FTH_DERIVE_DATE, .name = "hour", .from = {of_t, 1},
                                                .format = choice[5] & 1 ? "iso" : "unix", .part = choice[5] % 11};
    s->config.features.derived = s->derived;
    s->config.features.n_derived = choice[5] & 0x80 ? 4 : 3;
    s->derived[s->config.features.n_derived++] = (struct fth_derived_config){
        .as = FTH_DERIVE_REPLACE, .name = "bare", .from = {of_c, 1}, .characters = choice[6] & 0x40 ? "[];'" : "a1",
        .by = choice[6] & 1 ? ";" : ""};
    /* The last one: its place depends on whether there is a date. */
    s->derived[s->config.features.n_derived++] = (struct fth_derived_config){
        .as = FTH_DERIVE_SESSIONS, .name = "visit", .from = {of_c, 1}, .separator = separator,
        .format = choice[5] & 0x20 ? "iso" : choice[5] & 0x40 ? "unix_ms" : "unix", .gap = choice[6],
        .on_bad_value = 1 + (choice[5] >> 4 & 1)};
}

static void set(struct setting *s, const uint8_t *choice) {
    static const char *const separators[] = {";", ",", "||", "aa"}, *const missing[] = {"?", "12", "a;", "123456789"};
    static const char *const values[] = {"1", "12", "12345678", "123456789", "a", "-0"};
    const char *separator = separators[choice[0] & 3], *other = separators[choice[0] >> 2 & 3];
    int64_t most = (int64_t[]){1, 3, 20, 1000}[choice[1] & 3], last = choice[1] >> 2 & 1;
    *s = (struct setting){.config = {.data = {.format = FTH_FORMAT_CSV, .label = "label"}, .embedding = {.dim = 1}}};
    derive(s, choice, separator);
    s->numeric[0] = (struct fth_numeric_config){
        .columns = {of_x, 1}, .separator = separator, .reduce = choice[2] % 5, .on_bad_value = choice[2] / 5 % 3,
        .max_length = choice[1] & 8 ? most : 0, .keep_last = (int)last, .missing_indicator = 1};
    s->numeric[1] = (struct fth_numeric_config){.columns = {choice[5] & 0x80 ? of_hour : of_x, 1}, .name = "n",
                                                .quantiles = 4, .log1p = 1, .separator = choice[5] & 0x80 ? "" : other,
                                                .on_bad_value = FTH_BAD_VALUE_SKIP};
    for (int i = 2; i < 4; i++) /* of values that joins make: of a list's, of a cell's, which refuse lines */
        s->numeric[i] = (struct fth_numeric_config){
            .columns = {i == 2 ? of_kinds : of_kind, 1}, .name = i == 2 ? "kinds n" : "kind n", .missing_indicator = 1,
            .separator = i == 2 ? separator : "", .reduce = choice[2] / 15 % 5,
            .on_bad_value = 1 + choice[2] / 75 % 2, .max_length = choice[1] & 16 ? most : 0,
            .keep_last = choice[1] >> 5 & 1};
    for (int i = 0; i < 2; i++)
        s->indicator[i] = (struct fth_indicator_config){
            .columns = {i ? of_c : of_x, 1}, .values = {values, 1 + choice[3] % 6u}, .separator = i ? separator : other,
            .count = choice[3] >> (3 + i) & 1, .other = choice[3] >> (5 + i) & 1};
    for (int i = 0; i < 3; i++)
        s->categorical[i] = (struct fth_categorical_config){
            .columns = {i == 0 ? of_c : of_kinds, 1}, .name = i == 2 ? "again" : "", .separator = separator,
            .max_length = most, .keep_last = (int)last, .buckets = i == 2 ? 7 : 0,
            .group = choice[4] & 1 && i < 2 ? "g" : ""};
    if (choice[4] & 2) /* a vocabulary that is learned, of texts that a join makes */
        s->categorical[2].buckets = 0, s->categorical[2].vocabulary_size = 3, s->categorical[2].oov_buckets = choice[4] >> 6;
    s->categorical[3] = (struct fth_categorical_config){.columns = {of_kind, 1}};
    s->categorical[4] = (struct fth_categorical_config){.columns = {of_pair, 1}, .vocabulary_size = 5,
                                                        .vocabulary_min_count = 2};
    s->categorical[5] = (struct fth_categorical_config){.columns = {of_visit, 1}, .separator = separator,
                                                        .max_length = most, .keep_last = (int)last};
    s->categorical[6] = (struct fth_categorical_config){.columns = {of_bare, 1}, .separator = separator,
                                                        .max_length = most, .keep_last = (int)last};
    s->config.features.numeric = s->numeric;
    s->config.features.indicator = s->indicator;
    s->config.features.categorical = s->categorical;
    s->config.features.n_numeric = choice[6] & 0x80 ? 4 : 3;
    s->config.features.n_indicator = 2;
    s->config.features.n_categorical = 7;
    s->config.features.learn_lines = choice[6] % 100;
    s->config.features.missing = (struct fth_strings){missing, choice[7] % 5u};
}

static struct fth_block *cut(const char *text, size_t size) {
    struct fth_block *block = NULL;
    size_t at = 0;
    CHECK(fth_block_create(&block, NULL) == FTH_OK && fth_block_reserve_text(block, size, NULL) == FTH_OK);
    CHECK(fth_block_reserve_lines(block, LINES, NULL) == FTH_OK);
    CHECK(fth_block_reserve_cells(block, LINES * COLUMNS, NULL) == FTH_OK);
    memcpy(block->text, text, size);
    block->text_length = size;
    block->n_columns = COLUMNS;
    block->file = "fuzz";
    block->first_line = 1;
    for (uint32_t i = 0; i < LINES && at < size; i++, block->n_lines++) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t stop = end ? (size_t)(end - text) : size;
        for (uint32_t c = 0; c < COLUMNS; c++) {
            const char *tab = c + 1 < COLUMNS ? memchr(text + at, '\t', stop - at) : NULL;
            size_t close = tab ? (size_t)(tab - text) : stop;
            block->cells[i * COLUMNS + c] = (struct fth_cell){(uint32_t)at, (uint32_t)(close - at)};
            at = tab ? close + 1 : close;
        }
        at = stop + 1;
        block->line_number[i] = i + 1;
        block->example_number[i] = i;
    }
    return block;
}

struct ran {
    fth_feature_program *program;
    fth_feature_pass *pass;
    struct fth_batch *batch;
    struct fth_block *block;
};

static void run(struct ran *r, struct setting *s, int plain, const fth_side_table *table, const char *text, size_t size) {
    static const char *const off[] = {"feature_fusion"};
    fth_error err = {0};
    s->config.without = (struct fth_strings){off, (uint32_t)plain};
    r->block = cut(text, size);
    CHECK(fth_feature_create(&s->config, columns, COLUMNS, &r->program, &err) == FTH_OK);
    for (uint32_t k = 0; k < 2; k++)
        CHECK(fth_feature_set_side_table(r->program, k, table, &err) == FTH_OK);
    CHECK(fth_feature_learn_block(r->program, r->block, NULL, r->block->n_lines, &err) == FTH_OK);
    CHECK(fth_feature_learn_finish(r->program, &err) == FTH_OK);
    CHECK(fth_feature_pass_create(r->program, NULL, 0, &r->pass, &err) == FTH_OK);
    struct fth_transform transform = fth_feature_pass_transform(r->pass);
    CHECK(fth_batch_create(transform.schema, 1, &r->batch, &err) == FTH_OK);
    CHECK(transform.examples(transform.ctx, r->block, r->batch, &err) == FTH_OK);
    char *told = NULL;
    CHECK(fth_feature_describe(r->program, &told, &err) == FTH_OK);
    free(told);
}

static void drop(struct ran *r) {
    fth_block_destroy(r->block);
    fth_batch_destroy(r->batch);
    fth_feature_pass_destroy(r->pass);
    fth_feature_destroy(r->program);
}

static int same_bytes(const void *a, const void *b, size_t n) { return n == 0 || memcmp(a, b, n) == 0; }

static void compare(const struct ran *a, const struct ran *b) {
    const struct fth_batch *x = a->batch, *y = b->batch;
    const struct fth_schema *schema = x->schema;
    CHECK(x->n == y->n && a->block->n_bad == b->block->n_bad && a->block->n_bad_values == b->block->n_bad_values);
    CHECK(x->n + a->block->n_bad == a->block->n_lines);
    CHECK(!a->block->n_bad || strcmp(a->block->first_bad.message, b->block->first_bad.message) == 0);
    CHECK(!a->block->n_bad_values ||
          strcmp(a->block->first_bad_value.message, b->block->first_bad_value.message) == 0);
    CHECK(same_bytes(x->label, y->label, x->n * sizeof *x->label));
    for (uint32_t i = 0; i < x->n; i++)
        CHECK(same_bytes(x->dense + (size_t)i * x->dense_ld, y->dense + (size_t)i * y->dense_ld,
                         schema->n_dense * sizeof *x->dense));
    for (uint32_t g = 0; g < schema->n_groups; g++)
        CHECK(same_bytes(x->groups[g].offsets, y->groups[g].offsets, (x->n + 1) * sizeof(uint32_t)));
    for (uint32_t f = 0; f < schema->n_fields; f++) {
        int32_t g = schema->field_group[f];
        for (uint32_t i = 0; i < (g == FTH_NO_GROUP ? x->n : x->groups[g].total); i++)
            CHECK(fth_key_at(&x->fields[f], i) == fth_key_at(&y->fields[f], i));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const pairs[][2] = {{"1", "one"}, {"12", "?"}, {"a", ""},     {"b", "one"},
                                           {"?", "no"},  {"", "no"},  {"123456789012345678", "a long kind of thing"},
                                           {"2", "2.5"}, {"3", "-0"}, {"c", "3e38"}, {"d", "-12"}, {"0", "1e-44"}};
    struct setting setting;
    struct ran fused, plain;
    fth_side_table *table = NULL;
    int differs;
    if (size < 8)
        return 0;
    CHECK(fth_side_table_create(&table, NULL) == FTH_OK);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        CHECK(fth_side_table_add(table, pairs[i][0], (uint32_t)strlen(pairs[i][0]), pairs[i][1],
                                 (uint32_t)strlen(pairs[i][1]), &differs, NULL) == FTH_OK);
    set(&setting, data);
    run(&fused, &setting, 0, table, (const char *)data + 8, size - 8);
    run(&plain, &setting, 1, table, (const char *)data + 8, size - 8);
    compare(&fused, &plain);
    drop(&fused);
    drop(&plain);
    fth_side_table_destroy(table);
    return 0;
}
