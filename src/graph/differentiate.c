/* Autodiff: walks the forward nodes from last to first, asks each op's gradient rule for backward
 * nodes, and adds up where several gradients of one value meet.
 *
 * A value's gradient is complete when its producer is reached, since all users stand behind it.
 * Gradients of views are collected at their root and put into place there. One thread, before
 * planning. */
#include <stddef.h>

#include "graph/graph.h"
#include "graph/op.h"

/* One gradient that reached a value: of all its columns, or of a view's. */
struct part {
    struct part *next;
    fth_id gradient;
    int whole;
    uint32_t column;
};

struct sums {
    struct part **first; /* [values of the forward part], latest first */
    fth_graph *graph;
};

static fth_status part_add(struct sums *sums, fth_id value, fth_id gradient, fth_error *err) {
    const struct fth_value *v = fth_graph_value(sums->graph, value);
    const struct fth_value *g = fth_graph_value(sums->graph, gradient);
    if (!g)
        return fth_fail(err, FTH_E_ARGUMENT, "gradient %d of value %d does not exist",
                        (int)gradient, (int)value);
    int fits = v->role == FTH_ROLE_PARAMETER || v->extent == FTH_WHOLE
                   ? (g->extent == FTH_WHOLE && g->rows == v->rows && g->columns == v->columns) ||
                         (g->extent == FTH_TILES && g->columns == v->rows * v->columns)
                   : g->extent == v->extent && g->group == v->group && g->columns == v->columns;
    if (!fits)
        return fth_fail(err, FTH_E_ARGUMENT, "gradient %d has not the shape of value %d",
                        (int)gradient, (int)value);
    struct part *part = fth_arena_alloc(sums->graph->arena, 1, sizeof *part);
    if (!part)
        return fth_fail(err, FTH_E_MEMORY, "autodiff: out of memory");
    fth_id root = fth_graph_root(sums->graph, value);
    *part = (struct part){.next = sums->first[root],
                          .gradient = gradient,
                          .whole = v->view_of == FTH_NONE,
                          .column = v->view_column};
    sums->first[root] = part;
    return FTH_OK;
}

/* The gradients of a value's views, each in its columns, as one value. */
static fth_status views_join(struct sums *sums, fth_id value, uint32_t n, const char *name,
                             fth_id *out, fth_error *err) {
    fth_arena *arena = sums->graph->arena;
    struct fth_add_columns_attributes *attributes;
    size_t bytes = sizeof *attributes + n * sizeof attributes->offsets[0];
    attributes = fth_arena_alloc(arena, 1, bytes);
    fth_id *inputs = fth_arena_alloc(arena, n, sizeof *inputs);
    if (!attributes || !inputs)
        return fth_fail(err, FTH_E_MEMORY, "autodiff: out of memory");
    attributes->columns = fth_graph_value(sums->graph, value)->columns;
    uint32_t i = n;
    for (const struct part *p = sums->first[value]; p; p = p->next) {
        if (p->whole)
            continue;
        inputs[--i] = p->gradient;
        attributes->offsets[i] = p->column;
    }
    return fth_graph_node(sums->graph, &fth_op_add_columns, name, inputs, n, attributes, bytes, out,
                          err);
}

static fth_status pair_add(struct sums *sums, fth_id value, const char *name, fth_id a, fth_id b,
                           fth_id *out, fth_error *err) {
    const struct fth_value *v = fth_graph_value(sums->graph, value);
    struct fth_add_whole_attributes shape = {v->rows, v->columns};
    fth_id both[2] = {a, b};
    if (v->role == FTH_ROLE_PARAMETER)
        return fth_graph_node(sums->graph, &fth_op_add_whole, name, both, 2, &shape, sizeof shape,
                              out, err);
    return fth_graph_node(sums->graph, &fth_op_add, name, both, 2, NULL, 0, out, err);
}

/* Adds up what has reached a value and sets its gradient. */
static fth_status value_finish(struct sums *sums, fth_id value, const char *name, fth_error *err) {
    uint32_t views = 0;
    fth_id sum = FTH_NONE;
    struct part *ordered = NULL; /* as they came, so that sums have a known order */
    for (struct part *p = sums->first[value], *next; p; p = next) {
        next = p->next;
        views += !p->whole;
        p->next = ordered;
        ordered = p;
    }
    for (const struct part *p = ordered; p; p = p->next) {
        if (!p->whole)
            continue;
        if (sum == FTH_NONE)
            sum = p->gradient;
        else
            FTH_TRY(pair_add(sums, value, name, sum, p->gradient, &sum, err));
    }
    if (views) {
        fth_id joined;
        sums->first[value] = ordered;
        FTH_TRY(views_join(sums, value, views, name, &joined, err));
        if (sum == FTH_NONE)
            sum = joined;
        else
            FTH_TRY(pair_add(sums, value, name, sum, joined, &sum, err));
    }
    fth_graph_value(sums->graph, value)->gradient = sum;
    return FTH_OK;
}

static fth_status node_differentiate(struct sums *sums, const struct fth_node *node,
                                     fth_error *err) {
    fth_graph *graph = sums->graph;
    int reached = node->op->begins_backward;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        FTH_TRY(value_finish(sums, node->outputs[i], node->name, err));
        reached |= fth_graph_value(graph, node->outputs[i])->gradient != FTH_NONE;
    }
    if (!reached || !node->op->gradient)
        return FTH_OK;
    fth_id *ids = fth_arena_alloc(graph->arena, node->n_outputs + node->n_inputs + 1, sizeof *ids);
    if (!ids)
        return fth_fail(err, FTH_E_MEMORY, "autodiff: out of memory");
    fth_id *d_outputs = ids, *d_inputs = ids + node->n_outputs;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        d_outputs[i] = fth_graph_value(graph, node->outputs[i])->gradient;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        d_inputs[i] = FTH_NONE;
    FTH_TRY(node->op->gradient(graph, node, d_outputs, d_inputs, err));
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct fth_value *input = fth_graph_value(graph, node->inputs[i]);
        if (input && input->needs_gradient && d_inputs[i] != FTH_NONE)
            FTH_TRY(part_add(sums, node->inputs[i], d_inputs[i], err));
    }
    return FTH_OK;
}

fth_status fth_graph_differentiate(fth_graph *graph, fth_error *err) {
    if (!fth_graph_value(graph, graph->loss))
        return fth_fail(err, FTH_E_ARGUMENT, "autodiff: the graph has no loss");
    uint32_t n_nodes = graph->n_nodes, n_values = graph->n_values;
    struct sums sums = {.graph = graph};
    sums.first = fth_arena_alloc(graph->arena, n_values, sizeof *sums.first);
    if (!sums.first)
        return fth_fail(err, FTH_E_MEMORY, "autodiff: out of memory");
    graph->stage = FTH_BACKWARD;
    for (uint32_t i = n_nodes; i-- > 0;) {
        const struct fth_node *node = graph->nodes[i];
        fth_status status = node->stage == FTH_FORWARD ? node_differentiate(&sums, node, err) : FTH_OK;
        if (status != FTH_OK) {
            fth_error_frame(err, "gradient of %s (%s)", node->name, node->op->name);
            return status;
        }
    }
    for (uint32_t i = 0; i < n_values; i++)
        if (graph->values[i].role == FTH_ROLE_PARAMETER)
            FTH_TRY(value_finish(&sums, (fth_id)i, graph->values[i].name, err));
    return FTH_OK;
}
