/* What the four readers' fuzz targets do. The input's first byte is a set of switches, the second
 * the size of small blocks, the rest the file. It is read twice, in one large block and in small
 * ones, which must agree in every row and in what is said of malformed lines. */
#ifndef DATA_TARGET_H
#define DATA_TARGET_H

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "data/lines.h"
#include "data/set_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct data_result {
    fth_status status; /* of the set */
    uint64_t digest, rows, bad, data, lines;
    fth_error first_bad;
};

#define DATA_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

static void data_fold(struct data_result *result, uint64_t value) {
    result->digest = fth_hash_mix(result->digest * 31 + value);
}

static void data_fold_cell(struct data_result *result, const struct fth_block *block, uint32_t row,
                           struct fth_cell cell) {
    DATA_CHECK(cell.offset >= block->line_start[row]);
    DATA_CHECK((size_t)cell.offset + cell.length <= block->line_end[row]);
    DATA_CHECK(!memchr(block->text + cell.offset, 0, cell.length));
    data_fold(result, fth_hash_bytes(block->text + cell.offset, cell.length, 0));
}

static void data_check_block(struct data_result *result, const struct fth_block *block) {
    DATA_CHECK(block->n_data == block->n_lines + block->n_bad);
    DATA_CHECK((block->n_bad > 0) == (block->first_bad.code == FTH_E_DATA));
    for (uint32_t r = 0; r < block->n_lines; r++) {
        DATA_CHECK(block->line_start[r] < block->line_end[r]);
        DATA_CHECK(block->line_end[r] <= block->text_length);
        DATA_CHECK(block->line_number[r] >= block->first_line);
        DATA_CHECK(block->example_number[r] < block->n_data);
        data_fold(result, block->line_number[r]);
        data_fold(result, result->data + block->example_number[r]);
        data_fold(result, block->byte_offset + block->line_start[r]);
        data_fold(result, block->byte_offset + block->line_end[r]);
        for (uint32_t c = 0; c < block->n_columns; c++)
            data_fold_cell(result, block, r, block->cells[(size_t)r * block->n_columns + c]);
        if (block->n_columns)
            continue;
        data_fold_cell(result, block, r, block->labels[r]);
        DATA_CHECK(block->entry_start[r] <= block->entry_start[r + 1]);
        for (uint32_t e = block->entry_start[r]; e < block->entry_start[r + 1]; e++) {
            uint32_t bits;
            memcpy(&bits, &block->entries[e].value, sizeof bits);
            DATA_CHECK((bits & 0x7f800000) != 0x7f800000);
            data_fold(result, block->entries[e].index);
            data_fold(result, (uint64_t)bits << 32 | block->entries[e].field);
        }
    }
    if (block->n_bad && !result->bad)
        result->first_bad = block->first_bad;
    result->rows += block->n_lines;
    result->bad += block->n_bad;
    result->data += block->n_data;
}

static struct data_result data_read(const struct fth_data_config *config, const uint8_t *text,
                                    size_t n, size_t block_bytes) {
    struct data_result result = {0};
    struct fth_data_set_options options = {
        .part = FTH_PART_FILES, .memory = (const char *)text, .memory_bytes = n};
    fth_data_set *set = NULL;
    fth_lines *lines = NULL;
    struct fth_block *block = NULL;
    uint32_t *scratch = fth_alloc(FTH_PARSE_SCRATCH, sizeof *scratch);
    fth_error err = {0};
    int got = 1;
    DATA_CHECK(scratch);
    result.status = fth_data_set_create(config, &options, &set, &err);
    if (result.status == FTH_OK) {
        DATA_CHECK(fth_block_create(&block, &err) == FTH_OK);
        DATA_CHECK(fth_lines_create(set, -1, block_bytes, &lines, &err) == FTH_OK);
        while (got) {
            result.status = fth_lines_next(lines, block, &got, &err);
            if (result.status != FTH_OK || !got)
                break;
            DATA_CHECK(set->parser.kind->parse(&set->parser, block, scratch, &err) == FTH_OK);
            data_check_block(&result, block);
        }
    }
    /* Compressed input may be damaged; what was read before says nothing then. */
    DATA_CHECK(result.status == FTH_OK || result.status == FTH_E_DATA);
    DATA_CHECK(result.status == FTH_OK || err.message[0]);
    fth_free(scratch);
    fth_block_destroy(block);
    fth_lines_destroy(lines);
    fth_data_set_destroy(set);
    return result;
}

static int data_target(int format, const uint8_t *data, size_t size) {
    static const char *const names[] = {"a", "b", "c"};
    static const char *const delimiters[] = {",", "\t", "::", ",,;"};
    if (size < 2)
        return 0;
    struct fth_data_config config = {
        .format = format,
        .delimiter = delimiters[(data[1] >> 6 & 1) * 2 + (data[0] & 1)],
        .quotes = !(data[1] >> 7),
        .escape = data[0] >> 5 < 3 ? "" : "\\",
        .header = data[0] >> 1 & 1,
        .strip = data[0] >> 2 & 1,
        .skip_blank = data[0] >> 3 & 1,
        .comment = data[0] >> 4 & 1 ? "#" : "",
        .columns = {names, data[0] >> 1 & 1 ? 0 : 1 + (data[0] >> 5) % 3},
        .label = "a",
    };
    struct data_result large = data_read(&config, data + 2, size - 2, size);
    struct data_result small = data_read(&config, data + 2, size - 2, (size_t)(data[1] & 63) + 1);
    DATA_CHECK(large.status == small.status);
    if (large.status != FTH_OK)
        return 0;
    DATA_CHECK(large.digest == small.digest && large.rows == small.rows);
    DATA_CHECK(large.bad == small.bad && large.data == small.data);
    DATA_CHECK(strcmp(large.first_bad.message, small.first_bad.message) == 0);
    return 0;
}

#endif
