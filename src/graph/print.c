/* The graph for people: text, one line a node, and DOT. */
#include "graph/graph.h"
#include "graph/op.h"

static const char *const stage_names[] = {"forward", "backward", "update"};

/* "%7", "%3[16:32]" for a view, a parameter's or input's name. */
static void id_print(const fth_graph *graph, fth_id id, struct fth_text *out) {
    if (id == FTH_NONE) {
        fth_text_printf(out, "-");
        return;
    }
    const struct fth_value *v = &graph->values[id];
    if (v->role != FTH_ROLE_NORMAL) {
        fth_text_printf(out, "%s", v->name);
    } else if (v->view_of != FTH_NONE) {
        id_print(graph, v->view_of, out);
        fth_text_printf(out, "[%u:%u]", v->view_column, v->view_column + v->columns);
    } else {
        fth_text_printf(out, "%%%d", (int)id);
    }
}

/* "[E, 16]", "[P0, 4]", "[S0, 4]" (sessions), "[T, 64]", "[13, 64]" */
static void shape_print(const struct fth_value *v, struct fth_text *out) {
    if (v->extent == FTH_WHOLE)
        fth_text_printf(out, "[%u, %u]", v->rows, v->columns);
    else if (v->extent == FTH_POSITIONS && v->group >= FTH_SESSIONS)
        fth_text_printf(out, "[S%d, %u]", (int)v->group - FTH_SESSIONS, v->columns);
    else if (v->extent == FTH_POSITIONS)
        fth_text_printf(out, "[P%d, %u]", (int)v->group, v->columns);
    else
        fth_text_printf(out, "[%s, %u]", v->extent == FTH_TILES ? "T" : "E", v->columns);
}

static void node_print(const fth_graph *graph, const struct fth_node *node, struct fth_text *out) {
    fth_text_printf(out, "  ");
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        fth_text_printf(out, "%s", i ? ", " : "");
        id_print(graph, node->outputs[i], out);
        fth_text_printf(out, " ");
        shape_print(&graph->values[node->outputs[i]], out);
    }
    fth_text_printf(out, "%s%s(", node->n_outputs ? " = " : "", node->op->name);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        fth_text_printf(out, "%s", i ? ", " : "");
        id_print(graph, node->inputs[i], out);
    }
    fth_text_printf(out, ")");
    if (node->op->print) {
        fth_text_printf(out, " ");
        node->op->print(node, out);
    }
    fth_text_printf(out, "%s  # %s\n", node->training_only ? " training only" : "", node->name);
}

void fth_graph_print(const fth_graph *graph, struct fth_text *out) {
    fth_text_printf(out, "inputs and parameters\n");
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const struct fth_value *v = &graph->values[i];
        if (v->role == FTH_ROLE_NORMAL)
            continue;
        fth_text_printf(out, "  %s ", v->name);
        shape_print(v, out);
        fth_text_printf(out, "%s\n", v->role == FTH_ROLE_STATE ? " state" : "");
    }
    for (uint32_t i = 0; i < graph->n_lookups; i++) {
        const struct fth_lookup *l = &graph->lookups[i];
        fth_text_printf(out, "  lookup %u: field %u in table %s, dim %u\n", i, l->field, l->table,
                        l->dim);
    }
    int stage = -1;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        if ((int)node->stage != stage)
            fth_text_printf(out, "%s\n", stage_names[node->stage]);
        stage = (int)node->stage;
        node_print(graph, node, out);
    }
    if (graph->logit != FTH_NONE) {
        fth_text_printf(out, "logit ");
        id_print(graph, graph->logit, out);
        fth_text_printf(out, "\n");
    }
}

/* Text inside a DOT label: quotes and backslashes escaped. */
static void label_print(const char *text, struct fth_text *out) {
    for (; *text; text++)
        fth_text_printf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
}

void fth_graph_print_dot(const fth_graph *graph, struct fth_text *out) {
    static const char *const colours[] = {"white", "lightyellow", "lightgrey"};
    fth_text_printf(out, "digraph fathom {\n  node [fontname=\"sans-serif\"];\n");
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const struct fth_value *v = &graph->values[i];
        if (v->role == FTH_ROLE_NORMAL)
            continue;
        fth_text_printf(out, "  v%u [shape=ellipse, label=\"", i);
        label_print(v->name, out);
        fth_text_printf(out, " ");
        shape_print(v, out);
        fth_text_printf(out, "\"];\n");
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        fth_text_printf(out, "  n%d [shape=box, style=filled, fillcolor=%s, label=\"%s\\n",
                        (int)node->id, colours[node->stage], node->op->name);
        label_print(node->name, out);
        fth_text_printf(out, "\"];\n");
        for (uint32_t j = 0; j < node->n_inputs; j++) {
            if (node->inputs[j] == FTH_NONE)
                continue;
            const struct fth_value *v = &graph->values[node->inputs[j]];
            const struct fth_value *root =
                v->view_of != FTH_NONE && v->producer == FTH_NONE ? &graph->values[v->view_of] : v;
            if (root->producer == FTH_NONE)
                fth_text_printf(out, "  v%d -> n%d", (int)root->id, (int)node->id);
            else
                fth_text_printf(out, "  n%d -> n%d", (int)root->producer, (int)node->id);
            fth_text_printf(out, " [label=\"");
            shape_print(v, out);
            fth_text_printf(out, "\"];\n");
        }
    }
    fth_text_printf(out, "}\n");
}
