/* Running a plan: phases in order; in a tile phase workers take spans of neighbouring tiles, in a whole-batch
 * phase tasks. */
#include <string.h>
#include <xmmintrin.h>

#include "runtime/plan_private.h"
#include "base/clock.h"

/* Which rows a node is to see: those of neighbouring tiles, or all of the batch's. */
struct extent {
    uint32_t example0, examples, tile, tiles;
    int whole;
};

static const uint32_t *offsets_of(const struct fth_plan *plan, const struct fth_value *value) {
    return value->group < FTH_SESSIONS ? plan->step->batch->groups[value->group].offsets
                                       : plan->sessions[value->group - FTH_SESSIONS].offsets;
}

/* The row of a whole batch's that a tile's begin at. */
static size_t first_row(const struct fth_plan *plan, const struct fth_value *value, uint32_t tile) {
    switch (value->extent) {
    case FTH_EXAMPLES: return (size_t)tile * plan->options.tile;
    case FTH_POSITIONS: return offsets_of(plan, value)[tile * plan->options.tile];
    case FTH_TILES: return tile;
    case FTH_WHOLE: break;
    }
    return 0;
}

static uint32_t rows_of(const struct fth_plan *plan, const struct fth_value *value,
                        const struct extent *extent, const uint32_t **offsets) {
    *offsets = NULL;
    switch (value->extent) {
    case FTH_EXAMPLES: return extent->examples;
    case FTH_POSITIONS:
        *offsets = extent->example0 + offsets_of(plan, value);
        return (*offsets)[extent->examples] - (*offsets)[0];
    case FTH_TILES: return extent->whole ? plan->n_tiles : extent->tiles;
    case FTH_WHOLE: break;
    }
    return value->rows;
}

static struct fth_view parameter_view(const struct fth_plan *plan, const struct fth_value *value) {
    struct fth_parameter *p = &plan->parameters->items[plan->parameters->of_value[value->id]];
    return (struct fth_view){.data = p->data,
                             .rows = p->rows,
                             .columns = p->columns,
                             .ld = p->ld,
                             .transposed = p->transposed,
                             .ld_transposed = p->ld_transposed,
                             .panels = p->panels,
                             .precision = p->precision,
                             .slots = p->slots};
}

static struct fth_view make_view(const struct fth_plan *plan, fth_id id, const struct extent *extent,
                                 const struct fth_worker *worker) {
    struct fth_view view = {0};
    if (id == FTH_NONE)
        return view;
    const struct fth_value *value = &plan->graph->values[id];
    const struct fth_place *place = &plan->places[id];
    if (place->kind == FTH_PLACE_PARAMETER)
        return parameter_view(plan, value);
    const struct fth_batch *batch = plan->step->batch;
    size_t first = first_row(plan, value, extent->tile);
    view.rows = rows_of(plan, value, extent, &view.offsets);
    view.columns = value->columns;
    view.ld = place->ld;
    view.tiles = value->tiles;
    view.precision = plan->options.precision;
    switch (place->kind) {
    case FTH_PLACE_DENSE:
        view.ld = batch->dense_ld;
        view.data = batch->dense + first * view.ld + place->column;
        break;
    case FTH_PLACE_LABEL:
        view.ld = value->columns;
        view.data = batch->label + first * view.ld;
        break;
    case FTH_PLACE_WEIGHT:
        view.ld = value->columns;
        view.data = batch->weight ? batch->weight + first * view.ld : NULL;
        break;
    case FTH_PLACE_BUFFER:
        view.data = (float *)(void *)(plan->buffers + place->offset) + first * place->ld + place->column;
        break;
    case FTH_PLACE_SCRATCH:
        first -= first_row(plan, value, worker->tile0);
        view.data = (float *)(void *)(worker->scratch + place->offset) + first * place->ld + place->column;
        break;
    case FTH_PLACE_NONE:
    case FTH_PLACE_PARAMETER: break;
    }
    return view;
}

static void profile_node(const struct fth_plan *plan, const struct fth_run *run, uint32_t index,
                         struct fth_worker *worker) {
    const fth_perf *perf = plan->perf ? &plan->perf[worker - plan->workers] : NULL;
    uint64_t before[FTH_PERF_COUNTERS], after[FTH_PERF_COUNTERS];
    if (perf)
        fth_perf_read(perf, before);
    uint64_t start = fth_now_ns();
    run->node->op->run(run);
    worker->ns[index] += fth_now_ns() - start;
    if (!perf)
        return;
    fth_perf_read(perf, after);
    for (int i = 0; i < FTH_PERF_COUNTERS; i++)
        worker->counters[index][i] += after[i] - before[i];
}

static void run_node(struct fth_plan *plan, uint32_t index, const struct extent *extent, uint32_t task,
                     struct fth_worker *worker) {
    const struct fth_planned_node *planned = &plan->nodes[index];
    const struct fth_node *node = planned->node;
    struct fth_view *views = worker->views;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        views[i] = make_view(plan, node->inputs[i], extent, worker);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        views[node->n_inputs + i] = make_view(plan, node->outputs[i], extent, worker);
    const struct fth_step *step = plan->step;
    struct fth_run run = {.node = node,
                          .in = views,
                          .out = views + node->n_inputs,
                          .example0 = extent->example0,
                          .examples = extent->examples,
                          .batch = step->batch->n,
                          .mean_over = step->mean_over ? step->mean_over : step->batch->n,
                          .tile = extent->tile,
                          .n_tiles = plan->n_tiles,
                          .task = task,
                          .position0 = worker->position0,
                          .sessions = plan->sessions,
                          .fields = step->batch->fields,
                          .training = plan->options.training,
                          .seed = step->seed,
                          .step = step->step,
                          .rows = step->rows,
                          .opt = step->opt,
                          .opt_no_decay = step->opt_no_decay,
                          .prepared = planned->prepare.prepared,
                          .scratch = worker->op_scratch};
    if (!plan->profiling) {
        node->op->run(&run);
        return;
    }
    profile_node(plan, &run, index, worker);
}

static void run_tiles(struct fth_plan *plan, uint32_t index, uint32_t tile, uint32_t tiles, struct fth_worker *worker) {
    const struct fth_batch *batch = plan->step->batch;
    struct extent extent = {.example0 = tile * plan->options.tile, .tile = tile, .tiles = tiles};
    uint32_t left = batch->n - extent.example0, most = tiles * plan->options.tile;
    extent.examples = left < most ? left : most;
    for (uint32_t g = 0; g < plan->options.n_groups; g++)
        worker->position0[g] = batch->groups[g].offsets[extent.example0];
    run_node(plan, index, &extent, 0, worker);
}

/* While nodes run, results too small to be normal numbers (below 1.2e-38) are 0, and operands count as 0: processors take a
 * hundred times as long for them, and gradients of a model that has learnt its examples by heart get there. Elsewhere, as
 * where text is parsed, they are what they are. */
static unsigned flush_denormals(void) {
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);
    return before;
}

/* Which tiles a worker takes together changes no bit: what sums by tiles gets them one by one or keeps them apart. */
static void run_span(void *arg, uint32_t span, uint32_t worker_index) {
    struct fth_plan *plan = arg;
    const struct fth_phase *phase = &plan->phases[plan->phase_now];
    struct fth_worker *worker = &plan->workers[worker_index];
    uint32_t first = (uint32_t)((uint64_t)span * plan->n_tiles / plan->n_spans);
    uint32_t end = (uint32_t)((uint64_t)(span + 1) * plan->n_tiles / plan->n_spans);
    worker->tile0 = first;
    unsigned before = flush_denormals();
    if (plan->step->rows && plan->step->rows->beside)
        plan->step->rows->beside(plan->step->rows->ctx);
    for (uint32_t index = phase->first; index < phase->first + phase->count; index++) {
        uint32_t together = plan->nodes[index].node->op->spans ? end - first : 1;
        for (uint32_t tile = first; tile < end; tile += together)
            run_tiles(plan, index, tile, together, worker);
    }
    _mm_setcsr(before);
}

static void run_task(void *arg, uint32_t place, uint32_t worker_index) {
    struct fth_plan *plan = arg;
    struct fth_phase *phase = &plan->phases[plan->phase_now];
    struct extent extent = {.examples = plan->step->batch->n, .whole = 1};
    uint32_t of_phase = phase->order.task[place], task = of_phase, index = phase->first;
    while (task >= plan->nodes[index].prepare.tasks)
        task -= plan->nodes[index++].prepare.tasks;
    uint64_t start = phase->order.measured ? fth_now_ns() : 0;
    unsigned before = flush_denormals();
    run_node(plan, index, &extent, task, &plan->workers[worker_index]);
    _mm_setcsr(before);
    if (phase->order.measured)
        fth_order_took(&phase->order, of_phase, fth_now_ns() - start);
}

static double positive_share(const struct fth_batch *batch) {
    uint32_t positive = 0;
    for (uint32_t i = 0; i < batch->n; i++)
        positive += batch->label[i] > 0 && (!batch->weight || batch->weight[i] > 0);
    return batch->n ? (double)positive / batch->n : 0;
}

static void add_costs(struct fth_plan *plan) {
    const struct fth_batch *batch = plan->step->batch;
    double positions = 0;
    for (uint32_t g = 0; g < plan->options.n_groups; g++)
        positions += batch->groups[g].total;
    for (uint32_t i = 0; i < plan->n_nodes; i++) {
        struct fth_cost cost = {0};
        if (plan->nodes[i].node->op->cost)
            plan->nodes[i].node->op->cost(plan->graph, plan->nodes[i].node, batch->n, positions, &cost);
        plan->costs[i].flops += plan->nodes[i].node->op->only_positive ? cost.flops * positive_share(batch) : cost.flops;
        plan->costs[i].bytes += cost.bytes;
    }
}

static void cut_sessions(struct fth_plan *plan, const struct fth_batch *batch) {
    for (uint32_t s = 0; s < plan->graph->n_sessions; s++) {
        const struct fth_sessions *sessions = &plan->graph->sessions[s];
        fth_sessions_cut(sessions, batch->groups[sessions->group].offsets, batch->n,
                         sessions->field < 0 ? NULL : &batch->fields[sessions->field],
                         &plan->sessions[s]);
    }
}

void fth_plan_run(fth_plan *plan, fth_pool *pool, const struct fth_step *step) {
    plan->step = step;
    plan->n_tiles = (step->batch->n + plan->options.tile - 1) / plan->options.tile;
    for (uint32_t g = 0; g < plan->options.n_groups; g++)
        for (uint32_t w = 0; w < plan->options.workers; w++)
            plan->workers[w].position0[g] = 0;
    uint32_t at_once = plan->max_span * plan->options.workers, rounds = (plan->n_tiles + at_once - 1) / at_once;
    plan->n_spans = rounds * plan->options.workers < plan->n_tiles ? rounds * plan->options.workers : plan->n_tiles;
    cut_sessions(plan, step->batch);
    for (uint32_t p = 0; p < plan->n_phases; p++) {
        uint64_t start = fth_now_ns();
        plan->phase_now = p;
        if (plan->phases[p].granularity == FTH_PER_TILE) {
            fth_pool_for_filled(pool, plan->n_spans, run_span, plan, step->filler);
            plan->activations_ns += fth_now_ns() - start;
        } else {
            struct fth_order *order = &plan->phases[p].order;
            fth_order_begin(order);
            fth_pool_for_filled(pool, order->tasks, run_task, plan, step->filler);
            fth_order_end(order);
            const struct fth_node *last = plan->nodes[plan->phases[p].first + plan->phases[p].count - 1].node;
            *(last->stage == FTH_FORWARD ? &plan->activations_ns : &plan->weights_ns) += fth_now_ns() - start;
        }
    }
    if (plan->profiling)
        add_costs(plan);
    plan->step = NULL;
}

void fth_plan_times(const fth_plan *plan, uint64_t *activations, uint64_t *weights) {
    *activations = plan->activations_ns;
    *weights = plan->weights_ns;
}

const float *fth_plan_value(const fth_plan *plan, fth_id value, uint32_t *ld) {
    if (value == FTH_NONE || plan->places[value].kind != FTH_PLACE_BUFFER)
        return NULL;
    const struct fth_place *place = &plan->places[value];
    if (ld)
        *ld = place->ld;
    return (const float *)(const void *)(plan->buffers + place->offset) + place->column;
}

void fth_plan_profile(fth_plan *plan, int on, const fth_perf *perf) {
    plan->profiling = on;
    plan->perf = on ? perf : NULL;
    if (!on)
        return;
    memset(plan->costs, 0, plan->n_nodes * sizeof *plan->costs);
    for (uint32_t w = 0; w < plan->options.workers; w++) {
        memset(plan->workers[w].ns, 0, plan->n_nodes * sizeof *plan->workers[w].ns);
        memset(plan->workers[w].counters, 0, plan->n_nodes * sizeof *plan->workers[w].counters);
    }
}

uint32_t fth_plan_nodes(const fth_plan *plan) {
    return plan->n_nodes;
}

void fth_plan_node_profile(const fth_plan *plan, uint32_t index, struct fth_node_profile *out) {
    *out = (struct fth_node_profile){.node = plan->nodes[index].node,
                                     .phase = plan->nodes[index].phase,
                                     .cost = plan->costs[index]};
    for (uint32_t w = 0; w < plan->options.workers; w++) {
        out->ns += plan->workers[w].ns[index];
        for (int i = 0; i < FTH_PERF_COUNTERS; i++)
            out->counters[i] += plan->workers[w].counters[index][i];
    }
}
