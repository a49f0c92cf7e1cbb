/* What operations mean beyond their gradients: batch statistics in training and evaluation,
 * dropout, weights of the loss, decay, max pooling's outputs, costs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "gradcheck.h"

static struct gradcheck made(void) {
    struct gradcheck check = {.group = -1, .dense = 3};
    CHECK_OK(&check, fth_graph_create(check.dense, &check.graph, &check.err));
    return check;
}

static int near(double a, double b, double tolerance) {
    return fabs(a - b) <= tolerance * (1 + fabs(b));
}

/* 7 positions of 5 examples in tiles of 2: the last example has none. */
static void test_batch_norm(void **state) {
    static const uint32_t offsets[] = {0, 0, 3, 3, 7, 7};
    struct gradcheck c = made();
    fth_id x = gradcheck_input(&c, 0, 3), y;
    CHECK_OK(&c, fth_layer_batch_norm(c.graph, "bn", x, 0, &y, &c.err));
    struct interpret_options options = {.examples = 5, .tile = 2, .offsets = {offsets}};
    struct interpret *it = interpret_create(c.graph, &options);
    fth_id mean = gradcheck_named(c.graph, "bn.running_mean"),
           variance = gradcheck_named(c.graph, "bn.running_variance");
    double sum[3] = {0}, squares[3] = {0};
    for (uint32_t j = 0; j < 3; j++) {
        *interpret_at(it, mean, 0, j) = 2;
        *interpret_at(it, variance, 0, j) = 3;
        for (uint32_t r = 0; r < 7; r++) {
            *interpret_row_at(it, 0, r, j) = 100 + (float)((r * 5 + j * 3) % 11);
            sum[j] += *interpret_row_at(it, 0, r, j);
        }
        for (uint32_t r = 0; r < 7; r++)
            squares[j] += pow(*interpret_row_at(it, 0, r, j) - sum[j] / 7, 2);
    }
    interpret_run(it, FTH_FORWARD);
    for (uint32_t j = 0; j < 3; j++) {
        assert_true(near(*interpret_at(it, mean, 0, j), 0.9 * 2 + 0.1 * sum[j] / 7, 1e-6));
        assert_true(near(*interpret_at(it, variance, 0, j), 0.9 * 3 + 0.1 * squares[j] / 6, 1e-6));
        for (uint32_t r = 0; r < 7; r++) {
            double z = (*interpret_row_at(it, 0, r, j) - sum[j] / 7) / sqrt(squares[j] / 7 + 1e-5);
            assert_true(near(*interpret_at(it, y, r, j), z, 1e-5));
        }
    }
    float means[3], variances[3], rows[21];
    for (uint32_t i = 0; i < 21; i++)
        rows[i] = *interpret_row_at(it, 0, i / 3, i % 3);
    for (uint32_t j = 0; j < 3; j++) {
        means[j] = *interpret_at(it, mean, 0, j);
        variances[j] = *interpret_at(it, variance, 0, j);
    }
    interpret_destroy(it);
    options.evaluate = 1;
    it = interpret_create(c.graph, &options);
    for (uint32_t i = 0; i < 21; i++)
        *interpret_row_at(it, 0, i / 3, i % 3) = rows[i];
    for (uint32_t j = 0; j < 3; j++) {
        *interpret_at(it, mean, 0, j) = means[j];
        *interpret_at(it, variance, 0, j) = variances[j];
    }
    interpret_run(it, FTH_UPDATE);
    for (uint32_t j = 0; j < 3; j++) {
        for (uint32_t r = 0; r < 7; r++) {
            double z = ((double)rows[r * 3 + j] - means[j]) / sqrt((double)variances[j] + 1e-5);
            assert_true(near(*interpret_at(it, y, r, j), z, 1e-5));
        }
        assert_true(*interpret_at(it, mean, 0, j) == means[j]);
        assert_true(*interpret_at(it, variance, 0, j) == variances[j]);
    }
    interpret_destroy(it);
    fth_graph_destroy(c.graph);
}

/* A batch of one row has no unbiased variance, one without rows no moments at all. */
static void test_batch_norm_few_rows(void **state) {
    static const uint32_t one[] = {0, 0, 1}, none[] = {0, 0, 0};
    const uint32_t *groups[] = {one, none};
    for (int i = 0; i < 2; i++) {
        struct gradcheck c = made();
        fth_id x = gradcheck_input(&c, 0, 1), y;
        CHECK_OK(&c, fth_layer_batch_norm(c.graph, "bn", x, 1, &y, &c.err));
        struct interpret_options options = {.examples = 2, .tile = 1, .offsets = {groups[i]}};
        struct interpret *it = interpret_create(c.graph, &options);
        *interpret_at(it, gradcheck_named(c.graph, "bn.running_variance"), 0, 0) = 3;
        *interpret_at(it, gradcheck_named(c.graph, "bn.running_mean"), 0, 0) = 1;
        *interpret_at(it, gradcheck_named(c.graph, "bn.shift"), 0, 0) = 0.5f;
        if (i == 0)
            *interpret_row_at(it, 0, 0, 0) = 11;
        interpret_run(it, FTH_FORWARD);
        assert_true(*interpret_at(it, gradcheck_named(c.graph, "bn.running_variance"), 0, 0) == 3);
        assert_true(
            near(*interpret_at(it, gradcheck_named(c.graph, "bn.running_mean"), 0, 0), i ? 1 : 2, 1e-6));
        if (i == 0)
            assert_true(near(*interpret_at(it, y, 0, 0), 0.5, 1e-3));
        interpret_destroy(it);
        fth_graph_destroy(c.graph);
    }
}

static void test_dropout(void **state) {
    struct gradcheck c = made();
    fth_id x = gradcheck_input(&c, -1, 40), y, z;
    CHECK_OK(&c, fth_layer_dropout(c.graph, "one", x, 0.25f, &y, &c.err));
    CHECK_OK(&c, fth_layer_dropout(c.graph, "two", x, 0.25f, &z, &c.err));
    for (int evaluate = 0; evaluate < 2; evaluate++) {
        struct interpret_options options = {
            .examples = 50, .tile = 7, .seed = 5, .step = 9, .evaluate = evaluate};
        struct interpret *it = interpret_create(c.graph, &options);
        uint32_t kept = 0, differ = 0;
        for (uint32_t i = 0; i < 2000; i++)
            *interpret_row_at(it, 0, i / 40, i % 40) = 3;
        interpret_run(it, FTH_FORWARD);
        for (uint32_t i = 0; i < 2000; i++) {
            float value = *interpret_at(it, y, i / 40, i % 40);
            assert_true(value == (evaluate ? 3.0f : 4.0f) || (!evaluate && value == 0));
            kept += value != 0;
            differ += (value != 0) != (*interpret_at(it, z, i / 40, i % 40) != 0);
        }
        assert_true(evaluate ? kept == 2000 : kept > 1400 && kept < 1600);
        assert_true(evaluate ? differ == 0 : differ > 600); /* each layer draws for itself */
        interpret_destroy(it);
    }
    fth_graph_destroy(c.graph);
}

/* Labels smoothed, weights given or all 1; the loss is the mean over examples. */
static void test_loss(void **state) {
    for (int weights = 0; weights < 2; weights++) {
        struct gradcheck c = made();
        c.graph->logit = gradcheck_input(&c, -1, 1);
        CHECK_OK(&c, fth_layer_loss(c.graph, 0.2f, &c.err));
        struct interpret_options options = {.examples = 5, .tile = 2, .weights = weights};
        struct interpret *it = interpret_create(c.graph, &options);
        double want = 0;
        for (uint32_t i = 0; i < 5; i++) {
            double z = 1.5 * i - 3, t = (i % 2) * 0.8 + 0.1, w = weights ? 0.5 + i : 1;
            *interpret_row_at(it, 0, i, 0) = (float)z;
            *interpret_at(it, c.graph->label, i, 0) = (float)(i % 2);
            *interpret_at(it, c.graph->weight, i, 0) = (float)w;
            want += w * (-t * log(1 / (1 + exp(-z))) - (1 - t) * log(1 / (1 + exp(z)))) / 5;
        }
        interpret_run(it, FTH_FORWARD);
        assert_true(near(*interpret_at(it, c.graph->loss, 0, 0), want, 1e-6));
        interpret_destroy(it);
        fth_graph_destroy(c.graph);
    }
}

/* Biases and norms are not decayed, weights are. */
static void test_decay(void **state) {
    struct gradcheck c = made();
    fth_id x = gradcheck_input(&c, -1, 2), y;
    CHECK_OK(&c, fth_layer_linear(c.graph, "fc", x, 3, 1, &y, &c.err));
    CHECK_OK(&c, fth_layer_activation(c.graph, "fc", "prelu", y, &y, &c.err));
    CHECK_OK(&c, fth_layer_layer_norm(c.graph, "ln", y, &y, &c.err));
    CHECK_OK(&c, fth_layer_batch_norm(c.graph, "bn", y, 1, &y, &c.err));
    for (uint32_t i = 0; i < c.graph->n_values; i++)
        if (c.graph->values[i].role == FTH_ROLE_PARAMETER)
            assert_int_equal(c.graph->values[i].no_decay,
                             strcmp(c.graph->values[i].name, "fc.weight") != 0);
    fth_graph_destroy(c.graph);
}

static fth_id embedded(struct gradcheck *c, uint32_t *lookups) {
    fth_id out;
    for (uint32_t i = 0; i < 2; i++) {
        struct fth_lookup lookup = {.field = i,
                                    .table = i ? "b" : "a",
                                    .dim = 3,
                                    .group = i ? 0 : -1,
                                    .pooling = i ? FTH_POOL_MAX : FTH_POOL_NONE};
        CHECK_OK(c, fth_graph_lookup(c->graph, &lookup, &lookups[i], &c->err));
    }
    CHECK_OK(c, fth_layer_embedding(c->graph, "e", lookups, 2, &out, &c->err));
    return out;
}

/* One entry a lookup, of whatever pooling; the clip factor comes behind the gradients. */
static void test_row_entries(void **state) {
    struct gradcheck c = made();
    uint32_t lookups[2];
    fth_id out = embedded(&c, lookups);
    CHECK_OK(&c, fth_layer_linear(c.graph, "fc", out, 1, 1, &c.graph->logit, &c.err));
    CHECK_OK(&c, fth_layer_loss(c.graph, 0, &c.err));
    CHECK_OK(&c, fth_graph_differentiate(c.graph, &c.err));
    CHECK_OK(&c, fth_layer_updates(c.graph, 1, &c.err));
    CHECK_OK(&c, fth_graph_verify(c.graph, &c.err));
    const struct fth_node *update = c.graph->nodes[c.graph->n_nodes - 1];
    const struct fth_row_update_attributes *a = update->attributes;
    assert_ptr_equal(update->op, &fth_op_embedding_update);
    assert_int_equal(a->n, 2);
    assert_int_equal(update->n_inputs, 2);
    assert_int_equal(a->entries[0].column, 0);
    assert_int_equal(a->entries[1].column, 3);
    assert_int_equal(a->clip, 1);
    fth_graph_destroy(c.graph);
}

static void test_costs(void **state) {
    struct gradcheck c = made();
    fth_id x = gradcheck_input(&c, -1, 6), y;
    CHECK_OK(&c, fth_layer_linear(c.graph, "fc", x, 4, 0, &y, &c.err));
    CHECK_OK(&c, fth_layer_linear(c.graph, "out", y, 1, 0, &c.graph->logit, &c.err));
    CHECK_OK(&c, fth_layer_loss(c.graph, 0, &c.err));
    CHECK_OK(&c, fth_graph_differentiate(c.graph, &c.err));
    for (uint32_t i = 0; i < c.graph->n_nodes; i++) {
        const struct fth_node *node = c.graph->nodes[i];
        struct fth_cost cost = {0};
        node->op->cost(c.graph, node, 100, 0, &cost);
        assert_true(cost.bytes > 0);
        if (node->op == &fth_op_linear || node->op == &fth_op_linear_data_grad ||
            node->op == &fth_op_linear_weight_grad)
            assert_true(cost.flops == 2.0 * 100 * 6 * 4);
        if (node->op == &fth_op_linear)
            assert_true(cost.bytes == 4.0 * (100 * 6 + 6 * 4 + 100 * 4));
    }
    for (const struct fth_op *const *op = fth_ops(); *op; op++) {
        assert_non_null((*op)->cost);
        assert_non_null((*op)->run);
        assert_non_null((*op)->shape);
        for (const struct fth_op *const *other = fth_ops(); other != op; other++)
            assert_string_not_equal((*op)->name, (*other)->name);
    }
    fth_graph_destroy(c.graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_norm),
        cmocka_unit_test(test_batch_norm_few_rows),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_decay),
        cmocka_unit_test(test_row_entries),
        cmocka_unit_test(test_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
