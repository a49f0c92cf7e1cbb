/* Planning: which nodes run, in which phase, with which prepared kernels. */
#include "runtime/plan.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/gemm.h"
#include "kernels/tiles.h"
#include "ops/ops.h"
#include "runtime/plan_private.h"

#define LARGE_TILE ((size_t)5 << 20) /* bytes of what its layers read and make */

/* Whether a node other than the embedding hands a value over positions on to another of its stage. Concatenations do not
 * count, which concat_in_place may have taken away. */
static int hands_positions_on(const fth_graph *graph) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *reader = graph->nodes[i];
        for (uint32_t j = 0; j < reader->n_inputs; j++) {
            if (reader->inputs[j] == FTH_NONE || reader->op == &fth_op_concat)
                continue;
            fth_id root = fth_graph_root(graph, reader->inputs[j]);
            const struct fth_node *from = fth_graph_producer(graph, root);
            if (from && graph->values[root].extent == FTH_POSITIONS && from->stage == reader->stage &&
                !from->op->trains_rows && from->op != &fth_op_concat)
                return 1;
        }
    }
    return 0;
}

/* Whether examples are walked step by step: then more of them make a step's product. */
static int walks_in_time(const fth_graph *graph) {
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i]->op == &fth_op_gru || graph->nodes[i]->op == &fth_op_lstm)
            return 1;
    return 0;
}

/* As many as the products want, but a sixteenth of the batch, for the sake of the workers; at least 64, or 32 on more cores
 * than 512 examples make tiles of 64. */
static uint32_t usual_tile(fth_precision precision, uint32_t batch, uint32_t cores) {
    uint32_t tile = fth_gemm_cut(precision).tile, least = cores > 8 ? 32 : 64;
    while (tile > least && tile > batch / 16)
        tile /= 2;
    return tile;
}

/* Numbers of an example that layers read and make, by their weights: scratch would tell more exactly, but passes change it. */
static size_t layer_numbers(const fth_graph *graph) {
    size_t numbers = 0;
    for (uint32_t v = 0; v < graph->n_values; v++) {
        const struct fth_value *value = &graph->values[v];
        if (value->role == FTH_ROLE_PARAMETER && value->rows > 1 && value->columns > 1)
            numbers += (size_t)value->rows + value->columns;
    }
    return numbers;
}

uint32_t fth_plan_tile(const fth_graph *graph, const uint32_t *group_max, int precision, uint32_t batch, uint32_t cores) {
    uint32_t most = 1, tile = usual_tile((fth_precision)precision, batch, cores);
    while (tile > 128 && tile * layer_numbers(graph) * sizeof(float) > LARGE_TILE)
        tile /= 2;
    uint32_t positions = walks_in_time(graph) ? 2048 : hands_positions_on(graph) ? 1024 : 4096;
    for (uint32_t v = 0; v < graph->n_values; v++) {
        const struct fth_value *value = &graph->values[v];
        if (value->extent != FTH_POSITIONS)
            continue;
        uint32_t rows = fth_plan_group_max(graph, group_max, value->group);
        most = rows > most ? rows : most;
    }
    uint32_t least = fth_gemm_cut((fth_precision)precision).tiles ? FTH_TILES_ROUND : 8;
    while (tile > least && (uint64_t)tile * most > positions)
        tile /= 2;
    return tile;
}

uint32_t fth_plan_span(uint32_t wanted, uint32_t tile, uint32_t batch, uint32_t workers) {
    uint32_t tiles = (batch + tile - 1) / tile, share = (tiles + workers - 1) / workers, most = wanted / tile;
    most = most < share ? most : share;
    return most ? most : 1;
}

static uint32_t most_span(const fth_graph *graph, const struct fth_plan_options *options) {
    if (!fth_gemm_cut((fth_precision)options->precision).tiles)
        return 1;
    uint32_t wanted = fth_plan_tile(graph, options->group_max, options->precision, UINT32_MAX, 1);
    return fth_plan_span(wanted, options->tile, options->max_batch, options->workers);
}

/* ---- phases: odd ones are tile phases, even ones whole-batch (phase 0: what needs parameters only); empty
 * ones are dropped later ---- */

struct readiness {
    uint32_t *tile, *whole;   /* [values] by root: first phase that may read it, by the reader's kind */
    uint32_t *after_readers;  /* [values] first whole-batch phase after all readers so far */
    uint32_t after_gathers;   /* the same for embedding rows */
};

static void raise_to(uint32_t *phase, uint32_t at_least) {
    if (*phase < at_least)
        *phase = at_least;
}

static uint32_t phase_of(const fth_graph *graph, const struct fth_node *node, struct readiness *ready) {
    int whole = node->op->granularity == FTH_WHOLE_BATCH;
    uint32_t phase = (uint32_t)!whole;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] == FTH_NONE)
            continue;
        fth_id root = fth_graph_root(graph, node->inputs[i]);
        raise_to(&phase, whole ? ready->whole[root] : ready->tile[root]);
        /* An update writes its parameter: every reader comes first. */
        if (node->stage == FTH_UPDATE && graph->values[root].role == FTH_ROLE_PARAMETER)
            raise_to(&phase, ready->after_readers[root]);
    }
    if (node->stage == FTH_UPDATE)
        raise_to(&phase, ready->after_gathers);
    uint32_t next_tile = phase + (uint32_t)whole, next_whole = phase + 1 + (uint32_t)whole;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        fth_id root = fth_graph_root(graph, node->outputs[i]);
        raise_to(&ready->tile[root], next_tile);
        raise_to(&ready->whole[root], next_whole);
    }
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] != FTH_NONE)
            raise_to(&ready->after_readers[fth_graph_root(graph, node->inputs[i])], next_whole);
    if (node->op->trains_rows)
        raise_to(&ready->after_gathers, next_whole);
    return phase;
}

static int in_plan(const struct fth_plan *plan, const struct fth_node *node) {
    return plan->options.training || (node->stage == FTH_FORWARD && !node->training_only);
}

static int by_phase(const void *a, const void *b) {
    const struct fth_planned_node *x = a, *y = b;
    if (x->phase != y->phase)
        return x->phase < y->phase ? -1 : 1;
    return x->prepare.tasks < y->prepare.tasks ? -1 : x->prepare.tasks > y->prepare.tasks;
}

static fth_status choose_nodes(struct fth_plan *plan, fth_error *err) {
    const fth_graph *graph = plan->graph;
    uint32_t n = graph->n_values ? graph->n_values : 1;
    struct readiness ready = {.tile = fth_alloc(n, 4), .whole = fth_alloc(n, 4),
                              .after_readers = fth_alloc(n, 4)};
    plan->nodes = fth_alloc(graph->n_nodes ? graph->n_nodes : 1, sizeof *plan->nodes);
    int ok = ready.tile && ready.whole && ready.after_readers && plan->nodes;
    for (uint32_t i = 0; ok && i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        if (!in_plan(plan, node))
            continue;
        struct fth_planned_node *planned = &plan->nodes[plan->n_nodes];
        planned->node = node;
        planned->phase = phase_of(graph, node, &ready);
        planned->prepare.tasks = plan->n_nodes++; /* graph order, for a stable sort */
    }
    fth_free(ready.tile);
    fth_free(ready.whole);
    fth_free(ready.after_readers);
    if (!ok)
        return fth_fail(err, FTH_E_MEMORY, "no memory to plan the graph");
    qsort(plan->nodes, plan->n_nodes, sizeof *plan->nodes, by_phase);
    return FTH_OK;
}

static fth_status make_phases(struct fth_plan *plan, fth_error *err) {
    plan->phases = fth_alloc(plan->n_nodes ? plan->n_nodes : 1, sizeof *plan->phases);
    if (!plan->phases)
        return fth_fail(err, FTH_E_MEMORY, "no memory to plan the graph");
    uint32_t raw = 0;
    for (uint32_t i = 0; i < plan->n_nodes; i++) {
        struct fth_planned_node *planned = &plan->nodes[i];
        if (i == 0 || planned->phase != raw) {
            raw = planned->phase;
            plan->phases[plan->n_phases++] =
                (struct fth_phase){.granularity = planned->node->op->granularity, .first = i};
        }
        plan->phases[plan->n_phases - 1].count++;
        planned->phase = plan->n_phases - 1;
    }
    return FTH_OK;
}

/* ---- nodes ---- */

static struct fth_view shape_view(const struct fth_plan *plan, const struct fth_node *node,
                                  fth_id id) {
    if (id == FTH_NONE)
        return (struct fth_view){0};
    const struct fth_value *value = &plan->graph->values[id];
    uint32_t tiles = node->op->granularity != FTH_PER_TILE ? 0 : node->op->spans ? plan->max_span : 1;
    size_t rows = fth_plan_rows(plan, value, tiles);
    struct fth_view view = {.rows = rows < UINT32_MAX ? (uint32_t)rows : UINT32_MAX, /* as a hint: a batch has fewer */
                            .columns = value->columns,
                            .ld = plan->places[id].ld,
                            .tiles = value->tiles};
    if (fth_role_is_saved(value->role))
        view.ld_transposed = fth_padded_columns(value->rows);
    return view;
}

static fth_status prepare_node(struct fth_plan *plan, struct fth_planned_node *planned,
                               struct fth_view *views, fth_error *err) {
    const struct fth_node *node = planned->node;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        views[i] = shape_view(plan, node, node->inputs[i]);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        views[node->n_inputs + i] = shape_view(plan, node, node->outputs[i]);
    planned->prepare = (struct fth_prepare){
        .graph = plan->graph,
        .node = node,
        .in = views,
        .out = views + node->n_inputs,
        .tile = plan->options.tile,
        .batch = plan->options.max_batch,
        .cores = plan->options.cores,
        .training = plan->options.training,
        .precision = plan->options.precision,
        .tuning = plan->options.tuning,
        .optimizer = plan->options.optimizer,
        .on_product = plan->options.on_product,
        .on_product_ctx = plan->options.on_product_ctx,
        .row_update_tasks = plan->options.row_update_tasks,
        .row_update_scratch = plan->options.row_update_scratch,
        .tasks = 1,
    };
    if (node->op->prepare)
        FTH_TRY(node->op->prepare(&planned->prepare, err));
    planned->prepare.in = planned->prepare.out = NULL; /* the views were this function's */
    if (planned->prepare.scratch_bytes > plan->op_scratch_bytes)
        plan->op_scratch_bytes = planned->prepare.scratch_bytes;
    return FTH_OK;
}

static fth_status prepare_nodes(struct fth_plan *plan, fth_error *err) {
    for (uint32_t i = 0; i < plan->n_nodes; i++) {
        uint32_t views = plan->nodes[i].node->n_inputs + plan->nodes[i].node->n_outputs;
        if (views > plan->max_views)
            plan->max_views = views;
    }
    struct fth_view *views = fth_alloc(plan->max_views + 1, sizeof *views);
    if (!views)
        return fth_fail(err, FTH_E_MEMORY, "no memory to plan the graph");
    fth_status status = FTH_OK;
    for (uint32_t i = 0; i < plan->n_nodes && status == FTH_OK; i++) {
        status = prepare_node(plan, &plan->nodes[i], views, err);
        if (status != FTH_OK)
            fth_error_frame(err, "node %s", plan->nodes[i].node->name);
    }
    fth_free(views);
    return status;
}

static fth_status make_orders(struct fth_plan *plan, fth_error *err) {
    for (uint32_t p = 0; p < plan->n_phases; p++) {
        struct fth_phase *phase = &plan->phases[p];
        uint32_t tasks = 0;
        for (uint32_t i = phase->first; i < phase->first + phase->count; i++)
            tasks += plan->nodes[i].prepare.tasks;
        if (phase->granularity == FTH_WHOLE_BATCH)
            FTH_TRY(fth_order_make(tasks, plan->options.workers, &phase->order, err));
    }
    return FTH_OK;
}

static fth_status make_workers(struct fth_plan *plan, fth_error *err) {
    plan->buffers = fth_region_alloc(plan->buffer_bytes);
    plan->workers = fth_alloc(plan->options.workers, sizeof *plan->workers);
    plan->costs = fth_alloc(plan->n_nodes + 1, sizeof *plan->costs);
    int ok = plan->buffers && plan->workers && plan->costs;
    for (uint32_t w = 0; ok && w < plan->options.workers; w++) {
        struct fth_worker *worker = &plan->workers[w];
        worker->scratch = fth_region_alloc(plan->scratch_bytes + 64);
        worker->op_scratch = fth_region_alloc(plan->op_scratch_bytes + 64);
        worker->views = fth_alloc(plan->max_views + 1, sizeof *worker->views);
        worker->position0 = fth_alloc(plan->options.n_groups + 1, sizeof *worker->position0);
        worker->ns = fth_alloc(plan->n_nodes + 1, sizeof *worker->ns);
        worker->counters = fth_alloc(plan->n_nodes + 1, sizeof *worker->counters);
        ok = worker->scratch && worker->op_scratch && worker->views && worker->position0 && worker->ns &&
             worker->counters;
    }
    if (ok)
        return FTH_OK;
    return fth_fail(err, FTH_E_MEMORY, "no memory for a step's buffers (%zu bytes); a smaller train.batch_size takes fewer",
                    plan->buffer_bytes + plan->scratch_bytes);
}

static fth_status make_sessions(struct fth_plan *plan, fth_error *err) {
    const fth_graph *graph = plan->graph;
    plan->sessions = fth_alloc(graph->n_sessions + 1, sizeof *plan->sessions);
    int ok = plan->sessions != NULL;
    for (uint32_t s = 0; ok && s < graph->n_sessions; s++) {
        size_t most = plan->group_max[graph->sessions[s].group], sessions = 0;
        struct fth_session_rows *rows = &plan->sessions[s];
        rows->offsets = fth_alloc((size_t)plan->options.max_batch + 1, sizeof *rows->offsets);
        if (!fth_mul_size(plan->options.max_batch, most, &sessions) || sessions >= UINT32_MAX)
            return fth_fail(err, FTH_E_LIMIT,
                            "train.batch_size: %u examples with up to %zu positions can have more sessions than 32 bits "
                            "count; use a smaller batch, or max_length for the history", plan->options.max_batch, most);
        rows->start_bytes = (sessions + 1) * sizeof *rows->starts;
        ok = rows->offsets && (rows->starts = fth_region_alloc(rows->start_bytes)); /* few are used: histories are shorter */
    }
    return ok ? FTH_OK : fth_fail(err, FTH_E_MEMORY, "no memory for the offsets of sessions");
}

/* A tile's positions are counted in 32 bits. */
static fth_status check_positions(const fth_graph *graph, const struct fth_plan_options *options, fth_error *err) {
    for (uint32_t v = 0; v < graph->n_values; v++) {
        const struct fth_value *value = &graph->values[v];
        uint32_t most = value->extent == FTH_POSITIONS ? fth_plan_group_max(graph, options->group_max, value->group) : 0;
        if ((uint64_t)options->tile * most > INT32_MAX)
            return fth_fail(err, FTH_E_LIMIT,
                            "a tile of %u examples of up to %u positions is more than 2^31 - 1 positions; use a "
                            "smaller tile, train.batch_size or max_length",
                            options->tile, most);
    }
    return FTH_OK;
}

fth_status fth_plan_create(const fth_graph *graph, fth_parameters *parameters,
                           const struct fth_plan_options *options, fth_plan **out, fth_error *err) {
    fth_plan *plan = fth_alloc(1, sizeof *plan);
    if (!plan)
        return fth_fail(err, FTH_E_MEMORY, "no memory to plan the graph");
    fth_status status = FTH_E_MEMORY;
    plan->graph = graph;
    plan->parameters = parameters;
    plan->options = *options;
    if (!plan->options.tile)
        plan->options.tile =
            fth_plan_tile(graph, options->group_max, options->precision, options->max_batch, options->cores);
    if (plan->options.tile > options->max_batch)
        plan->options.tile = options->max_batch;
    if (fth_gemm_cut((fth_precision)options->precision).tiles)
        plan->options.tile = (plan->options.tile + FTH_TILES_ROUND - 1) / FTH_TILES_ROUND * FTH_TILES_ROUND;
    FTH_TRY_GOTO(status, check_positions(graph, &plan->options, err), fail);
    plan->max_tiles = (options->max_batch + plan->options.tile - 1) / plan->options.tile;
    plan->max_span = options->span ? options->span : most_span(graph, &plan->options);
    plan->group_max = fth_alloc(options->n_groups + 1, sizeof *plan->group_max);
    plan->places = fth_alloc(graph->n_values ? graph->n_values : 1, sizeof *plan->places);
    if (!plan->group_max || !plan->places) {
        status = FTH_E_MEMORY;
        fth_fail(err, FTH_E_MEMORY, "no memory to plan the graph");
        goto fail;
    }
    if (options->n_groups)
        memcpy(plan->group_max, options->group_max, options->n_groups * sizeof *plan->group_max);
    plan->options.group_max = plan->group_max;
    FTH_TRY_GOTO(status, make_sessions(plan, err), fail);
    FTH_TRY_GOTO(status, choose_nodes(plan, err), fail);
    FTH_TRY_GOTO(status, make_phases(plan, err), fail);
    FTH_TRY_GOTO(status, fth_plan_place(plan, err), fail);
    FTH_TRY_GOTO(status, prepare_nodes(plan, err), fail);
    FTH_TRY_GOTO(status, make_orders(plan, err), fail);
    FTH_TRY_GOTO(status, fth_gemm_reserve(options->workers, err), fail);
    FTH_TRY_GOTO(status, make_workers(plan, err), fail);
    *out = plan;
    return FTH_OK;
fail:
    fth_plan_destroy(plan);
    return status;
}

void fth_plan_destroy(fth_plan *plan) {
    if (!plan)
        return;
    for (uint32_t i = 0; i < plan->n_nodes; i++)
        if (plan->nodes[i].prepare.prepared && plan->nodes[i].node->op->release)
            plan->nodes[i].node->op->release(plan->nodes[i].prepare.prepared);
    for (uint32_t w = 0; plan->workers && w < plan->options.workers; w++) {
        struct fth_worker *worker = &plan->workers[w];
        if (worker->scratch)
            fth_region_free(worker->scratch, plan->scratch_bytes + 64);
        if (worker->op_scratch)
            fth_region_free(worker->op_scratch, plan->op_scratch_bytes + 64);
        fth_free(worker->views);
        fth_free(worker->position0);
        fth_free(worker->ns);
        fth_free(worker->counters);
    }
    if (plan->buffers)
        fth_region_free(plan->buffers, plan->buffer_bytes);
    fth_free(plan->workers);
    fth_free(plan->costs);
    fth_free(plan->nodes);
    for (uint32_t p = 0; p < plan->n_phases; p++)
        fth_order_free(&plan->phases[p].order);
    fth_free(plan->phases);
    fth_free(plan->places);
    for (uint32_t s = 0; plan->sessions && s < plan->graph->n_sessions; s++) {
        fth_free(plan->sessions[s].offsets);
        if (plan->sessions[s].starts)
            fth_region_free(plan->sessions[s].starts, plan->sessions[s].start_bytes);
    }
    fth_free(plan->sessions);
    fth_free(plan->group_max);
    fth_free(plan);
}

static const char *place_name(enum fth_place_kind kind) {
    switch (kind) {
    case FTH_PLACE_NONE: return "unused";
    case FTH_PLACE_DENSE:
    case FTH_PLACE_LABEL:
    case FTH_PLACE_WEIGHT: return "batch";
    case FTH_PLACE_PARAMETER: return "parameter";
    case FTH_PLACE_BUFFER: return "buffer";
    case FTH_PLACE_SCRATCH: return "scratch";
    }
    return "?";
}

void fth_plan_print(const fth_plan *plan, struct fth_text *out) {
    int reduced = plan->options.precision != FTH_FP32;
    fth_text_printf(out, "tile %u examples, batch %u, buffers %.1f MB, scratch %.1f kB a worker%s%s\n",
                    plan->options.tile, plan->options.max_batch, (double)plan->buffer_bytes / 1e6,
                    (double)plan->scratch_bytes / 1e3, reduced ? ", matrix products in " : "",
                    reduced ? fth_precision_name((fth_precision)plan->options.precision) : "");
    for (uint32_t p = 0; p < plan->n_phases; p++) {
        const struct fth_phase *phase = &plan->phases[p];
        if (phase->granularity == FTH_PER_TILE)
            fth_text_printf(out, "phase %u: per tile, %u nodes\n", p, phase->count);
        else
            fth_text_printf(out, "phase %u: whole batch, %u nodes, %u tasks\n", p, phase->count,
                            phase->order.tasks);
        for (uint32_t i = 0; i < phase->count; i++) {
            const struct fth_planned_node *planned = &plan->nodes[phase->first + i];
            fth_text_printf(out, "  %-24s %s", planned->node->op->name, planned->node->name);
            for (uint32_t o = 0; o < planned->node->n_outputs; o++) {
                fth_id id = planned->node->outputs[o];
                fth_text_printf(out, "%s %%%d %s", o ? "," : " ->", id,
                                place_name(plan->places[id].kind));
            }
            fth_text_printf(out, "%s\n", reduced && planned->node->op->fp32 ? ", fp32" : "");
        }
    }
}
