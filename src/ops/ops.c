/* The list of operations and what their files share. Pure functions; any thread. */
#include <string.h>

#include "ops/layers.h"
#include "ops/ops_private.h"

static const struct fth_op *const all_ops[] = {
#define FTH_OP(name) &fth_op_##name,
#include "ops/ops.def"
#undef FTH_OP
    NULL,
};

const struct fth_op *const *fth_ops(void) {
    return all_ops;
}

struct fth_value fth_ops_input(const fth_graph *graph, const struct fth_node *node, uint32_t i) {
    if (i < node->n_inputs && node->inputs[i] != FTH_NONE)
        return graph->values[node->inputs[i]];
    return (struct fth_value){.id = FTH_NONE};
}

int fth_ops_wants(const fth_graph *graph, const struct fth_node *node, uint32_t i) {
    struct fth_value v = fth_ops_input(graph, node, i);
    return v.id != FTH_NONE && v.needs_gradient;
}

fth_status fth_ops_need(const fth_graph *graph, const struct fth_node *node, uint32_t i,
                        fth_error *err) {
    if (fth_ops_input(graph, node, i).id == FTH_NONE)
        return fth_fail(err, FTH_E_ARGUMENT, "input %u is missing", i);
    return FTH_OK;
}

fth_status fth_ops_need_rows(const fth_graph *graph, const struct fth_node *node, uint32_t i,
                             fth_error *err) {
    FTH_TRY(fth_ops_need(graph, node, i, err));
    fth_extent extent = fth_ops_input(graph, node, i).extent;
    if (extent != FTH_EXAMPLES && extent != FTH_POSITIONS)
        return fth_fail(err, FTH_E_ARGUMENT, "input %u has no row an example or position", i);
    return FTH_OK;
}

fth_status fth_ops_need_same_rows(const fth_graph *graph, const struct fth_node *node, uint32_t a,
                                  uint32_t b, fth_error *err) {
    FTH_TRY(fth_ops_need(graph, node, a, err));
    FTH_TRY(fth_ops_need(graph, node, b, err));
    struct fth_value x = fth_ops_input(graph, node, a), y = fth_ops_input(graph, node, b);
    if (x.extent != y.extent || x.group != y.group || x.rows != y.rows)
        return fth_fail(err, FTH_E_ARGUMENT, "inputs %u and %u have different rows", a, b);
    return FTH_OK;
}

fth_status fth_ops_need_same(const fth_graph *graph, const struct fth_node *node, uint32_t a,
                             uint32_t b, fth_error *err) {
    FTH_TRY(fth_ops_need_same_rows(graph, node, a, b, err));
    struct fth_value x = fth_ops_input(graph, node, a), y = fth_ops_input(graph, node, b);
    if (x.columns != y.columns)
        return fth_fail(err, FTH_E_ARGUMENT,
                        "input %u has %u columns, input %u %u: they must be equal", a, x.columns, b,
                        y.columns);
    return FTH_OK;
}

fth_status fth_ops_need_whole(const fth_graph *graph, const struct fth_node *node, uint32_t i,
                              uint32_t rows, uint32_t columns, fth_error *err) {
    FTH_TRY(fth_ops_need(graph, node, i, err));
    struct fth_value v = fth_ops_input(graph, node, i);
    if (v.extent != FTH_WHOLE || v.rows != rows || v.columns != columns)
        return fth_fail(err, FTH_E_ARGUMENT, "input %u is not the %u x %u that it should be", i,
                        rows, columns);
    return FTH_OK;
}

fth_status fth_ops_need_outer(const fth_graph *graph, const struct fth_node *node, uint32_t s, uint32_t w,
                              uint32_t column, uint32_t columns, fth_error *err) {
    struct fth_value numbers = fth_ops_input(graph, node, s), row = fth_ops_input(graph, node, w);
    if (numbers.columns != 1 || row.extent != FTH_WHOLE || row.rows != 1 || column > row.columns ||
        columns > row.columns - column)
        return fth_fail(err, FTH_E_ARGUMENT, "inputs %u and %u are not a column, and a row with columns %u + %u", s, w,
                        column, columns);
    return FTH_OK;
}

fth_status fth_ops_need_example_row(const fth_graph *graph, const struct fth_node *node, uint32_t i,
                                    uint32_t columns, fth_error *err) {
    FTH_TRY(fth_ops_need(graph, node, i, err));
    struct fth_value v = fth_ops_input(graph, node, i);
    if (v.extent != FTH_EXAMPLES || v.columns != columns)
        return fth_fail(err, FTH_E_ARGUMENT, "input %u is not one row an example of %u columns", i,
                        columns);
    return FTH_OK;
}

fth_status fth_ops_need_positions(const fth_graph *graph, const struct fth_node *node, uint32_t i,
                                  fth_error *err) {
    FTH_TRY(fth_ops_need(graph, node, i, err));
    if (fth_ops_input(graph, node, i).extent != FTH_POSITIONS)
        return fth_fail(err, FTH_E_ARGUMENT, "input %u has no positions", i);
    return FTH_OK;
}

const char *fth_ops_act_name(fth_act act) {
    static const char *const names[FTH_ACT_COUNT] = {"none", "relu", "sigmoid", "tanh", "gelu"};
    return names[act];
}

fth_status fth_ops_need_tiles(const fth_graph *graph, const struct fth_node *node, uint32_t i,
                              uint32_t columns, fth_error *err) {
    FTH_TRY(fth_ops_need(graph, node, i, err));
    struct fth_value v = fth_ops_input(graph, node, i);
    if (v.extent != FTH_TILES || (columns && v.columns != columns))
        return fth_fail(err, FTH_E_ARGUMENT, "input %u is not one row a tile of %u columns", i,
                        columns);
    return FTH_OK;
}

fth_status fth_ops_output_like(fth_graph *graph, struct fth_node *node, uint32_t index, uint32_t i,
                               uint32_t columns, fth_error *err) {
    struct fth_value v = fth_ops_input(graph, node, i);
    return fth_graph_output(graph, node, index, v.extent, v.group, v.rows, columns, err);
}

fth_status fth_ops_output_tiles(fth_graph *graph, struct fth_node *node, uint32_t index,
                                uint32_t columns, fth_error *err) {
    return fth_graph_output(graph, node, index, FTH_TILES, -1, 0, columns, err);
}

fth_status fth_ops_shape_alike(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_need_same(graph, node, 0, 1, err));
    return fth_ops_output_like(graph, node, 0, 0, fth_ops_input(graph, node, 0).columns, err);
}

double fth_ops_rows(const struct fth_value *value, double examples, double positions) {
    switch (value->extent) {
    case FTH_EXAMPLES:
        return examples;
    case FTH_POSITIONS:
        return positions;
    case FTH_TILES:
        return 1;
    default:
        return value->rows;
    }
}

void fth_ops_cost(const fth_graph *graph, const struct fth_node *node, double examples,
                  double positions, struct fth_cost *out) {
    double numbers = 0, most = 0;
    for (uint32_t i = 0; i < node->n_inputs + node->n_outputs; i++) {
        fth_id id = i < node->n_inputs ? node->inputs[i] : node->outputs[i - node->n_inputs];
        if (id == FTH_NONE)
            continue;
        const struct fth_value *v = &graph->values[id];
        double n = fth_ops_rows(v, examples, positions) * v->columns;
        numbers += v->tiles ? n / 2 : n;
        most = n > most ? n : most;
    }
    out->flops = most;
    out->bytes = numbers * sizeof(float);
}

/* Up to 256 columns at a time: a level of the tree needs 1 KB of stack, and a row is 16 cache lines that the
 * hardware fetches ahead. */
#define SUM_COLUMNS 256

static void tree_sum(const float *x, uint32_t ld, uint32_t rows, uint32_t n, float *out) {
    if (rows == 1) {
        memcpy(out, x, n * sizeof *out);
        return;
    }
    uint32_t left = (rows + 1) / 2;
    float right[SUM_COLUMNS];
    tree_sum(x, ld, left, n, out);
    tree_sum(x + (size_t)left * ld, ld, rows - left, n, right);
    fth_kernels_get()->add(1, n, out, n, right, n, out, n);
}

void fth_ops_sum_rows(const struct fth_view *x, uint32_t column, uint32_t n, float *out) {
    if (!x->rows) {
        memset(out, 0, n * sizeof *out);
        return;
    }
    for (uint32_t j = 0; j < n; j += SUM_COLUMNS)
        tree_sum(x->data + column + j, x->ld, x->rows, n - j < SUM_COLUMNS ? n - j : SUM_COLUMNS,
                 out + j);
}

const float *fth_ops_dense_column(const struct fth_view *column, float *scratch) {
    if (!column->data || column->ld == 1)
        return column->data;
    for (uint32_t i = 0; i < column->rows; i++)
        scratch[i] = column->data[(size_t)i * column->ld];
    return scratch;
}

float *fth_ops_column_target(const struct fth_view *column, float *scratch) {
    return column->ld == 1 ? column->data : scratch;
}

void fth_ops_column_written(const struct fth_view *column, const float *written) {
    for (uint32_t i = 0; i < column->rows && written != column->data; i++)
        column->data[(size_t)i * column->ld] = written[i];
}

void fth_ops_zero_row(const struct fth_view *tile_row) {
    memset(tile_row->data, 0, tile_row->columns * sizeof(float));
}

/* Parts of equal size, the size a multiple of 16. */
static uint32_t part_size(uint32_t n, uint32_t most) {
    uint32_t parts = (n + most - 1) / most;
    uint32_t size = (n + parts - 1) / parts;
    return (size + 15) & ~15u;
}

void fth_blocks_make(uint32_t rows, uint32_t columns, uint32_t most_rows, uint32_t most_columns,
                     struct fth_blocks *out) {
    uint32_t block_rows = part_size(rows, most_rows),
             block_columns = part_size(columns, most_columns);
    /* A last block of one column would be no matrix product (kernels/gemm.h). */
    while (block_columns > 16 && columns > block_columns && columns % block_columns == 1)
        block_columns -= 16;
    *out = (struct fth_blocks){.rows = rows,
                               .columns = columns,
                               .block_rows = block_rows,
                               .block_columns = block_columns,
                               .down = (rows + block_rows - 1) / block_rows,
                               .across = (columns + block_columns - 1) / block_columns};
}

#define LEAST_SIDE 64u /* of a block that is cut for more cores */

static uint32_t half(uint32_t side) {
    return side > 2 * LEAST_SIDE ? side / 2 : LEAST_SIDE;
}

void fth_blocks_for_cores(uint32_t cores, struct fth_blocks *blocks) {
    while (cores > 2 && fth_blocks_count(blocks) < cores &&
           (blocks->block_rows > LEAST_SIDE || blocks->block_columns > LEAST_SIDE)) {
        int high = blocks->block_rows >= blocks->block_columns;
        fth_blocks_make(blocks->rows, blocks->columns, high ? half(blocks->block_rows) : blocks->block_rows,
                        high ? blocks->block_columns : half(blocks->block_columns), blocks);
    }
}

struct fth_block_range fth_blocks_range(const struct fth_blocks *blocks, uint32_t block) {
    struct fth_block_range range;
    range.row = block / blocks->across * blocks->block_rows;
    range.column = block % blocks->across * blocks->block_columns;
    range.rows = blocks->rows - range.row;
    range.columns = blocks->columns - range.column;
    if (range.rows > blocks->block_rows)
        range.rows = blocks->block_rows;
    if (range.columns > blocks->block_columns)
        range.columns = blocks->block_columns;
    return range;
}
