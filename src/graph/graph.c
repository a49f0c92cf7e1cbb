/* Building a graph: values, views, lookups and nodes, all in the graph's arena.
 *
 * Place: models and autodiff call this before the first batch; one thread. Arrays grow by doubling
 * in the arena, so a pointer to a value is good only until the next value is made; nodes stay where
 * they are. */
#include "graph/graph.h"

#include <string.h>

#include "graph/op.h"

#define ARENA_CHUNK (64 * 1024)
#define MAX_VALUES (1u << 24) /* far above any model; keeps every id and size within 32 bits */

/* The array with room for one more; NULL when memory is out. */
static void *grown(fth_arena *arena, void *old, uint32_t n, uint32_t *capacity, size_t size) {
    if (n < *capacity)
        return old;
    uint32_t next = *capacity ? *capacity * 2 : 32;
    void *array = next <= MAX_VALUES ? fth_arena_alloc(arena, next, size) : NULL;
    if (!array)
        return NULL;
    if (n)
        memcpy(array, old, n * size);
    *capacity = next;
    return array;
}

fth_status fth_graph_create(uint32_t n_dense, fth_graph **out, fth_error *err) {
    fth_arena *arena = fth_arena_create(ARENA_CHUNK);
    fth_graph *graph = arena ? fth_arena_alloc(arena, 1, sizeof *graph) : NULL;
    if (!graph) {
        fth_arena_destroy(arena);
        return fth_fail(err, FTH_E_MEMORY, "graph: out of memory");
    }
    graph->arena = arena;
    graph->n_dense = n_dense;
    graph->n_tasks = 1;
    graph->dense = graph->label = graph->weight = FTH_NONE;
    graph->logit = graph->loss = FTH_NONE;
    graph->softmax.user = graph->softmax.item = FTH_NONE;
    graph->softmax.sampled = -1;
    graph->stage = FTH_FORWARD;
    *out = graph;
    return FTH_OK;
}

void fth_graph_destroy(fth_graph *graph) {
    if (!graph)
        return;
    fth_names_free(&graph->tables);
    fth_arena_destroy(graph->arena); /* the graph itself lies in it */
}

struct fth_value *fth_graph_value(fth_graph *graph, fth_id value) {
    if (value < 0 || (uint32_t)value >= graph->n_values)
        return NULL;
    return &graph->values[value];
}

fth_status fth_graph_add_loss(fth_graph *graph, fth_id loss, fth_error *err) {
    const struct fth_value *value = fth_graph_value(graph, loss);
    if (!value || value->columns != 1 ||
        (value->extent != FTH_EXAMPLES && (value->extent != FTH_WHOLE || value->rows != 1)))
        return fth_fail(err, FTH_E_ARGUMENT, "graph: value %d is no loss, one number an example or in all",
                        (int)loss);
    fth_id *losses =
        grown(graph->arena, graph->losses, graph->n_losses, &graph->losses_capacity, sizeof *losses);
    if (!losses)
        return fth_fail(err, FTH_E_MEMORY, "graph: out of memory");
    graph->losses = losses;
    losses[graph->n_losses++] = loss;
    return FTH_OK;
}

static fth_status value_add(fth_graph *graph, const struct fth_value *value, fth_id *out,
                            fth_error *err) {
    struct fth_value *values = grown(graph->arena, graph->values, graph->n_values,
                                     &graph->values_capacity, sizeof *values);
    if (!values)
        return fth_fail(err, FTH_E_MEMORY, "graph: out of memory at value %u", graph->n_values);
    graph->values = values;
    fth_id id = (fth_id)graph->n_values++;
    values[id] = *value;
    values[id].id = id;
    *out = id;
    return FTH_OK;
}

static struct fth_value value_blank(fth_extent extent, uint32_t columns) {
    return (struct fth_value){.extent = extent,
                              .group = -1,
                              .columns = columns,
                              .producer = FTH_NONE,
                              .view_of = FTH_NONE,
                              .gradient = FTH_NONE};
}

fth_status fth_graph_input(fth_graph *graph, fth_role role, fth_id *out, fth_error *err) {
    struct fth_value value = value_blank(FTH_EXAMPLES, 1);
    fth_id *known;
    switch (role) {
    case FTH_ROLE_DENSE:
        known = &graph->dense;
        value.name = "dense";
        value.columns = graph->n_dense;
        break;
    case FTH_ROLE_LABEL:
        known = &graph->label;
        value.name = "label";
        value.columns = graph->n_tasks;
        break;
    case FTH_ROLE_WEIGHT:
        known = &graph->weight;
        value.name = "weight";
        value.columns = graph->n_tasks;
        break;
    default:
        return fth_fail(err, FTH_E_ARGUMENT, "graph: role %d is no input of a batch", (int)role);
    }
    if (!value.columns)
        return fth_fail(err, FTH_E_ARGUMENT, "graph: the batch has no floats to be an input");
    value.role = role;
    if (*known == FTH_NONE)
        FTH_TRY(value_add(graph, &value, known, err));
    *out = *known;
    return FTH_OK;
}

fth_status fth_graph_parameter(fth_graph *graph, fth_role role, const char *name, uint32_t rows,
                               uint32_t columns, fth_param_init init, float scale, fth_id *out,
                               fth_error *err) {
    if (!fth_role_is_saved(role))
        return fth_fail(err, FTH_E_ARGUMENT, "parameter %s: role %d is neither parameter nor state",
                        name, (int)role);
    if ((uint64_t)rows * columns > UINT32_MAX)
        return fth_fail(err, FTH_E_LIMIT,
                        "parameter %s: %u x %u is more than the 2^32 - 1 numbers that one can have; narrower layers or "
                        "smaller embeddings would fit", name, rows, columns);
    if (!rows || !columns)
        return fth_fail(err, FTH_E_ARGUMENT, "parameter %s: %u x %u is no size for one", name, rows,
                        columns);
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const struct fth_value *v = &graph->values[i];
        if (fth_role_is_saved(v->role) && !strcmp(v->name, name))
            return fth_fail(err, FTH_E_ARGUMENT, "parameter %s: the name is taken", name);
    }
    struct fth_value value = value_blank(FTH_WHOLE, columns);
    value.name = fth_arena_strdup(graph->arena, name);
    if (!value.name)
        return fth_fail(err, FTH_E_MEMORY, "parameter %s: out of memory", name);
    value.role = role;
    value.rows = rows;
    value.init = init;
    value.init_scale = scale;
    value.needs_gradient = role == FTH_ROLE_PARAMETER;
    return value_add(graph, &value, out, err);
}

fth_status fth_graph_view(fth_graph *graph, fth_id value, uint32_t column, uint32_t columns,
                          fth_id *out, fth_error *err) {
    const struct fth_value *parent = fth_graph_value(graph, value);
    if (!parent)
        return fth_fail(err, FTH_E_ARGUMENT, "view: there is no value %d", (int)value);
    if (fth_role_is_saved(parent->role))
        return fth_fail(err, FTH_E_ARGUMENT, "view: %s is a parameter", parent->name);
    if (!columns || column > parent->columns || columns > parent->columns - column)
        return fth_fail(err, FTH_E_ARGUMENT, "view: columns %u + %u lie outside the %u of value %d",
                        column, columns, parent->columns, (int)value);
    if (columns == parent->columns) {
        *out = value;
        return FTH_OK;
    }
    struct fth_value view = *parent;
    view.view_column = column + fth_graph_column(graph, value);
    view.view_of = fth_graph_root(graph, value);
    view.columns = columns;
    view.role = FTH_ROLE_NORMAL;
    view.producer = FTH_NONE;
    view.gradient = FTH_NONE;
    view.name = NULL;
    return value_add(graph, &view, out, err);
}

fth_status fth_graph_lookup(fth_graph *graph, const struct fth_lookup *lookup, uint32_t *out,
                            fth_error *err) {
    if (!lookup->table || !*lookup->table || !lookup->dim)
        return fth_fail(err, FTH_E_ARGUMENT, "lookup of field %u: needs a table and a dimension",
                        lookup->field);
    struct fth_lookup *lookups = grown(graph->arena, graph->lookups, graph->n_lookups,
                                       &graph->lookups_capacity, sizeof *lookups);
    const char *table = fth_arena_strdup(graph->arena, lookup->table);
    uint32_t first;
    if (!lookups || !table || !fth_names_add(&graph->tables, table, graph->n_lookups, &first))
        return fth_fail(err, FTH_E_MEMORY, "lookup of table %s: out of memory", lookup->table);
    const struct fth_lookup *other = first != FTH_NO_NAME ? &lookups[first] : NULL;
    if (other && other->dim != lookup->dim)
        return fth_fail(
            err, FTH_E_CONFIG,
            "table %s: dimension %u for field %u but %u for field %u; fields that share "
            "a table need one dimension",
            lookup->table, lookup->dim, lookup->field, other->dim, other->field);
    graph->lookups = lookups;
    lookups[graph->n_lookups] = *lookup;
    lookups[graph->n_lookups].table = table;
    *out = graph->n_lookups++;
    return FTH_OK;
}

fth_status fth_graph_output(fth_graph *graph, struct fth_node *node, uint32_t index,
                            fth_extent extent, int32_t group, uint32_t rows, uint32_t columns,
                            fth_error *err) {
    if (index >= node->n_outputs || !columns)
        return fth_fail(err, FTH_E_ARGUMENT, "output %u of %u with %u columns cannot be", index,
                        node->n_outputs, columns);
    struct fth_value value = value_blank(extent, columns);
    value.group = extent == FTH_POSITIONS ? group : -1;
    value.rows = extent == FTH_WHOLE ? rows : 0;
    value.producer = node->id;
    value.needs_gradient = node->op->trains_rows;
    for (uint32_t i = 0; i < node->n_inputs && node->op->gradient; i++) {
        const struct fth_value *input = fth_graph_value(graph, node->inputs[i]);
        value.needs_gradient |= input && input->needs_gradient;
    }
    value.needs_gradient &= node->stage == FTH_FORWARD;
    return value_add(graph, &value, &node->outputs[index], err);
}

static fth_status node_make(fth_graph *graph, const struct fth_op *op, const char *name,
                            const fth_id *inputs, uint32_t n_inputs, const void *attributes,
                            size_t attribute_bytes, struct fth_node **out, fth_error *err) {
    fth_arena *arena = graph->arena;
    struct fth_node *node = fth_arena_alloc(arena, 1, sizeof *node);
    fth_id *ids = fth_arena_alloc(arena, n_inputs + op->n_outputs + 1, sizeof *ids);
    void *copy = attribute_bytes ? fth_arena_alloc(arena, 1, attribute_bytes) : NULL;
    const char *own = fth_arena_strdup(arena, name ? name : op->name);
    if (!node || !ids || !own || (attribute_bytes && !copy))
        return fth_fail(err, FTH_E_MEMORY, "%s: out of memory", name ? name : op->name);
    if (attribute_bytes)
        memcpy(copy, attributes, attribute_bytes);
    if (n_inputs)
        memcpy(ids, inputs, n_inputs * sizeof *ids);
    *node = (struct fth_node){.id = graph->next_node,
                              .op = op,
                              .name = own,
                              .stage = graph->stage,
                              .n_inputs = n_inputs,
                              .n_outputs = op->n_outputs,
                              .inputs = ids,
                              .outputs = ids + n_inputs,
                              .attributes = copy};
    for (uint32_t i = 0; i < op->n_outputs; i++)
        node->outputs[i] = FTH_NONE;
    *out = node;
    return FTH_OK;
}

fth_status fth_graph_node(fth_graph *graph, const struct fth_op *op, const char *name,
                          const fth_id *inputs, uint32_t n_inputs, const void *attributes,
                          size_t attribute_bytes, fth_id *outputs, fth_error *err) {
    if (n_inputs < op->min_inputs || n_inputs > op->max_inputs)
        return fth_fail(err, FTH_E_ARGUMENT, "%s (%s): %u inputs, it takes %u to %u",
                        name ? name : op->name, op->name, n_inputs, op->min_inputs, op->max_inputs);
    for (uint32_t i = 0; i < n_inputs; i++)
        if (inputs[i] != FTH_NONE && !fth_graph_value(graph, inputs[i]))
            return fth_fail(err, FTH_E_ARGUMENT,
                            "%s (%s): input %u is value %d, which there is not",
                            name ? name : op->name, op->name, i, (int)inputs[i]);
    struct fth_node *node = NULL;
    FTH_TRY(node_make(graph, op, name, inputs, n_inputs, attributes, attribute_bytes, &node, err));
    struct fth_node **nodes =
        grown(graph->arena, graph->nodes, graph->n_nodes, &graph->nodes_capacity, sizeof *nodes);
    if (!nodes)
        return fth_fail(err, FTH_E_MEMORY, "%s: out of memory", node->name);
    graph->nodes = nodes;
    fth_status status = op->shape(graph, node, err);
    if (status != FTH_OK) {
        fth_error_frame(err, "%s (%s)", node->name, op->name);
        return status;
    }
    graph->next_node++;
    nodes[graph->n_nodes++] = node;
    for (uint32_t i = 0; i < op->n_outputs; i++)
        outputs[i] = node->outputs[i];
    return FTH_OK;
}

struct fth_node *fth_graph_producer(const fth_graph *graph, fth_id value) {
    fth_id producer = graph->values[value].producer;
    if (producer == FTH_NONE)
        producer = graph->values[fth_graph_root(graph, value)].producer;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i]->id == producer)
            return graph->nodes[i];
    return NULL;
}
