/* After split_attention a gradient reaches the keys of an attention unit by three ways, which autodiff adds up over
 * all positions:
 *
 *   a, dw = segment_sum_grad(k, w, dout)        ->  dw = segment_dot(k, dout)
 *   b     = columns [0, d) of dx                    dk, dq = segment_keys_grad(dx, k, q, w, dout)
 *   c, dq = segment_mul_grad(columns [d, 2 d) of dx, k, q)
 *   dk    = add(add(a, b), c)
 *
 * The same sums in the same order, in one read and one write. */
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

struct found {
    struct fth_node *product, *sum, *inner, *outer; /* c; a; the two additions */
    fth_id dx;
};

/* The addition that alone reads the value, as its input `which`. */
static struct fth_node *added(const fth_graph *graph, fth_id value, uint32_t which) {
    struct fth_node *reader = NULL;
    if (fth_rewrite_has_views(graph, value) || fth_rewrite_readers(graph, value, &reader) != 1 ||
        reader->op != &fth_op_add || reader->inputs[which] != value)
        return NULL;
    return reader;
}

static struct fth_node *producer(const fth_graph *graph, fth_id value) {
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t o = 0; o < graph->nodes[i]->n_outputs; o++)
            if (graph->nodes[i]->outputs[o] == value)
                return graph->nodes[i];
    return NULL;
}

static int match(const fth_graph *graph, struct fth_node *product, struct found *out) {
    if (product->op != &fth_op_segment_mul_grad)
        return 0;
    const struct fth_value *right = &graph->values[product->inputs[0]];
    struct fth_node *outer = added(graph, product->outputs[0], 1);
    struct fth_node *inner = outer ? producer(graph, outer->inputs[0]) : NULL;
    if (!inner || inner->op != &fth_op_add || added(graph, inner->outputs[0], 0) != outer ||
        right->view_of == FTH_NONE)
        return 0;
    struct fth_node *sum = producer(graph, inner->inputs[0]);
    const struct fth_value *left = &graph->values[inner->inputs[1]];
    const struct fth_value *whole = &graph->values[right->view_of];
    *out = (struct found){product, sum, inner, outer, right->view_of};
    return sum && sum->op == &fth_op_segment_sum_grad && sum->inputs[0] == product->inputs[1] &&
           added(graph, sum->outputs[0], 0) == inner && left->view_of == right->view_of &&
           left->view_column == 0 && left->columns == right->columns &&
           right->view_column == right->columns && whole->columns == 2 * right->columns;
}

/* A node at the place of `old`, which goes; its outputs are `outputs`. */
static fth_status replace(fth_graph *graph, const struct fth_node *old, const struct fth_op *op,
                          const fth_id *inputs, uint32_t n, const fth_id *outputs, fth_error *err) {
    fth_id made[2];
    fth_stage stage = graph->stage;
    graph->stage = FTH_BACKWARD;
    fth_status status = fth_graph_node(graph, op, old->name, inputs, n, NULL, 0, made, err);
    graph->stage = stage;
    FTH_TRY(status);
    struct fth_node *node = graph->nodes[graph->n_nodes - 1];
    fth_rewrite_move_last(graph, fth_rewrite_find(graph, old));
    fth_rewrite_remove(graph, fth_rewrite_find(graph, old));
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        graph->values[made[o]].producer = FTH_NONE;
        node->outputs[o] = outputs[o];
        graph->values[outputs[o]].producer = node->id;
    }
    return FTH_OK;
}

static fth_status fuse(fth_graph *graph, const struct found *found, fth_error *err) {
    fth_id dk = found->outer->outputs[0], dw = found->sum->outputs[1], dq = found->product->outputs[1];
    fth_id keys[2] = {found->sum->inputs[0], found->sum->inputs[2]}, outputs[2] = {dk, dq};
    fth_id all[5] = {found->dx, keys[0], found->product->inputs[2], found->sum->inputs[1], keys[1]};
    fth_rewrite_remove(graph, fth_rewrite_find(graph, found->outer));
    fth_rewrite_remove(graph, fth_rewrite_find(graph, found->inner));
    FTH_TRY(replace(graph, found->sum, &fth_op_segment_dot, keys, 2, &dw, err));
    return replace(graph, found->product, &fth_op_segment_keys_grad, all, 5, outputs, err);
}

static fth_status run(fth_graph *graph, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct found found;
        if (match(graph, graph->nodes[i], &found)) {
            FTH_TRY(fuse(graph, &found, err));
            i = 0; /* nodes before this one went */
        }
    }
    return FTH_OK;
}

const struct fth_pass fth_pass_fuse_key_grads = {
    .name = "fuse_key_grads",
    .summary = "the parts of an attention unit's key gradient are added in one read",
    .when = FTH_PASS_TRAINING,
    .run = run};
