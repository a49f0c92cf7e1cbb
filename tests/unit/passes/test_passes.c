/* Passes change no bit: each model trained some steps with and without each of them ends in one digest. Those that
 * say that they round otherwise are held to 1e-6 in test_attention.c and test_factorise.c. And each does something, and leaves a graph
 * that the verifier accepts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/cpu.h"
#include "graph/op.h"
#include "kernels/gemm.h"
#include "model/model.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "runs.h"
#include "zoo.h"

#if defined(__SANITIZE_THREAD__)
#define STEPS 6 /* every load is watched: these must do */
#else
#define STEPS 20
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

static void train(const char *model, const char *without, const char *extra, char digest[17]) {
    struct run run = {.config = run_config(model, run_data(0)),
                      .overrides = {"train.max_steps=" TEXT(STEPS), without, extra}};
    run_train_ok(&run);
    assert_int_equal(run.training.steps, STEPS);
    memcpy(digest, run.digest, 17);
}

static int rounds(const char *name) {
    for (const struct fth_pass *const *pass = fth_passes(); *pass; pass++)
        if (!strcmp((*pass)->name, name))
            return (*pass)->rounding;
    return strcmp(name, "gemm_choice") == 0;
}

static void test_same_bits(void **state) {
    char all[512] = "without=[";
    for (const char *const *name = fth_pass_names(); *name; name++)
        if (!rounds(*name))
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", all[9] ? ", " : "", *name);
    snprintf(all + strlen(all), sizeof all - strlen(all), "]");
    assert_true(strlen(all) < sizeof all - 1);
    for (const struct fth_model *const *model = fth_models(); *model; model++) {
        char expected[17], got[17], without[64];
        train((*model)->name, "without=[]", NULL, expected);
        for (const char *const *name = fth_pass_names(); *name; name++) {
            if (rounds(*name) &&
                (strstr("din dien dsin atbrg", (*model)->name) ||
                 !strcmp(*name, "factorise_first_layer") || !strcmp(*name, "gemm_choice")))
                continue;
            snprintf(without, sizeof without, "without=[%s]", *name);
            train((*model)->name, without, NULL, got);
            if (strcmp(expected, got))
                fail_msg("%s: %s changed bits", (*model)->name, without);
        }
        train((*model)->name, all, NULL, got);
        assert_string_equal(expected, got);
    }
}

/* Where a pass must hold back: clipping needs whole gradients, LAMB whole parameters. */
static void test_same_bits_where_passes_hold_back(void **state) {
    static const char *const extras[] = {"train.clip_norm=0.5", "optimizer.dense={name: lamb, lr: 0.01}"};
    for (size_t i = 0; i < 2; i++) {
        char expected[17], got[17];
        train("wide_deep", "without=[]", extras[i], expected);
        train("wide_deep", "without=[fuse_updates, concat_in_place, fuse_activations]", extras[i], got);
        assert_string_equal(expected, got);
    }
}

/* Its parameters are cut into blocks: 400 x 200 are five. */
static void test_lamb_at_any_thread_count(void **state) {
    char digests[3][17];
    for (int i = 0; i < 3; i++) {
        static const char *const threads[] = {"threads=1", "threads=2", "threads=5"};
        struct run run = {.config = run_config("wide_deep", run_data(0)),
                          .overrides = {"train.max_steps=10", "optimizer.dense={name: lamb, lr: 0.01}",
                                        "model.hidden=[400, 200]", threads[i]}};
        run_train_ok(&run);
        memcpy(digests[i], run.digest, 17);
        assert_string_equal(digests[0], digests[i]);
    }
}

/* What products round, rounded once: whole and part tiles of a batch, weights' gradients known whole or used block by
 * block. A tile of 40 is made 64. */
static void test_round_once(void **state) {
    static const char *const cases[][3] = {
        {"train.batch_size=100", "without=[]", "without=[round_once]"},
        {"train.clip_norm=0.5", "without=[]", "without=[round_once]"},
        {"tile=40", "without=[tile_weight_grads]", "without=[tile_weight_grads, round_once]"}};
    if (!fth_cpu_get()->amx_bf16)
        skip();
    for (const struct fth_model *const *model = fth_models(); *model; model++)
        for (size_t i = 0; i < 3; i++) {
            struct run expected = {.config = run_config((*model)->name, run_data(0)),
                                   .overrides = {"train.max_steps=10", "precision=bf16", cases[i][0], cases[i][1]}};
            struct run run = expected;
            run_train_ok(&expected);
            run.overrides[3] = cases[i][2];
            run_train_ok(&run);
            if (strcmp(expected.digest, run.digest))
                fail_msg("%s: round_once changed bits where %s, %s", (*model)->name, cases[i][0], cases[i][1]);
        }
}

/* Layers that are rounded as they are made, and their gradients: without, and where other passes leave them other nodes. */
static void test_rounded_as_made(void **state) {
    static const char *const models[][2] = {
        {"wide_deep", "model={name: wide_deep, hidden: [150, 70, 33, 8]}"},
        {"dcnv2", "model={name: dcnv2, hidden: [70, 40], cross_layers: 3}"},
        {"dlrm", "model={name: dlrm, bottom: [70, 33, 8], top: [40, 20]}"},
        {"deepfm", "model={name: deepfm, hidden: [70, 33], activation: sigmoid}"}};
    static const char *const others[] = {"", "round_once", "fuse_act_grads", "fuse_crosses", "weight_panels",
                                         "sum_in_product"};
    if (!fth_cpu_get()->amx_bf16)
        skip();
    for (size_t i = 0; i < 4; i++)
        for (int variant = 0; variant < 4; variant++) {
            char expected[17], without[64];
            for (size_t j = 0; j < 6; j++) {
                const char *whole = variant < 2 ? "tile_weight_grads" : "", *comma = *whole && *others[j] ? ", " : "";
                snprintf(without, sizeof without, "without=[%s%s%s]", whole, comma, others[j]);
                struct run run = {.config = run_config(models[i][0], run_data(0)),
                                  .overrides = {models[i][1], "train.max_steps=10", "precision=bf16", without,
                                                j == 0 ? "threads=3" : "threads=2", variant % 2 ? "tile=40" : NULL}};
                run_train_ok(&run);
                if (j == 0)
                    memcpy(expected, run.digest, 17);
                else if (strcmp(expected, run.digest))
                    fail_msg("%s: %s changed bits", models[i][0], without);
            }
        }
}

/* Products that add what there is to a gradient. */
static uint32_t count_adding(const fth_graph *graph) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        n += graph->nodes[i]->op == &fth_op_linear_data_grad && graph->nodes[i]->n_inputs == 5;
    return n;
}

/* Recurrent layers that keep their gates where the inputs of these came from. */
static uint32_t count_kept_in_place(const fth_graph *graph) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        if (node->op == &fth_op_gru || node->op == &fth_op_lstm)
            n += fth_graph_root(graph, node->inputs[FTH_RECURRENT_X]) == node->outputs[1];
    }
    return n;
}

/* Recurrent layers whose gradient lies over what they kept. */
static uint32_t count_over_kept(const fth_graph *graph) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        if (node->op == &fth_op_gru_grad || node->op == &fth_op_lstm_grad)
            n += fth_graph_root(graph, node->outputs[0]) == node->inputs[5];
    }
    return n;
}

static void test_unknown_names(void **state) {
    struct run run = {.config = run_config("lr", run_data(0)), .overrides = {"without=[fuse_update]"}};
    run_train(&run);
    assert_int_equal(run.status, FTH_E_CONFIG);
    assert_non_null(strstr(run.error.message, "did you mean 'fuse_updates'"));
}

static uint32_t count_ops(const fth_graph *graph, const char *op) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        n += strcmp(graph->nodes[i]->op->name, op) == 0;
    return n;
}

/* zoo_graph verifies; here: the graph is another one where the pass has work. */
static void test_each_does_something(void **state) {
    for (const struct fth_model *const *model = fth_models(); *model; model++) {
        const char *name = (*model)->name;
        int deep = strcmp(name, "lr") && strcmp(name, "fm");
        struct zoo_options with = {.model = name, .plain = 1};
        fth_graph *full = zoo_graph(&with);
        for (const struct fth_pass *const *pass = fth_passes(); *pass; pass++) {
            struct zoo_options without = {.model = name, .plain = 1, .without = (*pass)->name};
            fth_graph *graph = zoo_graph(&without);
            if (!strcmp((*pass)->name, "fuse_updates")) {
                assert_int_equal(count_ops(graph, "linear_update"), 0);
                uint32_t shared = count_ops(full, "linear_weight_grad"); /* weights of several layers */
                assert_int_equal(count_ops(full, "linear_update") + shared, count_ops(graph, "linear_weight_grad"));
                assert_int_equal(shared > 0, !strcmp(name, "atbrg"));
                assert_int_equal(count_ops(graph, "domain_update"), 0);
                assert_int_equal(count_ops(full, "domain_update"), count_ops(graph, "domain_linear_weight_grad"));
                assert_int_equal(count_ops(full, "domain_update") > 0, !strcmp(name, "star"));
            } else if (!strcmp((*pass)->name, "train_sums")) {
                int linear = strstr("lr fm deepfm xdeepfm wide_deep", name) != NULL;
                assert_int_equal(count_ops(full, "row_sum_grad"), 0);
                assert_int_equal(count_ops(graph, "row_sum_grad"), linear);
            } else if (!strcmp((*pass)->name, "round_once")) {
                assert_int_equal(count_ops(full, "to_tiles"), 0);
                for (int precision = FTH_BF16; precision < FTH_PRECISIONS; precision++) {
                    fth_graph *reduced = zoo_graph(&(struct zoo_options){.model = name, .plain = 1, .precision = precision});
                    assert_int_equal(count_ops(reduced, "to_tiles") > 0, deep && fth_cpu_get()->amx_bf16);
                    /* Layers but the last one, whose numbers something else reads, are rounded as they are made, and back. */
                    uint32_t rounded = count_ops(reduced, "linear_rounded");
                    assert_int_equal(rounded, count_ops(reduced, "linear_data_grad_rounded"));
                    if (strstr("wide_deep deepfm dlrm dcnv2", name)) {
                        assert_int_equal(rounded > 0, deep && fth_cpu_get()->amx_bf16);
                        assert_int_equal(count_ops(reduced, "linear_tile_grad") > 0, deep && fth_cpu_get()->amx_bf16);
                        if (deep && strcmp(name, "dcn")) /* whose cross layers read that gradient, too */
                            assert_int_equal(count_ops(reduced, "row_dot_data_grad"), !fth_cpu_get()->amx_bf16);
                    }
                    fth_graph_destroy(reduced);
                }
            } else if (!strcmp((*pass)->name, "split_attention") && !strcmp(name, "din")) {
                assert_int_equal(count_ops(full, "attention_weights"), 1);
                assert_int_equal(count_ops(full, "attention_layer"), 1);
                assert_int_equal(count_ops(full, "expand"), 0);
                assert_int_equal(count_ops(graph, "attention_weights"), 0);
                assert_int_equal(count_ops(graph, "expand"), 1);
            } else if (!strcmp((*pass)->name, "gate_split") && !strcmp(name, "dien")) {
                assert_int_equal(count_ops(full, "linear"), count_ops(graph, "linear") + 2);
                assert_int_equal(count_ops(full, "gru"), 2);
            } else if (!strcmp((*pass)->name, "fuse_dice") && !strcmp(name, "din")) {
                assert_int_equal(count_ops(full, "dice"), count_ops(graph, "dice_gate"));
                assert_true(count_ops(full, "dice") > 0 && count_ops(full, "bn_apply") == 0);
            } else if (!strcmp((*pass)->name, "fuse_key_grads") && !strcmp(name, "din")) {
                assert_int_equal(count_ops(full, "segment_dot"), 1);
                assert_int_equal(count_ops(full, "segment_sum_grad"), 0);
                assert_int_equal(count_ops(graph, "segment_sum_grad"), 1);
            } else if (!strcmp((*pass)->name, "fuse_crosses") && !strcmp(name, "dcnv2")) {
                /* A sum a layer and the first one's other way to x0: each is a node less. */
                uint32_t layers = count_ops(full, "mul_add");
                assert_true(layers > 1 && count_ops(full, "mul_add_grad") == layers);
                assert_int_equal(count_ops(full, "add") + count_adding(full) + layers + 1,
                                 count_ops(graph, "add") + count_adding(graph));
            } else if (!strcmp((*pass)->name, "sum_in_product") && strstr("dcnv2 dien dsin", name)) {
                assert_true(count_adding(full) > 0 && count_adding(graph) == 0);
                assert_int_equal(count_ops(full, "add") + count_adding(full), count_ops(graph, "add"));
            } else if (!strcmp((*pass)->name, "gates_in_place")) {
                assert_int_equal(count_over_kept(full), strstr("dien dsin", name) ? 2 : 0);
                assert_int_equal(count_over_kept(graph), 0);
                assert_int_equal(count_kept_in_place(full), count_over_kept(full));
                assert_int_equal(count_kept_in_place(graph), 0);
            } else if (!strcmp((*pass)->name, "fuse_act_grads") && !strcmp(name, "dlrm")) {
                uint32_t fused = 0;
                for (uint32_t i = 0; i < full->n_nodes; i++)
                    fused += full->nodes[i]->op == &fth_op_linear_data_grad && full->nodes[i]->n_inputs == 4;
                assert_true(fused > 0);
                assert_int_equal(count_ops(full, "act_grad") + fused, count_ops(graph, "act_grad"));
            } else if (!strcmp((*pass)->name, "fuse_act_grads") && !strcmp(name, "star")) {
                assert_true(count_ops(full, "act_grad") < count_ops(graph, "act_grad"));
            } else if (!strcmp((*pass)->name, "fuse_attention") && !strcmp(name, "din")) {
                struct zoo_options sigmoid = {
                    .model = name, .plain = 1, .attention_activation = "sigmoid"};
                fth_graph *fused = zoo_graph(&sigmoid);
                assert_int_equal(count_ops(fused, "attention_unit"), 1);
                assert_int_equal(count_ops(fused, "attention_unit_grad"), 1);
                assert_int_equal(count_ops(fused, "attention_layer"), 0);
                fth_graph_destroy(fused);
                assert_int_equal(count_ops(full, "attention_unit"), 0);
            } else if (!strcmp((*pass)->name, "recompute_dice") && !strcmp(name, "din")) {
                assert_int_equal(count_ops(full, "row_dot_data_grad"),
                                 count_ops(graph, "row_dot_data_grad") + 2);
            } else if (!strcmp((*pass)->name, "tile_weight_grads") && !strcmp(name, "din")) {
                assert_int_equal(count_ops(full, "linear_tile_grad"), 2);
                assert_int_equal(count_ops(graph, "linear_tile_grad"), 1);
                assert_true(!deep || count_ops(full, "linear_update") > 0);
            } else if (!strcmp((*pass)->name, "fuse_activations") && deep && strcmp(name, "din")) {
                assert_true(full->n_nodes < graph->n_nodes);
            } else if (!strcmp((*pass)->name, "concat_in_place") && deep) {
                uint32_t views = 0, plain_views = 0;
                for (uint32_t v = 0; v < full->n_values; v++)
                    views += full->values[v].view_of != FTH_NONE;
                for (uint32_t v = 0; v < graph->n_values; v++)
                    plain_views += graph->values[v].view_of != FTH_NONE;
                assert_true(views > plain_views);
            }
            fth_graph_destroy(graph);
        }
        with.clip_norm = 1;
        fth_graph *clipped = zoo_graph(&with);
        assert_int_equal(count_ops(clipped, "linear_update") + count_ops(clipped, "domain_update"), 0);
        fth_graph_destroy(clipped);
        fth_graph_destroy(full);
    }
}

/* Recurrent layers read fp32, linear ones what the graph's precision says: a weight of both has no panels. */
static void test_panels_of_two_precisions(void **state) {
    const struct fth_pass *panels = NULL;
    for (const struct fth_pass *const *pass = fth_passes(); *pass; pass++)
        if (!strcmp((*pass)->name, "weight_panels"))
            panels = *pass;
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (int shared = 0; shared < 2; shared++) {
            struct zoo_options options = {.model = "dsin", .plain = 1, .no_passes = 1};
            fth_graph *graph = zoo_graph(&options);
            struct fth_node *linear = NULL, *lstm = NULL;
            for (uint32_t i = 0; i < graph->n_nodes; i++) {
                if (!linear && !strcmp(graph->nodes[i]->op->name, "linear"))
                    linear = graph->nodes[i];
                if (!lstm && !strcmp(graph->nodes[i]->op->name, "lstm"))
                    lstm = graph->nodes[i];
            }
            assert_true(linear && lstm);
            fth_id weight = linear->inputs[1], own = lstm->inputs[FTH_RECURRENT_W];
            if (shared)
                lstm->inputs[FTH_RECURRENT_W] = weight;
            graph->precision = bf16;
            fth_error err = {0};
            assert_int_equal(panels->run(graph, &err), FTH_OK);
            assert_int_equal(graph->values[weight].panels, shared && bf16 ? 0 : 1 + bf16);
            assert_int_equal(graph->values[own].panels, shared ? 0 : 1);
            for (uint32_t v = 0; v < graph->n_values; v++)
                assert_in_range(graph->values[v].panels, 0, 1 + bf16);
            fth_graph_destroy(graph);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_does_something),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_same_bits_where_passes_hold_back),
        cmocka_unit_test(test_lamb_at_any_thread_count),
        cmocka_unit_test(test_round_once),
        cmocka_unit_test(test_rounded_as_made),
        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_panels_of_two_precisions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
