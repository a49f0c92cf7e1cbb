/* Updates of parameters: fused with the weight gradient, clipped by the gradients' norm, scaled by norms of the parameter. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "gradcheck.h"
#include "ops/weight_blocks.h"

/* linear_update gives the bits of linear_weight_grad and update in turn, and by AVX-512 those of blocks for any number of
 * cores; by AVX2 another library makes narrow ones. */
static void check_linear_update(uint32_t cores, float weights[140 * 270]) {
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
        .examples = 300,
        .tile = 4,
        .cores = cores,
        .optimizer = fth_optimizer_find("adagrad"),
        .opt = {.lr = 0.1f, .grad_scale = 1, .eps = 1e-8f, .l2 = 0.01f}};
    struct interpret *it = interpret_create(c->graph, &options);
    for (uint32_t l = 0; l < 2; l++)
        for (uint32_t i = 0; i < 300 * c->graph->lookups[l].dim; i++)
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
        memcpy(weights + (size_t)r * 270, interpret_at(it, in[0], r, 0), 270 * sizeof(float));
    }
    assert_true(*interpret_at(it, in[0], 0, 0) != -1.0f);
    assert_true(interpret_transposed_equal(it));
    interpret_destroy(it);
    fth_graph_destroy(c->graph);
}

static void test_linear_update(void **state) {
    static float on_two[140 * 270], on_many[140 * 270];
    static const uint32_t cores[] = {0, 3, 16, 100};
    (void)state;
    check_linear_update(2, on_two);
    for (int i = 0; i < 4; i++) {
        check_linear_update(cores[i], on_many);
        if (fth_cpu_get()->isa == FTH_ISA_AVX512)
            assert_memory_equal(on_two, on_many, sizeof on_two);
        for (uint32_t w = 0; w < 140 * 270; w++)
            assert_true(fabsf(on_two[w] - on_many[w]) <= 1e-5f);
    }
}

/* A layer has a block for each core, or sides of up to 64; on up to two cores, blocks as large as products want them. */
static void test_blocks_for_cores(void **state) {
    static const struct {
        uint32_t rows, columns;
    } layers[] = {{1024, 512}, {479, 512}, {512, 256}, {429, 1024}, {200, 80}, {64, 64},
                  {16, 400}, {13, 1}, {700, 33}, {1, 1000}};
    static const uint32_t cores[] = {0, 1, 2, 3, 4, 8, 16, 64, 1000};
    (void)state;
    for (int precision = FTH_FP32; precision < FTH_PRECISIONS; precision++)
        for (size_t l = 0; l < sizeof layers / sizeof *layers; l++)
            for (size_t i = 0; i < sizeof cores / sizeof *cores; i++) {
                struct fth_prepare prepare = {.precision = precision, .cores = cores[i]};
                struct fth_gemm_cut cut = fth_gemm_cut((fth_precision)precision);
                struct fth_view x = {.columns = layers[l].rows}, dy = {.columns = layers[l].columns};
                struct fth_blocks blocks;
                fth_weight_blocks_cut(&prepare, &x, &dy, &blocks);
                uint32_t count = fth_blocks_count(&blocks), numbers = 0;
                for (uint32_t b = 0; b < count; b++) {
                    struct fth_block_range range = fth_blocks_range(&blocks, b);
                    numbers += range.rows * range.columns;
                }
                assert_int_equal(numbers, x.columns * dy.columns);
                assert_true(blocks.block_rows <= cut.block_rows && blocks.block_columns <= cut.block_columns);
                struct fth_blocks large;
                fth_blocks_make(x.columns, dy.columns, cut.block_rows, cut.block_columns, &large);
                uint32_t wanted = fth_blocks_count(&large);
                if (cores[i] <= 2)
                    assert_int_equal(count, wanted == 1 && dy.columns > 256 ? 2 : wanted);
                else if (count < cores[i])
                    assert_true(blocks.block_rows <= 64 && blocks.block_columns <= 64);
                else
                    assert_true(count == wanted || count <= 4 * cores[i]);
            }
}

/* domain_update gives the bits of domain_linear_weight_grad, domain_combine_grad and two updates in turn: of several
 * blocks, of one column, of more rows than are gathered at once; a domain without rows moves by what decays it alone. */
static void check_domain_update(uint32_t n, uint32_t in, uint32_t out, uint32_t cores) {
    enum { DOMAINS = 3 };
    struct gradcheck check = {.group = -1, .dense = DOMAINS};
    struct gradcheck *c = &check;
    CHECK_OK(c, fth_graph_create(DOMAINS, &c->graph, &c->err));
    fth_id x = gradcheck_input(c, -1, in), dy = gradcheck_input(c, -1, out), domain, weights[4], gradients[2], dw;
    static const char *const names[] = {"fused", "fused.own", "plain", "plain.own"};
    CHECK_OK(c, fth_graph_input(c->graph, FTH_ROLE_DENSE, &domain, &c->err));
    for (uint32_t i = 0; i < 4; i++)
        CHECK_OK(c, fth_graph_parameter(c->graph, FTH_ROLE_PARAMETER, names[i], i % 2 ? DOMAINS * in : in, out,
                                        FTH_PARAM_ZERO, 0, &weights[i], &c->err));
    fth_id fused[5] = {weights[0], weights[1], x, domain, dy}, grad[3] = {x, domain, dy};
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_domain_update, "f", fused, 5, NULL, 0, NULL, &c->err));
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_domain_linear_weight_grad, "g", grad, 3, NULL, 0, &dw, &c->err));
    struct fth_domain_combine_attributes times = {1};
    fth_id combine[3] = {weights[2], weights[3], dw};
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_domain_combine_grad, "c", combine, 3, &times, sizeof times, gradients,
                               &c->err));
    for (uint32_t i = 0; i < 2; i++) {
        fth_id update[3] = {weights[2 + i], gradients[i], FTH_NONE};
        CHECK_OK(c, fth_graph_node(c->graph, &fth_op_update, "u", update, 3, NULL, 0, NULL, &c->err));
    }
    CHECK_OK(c, fth_graph_verify(c->graph, &c->err));
    struct interpret_options options = {.examples = n,
                                        .tile = 64,
                                        .cores = cores,
                                        .optimizer = fth_optimizer_find("adagrad"),
                                        .opt = {.lr = 0.1f, .grad_scale = 1, .eps = 1e-8f, .l2 = 0.01f}};
    struct interpret *it = interpret_create(c->graph, &options);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t d = 0; d < DOMAINS; d++) /* most are of the first, none of the second */
            *interpret_at(it, c->graph->dense, i, d) = i % 7 == 0 ? d == 2 : d == 0;
        for (uint32_t l = 0; l < 2; l++)
            for (uint32_t j = 0; j < (l ? out : in); j++)
                *interpret_row_at(it, l, i, j) = (float)((i * 31 + j * 7919 + l) % 1000) / 500 - 1;
    }
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t r = 0; r < c->graph->values[weights[i]].rows; r++)
            for (uint32_t j = 0; j < out; j++)
                *interpret_at(it, weights[i], r, j) = (float)((r * 104729 + j * 13 + i % 2) % 1000) / 500 - 1;
    interpret_refresh(it);
    interpret_run(it, FTH_UPDATE);
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t r = 0; r < c->graph->values[weights[i]].rows; r++) {
            assert_memory_equal(interpret_at(it, weights[i], r, 0), interpret_at(it, weights[2 + i], r, 0),
                                out * sizeof(float));
            assert_memory_equal(interpret_slot_at(it, weights[i], 0, r, 0),
                                interpret_slot_at(it, weights[2 + i], 0, r, 0), out * sizeof(float));
            assert_true(*interpret_at(it, weights[i], r, 0) != (float)((r * 104729 + i % 2) % 1000) / 500 - 1);
        }
    for (uint32_t r = 0; r < DOMAINS * in; r += 5)
        for (uint32_t j = 0; j < out; j += 3) {
            double sum = 0, most = 0;
            for (uint32_t i = 0; i < n; i++)
                if (*interpret_at(it, c->graph->dense, i, r / in) > 0.5f) {
                    double product = (double)*interpret_row_at(it, 0, i, r % in) * (double)*interpret_row_at(it, 1, i, j);
                    sum += product;
                    most += fabs(product);
                }
            assert_true(fabs((double)*interpret_at(it, dw, r, j) - sum) <= 1e-5 * most);
        }
    interpret_destroy(it);
    fth_graph_destroy(c->graph);
}

static void test_domain_update(void **state) {
    for (uint32_t cores = 2; cores <= 20; cores += 9) {
        check_domain_update(300, 140, 270, cores);
        check_domain_update(300, 133, 1, cores);
        check_domain_update(2600, 20, 33, cores);
    }
}

enum { LAMB_IN = 450, LAMB_OUT = 40, LAMB_WEIGHTS = LAMB_IN * LAMB_OUT }; /* two blocks of rows */

static float lamb_start(uint32_t i) {
    return (float)(i * 13 % 29) / 10 - 1;
}

/* One parameter's step: what LAMB makes of its gradient in one piece, norms in double. */
static void check_lamb(struct interpret *it, fth_graph *graph, const char *name, const struct fth_opt_args *args,
                       int scaled) {
    static float before[LAMB_WEIGHTS], gradient[LAMB_WEIGHTS], m[LAMB_WEIGHTS], v[LAMB_WEIGHTS], r[LAMB_WEIGHTS];
    struct fth_value value = graph->values[gradcheck_named(graph, name)];
    uint32_t n = value.rows * LAMB_OUT;
    double weights = 0, direction = 0;
    for (uint32_t i = 0; i < n; i++) {
        before[i] = lamb_start(i);
        m[i] = v[i] = 0;
        gradient[i] = value.rows > 1 ? *interpret_at(it, value.gradient, i / LAMB_OUT, i % LAMB_OUT)
                                     : *interpret_at(it, value.gradient, 0, i) + *interpret_at(it, value.gradient, 1, i);
    }
    fth_optimizer_find("lamb")->apply(fth_kernels_get(), n, before, (float *[]){m, v}, gradient, args, r);
    for (uint32_t i = 0; i < n; i++) {
        weights += (double)before[i] * before[i];
        direction += (double)r[i] * r[i];
    }
    double factor = scaled ? args->lr * sqrt(weights) / sqrt(direction) : args->lr;
    for (uint32_t i = 0; i < n; i++) {
        double expected = before[i] - factor * r[i];
        assert_true(fabs(*interpret_at(it, value.id, i / LAMB_OUT, i % LAMB_OUT) - expected) <= 1e-6);
        assert_true(*interpret_slot_at(it, value.id, 0, i / LAMB_OUT, i % LAMB_OUT) == m[i]);
        assert_true(*interpret_slot_at(it, value.id, 1, i / LAMB_OUT, i % LAMB_OUT) == v[i]);
    }
}

/* LAMB's norms are of whole parameters, its gradient is whole or by tiles; biases do not decay, nor are they scaled, nor
 * what is 0 at first. */
static void check_norms(int zeros) {
    struct gradcheck c = {.group = -1};
    CHECK_OK(&c, fth_graph_create(0, &c.graph, &c.err));
    fth_id x = gradcheck_input(&c, -1, LAMB_IN), y;
    c.graph->norm_updates = 1;
    CHECK_OK(&c, fth_layer_linear(c.graph, "fc", x, LAMB_OUT, 1, &y, &c.err));
    if (zeros)
        c.graph->values[gradcheck_named(c.graph, "fc.weight")].init = FTH_PARAM_ZERO;
    CHECK_OK(&c, fth_layer_linear(c.graph, "out", y, 1, 0, &c.graph->logit, &c.err));
    CHECK_OK(&c, fth_layer_loss(c.graph, 0, &c.err));
    CHECK_OK(&c, fth_graph_differentiate(c.graph, &c.err));
    CHECK_OK(&c, fth_layer_updates(c.graph, 0, &c.err));
    struct fth_opt_args args = {.lr = 0.1f,
                                .grad_scale = 1,
                                .beta1 = 0.9f,
                                .beta2 = 0.99f,
                                .eps = 1e-6f,
                                .correction1 = 0.1f,
                                .correction2 = 0.01f,
                                .weight_decay = 0.3f};
    struct interpret_options options = {.examples = 4,
                                        .tile = 3,
                                        .optimizer = fth_optimizer_find("lamb"),
                                        .opt = args,
                                        .opt_no_decay = args};
    options.opt_no_decay.weight_decay = 0;
    struct interpret *it = interpret_create(c.graph, &options);
    for (uint32_t i = 0; i < LAMB_WEIGHTS; i++)
        *interpret_at(it, gradcheck_named(c.graph, "fc.weight"), i / LAMB_OUT, i % LAMB_OUT) = lamb_start(i);
    for (uint32_t i = 0; i < LAMB_OUT; i++) {
        *interpret_at(it, gradcheck_named(c.graph, "fc.bias"), 0, i) = lamb_start(i);
        *interpret_at(it, gradcheck_named(c.graph, "out.weight"), 0, i) = (float)(i % 3) - 1.25f;
    }
    for (uint32_t i = 0; i < 4 * LAMB_IN; i++)
        *interpret_row_at(it, 0, i / LAMB_IN, i % LAMB_IN) = (float)(i * 7 % 10) / 5 - 1;
    for (uint32_t i = 0; i < 4; i++)
        *interpret_at(it, c.graph->label, i, 0) = (float)(i % 2);
    interpret_refresh(it);
    interpret_run(it, FTH_UPDATE);
    assert_true(interpret_transposed_equal(it));
    check_lamb(it, c.graph, "fc.weight", &options.opt, !zeros);
    check_lamb(it, c.graph, "fc.bias", &options.opt_no_decay, 0);
    interpret_destroy(it);
    fth_graph_destroy(c.graph);
}

static void test_norms(void **state) {
    check_norms(0);
    check_norms(1);
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

static void test_every_op_was_checked(void **state) {
    gradcheck_all_ran("test_updates");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_update),
        cmocka_unit_test(test_blocks_for_cores),
        cmocka_unit_test(test_domain_update),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_clip),
        cmocka_unit_test(test_every_op_was_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
