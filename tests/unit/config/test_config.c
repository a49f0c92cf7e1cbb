/* config: what a file means, what an empty one means, overrides, printing and reading back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>

#include "config/config.h"

static struct fth_config *parse_with(const char *text, const char *const *overrides, size_t n) {
    fth_error err = {0};
    struct fth_config *config = NULL;
    if (fth_config_parse("f.yaml", text, strlen(text), overrides, n, &config, &err) != FTH_OK)
        fail_msg("%s", err.message);
    return config;
}
static struct fth_config *parse(const char *text) {
    return parse_with(text, NULL, 0);
}

/* The printed configuration reads back and prints the same: every field of the schema survives. */
static void check_round_trip(const struct fth_config *config) {
    char *first = fth_config_print(config);
    assert_non_null(first);
    struct fth_config *again = parse(first);
    char *second = fth_config_print(again);
    assert_string_equal(first, second);
    fth_config_free(again);
    free(first);
    free(second);
}

static void check_list(struct fth_strings list, const char *joined) {
    char text[4096] = "";
    for (uint32_t i = 0; i < list.n; i++) {
        strcat(text, i ? "|" : "");
        strcat(text, list.items[i]);
    }
    assert_string_equal(text, joined);
}

#define SMALL "model: {name: lr}\nfeatures: {categorical: [{columns: C1}]}\n"

static void defaults(void **state) {
    struct fth_config *c = parse(SMALL);
    assert_int_equal(c->seed, 42);
    assert_int_equal(c->threads, 0);
    assert_int_equal(c->precision, FTH_PRECISION_FP32);
    assert_string_equal(c->tuning, "");
    assert_int_equal(c->without.n, 0);
    assert_int_equal(c->data.format, FTH_FORMAT_CRITEO);
    assert_int_equal(c->data.train.n, 0);
    assert_string_equal(c->data.delimiter, ",");
    assert_int_equal(c->data.header, 1);
    assert_int_equal(c->data.skip_blank, 1);
    assert_int_equal(c->data.on_bad_line, FTH_BAD_STOP);
    assert_int_equal(c->data.block_bytes, 131072);
    assert_int_equal(c->data.queue_depth, 4);
    assert_string_equal(c->data.comment, "");
    assert_true(c->data.holdout_fraction == 0.1);
    assert_int_equal(c->features.n_numeric, 0);
    assert_int_equal(c->features.n_categorical, 1);
    assert_int_equal(c->features.learn_lines, 100000);
    const struct fth_categorical_config *f = &c->features.categorical[0];
    check_list(f->columns, "C1");
    assert_int_equal(f->pooling, FTH_CONFIG_POOL_SUM);
    assert_int_equal(f->keep_last, 1);
    assert_int_equal(f->max_length, 0);
    assert_int_equal(fth_categorical_length(c, f), 100);
    assert_int_equal(f->ffm_field, -1);
    assert_string_equal(f->table, "");
    assert_int_equal(c->embedding.dim, 16);
    assert_true(c->embedding.memory_limit == 8000000000);
    assert_string_equal(c->dense_optimizer.name, "adagrad");
    assert_true(c->dense_optimizer.lr == 0.01);
    assert_true(c->sparse_optimizer.eps == 1e-10);
    assert_int_equal(c->train.batch_size, 4096);
    assert_string_equal(c->train.early_stop_metric, "");
    assert_int_equal(c->checkpoint.keep, 2);
    check_round_trip(c);
    fth_config_free(c);
}

static const char full[] =
    "seed: 18446744073709551615\n"
    "threads: 3\n"
    "precision: bf16\n"
    "tuning: here.json\n"
    "tile: 128\n"
    "without: [packing, interleaving]\n"
    "data:\n"
    "  format: csv\n"
    "  train: [a.csv, 'b*.csv.gz']\n"
    "  test: t.csv\n"
    "  holdout: {by: hash, fraction: 0.25}\n"
    "  csv: {delimiter: \"\\t\", header: false, columns: [y, q, w, n1, n2, \"a b\", item, hist, "
    "cats],\n"
    "        strip: yes, comment: '#', skip_blank: off}\n"
    "  on_bad_line: skip up to 100\n"
    "  shuffle: 1000\n"
    "  block_bytes: 64k\n"
    "  label: y\n"
    "  positive: ['>50K', \"quote\\\"\\\\\\n\\u2028\\xe4\"]\n"
    "  weight: w\n"
    "  query: q\n"
    "features:\n"
    "  missing: '?'\n"
    "  numeric:\n"
    "    - {columns: n1, clip: [-1.5, 1e20], log1p: true, standardise: {mean: 0.1, deviation: 3},\n"
    "       missing_indicator: on, missing_value: -0.0, boundaries: [1, 2.5, 1e300], dim: 4}\n"
    "    - columns: [n2]\n"
    "      standardise: running\n"
    "      quantiles: 10\n"
    "      bucket_only: true\n"
    "      table: shared\n"
    "  categorical:\n"
    "    - columns: [\"a b\", D1..D3]\n"
    "      buckets: 1000\n"
    "      min_count: 2\n"
    "    - {columns: item}\n"
    "    - {columns: [hist], table: item, sequence: true, separator: ';', group: h, max_length: "
    "7,\n"
    "       keep: first, pooling: mean}\n"
    "embedding: {dim: 8, init: normal, init_scale: 0.01, memory_limit: 2GiB, huge_pages: false}\n"
    "model: {name: din, hidden: [8, 4], attention: 5, activation: dice, dropout: 0.5, batch_norm: "
    "true,\n"
    "        target: item}\n"
    "optimizer:\n"
    "  dense: {name: adamw, lr: 1e-3, beta1: 0.8}\n"
    "  sparse: {name: ftrl, l1: 0.5, l2: 0.25, lr_power: -0.7}\n"
    "  schedule: {kind: polynomial, warmup_steps: 10, total_steps: 100, end_factor: 0.1, power: "
    "2}\n"
    "train: {batch_size: 256, epochs: 3, label_smoothing: 0.1, clip_norm: 5, eval_every: 10,\n"
    "        early_stopping: {metric: gauc, patience: 4, min_delta: 0.001}}\n"
    "checkpoint: {dir: out, every_minutes: 0.5}\n";

static void everything_set(void **state) {
    struct fth_config *c = parse(full);
    assert_true(c->seed == UINT64_MAX);
    check_list(c->without, "packing|interleaving");
    check_list(c->data.train, "a.csv|b*.csv.gz");
    check_list(c->data.test, "t.csv");
    assert_string_equal(c->data.delimiter, "\t");
    assert_int_equal(c->data.strip, 1);
    assert_int_equal(c->data.skip_blank, 0);
    assert_int_equal(c->data.on_bad_line, FTH_BAD_SKIP);
    assert_int_equal(c->data.bad_line_limit, 100);
    assert_int_equal(c->data.block_bytes, 65536);
    check_list(c->data.positive, ">50K|quote\"\\\n\xe2\x80\xa8\xc3\xa4");
    const struct fth_numeric_config *n = c->features.numeric;
    assert_int_equal(c->features.n_numeric, 2);
    assert_true(n[0].clip && n[0].clip_low == -1.5 && n[0].clip_high == 1e20);
    assert_int_equal(n[0].standardise, FTH_STANDARDISE_GIVEN);
    assert_true(n[0].mean == 0.1 && n[0].deviation == 3);
    assert_int_equal(n[0].boundaries.n, 3);
    assert_true(n[0].boundaries.items[1] == 2.5);
    assert_int_equal(n[1].standardise, FTH_STANDARDISE_RUNNING);
    assert_int_equal(n[1].clip, 0);
    assert_string_equal(n[1].table, "shared");
    assert_int_equal(c->features.n_categorical, 3);
    check_list(c->features.categorical[0].columns, "a b|D1|D2|D3");
    const struct fth_categorical_config *h = &c->features.categorical[2];
    assert_true(h->sequence && !h->keep_last && h->pooling == FTH_CONFIG_POOL_MEAN);
    assert_true(c->embedding.memory_limit == 2147483648);
    assert_int_equal(c->model.hidden.n, 2);
    assert_int_equal(c->model.hidden.items[1], 4);
    assert_int_equal(c->model.attention.items[0], 5);
    assert_true(c->dense_optimizer.weight_decay == 0.01 && c->dense_optimizer.beta2 == 0.999);
    assert_true(c->sparse_optimizer.lr == 0.05 && c->sparse_optimizer.lr_power == -0.7);
    assert_int_equal(c->schedule.kind, FTH_SCHEDULE_POLYNOMIAL);
    assert_int_equal(c->train.early_stop_patience, 4);
    assert_true(c->checkpoint.every_minutes == 0.5);
    check_round_trip(c);
    fth_config_free(c);
}

static void ranges_of_columns(void **state) {
    static const char text[] =
        "model: {name: lr}\nfeatures:\n  numeric: [{columns: [I1..I13]}]\n"
        "  categorical: [{columns: [C9..C11, a..b, I1..J2, x1..x01, v2..v1, 7..8, z0..z1, w01..w13]}]\n";
    struct fth_config *c = parse(text);
    check_list(c->features.numeric[0].columns, "I1|I2|I3|I4|I5|I6|I7|I8|I9|I10|I11|I12|I13");
    check_list(c->features.categorical[0].columns,
               "C9|C10|C11|a..b|I1..J2|x1..x01|v2..v1|7|8|z0|z1|w01..w13");
    check_round_trip(c);
    fth_config_free(c);
}

static void tab_without_quotes(void **state) {
    struct fth_config *c = parse("model: {name: lr}\nfeatures: {categorical: [{columns: a}]}\n"
                                 "data: {format: csv, label: y, csv: {delimiter: \\t}}\n");
    assert_string_equal(c->data.delimiter, "\t");
    check_round_trip(c);
    fth_config_free(c);
}

static void byte_order_mark(void **state) {
    struct fth_config *c = parse("\xef\xbb\xbfmodel: {name: lr}\r\nfeatures: {categorical: [{columns: a}]}\r\n");
    assert_string_equal(c->model.name, "lr");
    fth_config_free(c);
}

static void overrides_replace(void **state) {
    static const char *const overrides[] = {
        "data.train=*.csv",
        "data.test=[x, \"y,z\"]",
        "data.csv.delimiter=,",
        "data.csv.comment=",
        "features.numeric.0.clip=[0, 100]",
        "features.categorical.1.columns=other",
        "features.categorical.2={columns: hist, table: other, sequence: true, separator: '|'}",
        "model.target=other",
        "train.epochs=7",
        "train.epochs=8",
        "train.early_stopping.metric=",
        "checkpoint={dir: elsewhere}",
    };
    struct fth_config *c = parse_with(full, overrides, sizeof overrides / sizeof overrides[0]);
    check_list(c->data.train, "*.csv");
    check_list(c->data.test, "x|y,z");
    assert_string_equal(c->data.delimiter, ",");
    assert_string_equal(c->data.comment, "");
    assert_true(c->features.numeric[0].clip_high == 100);
    check_list(c->features.categorical[1].columns, "other");
    assert_string_equal(c->features.categorical[2].separator, "|");
    assert_int_equal(c->train.epochs, 8);
    assert_int_equal(c->train.batch_size, 256);
    assert_string_equal(c->train.early_stop_metric, "");
    assert_string_equal(c->checkpoint.dir, "elsewhere");
    assert_true(c->checkpoint.every_minutes == 0);
    check_round_trip(c);
    fth_config_free(c);
}

static void overrides_add(void **state) {
    static const char *const overrides[] = {"without+=packing", "without+=[skip_zeros, fuse_dice]", "data.train=a.csv",
                                            "data.train+=b.csv", "features.numeric.0.columns+=[I12, I13]",
                                            "data.test=[]",      "data.test+=[]"};
    struct fth_config *c = parse_with("model: {name: lr}\nwithout: [gate_split]\nfeatures: {numeric: [{columns: I1}]}\n",
                                      overrides, 7);
    check_list(c->without, "gate_split|packing|skip_zeros|fuse_dice");
    check_list(c->data.train, "a.csv|b.csv");
    check_list(c->features.numeric[0].columns, "I1|I12|I13");
    assert_int_equal(c->data.test.n, 0);
    check_round_trip(c);
    fth_config_free(c);
}

/* Of another choice than the file's, what the file says for its own means nothing. */
static void overrides_choose(void **state) {
    static const char *const overrides[] = {"optimizer.dense.name=adam", "optimizer.schedule.kind=constant"};
    struct fth_config *c = parse_with(
        "model: {name: lr}\nfeatures: {numeric: [{columns: I1}]}\noptimizer:\n  dense: {name: adagrad, "
        "initial_accumulator: 0.5, lr: 0.25}\n  schedule: {kind: cosine, total_steps: 100}\n",
        overrides, 2);
    assert_string_equal(c->dense_optimizer.name, "adam");
    assert_true(c->dense_optimizer.lr == 0.25);
    check_round_trip(c);
    fth_config_free(c);
}

/* A whole configuration can come from the command line; "train:" without keys is a section. */
static void overrides_make_sections(void **state) {
    static const char *const overrides[] = {
        "model.name=fm", "features.categorical=[{columns: C1..C3}]",
        "train.early_stopping.patience=9", "optimizer.dense.lr=0.5"};
    struct fth_config *c = parse_with("train:\noptimizer:\n  dense:\n", overrides, 4);
    assert_string_equal(c->model.name, "fm");
    check_list(c->features.categorical[0].columns, "C1|C2|C3");
    assert_int_equal(c->train.early_stop_patience, 9);
    assert_true(c->dense_optimizer.lr == 0.5);
    fth_config_free(c);
    c = parse_with("", overrides, 2);
    assert_string_equal(c->model.name, "fm");
    fth_config_free(c);
}

static void sizes(void **state) {
    static const struct {
        const char *text;
        int64_t bytes;
    } cases[] = {{"2000", 2000},       {"2000B", 2000},   {"64k", 65536},  {"64KiB", 65536},
                 {"64kB", 64000},      {"1MiB", 1048576}, {"3M", 3145728}, {"2MB", 2000000},
                 {"2GB", 2000000000},  {"5KB", 5000},     {"5K", 5120},    {"1 GiB", 1073741824},
                 {"1T", 1099511627776}, {"2.5GB", 2500000000}, {"1.5 KiB", 1536}, {"3.0001k", 3072}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char override[64];
        const char *overrides[] = {override};
        snprintf(override, sizeof override, "data.block_bytes=%s", cases[i].text);
        struct fth_config *c = parse_with(SMALL, overrides, 1);
        assert_true(c->data.block_bytes == cases[i].bytes);
        fth_config_free(c);
    }
}

/* Models print the keys they use and no other, so what is printed is accepted. */
static void every_model_round_trips(void **state) {
    static const char *const models[] = {"lr", "fm", "wide_deep", "deepfm", "dcn", "dcnv2", "dlrm"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char override[64];
        snprintf(override, sizeof override, "model.name=%s", models[i]);
        const char *overrides[] = {override, "features.numeric=[{columns: I1..I13}]",
                                   "model.bottom=[32, 16]"};
        struct fth_config *c = parse_with(SMALL, overrides, i == 6 ? 3 : 2);
        char *text = fth_config_print(c);
        assert_int_equal(strstr(text, "cross_layers") != NULL, i == 4 || i == 5);
        assert_int_equal(strstr(text, "delimiter") != NULL, 0);
        free(text);
        check_round_trip(c);
        fth_config_free(c);
    }
}

/* Texts and numbers that are easily bent on the way through YAML come back as they were. */
static void values_survive_printing(void **state) {
    static const char text[] = SMALL
        "without: [\" a \\u2028 b \\u0085 \", \"\\t\\n\\x7f\\ufeff\\ufffe\", '#: -', 'true', '',\n"
        "  \"\\U0001F600\\xa0\", \"'\\\"\\\\\"]\n"
        "train: {clip_norm: 0.1, label_smoothing: 0.30000000000000004}\n"
        "optimizer: {dense: {lr: 5e-324}, sparse: {lr: 1e-7}}\n";
    static const char numbers[] = "model: {name: lr}\n"
                                  "features: {numeric: [{columns: n, missing_value: -0.0, clip: "
                                  "[-1e308, 123456789012345678]}]}\n";
    struct fth_config *c = parse(text);
    char *printed = fth_config_print(c);
    struct fth_config *again = parse(printed);
    static const char *const expected[] = {" a \xe2\x80\xa8 b \xc2\x85 ",
                                           "\t\n\x7f\xef\xbb\xbf\xef\xbf\xbe",
                                           "#: -",
                                           "true",
                                           "",
                                           "\xf0\x9f\x98\x80\xc2\xa0",
                                           "'\"\\"};
    assert_int_equal(again->without.n, 7);
    for (uint32_t i = 0; i < 7; i++) {
        assert_string_equal(c->without.items[i], expected[i]);
        assert_string_equal(again->without.items[i], expected[i]);
    }
    assert_true(again->train.label_smoothing == 0.30000000000000004);
    assert_non_null(strstr(printed, "lr: 1.0e-07\n")); /* YAML 1.1 has no number without a point before an exponent */
    assert_true(again->dense_optimizer.lr == 5e-324);
    assert_non_null(strstr(printed, "clip_norm: 0.1\n"));
    fth_config_free(c);
    fth_config_free(again);
    free(printed);
    c = parse(numbers);
    printed = fth_config_print(c);
    again = parse(printed);
    assert_true(signbit(again->features.numeric[0].missing_value));
    assert_true(again->features.numeric[0].clip_low == -1e308);
    assert_true(again->features.numeric[0].clip_high == 123456789012345678);
    fth_config_free(c);
    fth_config_free(again);
    free(printed);
}

static void a_file_is_read(void **state) {
    char path[] = "/tmp/fathom-config-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    fputs(SMALL, file);
    fclose(file);
    struct fth_config *c = NULL;
    fth_error err;
    assert_int_equal(fth_config_read(path, NULL, 0, &c, &err), FTH_OK);
    assert_string_equal(c->model.name, "lr");
    fth_config_free(c);
    fth_config_free(NULL);
    remove(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(everything_set),
        cmocka_unit_test(ranges_of_columns),
        cmocka_unit_test(tab_without_quotes),
        cmocka_unit_test(byte_order_mark),
        cmocka_unit_test(overrides_replace),
        cmocka_unit_test(overrides_make_sections),
        cmocka_unit_test(overrides_add),
        cmocka_unit_test(overrides_choose),
        cmocka_unit_test(sizes),
        cmocka_unit_test(every_model_round_trips),
        cmocka_unit_test(values_survive_printing),
        cmocka_unit_test(a_file_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
