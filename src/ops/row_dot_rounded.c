/* row_dot_data_grad_rounded(dy, w, saved): row_dot's data gradient, columns of w from an attribute's on, through the
 * gradient of the activation that made `saved`, where only products of tiles (kernels/tiles.h) read it (pass
 * round_once): by rows, in pairs, and the sum of its rows. A block at a time, whose floats stay in cache. */
#include "kernels/tiles.h"
#include "ops/ops_private.h"

#define SIDE FTH_OPS_MADE_SIDE

static const struct fth_outer_attributes *attributes(const struct fth_node *node) {
    return node->attributes;
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    uint32_t columns = fth_ops_input(graph, node, 2).columns;
    FTH_TRY(fth_ops_need_rows(graph, node, 2, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 2, err));
    FTH_TRY(fth_ops_need_outer(graph, node, 0, 1, attributes(node)->column, columns, err));
    for (uint32_t i = 0; i < 2; i++)
        FTH_TRY(fth_ops_output_like(graph, node, i, 2, columns, err));
    graph->values[node->outputs[0]].tiles = FTH_TILES_ROWS;
    graph->values[node->outputs[1]].tiles = FTH_TILES_PAIRS;
    return fth_ops_output_tiles(graph, node, 2, columns, err);
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    (void)err;
    fth_ops_section(&prepare->scratch_bytes, fth_ops_made_floats(prepare->in[2].columns));
    return FTH_OK;
}

static const float *make(const void *maker, uint32_t row, uint32_t column, uint32_t rows, uint32_t columns) {
    const struct fth_ops_maker *m = maker;
    const struct fth_view *dy = &m->run->in[0], *w = &m->run->in[1], *saved = &m->run->in[2];
    const struct fth_outer_attributes *a = attributes(m->run->node);
    const struct fth_kernels *k = fth_kernels_get();
    k->outer(rows, columns, dy->data + (size_t)row * dy->ld, dy->ld, w->data + a->column + column, m->block, SIDE);
    k->act_grad(a->act, rows, columns, saved->data + (size_t)row * saved->ld + column, saved->ld, m->block, SIDE,
                m->block, SIDE);
    return m->block;
}

static void run(const struct fth_run *run) {
    fth_ops_store_made(run, make, 0);
}

static void print(const struct fth_node *node, struct fth_text *out) {
    fth_text_printf(out, "act=%s column=%u", fth_ops_act_name(attributes(node)->act), attributes(node)->column);
}

const struct fth_op fth_op_row_dot_data_grad_rounded = {.name = "row_dot_data_grad_rounded",
                                                        .min_inputs = 3,
                                                        .max_inputs = 3,
                                                        .n_outputs = 3,
                                                        .granularity = FTH_PER_TILE,
                                                        .shape = shape,
                                                        .prepare = prepare,
                                                        .cost = fth_ops_cost,
                                                        .print = print,
                                                        .run = run};
