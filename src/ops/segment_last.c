/* segment_last(x): the row of each example's last position, or of its first (the end of a recurrent layer that walks
 * back); zeros for examples without positions. segment_last_grad(dy) puts the gradient there and zeros elsewhere. */
#include <string.h>

#include "ops/ops_private.h"

static const struct fth_segment_last_attributes *attributes_of(const struct fth_node *node) {
    return node->attributes;
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    return fth_ops_output_segments(graph, node, FTH_NO_SESSIONS, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    struct fth_segment_last_attributes a = {attributes_of(node)->first, fth_ops_input(graph, node, 0).group};
    return fth_graph_node(graph, &fth_op_segment_last_grad, node->name, d_outputs, 1, &a, sizeof a,
                          d_inputs, err);
}

static void print(const struct fth_node *node, struct fth_text *out) {
    fth_text_printf(out, attributes_of(node)->first ? "first" : "last");
}

static uint32_t chosen(const uint32_t *offsets, uint32_t example, int first) {
    return (first ? offsets[example] : offsets[example + 1] - 1) - offsets[0];
}

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *y = &run->out[0];
    int first = attributes_of(run->node)->first;
    for (uint32_t i = 0; i < y->rows; i++) {
        float *to = y->data + (size_t)i * y->ld;
        if (x->offsets[i] == x->offsets[i + 1])
            memset(to, 0, y->columns * sizeof *to);
        else
            memcpy(to, x->data + (size_t)chosen(x->offsets, i, first) * x->ld, y->columns * sizeof *to);
    }
}

const struct fth_op fth_op_segment_last = {.name = "segment_last",
                                           .min_inputs = 1,
                                           .max_inputs = 1,
                                           .n_outputs = 1,
                                           .granularity = FTH_PER_TILE,
                                           .shape = shape,
                                           .gradient = gradient,
                                           .cost = fth_ops_cost,
                                           .print = print,
                                           .run = run};

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    return fth_ops_output_positions(graph, node, FTH_NO_SESSIONS, attributes_of(node)->group, err);
}

static void grad_run(const struct fth_run *run) {
    const struct fth_view *dy = &run->in[0], *dx = &run->out[0];
    int first = attributes_of(run->node)->first;
    for (uint32_t t = 0; t < dx->rows; t++)
        memset(dx->data + (size_t)t * dx->ld, 0, dx->columns * sizeof(float));
    for (uint32_t i = 0; i < dy->rows; i++)
        if (dx->offsets[i] != dx->offsets[i + 1])
            memcpy(dx->data + (size_t)chosen(dx->offsets, i, first) * dx->ld,
                   dy->data + (size_t)i * dy->ld, dx->columns * sizeof(float));
}

const struct fth_op fth_op_segment_last_grad = {.name = "segment_last_grad",
                                                .min_inputs = 1,
                                                .max_inputs = 1,
                                                .n_outputs = 1,
                                                .granularity = FTH_PER_TILE,
                                                .shape = grad_shape,
                                                .cost = fth_ops_cost,
                                                .print = print,
                                                .run = grad_run};
