/* data/csv with an escape: cells of ugly lines, what is written is read, blocks cut anywhere change nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lower_isas.h"
#include "parsed.h"

static struct fth_data_config escaped(void) {
    struct fth_data_config config = config_of(FTH_FORMAT_CSV);
    config.escape = "\\";
    return config;
}

/* As Python's csv reads them with escapechar. */
static void in_cells(void **state) {
    struct fth_data_config config = escaped();
    expect(config, "a\\,b,c\\\\,\\\"d\n1,2,3\n", "[a,b|c\\|\"d]1[1|2|3]2");
    expect(config, "\"a\\\"b\",\"c\"\"\\\\\",\"\\\"\"\n1,2,3\n", "[a\"b|c\"\\|\"]1[1|2|3]2");
    expect(config, "\"\\\\\",\\\\,\"\\\\\\\"\"\n", "[\\|\\|\\\"]1");
    expect(config, "\\a\\b,\"\\c\",\\N\n", "[ab|c|N]1"); /* no signs of their own, as in C */
    expect(config, "\\a,5\\\" disk,\"5\\\" disk\"\r\n", "[a|5\" disk|5\" disk]1");
    config.escape = "^";
    expect(config, "a\\,^^^,,\"^\"\"", "[a\\|^,|\"]1");
    config.quotes = 0;
    expect(config, "\"^,,^\"\",^\n\"\n", "[\",|\"\"|\n\"]1");
    config.strip = 1;
    expect(config, "  ^ a ^  , ^^ ,\t^\t\r\n", "[ a  |^|\t]1");
    config.quotes = 1;
    expect(config, " \" a^\" \" , ^\"a ,3\n", "[ a\" |\"a|3]1");
    expect(config, "^ \"a\",2,3\n1,2,3\n",
           "[1|2|3]2 bad 1: memory:1:3: a quote within an unquoted cell; quote the whole cell and double it, or set "
           "quotes: false");
}

/* An escaped LF is text and the line goes on; an escaped CR does not belong to a CRLF. */
static void at_line_ends(void **state) {
    struct fth_data_config config = escaped();
    expect(config, "1,2,\\\n3\n\"a\\\nb\",c\\\n,\\\n\\\n\n7,8,9", "[1|2|\n3]1[a\nb|c\n|\n\n]3[7|8|9]8");
    expect(config, "1,2,3\\\r\n4,5,\\\r\r\n6,7,\\\\\r\n", "[1|2|3\r]1[4|5|\r]2[6|7|\\]3");
    expect(config, "1,2,\\\n", "[1|2|\n]1");
    expect(config, "1,2,3\n4,5,6\\\\", "[1|2|3]1[4|5|6\\]2");
    expect(config, "1,2,3\n4,5,6\\", "[1|2|3]1 bad 1: memory:2:6: an escape with nothing behind it");
    expect(config, "\\", " bad 1: memory:1:1: an escape with nothing behind it");
    expect(config, "1,2,\"\\\"", " bad 1: memory:1:5: a quoted cell that is never closed");
    config.skip_blank = 1;
    config.comment = "#";
    expect(config, "# \\\n1,2,3\n\\#1,2,3\n\n\\\n\r\n#\\", "[1|2|3]2[#1|2|3]3 bad 1: memory:5:4: 1 cells; a line has 3");
    config.header = 1;
    config.columns.n = 0;
    expect(config, "a\\,b,\"\\\"\",c\\\nd\n1,\\,,3\n", "[1|,|3]3");
    expect(config, "a,b\\", "memory:1:4: header: an escape with nothing behind it");
}

/* A malformed line ends at the first LF that quotes alone keep in it. */
static void malformed(void **state) {
    static const char torn[] =
        "the quote opens a cell that goes over the line's end, and what comes of it is malformed; is it a stray one?";
    struct fth_data_config config = escaped();
    char said[300];
    snprintf(said, sizeof said, "[1|2|3]3 bad 1: memory:1:3: %s", torn);
    expect(config, "1,\"2\\\n,3\n1,2,3\n", said);
    snprintf(said, sizeof said, "[1|2|3]5 bad 2: memory:1:7: %s", torn);
    expect(config, "1,2\\\n,\"3\\\n4\n5\",6\n1,2,3\n", said);
    expect(config, "1,2\\\n,3,4\n5,6,7\n", "[5|6|7]3 bad 1: memory:1:9: 4 cells; a line has 3");
    expect(config, "\"a\"\\,b,c\n1,2,3\n",
           "[1|2|3]2 bad 1: memory:1:4: text behind a closing quote; the delimiter must follow");
    expect(config, "\"a\\\\\"b,2,3\n1,2,3\n",
           "[1|2|3]2 bad 1: memory:1:6: text behind a closing quote; the delimiter must follow");
    config.escape = "";
    expect(config, "\"a\\\"b\",2,3\n1,2,3\n",
           "[1|2|3]2 bad 1: memory:1:6: text behind a closing quote; a quote that belongs to the text is doubled, or \\\" "
           "with escape: '\\'");
}

static void delimiters_of_several_bytes(void **state) {
    struct fth_data_config config = escaped();
    config.delimiter = "::";
    expect(config, "1\\::2::3\\:::\\:\\:\n", "[1::2|3:|::]1");
    expect(config, "1:\\:2::\"3\\\"::\"\\::4\n1:\\:2::\"3\\\"::\"::4\\\\::5\n",
           " bad 2: memory:1:15: text behind a closing quote; the delimiter must follow");
    expect(config, "1:\\:2::\"3\\\"::\"::4\\\\\n", "[1::2|3\"::|4\\]1");
    config.delimiter = ",,;";
    expect(config, "1\\,,;,,;,\\,;,,;,,\\;\n", "[1,,;|,,;|,,;]1");
}

#define TEXT (1u << 22)
static char text[TEXT], expected[TEXT], said[2][TEXT];

static uint32_t draw(uint32_t below) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % below);
}

/* A cell's text is drawn and written, in quotes or not; what must be escaped is, other bytes now and then. */
static void write_cell(const struct fth_data_config *config, char **out, char **cell, uint32_t *newlines) {
    static const char bytes[] = "ab:;,, \t\"\"\\\\\n\r";
    int quoted = config->quotes && draw(2);
    char must[16];
    if (quoted)
        snprintf(must, sizeof must, "\"%s", config->escape);
    else
        snprintf(must, sizeof must, "\"\r\n%s%c%s", config->escape, *config->delimiter, config->strip ? " \t" : "");
    if (quoted)
        *(*out)++ = '"';
    for (uint32_t n = draw(20) ? draw(6) : draw(400); n > 0; n--) {
        char c = bytes[draw(sizeof bytes - 1)];
        *newlines += c == '\n';
        if (quoted && c == '"' && draw(2))
            *(*out)++ = '"';
        else if (strchr(must, c) || draw(20) == 0)
            *(*out)++ = *config->escape;
        *(*out)++ = *(*cell)++ = c;
    }
    if (quoted)
        *(*out)++ = '"';
}

static size_t write_lines(const struct fth_data_config *config, uint32_t lines) {
    char *out = text, *cell = expected;
    for (uint32_t line = 0, number = 1; line < lines; line++) {
        uint32_t newlines = 1;
        for (int c = 0; c < 3; c++) {
            *cell++ = c ? '|' : '[';
            out += c ? sprintf(out, "%s", config->delimiter) : 0;
            write_cell(config, &out, &cell, &newlines);
        }
        cell += sprintf(cell, "]%u", number);
        number += newlines;
        out += line + 1 == lines && draw(2) ? 0 : sprintf(out, draw(4) ? "\n" : "\r\n");
    }
    return (size_t)(out - text);
}

static struct fth_data_config drawn(void) {
    static const char *const delimiters[] = {",", "::", ",,;", "\t"}, *const escapes[] = {"\\", "^", "'"};
    struct fth_data_config config = config_of(FTH_FORMAT_CSV);
    config.delimiter = delimiters[draw(4)];
    config.escape = escapes[draw(3)];
    config.quotes = draw(4) != 0;
    config.strip = draw(3) == 0;
    return config;
}

static void what_is_written_is_read(void **state) {
    for (uint32_t round = 0; round < 200; round++) {
        struct fth_data_config config = drawn();
        size_t n = write_lines(&config, round % 20 ? 1 + draw(20) : 2000); /* more than is looked through at once */
        for (config.block_bytes = 1; config.block_bytes <= 1 << 20; config.block_bytes *= round % 20 ? 3 : 1024) {
            parse_to(said[0], TEXT, &config, text, n);
            assert_string_equal(said[0], expected);
        }
    }
}

static void however_blocks_are_cut(void **state) {
    static const char bytes[] = "a,,:\"\"\"\\\\\\\n\n\r #";
    for (uint32_t round = 0; round < 8000; round++) {
        struct fth_data_config config = drawn();
        size_t n = draw(80);
        for (size_t i = 0; i < n; i++)
            text[i] = bytes[draw(sizeof bytes - 1)];
        config.escape = "\\";
        config.columns.n = 1 + draw(3);
        config.comment = draw(3) ? "" : "#";
        config.skip_blank = (int)draw(2);
        parse_to(said[0], TEXT, &config, text, n);
        config.block_bytes = 1 + draw(16);
        parse_to(said[1], TEXT, &config, text, n);
        assert_string_equal(said[0], said[1]);
    }
}

/* Were each line read anew up to the end, this would not come to its own. */
static void thousands(void **state) {
    static const char *const units[] = {"\\\n", ",\",\\\n", ",\",\n,\",\\\n", "\"\\\n", "\\\\", "\\\"", "\"\\\n,\n"};
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        struct fth_data_config config = escaped();
        size_t n = 0;
        while (n < TEXT / 4)
            n += (size_t)sprintf(text + n, "%s", units[u]);
        parse_to(said[0], TEXT, &config, text, n);
        assert_non_null(strstr(said[0], " bad "));
        config.block_bytes = 4096;
        parse_to(said[1], TEXT, &config, text, n);
        assert_string_equal(said[0], said[1]);
    }
}

static void lower_instruction_sets(void **state) {
    run_at_lower_instruction_sets();
}

int main(int argc, char **argv) {
    (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_cells),
        cmocka_unit_test(at_line_ends),
        cmocka_unit_test(malformed),
        cmocka_unit_test(delimiters_of_several_bytes),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(however_blocks_are_cut),
    };
    const struct CMUnitTest once[] = {cmocka_unit_test(thousands), cmocka_unit_test(lower_instruction_sets)};
    if (argc == 1 && cmocka_run_group_tests(once, NULL, NULL))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
