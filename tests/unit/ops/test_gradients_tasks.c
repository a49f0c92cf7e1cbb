/* Operations of models with several tasks or domains: backward against finite differences, several tiles against one, and
 * values by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "gradcheck.h"

static fth_id row_softmax(struct gradcheck *c) {
    fth_id y;
    CHECK_OK(c, fth_layer_row_softmax(c->graph, "s", gradcheck_input(c, c->group, c->columns), &y, &c->err));
    return y;
}

static fth_id mix_experts(struct gradcheck *c) {
    fth_id y, gates = gradcheck_input(c, c->group, c->columns), x = gradcheck_input(c, c->group, 3 * c->columns);
    CHECK_OK(c, fth_layer_mix_experts(c->graph, "m", gates, x, &y, &c->err));
    return y;
}

/* As a model has them: gates and experts are views, the experts of several mixtures. */
static fth_id gated(struct gradcheck *c) {
    fth_id all = gradcheck_input(c, c->group, 6), x = gradcheck_input(c, c->group, 3 * 4), y[2];
    for (uint32_t t = 0; t < 2; t++) {
        CHECK_OK(c, fth_graph_view(c->graph, all, t * 3, 3, &y[t], &c->err));
        CHECK_OK(c, fth_layer_row_softmax(c->graph, "s", y[t], &y[t], &c->err));
        CHECK_OK(c, fth_layer_mix_experts(c->graph, "m", y[t], x, &y[t], &c->err));
    }
    CHECK_OK(c, fth_layer_concat(c->graph, "c", y, 2, &y[0], &c->err));
    return y[0];
}

/* ---- domains: the batch's floats, whose first column above 1/2 is the row's, else the last ---- */

static fth_id domain_of(struct gradcheck *c) {
    fth_id domain;
    CHECK_OK(c, fth_graph_input(c->graph, FTH_ROLE_DENSE, &domain, &c->err));
    return domain;
}

static fth_id domain_linear(struct gradcheck *c, uint32_t in, uint32_t out) {
    fth_id y, x = gradcheck_input(c, -1, in), domain = domain_of(c);
    CHECK_OK(c, fth_layer_domain_linear(c->graph, "d", x, domain, out, &y, &c->err));
    return y;
}

static fth_id domain_linear_wide(struct gradcheck *c) {
    return domain_linear(c, 150, 270);
}
static fth_id domain_linear_to_one(struct gradcheck *c) {
    return domain_linear(c, 7, 1);
}
static fth_id domain_linear_of_one(struct gradcheck *c) {
    return domain_linear(c, 1, 5);
}
static fth_id domain_linear_one(struct gradcheck *c) {
    return domain_linear(c, 1, 1);
}

static fth_id partitioned_norm(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, -1, 35), domain = domain_of(c);
    CHECK_OK(c, fth_layer_partitioned_norm(c->graph, "p", x, domain, &y, &c->err));
    return y;
}

static const float task_weights[] = {1, 0, 0.25f, 3};

/* The loss of several tasks, an output each. */
static fth_id tasks(struct gradcheck *c) {
    c->graph->n_tasks = 4;
    c->graph->task_weights = task_weights;
    c->graph->logit = gradcheck_input(c, -1, 4);
    return FTH_NONE;
}

static const struct gradcheck_shape shapes[] = {
    {.examples = 1, .tile = 4, .columns = 1, .group = -1},
    {.examples = 1, .tile = 1, .columns = 17, .group = 0},
    {.examples = 8, .tile = 3, .columns = 5, .group = -1},
    {.examples = 8, .tile = 1, .columns = 3, .group = 0},
};

static void test_gradients(void **state) {
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        gradcheck_run("row_softmax", row_softmax, &shapes[s]);
        gradcheck_run("mix_experts", mix_experts, &shapes[s]);
        gradcheck_run("gated", gated, &shapes[s]);
        if (shapes[s].group < 0)
            gradcheck_run("tasks", tasks, &shapes[s]);
    }
}

static void test_domain_gradients(void **state) {
    static const struct gradcheck_shape one = {.examples = 1, .tile = 4, .group = -1},
                                        some = {.examples = 9, .tile = 4, .group = -1},
                                        many = {.examples = 40, .tile = 7, .group = -1},
                                        stretches = {.examples = 600, .tile = 64, .group = -1};
    gradcheck_run("domain_linear_wide", domain_linear_wide, &one);
    gradcheck_run("domain_linear_wide", domain_linear_wide, &some);
    gradcheck_run("domain_linear_to_one", domain_linear_to_one, &some);
    gradcheck_run("domain_linear_to_one", domain_linear_to_one, &stretches);
    gradcheck_run("domain_linear_of_one", domain_linear_of_one, &stretches);
    gradcheck_run("domain_linear_one", domain_linear_one, &some);
    gradcheck_run("partitioned_norm", partitioned_norm, &many);
}

/* A domain's rows through its layer are the same rows through a plain one of W * W_d and b + b_d. */
static void test_domain_linear(void **state) {
    enum { N = 11, IN = 5, OUT = 3, DOMAINS = 3 };
    struct gradcheck check = {.group = -1, .dense = DOMAINS};
    struct gradcheck *c = &check;
    CHECK_OK(c, fth_graph_create(DOMAINS, &c->graph, &c->err));
    fth_id y = domain_linear(c, IN, OUT), parameters[4] = {FTH_NONE, FTH_NONE, FTH_NONE, FTH_NONE};
    static const char *const names[] = {"d.weight", "d.domain_weight", "d.bias", "d.domain_bias"};
    for (uint32_t v = 0; v < c->graph->n_values; v++)
        for (int k = 0; k < 4 && c->graph->values[v].role == FTH_ROLE_PARAMETER; k++)
            if (!strcmp(c->graph->values[v].name, names[k]))
                parameters[k] = (fth_id)v;
    struct interpret_options options = {.examples = N, .tile = 4};
    struct interpret *it = interpret_create(c->graph, &options);
    for (int k = 0; k < 4; k++)
        for (uint32_t r = 0; r < c->graph->values[parameters[k]].rows; r++)
            for (uint32_t j = 0; j < OUT; j++)
                *interpret_at(it, parameters[k], r, j) = (float)((r * 7 + j * 5 + (uint32_t)k) % 9) / 4 - 1;
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t d = 0; d < DOMAINS; d++) /* every fourth is of none: the last one's */
            *interpret_at(it, c->graph->dense, i, d) = i % 4 == d;
        for (uint32_t j = 0; j < IN; j++)
            *interpret_row_at(it, 0, i, j) = (float)((i * 3 + j) % 7) - 3;
    }
    interpret_refresh(it);
    interpret_run(it, FTH_FORWARD);
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t j = 0; j < OUT; j++) {
            uint32_t d = i % 4 < DOMAINS ? i % 4 : DOMAINS - 1;
            double sum = *interpret_at(it, parameters[2], 0, j) + *interpret_at(it, parameters[3], d, j);
            for (uint32_t k = 0; k < IN; k++)
                sum += *interpret_row_at(it, 0, i, k) * *interpret_at(it, parameters[0], k, j) *
                       *interpret_at(it, parameters[1], d * IN + k, j);
            assert_true(fabs(*interpret_at(it, y, i, j) - sum) < 1e-4);
        }
    interpret_destroy(it);
    fth_graph_destroy(c->graph);
}

/* The running mean or variance. */
static fth_id running(const struct gradcheck *c, const char *name) {
    for (uint32_t v = 0; v < c->graph->n_values; v++)
        if (c->graph->values[v].role == FTH_ROLE_STATE && strstr(c->graph->values[v].name, name))
            return (fth_id)v;
    return FTH_NONE;
}

/* Each domain's rows have mean 0 and variance 1; running statistics move by a tenth, those of a domain that is not
 * there stay. */
static void test_partitioned_norm(void **state) {
    enum { N = 12, COLUMNS = 35, DOMAINS = 3 };
    struct gradcheck check = {.group = -1};
    struct gradcheck *c = &check;
    CHECK_OK(c, fth_graph_create(DOMAINS, &c->graph, &c->err));
    fth_id y = partitioned_norm(c), states[2] = {running(c, "mean"), running(c, "variance")};
    struct interpret_options options = {.examples = N, .tile = 5};
    struct interpret *it = interpret_create(c->graph, &options);
    for (uint32_t v = 0; v < c->graph->n_values; v++) {
        const struct fth_value *value = &c->graph->values[v];
        if (value->role != FTH_ROLE_STATE && value->role != FTH_ROLE_PARAMETER)
            continue;
        int one = value->role == FTH_ROLE_STATE ? (fth_id)v == states[1] : !!strstr(value->name, "scale");
        for (uint32_t i = 0; i < value->rows; i++)
            for (uint32_t j = 0; j < value->columns; j++)
                *interpret_at(it, (fth_id)v, i, j) = (float)one;
    }
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t d = 0; d < DOMAINS; d++)
            *interpret_at(it, c->graph->dense, i, d) = d == i % 2;
        for (uint32_t j = 0; j < COLUMNS; j++)
            *interpret_row_at(it, 0, i, j) = (float)((i * 11 + j * 5) % 13) + 100 * (float)(i % 2);
    }
    interpret_refresh(it);
    interpret_run(it, FTH_FORWARD);
    for (uint32_t d = 0; d < 2; d++)
        for (uint32_t j = 0; j < COLUMNS; j++) {
            double mean = 0, square = 0, x = 0, xx = 0;
            for (uint32_t i = d; i < N; i += 2) {
                double at = *interpret_at(it, y, i, j), from = *interpret_row_at(it, 0, i, j);
                mean += at / 6;
                square += at * at / 6;
                x += from / 6;
                xx += from * from / 6;
            }
            assert_true(fabs(mean) < 1e-5 && fabs(square - 1) < 1e-3);
            assert_true(fabs(*interpret_at(it, states[0], d, j) - 0.1 * x) < 1e-4);
            assert_true(fabs(*interpret_at(it, states[1], d, j) - (0.9 + 0.1 * (xx - x * x) * 6 / 5)) < 1e-2);
        }
    assert_true(*interpret_at(it, states[0], 2, 3) == 0 && *interpret_at(it, states[1], 2, 3) == 1);
    interpret_destroy(it);
    fth_graph_destroy(c->graph);
}

/* Scales are 1, shifts 0. */
static void scale_by_one(const struct gradcheck *c, struct interpret *it) {
    for (uint32_t v = 0; v < c->graph->n_values; v++) {
        const struct fth_value *value = &c->graph->values[v];
        for (uint32_t i = 0; value->role == FTH_ROLE_PARAMETER && i < value->rows; i++)
            for (uint32_t j = 0; j < value->columns; j++)
                *interpret_at(it, (fth_id)v, i, j) = (float)!!strstr(value->name, "scale");
    }
}

/* Where a domain's values do not differ, or it has one example, they become 0, to the bit. One example has no unbiased
 * variance: the running one stays. */
static void test_equal_in_domain(void **state) {
    enum { N = 5, COLUMNS = 35, DOMAINS = 3 };
    static const uint32_t domain_of_row[N] = {0, 1, 0, 2, 0};
    struct gradcheck check = {.group = -1};
    struct gradcheck *c = &check;
    CHECK_OK(c, fth_graph_create(DOMAINS, &c->graph, &c->err));
    fth_id y = partitioned_norm(c), variance = running(c, "variance");
    struct interpret_options options = {.examples = N, .tile = 2};
    struct interpret *it = interpret_create(c->graph, &options);
    *interpret_at(it, variance, 1, 34) = 3;
    scale_by_one(c, it);
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t d = 0; d < DOMAINS; d++)
            *interpret_at(it, c->graph->dense, i, d) = d == domain_of_row[i];
        for (uint32_t j = 0; j < COLUMNS; j++)
            *interpret_row_at(it, 0, i, j) = 1234.567f * (float)(j + 1) / (float)(domain_of_row[i] + 3);
    }
    interpret_refresh(it);
    interpret_run(it, FTH_FORWARD);
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t j = 0; j < COLUMNS; j++)
            if (*interpret_at(it, y, i, j) != 0)
                fail_msg("example %u, column %u: %g", i, j, (double)*interpret_at(it, y, i, j));
    assert_true(*interpret_at(it, variance, 1, 34) == 3 && *interpret_at(it, variance, 2, 0) == 0);
    interpret_destroy(it);
    fth_graph_destroy(c->graph);
}

/* Evaluation standardises by each domain's running statistics, and leaves them as they are. */
static void test_partitioned_norm_evaluated(void **state) {
    enum { N = 4, COLUMNS = 35, DOMAINS = 2 };
    struct gradcheck check = {.group = -1};
    struct gradcheck *c = &check;
    CHECK_OK(c, fth_graph_create(DOMAINS, &c->graph, &c->err));
    fth_id y = partitioned_norm(c), mean = running(c, "mean"), variance = running(c, "variance");
    struct interpret_options options = {.examples = N, .tile = 3, .evaluate = 1};
    struct interpret *it = interpret_create(c->graph, &options);
    scale_by_one(c, it);
    for (uint32_t j = 0; j < COLUMNS; j++)
        for (uint32_t d = 0; d < DOMAINS; d++) {
            *interpret_at(it, mean, d, j) = (float)(10 * d + 1);
            *interpret_at(it, variance, d, j) = d ? 4 : 16;
        }
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t d = 0; d < DOMAINS; d++)
            *interpret_at(it, c->graph->dense, i, d) = d == i % 2;
        for (uint32_t j = 0; j < COLUMNS; j++)
            *interpret_row_at(it, 0, i, j) = (float)(i + j);
    }
    interpret_refresh(it);
    interpret_run(it, FTH_FORWARD);
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t j = 0; j < COLUMNS; j++) {
            double x = (double)(i + j), expected = i % 2 ? (x - 11) / 2 : (x - 1) / 4;
            assert_true(fabs(*interpret_at(it, y, i, j) - expected) < 1e-4);
            assert_true(*interpret_at(it, mean, i % 2, j) == (float)(10 * (i % 2) + 1));
            assert_true(*interpret_at(it, variance, i % 2, j) == (i % 2 ? 4 : 16));
        }
    interpret_destroy(it);
    fth_graph_destroy(c->graph);
}

static double cross_entropy(double x, double y) {
    return log1p(exp(-fabs(x))) + (x > 0 ? x : 0) - x * y;
}

/* The loss is the sum over the tasks, each by its weight, over all examples, those that do not count among them. */
static void test_task_loss(void **state) {
    struct gradcheck check = {.group = -1};
    struct gradcheck *c = &check;
    CHECK_OK(c, fth_graph_create(0, &c->graph, &c->err));
    tasks(c);
    CHECK_OK(c, fth_layer_loss(c->graph, 0, &c->err));
    CHECK_OK(c, fth_graph_differentiate(c->graph, &c->err));
    CHECK_OK(c, fth_graph_verify(c->graph, &c->err));
    struct interpret_options options = {.examples = 5, .tile = 2, .weights = 1};
    struct interpret *it = interpret_create(c->graph, &options);
    double expected = 0;
    for (uint32_t i = 0; i < 5; i++)
        for (uint32_t t = 0; t < 4; t++) {
            float logit = (float)(i * 4 + t) / 5 - 2, label = (float)((i + t) % 2), weight = (float)(i % 3);
            *interpret_row_at(it, 0, i, t) = logit;
            *interpret_at(it, c->graph->label, i, t) = label;
            *interpret_at(it, c->graph->weight, i, t) = weight;
            expected += task_weights[t] * weight * cross_entropy(logit, label) / 5;
        }
    interpret_refresh(it);
    interpret_run(it, FTH_BACKWARD);
    assert_true(fabs(*interpret_at(it, c->graph->loss, 0, 0) - expected) < 1e-5);
    fth_id gradient = c->graph->values[c->graph->logit].gradient;
    for (uint32_t i = 0; i < 5; i++)
        for (uint32_t t = 0; t < 4; t++) {
            double p = 1 / (1 + exp(-(double)*interpret_row_at(it, 0, i, t)));
            double want = task_weights[t] * (i % 3) * (p - (i + t) % 2) / 5;
            assert_true(fabs(*interpret_at(it, gradient, i, t) - want) < 1e-6);
        }
    interpret_destroy(it);
    fth_graph_destroy(c->graph);
}

/* Large inputs overflow nothing. */
static void test_softmax(void **state) {
    struct gradcheck check = {.group = -1, .columns = 3};
    struct gradcheck *c = &check;
    CHECK_OK(c, fth_graph_create(0, &c->graph, &c->err));
    fth_id y = row_softmax(c);
    struct interpret_options options = {.examples = 2, .tile = 2};
    struct interpret *it = interpret_create(c->graph, &options);
    for (uint32_t j = 0; j < 3; j++) {
        *interpret_row_at(it, 0, 0, j) = 1e30f;
        *interpret_row_at(it, 0, 1, j) = j == 1 ? 200 : -200;
    }
    interpret_refresh(it);
    interpret_run(it, FTH_FORWARD);
    for (uint32_t j = 0; j < 3; j++) {
        assert_true(fabsf(*interpret_at(it, y, 0, j) - 1.0f / 3) < 1e-6f);
        assert_true(*interpret_at(it, y, 1, j) == (j == 1 ? 1.0f : 0.0f));
    }
    interpret_destroy(it);
    fth_graph_destroy(c->graph);
}

static void test_refusals(void **state) {
    fth_graph *graph = NULL;
    fth_error err = {0};
    struct gradcheck check = {.group = -1};
    CHECK_OK(&check, fth_graph_create(0, &check.graph, &check.err));
    graph = check.graph;
    fth_id x = gradcheck_input(&check, -1, 7), gates = gradcheck_input(&check, -1, 3), y;
    assert_int_equal(fth_layer_mix_experts(graph, "m", gates, x, &y, &err), FTH_E_ARGUMENT);
    assert_non_null(strstr(err.message, "7 columns"));
    graph->logit = x;
    assert_int_equal(fth_layer_loss(graph, 0, &err), FTH_E_ARGUMENT);
    fth_graph_destroy(graph);
}

static void test_every_op_was_checked(void **state) {
    gradcheck_all_ran("test_gradients_tasks");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_domain_gradients),
        cmocka_unit_test(test_domain_linear),
        cmocka_unit_test(test_partitioned_norm),
        cmocka_unit_test(test_equal_in_domain),
        cmocka_unit_test(test_partitioned_norm_evaluated),
        cmocka_unit_test(test_task_loss),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_every_op_was_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
