/* What operations share when they are planned (ops_private.h): a node's own memory, sections of
 * scratch, products. Before the first step; fth_ops_at and fth_ops_bias_act on any thread. */
#include "ops/ops_private.h"

void *fth_ops_state(struct fth_prepare *prepare, size_t bytes, fth_error *err) {
    prepare->prepared = fth_alloc(1, bytes);
    if (!prepare->prepared)
        fth_fail(err, FTH_E_MEMORY, "out of memory");
    return prepare->prepared;
}

size_t fth_ops_section(size_t *bytes, size_t numbers) {
    size_t begin = *bytes;
    *bytes += fth_ops_align(numbers * sizeof(float));
    return begin;
}

float *fth_ops_at(const struct fth_run *run, size_t section) {
    return (float *)(void *)((char *)run->scratch + section);
}

fth_status fth_ops_product(const struct fth_prepare *prepare, const struct fth_gemm_shape *shape,
                           fth_gemm **out, fth_error *err) {
    if (prepare->on_product)
        prepare->on_product(prepare->on_product_ctx, shape);
    return fth_gemm_create(shape, FTH_GEMM_AUTO, prepare->tuning, out, err);
}

void fth_ops_bias_act(void *bias_act, uint32_t column, uint32_t columns) {
    const struct fth_ops_bias_act *f = bias_act;
    float *y = f->y + column;
    if (!f->bias && f->act == FTH_ACT_NONE)
        return;
    fth_kernels_get()->bias_act(f->rows, columns, y, f->ld, f->bias ? f->bias + column : NULL, f->act, y, f->ld);
}

size_t fth_ops_products_scratch(fth_gemm *const *products, uint32_t n, uint32_t rows) {
    size_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes = products[i] ? fth_gemm_scratch(products[i], rows) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* By what it did last; dropout leaves zeros where they are. */
static int makes_zeros(const fth_graph *graph, const struct fth_node *node) {
    const void *a = node->attributes;
    if (node->op == &fth_op_dropout)
        return fth_ops_zeros(graph, node->inputs[0]);
    if (node->op == &fth_op_factor_linear)
        return ((const struct fth_factor_attributes *)a)->act == FTH_ACT_RELU;
    if (node->op == &fth_op_bias_act || node->op == &fth_op_act_grad)
        return ((const struct fth_act_attributes *)a)->act == FTH_ACT_RELU;
    if (node->op == &fth_op_linear || (node->op == &fth_op_linear_data_grad && node->n_inputs > 3) ||
        node->op == &fth_op_domain_linear || (node->op == &fth_op_domain_linear_data_grad && node->n_inputs > 4))
        return a && ((const struct fth_linear_attributes *)a)->act == FTH_ACT_RELU;
    return 0;
}

int fth_ops_zeros(const fth_graph *graph, fth_id value) {
    for (uint32_t i = 0; graph->skip_zeros && i < graph->n_nodes; i++)
        for (uint32_t j = 0; j < graph->nodes[i]->n_outputs; j++)
            if (graph->nodes[i]->outputs[j] == value)
                return makes_zeros(graph, graph->nodes[i]);
    return 0;
}

int fth_ops_zeros_of(const struct fth_prepare *prepare, fth_id a, fth_id b) {
    int of_a = a != FTH_NONE && fth_ops_zeros(prepare->graph, a), of_b = b != FTH_NONE && fth_ops_zeros(prepare->graph, b);
    return (of_a ? FTH_ZEROS_A : 0) | (of_b ? FTH_ZEROS_B : 0);
}
