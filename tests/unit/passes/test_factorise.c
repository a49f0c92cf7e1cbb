/* factorise_first_layer, and skip_zeros with it: a step with and without them moves every weight and row by the same within 1e-6 of the
 * tensor's largest movement, for every model, in batches of every kind: each field factorised, none, some, one
 * example. With it, the bits are the same at any number of threads and whatever the other passes do. The real
 * embeddings and the real plan run; rows and scratch hold what another batch has left. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/random.h"
#include "copies.h"
#include "embedding/embedding.h"
#include "kernels/gemm.h"
#include "must.h"
#include "odd_graph.h"
#include "ops/layers.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "runtime/plan.h"
#include "small_models.h"

enum { DENSE = 3, MOST = 300, FIELDS = 10, DIN_FIELDS = 12, ALL_FIELDS = 13 };

/* "few" and "some" can be factorised, "left" and "right", which share a table, and "item", whose table a history reads
 * too; "rare" admits keys late; the others never are: pooled positions, another dimension. "history" and "end" are for models of histories, "ends" for atbrg alone. */
static const struct fth_model_field fields[ALL_FIELDS] = {
    {.name = "few", .table = "few", .dim = 16, .group = FTH_NO_GROUP},
    {.name = "left", .table = "both", .dim = 16, .group = FTH_NO_GROUP},
    {.name = "some", .table = "some", .dim = 16, .group = FTH_NO_GROUP},
    {.name = "more", .table = "more", .dim = 16, .group = FTH_NO_GROUP},
    {.name = "right", .table = "both", .dim = 16, .group = FTH_NO_GROUP},
    {.name = "tags", .table = "tag", .dim = 16, .group = 0, .pooling = FTH_POOL_MEAN},
    {.name = "rare", .table = "rare", .dim = 16, .group = FTH_NO_GROUP, .min_count = 3},
    {.name = "item", .table = "item", .dim = 16, .group = FTH_NO_GROUP},
    {.name = "own", .table = "own", .dim = 9, .group = FTH_NO_GROUP},
    {.name = "two", .table = "two", .dim = 16, .group = FTH_NO_GROUP},
    {.name = "history", .table = "item", .dim = 16, .group = 0, .sequence = 1},
    {.name = "end", .table = "end", .dim = 16, .group = FTH_NO_GROUP},
    {.name = "ends", .table = "end", .dim = 16, .group = 0, .sequence = 1},
};

static const char *const dense_names[DENSE] = {"a", "b", "c"};
static const int32_t groups[ALL_FIELDS] = {-1, -1, -1, -1, -1, 0, -1, -1, -1, -1, 0, -1, 0};
static const uint8_t weighted[ALL_FIELDS];
static const uint32_t group_max[] = {4};
static const struct fth_schema schema = {.n_dense = DENSE,
                                         .dense_names = dense_names,
                                         .n_fields = ALL_FIELDS,
                                         .field_group = groups,
                                         .field_weighted = weighted,
                                         .n_groups = 1,
                                         .group_max = group_max};

/* ---- a model with everything that a step needs ---- */

struct setup {
    const char *model;
    const char *without[4]; /* ends with NULL */
    float clip_norm;
    uint32_t threads;
    uint32_t most_keys; /* different ones a field has at most */
    uint32_t examples;
};

struct world {
    fth_graph *graph;
    fth_embedding *embedding;
    fth_parameters *parameters;
    fth_plan *plan;
    fth_pool *pool;
};

static int has(const struct setup *setup, const char *model) {
    return !strcmp(setup->model, model);
}

static void build_graph(const struct setup *setup, struct world *world) {
    static const int64_t widths[] = {150, 52}, bottom[] = {20, 16}, attention[] = {6}, maps[] = {6, 4};
    static const struct small_sizes sizes = {{widths, 2}, {bottom, 2}, {attention, 1}, {maps, 2}};
    struct fth_model_field used[ALL_FIELDS];
    fth_error err = {0};
    const struct fth_model *model = fth_model_find(setup->model);
    int din = has(setup, "din");
    int shallow = has(setup, "lr") || has(setup, "fm");
    int one_dim = has(setup, "deepfm") || has(setup, "fm") || has(setup, "dlrm") || has(setup, "xdeepfm");
    int statistics = setup->examples > 10; /* those of two examples are all rounding */
    const char *hidden = has(setup, "dsin") ? "tanh" : "relu"; /* a sum of its layer lies at ReLU's kink */
    int odd = has(setup, "odd");
    struct fth_model_config config = small_model(odd ? "dcnv2" : setup->model, &sizes);
    config.in_batch_softmax = config.log_q = 0;
    config.activation = din && statistics ? "dice" : shallow ? "none" : hidden;
    config.attention_activation = "sigmoid";
    config.batch_norm = has(setup, "dcn") && statistics;
    struct fth_model_inputs inputs = {.n_dense = DENSE,
                                      .fields = used,
                                      .n_fields = has(setup, "atbrg")                ? ALL_FIELDS
                                                  : !odd && small_has_history(setup->model) ? DIN_FIELDS
                                                                                    : FIELDS,
                                      .indicators = small_domain,
                                      .n_indicators = 1};
    uint32_t n_without = 0;
    while (setup->without[n_without])
        n_without++;
    memcpy(used, fields, sizeof used);
    used[8].dim = one_dim ? 16 : 9;
    fth_graph **graph = &world->graph;
    must(fth_graph_create(DENSE, graph, &err), &err);
    must(odd ? odd_graph_build(*graph, &inputs, &err) : model->build(*graph, &config, &inputs, &err), &err);
    must(fth_layer_loss(*graph, 0, &err), &err);
    must(fth_passes_run(*graph, FTH_PASS_FORWARD, setup->without, n_without, &err), &err);
    must(fth_graph_differentiate(*graph, &err), &err);
    must(fth_layer_updates(*graph, setup->clip_norm, &err), &err);
    must(fth_passes_run(*graph, FTH_PASS_TRAINING, setup->without, n_without, &err), &err);
    must(fth_graph_verify(*graph, &err), &err);
}

static void init_worker(void *arg, uint32_t worker) {
    fth_gemm_thread_init();
}

static struct world make(const struct setup *setup) {
    static const struct fth_embedding_config config = {
        .init = FTH_INIT_UNIFORM, .init_scale = 0.3, .memory_limit = (int64_t)64 << 20};
    static const struct fth_optimizer_config sgd = {.name = "sgd", .lr = 1};
    struct world world = {0};
    fth_error err = {0};
    build_graph(setup, &world);
    struct fth_embedding_options options = {.lookups = world.graph->lookups,
                                            .n_lookups = world.graph->n_lookups,
                                            .config = &config,
                                            .optimizer = &sgd,
                                            .seed = 5,
                                            .max_batch = MOST,
                                            .packing = 1,
                                            .norms = 1};
    must(fth_embedding_create(&options, &world.embedding, &err), &err);
    must(fth_parameters_create(world.graph, fth_optimizer_find("sgd"), &sgd, 5, &world.parameters, &err),
         &err);
    must(fth_pool_create(setup->threads, &world.pool, &err), &err);
    fth_pool_run(world.pool, init_worker, NULL);
    const struct fth_rows *rows = fth_embedding_rows(world.embedding);
    struct fth_plan_options plan = {.max_batch = MOST,
                                    .tile = 32,
                                    .group_max = group_max,
                                    .n_groups = 1,
                                    .training = 1,
                                    .optimizer = fth_optimizer_find("sgd"),
                                    .workers = setup->threads,
                                    .row_update_tasks = rows->update_tasks(rows->ctx),
                                    .row_update_scratch = rows->update_scratch(rows->ctx)};
    must(fth_plan_create(world.graph, world.parameters, &plan, &world.plan, &err), &err);
    return world;
}

static void release(struct world *world) {
    fth_plan_destroy(world->plan);
    fth_parameters_destroy(world->parameters);
    fth_embedding_destroy(world->embedding);
    fth_pool_destroy(world->pool);
    fth_graph_destroy(world->graph);
}

/* ---- batches ---- */

static uint32_t draw(uint64_t *state, uint32_t below) {
    return (uint32_t)(fth_hash_mix(*state += 0x9e3779b97f4a7c15ull) >> 33) % below;
}

/* most_keys 0: every key another one. */
static struct fth_batch *make_batch(uint64_t seed, uint32_t n, uint32_t most_keys) {
    struct fth_batch *batch;
    fth_error err = {0};
    uint64_t state = seed;
    must(fth_batch_create(&schema, MOST, &batch, &err), &err);
    must(fth_batch_reserve_positions(batch, 0, n * 4, &err), &err);
    batch->n = n;
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        batch->groups[0].offsets[i] = at;
        at += draw(&state, 5);
        batch->label[i] = (float)draw(&state, 2);
        for (uint32_t c = 0; c < DENSE; c++)
            batch->dense[(size_t)i * batch->dense_ld + c] = (float)draw(&state, 1000) / 500 - 1;
    }
    batch->groups[0].offsets[n] = batch->groups[0].total = at;
    for (uint32_t f = 0; f < ALL_FIELDS; f++) {
        uint32_t count = groups[f] < 0 ? n : at, keys = most_keys ? most_keys : 1;
        uint32_t of[ALL_FIELDS] = {3, 9, keys, 2 * keys, 9, 9, keys, 9, keys, 2, 9, keys, keys};
        for (uint32_t i = 0; i < count; i++)
            batch->fields[f].keys[i] = most_keys ? draw(&state, of[f]) : seed * 1000 + i;
    }
    return batch;
}

static void step(struct world *world, const struct fth_batch *batch, uint64_t number, float rate) {
    struct fth_opt_args args = {.lr = rate, .grad_scale = 1};
    fth_error err = {0};
    must(fth_embedding_prepare(world->embedding, world->pool, batch, 1, number, &err), &err);
    fth_embedding_set_args(world->embedding, &args, NULL);
    struct fth_step run = {.batch = batch,
                           .rows = fth_embedding_rows(world->embedding),
                           .opt = &args,
                           .opt_no_decay = &args,
                           .seed = 5,
                           .step = number};
    fth_plan_run(world->plan, world->pool, &run);
}

/* ---- what a step has changed ---- */

struct tensor {
    const char *name;
    uint32_t rows, columns;
    float *before, *after; /* [rows][columns] */
};

enum { TENSORS = 64 };

struct change {
    struct tensor items[TENSORS];
    uint32_t n;
    uint32_t factorised; /* lookups of the batch */
    uint32_t forward;    /* of them, times layers: forward alone */
};

static void read_all(struct world *world, struct change *change, int after) {
    change->n = 0;
    for (uint32_t i = 0; i < world->parameters->n; i++) {
        struct fth_parameter *p = &world->parameters->items[i];
        struct tensor *tensor = &change->items[change->n++];
        *(after ? &tensor->after : &tensor->before) = weights_of(p);
        tensor->name = p->name;
        tensor->rows = p->rows;
        tensor->columns = p->columns;
        check_copies(p, world->graph->values[p->value].panels);
    }
    for (uint32_t i = 0; i < fth_embedding_packs(world->embedding); i++) {
        struct fth_pack_info info;
        fth_embedding_pack_info(world->embedding, i, &info);
        struct tensor *tensor = &change->items[change->n++];
        float *copy = fth_alloc(info.rows * info.dim + 1, sizeof *copy);
        struct fth_row_arrays arrays = {.weights = copy};
        assert_int_equal(fth_embedding_export(world->embedding, i, 0, info.rows, &arrays), info.rows);
        *(after ? &tensor->after : &tensor->before) = copy;
        assert_true(!after || tensor->rows == info.rows);
        tensor->name = "rows";
        tensor->rows = (uint32_t)info.rows;
        tensor->columns = info.dim;
    }
    assert_true(change->n < TENSORS);
}

static void change_free(struct change *change) {
    for (uint32_t i = 0; i < change->n; i++) {
        fth_free(change->items[i].before);
        fth_free(change->items[i].after);
    }
}

/* Forward alone: by each layer's own rule. */
static uint32_t forward_alone(const struct world *world) {
    const struct fth_rows *rows = fth_embedding_rows(world->embedding);
    uint32_t n = 0;
    for (uint32_t i = 0; i < world->graph->n_nodes; i++) {
        const struct fth_node *node = world->graph->nodes[i];
        if (node->op != &fth_op_factor_linear)
            continue;
        const struct fth_factor_attributes *a = node->attributes;
        for (uint32_t p = 0; p < a->n; p++) {
            int32_t lookup = a->pieces[p].lookup;
            const struct fth_unique_rows *unique = lookup < 0 ? NULL : rows->unique(rows->ctx, (uint32_t)lookup);
            n += unique && unique->n && !fth_unique_few(unique, a->gradient_most);
        }
    }
    return n;
}

/* One step at a rate at which weights move by about their size, after one of another batch that leaves its rows
 * and values behind, and some without movement that make this batch's rows. */
static struct change take(const struct setup *setup) {
    struct world world = make(setup);
    struct change change = {0};
    struct fth_batch *other = make_batch(1, MOST, 20);
    struct fth_batch *batch = make_batch(2, setup->examples, setup->most_keys);
    const struct fth_rows *rows = fth_embedding_rows(world.embedding);
    step(&world, other, 1, 0.05f);
    for (uint64_t number = 2; number < 5; number++)
        step(&world, batch, number, 0);
    read_all(&world, &change, 0);
    step(&world, batch, 5, 8);
    for (uint32_t l = 0; l < world.graph->n_lookups; l++)
        change.factorised += rows->unique(rows->ctx, l)->n > 0;
    change.forward = forward_alone(&world);
    read_all(&world, &change, 1);
    fth_batch_destroy(other);
    fth_batch_destroy(batch);
    release(&world);
    return change;
}

/* STAR normalises by domain. Of two examples the normalised values are y and -y, y^2 = d^2 / (d^2 + 1e-5), d half their
 * distance, and the inputs' gradient is (1 - y^2) of what comes in: for d = 0.3 one part in 10,000 is left, whose
 * roundings are as large as those of the whole. */
#define OF_TWO 5e-5

static void compare(const char *what, double share, const struct change *got, const struct change *want) {
    assert_int_equal(got->n, want->n);
    double moved = 0;
    for (uint32_t t = 0; t < want->n; t++) {
        const struct tensor *a = &got->items[t], *b = &want->items[t];
        double most = 0;
        assert_int_equal(a->rows, b->rows);
        for (uint32_t i = 0; i < b->rows * b->columns; i++)
            most = fmax(most, fabs((double)b->after[i] - (double)b->before[i]));
        for (uint32_t i = 0; i < b->rows * b->columns; i++) {
            double x = (double)a->after[i] - (double)a->before[i];
            double y = (double)b->after[i] - (double)b->before[i];
            if (!(fabs(x - y) <= share * most + 2e-7))
                fail_msg("%s: %s (%u, %u) moves by %.9g, plain %.9g (at most %g)", what, b->name,
                         i / b->columns, i % b->columns, x, y, most);
        }
        moved = fmax(moved, most);
    }
    assert_true(moved > 0.05); /* something was compared */
}

static void same_bits(const char *what, const struct change *got, const struct change *want) {
    assert_int_equal(got->n, want->n);
    for (uint32_t t = 0; t < want->n; t++)
        if (memcmp(got->items[t].after, want->items[t].after,
                   (size_t)want->items[t].rows * want->items[t].columns * sizeof(float)))
            fail_msg("%s: %s has other bits", what, want->items[t].name);
}

/* ---- tests ---- */

static const char *const layered[] = {"wide_deep", "deepfm", "xdeepfm", "can", "dcn", "dcnv2", "din", "mmoe", "dien", "two_tower", "dsin",
                                      "atbrg", "star"};

static int has_layer(const char *model) {
    for (size_t i = 0; i < sizeof layered / sizeof *layered; i++)
        if (!strcmp(layered[i], model))
            return 1;
    return 0;
}

#if defined(__SANITIZE_THREAD__)
#define EVERY 2 /* every load is watched: half of the kinds must do */
#else
#define EVERY 1
#endif

static void test_equal(void **state) {
    static const struct {
        uint32_t examples, most_keys;
        int some; /* fields are factorised */
    } kinds[] = {{MOST, 6, 1}, {MOST, 100, 1}, {MOST, 0, 0}, {256, 9, 1},
                 {255, 9, 0},  {37, 9, 0},     {2, 1, 0},    {1, 1, 0}};
    for (const struct fth_model *const *model = fth_models(); *model; model++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k += EVERY) {
            char what[64];
            struct setup setup = {.model = (*model)->name,
                                  .threads = 2,
                                  .examples = kinds[k].examples,
                                  .most_keys = kinds[k].most_keys};
            struct change got = take(&setup);
            setup.without[0] = "factorise_first_layer";
            setup.without[1] = "skip_zeros";
            struct change want = take(&setup);
            snprintf(what, sizeof what, "%s, %u examples, %u keys", setup.model, setup.examples,
                     setup.most_keys);
            assert_int_equal(want.factorised, 0);
            if (has(&setup, "wide_deep") && (got.forward > 0) != (kinds[k].most_keys == 100))
                fail_msg("%s: %u lookups factorised forward alone", what, got.forward);
            if ((got.factorised > 0) != (kinds[k].some && has_layer(setup.model)))
                fail_msg("%s: %u lookups factorised", what, got.factorised);
            compare(what, has(&setup, "star") && setup.examples == 2 ? OF_TWO : 1e-6, &got, &want);
            change_free(&got);
            change_free(&want);
        }
}

static void test_clipped(void **state) {
    for (size_t m = 0; m < sizeof layered / sizeof *layered; m++) {
        struct setup setup = {
            .model = layered[m], .threads = 2, .examples = MOST, .most_keys = 30, .clip_norm = 0.1f};
        struct change got = take(&setup);
        setup.without[0] = "factorise_first_layer";
        struct change want = take(&setup);
        assert_true(got.factorised > 0);
        compare(layered[m], 1e-6, &got, &want);
        change_free(&got);
        change_free(&want);
    }
}

static void test_same_bits(void **state) {
    static const char *const without[][4] = {
        {NULL},
        {"fuse_updates"},
        {"concat_in_place"},
        {"fuse_activations"},
        {"fuse_act_grads"},
        {"fuse_crosses"},
        {"fuse_updates", "concat_in_place", "fuse_activations"}};
    static const uint32_t threads[] = {1, 2, 8};
    for (size_t m = 0; m < sizeof layered / sizeof *layered; m++) {
        struct setup setup = {.model = layered[m], .threads = 2, .examples = MOST, .most_keys = 30};
        struct change want = take(&setup);
        assert_true(want.factorised > 0);
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
            for (size_t w = 0; w < sizeof without / sizeof *without; w++) {
                char what[64];
                if (w && threads[t] != 2)
                    continue;
                setup.threads = threads[t];
                memcpy(setup.without, without[w], sizeof setup.without);
                struct change got = take(&setup);
                snprintf(what, sizeof what, "%s, %u threads, without %zu", layered[m], threads[t], w);
                same_bits(what, &got, &want);
                change_free(&got);
            }
        change_free(&want);
    }
}

/* Where a layer's weights and embeddings have other readers. */
static void test_odd_graph(void **state) {
    static const uint32_t keys[] = {6, 100, 0};
    for (size_t k = 0; k < 3; k++)
        for (int clipped = 0; clipped < 2; clipped++) {
            struct setup setup = {.model = "odd", .threads = 2, .examples = MOST, .most_keys = keys[k],
                                  .clip_norm = clipped ? 0.1f : 0};
            struct change got = take(&setup);
            setup.without[0] = "factorise_first_layer";
            setup.without[1] = "skip_zeros";
            struct change want = take(&setup);
            compare("odd", 1e-6, &got, &want);
            assert_int_equal(got.factorised > 0, keys[k] > 0);
            assert_int_equal(want.factorised, 0);
            change_free(&got);
            change_free(&want);
        }
}

/* A gradient that meets others is added to them, and nobody adds zeros. */
static void test_sums(void **state) {
    static const char *const models[] = {"dcnv2", "deepfm", "wide_deep"};
    static const uint32_t sums[] = {2, 1, 0};
    for (size_t m = 0; m < 3; m++) {
        struct setup setup = {.model = models[m], .threads = 1, .examples = MOST, .most_keys = 6};
        struct world world = make(&setup);
        uint32_t n = 0;
        for (uint32_t i = 0; i < world.graph->n_nodes; i++) {
            const struct fth_node *node = world.graph->nodes[i];
            if (node->op != &fth_op_factor_data_grad)
                continue;
            const struct fth_factor_attributes *a = node->attributes;
            n += node->inputs[3] != FTH_NONE;
            assert_int_equal(a->zeros, 0);
        }
        assert_int_equal(n, sums[m]);
        release(&world);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_clipped),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_odd_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
