/* data/ parsers on ugly input: cells and entries, and what is said of malformed lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "data/lines.h"
#include "data/set_private.h"
#include "parsed.h"

static void csv_plain(void **state) {
    struct fth_data_config config = config_of(FTH_FORMAT_CSV);
    expect(config, "1,2,3\n4,5,6\n", "[1|2|3]1[4|5|6]2");
    expect(config, "1,2,3\r\n4,,6", "[1|2|3]1[4||6]2");
    expect(config, "1,2,3\r", "[1|2|3]1");
    expect(config, ",,\n", "[||]1");
    expect(config, "", "");
    expect(config,
           "\xef\xbb\xbf"
           "1,2,3\n",
           "[1|2|3]1");
    expect(config, "1,\r,3\n", "[1|\r|3]1");
    config.delimiter = ";";
    expect(config, "1,5;2;3\n", "[1,5|2|3]1");
}

static void csv_delimiters_of_several_bytes(void **state) {
    struct fth_data_config config = config_of(FTH_FORMAT_CSV);
    config.delimiter = "::";
    expect(config, "1::2:b::3:\n4::::\r\n", "[1|2:b|3:]1[4||]2");
    expect(config, ":::x:::\n", "[|:x|:]1"); /* the first two of three */
    expect(config, "\"a::\"\"b\"::2::\"c\nd\"", "[a::\"b|2|c\nd]1");
    expect(config, "\"a\":b::2::3\n1::2\n",
           " bad 2: memory:1:4: text behind a closing quote; the delimiter must follow");
    expect(config, "1::2::3::4\n1::2:", " bad 2: memory:1:10: 4 cells; a line has 3");
    config.strip = 1;
    config.comment = "::";
    expect(config, ":: a :: b\n a :: \"b\" :: c \n", "[a|b|c]2");
    config.strip = 0;
    config.comment = "";
    config.delimiter = "\t|\t";
    expect(config, "1\t|\t\t\t|\t3|\t\n", "[1|\t|3|\t]1");
}

static void csv_malformed(void **state) {
    struct fth_data_config config = config_of(FTH_FORMAT_CSV);
    expect(config, "1,2\n4,5,6\n", "[4|5|6]2 bad 1: memory:1:4: 2 cells; a line has 3");
    expect(config, "1,2,3\n4,5,6,7,8\r\n", "[1|2|3]1 bad 1: memory:2:7: 5 cells; a line has 3");
    expect(config, "\n1,2,3\n", "[1|2|3]2 bad 1: memory:1:1: 1 cells; a line has 3");
    config.skip_blank = 1;
    expect(config, "\n1,2,3\n\r\n\n", "[1|2|3]2");
    expect(config, " \n1,2,3\n", "[1|2|3]2 bad 1: memory:1:2: 1 cells; a line has 3");
    config.strip = 1;
    expect(config, " \n1,2,3\n", "[1|2|3]2");
    expect_n(config, "1,2,3\n4,\0,6\n7,8,9\n", 18,
             "[1|2|3]1[7|8|9]3 bad 1: memory:2:3: a NUL byte; data lines are text");
}

static void csv_quotes(void **state) {
    struct fth_data_config config = config_of(FTH_FORMAT_CSV);
    expect(config, "\"a,b\",\"c\nd\",\"e\"\"f\"\n1,2,3\n", "[a,b|c\nd|e\"f]1[1|2|3]3");
    expect(config, "1,2,3\n\"a\nb\",2,\"\"\"\n\"", "[1|2|3]1[a\nb|2|\"\n]2"); /* the end ends a line */
    expect(config, "\"a\nb\",2,3", "[a\nb|2|3]1");
    expect(config, "\"\",\"\"\"\",\"\r\n\"\r\n1,2,3", "[|\"|\r\n]1[1|2|3]3");
    expect(config, "\"\"\"\n\"\"\",b,c\n1,2,3\n", "[\"\n\"|b|c]1[1|2|3]3");
    expect(config, "a,b\"c,d\n1,2,3\n",
           "[1|2|3]2 bad 1: memory:1:4: a quote within an unquoted cell; quote the whole cell and "
           "double it, or set quotes: false");
    expect(config, "\"a\"b,c,d\n1,2,3\n",
           "[1|2|3]2 bad 1: memory:1:4: text behind a closing quote; the delimiter must follow");
    expect(config, "\"a\"b\",c,d\n1,2,3\n",
           "[1|2|3]2 bad 1: memory:1:5: text behind a closing quote; the delimiter must follow");
    expect(config, "\"a\",\"\\\"b\\\" c\",d\n1,2,3\n",
           "[1|2|3]2 bad 1: memory:1:10: text behind a closing quote; a quote that belongs to the text is doubled, or "
           "\\\" with escape: '\\'");
    expect(config, "1,2,3\n4,5,\"6",
           "[1|2|3]1 bad 1: memory:2:5: a quoted cell that is never closed");
    expect(
        config, " \"a\",b,c\n",
        " bad 1: memory:1:2: a quote within an unquoted cell; quote the whole cell and double it, or set quotes: false");
    config.strip = 1;
    expect(config, " \"a, \" ,\tb ,c \r\n", "[a, |b|c]1");
    expect(config, "\"a\" \"b\",c,d\n1,2,3\n",
           "[1|2|3]2 bad 1: memory:1:5: text behind a closing quote; the delimiter must follow");
}

/* A malformed line ends at its first LF even where a quoted cell goes over it: what follows is read anew. */
#define TORN                                                                                                       \
    "the quote opens a cell that goes over the line's end, and what comes of it is malformed; is it a stray one?"

static void csv_quotes_are_signs(void **state) {
    struct fth_data_config config = config_of(FTH_FORMAT_CSV);
    config.quotes = 0;
    expect(config, "\"a,b\",\"c\n\"\"\",\",x\"y\n", "[\"a|b\"|\"c]1[\"\"\"|\"|x\"y]2");
    expect(config, "\"1,2\n1,2,\"", "[1|2|\"]2 bad 1: memory:1:5: 2 cells; a line has 3");
    config.delimiter = "::";
    expect(config, "\"a\"::\":\"::c", "[\"a\"|\":\"|c]1");
    config.header = 1;
    config.columns = (struct fth_strings){0};
    expect(config, "\"x::y\"\n1::\"\n", "[1|\"]2");
}

static void csv_torn(void **state) {
    struct fth_data_config config = config_of(FTH_FORMAT_CSV);
    expect(config, "1,2,3\n4,\"5\n6,7", "[1|2|3]1 bad 2: memory:2:3: " TORN);
    expect(config, "1,\"2,3\n4,5,6\n7,8,9\n", "[4|5|6]2[7|8|9]3 bad 1: memory:1:3: " TORN);
    expect(config, "1,\"2,3\n4,\"5\"\"\",6\n7,\"8\n\",9\n", "[4|5\"|6]2[7|8\n|9]3 bad 1: memory:1:3: " TORN);
    expect(config, "1,\"2,3\n4,5,6\n7,8\",9\n\"a\"\"b\",2,3\n", "[1|2,3\n4,5,6\n7,8|9]1[a\"b|2|3]4");
    expect(config, "1,\"2,3\n\"x\"\"y\",5,6\n7,8\",9,1\n1,2,3\n", "[x\"y|5|6]2[1|2|3]4 bad 2: memory:1:3: " TORN);
    expect(config, "1,\"2,3\n4,5,6\n7,8\",9,1\n1,2,3\n", "[4|5|6]2[1|2|3]4 bad 2: memory:1:3: " TORN);
    expect(config, "1,\"2\n,3,4\n5\",6\n\"\n7,8,9\n", "[1|2\n,3,4\n5|6]1[7|8|9]5 bad 1: memory:4:1: " TORN);
    expect(config, "1,b\"2,\"3\n4,5,6\n",
           "[4|5|6]2 bad 1: memory:1:4: a quote within an unquoted cell; quote the whole cell and double it, or set "
           "quotes: false");
    expect_n(config, "1,\"2\n\0\",3\n4,5,6\n", 16, "[4|5|6]3 bad 2: memory:1:3: " TORN);
    config.comment = "#";
    expect(config, "1,\"2,3\n#\"c\n4,5,6\n", "[4|5|6]3 bad 1: memory:1:3: " TORN);
}

static void csv_comments(void **state) {
    struct fth_data_config config = config_of(FTH_FORMAT_CSV);
    config.comment = "|";
    expect(config, "|1x3 \"Cross, validator\n1,2,3\n|\n4,5,6\n|", "[1|2|3]2[4|5|6]4");
    expect(config, "1,|2,3\n", "[1||2|3]1");
    config.comment = "##";
    expect(config, "#,2,3\n##x\n", "[#|2|3]1");
}

static void csv_header_line(void **state) {
    struct fth_data_config config = config_of(FTH_FORMAT_CSV);
    config.header = 1;
    config.columns.n = 0;
    expect(config, "x,y\n1,2\n", "[1|2]2");
    expect(config, "\"x\n,\",y\r\n1,2\n", "[1|2]3");
    expect(config, "x,y", "");
    expect(
        config, "x\"y,z\n1,2\n",
        "memory:1:2: header: a quote within an unquoted cell; quote the whole cell and double it, or set quotes: false");
    expect(config, "", "memory: no header line, which names the columns");
    config.skip_blank = 1;
    config.comment = "#";
    expect(config, "#c\n\nx,y\n#d\n1,2\n", "[1|2]5");
}

static char *criteo_line(char *out, int cells, const char *label) {
    char *p = out + sprintf(out, "%s", label);
    for (int c = 1; c < cells; c++)
        p += sprintf(p, "\t%s", c % 3 ? "" : "7f");
    return out;
}

static void criteo_lines(void **state) {
    struct fth_data_config config = config_of(FTH_FORMAT_CRITEO);
    char line[3][400], text[2048], expected[4096], cells[400];
    criteo_line(line[0], 40, "1");
    criteo_line(line[1], 39, "0");
    criteo_line(line[2], 42, "0");
    strcpy(cells, line[0]);
    for (char *p = cells; *p; p++)
        *p = *p == '\t' ? '|' : *p;
    sprintf(text, "%s\n%s\r\n%s", line[0], line[0], line[0]);
    sprintf(expected, "[%s]1[%s]2[%s]3", cells, cells, cells);
    expect(config, text, expected);
    sprintf(text, "%s\r\n%s\n", line[1], line[0]);
    sprintf(expected,
            "[%s]2 bad 1: memory:1:%zu: 39 cells; a criteo line has 40 (label, 13 integers, 26 "
            "categories)",
            cells, strlen(line[1]) + 1);
    expect(config, text, expected);
    sprintf(text, "%s\n", line[2]);
    sprintf(expected,
            " bad 1: memory:1:%zu: 42 cells; a criteo line has 40 (label, 13 integers, 26 "
            "categories)",
            strlen(line[0]) + 2);
    expect(config, text, expected);
    sprintf(text, "\n%s\n", line[0]);
    sprintf(expected,
            "[%s]2 bad 1: memory:1:1: 1 cells; a criteo line has 40 (label, 13 integers, 26 "
            "categories)",
            cells);
    expect(config, text, expected);
    config.skip_blank = 1;
    sprintf(expected, "[%s]2", cells);
    expect(config, text, expected);
    size_t n = (size_t)sprintf(text, "%s\n%s\n", line[0], line[0]);
    text[3] = 0;
    sprintf(expected, "[%s]2 bad 1: memory:1:4: a NUL byte; data lines are text", cells);
    expect_n(config, text, n, expected);
}

static uint32_t draw(uint32_t below) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % below);
}

/* A line of 40 cells, or of some more or less, perhaps with a NUL or CRLF, perhaps longer than what is looked through at
 * once; what the parser should say of it goes behind `said`, and 1 comes back where that is nothing. */
static int odd_line(char **text, char **said, uint32_t number, uint32_t odd) {
    static const uint32_t counts[] = {40, 39, 41, 80, 1, 40, 40, 40};
    uint32_t kind = draw(100) < odd ? draw(8) : 0, cells = counts[kind], nul = kind == 5, longest = kind == 6 ? 1000 : 9;
    char *begin = *said;
    *begin++ = '[';
    for (uint32_t c = 0; c < cells; c++) {
        uint32_t length = cells == 1 ? 3 : draw(longest);
        for (uint32_t i = 0; i < length; i++)
            *begin++ = *(*text)++ = (char)('a' + draw(26));
        *begin++ = c + 1 < cells ? '|' : ']';
        *(*text)++ = c + 1 < cells ? '\t' : '\n';
    }
    if (nul)
        (*text)[-(int32_t)draw(40) - 2] = 0;
    if (kind == 7) {
        (*text)[-1] = '\r';
        *(*text)++ = '\n';
    }
    if (cells != 40 || nul)
        return 1;
    *said = begin + sprintf(begin, "%u", number);
    return 0;
}

/* Whole lines, and ones that are not, at every place of what is looked through at once. */
static void criteo_many(void **state) {
    struct fth_data_config config = config_of(FTH_FORMAT_CRITEO);
    static char text[1 << 20], expected[1 << 21], said[1 << 21], bad[32];
    for (uint32_t round = 0; round < 60; round++) {
        char *end = text, *rows = expected;
        uint32_t n_bad = 0, odd = round % 3 == 0 ? 0 : round % 3 == 1 ? 2 : 40;
        for (uint32_t line = 1; line <= 500; line++)
            n_bad += (uint32_t)odd_line(&end, &rows, line, odd);
        *rows = 0;
        size_t length = (size_t)(rows - expected);
        snprintf(bad, sizeof bad, " bad %u:", n_bad);
        for (int64_t block = 1; block <= 1 << 20; block <<= 10) {
            config.block_bytes = block;
            parse_to(said, sizeof said, &config, text, (size_t)(end - text));
            assert_memory_equal(said, expected, length);
            assert_true(n_bad ? strncmp(said + length, bad, strlen(bad)) == 0 : said[length] == 0);
        }
    }
}

/* A cell of a CSV line, mostly as it should be. */
static char *odd_cell(char *out, uint32_t odd) {
    static const char *const cells[] = {"\"a,b\"", "\"a\"\"b\"", "\"\"\"\"", "\"c\r\n\"", "\"d\ne\"", "f\"g", "\"h\"i",
                                        "\"j",       "\r",           " \"k\"",   "\"\r\"",   "l\r",       "\"m\"\r", "\n"};
    if (draw(1000) < odd)
        return out + sprintf(out, "%s", cells[draw(sizeof cells / sizeof *cells)]);
    uint32_t kind = draw(4), length = draw(400) ? draw(9) : 20000;
    if (kind == 0)
        *out++ = '"';
    for (uint32_t i = 0; i < length; i++)
        *out++ = (char)('a' + draw(26));
    if (kind == 0)
        *out++ = '"';
    return out;
}

/* Plain cells, which are taken by a loop of their own, and with a sign of comments, of which there are none, by the machine
 * that takes all others. */
static void csv_many(void **state) {
    static char text[1 << 20], expected[1 << 21], said[1 << 21];
    for (uint32_t round = 0; round < 60; round++) {
        struct fth_data_config config = config_of(FTH_FORMAT_CSV);
        char *end = text;
        for (uint32_t line = 0; line < 500; line++)
            for (uint32_t cells = draw(100) ? 3 : 1 + draw(5); cells > 0; cells--) {
                end = odd_cell(end, round % 3 * 20);
                end += sprintf(end, "%s", cells > 1 ? "," : draw(4) ? "\n" : "\r\n");
            }
        size_t n = (size_t)(end - text) - draw(2);
        if (round % 6 == 5)
            text[draw((uint32_t)n)] = 0;
        config.skip_blank = (int)(round & 1);
        for (int64_t block = 1; block <= 1 << 20; block <<= 10) {
            config.block_bytes = block;
            config.comment = "#";
            parse_to(expected, sizeof expected, &config, text, n);
            config.comment = "";
            parse_to(said, sizeof said, &config, text, n);
            assert_int_equal(strcmp(said, expected), 0);
        }
    }
}

static void libsvm_lines(void **state) {
    struct fth_data_config config = config_of(FTH_FORMAT_LIBSVM);
    expect(config, "+1 3:1 18446744073709551615:-2.5e3\t7:0.5 \r\n-1\n0 qid:4 1:2 # c 5:x\n",
           "[+1 0:3:1 0:18446744073709551615:-2500 0:7:0.5]1[-1]2[0 0:1:2]3");
    expect(config, "#only\n1 1:1", "[1 0:1:1]2");
    expect(config, "1 -3:1\n",
           " bad 1: memory:1:3: expected index:value with an index of 0 or more, not '-3:1'");
    expect(config, "1 1:1 3\n",
           " bad 1: memory:1:7: expected index:value with an index of 0 or more, not '3'");
    expect(config, "1 18446744073709551616:1\n",
           " bad 1: memory:1:3: expected index:value with an index of 0 or more, not "
           "'18446744073709551616:1'");
    expect(config, "1 1:\n0 1:nan\n0 2:1e99\n1 2:3\n",
           "[1 0:2:3]4 bad 3: memory:1:5: expected a finite number, not ''");
    expect(config, "1 qid:x 1:1\n", " bad 1: memory:1:3: expected qid: and a number, not 'qid:x'");
    expect(config, "1:1 2:2\n", " bad 1: memory:1:1: expected a label first, not '1:1'");
    expect(config, "\n1 1:1\n",
           "[1 0:1:1]2 bad 1: memory:1:1: a blank line; set data.csv.skip_blank to leave them out");
    config.skip_blank = 1;
    expect(config, "\n  \n1 1:1\n", "[1 0:1:1]3");
    expect_n(config,
             "1 1:\0"
             "1\n1 1:1\n",
             13, "[1 0:1:1]2 bad 1: memory:1:5: a NUL byte; data lines are text");
}

static void libffm_lines(void **state) {
    struct fth_data_config config = config_of(FTH_FORMAT_LIBFFM);
    expect(config, "1 0:5:1 4294967295:6:0.25\r\n0", "[1 0:5:1 4294967295:6:0.25]1[0]2");
    expect(config, "1 4294967296:6:1\n",
           " bad 1: memory:1:3: expected field:index:value with a field of 0 or more, not "
           "'4294967296:6:1'");
    expect(config, "1 5:1\n",
           " bad 1: memory:1:3: expected field:index:value with an index of 0 or more, not '5:1'");
    expect(config, "1 5:1:\n", " bad 1: memory:1:7: expected a finite number, not ''");
}

/* The first refusal is that of the first line, whoever finds it. */
static void first_refusal_by_line(void **state) {
    struct fth_block *block;
    assert_int_equal(fth_block_create(&block, NULL), FTH_OK);
    block->file = "f";
    fth_block_refuse(block, 9, 2, "late");
    fth_block_refuse(block, 4, 3, "early %d", 1);
    fth_block_refuse(block, 7, 1, "between");
    assert_int_equal(block->n_bad, 3);
    assert_int_equal(block->first_bad.code, FTH_E_DATA);
    assert_string_equal(block->first_bad.message, "f:4:3: early 1");
    fth_block_destroy(block);
}

/* A line that is too long ends with its place, not with all memory. */
static void endless_line(void **state) {
    size_t n = (size_t)66 << 20;
    char *text = malloc(n);
    memset(text, 'x', n);
    memcpy(text, "1,2,3\n\"", 7);
    struct fth_data_config config = config_of(FTH_FORMAT_CSV);
    struct fth_data_set_options options = {
        .part = FTH_PART_FILES, .memory = text, .memory_bytes = n};
    fth_data_set *set;
    fth_lines *lines;
    struct fth_block *block;
    fth_error err = {0};
    int got;
    assert_int_equal(fth_data_set_create(&config, &options, &set, &err), FTH_OK);
    assert_int_equal(fth_lines_create(set, -1, (size_t)config.block_bytes, &lines, &err), FTH_OK);
    assert_int_equal(fth_block_create(&block, &err), FTH_OK);
    assert_int_equal(fth_lines_next(lines, block, &got, &err), FTH_OK);
    assert_int_equal(fth_lines_next(lines, block, &got, &err), FTH_E_DATA);
    assert_string_equal(err.message,
                        "memory:2:1: a line of more than 64 MiB");
    fth_block_destroy(block);
    fth_lines_destroy(lines);
    fth_data_set_destroy(set);
    free(text);
}

/* A line that is cut off makes no file one without labels; an unfinished last line says nothing. */
static void criteo_labels_lack(void **state) {
    static const struct {
        int with, without, unfinished, at_end, lack;
    } cases[] = {{3, 0, 0, 1, 0}, {3, 1, 0, 1, 0}, {1, 3, 0, 1, 1}, {2, 2, 0, 1, 0}, {1, 1, 1, 0, 0}, {1, 1, 1, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int lines = cases[i].with + cases[i].without + cases[i].unfinished;
        char text[512], *at = text;
        for (int line = 0; line < lines; line++) {
            int tabs = line < cases[i].with ? 39 : 38;
            memset(at, '\t', (size_t)tabs);
            at += tabs;
            if (line < cases[i].with + cases[i].without)
                *at++ = '\n';
        }
        assert_int_equal(fth_criteo_labels_lack(text, (size_t)(at - text), cases[i].at_end), cases[i].lack);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_plain),
        cmocka_unit_test(csv_delimiters_of_several_bytes),
        cmocka_unit_test(csv_malformed),
        cmocka_unit_test(csv_quotes),
        cmocka_unit_test(csv_quotes_are_signs),
        cmocka_unit_test(csv_torn),
        cmocka_unit_test(csv_comments),
        cmocka_unit_test(csv_header_line),
        cmocka_unit_test(criteo_lines),
        cmocka_unit_test(criteo_many),
        cmocka_unit_test(csv_many),
        cmocka_unit_test(criteo_labels_lack),
        cmocka_unit_test(libsvm_lines),
        cmocka_unit_test(libffm_lines),
        cmocka_unit_test(first_refusal_by_line),
        cmocka_unit_test(endless_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
