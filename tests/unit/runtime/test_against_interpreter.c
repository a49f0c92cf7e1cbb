/* Two training steps of every model by the runtime and by the plain interpreter of tests/support:
 * the same weights, rows and running statistics, with all passes and without any; and by one worker
 * and by three: the same bits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/cpu.h"
#include "copies.h"
#include "core/batch.h"
#include "interpret.h"
#include "kernels/gemm.h"
#include "odd_graph.h"
#include "ops/layers.h"
#include "passes/passes.h"
#include "runtime/plan.h"
#include "small_models.h"

#define EXAMPLES 11
#define TILE 4
#define STEPS 2
#define DENSE 3

static const struct fth_model_field fields[] = {
    {.name = "user", .table = "user", .dim = 4, .group = FTH_NO_GROUP},
    {.name = "item", .table = "item", .dim = 4, .group = FTH_NO_GROUP},
    {.name = "tags", .table = "tag", .dim = 4, .group = 0, .pooling = FTH_POOL_SUM},
    {.name = "history", .table = "item", .dim = 4, .group = 0, .sequence = 1},
    /* of atbrg alone */
    {.name = "brand", .table = "brand", .dim = 4, .group = FTH_NO_GROUP},
    {.name = "brands", .table = "brand", .dim = 4, .group = 0, .sequence = 1},
};
enum { FIELDS = sizeof fields / sizeof *fields };
/* The second tile has no position at all. */
static const uint32_t offsets[EXAMPLES + 1] = {0, 3, 3, 4, 6, 6, 6, 6, 6, 11, 11, 12};
static const struct fth_opt_args args = {.lr = 0.25f, .grad_scale = 1, .eps = 1e-6f};
static fth_error err;
static fth_precision precision; /* of what is made next */
static const char *without;     /* a pass behind autodiff, or NULL */

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != FTH_OK)                                                                      \
            fail_msg("%s: %s", #call, err.message);                                                \
    } while (0)

static fth_graph *graph_make(const char *name, int passes, float clip_norm) {
    static const int64_t hidden[] = {20, 4}, attention[] = {3}, maps[] = {4, 3};
    static const struct small_sizes sizes = {{hidden, 2}, {hidden, 2}, {attention, 1}, {maps, 2}};
    int odd = !strcmp(name, "odd"), crosses = !strcmp(name, "crosses");
    struct fth_model_config config = small_model(odd || crosses ? "dcnv2" : name, &sizes);
    config.dropout = 0.25;
    config.batch_norm = !strcmp(name, "deepfm");
    struct fth_model_inputs inputs = {.n_dense = DENSE,
                                      .fields = fields,
                                      .n_fields = strcmp(name, "atbrg") ? FIELDS - 2 : FIELDS,
                                      .indicators = small_domain,
                                      .n_indicators = 1};
    fth_graph *graph;
    OK(fth_graph_create(DENSE, &graph, &err));
    graph->precision = precision;
    if (odd)
        OK(odd_graph_build(graph, &inputs, &err));
    else if (crosses)
        OK(odd_crosses_build(graph, &inputs, &err));
    else
        OK(fth_model_find(name)->build(graph, &config, &inputs, &err));
    if (passes)
        OK(fth_passes_run(graph, FTH_PASS_FORWARD, NULL, 0, &err));
    OK(fth_layer_loss(graph, 0.1f, &err));
    OK(fth_graph_differentiate(graph, &err));
    OK(fth_layer_updates(graph, clip_norm, &err));
    if (passes)
        OK(fth_passes_run(graph, FTH_PASS_TRAINING, &without, without != NULL, &err));
    OK(fth_graph_verify(graph, &err));
    return graph;
}

static struct fth_batch *batch_make(void) {
    static const char *const dense[] = {"a", "b", "c"};
    static const int32_t groups[] = {FTH_NO_GROUP, FTH_NO_GROUP, 0, 0, FTH_NO_GROUP, 0};
    static const uint8_t weighted[FIELDS];
    static const uint32_t most[] = {5};
    static const struct fth_schema schema = {.n_dense = DENSE,
                                             .dense_names = dense,
                                             .n_fields = FIELDS,
                                             .field_group = groups,
                                             .field_weighted = weighted,
                                             .n_groups = 1,
                                             .group_max = most};
    struct fth_batch *batch;
    OK(fth_batch_create(&schema, EXAMPLES, &batch, &err));
    batch->n = EXAMPLES;
    for (uint32_t i = 0; i < EXAMPLES; i++) {
        batch->label[i] = interpret_number("label", i, 0) > 0;
        for (uint32_t c = 0; c < DENSE; c++)
            batch->dense[i * batch->dense_ld + c] = interpret_number("dense", i, c);
    }
    memcpy(batch->groups[0].offsets, offsets, sizeof offsets);
    batch->groups[0].total = offsets[EXAMPLES];
    OK(fth_batch_reserve_positions(batch, 0, offsets[EXAMPLES], &err));
    for (uint32_t f = 0; f < FIELDS; f++)
        for (uint32_t i = 0; i < (groups[f] < 0 ? EXAMPLES : offsets[EXAMPLES]); i++)
            batch->fields[f].keys[i] = (uint64_t)(i * 5 % 3);
    return batch;
}

static struct interpret *interpret_make(fth_graph *graph, const struct fth_batch *batch) {
    struct interpret_options options = {.examples = EXAMPLES,
                                        .tile = TILE,
                                        .offsets = {offsets, NULL},
                                        .fields = batch->fields,
                                        .optimizer = fth_optimizer_find("adagrad"),
                                        .opt = args,
                                        .opt_no_decay = args,
                                        .seed = 3,
                                        .step = 1};
    struct interpret *it = interpret_create(graph, &options);
    for (uint32_t l = 0; l < graph->n_lookups; l++)
        for (uint32_t r = 0; r < interpret_lookup_rows(it, l); r++)
            for (uint32_t c = 0; c < graph->lookups[l].dim; c++)
                *interpret_row_at(it, l, r, c) = interpret_number(graph->lookups[l].table, r, c);
    for (uint32_t v = 0; v < graph->n_values; v++)
        for (uint32_t r = 0;
             graph->values[v].role != FTH_ROLE_NORMAL && graph->values[v].role != FTH_ROLE_WEIGHT &&
             r < interpret_rows(it, (fth_id)v);
             r++)
            for (uint32_t c = 0; c < graph->values[v].columns; c++) {
                float x = interpret_number(graph->values[v].name, r, c);
                *interpret_at(it, (fth_id)v, r, c) = graph->values[v].role == FTH_ROLE_LABEL ? x > 0
                                                     : graph->values[v].role == FTH_ROLE_STATE
                                                         ? x * x
                                                         : x;
            }
    interpret_refresh(it);
    return it;
}

/* What a run by the runtime leaves: all parameters' and rows' numbers, one after the other. */
struct outcome {
    float *numbers;
    size_t n;
    float loss;
    size_t loose, loose_end; /* numbers of LOOSE */
    int rounds_once;         /* some node hands on what it has rounded */
};

/* Its gradients are 5e-9 to 2e-7, below Adagrad's eps: the interpreter with all rows moved by one rounding differs from
 * itself by up to 5.8e-4 here, by 1.4e-5 elsewhere (the runtime from it by less than 3e-6, on all instruction sets). */
#define LOOSE "session.history.interest.weight"

static void parameters_fill(fth_parameters *parameters) {
    for (uint32_t i = 0; i < parameters->n; i++) {
        struct fth_parameter *p = &parameters->items[i];
        float *rows = fth_alloc((size_t)p->rows * p->columns, sizeof *rows);
        for (uint32_t r = 0; r < p->rows; r++)
            for (uint32_t c = 0; c < p->columns; c++) {
                float x = interpret_number(p->name, r, c);
                rows[(size_t)r * p->columns + c] = p->role == FTH_ROLE_STATE ? x * x : x;
            }
        fth_parameter_set(p, rows, p->columns);
        fth_free(rows);
    }
}

static void outcome_take(const fth_graph *graph, fth_parameters *parameters, struct interpret *rows,
                         struct outcome *out) {
    size_t room = 0;
    for (uint32_t i = 0; i < parameters->n; i++)
        room += (size_t)parameters->items[i].rows * parameters->items[i].columns;
    for (uint32_t l = 0; l < graph->n_lookups; l++)
        room += (size_t)interpret_lookup_rows(rows, l) * graph->lookups[l].dim;
    out->numbers = fth_alloc(room, sizeof(float));
    out->n = out->loose = out->loose_end = 0;
    for (uint32_t i = 0; i < parameters->n; i++) {
        const struct fth_parameter *p = &parameters->items[i];
        int loose = !strcmp(p->name, LOOSE);
        out->loose = loose ? out->n : out->loose;
        fth_parameter_get(p, 0, p->rows, out->numbers + out->n);
        out->n += (size_t)p->rows * p->columns;
        out->loose_end = loose ? out->n : out->loose_end;
    }
    for (uint32_t l = 0; l < graph->n_lookups; l++)
        for (uint32_t r = 0; r < interpret_lookup_rows(rows, l); r++)
            for (uint32_t c = 0; c < graph->lookups[l].dim; c++)
                out->numbers[out->n++] = *interpret_row_at(rows, l, r, c);
}

static void runtime_steps(const char *name, int passes, float clip_norm, uint32_t workers,
                          struct outcome *out) {
    static const uint32_t most[] = {5};
    fth_graph *graph = graph_make(name, passes, clip_norm);
    struct fth_batch *batch = batch_make();
    struct interpret *rows = interpret_make(graph, batch);
    const struct fth_rows *table = interpret_table(rows);
    struct fth_optimizer_config config = {.name = "adagrad"};
    fth_parameters *parameters;
    fth_plan *plan;
    fth_pool *pool;
    struct fth_plan_options options = {.max_batch = EXAMPLES + 5,
                                       .tile = TILE,
                                       .group_max = most,
                                       .n_groups = 1,
                                       .training = 1,
                                       .precision = precision,
                                       .optimizer = fth_optimizer_find("adagrad"),
                                       .workers = workers,
                                       .row_update_tasks = table->update_tasks(table->ctx),
                                       .row_update_scratch = table->update_scratch(table->ctx)};
    OK(fth_parameters_create(graph, options.optimizer, &config, 1, &parameters, &err));
    OK(fth_plan_create(graph, parameters, &options, &plan, &err));
    OK(fth_pool_create(workers, &pool, &err));
    parameters_fill(parameters);
    for (uint64_t s = 1; s <= STEPS; s++) {
        struct fth_step step = {.batch = batch,
                                .rows = table,
                                .opt = &args,
                                .opt_no_decay = &args,
                                .seed = 3,
                                .step = s};
        fth_plan_run(plan, pool, &step);
    }
    uint32_t ld;
    out->loss = *fth_plan_value(plan, graph->loss, &ld);
    out->rounds_once = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        out->rounds_once |= strstr(graph->nodes[i]->op->name, "rounded") != NULL;
    outcome_take(graph, parameters, rows, out);
    fth_batch_destroy(batch);
    fth_pool_destroy(pool);
    fth_plan_destroy(plan);
    fth_parameters_destroy(parameters);
    interpret_destroy(rows);
    fth_graph_destroy(graph);
}

static void interpreter_steps(const char *name, float clip_norm, struct outcome *out) {
    fth_graph *graph = graph_make(name, 0, clip_norm);
    struct fth_batch *batch = batch_make();
    struct interpret *it = interpret_make(graph, batch);
    struct fth_optimizer_config config = {.name = "adagrad"};
    fth_parameters *parameters;
    OK(fth_parameters_create(graph, fth_optimizer_find("adagrad"), &config, 1, &parameters, &err));
    for (uint64_t s = 1; s <= STEPS; s++) {
        interpret_set_step(it, s);
        interpret_run(it, FTH_UPDATE);
    }
    for (uint32_t i = 0; i < parameters->n; i++)
        weights_from(&parameters->items[i], it);
    out->loss = *interpret_at(it, graph->loss, 0, 0);
    outcome_take(graph, parameters, it, out);
    fth_batch_destroy(batch);
    fth_parameters_destroy(parameters);
    interpret_destroy(it);
    fth_graph_destroy(graph);
}

static void model_check(const char *name, float clip_norm) {
    struct outcome plain, want[2];
    interpreter_steps(name, clip_norm, &plain);
    assert_true(isfinite(plain.loss));
    for (int passes = 0; passes < 2; passes++) {
        struct outcome three;
        runtime_steps(name, passes, clip_norm, 1, &want[passes]);
        runtime_steps(name, passes, clip_norm, 3, &three);
        assert_int_equal(three.n, plain.n);
        assert_memory_equal(three.numbers, want[passes].numbers, plain.n * sizeof(float));
        assert_true(three.loss == want[passes].loss);
        assert_int_equal(plain.loose_end - plain.loose, strcmp(name, "dsin") ? 0 : 16);
        for (size_t i = 0; i < plain.n; i++) {
            float tolerance = i >= plain.loose && i < plain.loose_end ? 2e-3f : 1e-4f;
            if (!(fabsf(want[passes].numbers[i] - plain.numbers[i]) <=
                  tolerance * (0.1f + fabsf(plain.numbers[i]))))
                fail_msg("%s, %s passes: number %zu is %g, by the interpreter %g", name,
                         passes ? "all" : "no", i, want[passes].numbers[i], plain.numbers[i]);
        }
        assert_true(fabsf(want[passes].loss - plain.loss) < 1e-5f);
        fth_free(three.numbers);
        fth_free(want[passes].numbers);
    }
    fth_free(plain.numbers);
}

static void test_models(void **state) {
    for (const struct fth_model *const *model = fth_models(); *model; model++)
        model_check((*model)->name, 0);
}

static void test_odd_graphs(void **state) {
    model_check("odd", 0);
    model_check("odd", 0.05f);
    model_check("crosses", 0);
}

/* Rounded once, the same bits. */
static void test_odd_graphs_rounded_once(void **state) {
    static const char *const names[] = {"odd", "crosses"};
    if (!fth_cpu_get()->amx_bf16)
        skip();
    for (int i = 0; i < 4; i++) {
        struct outcome once, plain;
        precision = FTH_BF16;
        runtime_steps(names[i / 2], 1, i % 2 ? 0.05f : 0, 2, &once);
        without = "round_once";
        runtime_steps(names[i / 2], 1, i % 2 ? 0.05f : 0, 2, &plain);
        without = NULL;
        precision = FTH_FP32;
        assert_true(once.rounds_once && !plain.rounds_once);
        assert_int_equal(once.n, plain.n);
        assert_memory_equal(once.numbers, plain.numbers, plain.n * sizeof(float));
        fth_free(once.numbers);
        fth_free(plain.numbers);
    }
}

static void test_clipped(void **state) {
    model_check("deepfm", 0.05f);
    model_check("din", 0.05f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_clipped),
        cmocka_unit_test(test_odd_graphs),
        cmocka_unit_test(test_odd_graphs_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
