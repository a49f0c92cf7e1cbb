/* bias_act(x, bias or none): act(x + bias), and act_grad(saved, dy). What is saved is the output,
 * for GELU the input (which is why GELU takes no bias here). */
#include "ops/ops_private.h"

static const char *const act_names[FTH_ACT_COUNT] = {"none", "relu", "sigmoid", "tanh", "gelu"};

static fth_act act_of(const struct fth_node *node) {
    const struct fth_act_attributes *a = node->attributes;
    return a->act;
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    if (fth_ops_input(graph, node, 1).id != FTH_NONE) {
        FTH_TRY(fth_ops_need_whole(graph, node, 1, 1, columns, err));
        if (act_of(node) == FTH_ACT_GELU)
            return fth_fail(err, FTH_E_ARGUMENT,
                            "GELU takes no bias here: its gradient needs x + bias");
    }
    return fth_ops_output_like(graph, node, 0, 0, columns, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id dx = d_outputs[0];
    struct fth_act_attributes act = {act_of(node)};
    if (act.act != FTH_ACT_NONE) {
        fth_id inputs[2] = {act.act == FTH_ACT_GELU ? node->inputs[0] : node->outputs[0], dx};
        FTH_TRY(fth_graph_node(graph, &fth_op_act_grad, node->name, inputs, 2, &act, sizeof act,
                               &dx, err));
    }
    if (fth_ops_wants(graph, node, 1))
        FTH_TRY(
            fth_graph_node(graph, &fth_op_col_sum, node->name, &dx, 1, NULL, 0, &d_inputs[1], err));
    d_inputs[0] = dx;
    return FTH_OK;
}

static void print(const struct fth_node *node, struct fth_text *out) {
    fth_text_printf(out, "act=%s", act_names[act_of(node)]);
}

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *y = &run->out[0];
    const float *bias = run->node->n_inputs > 1 ? run->in[1].data : NULL;
    fth_kernels_get()->bias_act(x->rows, x->columns, x->data, x->ld, bias, act_of(run->node),
                                y->data, y->ld);
}

const struct fth_op fth_op_bias_act = {.name = "bias_act",
                                       .min_inputs = 1,
                                       .max_inputs = 2,
                                       .n_outputs = 1,
                                       .granularity = FTH_PER_TILE,
                                       .shape = shape,
                                       .gradient = gradient,
                                       .cost = fth_ops_cost,
                                       .print = print,
                                       .run = run};

static void grad_run(const struct fth_run *run) {
    const struct fth_view *saved = &run->in[0], *dy = &run->in[1], *dx = &run->out[0];
    fth_kernels_get()->act_grad(act_of(run->node), dx->rows, dx->columns, saved->data, saved->ld,
                                dy->data, dy->ld, dx->data, dx->ld);
}

const struct fth_op fth_op_act_grad = {.name = "act_grad",
                                       .min_inputs = 2,
                                       .max_inputs = 2,
                                       .n_outputs = 1,
                                       .granularity = FTH_PER_TILE,
                                       .shape = fth_ops_shape_alike,
                                       .cost = fth_ops_cost,
                                       .print = print,
                                       .run = grad_run};
