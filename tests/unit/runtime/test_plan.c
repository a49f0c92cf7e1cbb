/* The planner, against an own computation of what must hold: order of phases, no two live values in one place,
 * no size beyond what is reserved. For every model, rewritten or not, training or not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "model/model.h"
#include "passes/passes.h"
#include "runtime/plan_private.h"
#include "zoo.h"

enum { BATCH = 200, WORKERS = 3, ROW_TASKS = 4 };

struct planned {
    fth_graph *graph;
    fth_parameters *parameters;
    fth_plan *plan;
};

static struct planned make(const struct zoo_options *options, uint32_t tile, int training) {
    static const uint32_t group_max[] = {ZOO_GROUP_MAX};
    static const struct fth_optimizer_config config = {.name = "adam", .lr = 0.01, .eps = 1e-8};
    struct planned p = {.graph = zoo_graph(options)};
    const struct fth_optimizer *optimizer = fth_optimizer_find("adam");
    fth_error err = {0};
    struct fth_plan_options plan = {.max_batch = BATCH, .tile = tile, .group_max = group_max,
                                    .n_groups = ZOO_GROUPS, .training = training, .optimizer = optimizer,
                                    .precision = options->precision, .workers = WORKERS, .row_update_tasks = ROW_TASKS,
                                    .row_update_scratch = 100};
    if (fth_parameters_create(p.graph, optimizer, &config, 1, &p.parameters, &err) != FTH_OK ||
        fth_plan_create(p.graph, p.parameters, &plan, &p.plan, &err) != FTH_OK)
        fail_msg("%s", err.message);
    return p;
}

static void destroy(struct planned *p) {
    fth_plan_destroy(p->plan);
    fth_parameters_destroy(p->parameters);
    fth_graph_destroy(p->graph);
}

static fth_id root_of(const fth_graph *graph, fth_id value) {
    return graph->values[value].view_of == FTH_NONE ? value : graph->values[value].view_of;
}

static int is_whole(const struct fth_node *node) {
    return node->op->granularity == FTH_WHOLE_BATCH;
}

static int touches(const fth_graph *graph, const fth_id *ids, uint32_t n, fth_id root) {
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] != FTH_NONE && root_of(graph, ids[i]) == root)
            return 1;
    return 0;
}

static int reads(const fth_graph *graph, const struct fth_node *node, fth_id root) {
    return touches(graph, node->inputs, node->n_inputs, root);
}

static int writes(const fth_graph *graph, const struct fth_node *node, fth_id root) {
    return touches(graph, node->outputs, node->n_outputs, root);
}

/* Every node of the wanted stages stands there once; a phase is of one kind. */
static void check_nodes(const struct planned *p, int training) {
    const fth_plan *plan = p->plan;
    uint32_t wanted = 0, counted = 0;
    for (uint32_t i = 0; i < p->graph->n_nodes; i++) {
        const struct fth_node *node = p->graph->nodes[i];
        uint32_t times = 0;
        for (uint32_t k = 0; k < plan->n_nodes; k++)
            times += plan->nodes[k].node == node;
        uint32_t should = training || (node->stage == FTH_FORWARD && !node->training_only);
        assert_int_equal(times, should);
        wanted += should;
    }
    assert_int_equal(plan->n_nodes, wanted);
    for (uint32_t f = 0; f < plan->n_phases; f++) {
        uint32_t tasks = 0;
        assert_int_equal(plan->phases[f].first, counted);
        for (uint32_t k = 0; k < plan->phases[f].count; k++) {
            const struct fth_planned_node *node = &plan->nodes[plan->phases[f].first + k];
            assert_int_equal(node->phase, f);
            assert_int_equal(node->node->op->granularity, plan->phases[f].granularity);
            tasks += node->prepare.tasks;
        }
        if (plan->phases[f].granularity == FTH_WHOLE_BATCH)
            assert_int_equal(plan->phases[f].order.tasks, tasks);
        counted += plan->phases[f].count;
    }
    assert_int_equal(counted, plan->n_nodes);
}

/* Who writes a value runs before who reads it: earlier in the phase where both go tile by tile, in an earlier
 * phase where one of them needs the whole batch. Who changes a parameter or row runs in a phase behind all
 * who read it. */
static void check_order(const struct planned *p) {
    const fth_plan *plan = p->plan;
    const fth_graph *graph = p->graph;
    for (uint32_t a = 0; a < plan->n_nodes; a++)
        for (uint32_t b = 0; b < plan->n_nodes; b++) {
            const struct fth_node *writer = plan->nodes[a].node, *reader = plan->nodes[b].node;
            int apart = plan->nodes[a].phase < plan->nodes[b].phase;
            for (uint32_t o = 0; o < writer->n_outputs; o++) {
                if (!reads(graph, reader, root_of(graph, writer->outputs[o])) || a == b)
                    continue;
                /* A concatenation that was taken away is read through its root: other columns of it may be
                 * written later only by nodes that the reader does not see. So are the sums of a node that adds
                 * in place: it reads the value, later nodes add to what it has written there. */
                int sees = 0, adds = writes(graph, reader, root_of(graph, writer->outputs[o]));
                for (uint32_t i = 0; i < reader->n_inputs; i++)
                    sees |= reader->inputs[i] == writer->outputs[o] ||
                            (!adds && reader->inputs[i] == root_of(graph, writer->outputs[o]));
                if (sees)
                    assert_true(apart || (a < b && plan->nodes[a].phase == plan->nodes[b].phase &&
                                          !is_whole(writer) && !is_whole(reader)));
            }
            if (a == b || reader->stage == FTH_UPDATE || writer->stage != FTH_UPDATE)
                continue;
            for (uint32_t i = 0; i < writer->n_inputs; i++)
                if (writer->inputs[i] != FTH_NONE &&
                    graph->values[writer->inputs[i]].role == FTH_ROLE_PARAMETER &&
                    reads(graph, reader, writer->inputs[i]))
                    assert_true(plan->nodes[b].phase < plan->nodes[a].phase);
            if (reader->op->trains_rows)
                assert_true(plan->nodes[b].phase < plan->nodes[a].phase);
        }
}

struct life {
    int used, phase, crosses, whole;
    uint32_t first, last;
    size_t start, end;
};

static struct life life_of(const struct planned *p, fth_id root) {
    const fth_plan *plan = p->plan;
    struct life life = {0};
    for (uint32_t k = 0; k < plan->n_nodes; k++) {
        const struct fth_node *node = plan->nodes[k].node;
        if (!reads(p->graph, node, root) && !writes(p->graph, node, root))
            continue;
        if (!life.used)
            life = (struct life){.used = 1, .phase = (int)plan->nodes[k].phase, .first = k};
        life.last = k;
        life.crosses |= (int)plan->nodes[k].phase != life.phase;
        life.whole |= is_whole(node);
    }
    return life;
}

static size_t rows_in(const struct fth_value *value, uint32_t examples, uint32_t tiles) {
    switch (value->extent) {
    case FTH_EXAMPLES: return examples;
    case FTH_POSITIONS: /* dsin: sessions of two positions */
        return (size_t)examples * (value->group < FTH_SESSIONS ? ZOO_GROUP_MAX : (ZOO_GROUP_MAX + 1) / 2);
    case FTH_TILES: return tiles;
    case FTH_WHOLE: return value->rows;
    }
    return 0;
}

static int overlap(size_t a, size_t a_end, size_t b, size_t b_end) {
    return a < b_end && b < a_end;
}

/* Softmax over a batch cuts the graph behind both towers: nearly all values go from phase to phase there. */
static int has_node(const fth_graph *graph, const char *op) {
    for (uint32_t n = 0; n < graph->n_nodes; n++)
        if (strcmp(graph->nodes[n]->op->name, op) == 0)
            return 1;
    return 0;
}

static void check_places(const struct planned *p, uint32_t tile) {
    const fth_plan *plan = p->plan;
    const fth_graph *graph = p->graph;
    struct life *lives = test_calloc(graph->n_values, sizeof *lives);
    uint32_t scratch = 0, shared = 0;
    for (uint32_t v = 0; v < graph->n_values; v++) {
        const struct fth_value *value = &graph->values[v];
        const struct fth_place *place = &plan->places[v];
        fth_id root = root_of(graph, (fth_id)v);
        assert_int_equal(place->root, root);
        assert_int_equal(place->kind, plan->places[root].kind);
        if (root != (fth_id)v) {
            assert_int_equal(place->column, value->view_column);
            assert_int_equal(place->offset, plan->places[root].offset);
            continue;
        }
        lives[v] = life_of(p, root);
        struct life *life = &lives[v];
        int in_scratch = place->kind == FTH_PLACE_SCRATCH, in_buffer = place->kind == FTH_PLACE_BUFFER;
        if (value->role != FTH_ROLE_NORMAL)
            assert_false(in_scratch || in_buffer);
        else if (life->used)
            assert_true(in_scratch || in_buffer);
        if (!in_scratch && !in_buffer)
            continue;
        if (in_scratch)
            assert_true(!life->crosses && !life->whole && value->extent != FTH_WHOLE);
        size_t rows = in_scratch ? rows_in(value, tile, 1) : rows_in(value, BATCH, (BATCH + tile - 1) / tile);
        life->start = place->offset;
        life->end = place->offset + rows * fth_padded_columns(value->columns) * sizeof(float);
        assert_int_equal(life->start % 64, 0);
        assert_int_equal(place->ld, fth_padded_columns(value->columns));
        assert_true(life->end <= (in_scratch ? plan->scratch_bytes : plan->buffer_bytes));
        scratch += (uint32_t)in_scratch;
        for (uint32_t u = 0; u < v; u++) {
            const struct life *other = &lives[u];
            if (!other->end || plan->places[u].kind != place->kind || other->end == other->start ||
                !overlap(life->start, life->end, other->start, other->end))
                continue;
            shared++;
            assert_true(in_scratch);
            if (life->phase == other->phase && life->first <= other->last && other->first <= life->last)
                fail_msg("values %u and %u live at once in one place", u, v);
        }
    }
    if (plan->n_phases > 1)
        assert_true(scratch > (has_node(graph, "batch_softmax") ? 1 : 3));
    if (strstr(graph->nodes[0]->name, "deep"))
        assert_true(shared > 0); /* else there was nothing to check */
    test_free(lives);
}

static void test_every_model(void **state) {
    static const uint32_t tiles[] = {1, 3, 64};
    uint32_t phases = 0;
    for (const struct fth_model *const *model = fth_models(); *model; model++)
        for (int variant = 0; variant < 8; variant++) {
            struct zoo_options options = {.model = (*model)->name, .plain = variant & 1,
                                          .no_passes = variant >> 1 & 1,
                                          .clip_norm = variant >> 2 ? 1.0f : 0};
            for (int training = 0; training < 2; training++) {
                uint32_t tile = tiles[(variant + training) % 3];
                struct planned p = make(&options, tile, training);
                check_nodes(&p, training);
                check_order(&p);
                check_places(&p, tile);
                phases = p.plan->n_phases > phases ? p.plan->n_phases : phases;
                destroy(&p);
            }
        }
    assert_true(phases >= 6); /* batch norm and clipping cut the graph */
}

/* Tile and, in fp32, places are the plan's, never the number of workers'; tile and tasks are cut by the cores. */
static void test_workers_change_nothing(void **state) {
    static const uint32_t group_max[] = {ZOO_GROUP_MAX};
    struct planned p = make(&(struct zoo_options){.model = "din"}, 0, 1);
    fth_error err = {0};
    struct fth_plan_options options = p.plan->options;
    options.workers = 8;
    options.group_max = group_max;
    options.tile = 0;
    fth_plan *other = NULL;
    if (fth_plan_create(p.graph, p.parameters, &options, &other, &err) != FTH_OK)
        fail_msg("%s", err.message);
    assert_int_equal(other->options.tile, p.plan->options.tile);
    assert_int_equal(other->options.tile, 64);
    assert_int_equal(other->n_nodes, p.plan->n_nodes);
    for (uint32_t i = 0; i < other->n_nodes; i++)
        assert_int_equal(other->nodes[i].prepare.tasks, p.plan->nodes[i].prepare.tasks);
    assert_memory_equal(other->places, p.plan->places, p.graph->n_values * sizeof *other->places);
    fth_plan_destroy(other);
    /* By the machine's cores, which nodes are told. */
    options.cores = 16;
    options.max_batch = 512;
    if (fth_plan_create(p.graph, p.parameters, &options, &other, &err) != FTH_OK)
        fail_msg("%s", err.message);
    assert_int_equal(other->options.tile, 32);
    for (uint32_t i = 0; i < other->n_nodes; i++)
        assert_int_equal(other->nodes[i].prepare.cores, 16);
    fth_plan_destroy(other);
    destroy(&p);
}

/* Long histories make small tiles where positions are kept, not where they are pooled at once. */
static void test_tile_rule(void **state) {
    static const uint32_t shorter[] = {5}, longer[] = {50}, longest[] = {2000};
    fth_graph *kept = zoo_graph(&(struct zoo_options){.model = "din"});
    fth_graph *unit =
        zoo_graph(&(struct zoo_options){.model = "din", .attention_activation = "sigmoid"});
    fth_graph *pooled = zoo_graph(&(struct zoo_options){.model = "deepfm"});
    fth_graph *walked = zoo_graph(&(struct zoo_options){.model = "dien"});
    assert_int_equal(fth_plan_tile(walked, longer, FTH_FP32, 4096, 2), 32);
    assert_int_equal(fth_plan_tile(kept, shorter, FTH_FP32, 4096, 2), 64);
    assert_int_equal(fth_plan_tile(kept, longer, FTH_FP32, 4096, 2), 16);
    assert_int_equal(fth_plan_tile(kept, longest, FTH_FP32, 4096, 2), 8);
    assert_int_equal(fth_plan_tile(unit, longer, FTH_FP32, 4096, 2), 64);
    assert_int_equal(fth_plan_tile(unit, longest, FTH_FP32, 4096, 2), 8);
    assert_int_equal(fth_plan_tile(pooled, longest, FTH_FP32, 4096, 2), 64);
    /* As large as products in bf16 want, while there are 16 tiles. */
    uint32_t wanted = fth_gemm_cut(FTH_BF16).tile;
    assert_int_equal(fth_plan_tile(pooled, longest, FTH_BF16, 16 * wanted, 2), wanted);
    assert_int_equal(fth_plan_tile(pooled, longest, FTH_BF16, 8 * wanted, 2), wanted > 64 ? wanted / 2 : 64);
    assert_int_equal(fth_plan_tile(pooled, longest, FTH_BF16, 1, 2), 64);
    /* Smaller ones for more than eight cores, where a batch is small. */
    for (int precision = FTH_FP32; precision < FTH_PRECISIONS; precision++) {
        assert_int_equal(fth_plan_tile(pooled, longest, precision, 512, 8), 64);
        assert_int_equal(fth_plan_tile(pooled, longest, precision, 512, 9), 32);
        assert_int_equal(fth_plan_tile(pooled, longest, precision, 1024, 16), 64);
    }
    /* Fewer beside layers of so many numbers that a tile of 256 has more than 5 MB of them, but not below 128. */
    static const struct {
        uint32_t inputs, most;
    } layers[] = {{2000, 256}, {3000, 128}, {100000, 128}};
    for (uint32_t i = 0; i < 3; i++) {
        fth_graph *large = zoo_graph(&(struct zoo_options){.model = "deepfm"});
        fth_id weight;
        fth_error err = {0};
        assert_int_equal(fth_graph_parameter(large, FTH_ROLE_PARAMETER, "large", layers[i].inputs, 2500, FTH_PARAM_UNIFORM,
                                             1, &weight, &err),
                         FTH_OK);
        uint32_t tile = wanted < layers[i].most ? wanted : layers[i].most;
        assert_int_equal(fth_plan_tile(large, longest, FTH_BF16, 16 * wanted, 2), tile);
        fth_graph_destroy(large);
    }
    fth_graph_destroy(walked);
    fth_graph_destroy(kept);
    fth_graph_destroy(unit);
    fth_graph_destroy(pooled);
}

/* A worker takes as many tiles together as the products want, if all workers get as many; where these take no tiles (no
 * AMX), one. */
static void test_span_rule(void **state) {
    static const uint32_t group_max[] = {ZOO_GROUP_MAX};
    static const struct {
        int precision;
        uint32_t tile, batch, workers, span;
    } cases[] = {{FTH_BF16, 64, 512, 1, 4},   {FTH_BF16, 64, 512, 2, 4}, {FTH_BF16, 64, 512, 3, 3},
                 {FTH_BF16, 64, 512, 8, 1},   {FTH_BF16, 64, 500, 2, 4}, {FTH_BF16X3, 64, 128, 2, 1},
                 {FTH_BF16, 256, 4096, 2, 1}, {FTH_FP32, 64, 512, 2, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].precision != FTH_FP32)
            assert_int_equal(fth_plan_span(256, cases[i].tile, cases[i].batch, cases[i].workers), cases[i].span);
        if (cases[i].precision != FTH_FP32 && !fth_cpu_get()->avx512_bf16)
            continue; /* no such plan can be made here */
        struct planned p = make(&(struct zoo_options){.model = "deepfm", .precision = cases[i].precision}, 64, 1);
        struct fth_plan_options options = p.plan->options;
        fth_error err = {0};
        fth_plan *plan = NULL;
        options.group_max = group_max;
        options.max_batch = cases[i].batch;
        options.workers = cases[i].workers;
        options.tile = options.span = 0;
        if (fth_plan_create(p.graph, p.parameters, &options, &plan, &err) != FTH_OK)
            fail_msg("%s", err.message);
        int tiles = fth_gemm_cut((fth_precision)cases[i].precision).tiles;
        assert_int_equal(plan->max_span, tiles ? cases[i].span : 1);
        if (tiles)
            assert_int_equal(plan->options.tile, cases[i].tile);
        fth_plan_destroy(plan);
        destroy(&p);
    }
}

static int is_read(const struct fth_plan *plan, fth_id value) {
    for (uint32_t i = 0; i < plan->n_nodes; i++)
        for (uint32_t j = 0; j < plan->nodes[i].node->n_inputs; j++)
            if (plan->nodes[i].node->inputs[j] == value)
                return 1;
    return 0;
}

/* Tiles that no node of the plan reads have no place: the first layer's gradient by rows, and what only gradients want. */
static void test_unread_tiles(void **state) {
    if (!fth_cpu_get()->amx_bf16)
        skip();
    for (int training = 0; training < 2; training++) {
        struct planned p = make(&(struct zoo_options){.model = "dlrm", .plain = 1, .precision = FTH_BF16}, 64, training);
        uint32_t unread = 0;
        for (uint32_t i = 0; i < p.plan->n_nodes; i++)
            for (uint32_t j = 0; j < p.plan->nodes[i].node->n_outputs; j++) {
                fth_id value = p.plan->nodes[i].node->outputs[j];
                if (!p.graph->values[value].tiles)
                    continue;
                int none = p.plan->places[value].kind == FTH_PLACE_NONE;
                assert_int_equal(none, !is_read(p.plan, value));
                unread += (uint32_t)none;
            }
        assert_true(training ? unread == 1 : unread > 1);
        destroy(&p);
    }
}

static uint32_t tile_without(const char *model, const char *activation, int precision, const char *pass) {
    static const uint32_t positions[] = {50};
    fth_graph *graph = zoo_graph(&(struct zoo_options){.model = model, .plain = 1, .attention_activation = activation,
                                                       .precision = precision, .without = pass});
    uint32_t tile = fth_plan_tile(graph, positions, precision, 4096, 2);
    fth_graph_destroy(graph);
    return tile;
}

/* Sums over tiles round as tiles are cut: passes that do not round must not move the cuts. Without fuse_activations
 * there is nothing to fuse for fuse_attention, which rounds. */
static void test_passes_keep_the_tile(void **state) {
    for (const struct fth_model *const *model = fth_models(); *model; model++)
        for (const struct fth_pass *const *pass = fth_passes(); *pass; pass++)
            for (int precision = FTH_FP32; precision < FTH_PRECISIONS; precision++) {
                const char *name = (*model)->name, *activation = strcmp(name, "din") ? NULL : "sigmoid";
                const char *as = strcmp((*pass)->name, "fuse_activations") ? NULL : "fuse_attention";
                uint32_t tile = tile_without(name, activation, precision, (*pass)->name);
                if (!(*pass)->rounding && tile != tile_without(name, activation, precision, as))
                    fail_msg("%s: tiles of %u without %s", name, tile, (*pass)->name);
            }
}

/* More positions than a tile can count, or memory than there is of address space, is refused, with the keys that would
 * help. Lists that are pooled at once take neither. */
static void test_too_large(void **state) {
    static const uint32_t group_max[] = {UINT32_MAX, (uint32_t)1 << 26};
    struct planned p = make(&(struct zoo_options){.model = "din"}, 16, 1);
    fth_error err = {0};
    fth_plan *other = NULL;
    struct fth_plan_options options = p.plan->options;
    options.max_batch = 16777216;
    for (int i = 0; i < 2; i++) {
        options.group_max = &group_max[i];
        assert_int_equal(fth_plan_create(p.graph, p.parameters, &options, &other, &err), FTH_E_LIMIT);
        assert_non_null(strstr(err.message, "train.batch_size"));
        assert_true((strstr(err.message, "positions") != NULL) == (i == 0));
        assert_null(other);
    }
    destroy(&p);
    p = make(&(struct zoo_options){.model = "deepfm"}, 16, 1);
    options = p.plan->options;
    options.group_max = group_max;
    assert_int_equal(fth_plan_create(p.graph, p.parameters, &options, &other, NULL), FTH_OK);
    fth_plan_destroy(other);
    destroy(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_model), cmocka_unit_test(test_workers_change_nothing),
        cmocka_unit_test(test_tile_rule),   cmocka_unit_test(test_passes_keep_the_tile),
        cmocka_unit_test(test_too_large),   cmocka_unit_test(test_span_rule),
        cmocka_unit_test(test_unread_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
