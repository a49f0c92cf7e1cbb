/* Blocks and column statistics: see inspect.h. */
#include "data/inspect.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/lines.h"
#include "data/set_private.h"

/* HyperLogLog (Flajolet et al., AofA 2007, figure 3): 2^14 registers, error 1.04 / sqrt(2^14). */
#define REGISTER_BITS 14
#define REGISTERS (1u << REGISTER_BITS)

static void sketch_add(uint8_t *registers, uint64_t hash) {
    uint32_t index = (uint32_t)(hash >> (64 - REGISTER_BITS));
    uint64_t rest = hash << REGISTER_BITS | (uint64_t)1 << (REGISTER_BITS - 1);
    uint8_t rank = (uint8_t)(__builtin_clzll(rest) + 1);
    if (rank > registers[index])
        registers[index] = rank;
}

static double sketch_estimate(const uint8_t *registers) {
    double sum = 0, m = REGISTERS;
    uint32_t zeros = 0;
    for (uint32_t r = 0; r < REGISTERS; r++) {
        sum += ldexp(1, -registers[r]);
        zeros += registers[r] == 0;
    }
    double estimate = 0.7213 / (1 + 1.079 / m) * m * m / sum;
    /* Few values: how many registers are empty says it better. */
    return estimate <= 2.5 * m && zeros ? m * log(m / zeros) : estimate;
}

static fth_status each_block(fth_data_set *set, int wake, size_t block_bytes,
                             fth_status (*each)(void *ctx, struct fth_block *block, int *more,
                                                fth_error *err),
                             void *ctx, fth_error *err) {
    fth_lines *lines = NULL;
    struct fth_block *block = NULL;
    uint32_t *scratch = fth_alloc(FTH_PARSE_SCRATCH, sizeof *scratch);
    fth_status status = FTH_OK;
    uint64_t before = 0;
    int more = 1;
    if (!scratch)
        return fth_fail(err, FTH_E_MEMORY, "no memory to parse blocks");
    FTH_TRY_GOTO(status, fth_lines_create(set, wake, block_bytes, &lines, err), done);
    FTH_TRY_GOTO(status, fth_block_create(&block, err), done);
    while (more) {
        FTH_TRY_GOTO(status, fth_lines_next(lines, block, &more, err), done);
        if (!more)
            break;
        block->first_example = before;
        FTH_TRY_GOTO(status, fth_parser_parse(&set->parser, block, scratch, err), done);
        before += block->n_data;
        FTH_TRY_GOTO(status, each(ctx, block, &more, err), done);
    }
done:
    fth_free(scratch);
    fth_block_destroy(block);
    fth_lines_destroy(lines);
    return status;
}

fth_status fth_data_each_block(fth_data_set *set, int wake,
                               fth_status (*each)(void *ctx, struct fth_block *block,
                                                  int *more, fth_error *err),
                               void *ctx, fth_error *err) {
    int64_t bytes = set->config->block_bytes;
    return each_block(set, wake, bytes < 1 ? 1 : (size_t)bytes, each, ctx, err);
}

struct scan {
    struct fth_data_stats *stats;
    uint8_t *registers; /* [n_columns][REGISTERS] */
    const struct fth_strings *missing;
};

static int is_missing(const struct fth_strings *missing, const char *text, size_t length) {
    if (length == 0)
        return 1;
    for (uint32_t m = 0; m < missing->n; m++)
        if (strlen(missing->items[m]) == length && memcmp(missing->items[m], text, length) == 0)
            return 1;
    return 0;
}

static void add_number(struct fth_column_stats *column, double value) {
    if (column->numbers == 0 || value < column->min)
        column->min = value;
    if (column->numbers == 0 || value > column->max)
        column->max = value;
    column->numbers++;
    column->mean += (value - column->mean) / (double)column->numbers;
}

static void add_text(struct scan *scan, uint32_t c, const char *text, size_t length) {
    struct fth_column_stats *column = &scan->stats->columns[c];
    double value;
    column->cells++;
    if (is_missing(scan->missing, text, length)) {
        column->missing++;
        return;
    }
    if (fth_parse_f64(text, length, &value) && isfinite(value))
        add_number(column, value);
    sketch_add(scan->registers + (size_t)c * REGISTERS, fth_hash_bytes(text, length, 0));
}

static void add_value(struct scan *scan, uint32_t c, uint64_t bits, double value) {
    scan->stats->columns[c].cells++;
    add_number(&scan->stats->columns[c], value);
    sketch_add(scan->registers + (size_t)c * REGISTERS, fth_hash_bytes(&bits, sizeof bits, 0));
}

static void add_entries(struct scan *scan, const struct fth_block *block, uint32_t row) {
    uint32_t n_columns = scan->stats->n_columns;
    const struct fth_cell *label = &block->labels[row];
    add_text(scan, 0, block->text + label->offset, label->length);
    for (uint32_t e = block->entry_start[row]; e < block->entry_start[row + 1]; e++) {
        const struct fth_entry *entry = &block->entries[e];
        uint32_t bits;
        memcpy(&bits, &entry->value, sizeof bits);
        if (n_columns == 4)
            add_value(scan, 1, entry->field, entry->field);
        add_value(scan, n_columns - 2, entry->index, (double)entry->index);
        add_value(scan, n_columns - 1, bits, (double)entry->value);
    }
}

static fth_status scan_block(void *ctx, struct fth_block *block, int *more, fth_error *err) {
    struct scan *scan = ctx;
    struct fth_data_stats *stats = scan->stats;
    stats->bytes += block->text_length;
    stats->lines += block->n_data;
    stats->bad += block->n_bad;
    if (block->n_bad && stats->n_messages < FTH_DATA_MESSAGES)
        memcpy(stats->messages[stats->n_messages++], block->first_bad.message,
               sizeof block->first_bad.message);
    for (uint32_t row = 0; row < block->n_lines; row++) {
        const struct fth_cell *cells = block->cells; /* NULL where lines are of entries */
        if (block->n_columns)
            cells += (size_t)row * block->n_columns;
        for (uint32_t c = 0; c < block->n_columns; c++)
            add_text(scan, c, block->text + cells[c].offset, cells[c].length);
        if (block->n_columns == 0)
            add_entries(scan, block, row);
    }
    return FTH_OK;
}

static fth_status name_columns(const fth_data_set *set, struct fth_data_stats *stats,
                               fth_error *err) {
    static const char *const libsvm[] = {"label", "index", "value"};
    static const char *const libffm[] = {"label", "field", "index", "value"};
    struct fth_strings names = set->columns;
    if (set->config->format == FTH_FORMAT_LIBSVM)
        names = (struct fth_strings){libsvm, 3};
    else if (set->config->format == FTH_FORMAT_LIBFFM)
        names = (struct fth_strings){libffm, 4};
    stats->columns = fth_alloc(names.n, sizeof *stats->columns);
    if (!stats->columns)
        return fth_fail(err, FTH_E_MEMORY, "no memory for %u columns", names.n);
    stats->n_columns = names.n;
    stats->n_files = set->files.n;
    for (uint32_t c = 0; c < names.n; c++)
        stats->columns[c].name = names.items[c];
    return FTH_OK;
}

fth_status fth_data_scan(fth_data_set *set, const struct fth_strings *missing,
                         struct fth_data_stats **out, fth_error *err) {
    struct fth_data_stats *stats = fth_alloc(1, sizeof *stats);
    struct scan scan = {.stats = stats, .missing = missing};
    fth_status status = FTH_OK;
    if (!stats)
        return fth_fail(err, FTH_E_MEMORY, "no memory for statistics");
    FTH_TRY_GOTO(status, name_columns(set, stats, err), done);
    scan.registers = fth_alloc(stats->n_columns, REGISTERS);
    if (!scan.registers) {
        status =
            fth_fail(err, FTH_E_MEMORY, "no memory for statistics of %u columns", stats->n_columns);
        goto done;
    }
    FTH_TRY_GOTO(status, each_block(set, -1, 4096, scan_block, &scan, err), done);
    for (uint32_t c = 0; c < stats->n_columns; c++) {
        struct fth_column_stats *column = &stats->columns[c];
        column->distinct = fmin(sketch_estimate(scan.registers + (size_t)c * REGISTERS),
                                (double)(column->cells - column->missing));
    }
done:
    fth_free(scan.registers);
    if (status != FTH_OK)
        fth_data_stats_destroy(stats);
    else
        *out = stats;
    return status;
}

void fth_data_stats_destroy(struct fth_data_stats *stats) {
    if (!stats)
        return;
    fth_free(stats->columns);
    fth_free(stats);
}
