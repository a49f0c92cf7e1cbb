/* dropout(x): in training a unit is kept with probability `keep` and divided by it; in evaluation x
 * passes. Which units is a draw of (seed, step, stream, row of the batch, column), so the gradient
 * is the same op on dy and nothing is stored. */
#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    const struct fth_dropout_attributes *a = node->attributes;
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    if (!(a->keep > 0 && a->keep <= 1))
        return fth_fail(err, FTH_E_ARGUMENT, "keep %g is not in (0, 1]", (double)a->keep);
    return fth_ops_output_like(graph, node, 0, 0, fth_ops_input(graph, node, 0).columns, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    return fth_graph_node(graph, &fth_op_dropout, node->name, d_outputs, 1, node->attributes,
                          sizeof(struct fth_dropout_attributes), d_inputs, err);
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops *= 20; /* a quarter of a random draw */
}

static void print(const struct fth_node *node, struct fth_text *out) {
    const struct fth_dropout_attributes *a = node->attributes;
    fth_text_printf(out, "keep=%g stream=%u", (double)a->keep, a->stream);
}

static void run(const struct fth_run *run) {
    const struct fth_dropout_attributes *a = run->node->attributes;
    const struct fth_view *x = &run->in[0], *y = &run->out[0];
    uint64_t row0 = x->offsets ? x->offsets[0] : run->example0;
    if (run->training)
        fth_kernels_get()->dropout(x->rows, x->columns, x->data, x->ld, run->seed, run->step,
                                   a->stream, row0, a->keep, y->data, y->ld);
    else
        fth_kernels_get()->copy(x->rows, x->columns, x->data, x->ld, y->data, y->ld);
}

const struct fth_op fth_op_dropout = {.name = "dropout",
                                      .min_inputs = 1,
                                      .max_inputs = 1,
                                      .n_outputs = 1,
                                      .granularity = FTH_PER_TILE,
                                      .shape = shape,
                                      .gradient = gradient,
                                      .cost = cost,
                                      .print = print,
                                      .run = run};
