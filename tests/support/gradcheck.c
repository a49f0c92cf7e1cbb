/* Gradient checks (gradcheck.h). */
#include "gradcheck.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define MOST_CHECKED 24 /* elements of one tensor whose finite difference is taken */
#define STEP 0x1p-5f
#define RATE 0.5f

/* ---- the projection: loss = sum of y * u ---- */

static fth_status project_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    return fth_graph_output(graph, node, 0, FTH_WHOLE, -1, 1, 1, err);
}

static fth_status project_gradient(fth_graph *graph, const struct fth_node *node,
                                   const fth_id *d_outputs, fth_id *d_inputs, fth_error *err) {
    d_inputs[0] = node->inputs[1];
    return FTH_OK;
}

static void project_run(const struct fth_run *run) {
    run->out[0].data[0] = 0;
}

static const struct fth_op project = {.name = "project",
                                      .min_inputs = 2,
                                      .max_inputs = 2,
                                      .n_outputs = 1,
                                      .granularity = FTH_WHOLE_BATCH,
                                      .shape = project_shape,
                                      .gradient = project_gradient,
                                      .begins_backward = 1,
                                      .run = project_run};

fth_id gradcheck_input(struct gradcheck *check, int32_t group, uint32_t columns) {
    char table[32];
    snprintf(table, sizeof table, "t%u", check->graph->n_lookups);
    struct fth_lookup lookup = {.field = check->graph->n_lookups,
                                .table = table,
                                .dim = columns,
                                .pooling = FTH_POOL_NONE,
                                .group = group};
    uint32_t number;
    fth_id out;
    CHECK_OK(check, fth_graph_lookup(check->graph, &lookup, &number, &check->err));
    CHECK_OK(check, fth_layer_embedding(check->graph, table, &number, 1, &out, &check->err));
    return out;
}

/* ---- one case ---- */

struct run {
    const char *name;
    struct gradcheck check;
    struct gradcheck_shape shape;
    struct interpret *it;
    fth_id y, u, losses;
    uint32_t random;
    uint32_t *offsets;
    uint64_t *keys; /* pairs of positions, beyond examples' ends, too */
};

/* +-[0.25, 1.25): away from the kink of ReLU by more than the steps go. */
static float draw(struct run *run) {
    run->random = run->random * 1664525u + 1013904223u;
    float size = 0.25f + (float)(run->random >> 9) * 0x1p-23f;
    return run->random >> 8 & 1 ? size : -size;
}

static void offsets_make(struct run *run) {
    /* 0, 3, 1, 0, 5 positions and so on: empty segments first, last and between. */
    static const uint32_t lengths[] = {0, 3, 1, 0, 5, 2, 0};
    run->offsets = fth_alloc(run->shape.examples + 1, sizeof *run->offsets);
    for (uint32_t i = 0; i < run->shape.examples; i++)
        run->offsets[i + 1] = run->offsets[i] + (run->shape.examples == 1 ? 2 : lengths[i % 7]);
    uint32_t positions = run->offsets[run->shape.examples];
    uint32_t keys = (positions > run->shape.examples ? positions : run->shape.examples) + INTERPRET_FIELDS;
    run->keys = fth_alloc(keys, sizeof *run->keys);
    for (uint32_t t = 0; t < keys; t++)
        run->keys[t] = (uint64_t)t / 2;
}

static void graph_make(struct run *run, fth_id (*build)(struct gradcheck *check)) {
    struct gradcheck *check = &run->check;
    CHECK_OK(check, fth_graph_create(check->dense, &check->graph, &check->err));
    run->y = build(check);
    run->u = run->losses = FTH_NONE;
    if (run->y != FTH_NONE) {
        struct fth_value y = *fth_graph_value(check->graph, run->y);
        run->u = gradcheck_input(check, y.group, y.columns);
        fth_id inputs[2] = {run->y, run->u};
        CHECK_OK(check, fth_graph_node(check->graph, &project, "project", inputs, 2, NULL, 0,
                                       &check->graph->loss, &check->err));
    } else {
        CHECK_OK(check, fth_layer_loss(check->graph, 0.125f, &check->err));
        for (uint32_t i = 0; i < check->graph->n_nodes; i++)
            if (check->graph->nodes[i]->op == &fth_op_col_sum) /* further losses are in it */
                run->losses = check->graph->nodes[i]->inputs[0];
    }
    CHECK_OK(check, fth_graph_differentiate(check->graph, &check->err));
    CHECK_OK(check, fth_layer_updates(check->graph, 0, &check->err));
    CHECK_OK(check, fth_graph_verify(check->graph, &check->err));
}

static void values_fill(struct run *run) {
    fth_graph *graph = run->check.graph;
    float size = run->y != FTH_NONE ? 1 : 0.3f; /* whole models: far from saturation */
    run->random = 12345;
    for (uint32_t l = 0; l < graph->n_lookups; l++)
        for (uint32_t r = 0; r < interpret_lookup_rows(run->it, l); r++)
            for (uint32_t c = 0; c < graph->lookups[l].dim; c++)
                *interpret_row_at(run->it, l, r, c) = size * draw(run);
    for (uint32_t v = 0; v < graph->n_values; v++) {
        const struct fth_value *value = &graph->values[v];
        for (uint32_t r = 0;
             value->role != FTH_ROLE_NORMAL && r < interpret_rows(run->it, (fth_id)v); r++)
            for (uint32_t c = 0; c < value->columns; c++) {
                float x = size * draw(run);
                if (value->role == FTH_ROLE_LABEL)
                    x = x > 0;
                if (value->role == FTH_ROLE_WEIGHT)
                    x = fabsf(x);
                *interpret_at(run->it, (fth_id)v, r, c) = x;
            }
    }
    interpret_refresh(run->it);
}

static struct interpret *interpret_make(struct run *run, uint32_t tile) {
    struct interpret_options options = {.examples = run->shape.examples,
                                        .tile = tile,
                                        .offsets = {run->offsets, NULL},
                                        .keys = run->keys,
                                        .opt = {.lr = RATE, .grad_scale = 1},
                                        .opt_no_decay = {.lr = RATE, .grad_scale = 1},
                                        .seed = 7,
                                        .step = 3,
                                        .weights = 1};
    return interpret_create(run->check.graph, &options);
}

static double objective(struct run *run) {
    double sum = 0;
    fth_id of = run->y != FTH_NONE ? run->y : run->losses;
    uint32_t rows = interpret_rows(run->it, of);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < run->check.graph->values[of].columns; c++) {
            double y = *interpret_at(run->it, of, r, c);
            sum += run->y != FTH_NONE ? y * (double)*interpret_at(run->it, run->u, r, c) : y / rows;
        }
    return sum;
}

/* By four points: the error is of fourth order in the step. */
static double difference(struct run *run, float *x) {
    static const float at[4] = {-2, -1, 1, 2};
    static const double weight[4] = {1, -8, 8, -1};
    float kept = *x;
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        *x = kept + at[i] * STEP;
        interpret_refresh(run->it); /* it may be a weight, whose copies are read */
        interpret_run(run->it, FTH_FORWARD);
        sum += weight[i] * objective(run);
    }
    *x = kept;
    interpret_refresh(run->it);
    return sum / (12 * (double)STEP);
}

/* A tensor that the loss depends on: a parameter, or the rows of a lookup, which are columns
 * [column, + columns) of an embedding node's output `value`. */
struct tensor {
    fth_id value;
    int32_t lookup; /* -1: parameter */
    uint32_t column, rows, columns;
};

/* The row of the embedding's output that row r of the lookup went into. */
static uint32_t output_row(const struct run *run, const struct tensor *tensor, uint32_t r) {
    const struct fth_lookup *lookup = &run->check.graph->lookups[tensor->lookup];
    uint32_t example = 0;
    if (lookup->group < 0 || lookup->pooling == FTH_POOL_NONE)
        return r;
    while (run->offsets[example + 1] <= r)
        example++;
    return example;
}

/* Element (r, c) of a tensor's gradient: tiles are added up. 0 where nothing flows. */
static double gradient_at(const struct run *run, struct interpret *it, const struct tensor *tensor,
                          uint32_t r, uint32_t c) {
    fth_id gradient = run->check.graph->values[tensor->value].gradient;
    if (gradient == FTH_NONE)
        return 0;
    if (tensor->lookup >= 0)
        return *interpret_at(it, gradient, output_row(run, tensor, r), tensor->column + c);
    if (run->check.graph->values[gradient].extent != FTH_TILES)
        return *interpret_at(it, gradient, r, c);
    double sum = 0;
    for (uint32_t t = 0; t < interpret_rows(it, gradient); t++)
        sum += *interpret_at(it, gradient, t, r * tensor->columns + c);
    return sum;
}

static float *element(const struct tensor *tensor, struct interpret *it, uint32_t r, uint32_t c) {
    return tensor->lookup < 0 ? interpret_at(it, tensor->value, r, c)
                              : interpret_row_at(it, (uint32_t)tensor->lookup, r, c);
}

static void tensor_check(struct run *run, struct interpret *tiled, const struct tensor *tensor) {
    uint32_t n = tensor->rows * tensor->columns, stride = n / MOST_CHECKED + 1;
    double *expected = fth_alloc(n + 1, sizeof *expected), most = 0;
    for (uint32_t i = 0; i < n; i++) {
        expected[i] = gradient_at(run, run->it, tensor, i / tensor->columns, i % tensor->columns);
        most = fmax(most, fabs(expected[i]));
    }
    for (uint32_t i = 0; i < n; i++) {
        double parts = gradient_at(run, tiled, tensor, i / tensor->columns, i % tensor->columns);
        if (!(fabs(expected[i] - parts) <= 1e-5 * most + 1e-6))
            fail_msg("%s: value %d element %u: gradient %g by one tile, %g by several", run->name,
                     tensor->value, i, expected[i], parts);
    }
    double noise = run->y != FTH_NONE ? 2e-4 : 2e-5; /* a mean of losses is small */
    for (uint32_t i = 0; i < n; i += stride) {
        uint32_t r = i / tensor->columns, c = i % tensor->columns;
        double numeric = difference(run, element(tensor, run->it, r, c));
        if (!(fabs(numeric - expected[i]) <= 1e-3 * most + noise))
            fail_msg("%s: value %d (%u, %u) of %u examples: gradient %g, finite difference %g",
                     run->name, tensor->value, r, c, run->shape.examples, expected[i], numeric);
    }
    fth_free(expected);
}

/* A whole step has moved every weight and row by the learning rate times its gradient. */
static void moved_check(struct run *run, struct interpret *after, const struct tensor *tensor) {
    for (uint32_t i = 0; i < tensor->rows * tensor->columns; i++) {
        uint32_t r = i / tensor->columns, c = i % tensor->columns;
        double step = RATE * gradient_at(run, after, tensor, r, c);
        double want = *element(tensor, run->it, r, c) - step;
        if (!(fabs(*element(tensor, after, r, c) - want) <= 1e-5 * (1 + fabs(want) + fabs(step))))
            fail_msg("%s: value %d (%u, %u) was not updated by its gradient", run->name,
                     tensor->value, r, c);
    }
}

/* Every tensor but the projection's. `after`: the run after a step, or NULL: check gradients. */
static void all_check(struct run *run, struct interpret *tiled, struct interpret *after) {
    fth_graph *graph = run->check.graph;
    for (uint32_t v = 0; v < graph->n_values; v++) {
        struct tensor tensor = {(fth_id)v, -1, 0, graph->values[v].rows, graph->values[v].columns};
        if (graph->values[v].role != FTH_ROLE_PARAMETER)
            continue;
        if (after)
            moved_check(run, after, &tensor);
        else
            tensor_check(run, tiled, &tensor);
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        if (node->op != &fth_op_embedding || node->outputs[0] == run->u)
            continue;
        const struct fth_embedding_attributes *a = node->attributes;
        uint32_t column = 0;
        for (uint32_t l = 0; l < a->n_lookups; l++) {
            struct tensor tensor = {node->outputs[0], (int32_t)a->lookups[l], column,
                                    interpret_lookup_rows(run->it, a->lookups[l]),
                                    graph->lookups[a->lookups[l]].dim};
            if (after)
                moved_check(run, after, &tensor);
            else
                tensor_check(run, tiled, &tensor);
            column += tensor.columns;
        }
    }
}

static void update_check(struct run *run) {
    struct interpret *before = run->it, *after = interpret_make(run, run->shape.tile);
    run->it = after;
    values_fill(run);
    interpret_run(after, FTH_UPDATE);
    run->it = before;
    all_check(run, NULL, after);
    assert_true(interpret_transposed_equal(after));
    interpret_destroy(after);
}

void gradcheck_run(const char *name, fth_id (*build)(struct gradcheck *check),
                   const struct gradcheck_shape *shape) {
    struct run run = {.name = name, .shape = *shape};
    run.check.group = shape->group;
    run.check.columns = shape->columns;
    run.check.dense = 3;
    offsets_make(&run);
    graph_make(&run, build);
    struct interpret *tiled = interpret_make(&run, shape->tile);
    run.it = tiled;
    values_fill(&run);
    interpret_run(tiled, FTH_BACKWARD);
    run.it = interpret_make(&run, shape->examples);
    values_fill(&run);
    interpret_run(run.it, FTH_BACKWARD);
    all_check(&run, tiled, NULL);
    values_fill(&run);
    interpret_run(run.it, FTH_BACKWARD);
    update_check(&run);
    interpret_destroy(run.it);
    interpret_destroy(tiled);
    fth_graph_destroy(run.check.graph);
    fth_free(run.offsets);
    fth_free(run.keys);
}

/* Which program checks what, by the beginning of names; the first that fits. All others: test_gradients. */
static const struct {
    const char *begins, *program;
} owners[] = {
    {"factor_", "test_factorise"},
    {"segment_attention", "test_sequence_gradients"},
    {"segment_pool", "test_sequence_gradients"},
    {"position_bias", "test_sequence_gradients"},
    {"prune_graph", "test_prune_graph"}, /* has none */
    {"to_tiles", "test_passes"},         /* nor these */
    {"linear_rounded", "test_passes"},
    {"linear_data_grad_rounded", "test_passes"},
    {"mul_add_grad_rounded", "test_passes"},
    {"row_dot_data_grad_rounded", "test_passes"},
    {"row_softmax", "test_gradients_tasks"},
    {"mix_experts", "test_gradients_tasks"},
    {"domain_update", "test_updates"},
    {"domain_", "test_gradients_tasks"},
    {"gru", "test_gradients_recurrent"},
    {"lstm", "test_gradients_recurrent"},
    {"next_loss", "test_gradients_recurrent"},
    {"linear_update", "test_updates"},
    {"update_", "test_updates"},
    {"linear_tile_grad", "test_gradients_attention"},
    {"grad_squares", "test_updates"},
    {"row_squares", "test_updates"},
    {"clip_factor", "test_updates"},
    {"segment_", "test_gradients_attention"},
    {"attention_", "test_gradients_attention"},
    {"expand", "test_gradients_attention"},
    {"row_sum", "test_gradients_interact"},
    {"fm", "test_gradients_interact"},
    {"dot_interaction", "test_gradients_interact"},
    {"cin", "test_gradients_interact"},
    {"co_action", "test_gradients_interact"},
    {"row_normalise", "test_gradients_interact"},
    {"row_dot_rows", "test_gradients_interact"},
    {"scale_rows", "test_gradients_interact"},
    {"log_frequency", "test_gradients_interact"},
    {"batch_softmax", "test_gradients_interact"},
    {"", "test_gradients"},
};

void gradcheck_all_ran(const char *program) {
    for (const struct fth_op *const *op = fth_ops(); *op; op++) {
        size_t i = 0;
        while (strncmp((*op)->name, owners[i].begins, strlen(owners[i].begins)) != 0)
            i++;
        if (!strcmp(owners[i].program, program) && !interpret_has_run((*op)->name))
            fail_msg("operation %s of ops.def has no gradient test", (*op)->name);
    }
}

fth_id gradcheck_named(const fth_graph *graph, const char *name) {
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i].name && !strcmp(graph->values[i].name, name))
            return (fth_id)i;
    fail_msg("no value %s", name);
    return FTH_NONE;
}
