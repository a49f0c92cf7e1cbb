/* feature/: lists split, truncated, parsed, reduced and hashed in one pass give what the separate steps give, for
 * every kind of cell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include "base/random.h"
#include "blocks.h"
#include "kernels/decimal.h"
#include "base/number.h"
#include "feature/program.h"
#include "feature/split.h"
#include "programs.h"

#define LINES 300

static uint64_t draws;

static uint32_t draw(uint32_t below) {
    uint32_t out[4];
    fth_random_draw(7, 0, draws++, 0, out);
    return (uint32_t)((uint64_t)out[0] * below >> 32);
}

/* ---- what is built ---- */

struct text {
    char *bytes;
    size_t n, capacity;
};

static void put(struct text *text, const char *bytes, size_t n) {
    while (text->n + n > text->capacity)
        text->bytes = realloc(text->bytes, text->capacity = 2 * text->capacity + n);
    memcpy(text->bytes + text->n, bytes, n);
    text->n += n;
}

static void put_number(struct text *text, int hostile) {
    static const char *const odd[] = {"",     "-",      ".",        "inf",   "nan",     "0x1p3", "1e5", "-0",
                                      "1e39", "-1e-50", "12345678", "+4",    " 3",      "5.",    ".5",  "1.2.3",
                                      "--1",  "1-", "99999999.5",     "99999999.", "?",    "1e",      "3,4",   "\xff\xfe"};
    char digits[512];
    uint32_t kind = draw(hostile ? 10 : 3);
    if (kind < 2) {
        put(text, digits, (size_t)sprintf(digits, "%d.%02u", (int)draw(200) - 100, draw(100)));
    } else if (kind == 2) {
        put(text, digits, (size_t)sprintf(digits, "%u", draw(100000)));
    } else if (kind == 3) {
        uint32_t n = 100 + draw(400);
        for (uint32_t i = 0; i < n; i++)
            digits[i] = (char)('0' + draw(10));
        if (draw(2))
            digits[1] = '.';
        put(text, digits, n);
    } else if (kind == 4) {
        uint32_t n = draw(12);
        for (uint32_t i = 0; i < n; i++)
            digits[i] = "0123456789.-eE+"[draw(15)];
        put(text, digits, n);
    } else if (kind == 5) {
        put(text, "7\0", 1 + draw(2)); /* the text of an indicator, and one that only looks like it */
    } else {
        const char *s = odd[draw(sizeof odd / sizeof *odd)];
        put(text, s, strlen(s));
    }
}

static void put_text(struct text *text, int hostile) {
    char bytes[40];
    uint32_t n = draw(hostile ? 40 : 9);
    if (draw(4) == 0) { /* one of an indicator's, whole or not */
        put(text, "12345678", draw(9));
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        bytes[i] = hostile ? (char)draw(256) : (char)('a' + draw(26));
    put(text, bytes, n);
}

struct made {
    struct text text;
    struct fth_cell cells[3 * LINES]; /* label, list of numbers, list of texts */
};

static void make(struct made *made, const char *separator, int hostile) {
    made->text.n = 0;
    for (uint32_t i = 0; i < LINES; i++) {
        struct fth_cell *cells = made->cells + 3 * (size_t)i;
        cells[0] = (struct fth_cell){(uint32_t)made->text.n, 1};
        put(&made->text, "1", 1);
        for (int column = 1; column < 3; column++) {
            uint32_t start = (uint32_t)made->text.n, n = draw(4) ? draw(30) : draw(700);
            for (uint32_t k = 0; k < n; k++) {
                if (k)
                    put(&made->text, separator, strlen(separator));
                if (!hostile || draw(6)) {
                    if (column == 1)
                        put_number(&made->text, hostile);
                    else
                        put_text(&made->text, hostile);
                }
            }
            if (hostile && i == 7) /* a long element */
                for (int k = 0; k < 1 << 20; k++)
                    put(&made->text, "7", 1);
            cells[column] = (struct fth_cell){start, (uint32_t)made->text.n - start};
        }
        put(&made->text, "\n", 1);
    }
}

/* ---- what is compared ---- */

static struct fth_block *block_of(const struct made *made) {
    return test_block_raw(made->text.bytes, made->text.n, made->cells, LINES, 3);
}

static void fused_is_plain(void **state) {
    static const char *const separators[] = {";", "||", "aa", "."};
    static const char *const x[] = {"x"}, *const c[] = {"c"}, *const missing[] = {"?", "12", "99999999."};
    static const char *const columns[] = {"label", "x", "c"};
    static const int64_t lengths[] = {0, 1, 20, 300}, buckets[] = {0, 0, 1, 1000, 1 << 20, 4000000000};
    struct made *made = calloc(1, sizeof *made);
    uint64_t left_out = 0, kept = 0;
    for (int round = 0; round < 160; round++) {
        const char *separator = separators[draw(4) ? 0 : draw(4)];
        int hostile = round & 1;
        struct fth_numeric_config numeric = {.columns = {x, 1}, .separator = separator,
                                             .reduce = round / 2 % 5, .on_bad_value = round / 10 % 3,
                                             .max_length = lengths[draw(4)], .keep_last = (int)draw(2),
                                             .missing_indicator = 1};
        struct fth_categorical_config categorical = {.columns = {c, 1}, .separator = separator,
                                                     .max_length = lengths[draw(4)],
                                                     .keep_last = (int)draw(2),
                                                     .buckets = buckets[draw(6)]};
        struct fth_config config = {.data = {.format = FTH_FORMAT_CSV, .label = "label"},
                                    .embedding = {.dim = 1}};
        config.features.numeric = &numeric;
        config.features.categorical = &categorical;
        config.features.n_numeric = config.features.n_categorical = 1;
        static const char *const values[] = {"12",       "a",         "",    "b",    "7",  "-0",
                                             "12345678", "99999999.", "nan", "five", "12.", "abcdefgh"};
        struct fth_indicator_config indicators[] = {
            {.columns = {x, 1}, .values = {values, 6 + draw(7)}, .separator = draw(4) ? separator : "",
             .count = (int)draw(2), .other = (int)draw(2)},
            {.columns = {c, 1}, .values = {values, 1 + draw(6)}, .separator = separator,
             .count = (int)draw(2), .other = (int)draw(2)},
        };
        config.features.indicator = indicators;
        config.features.n_indicator = 2;
        config.features.missing = (struct fth_strings){missing, draw(2) ? draw(4) : 0};
        struct test_program fused, plain;
        make(made, separator, hostile);
        test_program_create(&fused, &config, columns, 3, 0);
        test_program_create(&plain, &config, columns, 3, 1);
        test_program_run(&fused, block_of(made));
        test_program_run(&plain, block_of(made));
        test_programs_same(&fused, &plain);
        left_out += fused.block->n_bad_values;
        kept += fused.batch->n;
        if (!hostile && strcmp(separator, ".") != 0)
            assert_int_equal(fused.batch->n, LINES);
        test_program_drop(&fused);
        test_program_drop(&plain);
    }
    assert_true(left_out > 100 && kept > 20 * LINES);
    free(made->text.bytes);
    free(made);
}

/* What each reduction gives, by hand. */
static void reductions(void **state) {
    static const char *const columns[] = {"label", "x"}, *const x[] = {"x"};
    static const struct {
        const char *cell;
        int64_t max_length;
        int reduce, keep_last, on_bad_value;
        float expected; /* NAN: missing, which stands as -9; INFINITY: the line is refused */
    } cases[] = {
        {"3.50;12;7.25", 0, FTH_REDUCE_MEAN, 0, 0, 7.5833333333f},
        {"3.50;12;7.25", 0, FTH_REDUCE_SUM, 0, 0, 22.75f},
        {"3.50;12;-7.25", 0, FTH_REDUCE_MIN, 0, 0, -7.25f},
        {"-3.50;-12;-7.25", 0, FTH_REDUCE_MAX, 0, 0, -3.5f},
        {"3.50;;7.25;x", 0, FTH_REDUCE_COUNT, 0, 0, 3},
        {"", 0, FTH_REDUCE_COUNT, 0, 0, 0},
        {"", 0, FTH_REDUCE_SUM, 0, 0, NAN},
        {";;", 0, FTH_REDUCE_MEAN, 0, 0, NAN},
        {"1;;4", 0, FTH_REDUCE_MEAN, 0, 0, 2.5f},
        {"1;x;4", 0, FTH_REDUCE_MEAN, 0, FTH_BAD_VALUE_STOP, INFINITY},
        {"1;x;4", 0, FTH_REDUCE_MEAN, 0, FTH_BAD_VALUE_SKIP, 2.5f},
        {"1;x;4", 0, FTH_REDUCE_MEAN, 0, FTH_BAD_VALUE_MISSING, NAN},
        {"1;2;3;4", 2, FTH_REDUCE_SUM, 0, 0, 3},
        {"1;2;3;4", 2, FTH_REDUCE_SUM, 1, 0, 7},
        {"x;2;3;4", 3, FTH_REDUCE_SUM, 1, 0, 9},
        {"3e38;3e38", 0, FTH_REDUCE_SUM, 0, FTH_BAD_VALUE_STOP, INFINITY},
        {"3e38;3e38", 0, FTH_REDUCE_SUM, 0, FTH_BAD_VALUE_SKIP, NAN},
        {"3e38;3e38", 0, FTH_REDUCE_MEAN, 0, 0, 3e38f},
        {"7", 0, FTH_REDUCE_MEAN, 1, 0, 7},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        size_t k = i / 2;
        struct fth_numeric_config numeric = {.columns = {x, 1}, .separator = ";",
                                             .reduce = cases[k].reduce, .keep_last = cases[k].keep_last,
                                             .on_bad_value = cases[k].on_bad_value,
                                             .max_length = cases[k].max_length, .missing_value = -9};
        struct fth_config config = {.data = {.format = FTH_FORMAT_CSV, .label = "label"}};
        config.features.numeric = &numeric;
        config.features.n_numeric = 1;
        char text[64];
        sprintf(text, "1,%s\n", cases[k].cell);
        struct test_program ran;
        test_program_create(&ran, &config, columns, 2, i % 2);
        test_program_run(&ran, test_block_cells(text, ','));
        if (isinf(cases[k].expected)) {
            assert_int_equal(ran.batch->n, 0);
            assert_int_equal(ran.block->n_bad, 1);
        } else {
            assert_int_equal(ran.batch->n, 1);
            assert_float_equal(ran.batch->dense[0], isnan(cases[k].expected) ? -9 : cases[k].expected, 0);
        }
        test_program_drop(&ran);
    }
}

/* A reader fills its blocks again and again: what is told of one's bad values is of its last run. */
static void bad_values_are_of_one_run(void **state) {
    static const char *const columns[] = {"label", "x"}, *const x[] = {"x"};
    struct fth_numeric_config numeric = {.columns = {x, 1}, .separator = ";", .on_bad_value = FTH_BAD_VALUE_SKIP};
    struct fth_config config = {.data = {.format = FTH_FORMAT_CSV, .label = "label"}};
    config.features.numeric = &numeric;
    config.features.n_numeric = 1;
    struct test_program ran;
    test_program_create(&ran, &config, columns, 2, 0);
    test_program_run(&ran, test_block_cells("1,a;2;b\n1,3\n", ','));
    struct fth_transform transform = fth_feature_pass_transform(ran.pass);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(ran.block->n_bad_values, 2);
        assert_int_equal(transform.examples(transform.ctx, ran.block, ran.batch, NULL), FTH_OK);
    }
    test_program_drop(&ran);
}

static void indicators(void **state) {
    static const char *const columns[] = {"label", "x"}, *const x[] = {"x"}, *const values[] = {"a", "b", "cc"};
    static const struct {
        const char *cell;
        int list, count, other;
        float expected[4];
    } cases[] = {
        {"b", 0, 0, 1, {0, 1, 0, 0}},       {"q", 0, 0, 1, {0, 0, 0, 1}},   {"", 0, 0, 1, {0, 0, 0, 0}},
        {"a;cc;a", 1, 0, 1, {1, 0, 1, 0}},  {"a;cc;a", 1, 1, 1, {2, 0, 1, 0}}, {"a;;q;c;", 1, 1, 1, {1, 0, 0, 2}},
        {"a;q;q", 1, 1, 0, {1, 0, 0, 0}},   {"", 1, 1, 1, {0, 0, 0, 0}},    {"a;cc", 0, 1, 1, {0, 0, 0, 1}},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        size_t k = i / 2;
        struct fth_indicator_config indicator = {.columns = {x, 1}, .values = {values, 3},
                                                 .separator = cases[k].list ? ";" : "",
                                                 .count = cases[k].count, .other = cases[k].other};
        struct fth_config config = {.data = {.format = FTH_FORMAT_CSV, .label = "label"}};
        config.features.indicator = &indicator;
        config.features.n_indicator = 1;
        char text[64];
        sprintf(text, "1,%s\n", cases[k].cell);
        struct test_program ran;
        test_program_create(&ran, &config, columns, 2, i % 2);
        test_program_run(&ran, test_block_cells(text, ','));
        const struct fth_schema *schema = fth_feature_schema(ran.program);
        assert_int_equal(schema->n_dense, 3 + cases[k].other);
        assert_string_equal(schema->dense_names[2], "x=cc");
        assert_memory_equal(ran.batch->dense, cases[k].expected, schema->n_dense * sizeof(float));
        test_program_drop(&ran);
    }
}

/* A text of more than eight bytes that means missing is none of the others. */
static void long_missing_text(void **state) {
    static const char *const columns[] = {"label", "x"}, *const x[] = {"x"}, *const values[] = {"a", "b"},
                             *const missing[] = {"(not set)"};
    static const float expected[] = {1, 0, 1};
    for (int plain = 0; plain < 2; plain++) {
        struct fth_indicator_config indicator = {.columns = {x, 1}, .values = {values, 2}, .separator = ";", .count = 1,
                                                 .other = 1};
        struct fth_config config = {.data = {.format = FTH_FORMAT_CSV, .label = "label"}};
        config.features.indicator = &indicator;
        config.features.n_indicator = 1;
        config.features.missing = (struct fth_strings){missing, 1};
        struct test_program ran;
        test_program_create(&ran, &config, columns, 2, plain);
        test_program_run(&ran, test_block_cells("1,(not set);a;(not sat)\n", ','));
        assert_memory_equal(ran.batch->dense, expected, sizeof expected);
        test_program_drop(&ran);
    }
}

static void short_decimals_are_exact(void **state) {
    for (int i = 0; i < 2000000; i++) {
        char text[16] = {0};
        uint32_t n = draw(10);
        for (uint32_t k = 0; k < n; k++)
            text[k] = draw(40) ? (char)('0' + draw(10)) : ".-+e\xb5:/\x10"[draw(8)];
        if (n && draw(2))
            text[draw(n)] = '.';
        if (n && draw(4) == 0)
            text[0] = '-';
        struct fth_decimal decimal;
        float expected;
        uint64_t word;
        memcpy(&word, text, sizeof word);
        if (fth_decimal_parse(word, n, &decimal))
            continue;
        static const float powers[] = {1, 10, 100, 1000, 1e4f, 1e5f, 1e6f, 1e7f};
        float x = (float)decimal.digits / powers[decimal.places];
        x = decimal.sign ? -x : x;
        assert_int_equal(fth_number_parse(text, n, &expected), FTH_NUMBER_OK);
        assert_memory_equal(&x, &expected, sizeof x);
    }
}

/* And they are not left to the slow way. */
static void short_decimals_are_taken(void **state) {
    static const char *const texts[] = {"0", "3.50", "-0.25", "12", "12345678", "1234.567", "-1.5", ".5", "-.5"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct fth_decimal decimal;
        char text[16] = {0};
        uint64_t word;
        strcpy(text, texts[i]);
        memcpy(&word, text, sizeof word);
        assert_true(fth_decimal_parse(word, (uint32_t)strlen(text), &decimal) == 0);
    }
}

static void tails(void **state) {
    for (int i = 0; i < 2000; i++) {
        char text[1200 + FTH_TEXT_PADDING] = {0};
        uint32_t n = draw(1200), most = 2 + draw(30);
        for (uint32_t k = 0; k < n; k++)
            text[k] = draw(most) ? 'x' : ';';
        const struct fth_separator separator = {";", 1};
        uint32_t count = fth_split_count(text, n, &separator), keep = 1 + draw(count + 1);
        uint32_t start = fth_split_tail(text, n, &separator, keep);
        assert_true(start == 0 || text[start - 1] == ';');
        assert_int_equal(fth_split_count(text + start, n - start, &separator), keep < count ? keep : count);
    }
}

struct taken {
    struct fth_elements elements;
    struct fth_separator separator;
    uint32_t n, begins[30000], ends[30000];
};

static void take(void *ctx) {
    struct taken *taken = ctx;
    fth_elements_begin(&taken->elements, &taken->separator);
    for (uint32_t i = 0; i < taken->elements.n; i++, taken->n++) {
        assert_true(taken->n < 30000);
        taken->begins[taken->n] = taken->elements.begins[i];
        taken->ends[taken->n] = taken->elements.ends[i];
    }
    fth_elements_clear(&taken->elements);
}

/* Elements of many lists, of lengths at a window's end and of one or two bytes a separator, first and last ones: what a
 * search from the front finds. */
static void elements_of_many_lists(void **state) {
    static struct taken taken;
    for (int round = 0; round < 300; round++) {
        static char text[16000 + FTH_TEXT_PADDING];
        static uint32_t begins[30000], ends[30000];
        const struct fth_separator separator = {";;", 1 + draw(2)};
        uint32_t start = 0, wanted = 0;
        taken.n = 0;
        taken.separator = separator;
        fth_elements_clear(&taken.elements);
        for (int list = 0; list < 12; list++) {
            static const uint32_t lengths[] = {FTH_SPLIT_FIRST, FTH_SPLIT_WINDOW, 64, 0};
            uint32_t around = lengths[draw(4)], length = around + draw(6) - (around ? 3 : 0), most = 1 + draw(9);
            uint32_t keep = draw(3) ? 1 + draw(300) : UINT32_MAX, end = start + length, first = wanted, n, drop;
            int last = draw(2) && keep != UINT32_MAX;
            for (uint32_t k = start; k < end; k++)
                text[k] = draw(most) ? 'x' : ';';
            for (uint32_t at = start; ; at = ends[wanted++] + separator.length) {
                const char *hit = memmem(text + at, end - at, separator.bytes, separator.length);
                begins[wanted] = at;
                ends[wanted] = hit ? (uint32_t)(hit - text) : end;
                if (!hit)
                    break;
            }
            n = ++wanted - first;
            drop = n > keep ? n - keep : 0;
            if (last && drop) {
                memmove(begins + first, begins + first + drop, keep * sizeof *begins);
                memmove(ends + first, ends + first + drop, keep * sizeof *ends);
            }
            wanted -= drop;
            assert_int_equal(fth_split_add(text, start, end, &separator, keep, last, &taken.elements, take, &taken), n - drop);
            start = end + draw(20);
        }
        take(&taken);
        assert_int_equal(taken.n, wanted);
        assert_memory_equal(taken.begins, begins, wanted * sizeof *begins);
        assert_memory_equal(taken.ends, ends, wanted * sizeof *ends);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_is_plain), cmocka_unit_test(reductions),
        cmocka_unit_test(bad_values_are_of_one_run), cmocka_unit_test(indicators),
        cmocka_unit_test(long_missing_text),
        cmocka_unit_test(short_decimals_are_exact), cmocka_unit_test(short_decimals_are_taken),
        cmocka_unit_test(tails), cmocka_unit_test(elements_of_many_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
