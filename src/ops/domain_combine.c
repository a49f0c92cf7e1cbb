/* domain_combine(shared [r, c], own [d r, c]): the shared matrix times (weights, scales) or plus (biases,
 * shifts) each domain's own, [d r, c]: STAR, Sheng et al. 2021, eq. 4, 6 and 7. Once a step; whole batch.
 *
 * domain_weights(shared, own): the product for matrix products to read: output 1 has each domain's matrix
 * in panels (kernels/panels.h), a row a domain, output 2 those of its transposed copy. Output 0 [d r, c]
 * only stands for them in the graph: it has the gradient, its numbers nobody writes or reads. */
#include "kernels/panels.h"
#include "ops/domain.h"

#define TASK_ROWS 16

static int is_product(const struct fth_node *node) {
    const struct fth_domain_combine_attributes *a = node->attributes;
    return !a || a->product; /* domain_weights has none */
}

static fth_status need(const fth_graph *graph, const struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need(graph, node, 0, err));
    FTH_TRY(fth_ops_need(graph, node, 1, err));
    struct fth_value shared = fth_ops_input(graph, node, 0), own = fth_ops_input(graph, node, 1);
    FTH_TRY(fth_ops_need_whole(graph, node, 0, shared.rows, shared.columns, err));
    FTH_TRY(fth_ops_need_whole(graph, node, 1, own.rows, shared.columns, err));
    if (own.rows % shared.rows)
        return fth_fail(err, FTH_E_ARGUMENT, "input 1 has %u rows, no multiple of %u", own.rows, shared.rows);
    return FTH_OK;
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(need(graph, node, err));
    struct fth_value own = fth_ops_input(graph, node, 1);
    return fth_graph_output(graph, node, 0, FTH_WHOLE, -1, own.rows, own.columns, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    struct fth_domain_combine_attributes attributes = {is_product(node)};
    fth_id inputs[3] = {node->inputs[0], node->inputs[1], d_outputs[0]};
    return fth_graph_node(graph, &fth_op_domain_combine_grad, node->name, inputs, 3, &attributes,
                          sizeof attributes, d_inputs, err);
}

static fth_status prepare_tasks(struct fth_prepare *prepare, fth_error *err) {
    prepare->tasks = (prepare->in[0].rows + TASK_ROWS - 1) / TASK_ROWS;
    return FTH_OK;
}

static void print(const struct fth_node *node, struct fth_text *out) {
    fth_text_printf(out, is_product(node) ? "times" : "plus");
}

/* Rows of the shared matrix, for every domain. */
static void run(const struct fth_run *run) {
    const struct fth_kernels *kernels = fth_kernels_get();
    const struct fth_view *shared = &run->in[0], *own = &run->in[1], *out = &run->out[0];
    uint32_t row = run->task * TASK_ROWS, rows = shared->rows - row < TASK_ROWS ? shared->rows - row : TASK_ROWS;
    const float *s = shared->data + (size_t)row * shared->ld;
    int product = is_product(run->node);
    for (uint32_t at = row; at < own->rows; at += shared->rows)
        (product ? kernels->mul : kernels->add)(rows, own->columns, s, shared->ld,
                                                own->data + (size_t)at * own->ld, own->ld,
                                                out->data + (size_t)at * out->ld, out->ld);
}

const struct fth_op fth_op_domain_combine = {.name = "domain_combine",
                                             .min_inputs = 2,
                                             .max_inputs = 2,
                                             .n_outputs = 1,
                                             .granularity = FTH_WHOLE_BATCH,
                                             .shape = shape,
                                             .gradient = gradient,
                                             .prepare = prepare_tasks,
                                             .cost = fth_ops_cost,
                                             .print = print,
                                             .run = run};

static fth_status weights_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(need(graph, node, err));
    struct fth_value shared = fth_ops_input(graph, node, 0), own = fth_ops_input(graph, node, 1);
    size_t straight = fth_panels_floats(shared.rows, shared.columns);
    size_t turned = fth_panels_floats(shared.columns, shared.rows);
    if (shared.rows == 1 || shared.columns == 1 || straight > UINT32_MAX || turned > UINT32_MAX)
        return fth_fail(err, FTH_E_ARGUMENT, "%u rows of %u columns are no matrix for panels", shared.rows,
                        shared.columns);
    uint32_t domains = own.rows / shared.rows;
    FTH_TRY(fth_graph_output(graph, node, 0, FTH_WHOLE, -1, own.rows, own.columns, err));
    FTH_TRY(fth_graph_output(graph, node, 1, FTH_WHOLE, -1, domains, (uint32_t)straight, err));
    return fth_graph_output(graph, node, 2, FTH_WHOLE, -1, domains, (uint32_t)turned, err);
}

static fth_status weights_prepare(struct fth_prepare *prepare, fth_error *err) {
    prepare->scratch_bytes = fth_ops_align(sizeof(float) * TASK_ROWS * fth_padded_columns(prepare->in[0].columns));
    return prepare_tasks(prepare, err);
}

static void weights_run(const struct fth_run *run) {
    const struct fth_kernels *kernels = fth_kernels_get();
    const struct fth_view *shared = &run->in[0], *own = &run->in[1], *out = &run->out[1], *turned = &run->out[2];
    uint32_t row = run->task * TASK_ROWS, rows = shared->rows - row < TASK_ROWS ? shared->rows - row : TASK_ROWS;
    uint32_t columns = own->columns, ld = fth_padded_columns(columns);
    const float *s = shared->data + (size_t)row * shared->ld;
    float *block = run->scratch;
    for (size_t d = 0; d < own->rows / shared->rows; d++) {
        struct fth_panels_target straight = {out->data + d * out->ld, shared->rows, columns, FTH_FP32};
        kernels->mul(rows, columns, s, shared->ld, own->data + (d * shared->rows + row) * own->ld, own->ld, block, ld);
        fth_panels_store(&straight, row, 0, rows, columns, block, ld);
        if (turned->data) { /* evaluation has no reader of it */
            struct fth_panels_target other = {turned->data + d * turned->ld, columns, shared->rows, FTH_FP32};
            fth_panels_store_transposed(&other, row, 0, rows, columns, block, ld);
        }
    }
}

const struct fth_op fth_op_domain_weights = {.name = "domain_weights",
                                             .min_inputs = 2,
                                             .max_inputs = 2,
                                             .n_outputs = 3,
                                             .granularity = FTH_WHOLE_BATCH,
                                             .shape = weights_shape,
                                             .gradient = gradient,
                                             .prepare = weights_prepare,
                                             .cost = fth_ops_cost,
                                             .run = weights_run};

fth_id fth_domain_panels(const fth_graph *graph, fth_id weights, int turned) {
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i]->op == &fth_op_domain_weights && graph->nodes[i]->outputs[0] == weights)
            return graph->nodes[i]->outputs[1 + (turned != 0)];
    return FTH_NONE;
}

/* Inputs shared, own and the gradient of what was made of them; outputs both gradients. */
static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(need(graph, node, err));
    struct fth_value shared = fth_ops_input(graph, node, 0), own = fth_ops_input(graph, node, 1);
    FTH_TRY(fth_ops_need_whole(graph, node, 2, own.rows, own.columns, err));
    FTH_TRY(fth_graph_output(graph, node, 0, FTH_WHOLE, -1, shared.rows, shared.columns, err));
    return fth_graph_output(graph, node, 1, FTH_WHOLE, -1, own.rows, own.columns, err);
}

static void grad_run(const struct fth_run *run) {
    const struct fth_kernels *kernels = fth_kernels_get();
    const struct fth_view *shared = &run->in[0], *own = &run->in[1], *g = &run->in[2];
    const struct fth_view *d_shared = &run->out[0], *d_own = &run->out[1];
    uint32_t row = run->task * TASK_ROWS, rows = shared->rows - row < TASK_ROWS ? shared->rows - row : TASK_ROWS;
    uint32_t columns = own->columns;
    const float *s = shared->data + (size_t)row * shared->ld;
    float *ds = d_shared->data + (size_t)row * d_shared->ld;
    int product = is_product(run->node);
    for (uint32_t at = row; at < own->rows; at += shared->rows) {
        const float *o = own->data + (size_t)at * own->ld, *dy = g->data + (size_t)at * g->ld;
        float *to = d_own->data + (size_t)at * d_own->ld;
        if (product)
            kernels->mul(rows, columns, dy, g->ld, s, shared->ld, to, d_own->ld);
        else
            kernels->copy(rows, columns, dy, g->ld, to, d_own->ld);
        if (product && at == row)
            kernels->mul(rows, columns, dy, g->ld, o, own->ld, ds, d_shared->ld);
        else if (product)
            kernels->mul_add(rows, columns, dy, g->ld, o, own->ld, ds, d_shared->ld, ds, d_shared->ld);
        else if (at == row)
            kernels->copy(rows, columns, dy, g->ld, ds, d_shared->ld);
        else
            kernels->add(rows, columns, dy, g->ld, ds, d_shared->ld, ds, d_shared->ld);
    }
}

const struct fth_op fth_op_domain_combine_grad = {.name = "domain_combine_grad",
                                                  .min_inputs = 3,
                                                  .max_inputs = 3,
                                                  .n_outputs = 2,
                                                  .granularity = FTH_WHOLE_BATCH,
                                                  .shape = grad_shape,
                                                  .prepare = prepare_tasks,
                                                  .cost = fth_ops_cost,
                                                  .print = print,
                                                  .run = grad_run};
