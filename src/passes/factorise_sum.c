/* Part of factorise_first_layer: what the layer's gradient dx is added to.
 *
 * Where dx meets other gradients of the same columns, factor_data_grad adds to them in place: in factorised
 * columns, where it has nothing, nothing is written, read or added. */
#include "passes/factorise_sum.h"

#include "ops/ops.h"
#include "passes/rewrite.h"

/* The only node that reads dx before others write there, `read` being dx or a plain view of it; NULL when there are
 * several. */
static struct fth_node *only_reader(const fth_graph *graph, const struct fth_node *data_grad, fth_id dx, fth_id *read) {
    struct fth_node *reader = NULL;
    for (uint32_t i = fth_rewrite_find(graph, data_grad) + 1; i < graph->n_nodes; i++) {
        struct fth_node *node = graph->nodes[i];
        for (uint32_t j = 0; j < node->n_inputs; j++) {
            fth_id input = node->inputs[j];
            if (input == FTH_NONE || (input != dx && graph->values[input].view_of != dx))
                continue;
            if (reader)
                return NULL;
            reader = node;
            *read = input;
        }
        if (fth_rewrite_writes(graph, node, dx))
            break;
    }
    return reader;
}

/* s, db = mul_add_grad(.., dx) in dx' place: the node writes there what it has, and dx is added to that. */
static fth_id add_behind_cross(fth_graph *graph, struct fth_node *data_grad, fth_id *dx, struct fth_node *cross) {
    fth_id s = cross->outputs[0], sum = *dx;
    fth_rewrite_move(graph, fth_rewrite_find(graph, data_grad), fth_rewrite_find(graph, cross));
    cross->n_inputs = 4;
    cross->outputs[0] = sum;
    graph->values[sum].producer = cross->id;
    data_grad->outputs[0] = *dx = s;
    graph->values[s].producer = data_grad->id;
    return sum;
}

/* s = add(other, dx or columns of it): `other` and s lie where dx does, or all of them where `other` lay. */
static fth_id add_in_place(fth_graph *graph, const struct fth_node *data_grad, fth_id dx, struct fth_node *add,
                           fth_id read, fth_id other) {
    fth_id s = add->outputs[0];
    uint32_t at = fth_rewrite_find(graph, add), column = graph->values[read].view_column;
    if (graph->values[other].view_of != FTH_NONE && read != dx)
        return FTH_NONE;
    if (!fth_rewrite_may_overwrite(graph, other, at) || graph->values[s].view_of != FTH_NONE)
        return FTH_NONE;
    if (read == dx) {
        fth_id root = fth_graph_root(graph, other);
        column = fth_graph_column(graph, other);
        fth_rewrite_home(graph, dx, root, column);
        fth_rewrite_home(graph, s, root, column);
    } else {
        fth_rewrite_home(graph, other, dx, column);
        fth_rewrite_home(graph, s, dx, column);
    }
    fth_rewrite_move(graph, fth_rewrite_find(graph, data_grad), at);
    fth_rewrite_remove(graph, fth_rewrite_find(graph, add));
    return other;
}

fth_id fth_factorise_sum(fth_graph *graph, struct fth_node *data_grad, fth_id *dx) {
    fth_id read = FTH_NONE;
    struct fth_node *reader =
        graph->values[*dx].view_of == FTH_NONE ? only_reader(graph, data_grad, *dx, &read) : NULL;
    if (!reader)
        return FTH_NONE;
    if (reader->op == &fth_op_mul_add_grad && reader->n_inputs == 5 && reader->inputs[4] == *dx) {
        const struct fth_mul_add_grad_attributes *a = reader->attributes;
        if (!a->with_dy && graph->values[reader->outputs[0]].view_of == *dx)
            return add_behind_cross(graph, data_grad, dx, reader);
    } else if (reader->op == &fth_op_add && reader->stage == FTH_BACKWARD) {
        fth_id other = reader->inputs[reader->inputs[0] == read];
        if (other != read)
            return add_in_place(graph, data_grad, *dx, reader, read, other);
    }
    return FTH_NONE;
}
