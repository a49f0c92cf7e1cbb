/* config: what is refused before any key is looked at: files that cannot be read, are not YAML, or are hostile. */
#include "refusals.h"

static void yaml_level(void **state) {
    static const struct bad cases[] = {
        {"model: [1, 2\ndata: 3\n", NULL,
         "f.yaml:2:5: not YAML: did not find expected ',' or ']' (while parsing a flow "
         "sequence that began in line 1)"},
        {"model:\n\tname: lr\n", NULL,
         "f.yaml:2:1: not YAML: found character that cannot start any token while scanning "
         "for the next token; a tab cannot indent, use spaces"},
        {"model: {name: lr}\n---\nmodel: {name: fm}\n", NULL,
         "f.yaml:2:1: a second document begins; a configuration is one document"},
        {"model: &m {name: lr}\n", NULL,
         "f.yaml:1:8: anchors (&name) are not supported; a text that begins with & needs "
         "quotes"},
        {"data: {train: *.csv}\n", NULL,
         "f.yaml:1:16: not YAML: did not find expected alphabetic or numeric character while "
         "scanning an alias; a text that begins with * needs quotes"},
        {"data: {train: *x}\n", NULL,
         "f.yaml:1:15: aliases (*name) are not supported; a text that begins with * needs "
         "quotes"},
        {"data: {train: !x a}\n", NULL,
         "f.yaml:1:15: tags (!name) are not supported; a text that begins with ! needs quotes"},
        {"model: {name: \"a\\0b\"}\n", NULL,
         "f.yaml:1:15: a text may not contain the character NUL"},
        {"model: {name: \xff}\n", NULL,
         "f.yaml:1:15: not YAML: invalid leading UTF-8 octet (byte 0xff); the file must be "
         "UTF-8 text"},
        {"\xef\xbb\xbfseed: 1\n\xff: 2\n", NULL,
         "f.yaml:2:1: not YAML: invalid leading UTF-8 octet (byte 0xff); the file must be UTF-8 text"},
        {"a:\n  b: \xc3\x28\n", NULL,
         "f.yaml:2:7: not YAML: invalid trailing UTF-8 octet (byte 0x28); the file must be "
         "UTF-8 text"},
        {"? [a]\n: 1\n", NULL, "f.yaml:1:3: a key must be a name, not a list or a section"},
        {"[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]", NULL,
         "f.yaml:1:17: nested too deeply; no key needs more than 16 levels"},
        {"a:\n b: 1\n   c: 2\n", NULL,
         "f.yaml:3:5: not YAML: mapping values are not allowed in this context"},
        {"\"abc\n", NULL,
         "f.yaml:2:1: not YAML: found unexpected end of stream (while scanning a quoted "
         "scalar that began in line 1)"},
        {"- a\n- b\n", NULL,
         "f.yaml:1:1: found a list, expected sections such as \"model:\" and \"data:\""},
        {"just words\n", NULL,
         "f.yaml:1:1: found a single value, expected sections such as \"model:\" and \"data:\""},
    };
    CHECK(cases);
}

/* Sizes and depths that a hostile file may have end in a message, quickly. */
static void hostile(void **state) {
    size_t size = FTH_CONFIG_MAX_BYTES + 1;
    char *text = malloc(size);
    fth_error err;
    struct fth_config *config;
    assert_non_null(text);
    static const char *const fill[] = {"[",    "{",  "- ", "? ",  "a: {",
                                       "[[],", "x,", "\"", "#\n", "a\n"};
    for (size_t f = 0; f < sizeof fill / sizeof fill[0]; f++) {
        size_t length = strlen(fill[f]);
        for (size_t i = 0; i < size; i++)
            text[i] = fill[f][i % length];
        assert_int_equal(fth_config_parse("f", text, size - 1, NULL, 0, &config, &err),
                         FTH_E_CONFIG);
    }
    /* A person's file is no larger; what it is printed as may be, up to a limit before anything is read. */
    FILE *file = fopen("large.yaml", "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(fth_config_read("large.yaml", NULL, 0, &config, &err), FTH_E_CONFIG);
    assert_string_equal(err.message, "large.yaml: larger than 1048576 bytes, which no configuration needs");
    assert_int_equal(remove("large.yaml"), 0);
    assert_int_equal(fth_config_parse("f", text, FTH_CONFIG_MAX_PRINTED + 1, NULL, 0, &config, &err), FTH_E_CONFIG);
    assert_string_equal(err.message, "f: larger than 67108864 bytes, which no configuration needs");
    strcpy(text, MODEL "features: {categorical: [");
    for (int i = 0; i < 4097; i++)
        memcpy(text + strlen(text), "{columns: a},", 14);
    strcat(text, "]}\n");
    assert_int_equal(fth_config_parse("f", text, strlen(text), NULL, 0, &config, &err),
                     FTH_E_CONFIG);
    assert_string_equal(err.message,
                        "f:2:25: features.categorical: found 4097 items, expected at most 4096");
    free(text);
}

static void unreadable_files(void **state) {
    fth_error err;
    struct fth_config *config;
    assert_int_equal(fth_config_read("/nonexistent/x.yaml", NULL, 0, &config, &err), FTH_E_IO);
    assert_string_equal(err.message,
                        "/nonexistent/x.yaml: cannot read the configuration: No such file or "
                        "directory");
    assert_int_equal(fth_config_read("/", NULL, 0, &config, &err), FTH_E_IO);
    assert_string_equal(err.message, "/: cannot read the configuration: Is a directory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yaml_level),
        cmocka_unit_test(hostile),
        cmocka_unit_test(unreadable_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
