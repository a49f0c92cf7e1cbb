/* sum_tiles(x): the tiles' partial sums added in a fixed pairwise tree, by choice divided by the
 * number of examples: the mean loss. */
#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_tiles(graph, node, 0, 0, err));
    return fth_graph_output(graph, node, 0, FTH_WHOLE, -1, 1, fth_ops_input(graph, node, 0).columns,
                            err);
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    prepare->tasks = 1;
    return FTH_OK;
}

static int mean_of(const struct fth_node *node) {
    const struct fth_sum_tiles_attributes *a = node->attributes;
    return a->mean;
}

static void print(const struct fth_node *node, struct fth_text *out) {
    fth_text_printf(out, mean_of(node) ? "mean" : "sum");
}

static void run(const struct fth_run *run) {
    const struct fth_view *out = &run->out[0];
    fth_ops_sum_rows(&run->in[0], 0, out->columns, out->data);
    if (mean_of(run->node))
        fth_kernels_get()->scale(1, out->columns, out->data, out->ld, 1.0f / (float)run->batch,
                                 out->data, out->ld);
}

const struct fth_op fth_op_sum_tiles = {.name = "sum_tiles",
                                        .min_inputs = 1,
                                        .max_inputs = 1,
                                        .n_outputs = 1,
                                        .granularity = FTH_WHOLE_BATCH,
                                        .shape = shape,
                                        .prepare = prepare,
                                        .cost = fth_ops_cost,
                                        .print = print,
                                        .run = run};
