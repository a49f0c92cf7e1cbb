/* fathom bench features: every operation of feature programs alone, fused and in separate steps, on one thread,
 * over generated cells that lie in cache. GB/s are of text of the operation's own column. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/sort.h"
#include "base/random.h"
#include "base/text.h"
#include "fathom/tools.h"
#include "feature/program.h"
#include "train/session_private.h"

#define TEXT_BYTES (256u << 10)
#define ROUNDS 5

/* What a cell holds: before DECIMALS one value, from there on a list. */
enum content { DECIMAL, HEX, DATE, DECIMALS, IDS, LONG_IDS, TIMES, ITEMS, PRICED };

#define ITEMS_IN_TABLE 4096 /* of the side table that is joined */

struct operation {
    const char *name;
    enum content content;
    const char *features; /* YAML over the column x */
};

static const struct operation operations[] = {
    {"number", DECIMAL, "numeric: [{columns: x}]"},
    {"number+bucketise", DECIMAL, "numeric: [{columns: x, boundaries: [1, 5, 20, 50, 90, 500]}]"},
    {"hash, 8 bytes", HEX, "categorical: [{columns: x}]"},
    {"cross of 2+hash", HEX, "derived: [{as: cross, name: y, from: [x, x]}],\n categorical: [{columns: y}]"},
    {"replace+hash", HEX, "derived: [{as: replace, name: y, from: x, characters: '[]'}],\n categorical: [{columns: y}]"},
    {"date+hash", DATE, "derived: [{as: date, name: y, from: x}],\n categorical: [{columns: y}]"},
    {"split+number+mean", DECIMALS, "numeric: [{columns: x, separator: ';'}]"},
    {"split+number+max", DECIMALS, "numeric: [{columns: x, separator: ';', reduce: max}]"},
    {"split+count", DECIMALS, "numeric: [{columns: x, separator: ';', reduce: count}]"},
    {"split+one-hot+sum", IDS,
     "indicator: [{columns: x, separator: ';', count: true, other: true,\n"
     "  values: [i1, i2, i3, i4, i5, i6, i7, i8, i9, i10, i11, i12, i13, i14, i15, i16]}]"},
    {"split+hash", IDS, "categorical: [{columns: x, separator: ';'}]"},
    {"split+vocabulary", IDS, "categorical: [{columns: x, separator: ';', vocabulary_size: 1000}]"},
    {"split+OP+OSRP, 1024 bins", IDS, "categorical: [{columns: x, name: y, separator: ';', bins: 1024}]"},
    {"split+first 20 of 100+hash", LONG_IDS,
     "categorical: [{columns: x, separator: ';', max_length: 20, keep: first}]"},
    {"split+last 20 of 100+hash", LONG_IDS, "categorical: [{columns: x, separator: ';', max_length: 20}]"},
    {"split+join+hash", ITEMS,
     "derived: [{as: join, name: y, from: x, separator: ';', file: f, key: k, value: v}],\n"
     " categorical: [{columns: y, separator: ';'}]"},
    {"split+join+vocabulary", ITEMS,
     "derived: [{as: join, name: y, from: x, separator: ';', file: f, key: k, value: v}],\n"
     " categorical: [{columns: y, separator: ';', vocabulary_size: 90}]"},
    {"split+join+number+mean", PRICED,
     "derived: [{as: join, name: y, from: x, separator: ';', file: f, key: k, value: v}],\n"
     " numeric: [{columns: y, separator: ';'}]"},
    {"split+sessions+hash", TIMES,
     "derived: [{as: sessions, name: y, from: x, separator: ';'}],\n"
     " categorical: [{columns: y, separator: ';', sequence: true}]"},
};

static uint32_t draw(uint32_t element, uint32_t below) {
    uint32_t out[4];
    fth_random_draw(1, FTH_RANDOM_GENERATE, element, 0, out);
    return (uint32_t)((uint64_t)out[0] * below >> 32);
}

static void put_cell(struct fth_text *text, enum content content, uint32_t line) {
    uint32_t n = content == LONG_IDS ? 100 : content < DECIMALS ? 1 : 20;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = 2 * (line * 128 + i), x = draw(at, 1 << 30), size = draw(at + 1, 5);
        if (i)
            fth_text_append(text, ";", 1);
        if (content == HEX)
            fth_text_printf(text, "%08x", x);
        else if (content == DATE)
            fth_text_printf(text, "2024-%02u-%02u %02u:%02u:%02u", x % 12 + 1, x / 16 % 28 + 1, x / 512 % 24, x % 60,
                            x / 1024 % 60);
        else if (content == TIMES)
            fth_text_printf(text, "%u", 1400000000 + (line * 128 + i) * 1000 + x % 1000);
        else if (content >= ITEMS)
            fth_text_printf(text, "i%u", x % ITEMS_IN_TABLE);
        else if (content == IDS || content == LONG_IDS)
            fth_text_printf(text, "i%u", x % (size < 1 ? 1000 : size < 3 ? 100000 : 10000000));
        else if (size < 2)
            fth_text_printf(text, "%u", x % 100);
        else
            fth_text_printf(text, "%u.%0*u", x % (size < 4 ? 10 : 1000), size < 3 ? 1 : 2,
                            x / 1024 % (size < 3 ? 10 : 100));
    }
}

/* A block of lines "1,<cell>" with the cell's column x. */
static fth_status make_block(enum content content, struct fth_block **out, double *bytes,
                             fth_error *err) {
    struct fth_text text = {0};
    fth_status status = fth_block_create(out, err);
    struct fth_block *block = *out;
    *bytes = 0;
    for (uint32_t line = 0; status == FTH_OK && text.length < TEXT_BYTES; line++) {
        if (line == block->lines_capacity)
            FTH_TRY_GOTO(status, fth_block_reserve_lines(block, 2 * (size_t)line + 64, err), done);
        FTH_TRY_GOTO(status, fth_block_reserve_cells(block, 2 * (size_t)line + 2, err), done);
        fth_text_append(&text, "1,", 2);
        size_t start = text.length;
        put_cell(&text, content, line);
        block->cells[2 * line] = (struct fth_cell){(uint32_t)start - 2, 1};
        block->cells[2 * line + 1] = (struct fth_cell){(uint32_t)start, (uint32_t)(text.length - start)};
        block->line_number[line] = line + 1;
        block->example_number[line] = line;
        block->n_lines = line + 1;
        *bytes += (double)(text.length - start);
        fth_text_append(&text, "\n", 1);
    }
    block->n_columns = 2;
    block->file = "generated";
    if (status == FTH_OK && text.failed)
        status = fth_fail(err, FTH_E_MEMORY, "no memory for generated text");
    FTH_TRY_GOTO(status, fth_block_reserve_text(block, text.length, err), done);
    memcpy(block->text, fth_text_get(&text), text.length + 1);
    block->text_length = text.length;
done:
    fth_text_free(&text);
    return status;
}

/* Every item with one of a hundred categories, or a price. */
static fth_status make_side_table(enum content content, fth_side_table **out, fth_error *err) {
    fth_side_table *table = NULL;
    fth_status status = fth_side_table_create(&table, err);
    for (uint32_t i = 0; status == FTH_OK && i < ITEMS_IN_TABLE; i++) {
        char key[16], value[24];
        int differs, key_length = snprintf(key, sizeof key, "i%u", i), value_length;
        if (content == PRICED)
            value_length = snprintf(value, sizeof value, "%u.%02u", draw(i, 1000), i % 100);
        else
            value_length = snprintf(value, sizeof value, "category%u", draw(i, 100));
        status = fth_side_table_add(table, key, (uint32_t)key_length, value, (uint32_t)value_length,
                                    &differs, err);
    }
    if (status == FTH_OK)
        *out = table;
    else
        fth_side_table_destroy(table);
    return status;
}

/* Runs the program over the block for about `seconds`: the median round's nanoseconds a block. */
static fth_status time_program(struct fth_transform transform, struct fth_block *block,
                               double seconds, double *ns, fth_error *err) {
    struct fth_batch *batch = NULL;
    double rounds[ROUNDS];
    FTH_TRY(fth_batch_create(transform.schema, block->n_lines, &batch, err));
    fth_status status = transform.examples(transform.ctx, block, batch, err);
    for (int r = 0; r < ROUNDS && status == FTH_OK; r++) {
        uint64_t begin = fth_now_ns(), now = begin, runs = 0;
        while (status == FTH_OK && now < begin + (uint64_t)(seconds / ROUNDS * 1e9)) {
            status = transform.examples(transform.ctx, block, batch, err);
            now = fth_now_ns();
            runs++;
        }
        rounds[r] = (double)(now - begin) / (double)runs;
    }
    if (status == FTH_OK && batch->n != block->n_lines)
        status = fth_fail(err, FTH_E_DATA, "generated lines were refused: %s", block->first_bad.message);
    fth_batch_destroy(batch);
    fth_sort_doubles(rounds, ROUNDS);
    *ns = rounds[ROUNDS / 2];
    return status;
}

static fth_status time_operation(const struct operation *operation, int fused,
                                 struct fth_block *block, double seconds, double *ns,
                                 fth_error *err) {
    static const char *const columns[] = {"label", "x"};
    struct fth_text text = {0};
    fth_config *config = NULL;
    fth_feature_program *program = NULL;
    fth_feature_pass *pass = NULL;
    fth_side_table *table = NULL;
    fth_text_printf(&text, "data: {format: csv, label: label}\nmodel: {name: lr}\nfeatures: {%s}\n%s",
                    operation->features, fused ? "" : "without: [feature_fusion]\n");
    fth_status status = fth_config_parse("bench", fth_text_get(&text), text.length, NULL, 0, &config, err);
    FTH_TRY_GOTO(status, fth_feature_create(config, columns, 2, &program, err), done);
    if (operation->content >= ITEMS) {
        FTH_TRY_GOTO(status, make_side_table(operation->content, &table, err), done);
        FTH_TRY_GOTO(status, fth_feature_set_side_table(program, 0, table, err), done);
    }
    if (fth_feature_learn_wanted(program)) {
        FTH_TRY_GOTO(status, fth_feature_learn_block(program, block, NULL, block->n_lines, err), done);
        FTH_TRY_GOTO(status, fth_feature_learn_finish(program, err), done);
    }
    FTH_TRY_GOTO(status, fth_feature_pass_create(program, NULL, 0, &pass, err), done);
    status = time_program(fth_feature_pass_transform(pass), block, seconds, ns, err);
done:
    fth_feature_pass_destroy(pass);
    fth_feature_destroy(program);
    fth_side_table_destroy(table);
    fth_config_free(config);
    fth_text_free(&text);
    return status;
}

/* The block's text copied to a second buffer, both in cache: bytes a nanosecond. */
static double time_copy(const struct fth_block *block, double seconds) {
    static char copy[2 * TEXT_BYTES];
    uint64_t begin = fth_now_ns(), now = begin, runs = 0;
    while (now < begin + (uint64_t)(seconds * 1e9)) {
        memcpy(copy, block->text, block->text_length);
        __asm__ volatile("" : : "r"(copy) : "memory");
        now = fth_now_ns();
        runs++;
    }
    return (double)runs * (double)block->text_length / (double)(now - begin);
}

fth_status fth_bench_features(double seconds, char **out, fth_error *err) {
    if (!out)
        return fth_fail_null(err, "fth_bench_features", "text");
    if (!(seconds > 0))
        return fth_fail(err, FTH_E_ARGUMENT, "bench: a time above 0 is needed");
    struct fth_text text = {0};
    fth_status status = FTH_OK;
    for (size_t i = 0; status == FTH_OK && i < sizeof operations / sizeof *operations; i++) {
        struct fth_block *block = NULL;
        double bytes = 0, fused = 1, plain = 1;
        status = make_block(operations[i].content, &block, &bytes, err);
        if (status == FTH_OK && i == 0)
            fth_text_printf(&text, "%-30s %10s %10s %10s\n%-30s %10.2f\n", "GB/s, one thread", "fused",
                            "in steps", "", "memcpy, in cache", time_copy(block, seconds / 4));
        if (status == FTH_OK)
            status = time_operation(&operations[i], 1, block, seconds, &fused, err);
        if (status == FTH_OK)
            status = time_operation(&operations[i], 0, block, seconds, &plain, err);
        fth_text_printf(&text, "%-30s %10.2f %10.2f %9.1fx\n", operations[i].name, bytes / fused,
                        bytes / plain, plain / fused);
        fth_block_destroy(block);
    }
    if (status == FTH_OK && (text.failed || !(*out = strdup(fth_text_get(&text)))))
        status = fth_fail(err, FTH_E_MEMORY, "no memory for the table");
    fth_text_free(&text);
    return status;
}
