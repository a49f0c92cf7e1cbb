/* The plain executor (interpret.h). */
#include "interpret_private.h"
#include "kernels/panels.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#define MAX_OPS_SEEN 256

static const char *seen[MAX_OPS_SEEN];
static size_t n_seen;

int interpret_has_run(const char *op) {
    for (size_t i = 0; i < n_seen; i++)
        if (!strcmp(seen[i], op))
            return 1;
    return 0;
}

static float *nan_floats(size_t n) {
    float *data = fth_alloc(n ? n : 1, sizeof *data);
    assert_non_null(data);
    for (size_t i = 0; i < n; i++)
        data[i] = NAN;
    return data;
}

static struct matrix matrix_make(uint32_t rows, uint32_t columns) {
    struct matrix m = {.rows = rows, .columns = columns, .ld = fth_padded_columns(columns)};
    m.data = nan_floats((size_t)rows * m.ld);
    return m;
}

static void matrix_free(struct matrix *m) {
    fth_free(m->data);
    fth_free(m->transposed);
    fth_free(m->panels);
    for (int i = 0; i < FTH_MAX_SLOTS; i++)
        fth_free(m->slots[i]);
}

static uint32_t tiles_of(const struct interpret *it) {
    return (it->options.examples + it->options.tile - 1) / it->options.tile;
}

static const uint32_t *offsets_of(const struct interpret *it, int32_t group) {
    return group < FTH_SESSIONS ? it->options.offsets[group]
                                : it->sessions[group - FTH_SESSIONS].offsets;
}

uint32_t interpret_rows(const struct interpret *it, fth_id value) {
    const struct fth_value *v = &it->graph->values[value];
    switch (v->extent) {
    case FTH_EXAMPLES:
        return it->options.examples;
    case FTH_POSITIONS:
        return offsets_of(it, v->group)[it->options.examples];
    case FTH_TILES:
        return tiles_of(it);
    default:
        return v->rows;
    }
}

uint32_t interpret_lookup_rows(const struct interpret *it, uint32_t lookup) {
    int32_t group = it->graph->lookups[lookup].group;
    return group < 0 ? it->options.examples : it->options.offsets[group][it->options.examples];
}

static struct matrix *root_of(const struct interpret *it, fth_id value, uint32_t *column) {
    const struct fth_value *v = &it->graph->values[value];
    *column = v->view_of == FTH_NONE ? 0 : v->view_column;
    return &it->values[v->view_of == FTH_NONE ? value : v->view_of];
}

float *interpret_at(struct interpret *it, fth_id value, uint32_t row, uint32_t column) {
    uint32_t first;
    struct matrix *m = root_of(it, value, &first);
    assert_true(row < m->rows && first + column < m->columns);
    return &m->data[(size_t)row * m->ld + first + column];
}

float *interpret_slot_at(struct interpret *it, fth_id value, uint32_t slot, uint32_t row,
                         uint32_t column) {
    struct matrix *m = &it->values[value];
    return &m->slots[slot][(size_t)row * m->ld + column];
}

float *interpret_row_at(struct interpret *it, uint32_t lookup, uint32_t row, uint32_t column) {
    struct matrix *m = &it->rows[lookup];
    assert_true(row < m->rows && column < m->columns);
    return &m->data[(size_t)row * m->ld + column];
}

/* X[r][c] in the panels of X[rows, columns]. */
static float *in_panel(float *panels, uint32_t rows, uint32_t columns, uint32_t r, uint32_t c) {
    struct fth_panels p = fth_panels_of(columns);
    uint32_t index = c / p.width < p.count ? c / p.width : p.count - 1, first = index * p.width;
    uint32_t ld = index == p.count - 1 ? p.ld_last : p.width;
    return panels + (size_t)first * rows + (size_t)r * ld + (c - first);
}

static float *turned(const struct matrix *m, uint32_t r, uint32_t c) {
    return m->panels ? in_panel(m->transposed, m->columns, m->rows, c, r)
                     : &m->transposed[(size_t)c * m->ld_transposed + r];
}

void interpret_refresh(struct interpret *it) {
    for (uint32_t i = 0; i < it->graph->n_values; i++) {
        struct matrix *m = &it->values[i];
        for (uint32_t r = 0; r < m->rows; r++)
            for (uint32_t c = 0; c < m->columns; c++) {
                float value = m->data[(size_t)r * m->ld + c];
                if (m->transposed)
                    *turned(m, r, c) = value;
                if (m->panels)
                    *in_panel(m->panels, m->rows, m->columns, r, c) = value;
            }
    }
}

int interpret_transposed_equal(const struct interpret *it) {
    for (uint32_t i = 0; i < it->graph->n_values; i++) {
        const struct matrix *m = &it->values[i];
        for (uint32_t r = 0; r < m->rows; r++)
            for (uint32_t c = 0; c < m->columns; c++) {
                float value = m->data[(size_t)r * m->ld + c];
                if ((m->transposed && *turned(m, r, c) != value) ||
                    (m->panels && *in_panel(m->panels, m->rows, m->columns, r, c) != value))
                    return 0;
            }
    }
    return 1;
}

const struct fth_rows *interpret_table(const struct interpret *it) {
    return &it->table;
}

/* ---- values and nodes ---- */

static int is_read_transposed(const fth_graph *graph, fth_id value) {
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t j = 0; j < graph->nodes[i]->n_inputs && j < 31; j++)
            if (graph->nodes[i]->inputs[j] == value &&
                graph->nodes[i]->op->inputs_transposed >> j & 1)
                return 1;
    return 0;
}

static void value_make(struct interpret *it, fth_id id) {
    const struct fth_value *v = &it->graph->values[id];
    struct matrix *m = &it->values[id];
    if (v->view_of != FTH_NONE)
        return;
    *m = matrix_make(interpret_rows(it, id), v->columns);
    if (v->role != FTH_ROLE_PARAMETER && v->role != FTH_ROLE_STATE)
        return;
    size_t all = (size_t)m->rows * m->ld;
    memset(m->data, 0, all * sizeof(float));
    for (uint32_t s = 0; s < it->options.optimizer->n_slots; s++)
        m->slots[s] = fth_alloc(all, sizeof(float));
    if (is_read_transposed(it->graph, id)) {
        m->ld_transposed = fth_padded_columns(m->rows);
        m->transposed = fth_alloc(v->panels ? fth_panels_floats(m->columns, m->rows)
                                            : (size_t)m->columns * m->ld_transposed,
                                  sizeof(float));
    }
    if (v->panels)
        m->panels = fth_alloc(fth_panels_floats(m->rows, m->columns), sizeof(float));
}

/* What a node sees of a value: rows of the tile, or all (tile UINT32_MAX). */
static struct fth_view view_of(struct interpret *it, fth_id id, uint32_t tile) {
    if (id == FTH_NONE || (id == it->graph->weight && !it->options.weights))
        return (struct fth_view){.columns = 1, .ld = 1, .rows = 0};
    uint32_t column, row0 = 0;
    struct matrix *m = root_of(it, id, &column);
    const struct fth_value *v = &it->graph->values[id];
    const uint32_t *offsets = v->extent == FTH_POSITIONS ? offsets_of(it, v->group) : NULL;
    struct fth_view view = {.rows = m->rows,
                            .columns = v->columns,
                            .ld = m->ld,
                            .offsets = offsets,
                            .transposed = m->transposed,
                            .ld_transposed = m->ld_transposed,
                            .panels = m->panels,
                            .slots = m->slots};
    if (tile != UINT32_MAX && v->extent != FTH_WHOLE) {
        uint32_t first = tile * it->options.tile, last = first + it->options.tile;
        last = last < it->options.examples ? last : it->options.examples;
        row0 = v->extent == FTH_TILES ? tile : offsets ? offsets[first] : first;
        view.rows = v->extent == FTH_TILES ? 1 : (offsets ? offsets[last] : last) - row0;
        view.offsets = offsets ? offsets + first : NULL;
    }
    view.data = m->data + (size_t)row0 * m->ld + column;
    return view;
}

static void node_prepare(struct interpret *it, uint32_t index) {
    const struct fth_node *node = it->graph->nodes[index];
    struct planned *planned = &it->nodes[index];
    planned->views = fth_alloc(node->n_inputs + node->n_outputs + 1, sizeof *planned->views);
    for (uint32_t i = 0; i < node->n_inputs + node->n_outputs; i++) {
        fth_id id = i < node->n_inputs ? node->inputs[i] : node->outputs[i - node->n_inputs];
        planned->views[i] = view_of(it, id, UINT32_MAX);
        planned->views[i].data = NULL;
    }
    planned->prepare = (struct fth_prepare){.graph = it->graph,
                                            .node = node,
                                            .in = planned->views,
                                            .out = planned->views + node->n_inputs,
                                            .tile = it->options.tile,
                                            .batch = it->options.examples,
                                            .cores = it->options.cores,
                                            .optimizer = it->options.optimizer,
                                            .row_update_tasks = it->table.update_tasks(it),
                                            .row_update_scratch = it->table.update_scratch(it),
                                            .tasks = 1};
    fth_error err = {0};
    if (node->op->prepare && node->op->prepare(&planned->prepare, &err) != FTH_OK)
        fail_msg("prepare of %s (%s): %s", node->name, node->op->name, err.message);
    planned->scratch = fth_alloc(planned->prepare.scratch_bytes + 64, 1);
}

struct interpret *interpret_create(fth_graph *graph, const struct interpret_options *options) {
    struct interpret *it = fth_alloc(1, sizeof *it);
    it->graph = graph;
    it->options = *options;
    if (!it->options.optimizer)
        it->options.optimizer = fth_optimizer_find("sgd");
    it->table = interpret_rows_table(it);
    for (uint32_t f = 0; f < INTERPRET_FIELDS && options->keys; f++)
        it->fields[f].keys = (uint64_t *)(uintptr_t)(options->keys + f);
    it->sessions = fth_alloc(graph->n_sessions + 1, sizeof *it->sessions);
    for (uint32_t i = 0; i < graph->n_sessions; i++) {
        const uint32_t *offsets = options->offsets[graph->sessions[i].group];
        it->sessions[i].offsets = fth_alloc(options->examples + 1, sizeof(uint32_t));
        it->sessions[i].starts = fth_alloc(offsets[options->examples] + 1, sizeof(uint32_t));
        fth_sessions_cut(&graph->sessions[i], offsets, options->examples,
                         graph->sessions[i].field < 0 ? NULL : &it->fields[0], &it->sessions[i]);
    }
    fth_gemm_thread_init();
    it->values = fth_alloc(graph->n_values + 1, sizeof *it->values);
    it->rows = fth_alloc(graph->n_lookups + 1, sizeof *it->rows);
    it->nodes = fth_alloc(graph->n_nodes + 1, sizeof *it->nodes);
    for (uint32_t i = 0; i < graph->n_values; i++)
        value_make(it, (fth_id)i);
    for (uint32_t i = 0; i < graph->n_lookups; i++)
        it->rows[i] = matrix_make(interpret_lookup_rows(it, i), graph->lookups[i].dim);
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        node_prepare(it, i);
    return it;
}

void interpret_destroy(struct interpret *it) {
    for (uint32_t i = 0; i < it->graph->n_values; i++)
        matrix_free(&it->values[i]);
    for (uint32_t i = 0; i < it->graph->n_lookups; i++)
        matrix_free(&it->rows[i]);
    for (uint32_t i = 0; i < it->graph->n_nodes; i++) {
        struct planned *planned = &it->nodes[i];
        if (it->graph->nodes[i]->op->release)
            it->graph->nodes[i]->op->release(planned->prepare.prepared);
        fth_free(planned->views);
        fth_free(planned->scratch);
    }
    for (uint32_t i = 0; i < it->graph->n_sessions; i++) {
        fth_free(it->sessions[i].offsets);
        fth_free(it->sessions[i].starts);
    }
    fth_free(it->sessions);
    fth_free(it->values);
    fth_free(it->rows);
    fth_free(it->nodes);
    fth_free(it);
}

static void node_run_one(struct interpret *it, uint32_t index, uint32_t tile, uint32_t task) {
    const struct fth_node *node = it->graph->nodes[index];
    struct planned *planned = &it->nodes[index];
    for (uint32_t i = 0; i < node->n_inputs + node->n_outputs; i++) {
        fth_id id = i < node->n_inputs ? node->inputs[i] : node->outputs[i - node->n_inputs];
        planned->views[i] = view_of(it, id, tile);
    }
    uint32_t example0 = tile == UINT32_MAX ? 0 : tile * it->options.tile;
    uint32_t examples = it->options.examples - example0, position0[INTERPRET_GROUPS] = {0};
    if (tile != UINT32_MAX && examples > it->options.tile)
        examples = it->options.tile;
    for (int g = 0; g < INTERPRET_GROUPS; g++)
        if (it->options.offsets[g])
            position0[g] = it->options.offsets[g][example0];
    memset(planned->scratch, 0xff, planned->prepare.scratch_bytes); /* NaN */
    node->op->run(&(struct fth_run){.node = node,
                                    .in = planned->views,
                                    .out = planned->views + node->n_inputs,
                                    .example0 = example0,
                                    .examples = examples,
                                    .batch = it->options.examples,
                                    .mean_over = it->options.mean_over ? it->options.mean_over : it->options.examples,
                                    .tile = tile,
                                    .n_tiles = tiles_of(it),
                                    .task = task,
                                    .position0 = position0,
                                    .sessions = it->sessions,
                                    .fields = it->options.fields ? it->options.fields : it->fields,
                                    .training = !it->options.evaluate,
                                    .seed = it->options.seed,
                                    .step = it->options.step,
                                    .rows = &it->table,
                                    .opt = &it->options.opt,
                                    .opt_no_decay = &it->options.opt_no_decay,
                                    .prepared = planned->prepare.prepared,
                                    .scratch = planned->scratch});
}

static void padding_check(const struct interpret *it) {
    for (uint32_t i = 0; i < it->graph->n_values; i++) {
        const struct fth_value *v = &it->graph->values[i];
        const struct matrix *m = &it->values[i];
        if (v->role == FTH_ROLE_PARAMETER || v->role == FTH_ROLE_STATE)
            continue;
        for (uint32_t r = 0; r < m->rows; r++)
            for (uint32_t c = m->columns; c < m->ld; c++)
                if (!isnan(m->data[(size_t)r * m->ld + c]))
                    fail_msg("value %u: padding column %u of row %u was written", i, c, r);
    }
}

void interpret_set_step(struct interpret *it, uint64_t step) {
    it->options.step = step;
}

void interpret_run(struct interpret *it, fth_stage last) {
    for (uint32_t i = 0; i < it->graph->n_nodes; i++) {
        const struct fth_node *node = it->graph->nodes[i];
        if (node->stage > last)
            continue;
        if (it->options.evaluate && (node->stage != FTH_FORWARD || node->training_only))
            continue;
        if (!interpret_has_run(node->op->name) && n_seen < MAX_OPS_SEEN)
            seen[n_seen++] = node->op->name;
        int whole = node->op->granularity == FTH_WHOLE_BATCH;
        uint32_t n = whole ? it->nodes[i].prepare.tasks : tiles_of(it);
        for (uint32_t t = 0; t < n; t++)
            node_run_one(it, i, whole ? UINT32_MAX : t, whole ? t : 0);
    }
    padding_check(it);
}

float interpret_number(const char *name, uint32_t row, uint32_t column) {
    uint32_t x = row * 7919 + column * 104729 + 17;
    for (; *name; name++)
        x = x * 31 + (uint32_t)*name;
    return (float)(x % 997) / 1000 - 0.5f;
}
