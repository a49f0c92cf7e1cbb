/* mul_add(a, b, c, bias or none): a * (b + bias) + c, number by number: a cross layer of DCN-V2 behind its product,
 * whose bias is added here, where the product is read anyway.
 *
 * mul_add_grad(dy, a, b, bias or none, sum or none) -> da = sum + dy * (b + bias), db = dy * a in one read; pass
 * fuse_crosses hands it what else a's gradient is the sum of. mul_add_grad_rounded(.., w or none) is the same where
 * only products of tiles read db (pass round_once), a block at a time: da, db by rows and in pairs (kernels/tiles.h),
 * and the sum of db's rows. With w a row's dy is one number times w's columns from `column` on. */
#include "kernels/tiles.h"
#include "ops/ops_private.h"

#define SIDE FTH_OPS_MADE_SIDE

/* Columns of the others, and of the bias where there is one. */
static fth_status need_bias(const fth_graph *graph, const struct fth_node *node, fth_error *err) {
    if (fth_ops_input(graph, node, 3).id == FTH_NONE)
        return FTH_OK;
    return fth_ops_need_whole(graph, node, 3, 1, fth_ops_input(graph, node, 1).columns, err);
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_same(graph, node, 0, 2, err));
    FTH_TRY(need_bias(graph, node, err));
    return fth_ops_shape_alike(graph, node, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id inputs[4] = {d_outputs[0], node->inputs[0], node->inputs[1], FTH_NONE}, made[2];
    if (node->n_inputs > 3)
        inputs[3] = node->inputs[3];
    struct fth_mul_add_grad_attributes none = {0};
    FTH_TRY(fth_graph_node(graph, &fth_op_mul_add_grad, node->name, inputs, 4, &none, sizeof none, made, err));
    d_inputs[0] = made[0];
    d_inputs[1] = made[1];
    d_inputs[2] = d_outputs[0];
    if (fth_ops_wants(graph, node, 3))
        FTH_TRY(fth_graph_node(graph, &fth_op_col_sum, node->name, &made[1], 1, NULL, 0, &d_inputs[3], err));
    return FTH_OK;
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops *= 2;
}

static void run(const struct fth_run *run) {
    const struct fth_view *a = &run->in[0], *b = &run->in[1], *c = &run->in[2], *out = &run->out[0];
    const float *bias = run->node->n_inputs > 3 ? run->in[3].data : NULL;
    fth_kernels_get()->cross(out->rows, out->columns, a->data, a->ld, b->data, b->ld, bias, c->data, c->ld,
                             out->data, out->ld);
}

const struct fth_op fth_op_mul_add = {.name = "mul_add",
                                      .min_inputs = 3,
                                      .max_inputs = 4,
                                      .n_outputs = 1,
                                      .granularity = FTH_PER_TILE,
                                      .shape = shape,
                                      .gradient = gradient,
                                      .cost = cost,
                                      .run = run};

static const struct fth_mul_add_grad_attributes *grad_attributes(const struct fth_node *node) {
    return node->attributes;
}

static fth_status need_grad_inputs(const fth_graph *graph, const struct fth_node *node, fth_error *err) {
    uint32_t columns = fth_ops_input(graph, node, 1).columns;
    int outer = fth_ops_input(graph, node, 5).id != FTH_NONE;
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 1, err));
    FTH_TRY(outer ? fth_ops_need_outer(graph, node, 0, 5, grad_attributes(node)->column, columns, err)
                  : fth_ops_need_same(graph, node, 0, 1, err));
    FTH_TRY(fth_ops_need_same(graph, node, 1, 2, err));
    FTH_TRY(need_bias(graph, node, err));
    return fth_ops_input(graph, node, 4).id != FTH_NONE ? fth_ops_need_same(graph, node, 1, 4, err) : FTH_OK;
}

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    uint32_t columns = fth_ops_input(graph, node, 1).columns;
    FTH_TRY(need_grad_inputs(graph, node, err));
    FTH_TRY(fth_ops_output_like(graph, node, 0, 0, columns, err));
    return fth_ops_output_like(graph, node, 1, 0, columns, err);
}

static void print(const struct fth_node *node, struct fth_text *out) {
    fth_text_printf(out, "with_dy=%d", grad_attributes(node)->with_dy);
}

/* A block; dy and db begin with it. */
static void grad_block(const struct fth_run *run, uint32_t row, uint32_t column, uint32_t rows, uint32_t columns,
                       const float *dy, size_t lddy, float *db, size_t lddb) {
    const struct fth_view *a = &run->in[1], *b = &run->in[2], *bias = &run->in[3], *da = &run->out[0];
    const struct fth_view none = {0}, *sum = run->node->n_inputs > 4 ? &run->in[4] : &none;
    size_t i = row, j = column;
    fth_kernels_get()->cross_grad(rows, columns, dy, lddy, a->data + i * a->ld + j, a->ld, b->data + i * b->ld + j,
                                  b->ld, bias->data ? bias->data + j : NULL,
                                  sum->data ? sum->data + i * sum->ld + j : NULL, sum->ld,
                                  grad_attributes(run->node)->with_dy, da->data + i * da->ld + j, da->ld, db, lddb);
}

static void grad_run(const struct fth_run *run) {
    const struct fth_view *dy = &run->in[0], *db = &run->out[1];
    grad_block(run, 0, 0, dy->rows, dy->columns, dy->data, dy->ld, db->data, db->ld);
}

const struct fth_op fth_op_mul_add_grad = {.name = "mul_add_grad",
                                           .min_inputs = 4,
                                           .max_inputs = 5,
                                           .n_outputs = 2,
                                           .granularity = FTH_PER_TILE,
                                           .shape = grad_shape,
                                           .cost = cost,
                                           .print = print,
                                           .run = grad_run};

static fth_status rounded_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    uint32_t columns = fth_ops_input(graph, node, 1).columns;
    FTH_TRY(need_grad_inputs(graph, node, err));
    for (uint32_t i = 0; i < 3; i++)
        FTH_TRY(fth_ops_output_like(graph, node, i, 0, columns, err));
    graph->values[node->outputs[1]].tiles = FTH_TILES_ROWS;
    graph->values[node->outputs[2]].tiles = FTH_TILES_PAIRS;
    return fth_ops_output_tiles(graph, node, 3, columns, err);
}

static fth_status rounded_prepare(struct fth_prepare *prepare, fth_error *err) {
    (void)err;
    fth_ops_section(&prepare->scratch_bytes, fth_ops_made_floats(prepare->in[1].columns));
    return FTH_OK;
}

/* dy is made of w in the place of db. */
static const float *make(const void *maker, uint32_t row, uint32_t column, uint32_t rows, uint32_t columns) {
    const struct fth_ops_maker *m = maker;
    const struct fth_view *dy = &m->run->in[0];
    const float *from = dy->data + (size_t)row * dy->ld + column;
    size_t ld = dy->ld;
    if (m->run->node->n_inputs > 5) {
        const float *w = m->run->in[5].data + grad_attributes(m->run->node)->column + column;
        fth_kernels_get()->outer(rows, columns, dy->data + (size_t)row * dy->ld, dy->ld, w, m->block, SIDE);
        from = m->block;
        ld = SIDE;
    }
    grad_block(m->run, row, column, rows, columns, from, ld, m->block, SIDE);
    return m->block;
}

static void rounded_run(const struct fth_run *run) {
    fth_ops_store_made(run, make, 1);
}

const struct fth_op fth_op_mul_add_grad_rounded = {.name = "mul_add_grad_rounded",
                                                   .min_inputs = 4,
                                                   .max_inputs = 6,
                                                   .n_outputs = 4,
                                                   .granularity = FTH_PER_TILE,
                                                   .shape = rounded_shape,
                                                   .prepare = rounded_prepare,
                                                   .cost = cost,
                                                   .print = print,
                                                   .run = rounded_run};
