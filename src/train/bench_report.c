/* The result of a bench as tables for people and as JSON. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "train/bench_private.h"

static const char *const part_keys[FTH_BENCH_PARTS] = {
    "lookup", "gather", "forward", "data_gradients", "weight_gradients_and_update", "row_updates",
    "waiting"};
static const char *const part_names[FTH_BENCH_PARTS] = {
    "finding rows",         "gathering rows",     "forward",
    "data gradients",       "weight gradients and updates", "row updates",
    "waiting"};

#define MOST_NODES 25

/* Per nanosecond of a thread times threads: what the whole machine would do at this pace. */
static double rate(const struct fth_bench_report *r, double amount, double ns) {
    return ns > 0 ? amount / ns * r->threads : 0;
}

static double milliseconds(const struct fth_bench_report *r, double ns) {
    return ns / r->threads / (r->profiled ? r->profiled : 1) * 1e-6;
}

static void cell(struct fth_text *text, const char *format, double value, int there) {
    char number[32] = "";
    if (there)
        snprintf(number, sizeof number, format, value);
    fth_text_printf(text, " %9s", number);
}

static void sum_line(const struct fth_bench_report *r, struct fth_text *text,
                     const struct fth_bench_sum *sum) {
    double gflops = rate(r, sum->flops, sum->ns), gigabytes = rate(r, sum->bytes, sum->ns);
    int there = sum->ns > 0;
    cell(text, "%.3f", milliseconds(r, sum->ns), 1);
    cell(text, "%.1f %%", r->profiled_ns > 0 ? 100 * sum->ns / r->profiled_ns : 0, 1);
    cell(text, "%.1f", gflops, there && sum->flops > 0);
    cell(text, "%.1f %%", 100 * gflops / r->fma, there && sum->flops > 0);
    cell(text, "%.1f", gigabytes, there && sum->bytes > 0);
    cell(text, "%.0f %%", 100 * gigabytes / r->read, there && sum->bytes > 0);
    cell(text, "%.1f", rate(r, sum->rows, sum->ns) * 1e3, there && sum->rows > 0);
    cell(text, "%.0f %%", 100 * sum->gather_share, there && sum->gather_share >= 0);
    fth_text_printf(text, "\n");
}

static void header(struct fth_text *text, const char *first) {
    fth_text_printf(text, "\n%-49s %9s %9s %9s %9s %9s %9s %9s %9s\n", first, "ms/step", "share", "GFLOP/s",
                    "of peak", "GB/s", "of peak", "Mrows/s", "of peak");
}

/* A step's counters on all threads; what the parts before the plan and waiting do is not counted. */
static void print_counters(const struct fth_bench_report *r, struct fth_text *text) {
    if (!r->perf)
        return;
    if (!r->counted) {
        fth_text_printf(text, "\nno counters: %s\n", r->refused.message);
        return;
    }
    fth_text_printf(text, "\n%-49s %12s %12s %12s\n", "counters", "Mcycles/step", "instr./cycle",
                    "kmisses/step");
    for (int p = FTH_BENCH_GATHER; p < FTH_BENCH_WAIT; p++) {
        const double *c = r->parts[p].counters;
        double steps = r->profiled ? r->profiled : 1, cycles = c[FTH_PERF_CYCLES];
        fth_text_printf(text, "%-49s %12.3f %12.2f %12.1f\n", part_names[p], cycles / steps * 1e-6,
                        cycles > 0 ? c[FTH_PERF_INSTRUCTIONS] / cycles : 0,
                        c[FTH_PERF_CACHE_MISSES] / steps * 1e-3);
    }
}

/* flops: of all profiled steps. */
static void print_peaks(const struct fth_bench_report *r, struct fth_text *text, double flops) {
    fth_text_printf(text, "\npeaks of this machine with %u threads: FMA %.1f GFLOP/s, read %.1f GB/s, copy "
                          "%.1f GB/s", r->threads, r->fma, r->read, r->copy);
    for (uint32_t i = 0; i < r->n_dims; i++)
        fth_text_printf(text, "%s %u floats %.1f Mrows/s", i ? "," : ", gather of", r->dims[i], r->gather[i]);
    double steps = r->profiled ? flops / r->profiled * r->all / r->batch * 1e-9 : 0;
    fth_text_printf(text, "\nbetween the steps: FMA %.1f GFLOP/s, %.1f %% of the peak (other work on the machine takes the "
                          "rest); the steps, in all: %.1f GFLOP/s, %.1f %% of the peak, %.1f %% of that between them",
                    r->fma_between, 100 * r->fma_between / r->fma, steps, 100 * steps / r->fma,
                    100 * steps / r->fma_between);
    fth_text_printf(text, "\nFLOPs are the plain model's, also where an optimisation makes fewer; bytes count every "
                          "value once, also those that stay in cache: above 100 %% is possible of both\n");
}

static double stage_lines(const struct fth_stage_rate *stage) {
    return stage->bytes ? stage->whole * 1e9 * (double)stage->lines / (double)stage->bytes : 0;
}

static void print_reading(const struct fth_bench_report *r, struct fth_text *text) {
    const struct fth_reader_counts *c = &r->counts;
    double ns = (double)(c->read_ns + c->parse_ns + c->assemble_ns);
    if (r->stage.bytes)
        fth_text_printf(text, "parse and hash (alone, a thread): %.2f GB/s, %.0f lines/s; into cells only "
                              "%.2f GB/s\n",
                        r->stage.whole, stage_lines(&r->stage), r->stage.split);
    if (r->generated || !c->bytes || ns <= 0)
        return;
    fth_text_printf(text, "reading (beside training, a thread): read %.0f MB/s, parse %.0f MB/s, assemble "
                          "%.0f MB/s; %.0f examples/s in all\n",
                    (double)c->bytes * 1e3 / (double)(c->read_ns + 1),
                    (double)c->bytes * 1e3 / (double)(c->parse_ns + 1),
                    (double)c->bytes * 1e3 / (double)(c->assemble_ns + 1), (double)c->lines * 1e9 / ns);
}

static double side_rate(const struct fth_bench_side *side) {
    return (double)side->examples * 1e9 / side->ns;
}

static void side_line(struct fth_text *text, const char *name, const struct fth_bench_side *side) {
    double ms = 1e-6 / (double)side->steps;
    fth_text_printf(text, "%-49s %12.3f %12.3f %12.3f %12.3f %12.0f\n", name, side->ns * ms, side->waiting * ms,
                    side->lookup * ms, (side->ns - side->waiting - side->lookup) * ms, side_rate(side));
}

static void print_turns(const struct fth_bench_turns *turns, struct fth_text *text) {
    char name[48];
    if (!turns->n)
        return;
    snprintf(name, sizeof name, "steps in turns, %llu of each", (unsigned long long)turns->text.steps);
    fth_text_printf(text, "\n%-49s %12s %12s %12s %12s %12s\n", name, "ms/step", "for a batch", "finding rows", "the rest",
                    "examples/s");
    side_line(text, "from text", &turns->text);
    side_line(text, "on the batches in memory", &turns->memory);
    fth_text_printf(text, "from text over in memory: %.3f, median of %u turns %.3f\n",
                    side_rate(&turns->text) / side_rate(&turns->memory), turns->n, turns->median);
}

fth_status fth_bench_text(const struct fth_bench_report *r, char **out, fth_error *err) {
    struct fth_text text = {0};
    struct fth_bench_sum all = {.ns = r->profiled_ns, .gather_share = -1};
    fth_text_printf(&text, "%s, batches of %u, %u threads, %s; %u %s batches in memory\n", r->model,
                    r->batch, r->threads, r->isa, r->held,
                    r->generated ? "generated" : "read");
    fth_text_printf(&text, "examples/s: median %.0f, p10 %.0f, p90 %.0f, in all %.0f (%u steps in %.1f s)\n",
                    r->median, r->p10, r->p90, r->all, r->steps, r->seconds);
    fth_text_printf(&text, "keys a step %.0f, unique %.0f\n", r->keys, r->unique);
    print_reading(r, &text);
    header(&text, "part");
    for (int p = 0; p < FTH_BENCH_PARTS; p++) {
        fth_text_printf(&text, "%-49s", part_names[p]);
        sum_line(r, &text, &r->parts[p]);
        all.flops += r->parts[p].flops;
        all.bytes += r->parts[p].bytes;
    }
    fth_text_printf(&text, "%-49s", "in all");
    sum_line(r, &text, &all);
    print_counters(r, &text);
    header(&text, "phase node");
    for (uint32_t i = 0; i < r->n_nodes && i < MOST_NODES; i++) {
        const struct fth_bench_node *node = &r->nodes[i];
        fth_text_printf(&text, "%-5u %-20.20s %-22.22s", node->phase, node->op, node->name);
        sum_line(r, &text, &node->sum);
    }
    if (r->n_nodes > MOST_NODES)
        fth_text_printf(&text, "and %u more (--json FILE has all)\n", r->n_nodes - MOST_NODES);
    print_turns(&r->turns, &text);
    if (r->n_ablations)
        fth_text_printf(&text, "\n%-49s %12s %12s\n", "left out", "examples/s", "with/without");
    for (uint32_t i = 0; i < r->n_ablations; i++)
        fth_text_printf(&text, "%-49s %12.0f %12.3f\n", r->ablations[i].name,
                        r->ablations[i].examples_per_second, r->ablations[i].ratio);
    print_peaks(r, &text, all.flops);
    char *copy = text.failed ? NULL : strdup(fth_text_get(&text));
    fth_text_free(&text);
    if (!copy)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a report");
    *out = copy;
    return FTH_OK;
}

/* ---- JSON ---- */

static json_t *sum_json(const struct fth_bench_report *r, const struct fth_bench_sum *sum) {
    json_t *object = json_pack("{s:f, s:f, s:f, s:f}", "ms_per_step", milliseconds(r, sum->ns), "share",
                               r->profiled_ns > 0 ? sum->ns / r->profiled_ns : 0, "gflops",
                               rate(r, sum->flops, sum->ns), "gigabytes_per_second",
                               rate(r, sum->bytes, sum->ns));
    if (sum->rows > 0)
        json_object_set_new(object, "megarows_per_second", json_real(rate(r, sum->rows, sum->ns) * 1e3));
    if (r->counted) {
        double steps = r->profiled ? r->profiled : 1;
        json_object_set_new(object, "cycles_per_step", json_real(sum->counters[FTH_PERF_CYCLES] / steps));
        json_object_set_new(object, "instructions_per_step",
                            json_real(sum->counters[FTH_PERF_INSTRUCTIONS] / steps));
        json_object_set_new(object, "cache_misses_per_step",
                            json_real(sum->counters[FTH_PERF_CACHE_MISSES] / steps));
    }
    if (sum->gather_share >= 0)
        json_object_set_new(object, "share_of_gather_peak", json_real(sum->gather_share));
    return object;
}

static json_t *nodes_json(const struct fth_bench_report *r) {
    json_t *nodes = json_array();
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        json_t *node = sum_json(r, &r->nodes[i].sum);
        json_object_set_new(node, "op", json_string(r->nodes[i].op));
        json_object_set_new(node, "name", json_string(r->nodes[i].name));
        json_object_set_new(node, "phase", json_integer(r->nodes[i].phase));
        json_array_append_new(nodes, node);
    }
    return nodes;
}

static json_t *side_json(const struct fth_bench_side *side) {
    double ms = 1e-6 / (double)side->steps;
    return json_pack("{s:I, s:f, s:f, s:f, s:f}", "steps", (json_int_t)side->steps, "ms_per_step", side->ns * ms,
                     "ms_for_a_batch", side->waiting * ms, "ms_finding_rows", side->lookup * ms, "examples_per_second",
                     side_rate(side));
}

static json_t *turns_json(const struct fth_bench_turns *turns) {
    return json_pack("{s:o, s:o, s:i, s:f, s:f}", "from_text", side_json(&turns->text), "in_memory",
                     side_json(&turns->memory), "turns", (int)turns->n, "ratio",
                     side_rate(&turns->text) / side_rate(&turns->memory), "ratio_median", turns->median);
}

static json_t *peaks_json(const struct fth_bench_report *r) {
    json_t *gather = json_object();
    for (uint32_t i = 0; i < r->n_dims; i++) {
        char dim[16];
        snprintf(dim, sizeof dim, "%u", r->dims[i]);
        json_object_set_new(gather, dim, json_real(r->gather[i]));
    }
    return json_pack("{s:f, s:f, s:f, s:f, s:o}", "fma_gflops", r->fma, "fma_between_steps_gflops", r->fma_between,
                     "read_gigabytes_per_second", r->read, "copy_gigabytes_per_second", r->copy,
                     "gather_megarows_per_second", gather);
}

fth_status fth_bench_json(const struct fth_bench_report *r, char **out, fth_error *err) {
    json_t *parts = json_object(), *ablations = json_object();
    for (int p = 0; p < FTH_BENCH_PARTS; p++)
        json_object_set_new(parts, part_keys[p], sum_json(r, &r->parts[p]));
    for (uint32_t i = 0; i < r->n_ablations; i++)
        json_object_set_new(ablations, r->ablations[i].name,
                            json_pack("{s:f, s:f}", "examples_per_second",
                                      r->ablations[i].examples_per_second, "with_over_without",
                                      r->ablations[i].ratio));
    json_t *root = json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:b, s:i, s:f, s:{s:f, s:f, s:f, s:f}, s:f, s:f}", "version",
        FTH_VERSION, "model", r->model, "cpu", fth_cpu_get()->name, "isa",
        r->isa, "threads", (int)r->threads, "batch", (int)r->batch,
        "batches_held", (int)r->held, "generated", r->generated, "steps", (int)r->steps, "seconds",
        r->seconds, "examples_per_second", "median", r->median, "p10", r->p10, "p90", r->p90, "in_all", r->all,
        "keys_per_step", r->keys, "unique_rows_per_step", r->unique);
    if (root) {
        if (r->stage.bytes)
            json_object_set_new(root, "parse_and_hash",
                                json_pack("{s:f, s:f, s:f}", "gigabytes_per_second", r->stage.whole,
                                          "lines_per_second", stage_lines(&r->stage),
                                          "cells_gigabytes_per_second", r->stage.split));
        json_object_set_new(root, "parts", parts);
        json_object_set_new(root, "nodes", nodes_json(r));
        json_object_set_new(root, "ablations", ablations);
        if (r->turns.n)
            json_object_set_new(root, "text_and_memory_in_turns", turns_json(&r->turns));
        json_object_set_new(root, "peaks", peaks_json(r));
    }
    char *dump = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(root);
    if (!dump)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a report");
    *out = dump;
    return FTH_OK;
}
