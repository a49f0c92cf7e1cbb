/* The executor against the plain one of tests/support: every model, several tile sizes, batches smaller than a
 * tile and than the plan's, and the same bits with 1, 2 and 8 workers; tiles taken together. */
#include <linux/perf_event.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "copies.h"
#include "interpret.h"
#include "model/model.h"
#include "must.h"
#include "ops/ops.h"
#include "runtime/plan.h"
#include "small_models.h"
#include "zoo.h"

enum { MAX_BATCH = 70, STEPS = 7 /* the last ones with tasks in another order */ };

/* A graph, an interpreter that also serves as the embedding rows, and what is to be fed. */
struct side {
    fth_graph *graph;
    struct interpret *it;
};

struct world {
    uint32_t examples, tile;
    uint32_t offsets[MAX_BATCH + 1];
    struct fth_opt_args opt, no_decay;
};

static float number(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t x = a * 2654435761u ^ b * 2246822519u ^ c * 3266489917u;
    x = (x ^ x >> 15) * 2654435761u;
    return (float)(x >> 9) * 0x1p-23f - 0.5f;
}

static struct world world_make(uint32_t examples, uint32_t tile) {
    static const uint32_t lengths[] = {2, 0, 3, 1, 0, 5, 0};
    struct world w = {.examples = examples, .tile = tile};
    for (uint32_t i = 0; i < examples; i++)
        w.offsets[i + 1] = w.offsets[i] + lengths[i % 7];
    w.opt = (struct fth_opt_args){.lr = 0.05f, .grad_scale = 1, .l2 = 0.01f, .momentum = 0.9f};
    w.no_decay = w.opt;
    w.no_decay.l2 = 0;
    return w;
}

/* Field f has these from number f on: what an op reads that compares keys. */
static const uint64_t *keys(void) {
    static uint64_t keys[5 * MAX_BATCH + INTERPRET_FIELDS];
    for (uint32_t i = 0; i < 5 * MAX_BATCH + INTERPRET_FIELDS; i++)
        keys[i] = i * i % 5;
    return keys;
}

static struct side side_make(const struct zoo_options *options, const struct world *w) {
    struct side side = {.graph = zoo_graph(options)};
    struct interpret_options interpret = {.examples = w->examples, .tile = w->tile,
                                          .offsets = {w->offsets}, .keys = keys(),
                                          .optimizer = fth_optimizer_find("momentum"),
                                          .opt = w->opt, .opt_no_decay = w->no_decay, .seed = 4, .step = 1};
    side.it = interpret_create(side.graph, &interpret);
    for (uint32_t v = 0; v < side.graph->n_values; v++) {
        const struct fth_value *value = &side.graph->values[v];
        for (uint32_t r = 0; value->role != FTH_ROLE_NORMAL && r < interpret_rows(side.it, (fth_id)v); r++)
            for (uint32_t c = 0; c < value->columns; c++) {
                float x = number(value->role == FTH_ROLE_PARAMETER ? v : 1000u + value->role, r, c);
                *interpret_at(side.it, (fth_id)v, r, c) =
                    value->role == FTH_ROLE_LABEL ? x > 0 : value->role == FTH_ROLE_STATE ? x + 1 : x;
            }
    }
    for (uint32_t l = 0; l < side.graph->n_lookups; l++)
        for (uint32_t r = 0; r < interpret_lookup_rows(side.it, l); r++)
            for (uint32_t c = 0; c < side.graph->lookups[l].dim; c++)
                *interpret_row_at(side.it, l, r, c) = number(l + 50, r, c);
    interpret_refresh(side.it);
    return side;
}

static void side_destroy(struct side *side) {
    interpret_destroy(side->it);
    fth_graph_destroy(side->graph);
}

static fth_parameters *parameters_from(const struct side *side) {
    static const struct fth_optimizer_config config = {.name = "momentum"};
    fth_parameters *parameters = NULL;
    fth_error err = {0};
    must(fth_parameters_create(side->graph, fth_optimizer_find("momentum"), &config, 1, &parameters, &err),
         &err);
    for (uint32_t i = 0; i < parameters->n; i++)
        weights_from(&parameters->items[i], side->it);
    return parameters;
}

static const uint32_t group_max[] = {ZOO_GROUP_MAX};
static const int32_t groups[SMALL_FIELDS] = {-1, -1, -1, 0, 0, 0};
static const uint8_t weighted[SMALL_FIELDS];
static struct fth_schema schema = {.n_dense = ZOO_DENSE, .n_fields = SMALL_FIELDS, .field_group = groups,
                                   .field_weighted = weighted, .n_groups = ZOO_GROUPS,
                                   .group_max = group_max};

static struct fth_batch *batch_from(const struct side *side, const struct world *w) {
    struct fth_batch *batch = NULL;
    fth_error err = {0};
    uint32_t tasks = schema.n_tasks = side->graph->n_tasks;
    must(fth_batch_create(&schema, MAX_BATCH, &batch, &err), &err);
    batch->n = w->examples;
    for (uint32_t i = 0; i < w->examples; i++) {
        for (uint32_t t = 0; t < tasks; t++)
            batch->label[i * tasks + t] = *interpret_at(side->it, side->graph->label, i, t);
        for (uint32_t c = 0; side->graph->dense != FTH_NONE && c < ZOO_DENSE; c++)
            batch->dense[(size_t)i * batch->dense_ld + c] =
                *interpret_at(side->it, side->graph->dense, i, c);
    }
    memcpy(batch->groups[0].offsets, w->offsets, (w->examples + 1) * sizeof(uint32_t));
    batch->groups[0].total = w->offsets[w->examples];
    must(fth_batch_reserve_positions(batch, 0, w->offsets[w->examples], &err), &err);
    for (uint32_t f = 0; f < SMALL_FIELDS; f++)
        memcpy(batch->fields[f].keys, keys() + f,
               (groups[f] < 0 ? w->examples : w->offsets[w->examples]) * sizeof(uint64_t));
    return batch;
}

struct outcome {
    float loss;
    float *numbers; /* parameters, slots, states, rows, logits, one after the other */
    uint32_t n, room;
};

static void note(struct outcome *out, float x) {
    if (out->n == out->room) {
        out->room = out->room ? 2 * out->room : 1024;
        out->numbers = test_realloc(out->numbers, out->room * sizeof(float));
    }
    out->numbers[out->n++] = x;
}

static void note_rows(struct outcome *out, const struct side *side) {
    for (uint32_t l = 0; l < side->graph->n_lookups; l++)
        for (uint32_t r = 0; r < interpret_lookup_rows(side->it, l); r++)
            for (uint32_t c = 0; c < side->graph->lookups[l].dim; c++)
                note(out, *interpret_row_at(side->it, l, r, c));
}

/* With the real runtime. */
static const struct fth_perf_event software[FTH_PERF_COUNTERS] = {
    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, "task clock"},
    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, "cpu clock"},
    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, "page faults"},
};

/* Every node that took time has a task clock of at most about its time. */
static void check_profile(const fth_plan *plan) {
    uint64_t ns = 0, clock = 0;
    for (uint32_t i = 0; i < fth_plan_nodes(plan); i++) {
        struct fth_node_profile profile;
        fth_plan_node_profile(plan, i, &profile);
        assert_true(profile.ns > 0 && profile.counters[0] > 0);
        ns += profile.ns;
        clock += profile.counters[0];
    }
    assert_true(clock > ns / 100);
}

/* The scores and sums of a softmax over the batch: of the positive rows alone. */
static void check_flops(const fth_plan *plan, const fth_graph *graph, const struct fth_batch *batch) {
    double positive = 0;
    for (uint32_t i = 0; i < batch->n; i++)
        positive += batch->label[i];
    for (uint32_t i = 0; i < fth_plan_nodes(plan); i++) {
        struct fth_node_profile profile;
        fth_plan_node_profile(plan, i, &profile);
        double columns = graph->values[profile.node->inputs[0]].columns;
        if (profile.node->op == &fth_op_batch_softmax || profile.node->op == &fth_op_batch_softmax_grad)
            assert_true(fabs(profile.cost.flops / STEPS - 4 * positive * batch->n * columns) < 1e-3);
    }
}

static struct outcome run_plan(const struct zoo_options *options, const struct world *w, uint32_t workers,
                               uint32_t span, uint32_t max_batch) {
    struct outcome out = {0};
    struct side rows = side_make(options, w);
    fth_parameters *parameters = parameters_from(&rows);
    struct fth_batch *batch = batch_from(&rows, w);
    const struct fth_rows *table = interpret_table(rows.it);
    fth_error err = {0};
    fth_plan *plan = NULL;
    fth_pool *pool = NULL;
    struct fth_plan_options plan_options = {.max_batch = max_batch, .tile = w->tile, .span = span,
                                            .group_max = group_max, .n_groups = ZOO_GROUPS, .training = 1,
                                            .optimizer = fth_optimizer_find("momentum"),
                                            .workers = workers,
                                            .row_update_tasks = table->update_tasks(table->ctx),
                                            .row_update_scratch = table->update_scratch(table->ctx)};
    must(fth_pool_create(workers, &pool, &err), &err);
    must(fth_plan_create(rows.graph, parameters, &plan_options, &plan, &err), &err);
    struct fth_step step = {.batch = batch, .rows = table, .opt = &w->opt, .opt_no_decay = &w->no_decay,
                            .seed = 4, .step = 1};
    fth_perf perf; /* of this thread: of one worker alone */
    int counting = workers == 1 && fth_perf_open_events(software, &perf, NULL) == FTH_OK;
    fth_plan_profile(plan, workers == 1, counting ? &perf : NULL);
    for (int i = 0; i < STEPS; i++)
        fth_plan_run(plan, pool, &step);
    if (workers == 1)
        check_flops(plan, rows.graph, batch);
    if (counting) {
        check_profile(plan);
        fth_plan_profile(plan, 0, NULL);
        fth_perf_close(&perf);
    }
    out.loss = *fth_plan_value(plan, rows.graph->loss, NULL);
    for (uint32_t i = 0; i < parameters->n; i++) {
        const struct fth_parameter *p = &parameters->items[i];
        float *weights = weights_of(p);
        for (uint32_t r = 0; r < p->rows; r++)
            for (uint32_t c = 0; c < p->columns; c++) {
                note(&out, weights[(size_t)r * p->columns + c]);
                for (uint32_t s = 0; s < p->n_slots; s++)
                    note(&out, p->slots[s][(size_t)r * p->ld + c]);
            }
        fth_free(weights);
        check_copies(p, rows.graph->values[p->value].panels);
    }
    note_rows(&out, &rows);
    uint32_t ld = 0;
    const float *logits = fth_plan_value(plan, rows.graph->logit, &ld);
    for (uint32_t i = 0; i < w->examples; i++)
        note(&out, logits[(size_t)i * ld]);
    fth_plan_destroy(plan);
    fth_pool_destroy(pool);
    fth_batch_destroy(batch);
    fth_parameters_destroy(parameters);
    side_destroy(&rows);
    return out;
}

/* With the plain one; without passes, so that these are compared too. */
static struct outcome run_plain(const struct zoo_options *options, const struct world *w) {
    struct zoo_options plain = *options;
    struct outcome out = {0};
    plain.no_passes = 1;
    struct side side = side_make(&plain, w);
    for (int i = 0; i < STEPS; i++)
        interpret_run(side.it, FTH_UPDATE);
    out.loss = *interpret_at(side.it, side.graph->loss, 0, 0);
    for (uint32_t v = 0; v < side.graph->n_values; v++) {
        const struct fth_value *value = &side.graph->values[v];
        if (value->role != FTH_ROLE_PARAMETER && value->role != FTH_ROLE_STATE)
            continue;
        for (uint32_t r = 0; r < value->rows; r++)
            for (uint32_t c = 0; c < value->columns; c++) {
                note(&out, *interpret_at(side.it, (fth_id)v, r, c));
                if (value->role == FTH_ROLE_PARAMETER)
                    note(&out, *interpret_slot_at(side.it, (fth_id)v, 0, r, c));
            }
    }
    note_rows(&out, &side);
    for (uint32_t i = 0; i < w->examples; i++)
        note(&out, *interpret_at(side.it, side.graph->logit, i, 0));
    side_destroy(&side);
    return out;
}

static void compare(const struct outcome *expected, const struct outcome *got, float tolerance,
                    const char *what) {
    assert_int_equal(expected->n, got->n);
    for (uint32_t i = 0; i < expected->n; i++) {
        float a = expected->numbers[i], b = got->numbers[i];
        if (tolerance > 0 ? !(fabsf(a - b) <= tolerance * (1 + fabsf(a)))
                          : memcmp(&a, &b, sizeof a) != 0)
            fail_msg("%s: number %u of %u: %.9g instead of %.9g", what, i, expected->n, b, a);
    }
}

static void check_model(const char *name) {
    static const struct {
        uint32_t examples, tile, max_batch;
    } shapes[] = {{70, 1, 70}, {70, 3, 70}, {70, 64, 70}, {5, 64, 70}, {2, 3, 2}, {64, 32, 64}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char what[128];
        struct zoo_options options = {.model = name, .plain = i % 2 == 1, .clip_norm = i % 3 == 2 ? 0.5f : 0};
        struct world w = world_make(shapes[i].examples, shapes[i].tile);
        snprintf(what, sizeof what, "%s, %u examples, tile %u", name, w.examples, w.tile);
        struct outcome plain = run_plain(&options, &w);
        struct outcome one = run_plan(&options, &w, 1, 1, shapes[i].max_batch);
        /* two examples may both be negative, which a softmax over the batch has nothing to say of */
        assert_true(isfinite(one.loss) && (one.loss > 0 || (w.examples == 2 && one.loss == 0)));
        compare(&plain, &one, 2e-4f, what);
        for (uint32_t workers = 2; workers <= 8; workers += 6) {
            struct outcome many = run_plan(&options, &w, workers, 1, shapes[i].max_batch);
            compare(&one, &many, 0, what);
            test_free(many.numbers);
        }
        struct outcome together = run_plan(&options, &w, 2, 3, shapes[i].max_batch); /* fp32 products of other shapes */
        compare(&one, &together, 2e-4f, what);
        test_free(together.numbers);
        test_free(plain.numbers);
        test_free(one.numbers);
    }
}

static void test_every_model(void **state) {
    for (const struct fth_model *const *model = fth_models(); *model; model++)
        check_model((*model)->name);
}

/* One plan, batches of falling size: nothing of a larger one is left in a smaller one's result. */
static void test_batches_of_any_size(void **state) {
    static const uint32_t sizes[] = {70, 1, 33, 64, 2};
    struct zoo_options options = {.model = "din", .plain = 1};
    fth_error err = {0};
    fth_pool *pool = NULL;
    fth_plan *plan = NULL;
    struct world widest = world_make(70, 16);
    struct side owner = side_make(&options, &widest);
    fth_parameters *parameters = parameters_from(&owner);
    struct fth_plan_options plan_options = {.max_batch = 70, .tile = 16, .span = 2, .group_max = group_max,
                                            .n_groups = ZOO_GROUPS, .workers = 2,
                                            .optimizer = fth_optimizer_find("momentum")};
    must(fth_pool_create(2, &pool, &err), &err);
    must(fth_plan_create(owner.graph, parameters, &plan_options, &plan, &err), &err);
    float first[70];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct world w = world_make(sizes[i], 16);
        struct side side = side_make(&options, &w);
        struct fth_batch *batch = batch_from(&side, &w);
        struct fth_step step = {.batch = batch, .rows = interpret_table(side.it), .seed = 4, .step = 1};
        fth_plan_run(plan, pool, &step);
        uint32_t ld = 0;
        const float *logits = fth_plan_value(plan, owner.graph->logit, &ld);
        for (uint32_t e = 0; e < sizes[i]; e++) {
            if (i == 0)
                first[e] = logits[(size_t)e * ld];
            assert_true(fabsf(first[e] - logits[(size_t)e * ld]) < 1e-5f);
        }
        fth_batch_destroy(batch);
        side_destroy(&side);
    }
    fth_plan_destroy(plan);
    fth_pool_destroy(pool);
    fth_parameters_destroy(parameters);
    side_destroy(&owner);
}

/* FTRL's z begins as what the first weights follow from; what begins at 0 has none. */
static void check_first_slots(double accumulator, float slope) {
    const struct fth_optimizer_config config = {.name = "ftrl", .lr = 0.5, .lr_power = -0.5, .beta = 3, .l2 = 1,
                                                .l1 = 0.25, .initial_accumulator = accumulator};
    fth_graph *graph = zoo_graph(&(struct zoo_options){.model = "deepfm"});
    fth_parameters *parameters = NULL;
    fth_error err = {0};
    must(fth_parameters_create(graph, fth_optimizer_find("ftrl"), &config, 1, &parameters, &err), &err);
    static float row[4096];
    uint32_t drawn = 0;
    for (uint32_t i = 0; i < parameters->n; i++) {
        const struct fth_parameter *p = &parameters->items[i];
        for (uint32_t r = 0; p->n_slots && r < p->rows; r++) {
            assert_true(p->columns <= 4096);
            fth_parameter_get(p, r, 1, row);
            for (uint32_t c = 0; c < p->columns; c++) {
                float z = p->slots[0][(size_t)r * p->ld + c], expected = slope * row[c] - copysignf(0.25f, row[c]);
                assert_true(row[c] == 0 ? z == 0 : fabsf(z - expected) <= 1e-6f);
                assert_true(p->slots[1][(size_t)r * p->ld + c] == (float)accumulator);
                drawn += row[c] != 0;
            }
        }
    }
    assert_true(drawn > 100);
    fth_parameters_destroy(parameters);
    fth_graph_destroy(graph);
}

static void test_first_slots(void **state) {
    check_first_slots(0, -7);
    check_first_slots(4, -11);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_slots),
        cmocka_unit_test(test_every_model),
        cmocka_unit_test(test_batches_of_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
