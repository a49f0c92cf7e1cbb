/* Layers of rows (linear, activations, normalisation, elementwise, losses): backward against finite differences, several
 * tiles against one, a step of SGD. An op of ops.def that neither a case here runs nor gradcheck_all_ran knows to be
 * another program's fails the last test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "gradient_cases.h"

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
    struct fth_linear_attributes a = {.act = act};
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
    struct fth_linear_attributes none = {.act = FTH_ACT_NONE};
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

static fth_id loss(struct gradcheck *c) {
    fth_id x = gradcheck_input(c, -1, c->columns);
    CHECK_OK(c, fth_layer_linear(c->graph, "fc", x, 1, 1, &c->graph->logit, &c->err));
    return FTH_NONE;
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

static const struct gradient_case cases[] = {
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
    CASE(loss, EXAMPLES),
    CASE(mlp_loss, EXAMPLES),
    CASE(prelu, ROWS),
    CASE(dice, MANY),
    CASE(dice_whole, MANY),
    CASE(dropout, ROWS),
    CASE(batch_norm, MANY),
    CASE(batch_norm_plain, MANY),
    CASE(layer_norm, ROWS),
    CASE(mlp_batch_norm, MANY),
    CASE(mlp_layer_norm, ROWS),
};

static void test_gradients(void **state) {
    gradient_cases_run(cases, sizeof cases / sizeof *cases);
}

static void test_every_op_was_checked(void **state) {
    gradcheck_all_ran("test_gradients");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_every_op_was_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
