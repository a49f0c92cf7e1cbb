/* log_frequency(): the logarithm of how often each example's key of a lookup has been trained on so far, this batch
 * included: [examples, 1], at least log 1. Counted beside the table's rows, so that it is exact, kept in checkpoints and
 * the same at any number of threads. Training alone. */
#include <math.h>

#include "graph/rows.h"
#include "ops/ops_private.h"

static const struct fth_log_frequency_attributes *attributes_of(const struct fth_node *node) {
    return node->attributes;
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    uint32_t lookup = attributes_of(node)->lookup;
    if (lookup >= graph->n_lookups || !graph->lookups[lookup].counted || graph->lookups[lookup].group >= 0)
        return fth_fail(err, FTH_E_ARGUMENT, "lookup %u does not count one key an example", lookup);
    return fth_graph_output(graph, node, 0, FTH_EXAMPLES, -1, 0, 1, err);
}

static void print(const struct fth_node *node, struct fth_text *out) {
    fth_text_printf(out, "lookup=%u", attributes_of(node)->lookup);
}

static void run(const struct fth_run *run) {
    const struct fth_view *out = &run->out[0];
    run->rows->frequencies(run->rows->ctx, attributes_of(run->node)->lookup, run->example0, out->rows, out->data,
                           out->ld);
    for (uint32_t i = 0; i < out->rows; i++) {
        float *number = out->data + (size_t)i * out->ld;
        *number = logf(*number > 1 ? *number : 1);
    }
}

const struct fth_op fth_op_log_frequency = {.name = "log_frequency",
                                            .n_outputs = 1,
                                            .granularity = FTH_PER_TILE,
                                            .shape = shape,
                                            .cost = fth_ops_cost,
                                            .print = print,
                                            .run = run};
