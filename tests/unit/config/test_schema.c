/* config: properties that hold for every row of the schema, and the generated reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "config/config_private.h"

typedef void visit(const struct fth_section *section, const struct fth_key *key, const char *path,
                   void *arg);

/* Items of lists are visited as number 0. */
static void for_each_key(const struct fth_section *section, const char *prefix, visit *each,
                         void *arg) {
    for (uint32_t i = 0; i < section->n_keys; i++) {
        const struct fth_key *key = &section->keys[i];
        char path[128];
        snprintf(path, sizeof path, "%s%s%s%s", prefix, *prefix ? "." : "", key->name,
                 key->type == FTH_KEY_SECTIONS ? ".0" : "");
        if (key->type >= FTH_KEY_SECTION)
            for_each_key(key->section, path, each, arg);
        else
            each(section, key, path, arg);
    }
}

static int parses(const char *text, const char *const *overrides, size_t n, struct fth_config **out,
                  fth_error *err) {
    *out = NULL;
    return fth_config_parse("f.yaml", text, strlen(text), overrides, n, out, err) == FTH_OK;
}

/* Values that the key accepts, as override's texts; not all of them the default. 0: no more. */
static int sample(const struct fth_key *key, size_t number, char *out, size_t size) {
    static const char *const texts[] = {
        [FTH_KEY_U64] = "7",
        [FTH_KEY_BYTES] = "3MiB",
        [FTH_KEY_DELIMITER] = "::",
        [FTH_KEY_ESCAPE] = "\\",
        [FTH_KEY_STRING] = "x",
        [FTH_KEY_STRINGS] = "[x, y]",
        [FTH_KEY_COLUMNS] = "[x1..x3]",
        [FTH_KEY_FLOATS] = "[1, 2.5]",
        [FTH_KEY_CLIP] = "[-1, 1]",
        [FTH_KEY_STANDARDISE] = "running",
        [FTH_KEY_BAD_LINE] = "skip up to 3",
        [FTH_KEY_INTS] = "[32, 16]",
    };
    if (strcmp(key->name, "wide") == 0 || strcmp(key->name, "target") == 0)
        snprintf(out, size, "item");
    else if (strcmp(key->name, "key") == 0) /* several need a cross before the join */
        snprintf(out, size, "[x]");
    else if (key->choices)
        snprintf(out, size, "%s", key->choices[number].name ? key->choices[number].name : "");
    else if (key->type == FTH_KEY_BOOL)
        snprintf(out, size, "%s", number ? "false" : "true");
    else if (key->type == FTH_KEY_INT)
        snprintf(out, size, "%.0f", key->low + 5 <= key->high ? key->low + 5 : key->high);
    else if (key->type == FTH_KEY_FLOAT)
        snprintf(out, size, "%g", key->low >= 0 ? 0.25 : -0.25);
    else
        snprintf(out, size, "%s", texts[key->type]);
    return key->choices ? key->choices[number].name != NULL : number <= (key->type == FTH_KEY_BOOL);
}

/* Every key is accepted in some valid file and then printed with its value. */
static const char *const bases[] = {
    "data: {format: csv, holdout: {by: hash}, query: q}\n"
    "tasks: [{name: x, label: y}]\n"
    "features:\n"
    "  derived: [{as: join, name: p, from: a, file: f, key: k, value: v}]\n"
    "  numeric: [{columns: n, quantiles: 5}, {columns: m}]\n"
    "  indicator: [{columns: o, values: [u]}]\n"
    "  categorical: [{columns: a, separator: ';'}, {columns: item},\n"
    "                {columns: hist, table: item, sequence: true, separator: ';'}]\n"
    "checkpoint: {dir: d}\n",
    "data: {format: csv, label: y, csv: {header: false, columns: [y, n, a]}}\n"
    "features: {derived: [{as: date, name: p, from: a}], numeric: [{columns: n, separator: '/', max_length: 3}], categorical: [{columns: a, name: b}]}\n",
    "data: {format: csv}\n"
    "tasks: [{name: t, label: y}]\n"
    "features: {derived: [{as: cross, name: p, from: [a, item]}], numeric: [{columns: n}],\n"
    "           categorical: [{columns: a, vocabulary_size: 3}, {columns: item}]}\n",
    "data: {format: csv, label: y}\n"
    "features: {derived: [{as: sessions, name: p, from: a, separator: ';'}], categorical: [{columns: a}, {columns: item}]}\n",
    "data: {format: csv, label: y}\n"
    "features: {derived: [{as: replace, name: p, from: a, characters: '$', by: '.'}],\n"
    "           categorical: [{columns: a}, {columns: item}]}\n",
    "data: {format: libffm}\n"
    "features: {categorical: [{columns: a}, {columns: item}]}\n",
};
static const char *const models[] = {
    "{name: lr}", "{name: wide_deep}", "{name: dcn}", "{name: dlrm, bottom: [16]}", "{name: din}",
    "{name: xdeepfm}", "{name: can}", "{name: mmoe}",
    "{name: dien}", "{name: two_tower}", "{name: dsin}", "{name: star}", "{name: atbrg}",
};
static const char *const optimizers[] = {
    "{dense: {name: sgd}, sparse: {name: sgd}, linear: {name: momentum}}",
    "{dense: {name: momentum}, sparse: {name: momentum}}",
    "{dense: {name: ftrl}, sparse: {name: ftrl}, linear: {name: adamw}}",
    "{dense: {name: adamw}, sparse: {name: adamw}, linear: {name: ftrl}, schedule: {kind: polynomial, total_steps: 9}}",
};

/* Whether the override is accepted on top of `text`, printed, changes what is printed, and reads
 * back. */
static int takes_effect(const char *text, const char *override, const char *name, fth_error *err) {
    char line[128];
    struct fth_config *with, *without, *again;
    fth_error ignored;
    if (!parses(text, NULL, 0, &without, &ignored))
        return 0;
    if (!parses(text, &override, 1, &with, err)) {
        fth_config_free(without);
        return 0;
    }
    char *printed = fth_config_print(with), *plain = fth_config_print(without);
    int changed = strcmp(printed, plain) != 0;
    snprintf(line, sizeof line, "%s: ", name);
    assert_non_null(strstr(printed, line));
    if (!parses(printed, NULL, 0, &again, err))
        fail_msg("%s: printed text is refused: %s", override, err->message);
    char *second = fth_config_print(again);
    assert_string_equal(printed, second);
    free(printed);
    free(plain);
    free(second);
    fth_config_free(with);
    fth_config_free(without);
    fth_config_free(again);
    return changed;
}

static void accepted_and_printed(const struct fth_section *section, const struct fth_key *key,
                                 const char *path, void *arg) {
    char value[64], override[256], text[1024];
    fth_error err = {0};
    /* Each kind of derived column needs other keys: no override alone makes one of another. */
    if (strcmp(path, "features.derived.0.as") == 0)
        return;
    for (size_t number = 0; sample(key, number, value, sizeof value); number++) {
        snprintf(override, sizeof override, "%s=%s", path, value);
        const size_t n_bases = sizeof bases / sizeof *bases, n_models = sizeof models / sizeof *models;
        for (size_t b = 0; b < n_bases * n_models * 4; b++) {
            snprintf(text, sizeof text, "%smodel: %s\noptimizer: %s\n", bases[b % n_bases],
                     models[b / n_bases % n_models], optimizers[b / n_bases / n_models]);
            if (takes_effect(text, override, key->name, &err)) {
                ++*(int *)arg;
                return;
            }
        }
    }
    fail_msg("%s takes effect on no base: %s", override, err.message);
}

static void every_key_is_accepted_and_printed(void **state) {
    int n = 0;
    for_each_key(&fth_schema_root, "", accepted_and_printed, &n);
    assert_true(n > 90);
}

/* A misspelt key is refused with the right one, wherever it stands; a wrong type with what is
 * accepted. */
static void refused_when_wrong(const struct fth_section *section, const struct fth_key *key,
                               const char *path, void *arg) {
    char override[256], expected[256], text[1024];
    const char *overrides[] = {override};
    struct fth_config *config;
    fth_error err;
    snprintf(text, sizeof text, "%smodel: {name: lr}\n", bases[0]);
    snprintf(override, sizeof override, "%sx=1", path);
    assert_false(parses(text, overrides, 1, &config, &err));
    /* The first letters: "betax" is as near to beta1 as to beta. */
    snprintf(expected, sizeof expected, "unknown key; did you mean %.4s", key->name);
    if (!strstr(err.message, expected))
        fail_msg("%s: %s", override, err.message);
    snprintf(override, sizeof override, "%s={a: {b: [1]}}", path);
    assert_false(parses(text, overrides, 1, &config, &err));
    if (!strstr(err.message, "expected ") && !strstr(err.message, "does not use this key") &&
        !strstr(err.message, "unknown key"))
        fail_msg("%s: %s", override, err.message);
    (void)arg;
}

static void every_key_refuses(void **state) {
    for_each_key(&fth_schema_root, "", refused_when_wrong, NULL);
}

static void well_formed(const struct fth_section *section, const struct fth_key *key,
                        const char *path, void *arg) {
    assert_true(section->n_keys <= FTH_SECTION_MAX_KEYS);
    assert_non_null(key->help);
    assert_true(strlen(key->help) > 3);
    assert_null(strchr(key->help, '|')); /* would break the reference's tables */
    if (key->used_by)
        assert_true(section->selector >= 0);
    for (size_t i = 0; key->choices && key->choices[i].name; i++)
        if (key->type == FTH_KEY_ENUM && (int)i == 0 && section->selector >= 0 &&
            key == &section->keys[section->selector])
            for (int c = 0; key->choices[c].name; c++)
                assert_int_equal(key->choices[c].value, c); /* used_by counts choices */
    for (uint32_t i = 0; i < section->n_keys; i++)
        assert_true(&section->keys[i] == key || strcmp(section->keys[i].name, key->name) != 0);
}

static void every_row_is_well_formed(void **state) {
    for_each_key(&fth_schema_root, "", well_formed, NULL);
}

/* docs/configuration.md is what the schema says; FATHOM_UPDATE_GOLDEN=1 writes it. */
static void reference_is_current(void **state) {
    static const char path[] = "docs/configuration.md";
    char *text = fth_config_reference();
    assert_non_null(text);
    size_t length = strlen(text);
    const char *update = getenv("FATHOM_UPDATE_GOLDEN");
    if (update && strcmp(update, "1") == 0) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(text, 1, length, file), length);
        assert_int_equal(fclose(file), 0);
    }
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *committed = malloc(length + 2);
    size_t n = fread(committed, 1, length + 1, file);
    committed[n] = 0;
    fclose(file);
    if (strcmp(committed, text) != 0)
        fail_msg("%s is not what the schema says; run this test with FATHOM_UPDATE_GOLDEN=1", path);
    free(committed);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_accepted_and_printed),
        cmocka_unit_test(every_key_refuses),
        cmocka_unit_test(every_row_is_well_formed),
        cmocka_unit_test(reference_is_current),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
