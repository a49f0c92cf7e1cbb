/* The graph itself: what the builder refuses, what the verifier finds, what printing prints, where
 * autodiff stops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "ops/layers.h"
#include "ops/ops.h"

static fth_error err;

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != FTH_OK)                                                                      \
            fail_msg("%s: %s", #call, err.message);                                                \
    } while (0)
#define REFUSED(call, code, part)                                                                  \
    do {                                                                                           \
        fth_status refused_status = (call);                                                        \
        if (refused_status != (code) || !strstr(err.message, (part)))                              \
            fail_msg("%s: %d, \"%s\" without \"%s\"", #call, refused_status, err.message, (part)); \
    } while (0)

/* Two fields, a hidden layer, the loss, differentiated, with updates. */
static fth_graph *small(void) {
    static const struct fth_lookup lookups[] = {
        {.field = 0, .table = "user", .dim = 4, .group = -1},
        {.field = 1, .table = "item", .dim = 4, .group = -1},
    };
    uint32_t ids[2];
    fth_id x, parts[2];
    fth_graph *graph;
    OK(fth_graph_create(3, &graph, &err));
    for (int i = 0; i < 2; i++)
        OK(fth_graph_lookup(graph, &lookups[i], &ids[i], &err));
    OK(fth_layer_embedding(graph, "embedding", ids, 2, &parts[0], &err));
    OK(fth_graph_input(graph, FTH_ROLE_DENSE, &parts[1], &err));
    OK(fth_layer_concat(graph, "deep.in", parts, 2, &x, &err));
    OK(fth_layer_linear(graph, "deep.0", x, 5, 1, &x, &err));
    OK(fth_layer_activation(graph, "deep.0", "relu", x, &x, &err));
    OK(fth_layer_linear(graph, "deep.out", x, 1, 1, &graph->logit, &err));
    OK(fth_layer_loss(graph, 0, &err));
    OK(fth_graph_differentiate(graph, &err));
    OK(fth_layer_updates(graph, 0, &err));
    OK(fth_graph_verify(graph, &err));
    return graph;
}

static void test_builder_refuses(void **state) {
    fth_graph *graph;
    fth_id dense, label, weight, out, other;
    uint32_t lookup;
    OK(fth_graph_create(3, &graph, &err));
    OK(fth_graph_input(graph, FTH_ROLE_DENSE, &dense, &err));
    OK(fth_graph_input(graph, FTH_ROLE_DENSE, &other, &err));
    assert_int_equal(dense, other);
    OK(fth_graph_input(graph, FTH_ROLE_LABEL, &label, &err));
    OK(fth_graph_parameter(graph, FTH_ROLE_PARAMETER, "w", 3, 4, FTH_PARAM_ZERO, 0, &weight, &err));
    REFUSED(fth_graph_parameter(graph, FTH_ROLE_STATE, "w", 1, 1, FTH_PARAM_ZERO, 0, &out, &err),
            FTH_E_ARGUMENT, "the name is taken");
    REFUSED(
        fth_graph_parameter(graph, FTH_ROLE_PARAMETER, "v", 1, 0, FTH_PARAM_ZERO, 0, &out, &err),
        FTH_E_ARGUMENT, "no size");
    REFUSED(fth_graph_parameter(graph, FTH_ROLE_PARAMETER, "v", 65536, 65536, FTH_PARAM_ZERO, 0, &out, &err),
            FTH_E_LIMIT, "v: 65536 x 65536 is more than");
    REFUSED(fth_graph_parameter(graph, FTH_ROLE_LABEL, "v", 1, 1, FTH_PARAM_ZERO, 0, &out, &err),
            FTH_E_ARGUMENT, "neither parameter nor state");
    REFUSED(fth_graph_view(graph, dense, 1, 3, &out, &err), FTH_E_ARGUMENT, "outside the 3");
    REFUSED(fth_graph_view(graph, dense, 4, 1, &out, &err), FTH_E_ARGUMENT, "outside");
    REFUSED(fth_graph_view(graph, weight, 0, 2, &out, &err), FTH_E_ARGUMENT, "w is a parameter");
    REFUSED(fth_graph_view(graph, 99, 0, 1, &out, &err), FTH_E_ARGUMENT, "no value 99");
    OK(fth_graph_view(graph, dense, 0, 3, &out, &err));
    assert_int_equal(out, dense);
    REFUSED(fth_layer_add(graph, dense, label, &out, &err), FTH_E_ARGUMENT, "3 columns, input 1 1");
    REFUSED(fth_layer_add(graph, dense, weight, &out, &err), FTH_E_ARGUMENT, "different rows");
    REFUSED(fth_layer_add(graph, dense, 55, &out, &err), FTH_E_ARGUMENT, "value 55");
    REFUSED(fth_layer_fm(graph, "fm", dense, 2, &out, &err), FTH_E_ARGUMENT, "vectors of 2");
    REFUSED(fth_layer_activation(graph, "a", "rellu", dense, &out, &err), FTH_E_CONFIG, "\"relu\"");
    REFUSED(fth_layer_dropout(graph, "d", dense, 1, &out, &err), FTH_E_CONFIG, "[0, 1)");
    REFUSED(fth_layer_loss(graph, 0, &err), FTH_E_ARGUMENT, "no logit");
    REFUSED(fth_graph_differentiate(graph, &err), FTH_E_ARGUMENT, "no loss");
    fth_id inputs[4] = {dense, dense, dense, dense};
    REFUSED(fth_graph_node(graph, &fth_op_sub, "s", inputs, 4, NULL, 0, &out, &err), FTH_E_ARGUMENT,
            "4 inputs, it takes 2 to 2");
    struct fth_lookup one = {.table = "t", .dim = 4, .group = -1},
                      two = {.field = 1, .table = "t", .dim = 8};
    OK(fth_graph_lookup(graph, &one, &lookup, &err));
    REFUSED(fth_graph_lookup(graph, &two, &lookup, &err), FTH_E_CONFIG, "table t: dimension 8");
    uint32_t missing = 7;
    REFUSED(fth_layer_embedding(graph, "e", &missing, 1, &out, &err), FTH_E_ARGUMENT,
            "no lookup 7");
    fth_graph_destroy(graph);
    OK(fth_graph_create(0, &graph, &err));
    REFUSED(fth_graph_input(graph, FTH_ROLE_DENSE, &out, &err), FTH_E_ARGUMENT, "no floats");
    fth_graph_destroy(graph);
    fth_graph_destroy(NULL);
}

static void test_verifier_finds(void **state) {
    fth_graph *graph = small();
    struct fth_node *node = graph->nodes[2]; /* linear */
    fth_id x = node->inputs[0], y = node->outputs[0], view;

    graph->nodes[2] = graph->nodes[3];
    graph->nodes[3] = node;
    REFUSED(fth_graph_verify(graph, &err), FTH_E_ARGUMENT, "used before it is made");
    graph->nodes[3] = graph->nodes[2];
    graph->nodes[2] = node;

    graph->values[y].columns = 6;
    REFUSED(fth_graph_verify(graph, &err), FTH_E_ARGUMENT, "its shape rule gives 5");
    graph->values[y].columns = 5;

    node->inputs[0] = graph->dense;
    REFUSED(fth_graph_verify(graph, &err), FTH_E_ARGUMENT, "deep.0 (linear)");
    node->inputs[0] = 1000;
    REFUSED(fth_graph_verify(graph, &err), FTH_E_ARGUMENT, "value 1000");
    node->inputs[0] = x;

    const char *name = graph->values[node->inputs[1]].name;
    graph->values[node->inputs[1]].name = graph->values[node->inputs[2]].name;
    REFUSED(fth_graph_verify(graph, &err), FTH_E_ARGUMENT, "both parameters named deep.0.bias");
    graph->values[node->inputs[1]].name = name;

    fth_id kept = graph->nodes[3]->outputs[0];
    graph->nodes[3]->outputs[0] = y;
    REFUSED(fth_graph_verify(graph, &err), FTH_E_ARGUMENT, "another producer");
    graph->nodes[3]->outputs[0] = kept;

    graph->nodes[3]->id = node->id;
    REFUSED(fth_graph_verify(graph, &err), FTH_E_ARGUMENT, "both have id");
    graph->nodes[3]->id = node->id + 1;

    fth_id logit = graph->logit;
    graph->logit = y;
    REFUSED(fth_graph_verify(graph, &err), FTH_E_ARGUMENT, "the logit has 5 columns");
    graph->logit = logit;

    OK(fth_graph_view(graph, x, 2, 4, &view, &err));
    OK(fth_graph_verify(graph, &err));
    graph->values[view].view_column = 8;
    REFUSED(fth_graph_verify(graph, &err), FTH_E_ARGUMENT, "columns 8 + 4 lie outside the 11");
    graph->values[view].view_column = UINT32_MAX;
    REFUSED(fth_graph_verify(graph, &err), FTH_E_ARGUMENT, "lie outside");
    graph->values[view].view_column = 2;
    graph->values[view].extent = FTH_TILES;
    REFUSED(fth_graph_verify(graph, &err), FTH_E_ARGUMENT, "not those of its parent");
    graph->values[view].extent = FTH_EXAMPLES;
    graph->values[view].view_of = view;
    REFUSED(fth_graph_verify(graph, &err), FTH_E_ARGUMENT, "a view of the view");
    graph->values[view].view_of = x;
    OK(fth_graph_verify(graph, &err));
    fth_graph_destroy(graph);
}

/* A concatenation whose parts are written in place by their producers: the nodes' outputs are views
 * of a value that no node makes. */
static void test_verifier_takes_filled_buffers(void **state) {
    fth_graph *graph;
    fth_id dense, parts[2], all, sum;
    OK(fth_graph_create(3, &graph, &err));
    OK(fth_graph_input(graph, FTH_ROLE_DENSE, &dense, &err));
    OK(fth_layer_activation(graph, "a", "relu", dense, &parts[0], &err));
    OK(fth_layer_activation(graph, "b", "tanh", dense, &parts[1], &err));
    OK(fth_layer_concat(graph, "cat", parts, 2, &all, &err));
    OK(fth_layer_row_sum(graph, "sum", all, &sum, &err));
    graph->nodes[2] = graph->nodes[3]; /* the concat goes */
    graph->n_nodes = 3;
    graph->values[all].producer = FTH_NONE;
    REFUSED(fth_graph_verify(graph, &err), FTH_E_ARGUMENT, "used before it is made");
    for (uint32_t i = 0; i < 2; i++) {
        graph->values[parts[i]].view_of = all;
        graph->values[parts[i]].view_column = 3 * i;
    }
    OK(fth_graph_verify(graph, &err));
    struct fth_node *late = graph->nodes[1];
    graph->nodes[1] = graph->nodes[2];
    graph->nodes[2] = late;
    REFUSED(fth_graph_verify(graph, &err), FTH_E_ARGUMENT, "used before it is made");
    fth_graph_destroy(graph);
}

static const char golden[] =
    "inputs and parameters\n"
    "  dense [E, 3]\n"
    "  deep.0.weight [11, 5]\n"
    "  deep.0.bias [1, 5]\n"
    "  deep.out.weight [1, 5]\n"
    "  deep.out.bias [1, 1]\n"
    "  label [E, 1]\n"
    "  weight [E, 1]\n"
    "  lookup 0: field 0 in table user, dim 4\n"
    "  lookup 1: field 1 in table item, dim 4\n"
    "forward\n"
    "  %0 [E, 8] = embedding() lookups=0,1  # embedding\n"
    "  %2 [E, 11] = concat(%0, dense)  # deep.in\n"
    "  %5 [E, 5] = linear(%2, deep.0.weight, deep.0.bias) act=none  # deep.0\n"
    "  %6 [E, 5] = bias_act(%5) act=relu  # deep.0\n"
    "  %9 [E, 1] = row_dot(%6, deep.out.weight, deep.out.bias)  # deep.out\n"
    "  %12 [E, 1], %13 [E, 1] = bce(%9, label, weight) smoothing=0 training only  # loss\n"
    "  %14 [T, 1] = col_sum(%12) training only  # loss\n"
    "  %15 [1, 1] = sum_tiles(%14) mean training only  # loss\n"
    "backward\n"
    "  %16 [T, 1] = col_sum(%13)  # deep.out\n"
    "  %17 [T, 5] = row_dot_weight_grad(%6, %13)  # deep.out\n"
    "  %18 [E, 5] = row_dot_data_grad(%13, deep.out.weight)  # deep.out\n"
    "  %19 [E, 5] = act_grad(%6, %18) act=relu  # deep.0\n"
    "  %20 [T, 5] = col_sum(%19)  # deep.0\n"
    "  %21 [11, 5] = linear_weight_grad(%2, %19)  # deep.0\n"
    "  %22 [E, 11] = linear_data_grad(%19, deep.0.weight) act=none  # deep.0\n"
    "update\n"
    "  update(deep.0.weight, %21, -)  # deep.0.weight\n"
    "  update(deep.0.bias, %20, -)  # deep.0.bias\n"
    "  update(deep.out.weight, %17, -)  # deep.out.weight\n"
    "  update(deep.out.bias, %16, -)  # deep.out.bias\n"
    "  embedding_update(%22[0:8]) lookups=2  # rows\n"
    "logit %9\n";

static void test_print(void **state) {
    fth_graph *graph = small();
    struct fth_text text = {0}, dot = {0};
    fth_graph_print(graph, &text);
    assert_int_equal(text.failed, 0);
    if (strcmp(fth_text_get(&text), golden))
        fail_msg("printed:\n%s", fth_text_get(&text));
    fth_graph_print_dot(graph, &dot);
    assert_ptr_equal(strstr(fth_text_get(&dot), "digraph fathom {"), fth_text_get(&dot));
    assert_non_null(strstr(fth_text_get(&dot), "label=\"linear\\ndeep.0\""));
    assert_non_null(strstr(fth_text_get(&dot), "n0 -> n1 [label=\"[E, 8]\"];"));
    assert_string_equal(fth_text_get(&dot) + dot.length - 2, "}\n");
    fth_text_free(&text);
    fth_text_free(&dot);
    fth_graph_destroy(graph);
}

/* Parameters behind no loss have no gradient and no update; the batch's floats never do. */
static void test_gradients_where_needed(void **state) {
    fth_graph *graph = small();
    fth_id unused;
    assert_int_equal(graph->values[graph->dense].gradient, FTH_NONE);
    assert_int_equal(graph->values[graph->label].gradient, FTH_NONE);
    uint32_t updates = 0, rows = 0, data_grads = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        updates += graph->nodes[i]->op == &fth_op_update;
        rows += graph->nodes[i]->op == &fth_op_embedding_update;
        data_grads += graph->nodes[i]->op == &fth_op_linear_data_grad;
    }
    assert_int_equal(updates, 4);
    assert_int_equal(rows, 1);
    assert_int_equal(data_grads, 1);
    fth_graph_destroy(graph);
    OK(fth_graph_create(3, &graph, &err));
    OK(fth_graph_input(graph, FTH_ROLE_DENSE, &unused, &err));
    OK(fth_layer_linear(graph, "idle", unused, 4, 1, &unused, &err));
    OK(fth_layer_linear(graph, "fc", graph->dense, 1, 1, &graph->logit, &err));
    OK(fth_layer_loss(graph, 0, &err));
    OK(fth_graph_differentiate(graph, &err));
    OK(fth_layer_updates(graph, 0, &err));
    OK(fth_graph_verify(graph, &err));
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        assert_true(graph->nodes[i]->op != &fth_op_embedding_update);
        if (graph->nodes[i]->op == &fth_op_update)
            assert_non_null(strstr(graph->nodes[i]->name, "fc."));
    }
    fth_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_builder_refuses),
        cmocka_unit_test(test_verifier_finds),
        cmocka_unit_test(test_verifier_takes_filled_buffers),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_gradients_where_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
