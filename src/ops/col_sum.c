/* col_sum(x): the sum of a tile's rows: a bias' gradient, the loss. */
#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    return fth_ops_output_tiles(graph, node, 0, fth_ops_input(graph, node, 0).columns, err);
}

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0];
    if (!x->rows)
        fth_ops_zero_row(&run->out[0]);
    else
        fth_kernels_get()->col_sum(x->rows, x->columns, x->data, x->ld, run->out[0].data);
}

const struct fth_op fth_op_col_sum = {.name = "col_sum",
                                      .min_inputs = 1,
                                      .max_inputs = 1,
                                      .n_outputs = 1,
                                      .granularity = FTH_PER_TILE,
                                      .shape = shape,
                                      .cost = fth_ops_cost,
                                      .run = run};
