/* embedding_update: hands the gradients of all embedding outputs of the batch to the rows, which
 * sum them per unique row in example order and apply the row optimizer. Tasks: as many as the rows
 * ask for. */
#include "graph/rows.h"
#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    const struct fth_row_update_attributes *a = node->attributes;
    return fth_ops_check_row_entries(graph, node, a, err);
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_row_update_attributes *a = prepare->node->attributes;
    prepare->tasks = prepare->row_update_tasks;
    prepare->scratch_bytes = fth_ops_row_entries_bytes(a) + prepare->row_update_scratch;
    return FTH_OK;
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    fth_ops_cost(graph, node, examples, positions, out);
    out->bytes *= 5; /* gradient; weights and slots read and written */
    out->flops *= 6;
}

static void print(const struct fth_node *node, struct fth_text *out) {
    const struct fth_row_update_attributes *a = node->attributes;
    fth_text_printf(out, "lookups=%u%s", a->n, a->clip >= 0 ? " clipped" : "");
}

static void run(const struct fth_run *run) {
    const struct fth_row_update_attributes *a = run->node->attributes;
    const struct fth_rows *rows = run->rows;
    uint32_t n;
    const struct fth_row_gradient *gradients = fth_ops_row_entries(run, a, &n);
    float factor = a->clip >= 0 ? run->in[a->clip].data[0] : 1.0f;
    rows->update(rows->ctx, gradients, n, factor, run->task,
                 (char *)run->scratch + fth_ops_row_entries_bytes(a));
}

const struct fth_op fth_op_embedding_update = {.name = "embedding_update",
                                               .min_inputs = 1,
                                               .max_inputs = UINT32_MAX,
                                               .granularity = FTH_WHOLE_BATCH,
                                               .shape = shape,
                                               .prepare = prepare,
                                               .cost = cost,
                                               .print = print,
                                               .run = run};
