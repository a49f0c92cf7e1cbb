/* Measuring steps on batches held in memory.
 *
 * First plain steps, for the examples a second, with short bursts of multiplications between them, which say what the
 * machine had left for anybody in that time; then steps with every node's time counted, for where the time
 * goes; then, if asked, each optimisation left out alone, in turns with the whole, so that a disturbance of
 * the machine meets both; and steps on what is read meanwhile, in turns, too (bench_turns.c). Threads: the session's
 * pool; one bench at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/peaks.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "base/sort.h"
#include "train/bench_private.h"

struct bench {
    const fth_bench_options *options;
    struct fth_session *session;
    fth_plan *plan;
    struct fth_bench_batches batches;
    struct fth_bench_report *report;
    double *samples; /* [FTH_BENCH_SAMPLES] */
    uint32_t next;   /* batch */
    uint64_t spent;  /* ns of the steps run last, bursts left out */
};

/* A burst of a millisecond follows 20 ms of steps, in tasks that workers take as they take a step's. */
#define BURST_EVERY 20000000
#define BURST_TASKS 16 /* a thread */
struct bursts {
    double task; /* operations */
    double operations;
    uint64_t ns, steps; /* steps: ns since the last one */
};

static void tell(const struct bench *bench, const char *what) {
    if (bench->options->begun)
        bench->options->begun(bench->options->ctx, what);
}

static double quantile(const double *sorted, uint32_t n, double share) {
    return sorted[(uint32_t)(share * (double)(n - 1) + 0.5)];
}

static void burst_task(void *arg, uint32_t task, uint32_t worker) {
    (void)task;
    (void)worker;
    fth_peak_fma_burst(((const struct bursts *)arg)->task);
}

static void burst(const struct bench *bench, struct bursts *bursts) {
    uint32_t tasks = bench->report->threads * BURST_TASKS;
    uint64_t start = fth_now_ns();
    fth_pool_for(bench->session->pool, tasks, burst_task, bursts);
    bursts->ns += fth_now_ns() - start;
    bursts->operations += bursts->task * tasks;
    bursts->steps = 0;
}

/* Steps until the time is up: examples a second of each into bench->samples. bursts: between them, or NULL. */
static fth_status run_steps(struct bench *bench, struct fth_session *session, fth_plan *plan,
                            double seconds, struct bursts *bursts, uint32_t *n, fth_error *err) {
    uint64_t start = fth_now_ns(), before = start, now = start;
    bench->spent = 0;
    *n = 0;
    while (*n < FTH_BENCH_SAMPLES && (*n == 0 || (double)(now - start) * 1e-9 < seconds)) {
        const struct fth_batch *batch = bench->batches.items[bench->next];
        double loss;
        bench->next = (bench->next + 1) % bench->batches.n;
        FTH_TRY(fth_session_step(session, plan, batch, NULL, &loss, err));
        now = fth_now_ns();
        bench->samples[(*n)++] = (double)batch->n * 1e9 / (double)(now - before);
        bench->spent += now - before;
        if (bursts && (bursts->steps += now - before) >= BURST_EVERY) {
            burst(bench, bursts);
            now = fth_now_ns();
        }
        before = now;
    }
    return FTH_OK;
}

/* Every batch once: rows are made, memory is touched, code is generated. */
static fth_status warm(struct bench *bench, struct fth_session *session, fth_plan *plan, fth_error *err) {
    double loss;
    for (uint32_t i = 0; i < bench->batches.n; i++)
        FTH_TRY(fth_session_step(session, plan, bench->batches.items[i], NULL, &loss, err));
    return fth_session_step(session, plan, bench->batches.items[0], NULL, &loss, err);
}

static fth_status measure(struct bench *bench, fth_error *err) {
    struct fth_bench_report *r = bench->report;
    uint32_t n;
    tell(bench, "steps");
    FTH_TRY(warm(bench, bench->session, bench->plan, err));
    uint64_t keys = bench->session->keys, unique = bench->session->unique_rows;
    struct bursts bursts = {.task = r->fma * 1e6 / (r->threads * BURST_TASKS)};
    burst(bench, &bursts); /* one at least */
    FTH_TRY(run_steps(bench, bench->session, bench->plan, bench->options->seconds, &bursts, &n, err));
    r->fma_between = bursts.operations / (double)bursts.ns;
    r->seconds = (double)bench->spent * 1e-9;
    r->steps = n;
    r->all = (double)n * (double)r->batch / r->seconds;
    r->keys = (double)(bench->session->keys - keys) / n;
    r->unique = (double)(bench->session->unique_rows - unique) / n;
    fth_sort_doubles(bench->samples, n);
    r->median = quantile(bench->samples, n, 0.5);
    r->p10 = quantile(bench->samples, n, 0.1);
    r->p90 = quantile(bench->samples, n, 0.9);
    return FTH_OK;
}

/* ---- where the time goes ---- */

static enum fth_bench_part part_of(const struct fth_node *node) {
    if (node->op == &fth_op_embedding_update)
        return FTH_BENCH_ROWS;
    if (node->op->trains_rows)
        return FTH_BENCH_GATHER;
    if (node->stage == FTH_FORWARD)
        return FTH_BENCH_FORWARD;
    return node->stage == FTH_BACKWARD && node->op->granularity == FTH_PER_TILE ? FTH_BENCH_DATA
                                                                                : FTH_BENCH_WEIGHTS;
}

static int by_time(const void *x, const void *y) {
    double a = ((const struct fth_bench_node *)x)->sum.ns, b = ((const struct fth_bench_node *)y)->sum.ns;
    return (a < b) - (a > b);
}

static fth_status collect(struct bench *bench, fth_error *err) {
    struct fth_bench_report *r = bench->report;
    uint32_t n = fth_plan_nodes(bench->plan);
    r->nodes = fth_alloc(n + 1, sizeof *r->nodes);
    if (!r->nodes)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a report");
    for (uint32_t i = 0; i < n; i++) {
        struct fth_node_profile profile;
        fth_plan_node_profile(bench->plan, i, &profile);
        struct fth_bench_sum *part = &r->parts[part_of(profile.node)];
        struct fth_bench_node *node = &r->nodes[r->n_nodes++];
        *node = (struct fth_bench_node){.op = profile.node->op->name,
                                        .name = profile.node->name,
                                        .phase = profile.phase,
                                        .sum = {.ns = (double)profile.ns,
                                                .flops = profile.cost.flops,
                                                .bytes = profile.cost.bytes,
                                                .gather_share = -1}};
        part->ns += node->sum.ns;
        part->flops += node->sum.flops;
        part->bytes += node->sum.bytes;
        for (int c = 0; c < FTH_PERF_COUNTERS; c++) {
            node->sum.counters[c] = (double)profile.counters[c];
            part->counters[c] += node->sum.counters[c];
        }
    }
    qsort(r->nodes, r->n_nodes, sizeof *r->nodes, by_time);
    return FTH_OK;
}

static fth_status profile(struct bench *bench, fth_error *err) {
    struct fth_bench_report *r = bench->report;
    uint64_t lookup = bench->session->times.lookup, keys = bench->session->keys;
    double threads = r->threads, busy = 0;
    tell(bench, "where the time goes");
    fth_perf *perf = NULL;
    r->perf = bench->options->perf;
    if (r->perf)
        r->counted = fth_bench_perf_open(bench->session->pool, &perf, &r->refused) == FTH_OK;
    fth_plan_profile(bench->plan, 1, perf);
    uint64_t start = fth_now_ns();
    fth_status status = run_steps(bench, bench->session, bench->plan, bench->options->seconds / 2,
                                  NULL, &r->profiled, err);
    r->profiled_ns = (double)(fth_now_ns() - start) * threads;
    for (int p = 0; p < FTH_BENCH_PARTS; p++)
        r->parts[p].gather_share = -1;
    if (status == FTH_OK)
        status = collect(bench, err);
    fth_plan_profile(bench->plan, 0, NULL);
    fth_bench_perf_close(perf, bench->session->pool);
    FTH_TRY(status);
    r->parts[FTH_BENCH_LOOKUP].ns = (double)(bench->session->times.lookup - lookup) * threads;
    r->parts[FTH_BENCH_GATHER].rows = (double)(bench->session->keys - keys);
    r->parts[FTH_BENCH_ROWS].rows = r->parts[FTH_BENCH_GATHER].rows;
    for (int p = 0; p < FTH_BENCH_WAIT; p++)
        busy += r->parts[p].ns;
    r->parts[FTH_BENCH_WAIT].ns = r->profiled_ns > busy ? r->profiled_ns - busy : 0;
    return FTH_OK;
}

/* ---- the machine's peaks ---- */

static int dim_index(struct fth_bench_report *r, uint32_t dim) {
    for (uint32_t i = 0; i < r->n_dims; i++)
        if (r->dims[i] == dim)
            return (int)i;
    if (r->n_dims == FTH_BENCH_DIMS || dim > FTH_PEAKS_MAX_DIM)
        return -1;
    r->dims[r->n_dims] = dim;
    return (int)r->n_dims++;
}

/* The share of the row rate: what the batch's rows would take at the measured rates of their dimensions. */
static void share_of_gather(struct bench *bench) {
    struct fth_bench_report *r = bench->report;
    const struct fth_graph *graph = bench->session->graph;
    double ns = 0, keys = 0;
    for (uint32_t l = 0; l < graph->n_lookups; l++) {
        int dim = dim_index(r, graph->lookups[l].dim);
        if (dim < 0)
            return;
        for (uint32_t b = 0; b < bench->batches.n; b++) {
            const struct fth_batch *batch = bench->batches.items[b];
            int32_t group = batch->fields[graph->lookups[l].field].group;
            double n = group == FTH_NO_GROUP ? batch->n : batch->groups[group].total;
            keys += n;
            ns += n * 1e3 / r->gather[dim];
        }
    }
    struct fth_bench_sum *gather = &r->parts[FTH_BENCH_GATHER];
    if (keys > 0 && gather->ns > 0)
        gather->gather_share = ns / keys * gather->rows / (gather->ns / r->threads);
}

static void raise_to(double *best, double value) {
    if (value > *best)
        *best = value;
}

/* The best so far: asked before and after the steps, as other work on the machine may disturb one of them. */
static fth_status peaks(struct bench *bench, fth_error *err) {
    struct fth_bench_report *r = bench->report;
    const struct fth_graph *graph = bench->session->graph;
    double value = 0;
    tell(bench, "this machine's peaks");
    FTH_TRY(fth_peak_fma(r->threads, &value, err));
    raise_to(&r->fma, value);
    FTH_TRY(fth_peak_read(r->threads, &value, err));
    raise_to(&r->read, value);
    FTH_TRY(fth_peak_copy(r->threads, &value, err));
    raise_to(&r->copy, value);
    for (uint32_t l = 0; l < graph->n_lookups; l++)
        dim_index(r, graph->lookups[l].dim);
    for (uint32_t i = 0; i < r->n_dims; i++) {
        FTH_TRY(fth_peak_gather(r->threads, r->dims[i], &value, err));
        raise_to(&r->gather[i], value);
    }
    return FTH_OK;
}

/* ---- ablations ---- */

#define ROUNDS 5

static fth_status session_without(struct bench *bench, const char *name, struct fth_session **out,
                                  fth_error *err) {
    const struct fth_config *config = bench->session->config;
    struct fth_text list = {0};
    fth_config *changed = NULL;
    fth_text_printf(&list, "without=[%s", name);
    for (uint32_t i = 0; i < config->without.n; i++)
        if (strcmp(config->without.items[i], name) != 0)
            fth_text_printf(&list, ", %s", config->without.items[i]);
    fth_text_printf(&list, "]");
    char *yaml = fth_config_print(config);
    const char *override = fth_text_get(&list);
    fth_status status = yaml && !list.failed ? FTH_OK
                                             : fth_fail(err, FTH_E_MEMORY, "no memory for a session");
    if (status == FTH_OK)
        status = fth_config_parse("configuration", yaml, strlen(yaml), &override, 1, &changed, err);
    if (status == FTH_OK)
        status = fth_session_create(changed, bench->batches.generated ? FTH_FOR_SHAPE : FTH_FOR_ALL, out, err);
    fth_config_free(changed);
    free(yaml);
    fth_text_free(&list);
    return status;
}

static fth_status in_turns(struct bench *bench, struct fth_session *other, fth_plan *plan,
                           struct fth_bench_ablation *out, fth_error *err) {
    double with[ROUNDS], without[ROUNDS], ratios[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t n;
        FTH_TRY(run_steps(bench, bench->session, bench->plan, bench->options->seconds / ROUNDS, NULL,
                          &n, err));
        fth_sort_doubles(bench->samples, n);
        with[i] = quantile(bench->samples, n, 0.5);
        FTH_TRY(run_steps(bench, other, plan, bench->options->seconds / ROUNDS, NULL, &n, err));
        fth_sort_doubles(bench->samples, n);
        without[i] = quantile(bench->samples, n, 0.5);
        ratios[i] = with[i] / without[i];
    }
    fth_sort_doubles(without, ROUNDS);
    fth_sort_doubles(ratios, ROUNDS);
    out->examples_per_second = without[ROUNDS / 2];
    out->ratio = ratios[ROUNDS / 2];
    return FTH_OK;
}

static fth_status ablate(struct bench *bench, fth_error *err) {
    const char *const *names = fth_pass_names();
    uint32_t n = 0;
    while (names[n])
        n++;
    bench->report->ablations = fth_alloc(n + 1, sizeof *bench->report->ablations);
    if (!bench->report->ablations)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a report");
    for (uint32_t i = 0; i < n; i++) {
        struct fth_bench_ablation *out = &bench->report->ablations[bench->report->n_ablations];
        struct fth_session *other = NULL;
        fth_plan *plan = NULL;
        char what[64];
        if (!fth_session_with(bench->session->config, names[i]))
            continue; /* out already */
        snprintf(what, sizeof what, "without %s", names[i]);
        tell(bench, what);
        out->name = names[i];
        fth_status status = session_without(bench, names[i], &other, err);
        if (status == FTH_OK)
            status = fth_session_plan(other, 1, &plan, err);
        if (status == FTH_OK)
            status = warm(bench, other, plan, err);
        if (status == FTH_OK)
            status = in_turns(bench, other, plan, out, err);
        fth_session_destroy(other);
        FTH_TRY(status);
        bench->report->n_ablations++;
    }
    return FTH_OK;
}

/* ---- all of it ---- */

/* Steps from text are refused before anything is read or drawn. */
static fth_status check_reading(const struct bench *bench, int generated, fth_error *err) {
    if (!bench->options->from_text)
        return FTH_OK;
    if (generated)
        return fth_fail(err, FTH_E_CONFIG,
                        "data.train: steps from text need files that are there, and no generated batches in their place");
    FTH_TRY(fth_session_train_set(bench->session, err));
    if (!fth_data_set_again(bench->session->train_set))
        return fth_fail(err, FTH_E_CONFIG,
                        "data.train: steps from text need files that can be read twice, not standard input or a pipe");
    if (bench->session->config->data.parse_threads)
        return fth_fail(err, FTH_E_CONFIG,
                        "data.parse_threads: steps from text are measured with 0; threads of their own would read ahead "
                        "while the steps in memory are timed");
    return FTH_OK;
}

static fth_status run(struct bench *bench, const fth_config *config, fth_error *err) {
    struct fth_bench_report *r = bench->report;
    int generated = bench->options->generated || !fth_bench_has_data(config);
    FTH_TRY(fth_session_create(config, generated ? FTH_FOR_SHAPE : FTH_FOR_ALL, &bench->session, err));
    FTH_TRY(check_reading(bench, generated, err));
    tell(bench, generated ? "generating batches" : "reading batches");
    FTH_TRY(fth_bench_hold(bench->session, bench->options->batches, generated, &bench->batches, err));
    FTH_TRY(fth_session_plan(bench->session, 1, &bench->plan, err));
    FTH_TRY(fth_session_make_room(bench->session, err));
    r->model = bench->session->config->model.name;
    r->isa = fth_cpu_instructions(bench->session->config->precision != FTH_FP32);
    r->threads = fth_pool_size(bench->session->pool);
    r->batch = bench->batches.items[0]->n; /* of fewer examples than train.batch_size there is one batch, a short one */
    r->held = bench->batches.n;
    r->generated = generated;
    r->counts = bench->batches.counts;
    if (!generated) {
        tell(bench, "parsing");
        FTH_TRY(fth_bench_stage(bench->session, bench->options->seconds / 4, &r->stage, err));
    }
    FTH_TRY(peaks(bench, err));
    FTH_TRY(measure(bench, err));
    FTH_TRY(profile(bench, err));
    if (bench->options->ablate)
        FTH_TRY(ablate(bench, err));
    if (bench->options->from_text) {
        tell(bench, "steps from text");
        FTH_TRY(fth_bench_in_turns(bench->session, bench->plan, &bench->batches, bench->options->seconds, bench->samples,
                                   &r->turns, err));
    }
    if (bench->options->seconds >= 1) /* a short look needs no second opinion */
        FTH_TRY(peaks(bench, err));
    share_of_gather(bench);
    return FTH_OK;
}

fth_status fth_bench(const fth_config *config, const fth_bench_options *options, char **text,
                     char **json, fth_error *err) {
    if (!config || !options || !text)
        return fth_fail_null(err, "fth_bench", "config, options, text");
    struct fth_bench_report report = {0};
    struct bench bench = {.options = options, .report = &report};
    char *as_text = NULL, *as_json = NULL;
    if (options->batches < 1 || !(options->seconds > 0))
        return fth_fail(err, FTH_E_ARGUMENT, "bench: at least one batch and a time above 0 are needed");
    bench.samples = fth_alloc(FTH_BENCH_SAMPLES, sizeof(double));
    fth_status status =
        bench.samples ? FTH_OK : fth_fail(err, FTH_E_MEMORY, "no memory for timings");
    if (status == FTH_OK)
        status = run(&bench, config, err);
    if (status == FTH_OK)
        status = fth_bench_text(&report, &as_text, err);
    if (status == FTH_OK && json)
        status = fth_bench_json(&report, &as_json, err);
    fth_bench_release(&bench.batches);
    fth_session_destroy(bench.session);
    fth_free(bench.samples);
    fth_free(report.nodes);
    fth_free(report.ablations);
    if (status != FTH_OK) {
        free(as_text);
        return status;
    }
    *text = as_text;
    if (json)
        *json = as_json;
    return FTH_OK;
}
