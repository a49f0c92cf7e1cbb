/* Layers over the positions of ragged groups, attention units and what passes make of them: backward against finite
 * differences, several tiles against one, a step of SGD. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "gradient_cases.h"

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
    struct fth_linear_attributes act = {.act = FTH_ACT_TANH};
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
    struct fth_linear_attributes act = {.act = FTH_ACT_SIGMOID};
    attention_inputs(c, x);
    for (int i = 0; i < 4; i++)
        CHECK_OK(c, fth_graph_parameter(c->graph, FTH_ROLE_PARAMETER, parameters[i].name,
                                        parameters[i].rows, parameters[i].columns, FTH_PARAM_ZERO, 0,
                                        &x[4 + i], &c->err));
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_attention_unit, "unit", x, 8, &act, sizeof act, y,
                               &c->err));
    return y[0];
}

static const struct gradient_case cases[] = {
    CASE(expand, EXAMPLES),
    CASE(segment_sum, EXAMPLES),
    CASE(segment_sum_weighted, EXAMPLES),
    CASE(segment_softmax, EXAMPLES),
    CASE(segment_dot, EXAMPLES),
    CASE(segment_last, EXAMPLES),
    CASE(attention, EXAMPLES),
    CASE(attention_layer, EXAMPLES),
    CASE(attention_unit, EXAMPLES),
};

static void test_gradients(void **state) {
    gradient_cases_run(cases, sizeof cases / sizeof *cases);
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
    gradcheck_all_ran("test_gradients_attention");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_key_grads),
        cmocka_unit_test(test_every_op_was_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
