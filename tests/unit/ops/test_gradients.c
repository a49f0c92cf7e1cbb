/* Every operation and layer: backward against finite differences, several tiles against one, a step
 * of SGD. An op of ops.def that no case here runs fails the last test. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "gradcheck.h"

#define X(check) gradcheck_input(check, (check)->group, (check)->columns)

static fth_id linear(struct gradcheck *c) {
    fth_id y;
    CHECK_OK(c, fth_layer_linear(c->graph, "fc", X(c), 18, 1, &y, &c->err));
    return y;
}

static fth_id linear_no_bias(struct gradcheck *c) {
    fth_id y;
    CHECK_OK(c, fth_layer_linear(c->graph, "fc", X(c), 2, 0, &y, &c->err));
    return y;
}

static fth_id linear_wide(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, c->group, 150);
    CHECK_OK(c, fth_layer_linear(c->graph, "fc", x, 300, 1, &y, &c->err));
    return y;
}

static fth_id linear_fused(struct gradcheck *c, fth_act act) {
    fth_id y, in[3] = {X(c), FTH_NONE, FTH_NONE};
    CHECK_OK(c, fth_graph_parameter(c->graph, FTH_ROLE_PARAMETER, "w", c->columns, 4,
                                    FTH_PARAM_ZERO, 0, &in[1], &c->err));
    CHECK_OK(c, fth_graph_parameter(c->graph, FTH_ROLE_PARAMETER, "b", 1, 4, FTH_PARAM_ZERO, 0,
                                    &in[2], &c->err));
    struct fth_linear_attributes a = {act};
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_linear, "fc", in, 3, &a, sizeof a, &y, &c->err));
    return y;
}

static fth_id linear_tanh(struct gradcheck *c) {
    return linear_fused(c, FTH_ACT_TANH);
}
static fth_id linear_sigmoid(struct gradcheck *c) {
    return linear_fused(c, FTH_ACT_SIGMOID);
}

static fth_id row_dot(struct gradcheck *c) {
    fth_id y;
    CHECK_OK(c, fth_layer_linear(c->graph, "fc", X(c), 1, 1, &y, &c->err));
    return y;
}

static fth_id row_dot_no_bias(struct gradcheck *c) {
    fth_id y;
    CHECK_OK(c, fth_layer_linear(c->graph, "fc", X(c), 1, 0, &y, &c->err));
    return y;
}

static fth_id dense_input(struct gradcheck *c) {
    fth_id x, y;
    CHECK_OK(c, fth_graph_input(c->graph, FTH_ROLE_DENSE, &x, &c->err));
    CHECK_OK(c, fth_layer_linear(c->graph, "fc", x, 5, 1, &y, &c->err));
    return y;
}

static fth_id bias(struct gradcheck *c) {
    fth_id y;
    CHECK_OK(c, fth_layer_bias(c->graph, "b", X(c), &y, &c->err));
    return y;
}

static fth_id activation(struct gradcheck *c, const char *name) {
    fth_id y;
    CHECK_OK(c, fth_layer_activation(c->graph, "act", name, X(c), &y, &c->err));
    return y;
}

static fth_id relu(struct gradcheck *c) {
    return activation(c, "relu");
}
static fth_id sigmoid(struct gradcheck *c) {
    return activation(c, "sigmoid");
}
static fth_id tanh_(struct gradcheck *c) {
    return activation(c, "tanh");
}
static fth_id gelu(struct gradcheck *c) {
    return activation(c, "gelu");
}

static fth_id add(struct gradcheck *c) {
    fth_id y, x = X(c);
    CHECK_OK(c, fth_layer_add(c->graph, x, X(c), &y, &c->err));
    CHECK_OK(c, fth_layer_add(c->graph, y, x, &y, &c->err)); /* x is used twice */
    return y;
}

static fth_id sub(struct gradcheck *c) {
    fth_id y, x = X(c);
    CHECK_OK(c, fth_layer_sub(c->graph, x, X(c), &y, &c->err));
    return y;
}

static fth_id mul(struct gradcheck *c) {
    fth_id y, x = X(c);
    CHECK_OK(c, fth_layer_mul(c->graph, x, X(c), &y, &c->err));
    CHECK_OK(c, fth_layer_mul(c->graph, y, x, &y, &c->err));
    return y;
}

static fth_id mul_add(struct gradcheck *c) {
    fth_id y, in[3] = {X(c), X(c), X(c)};
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_mul_add, "m", in, 3, NULL, 0, &y, &c->err));
    return y;
}

static fth_id scale(struct gradcheck *c) {
    struct fth_scale_attributes a = {-2.5f};
    fth_id y, x = X(c);
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_scale, "s", &x, 1, &a, sizeof a, &y, &c->err));
    return y;
}

static fth_id concat(struct gradcheck *c) {
    fth_id y, in[3] = {X(c), gradcheck_input(c, c->group, 3), X(c)};
    CHECK_OK(c, fth_layer_concat(c->graph, "cat", in, 3, &y, &c->err));
    CHECK_OK(c, fth_layer_mul(c->graph, y, y, &y, &c->err));
    return y;
}

/* Views that overlap, leave a gap, and stand beside the whole. */
static fth_id views(struct gradcheck *c) {
    fth_id x = gradcheck_input(c, c->group, 9), a, b, d, y;
    CHECK_OK(c, fth_graph_view(c->graph, x, 1, 4, &a, &c->err));
    CHECK_OK(c, fth_graph_view(c->graph, x, 4, 4, &b, &c->err));
    CHECK_OK(c, fth_graph_view(c->graph, b, 1, 2, &d, &c->err)); /* columns 5 and 6 of x */
    CHECK_OK(c, fth_layer_mul(c->graph, a, b, &y, &c->err));
    fth_id in[3] = {y, d, x};
    if (c->columns > 1)
        CHECK_OK(c, fth_layer_concat(c->graph, "cat", in, 3, &y, &c->err));
    return y;
}

/* One weight used by two nodes, and one used as rows of both kinds of gradient. */
static fth_id shared(struct gradcheck *c) {
    uint32_t n = c->columns + 1;
    fth_id y, in[3] = {gradcheck_input(c, c->group, n), FTH_NONE, FTH_NONE};
    struct fth_linear_attributes none = {FTH_ACT_NONE};
    CHECK_OK(c, fth_graph_parameter(c->graph, FTH_ROLE_PARAMETER, "w", n, n, FTH_PARAM_ZERO, 0,
                                    &in[1], &c->err));
    CHECK_OK(c, fth_graph_parameter(c->graph, FTH_ROLE_PARAMETER, "b", 1, n, FTH_PARAM_ZERO, 0,
                                    &in[2], &c->err));
    CHECK_OK(c,
             fth_graph_node(c->graph, &fth_op_linear, "1", in, 3, &none, sizeof none, &y, &c->err));
    in[0] = y;
    CHECK_OK(c,
             fth_graph_node(c->graph, &fth_op_linear, "2", in, 3, &none, sizeof none, &y, &c->err));
    return y;
}

static fth_id row_sum(struct gradcheck *c) {
    fth_id y;
    CHECK_OK(c, fth_layer_row_sum(c->graph, "sum", X(c), &y, &c->err));
    return y;
}

static fth_id fm(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, c->group, 4 * c->columns);
    CHECK_OK(c, fth_layer_fm(c->graph, "fm", x, c->columns, &y, &c->err));
    return y;
}

/* Two layers; the second one's maps are read by nobody, or beside their sums. */
static fth_id cin(struct gradcheck *c, uint32_t fields, uint32_t dim, uint32_t maps, int read) {
    fth_id x0 = gradcheck_input(c, c->group, fields * dim), y, z, all[3];
    CHECK_OK(c, fth_layer_cin(c->graph, "cin.0", x0, x0, dim, maps, &y, &all[0], &c->err));
    CHECK_OK(c, fth_layer_cin(c->graph, "cin.1", y, x0, dim, 3, &all[2], &all[1], &c->err));
    CHECK_OK(c, fth_layer_concat(c->graph, "all", all, read ? 3 : 2, &z, &c->err));
    return z;
}
static fth_id cin_small(struct gradcheck *c) {
    return cin(c, 2, c->columns, 2, 1);
}
static fth_id cin_pooled(struct gradcheck *c) {
    return cin(c, 5, c->columns, 4, 0);
}
/* More products than a block of fields, more rows than a block has. */
static fth_id cin_blocks(struct gradcheck *c) {
    return cin(c, 27, c->columns, 21, 0);
}
static fth_id cin_rows(struct gradcheck *c) {
    return cin(c, 2, 100, 2, 1);
}

/* A row's own network, over single rows and over positions. */
static fth_id co_action(struct gradcheck *c, uint32_t d, uint32_t n, uint32_t orders) {
    static const uint32_t widths[] = {5, 3, 2};
    struct fth_co_action_options options = {widths, n, orders};
    fth_id w = gradcheck_input(c, -1, fth_co_action_weights(d, widths, n)), y;
    CHECK_OK(c, fth_layer_co_action(c->graph, "unit", w, gradcheck_input(c, c->group, d), &options, &y, &c->err));
    return y;
}
static fth_id co_action_one(struct gradcheck *c) {
    return co_action(c, c->columns + 1, 1, 3);
}
static fth_id co_action_two(struct gradcheck *c) {
    return co_action(c, c->columns + 1, 2, 2);
}
static fth_id co_action_three(struct gradcheck *c) {
    return co_action(c, 4, 3, 1);
}

static fth_id loss(struct gradcheck *c) {
    fth_id x = gradcheck_input(c, -1, c->columns);
    CHECK_OK(c, fth_layer_linear(c->graph, "fc", x, 1, 1, &c->graph->logit, &c->err));
    return FTH_NONE;
}

static fth_id normalise(struct gradcheck *c) {
    fth_id y;
    CHECK_OK(c, fth_layer_normalise(c->graph, "n", gradcheck_input(c, c->group, c->columns + 1), &y, &c->err));
    return y;
}

/* Two towers of one layer; corrected by frequencies or not. */
static fth_id towers(struct gradcheck *c, int corrected) {
    fth_id x[2], product;
    for (int i = 0; i < 2; i++)
        CHECK_OK(c, fth_layer_linear(c->graph, i ? "item" : "user", gradcheck_input(c, -1, c->columns), 3, 1, &x[i],
                                     &c->err));
    CHECK_OK(c, fth_layer_mul(c->graph, x[0], x[1], &product, &c->err));
    CHECK_OK(c, fth_layer_row_sum(c->graph, "product", product, &c->graph->logit, &c->err));
    c->graph->softmax.user = x[0];
    c->graph->softmax.item = x[1];
    struct fth_lookup lookup = {.table = "sampled", .dim = 1, .group = -1, .counted = 1};
    uint32_t sampled;
    if (corrected) {
        CHECK_OK(c, fth_graph_lookup(c->graph, &lookup, &sampled, &c->err));
        c->graph->softmax.sampled = (int32_t)sampled;
    }
    return FTH_NONE;
}
static fth_id towers_plain(struct gradcheck *c) {
    return towers(c, 0);
}
static fth_id towers_corrected(struct gradcheck *c) {
    return towers(c, 1);
}

static fth_id mlp_loss(struct gradcheck *c) {
    static const int64_t hidden[] = {9, 5};
    struct fth_mlp_options options = {.hidden = hidden, .n_hidden = 2, .activation = "tanh"};
    fth_id x = gradcheck_input(c, -1, c->columns);
    CHECK_OK(c, fth_layer_mlp(c->graph, "deep", x, &options, &x, &c->err));
    CHECK_OK(c, fth_layer_linear(c->graph, "out", x, 1, 1, &c->graph->logit, &c->err));
    return FTH_NONE;
}

static fth_id prelu(struct gradcheck *c) {
    return activation(c, "prelu");
}
static fth_id dice(struct gradcheck *c) {
    return activation(c, "dice");
}

/* What the pass fuse_dice makes. */
static fth_id dice_whole(struct gradcheck *c) {
    fth_id y, x = X(c), norm[5], in[5] = {x, FTH_NONE, FTH_NONE, FTH_NONE, FTH_NONE};
    CHECK_OK(c, fth_graph_parameter(c->graph, FTH_ROLE_STATE, "mean", 1, c->columns, FTH_PARAM_ZERO,
                                    0, &norm[3], &c->err));
    CHECK_OK(c, fth_graph_parameter(c->graph, FTH_ROLE_STATE, "variance", 1, c->columns,
                                    FTH_PARAM_CONSTANT, 1, &norm[4], &c->err));
    CHECK_OK(c, fth_graph_parameter(c->graph, FTH_ROLE_PARAMETER, "slope", 1, c->columns,
                                    FTH_PARAM_ZERO, 0, &in[4], &c->err));
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_col_moments, "bn", &x, 1, NULL, 0, norm, &c->err));
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_bn_finalize, "bn", norm, 5, NULL, 0, in + 1, &c->err));
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_dice, "dice", in, 5, NULL, 0, &y, &c->err));
    return y;
}

static fth_id dropout(struct gradcheck *c) {
    fth_id y;
    CHECK_OK(c, fth_layer_dropout(c->graph, "drop", X(c), 0.375f, &y, &c->err));
    CHECK_OK(c, fth_layer_dropout(c->graph, "drop", y, 0.25f, &y, &c->err));
    return y;
}

static fth_id batch_norm(struct gradcheck *c) {
    fth_id y;
    CHECK_OK(c, fth_layer_batch_norm(c->graph, "bn", X(c), 1, &y, &c->err));
    return y;
}

static fth_id batch_norm_plain(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, c->group, 70); /* two tasks */
    CHECK_OK(c, fth_layer_batch_norm(c->graph, "bn", x, 0, &y, &c->err));
    return y;
}

static fth_id layer_norm(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, c->group, c->columns + 4);
    CHECK_OK(c, fth_layer_layer_norm(c->graph, "ln", x, &y, &c->err));
    return y;
}

static fth_id dot_interaction(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, c->group, 4 * c->columns);
    CHECK_OK(c, fth_layer_dot_interaction(c->graph, "dot", x, c->columns, &y, &c->err));
    return y;
}

static fth_id cross(struct gradcheck *c) {
    fth_id y, x0 = X(c);
    CHECK_OK(c, fth_layer_cross(c->graph, "cross.0", x0, x0, &y, &c->err));
    CHECK_OK(c, fth_layer_cross(c->graph, "cross.1", x0, y, &y, &c->err));
    return y;
}

static fth_id cross_v2(struct gradcheck *c) {
    fth_id y, x0 = X(c);
    CHECK_OK(c, fth_layer_cross_v2(c->graph, "cross.0", x0, x0, &y, &c->err));
    CHECK_OK(c, fth_layer_cross_v2(c->graph, "cross.1", x0, y, &y, &c->err));
    return y;
}

static fth_id expand(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, -1, c->columns);
    CHECK_OK(c, fth_layer_expand(c->graph, "expand", x, 0, &y, &c->err));
    return y;
}

static fth_id segment_sum(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, 0, c->columns);
    CHECK_OK(c, fth_layer_segment_sum(c->graph, "sum", x, FTH_NONE, &y, &c->err));
    return y;
}

static fth_id segment_sum_weighted(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, 0, c->columns), w = gradcheck_input(c, 0, 1);
    CHECK_OK(c, fth_layer_segment_sum(c->graph, "sum", x, w, &y, &c->err));
    return y;
}

static fth_id segment_softmax(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, 0, c->columns);
    CHECK_OK(c, fth_layer_segment_softmax(c->graph, "softmax", x, &y, &c->err));
    return y;
}

static fth_id segment_dot(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, 0, c->columns), v = gradcheck_input(c, -1, c->columns);
    CHECK_OK(c, fth_layer_segment_dot(c->graph, "dot", x, v, &y, &c->err));
    return y;
}

static fth_id segment_last(struct gradcheck *c) {
    fth_id y[2], x = gradcheck_input(c, 0, c->columns);
    CHECK_OK(c, fth_layer_segment_last(c->graph, "last", x, 0, &y[0], &c->err));
    CHECK_OK(c, fth_layer_segment_last(c->graph, "first", x, 1, &y[1], &c->err));
    CHECK_OK(c, fth_layer_concat(c->graph, "cat", y, 2, &y[0], &c->err));
    return y[0];
}

static fth_id attention(struct gradcheck *c) {
    static const int64_t hidden[] = {6, 3};
    fth_id y, q = gradcheck_input(c, -1, c->columns), k = gradcheck_input(c, 0, c->columns);
    CHECK_OK(c, fth_layer_attention(c->graph, "att", q, k, hidden, 2, "sigmoid", &y, &c->err));
    return y;
}

/* What the passes make of an attention unit's weights and query: k, q, W and the query's row, as inputs of its first
 * layer of 5 columns. */
static void attention_inputs(struct gradcheck *c, fth_id x[4]) {
    fth_id w, parts[4], q[3] = {FTH_NONE, FTH_NONE, FTH_NONE};
    x[0] = gradcheck_input(c, 0, c->columns);
    x[1] = q[0] = gradcheck_input(c, -1, c->columns);
    CHECK_OK(c, fth_graph_parameter(c->graph, FTH_ROLE_PARAMETER, "w", 4 * c->columns, 5,
                                    FTH_PARAM_ZERO, 0, &w, &c->err));
    CHECK_OK(c, fth_graph_parameter(c->graph, FTH_ROLE_PARAMETER, "b", 1, 5, FTH_PARAM_ZERO, 0,
                                    &q[2], &c->err));
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_attention_weights, "split", &w, 1, NULL, 0, parts,
                               &c->err));
    x[2] = parts[0];
    q[1] = parts[1];
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_linear, "query", q, 3, NULL, 0, &x[3], &c->err));
}

static fth_id attention_layer(struct gradcheck *c) {
    fth_id x[4], y;
    struct fth_linear_attributes act = {FTH_ACT_TANH};
    attention_inputs(c, x);
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_attention_layer, "keys", x, 4, &act, sizeof act, &y,
                               &c->err));
    return y;
}

static fth_id attention_unit(struct gradcheck *c) {
    static const struct {
        const char *name;
        uint32_t rows, columns;
    } parameters[4] = {{"w2", 5, 3}, {"b2", 1, 3}, {"v", 1, 3}, {"c", 1, 1}};
    fth_id x[8], y[4];
    struct fth_linear_attributes act = {FTH_ACT_SIGMOID};
    attention_inputs(c, x);
    for (int i = 0; i < 4; i++)
        CHECK_OK(c, fth_graph_parameter(c->graph, FTH_ROLE_PARAMETER, parameters[i].name,
                                        parameters[i].rows, parameters[i].columns, FTH_PARAM_ZERO, 0,
                                        &x[4 + i], &c->err));
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_attention_unit, "unit", x, 8, &act, sizeof act, y,
                               &c->err));
    return y[0];
}

static fth_id mlp(struct gradcheck *c, struct fth_mlp_options options) {
    static const int64_t hidden[] = {7, 7, 4};
    fth_id y;
    options.hidden = hidden;
    options.n_hidden = 3;
    CHECK_OK(c, fth_layer_mlp(c->graph, "deep", X(c), &options, &y, &c->err));
    return y;
}

static fth_id mlp_batch_norm(struct gradcheck *c) {
    return mlp(c, (struct fth_mlp_options){
                      .activation = "sigmoid", .dropout = 0.25f, .batch_norm = 1, .residual = 1});
}

static fth_id mlp_layer_norm(struct gradcheck *c) {
    return mlp(c, (struct fth_mlp_options){.activation = "gelu", .layer_norm = 1, .residual = 1});
}

#define CASE(name, extents)                                                                        \
    { #name, name, extents }
/* MANY: rows without a single one, whose batch statistics stand still. */
enum extents { ROWS, EXAMPLES, MANY };

static const struct {
    const char *name;
    fth_id (*build)(struct gradcheck *check);
    enum extents extents;
} cases[] = {
    CASE(linear, ROWS),
    CASE(linear_no_bias, ROWS),
    CASE(linear_wide, ROWS),
    CASE(linear_tanh, ROWS),
    CASE(linear_sigmoid, ROWS),
    CASE(row_dot, ROWS),
    CASE(row_dot_no_bias, ROWS),
    CASE(dense_input, EXAMPLES),
    CASE(bias, ROWS),
    CASE(relu, ROWS),
    CASE(sigmoid, ROWS),
    CASE(tanh_, ROWS),
    CASE(gelu, ROWS),
    CASE(add, ROWS),
    CASE(sub, ROWS),
    CASE(mul, ROWS),
    CASE(mul_add, ROWS),
    CASE(scale, ROWS),
    CASE(concat, ROWS),
    CASE(views, ROWS),
    CASE(shared, ROWS),
    CASE(row_sum, ROWS),
    CASE(fm, ROWS),
    CASE(cin_small, ROWS),
    CASE(cin_pooled, ROWS),
    CASE(cin_blocks, ROWS),
    CASE(cin_rows, ROWS),
    CASE(co_action_one, ROWS),
    CASE(co_action_two, ROWS),
    CASE(co_action_three, ROWS),
    CASE(normalise, ROWS),
    CASE(towers_plain, EXAMPLES),
    CASE(towers_corrected, EXAMPLES),
    CASE(loss, EXAMPLES),
    CASE(mlp_loss, EXAMPLES),
    CASE(prelu, ROWS),
    CASE(dice, MANY),
    CASE(dice_whole, MANY),
    CASE(dropout, ROWS),
    CASE(batch_norm, MANY),
    CASE(batch_norm_plain, MANY),
    CASE(layer_norm, ROWS),
    CASE(dot_interaction, ROWS),
    CASE(cross, ROWS),
    CASE(cross_v2, ROWS),
    CASE(expand, EXAMPLES),
    CASE(segment_sum, EXAMPLES),
    CASE(segment_sum_weighted, EXAMPLES),
    CASE(segment_softmax, EXAMPLES),
    CASE(segment_dot, EXAMPLES),
    CASE(segment_last, EXAMPLES),
    CASE(attention, EXAMPLES),
    CASE(attention_layer, EXAMPLES),
    CASE(attention_unit, EXAMPLES),
    CASE(mlp_batch_norm, MANY),
    CASE(mlp_layer_norm, ROWS),
};

static const struct gradcheck_shape shapes[] = {
    {.examples = 1, .tile = 4, .columns = 1, .group = -1},
    {.examples = 1, .tile = 1, .columns = 17, .group = 0},
    {.examples = 8, .tile = 3, .columns = 5, .group = -1},
    {.examples = 8, .tile = 3, .columns = 17, .group = 0},
    {.examples = 8, .tile = 1, .columns = 1, .group = 0}, /* tiles without a position */
};

static void test_gradients(void **state) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            if ((shapes[s].group < 0 || cases[i].extents != EXAMPLES) &&
                (shapes[s].examples > 1 || cases[i].extents != MANY))
                gradcheck_run(cases[i].name, cases[i].build, &shapes[s]);
}

/* linear_update gives the bits of linear_weight_grad and update in turn. */
static void test_linear_update(void **state) {
    struct gradcheck check = {.group = -1};
    struct gradcheck *c = &check;
    CHECK_OK(c, fth_graph_create(0, &c->graph, &c->err));
    fth_id in[3] = {FTH_NONE, gradcheck_input(c, -1, 140), gradcheck_input(c, -1, 270)}, dw;
    fth_id plain[3] = {FTH_NONE, FTH_NONE, FTH_NONE}, unused;
    CHECK_OK(c, fth_graph_parameter(c->graph, FTH_ROLE_PARAMETER, "fused", 140, 270, FTH_PARAM_ZERO,
                                    0, &in[0], &c->err));
    CHECK_OK(c, fth_graph_parameter(c->graph, FTH_ROLE_PARAMETER, "plain", 140, 270, FTH_PARAM_ZERO,
                                    0, &plain[0], &c->err));
    fth_id read[2] = {in[2], in[0]};
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_linear_data_grad, "d", read, 2, NULL, 0, &unused,
                               &c->err));
    CHECK_OK(c,
             fth_graph_node(c->graph, &fth_op_linear_update, "f", in, 3, NULL, 0, NULL, &c->err));
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_linear_weight_grad, "g", in + 1, 2, NULL, 0, &dw,
                               &c->err));
    plain[1] = dw;
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_update, "u", plain, 3, NULL, 0, NULL, &c->err));
    CHECK_OK(c, fth_graph_verify(c->graph, &c->err));
    struct interpret_options options = {
        .examples = 9,
        .tile = 4,
        .optimizer = fth_optimizer_find("adagrad"),
        .opt = {.lr = 0.1f, .grad_scale = 1, .eps = 1e-8f, .l2 = 0.01f}};
    struct interpret *it = interpret_create(c->graph, &options);
    for (uint32_t l = 0; l < 2; l++)
        for (uint32_t i = 0; i < 9 * c->graph->lookups[l].dim; i++)
            *interpret_row_at(it, l, i / c->graph->lookups[l].dim, i % c->graph->lookups[l].dim) =
                (float)(i * 7919 % 1000) / 500 - 1;
    for (uint32_t i = 0; i < 140 * 270; i++)
        *interpret_at(it, in[0], i / 270, i % 270) = *interpret_at(it, plain[0], i / 270, i % 270) =
            (float)(i * 104729 % 1000) / 500 - 1;
    interpret_refresh(it);
    interpret_run(it, FTH_UPDATE);
    for (uint32_t r = 0; r < 140; r++) {
        assert_memory_equal(interpret_at(it, in[0], r, 0), interpret_at(it, plain[0], r, 0),
                            270 * sizeof(float));
        assert_memory_equal(interpret_slot_at(it, in[0], 0, r, 0),
                            interpret_slot_at(it, plain[0], 0, r, 0), 270 * sizeof(float));
    }
    assert_true(*interpret_at(it, in[0], 0, 0) != -1.0f);
    assert_true(interpret_transposed_equal(it));
    interpret_destroy(it);
    fth_graph_destroy(c->graph);
}

/* A small network, one step of SGD with rate 1: what each weight moves by. */
struct step {
    struct gradcheck check;
    struct interpret *it;
};

static void step_run(struct step *step, float clip_norm) {
    struct gradcheck *c = &step->check;
    CHECK_OK(c, fth_graph_create(0, &c->graph, &c->err));
    fth_id x = gradcheck_input(c, -1, 4), y;
    CHECK_OK(c, fth_layer_linear(c->graph, "fc", x, 3, 1, &y, &c->err));
    CHECK_OK(c, fth_layer_linear(c->graph, "out", y, 1, 0, &c->graph->logit, &c->err));
    CHECK_OK(c, fth_layer_loss(c->graph, 0, &c->err));
    CHECK_OK(c, fth_graph_differentiate(c->graph, &c->err));
    CHECK_OK(c, fth_layer_updates(c->graph, clip_norm, &c->err));
    CHECK_OK(c, fth_graph_verify(c->graph, &c->err));
    struct interpret_options options = {.examples = 5,
                                        .tile = 2,
                                        .opt = {.lr = 1, .grad_scale = 1},
                                        .opt_no_decay = {.lr = 1, .grad_scale = 1}};
    step->it = interpret_create(c->graph, &options);
    for (uint32_t v = 0; v < c->graph->n_values; v++) {
        const struct fth_value *value = &c->graph->values[v];
        for (uint32_t i = 0; value->role == FTH_ROLE_PARAMETER && i < value->rows * value->columns;
             i++)
            *interpret_at(step->it, (fth_id)v, i / value->columns, i % value->columns) =
                (float)(i % 5) - 1.75f;
    }
    for (uint32_t i = 0; i < 20; i++)
        *interpret_row_at(step->it, 0, i / 4, i % 4) = (float)(i % 7) - 2.5f;
    for (uint32_t i = 0; i < 5; i++)
        *interpret_at(step->it, c->graph->label, i, 0) = (float)(i % 2);
    interpret_refresh(step->it);
    interpret_run(step->it, FTH_UPDATE);
}

static void test_clip(void **state) {
    struct step free_step = {0}, clipped = {0}, loose = {0};
    step_run(&free_step, 0);
    step_run(&clipped, 0.5f);
    step_run(&loose, 1e6f);
    double squares = 0;
    fth_graph *graph = free_step.check.graph;
    for (uint32_t l = 0; l < 20; l++) {
        double moved = (float)(l % 7) - 2.5f - *interpret_row_at(free_step.it, 0, l / 4, l % 4);
        squares += moved * moved;
    }
    for (uint32_t v = 0; v < graph->n_values; v++)
        for (uint32_t i = 0; graph->values[v].role == FTH_ROLE_PARAMETER &&
                             i < graph->values[v].rows * graph->values[v].columns;
             i++) {
            uint32_t n = graph->values[v].columns;
            double moved =
                (float)(i % 5) - 1.75f - *interpret_at(free_step.it, (fth_id)v, i / n, i % n);
            squares += moved * moved;
        }
    double factor = 0.5 / sqrt(squares);
    assert_true(factor < 0.8); /* clipping is at work */
    for (uint32_t l = 0; l < 20; l++) {
        double start = (float)(l % 7) - 2.5f;
        double moved = start - *interpret_row_at(free_step.it, 0, l / 4, l % 4);
        assert_true(fabs(start - moved * factor - *interpret_row_at(clipped.it, 0, l / 4, l % 4)) <
                    1e-5);
        assert_true(*interpret_row_at(loose.it, 0, l / 4, l % 4) ==
                    *interpret_row_at(free_step.it, 0, l / 4, l % 4));
    }
    for (uint32_t v = 0; v < graph->n_values; v++)
        for (uint32_t i = 0; graph->values[v].role == FTH_ROLE_PARAMETER &&
                             i < graph->values[v].rows * graph->values[v].columns;
             i++) {
            uint32_t r = i / graph->values[v].columns, c = i % graph->values[v].columns;
            double start = (float)(i % 5) - 1.75f;
            double moved = start - *interpret_at(free_step.it, (fth_id)v, r, c);
            assert_true(fabs(start - moved * factor - *interpret_at(clipped.it, (fth_id)v, r, c)) <
                        1e-5);
        }
    struct step *all[] = {&free_step, &clipped, &loose};
    for (int i = 0; i < 3; i++) {
        interpret_destroy(all[i]->it);
        fth_graph_destroy(all[i]->check.graph);
    }
}

/* What fuse_key_grads makes of them gives the bits of segment_sum_grad, attention_layer_grad and an addition. */
static void test_key_grads(void **state) {
    static const uint32_t offsets[] = {0, 3, 3, 4, 6, 6, 10, 11};
    enum { N = 7, POSITIONS = 11, COLUMNS = 5, UNITS = 3 };
    struct gradcheck check = {.group = 0};
    struct gradcheck *c = &check;
    CHECK_OK(c, fth_graph_create(0, &c->graph, &c->err));
    fth_id y = gradcheck_input(c, 0, UNITS), dy = gradcheck_input(c, 0, UNITS), weights[4], whole;
    fth_id k = gradcheck_input(c, 0, COLUMNS), q = gradcheck_input(c, -1, COLUMNS);
    fth_id w = gradcheck_input(c, 0, 1), dout = gradcheck_input(c, -1, COLUMNS);
    fth_id a[2], b[4], dk, dw, fused[4], sum[3] = {k, w, dout}, dot[2] = {k, dout};
    CHECK_OK(c, fth_graph_parameter(c->graph, FTH_ROLE_PARAMETER, "w", 4 * COLUMNS, UNITS,
                                    FTH_PARAM_ZERO, 0, &whole, &c->err));
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_attention_weights, "split", &whole, 1, NULL, 0,
                               weights, &c->err));
    fth_id all[8] = {y, dy, k, q, weights[0], weights[2], w, dout};
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_segment_sum_grad, "a", sum, 3, NULL, 0, a, &c->err));
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_attention_layer_grad, "b", all, 6, NULL, 0, b, &c->err));
    CHECK_OK(c, fth_layer_add(c->graph, a[0], b[0], &dk, &c->err));
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_segment_dot, "d", dot, 2, NULL, 0, &dw, &c->err));
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_attention_layer_grad, "k", all, 8, NULL, 0, fused,
                               &c->err));
    struct interpret_options options = {.examples = N, .tile = 3, .offsets = {offsets, NULL}};
    struct interpret *it = interpret_create(c->graph, &options);
    for (uint32_t l = 0; l < c->graph->n_lookups; l++)
        for (uint32_t r = 0; r < interpret_lookup_rows(it, l); r++)
            for (uint32_t j = 0; j < c->graph->lookups[l].dim; j++)
                *interpret_row_at(it, l, r, j) = (float)((r * 31 + j * 17 + l * 7) % 23) / 11 - 1;
    for (uint32_t r = 0; r < 4 * COLUMNS; r++)
        for (uint32_t j = 0; j < UNITS; j++)
            *interpret_at(it, whole, r, j) = (float)((r * 29 + j * 13) % 19) / 9 - 1;
    interpret_run(it, FTH_FORWARD);
    for (uint32_t r = 0; r < POSITIONS; r++) {
        assert_memory_equal(interpret_at(it, fused[0], r, 0), interpret_at(it, dk, r, 0),
                            COLUMNS * sizeof(float));
        assert_true(*interpret_at(it, dw, r, 0) == *interpret_at(it, a[1], r, 0));
    }
    for (uint32_t r = 0; r < N; r++)
        assert_memory_equal(interpret_at(it, fused[1], r, 0), interpret_at(it, b[1], r, 0),
                            COLUMNS * sizeof(float));
    interpret_destroy(it);
    fth_graph_destroy(c->graph);
}

static void test_every_op_was_checked(void **state) {
    /* test_factorise.c, test_sequence_gradients.c, test_gradients_tasks.c,
       test_gradients_recurrent.c */
    static const char *const elsewhere[] = {"factor_", "segment_attention", "segment_pool",
                                            "position_bias", "row_softmax", "mix_experts",
                                            "gru", "lstm", "next_loss", "domain_"};
    for (const struct fth_op *const *op = fth_ops(); *op; op++) {
        int here = 1;
        for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
            here &= strncmp((*op)->name, elsewhere[i], strlen(elsewhere[i])) != 0;
        if (here && !interpret_has_run((*op)->name))
            fail_msg("operation %s of ops.def has no gradient test", (*op)->name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_linear_update),
        cmocka_unit_test(test_clip),
        cmocka_unit_test(test_key_grads),
        cmocka_unit_test(test_every_op_was_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
