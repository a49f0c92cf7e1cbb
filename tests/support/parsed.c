/* What data/ parsers say: see parsed.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "data/lines.h"
#include "data/set_private.h"
#include "parsed.h"

static const char *const abc[] = {"a", "b", "c"};

struct fth_data_config config_of(int format) {
    return (struct fth_data_config){
        .format = format,
        .delimiter = ",",
        .quotes = 1,
        .columns = {abc, 3},
        .comment = "",
        .label = "a",
        .block_bytes = 1 << 16,
    };
}

void parse_to(char *out, size_t size, const struct fth_data_config *config, const char *text, size_t n) {
    struct fth_data_set_options options = {
        .part = FTH_PART_FILES, .memory = text, .memory_bytes = n};
    fth_data_set *set = NULL;
    fth_lines *lines = NULL;
    struct fth_block *block = NULL;
    fth_error err = {0}, bad = {0};
    uint32_t *scratch = malloc(FTH_PARSE_SCRATCH * sizeof *scratch);
    uint64_t n_bad = 0;
    size_t used = 0;
    int got;
    out[0] = 0;
    if (fth_data_set_create(config, &options, &set, &err) != FTH_OK) {
        snprintf(out, size, "%s", err.message);
        goto done;
    }
    assert_int_equal(fth_lines_create(set, -1, (size_t)config->block_bytes, &lines, &err), FTH_OK);
    assert_int_equal(fth_block_create(&block, &err), FTH_OK);
    for (;;) {
        assert_int_equal(fth_lines_next(lines, block, &got, &err), FTH_OK);
        if (!got)
            break;
        assert_int_equal(set->parser.kind->parse(&set->parser, block, scratch, &err), FTH_OK);
        assert_int_equal(block->n_data, block->n_lines + block->n_bad);
        for (uint32_t r = 0; r < block->n_lines; r++) {
            used += (size_t)snprintf(out + used, size - used, "[");
            for (uint32_t c = 0; c < block->n_columns; c++) {
                struct fth_cell cell = block->cells[r * block->n_columns + c];
                used += (size_t)snprintf(out + used, size - used, "%s%.*s", c ? "|" : "",
                                         (int)cell.length, block->text + cell.offset);
            }
            if (!block->n_columns) {
                used +=
                    (size_t)snprintf(out + used, size - used, "%.*s", (int)block->labels[r].length,
                                     block->text + block->labels[r].offset);
                for (uint32_t e = block->entry_start[r]; e < block->entry_start[r + 1]; e++)
                    used += (size_t)snprintf(out + used, size - used, " %u:%llu:%g",
                                             block->entries[e].field,
                                             (unsigned long long)block->entries[e].index,
                                             (double)block->entries[e].value);
            }
            used += (size_t)snprintf(out + used, size - used, "]%llu",
                                     (unsigned long long)block->line_number[r]);
        }
        n_bad += block->n_bad;
        if (block->n_bad && !bad.code)
            bad = block->first_bad;
    }
    if (n_bad)
        snprintf(out + used, size - used, " bad %llu: %s", (unsigned long long)n_bad, bad.message);
done:
    free(scratch);
    fth_block_destroy(block);
    fth_lines_destroy(lines);
    fth_data_set_destroy(set);
}

void expect_n(struct fth_data_config config, const char *text, size_t n, const char *expected) {
    static const int64_t sizes[] = {1 << 16, 1, 2, 3, 7, 16};
    char said[4096];
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        config.block_bytes = sizes[s];
        parse_to(said, sizeof said, &config, text, n);
        assert_string_equal(said, expected);
    }
}

void expect(struct fth_data_config config, const char *text, const char *expected) {
    expect_n(config, text, strlen(text), expected);
}
