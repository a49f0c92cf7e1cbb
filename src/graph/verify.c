/* The verifier: what graph.h promises of every graph, checked after building and after each pass.
 */
#include <string.h>

#include "graph/graph.h"
#include "graph/op.h"

struct check {
    fth_graph *graph;
    uint8_t *defined; /* [values]: inputs, parameters and what the nodes so far have written */
};

static fth_status values_check(const fth_graph *graph, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const struct fth_value *v = &graph->values[i];
        if (v->id != (fth_id)i)
            return fth_fail(err, FTH_E_ARGUMENT, "value %u: its id is %d", i, (int)v->id);
        if (!v->columns || (v->extent == FTH_WHOLE && !v->rows))
            return fth_fail(err, FTH_E_ARGUMENT, "value %u: it has no rows or no columns", i);
        if (fth_role_is_saved(v->role)) {
            if (!v->name || !*v->name)
                return fth_fail(err, FTH_E_ARGUMENT, "value %u: a parameter without a name", i);
            for (uint32_t j = 0; j < i; j++)
                if (fth_role_is_saved(graph->values[j].role) && !strcmp(graph->values[j].name, v->name))
                    return fth_fail(err, FTH_E_ARGUMENT,
                                    "values %u and %u: both parameters named %s", j, i, v->name);
        }
        if (v->view_of == FTH_NONE)
            continue;
        if (v->view_of < 0 || (uint32_t)v->view_of >= graph->n_values)
            return fth_fail(err, FTH_E_ARGUMENT, "value %u: a view of value %d, which there is not",
                            i, (int)v->view_of);
        const struct fth_value *p = &graph->values[v->view_of];
        if (p->view_of != FTH_NONE)
            return fth_fail(err, FTH_E_ARGUMENT, "value %u: a view of the view %d", i,
                            (int)v->view_of);
        if (p->extent != v->extent || p->group != v->group || p->rows != v->rows)
            return fth_fail(err, FTH_E_ARGUMENT,
                            "value %u: its rows are not those of its parent %d", i,
                            (int)v->view_of);
        if (v->view_column > p->columns || v->columns > p->columns - v->view_column)
            return fth_fail(err, FTH_E_ARGUMENT,
                            "value %u: columns %u + %u lie outside the %u of its parent %d", i,
                            v->view_column, v->columns, p->columns, (int)v->view_of);
    }
    return FTH_OK;
}

/* Whether no value before `i` is a written view of the same columns: one may write on what another has
 * written. */
static int first_of_range(const fth_graph *graph, uint32_t i) {
    const struct fth_value *view = &graph->values[i];
    for (uint32_t j = 0; j < i; j++) {
        const struct fth_value *other = &graph->values[j];
        if (other->view_of == view->view_of && other->producer != FTH_NONE &&
            other->view_column == view->view_column && other->columns == view->columns)
            return 0;
    }
    return 1;
}

/* A plain view is there when its parent is. A value that only views of it are written to (columns
 * that producers fill in place) is there when they all are; so is a plain view of its columns when
 * the views inside it are. */
static int is_defined(const struct check *check, fth_id id) {
    const fth_graph *graph = check->graph;
    const struct fth_value *v = &graph->values[id];
    if (check->defined[id])
        return 1;
    if (v->producer != FTH_NONE)
        return 0;
    fth_id root = fth_graph_root(graph, id);
    if (graph->values[root].producer != FTH_NONE || check->defined[root])
        return check->defined[root];
    uint32_t first = fth_graph_column(graph, id);
    uint64_t columns = 0;
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const struct fth_value *view = &graph->values[i];
        if (view->view_of != root || view->producer == FTH_NONE || view->view_column < first ||
            view->view_column + view->columns > first + v->columns)
            continue;
        if (!check->defined[i])
            return 0;
        columns += first_of_range(graph, i) ? view->columns : 0;
    }
    return columns == v->columns;
}

/* Runs the shape rule again, beside the graph, and compares. */
static fth_status shapes_check(fth_graph *graph, const struct fth_node *node, fth_error *err) {
    struct fth_node again = *node;
    uint32_t n_values = graph->n_values;
    again.outputs = fth_arena_alloc(graph->arena, node->n_outputs + 1, sizeof *again.outputs);
    if (!again.outputs)
        return fth_fail(err, FTH_E_MEMORY, "out of memory");
    fth_status status = node->op->shape(graph, &again, err);
    for (uint32_t i = 0; i < node->n_outputs && status == FTH_OK; i++) {
        const struct fth_value *is = &graph->values[node->outputs[i]];
        const struct fth_value *should = &graph->values[again.outputs[i]];
        if (is->extent != should->extent || is->group != should->group ||
            is->rows != should->rows || is->columns != should->columns)
            status =
                fth_fail(err, FTH_E_ARGUMENT,
                         "output %u has %u columns (extent %d, rows %u), its shape rule gives %u "
                         "(extent %d, rows %u)",
                         i, is->columns, (int)is->extent, is->rows, should->columns,
                         (int)should->extent, should->rows);
    }
    graph->n_values = n_values; /* the rule's values were only for comparing */
    return status;
}

static fth_status node_check(struct check *check, const struct fth_node *node, fth_error *err) {
    fth_graph *graph = check->graph;
    if (node->n_inputs < node->op->min_inputs || node->n_inputs > node->op->max_inputs ||
        node->n_outputs != node->op->n_outputs)
        return fth_fail(err, FTH_E_ARGUMENT, "%u inputs and %u outputs are not what it takes",
                        node->n_inputs, node->n_outputs);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] == FTH_NONE)
            continue;
        if (!fth_graph_value(graph, node->inputs[i]))
            return fth_fail(err, FTH_E_ARGUMENT, "input %u is value %d, which there is not", i,
                            (int)node->inputs[i]);
        if (!is_defined(check, node->inputs[i]))
            return fth_fail(err, FTH_E_ARGUMENT, "input %u is value %d, used before it is made", i,
                            (int)node->inputs[i]);
    }
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const struct fth_value *v = fth_graph_value(graph, node->outputs[i]);
        if (!v)
            return fth_fail(err, FTH_E_ARGUMENT, "output %u is value %d, which there is not", i,
                            (int)node->outputs[i]);
        if (v->role != FTH_ROLE_NORMAL || v->producer != node->id || check->defined[v->id])
            return fth_fail(err, FTH_E_ARGUMENT, "output %u, value %d, has another producer", i,
                            (int)node->outputs[i]);
        check->defined[v->id] = 1;
    }
    return shapes_check(graph, node, err);
}

fth_status fth_graph_verify(fth_graph *graph, fth_error *err) {
    FTH_TRY(values_check(graph, err));
    struct check check = {.graph = graph};
    check.defined = fth_arena_alloc(graph->arena, graph->n_values + 1, 1);
    if (!check.defined)
        return fth_fail(err, FTH_E_MEMORY, "verifier: out of memory");
    for (uint32_t i = 0; i < graph->n_values; i++)
        check.defined[i] = graph->values[i].role != FTH_ROLE_NORMAL;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        for (uint32_t j = 0; j < i; j++)
            if (graph->nodes[j]->id == node->id)
                return fth_fail(err, FTH_E_ARGUMENT, "nodes %s and %s: both have id %d",
                                graph->nodes[j]->name, node->name, (int)node->id);
        fth_status status = node_check(&check, node, err);
        if (status != FTH_OK) {
            fth_error_frame(err, "node %d %s (%s)", (int)node->id, node->name, node->op->name);
            return status;
        }
    }
    const struct fth_value *logit = fth_graph_value(graph, graph->logit);
    if (logit && (logit->extent != FTH_EXAMPLES || logit->columns != graph->n_tasks))
        return fth_fail(err, FTH_E_ARGUMENT, "the logit has %u columns, there are %u tasks",
                        logit->columns, graph->n_tasks);
    return FTH_OK;
}
