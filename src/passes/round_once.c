/* bf16, of one part to three, by AMX: what layers multiply, activations and their gradients, is rounded once, in the
 * tiles that the instructions load (kernels/tiles.h), and not by each product that reads it. With bf16 weight gradients
 * read half the bytes. What a product makes for products alone is rounded panel by panel (ops/linear_rounded.c), so that
 * its floats are never written:
 *
 *   y = linear(x, W, b) act=relu; y', turned = to_tiles(y)      y', turned, positive = linear_rounded(x, W, b) act=relu
 *   dx = linear_data_grad(dy, W, -, y) act=relu             ->  dx', pairs, sum = linear_data_grad_rounded(dy, W, -, positive)
 *   dx', pairs = to_tiles(dx); sum = col_sum(dx)
 *
 * and the second gradient of mul_add likewise. The gradient that a last layer of one column sends to many is a number a
 * row times that layer's weights, which who reads it multiplies again instead (leave_out_outer).
 *
 * The same bits. */
#include "kernels/gemm.h"
#include "kernels/tiles.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

/* Which input of a weight gradient is x; dy follows it. -1: it is none. */
static int weight_grad(const struct fth_node *node) {
    if (node->op == &fth_op_linear_update)
        return 1;
    return node->op == &fth_op_linear_weight_grad || node->op == &fth_op_linear_tile_grad ? 0 : -1;
}

/* Which input is one that the node multiplies, weight gradients as TURNED their x and as PAIRS their dy; -1: none. */
static int operand(const fth_graph *graph, const struct fth_node *node, fth_tiles_way way) {
    int at = weight_grad(node);
    if (at >= 0)
        return at + (way == FTH_TILES_PAIRS);
    int is_product = node->op == &fth_op_linear || (node->op == &fth_op_linear_data_grad &&
                                                    graph->values[node->inputs[1]].rows > 1);
    return is_product ? 0 : -1;
}

static fth_status append(fth_graph *graph, fth_id value, fth_tiles_way way, const struct fth_node *before,
                         fth_id tiles[2], fth_error *err) {
    struct fth_to_tiles_attributes attributes = {way};
    fth_stage stage = graph->stage;
    graph->stage = before->stage == FTH_FORWARD ? FTH_FORWARD : FTH_BACKWARD;
    fth_status status = fth_graph_node(graph, &fth_op_to_tiles, before->name, &value, 1, &attributes, sizeof attributes,
                                       tiles, err);
    graph->stage = stage;
    FTH_TRY(status);
    graph->nodes[graph->n_nodes - 1]->training_only = before->training_only;
    fth_rewrite_move_last(graph, fth_rewrite_find(graph, before));
    return FTH_OK;
}

/* Every product that reads the floats reads tiles. */
static fth_status round_value(fth_graph *graph, fth_id value, fth_tiles_way way, fth_error *err) {
    fth_id tiles[2] = {FTH_NONE, FTH_NONE};
    if (graph->values[value].tiles)
        return FTH_OK;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct fth_node *node = graph->nodes[i];
        int at = operand(graph, node, way);
        if (at < 0 || node->inputs[at] != value)
            continue;
        if (tiles[0] == FTH_NONE)
            FTH_TRY(append(graph, value, way, node, tiles, err));
        node->inputs[at] = tiles[weight_grad(node) >= 0];
    }
    return FTH_OK;
}

/* ---- products whose floats only products read ---- */

/* A product that can pass its panels on: of tiles and a weight in panels, not of a transposed copy of a node's. */
static int passes_on(const fth_graph *graph, const struct fth_node *node, const struct fth_op *op) {
    if (node->op != op || !graph->values[node->inputs[0]].tiles || !graph->values[node->inputs[1]].panels)
        return 0;
    fth_id made = node->outputs[0];
    int own = op == &fth_op_linear_data_grad && node->n_inputs > 2 && node->inputs[2] != FTH_NONE;
    return !own && made != graph->logit && graph->values[made].view_of == FTH_NONE && !fth_rewrite_has_views(graph, made);
}

/* The only to_tiles that reads the value; others that do are counted. */
static struct fth_node *tiles_of(const fth_graph *graph, fth_id value, uint32_t *others) {
    struct fth_node *found = NULL;
    *others = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t j = 0; j < graph->nodes[i]->n_inputs; j++) {
            if (graph->nodes[i]->inputs[j] != value)
                continue;
            if (graph->nodes[i]->op == &fth_op_to_tiles && !found)
                found = graph->nodes[i];
            else
                ++*others;
        }
    return found;
}

/* The reader with that op and the value as that input. */
static struct fth_node *reader(const fth_graph *graph, fth_id value, const struct fth_op *op, uint32_t input) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct fth_node *node = graph->nodes[i];
        if (node->op == op && node->n_inputs > input && node->inputs[input] == value)
            return node;
    }
    return NULL;
}

static void read_instead(fth_graph *graph, fth_id old, fth_id value) {
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t j = 0; j < graph->nodes[i]->n_inputs; j++)
            if (graph->nodes[i]->inputs[j] == old)
                graph->nodes[i]->inputs[j] = value;
}

/* `made` in the place of `node`, which goes with the nodes that made from its floats what `made` makes itself. */
static void take_place(fth_graph *graph, struct fth_node *node, struct fth_node *tiles, struct fth_node *sum,
                       const fth_id made[3]) {
    graph->nodes[graph->n_nodes - 1]->training_only = node->training_only;
    fth_rewrite_move_last(graph, fth_rewrite_find(graph, node));
    read_instead(graph, tiles->outputs[0], made[0]);
    read_instead(graph, tiles->outputs[1], made[1]);
    if (sum)
        read_instead(graph, sum->outputs[0], made[2]);
    fth_rewrite_remove(graph, fth_rewrite_find(graph, node));
    fth_rewrite_remove(graph, fth_rewrite_find(graph, tiles));
    if (sum)
        fth_rewrite_remove(graph, fth_rewrite_find(graph, sum));
}

/* What it makes is read by to_tiles and col_sum alone. */
static int grad_fits(const fth_graph *graph, const struct fth_node *node) {
    uint32_t others;
    if (!passes_on(graph, node, &fth_op_linear_data_grad))
        return 0;
    int summed = reader(graph, node->outputs[0], &fth_op_col_sum, 0) != NULL;
    return tiles_of(graph, node->outputs[0], &others) && others == (uint32_t)summed;
}

static fth_status pass_grad_on(fth_graph *graph, struct fth_node *node, fth_id positive, fth_error *err) {
    uint32_t others;
    struct fth_node *tiles = tiles_of(graph, node->outputs[0], &others);
    struct fth_node *sum = reader(graph, node->outputs[0], &fth_op_col_sum, 0);
    fth_id inputs[4] = {node->inputs[0], node->inputs[1], FTH_NONE, positive}, made[3];
    graph->stage = FTH_BACKWARD;
    FTH_TRY(fth_graph_node(graph, &fth_op_linear_data_grad_rounded, node->name, inputs, positive == FTH_NONE ? 2 : 4, NULL, 0,
                           made, err));
    take_place(graph, node, tiles, sum, made);
    return FTH_OK;
}

/* Besides to_tiles, only the data gradient behind it may read it, to know where ReLU was 0. */
static fth_status pass_on(fth_graph *graph, struct fth_node *node, fth_error *err) {
    uint32_t others;
    struct fth_node *tiles = tiles_of(graph, node->outputs[0], &others);
    struct fth_node *grad = reader(graph, node->outputs[0], &fth_op_linear_data_grad, 3);
    int relu = fth_linear_act(node) == FTH_ACT_RELU, fits = relu || fth_linear_act(node) == FTH_ACT_NONE;
    if (!tiles || !fits || others != (grad != NULL) ||
        (grad && (!relu || fth_linear_act(grad) != FTH_ACT_RELU || !grad_fits(graph, grad))))
        return FTH_OK;
    fth_id made[3];
    graph->stage = FTH_FORWARD;
    FTH_TRY(fth_graph_node(graph, &fth_op_linear_rounded, node->name, node->inputs, node->n_inputs, node->attributes,
                           sizeof(struct fth_linear_attributes), made, err));
    take_place(graph, node, tiles, NULL, made);
    return grad ? pass_grad_on(graph, grad, made[2], err) : FTH_OK;
}

/* The gradient of a cross layer's product, made of the layer's. */
static fth_status round_cross(fth_graph *graph, struct fth_node *node, fth_error *err) {
    uint32_t others;
    fth_id da = node->outputs[0], db = node->outputs[1], made[4];
    struct fth_node *tiles = tiles_of(graph, db, &others), *sum = reader(graph, db, &fth_op_col_sum, 0);
    if (!tiles || others != (sum != NULL) || graph->values[db].view_of != FTH_NONE || fth_rewrite_has_views(graph, db))
        return FTH_OK;
    graph->stage = FTH_BACKWARD;
    FTH_TRY(fth_graph_node(graph, &fth_op_mul_add_grad_rounded, node->name, node->inputs, node->n_inputs, node->attributes,
                           sizeof(struct fth_mul_add_grad_attributes), made, err));
    struct fth_node *rounded = graph->nodes[graph->n_nodes - 1];
    take_place(graph, node, tiles, sum, made + 1);
    rounded->outputs[0] = da;
    graph->values[da].producer = rounded->id;
    graph->values[made[0]].producer = FTH_NONE;
    return FTH_OK;
}

/* ---- a number a row times columns of a row ---- */

/* An activation's gradient that only its to_tiles and its sum read. */
static int act_fits(const fth_graph *graph, const struct fth_node *act) {
    uint32_t others;
    fth_id dx = act->outputs[0];
    int summed = reader(graph, dx, &fth_op_col_sum, 0) != NULL;
    return graph->values[dx].view_of == FTH_NONE && !fth_rewrite_has_views(graph, dx) && tiles_of(graph, dx, &others) &&
           others == (uint32_t)summed;
}

/* Whether the node can multiply what its input j is the product of. */
static int takes_outer(const fth_graph *graph, const struct fth_node *node, uint32_t j) {
    if (node->op == &fth_op_act_grad)
        return j == 1 && act_fits(graph, node);
    return (node->op == &fth_op_mul_add_grad_rounded && j == 0) ||
           (node->op == &fth_op_linear_data_grad && j == 4 && node->n_inputs == 5);
}

static int all_take_outer(const fth_graph *graph, fth_id outer) {
    if (graph->values[outer].view_of != FTH_NONE)
        return 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        for (uint32_t j = 0; j < node->n_inputs; j++) {
            int reads = node->inputs[j] != FTH_NONE && fth_graph_root(graph, node->inputs[j]) == outer;
            if (reads && !takes_outer(graph, node, j))
                return 0;
        }
        if (node->op != &fth_op_row_dot_data_grad && fth_rewrite_writes(graph, node, outer))
            return 0;
    }
    return 1;
}

static fth_status give_outer(fth_graph *graph, struct fth_node *node, uint32_t j, const struct fth_node *outer,
                             fth_error *err) {
    uint32_t column = fth_graph_column(graph, node->inputs[j]), others;
    if (node->op == &fth_op_act_grad) {
        struct fth_node *tiles = tiles_of(graph, node->outputs[0], &others);
        struct fth_outer_attributes a = {((const struct fth_act_attributes *)node->attributes)->act, column};
        fth_id inputs[3] = {outer->inputs[0], outer->inputs[1], node->inputs[0]}, made[3];
        graph->stage = FTH_BACKWARD;
        FTH_TRY(fth_graph_node(graph, &fth_op_row_dot_data_grad_rounded, node->name, inputs, 3, &a, sizeof a, made,
                               err));
        take_place(graph, node, tiles, reader(graph, node->outputs[0], &fth_op_col_sum, 0), made);
        return FTH_OK;
    }
    int is_product = node->op == &fth_op_linear_data_grad;
    fth_id *inputs = fth_arena_alloc(graph->arena, 6, sizeof *inputs);
    struct fth_linear_attributes *product = fth_arena_alloc(graph->arena, 1, sizeof *product);
    struct fth_mul_add_grad_attributes *cross = fth_arena_alloc(graph->arena, 1, sizeof *cross);
    if (!inputs || !product || !cross)
        return fth_fail(err, FTH_E_MEMORY, "no memory to rewrite the graph");
    for (uint32_t i = 0; i < 6; i++)
        inputs[i] = i < node->n_inputs ? node->inputs[i] : FTH_NONE;
    inputs[j] = outer->inputs[0];
    inputs[5] = outer->inputs[1];
    *product = (struct fth_linear_attributes){.act = is_product ? fth_linear_act(node) : FTH_ACT_NONE, .column = column};
    *cross = is_product ? (struct fth_mul_add_grad_attributes){0}
                        : *(const struct fth_mul_add_grad_attributes *)node->attributes;
    cross->column = column;
    node->inputs = inputs;
    node->n_inputs = 6;
    node->attributes = is_product ? (const void *)product : cross;
    return FTH_OK;
}

/* *at: the place of the node, which goes. */
static fth_status leave_out_outer(fth_graph *graph, struct fth_node *outer, uint32_t *at, fth_error *err) {
    fth_id value = outer->outputs[0];
    if (!all_take_outer(graph, value))
        return FTH_OK;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct fth_node *node = graph->nodes[i];
        for (uint32_t j = 0; j < node->n_inputs; j++)
            if (node->inputs[j] != FTH_NONE && fth_graph_root(graph, node->inputs[j]) == value) {
                FTH_TRY(give_outer(graph, node, j, outer, err));
                break;
            }
    }
    fth_rewrite_remove(graph, fth_rewrite_find(graph, outer));
    --*at;
    return FTH_OK;
}

static fth_status pass_all_on(fth_graph *graph, fth_error *err) {
    fth_status status = FTH_OK;
    fth_stage stage = graph->stage;
    for (uint32_t i = 0; i < graph->n_nodes && status == FTH_OK; i++) {
        struct fth_node *node = graph->nodes[i];
        if (passes_on(graph, node, &fth_op_linear))
            status = pass_on(graph, node, err);
        else if (grad_fits(graph, node) && node->n_inputs < 4)
            status = pass_grad_on(graph, node, FTH_NONE, err);
        else if (node->op == &fth_op_mul_add_grad)
            status = round_cross(graph, node, err);
    }
    for (uint32_t i = 0; i < graph->n_nodes && status == FTH_OK; i++)
        if (graph->nodes[i]->op == &fth_op_row_dot_data_grad)
            status = leave_out_outer(graph, graph->nodes[i], &i, err);
    graph->stage = stage;
    return status;
}

static fth_status run(fth_graph *graph, fth_error *err) {
    if (!fth_gemm_cut((fth_precision)graph->precision).tiles)
        return FTH_OK;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct fth_node *node = graph->nodes[i];
        int at = weight_grad(node);
        if (at < 0 || graph->values[node->inputs[at]].extent != FTH_EXAMPLES)
            continue;
        FTH_TRY(round_value(graph, node->inputs[at], FTH_TILES_TURNED, err));
        FTH_TRY(round_value(graph, node->inputs[at + 1], FTH_TILES_PAIRS, err));
    }
    return pass_all_on(graph, err);
}

const struct fth_pass fth_pass_round_once = {
    .name = "round_once",
    .when = FTH_PASS_TRAINING,
    .run = run};
