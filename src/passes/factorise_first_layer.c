/* A linear layer that reads concatenated embeddings does a field's part once for each of the batch's unique rows,
 * where these are few, instead of once for each example (ops/factor.h). Which fields those are is found for
 * every batch when its rows are; here the layers and the lookups that may be are found.
 *
 * A lookup may be when it has one key an example and no values: then its unique rows and their examples are found
 * with little work where rows are. The layer's weight must serve this layer alone. */
#include <string.h>

#include "ops/ops.h"
#include "passes/factorise_sum.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

#define LEAST_DIM 8     /* below it sums of rows cost what the products do */
#define LEAST_COLUMNS 16

/* Backward, in sixteenths of the batch: with more unique rows the plain products cost less, far less where they leave out
 * the zeros of a ReLU. Measured: docs/performance.md. */
#define FEW 9
#define FEW_OF_ZEROS 3

struct layer {
    struct fth_node *linear, *data_grad, *weight_grad; /* weight_grad: or linear_update */
    struct fth_factor_attributes *attributes;
    size_t bytes;
    fth_id dx, dy, rest, rest_transposed, row_gradients;
    fth_id sum; /* lies where dx does and holds what dx is to be added to; or FTH_NONE */
};

/* ---- which columns of x are rows of which lookup ---- */

static int may_be(const fth_graph *graph, uint32_t number) {
    const struct fth_lookup *lookup = &graph->lookups[number];
    return lookup->group < 0 && !lookup->weighted && lookup->dim >= LEAST_DIM;
}

static void trace(const fth_graph *graph, fth_id value, uint32_t n, int32_t *lookups);

/* Columns [first, + n) of value `root`, whose lookups go to lookups[0 .. n). */
static void trace_node(const fth_graph *graph, const struct fth_node *node, fth_id root, uint32_t first,
                       uint32_t n, int32_t *lookups) {
    fth_id out = node->n_outputs ? node->outputs[0] : FTH_NONE;
    if (out == FTH_NONE || fth_graph_root(graph, out) != root)
        return;
    uint32_t column = fth_graph_column(graph, out);
    if (node->op == &fth_op_embedding) {
        const struct fth_embedding_attributes *a = node->attributes;
        for (uint32_t i = 0; i < a->n_lookups; i++) {
            uint32_t dim = graph->lookups[a->lookups[i]].dim;
            if (column >= first && column + dim <= first + n)
                lookups[column - first] = (int32_t)a->lookups[i];
            column += dim;
        }
    }
    for (uint32_t i = 0; node->op == &fth_op_concat && i < node->n_inputs; i++) {
        fth_id input = node->inputs[i];
        uint32_t columns = graph->values[input].columns;
        if (column >= first && column + columns <= first + n)
            trace(graph, input, columns, lookups + (column - first));
        column += columns;
    }
}

/* The n columns of the value itself. A concatenation's inputs were made before it: this ends. */
static void trace(const fth_graph *graph, fth_id value, uint32_t n, int32_t *lookups) {
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        trace_node(graph, graph->nodes[i], fth_graph_root(graph, value), fth_graph_column(graph, value), n, lookups);
}

static fth_status no_memory(fth_error *err) {
    return fth_fail(err, FTH_E_MEMORY, "no memory to rewrite the graph");
}

static void add_piece(struct fth_factor_attributes *a, uint32_t column, uint32_t columns, int32_t lookup,
                      int gradient) {
    struct fth_factor_piece *last = a->n ? &a->pieces[a->n - 1] : NULL;
    if (lookup < 0 && last && last->lookup < 0 && last->gradient == gradient)
        last->columns += columns;
    else
        a->pieces[a->n++] = (struct fth_factor_piece){column, columns, lookup, gradient};
    a->n_lookups += lookup >= 0;
}

/* Input j of the node is what the node adds to, in place. */
static int is_sum(const struct fth_node *node, uint32_t j) {
    return (node->op == &fth_op_factor_data_grad && j == 3) || (node->op == &fth_op_mul_add_grad && j == 4);
}

/* Whether the gradient of column `column` of the layer's x is read by a node, other than to add to it. */
static int gradient_read(const fth_graph *graph, const struct layer *layer, uint32_t column) {
    fth_id root = fth_graph_root(graph, layer->dx);
    column += fth_graph_column(graph, layer->dx);
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t j = 0; j < graph->nodes[i]->n_inputs; j++) {
            fth_id input = graph->nodes[i]->inputs[j];
            if (input == FTH_NONE || fth_graph_root(graph, input) != root || is_sum(graph->nodes[i], j))
                continue;
            uint32_t from = fth_graph_column(graph, input);
            if (column >= from && column < from + graph->values[input].columns)
                return 1;
        }
    return 0;
}

/* The layer's pieces; none of them a lookup when there is nothing to do. */
static fth_status find_pieces(fth_graph *graph, struct layer *layer, fth_error *err) {
    const struct fth_value *x = &graph->values[layer->linear->inputs[0]];
    uint32_t columns = x->columns, dim = 0, n_lookups = 0;
    int32_t *lookups = fth_arena_alloc(graph->arena, columns, sizeof *lookups);
    layer->bytes = sizeof *layer->attributes + columns * sizeof layer->attributes->pieces[0];
    layer->attributes = fth_arena_alloc(graph->arena, 1, layer->bytes);
    if (!lookups || !layer->attributes)
        return no_memory(err);
    memset(lookups, 0xff, columns * sizeof *lookups);
    trace(graph, x->id, columns, lookups);
    struct fth_factor_attributes *a = layer->attributes;
    for (uint32_t c = 0; c < columns; c++)
        n_lookups += lookups[c] >= 0 && may_be(graph, (uint32_t)lookups[c]);
    if (n_lookups)
        layer->sum = fth_factorise_sum(graph, layer->data_grad, &layer->dx);
    for (uint32_t c = 0; c < columns;) {
        int32_t lookup = lookups[c];
        int take = lookup >= 0 && may_be(graph, (uint32_t)lookup) && a->n_lookups < FTH_FACTOR_LOOKUPS;
        if (take && !dim)
            dim = graph->lookups[lookup].dim;
        take &= lookup >= 0 && graph->lookups[lookup].dim == dim;
        add_piece(a, c, take ? dim : 1, take ? lookup : -1, take || gradient_read(graph, layer, c));
        c += take ? dim : 1;
    }
    a->dim = dim;
    layer->bytes = sizeof *a + a->n * sizeof a->pieces[0];
    return FTH_OK;
}

/* ---- the layer's nodes ---- */

/* The layer's backward nodes; 0 when the weight has other readers or a node is missing. */
static int find_nodes(const fth_graph *graph, struct layer *layer) {
    fth_id x = layer->linear->inputs[0], w = layer->linear->inputs[1];
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct fth_node *node = graph->nodes[i];
        int reads = 0;
        for (uint32_t j = 0; j < node->n_inputs; j++)
            reads |= node->inputs[j] == w;
        if (node->op == &fth_op_linear_weight_grad && node->inputs[0] == x &&
            graph->values[w].gradient == node->outputs[0])
            layer->weight_grad = node;
        else if (!reads || node == layer->linear || fth_rewrite_updates(node))
            continue;
        else if (node->op == &fth_op_linear_data_grad && !layer->data_grad && node->n_inputs < 4)
            layer->data_grad = node;
        else if (node->op == &fth_op_linear_update && node->inputs[1] == x)
            layer->weight_grad = node;
        else
            return 0;
    }
    if (!layer->data_grad || !layer->weight_grad)
        return 0;
    layer->dx = layer->data_grad->outputs[0];
    layer->dy = layer->data_grad->inputs[0];
    int fused = layer->weight_grad->op == &fth_op_linear_update;
    return layer->weight_grad->inputs[fused ? 2 : 1] == layer->dy;
}

static fth_status find_layer(fth_graph *graph, struct fth_node *linear, struct layer *layer,
                             fth_error *err) {
    *layer = (struct layer){.linear = linear, .sum = FTH_NONE};
    const struct fth_value *x = &graph->values[linear->inputs[0]], *w = &graph->values[linear->inputs[1]];
    if (x->extent != FTH_EXAMPLES || w->columns < LEAST_COLUMNS || w->role != FTH_ROLE_PARAMETER ||
        linear->training_only || !find_nodes(graph, layer))
        return FTH_OK;
    FTH_TRY(find_pieces(graph, layer, err));
    const struct fth_linear_attributes *a = linear->attributes;
    layer->attributes->act = a ? a->act : FTH_ACT_NONE;
    layer->attributes->gradient_most = fth_ops_zeros(graph, layer->dy) ? FEW_OF_ZEROS : FEW;
    return FTH_OK;
}

/* A new node in the place of `old`; it writes `old`'s first output as its output `output`. */
static fth_status replace(fth_graph *graph, struct fth_node *old, const struct fth_op *op,
                          const fth_id *inputs, uint32_t n_inputs, const struct layer *layer,
                          uint32_t output, fth_id *outputs, fth_error *err) {
    fth_stage stage = graph->stage;
    graph->stage = old->stage;
    fth_status status = fth_graph_node(graph, op, old->name, inputs, n_inputs, layer->attributes,
                                       layer->bytes, outputs, err);
    graph->stage = stage;
    FTH_TRY(status);
    struct fth_node *node = graph->nodes[graph->n_nodes - 1];
    node->training_only = old->training_only;
    uint32_t index = fth_rewrite_find(graph, old);
    fth_rewrite_remove(graph, index);
    fth_rewrite_move_last(graph, index);
    if (!old->n_outputs)
        return FTH_OK;
    graph->values[node->outputs[output]].producer = FTH_NONE;
    node->outputs[output] = outputs[output] = old->outputs[0];
    graph->values[old->outputs[0]].producer = node->id;
    return FTH_OK;
}

static fth_status rewrite_forward(fth_graph *graph, struct layer *layer, fth_error *err) {
    struct fth_node *linear = layer->linear;
    fth_id w = linear->inputs[1], y = linear->outputs[0], sums[3], outputs[2];
    fth_stage stage = graph->stage;
    graph->stage = FTH_FORWARD;
    fth_status status = fth_graph_node(graph, &fth_op_factor_sum, linear->name, &w, 1, layer->attributes,
                                       layer->bytes, sums, err);
    graph->stage = stage;
    FTH_TRY(status);
    graph->nodes[graph->n_nodes - 1]->training_only = 1;
    fth_rewrite_move_last(graph, fth_rewrite_find(graph, linear));
    /* The sums lie where the layer's output will. */
    graph->values[sums[0]].view_of = fth_graph_root(graph, y);
    graph->values[sums[0]].view_column = fth_graph_column(graph, y);
    graph->values[w].panels = 0; /* these operations read rows of W */
    layer->rest_transposed = sums[2];
    fth_id inputs[5] = {linear->inputs[0], w, linear->n_inputs > 2 ? linear->inputs[2] : FTH_NONE,
                        sums[0], sums[1]};
    FTH_TRY(replace(graph, linear, &fth_op_factor_linear, inputs, 5, layer, 0, outputs, err));
    layer->rest = outputs[1];
    return FTH_OK;
}

/* Whether other nodes than the rows' read the factorised columns of dx, which nobody else has written. */
static int needs_zeros(const fth_graph *graph, const struct layer *layer) {
    if (layer->sum != FTH_NONE)
        return 0;
    fth_id root = fth_graph_root(graph, layer->dx);
    uint32_t at = fth_graph_column(graph, layer->dx);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        if (node->op == &fth_op_embedding_update || node->op == &fth_op_row_squares)
            continue;
        for (uint32_t j = 0; j < node->n_inputs; j++) {
            fth_id input = node->inputs[j];
            if (input == FTH_NONE || fth_graph_root(graph, input) != root)
                continue;
            uint32_t from = fth_graph_column(graph, input), to = from + graph->values[input].columns;
            for (uint32_t p = 0; p < layer->attributes->n; p++) {
                const struct fth_factor_piece *piece = &layer->attributes->pieces[p];
                if (piece->lookup >= 0 && at + piece->column < to &&
                    from < at + piece->column + piece->columns)
                    return 1;
            }
        }
    }
    return 0;
}

static fth_status rewrite_backward(fth_graph *graph, struct layer *layer, fth_error *err) {
    fth_id w = layer->linear->inputs[1], outputs[2];
    fth_id grad_inputs[4] = {layer->dy, w, layer->rest_transposed, layer->sum};
    fth_id inputs[3] = {w, layer->rest, layer->dy};
    layer->attributes->zeros = needs_zeros(graph, layer);
    FTH_TRY(replace(graph, layer->data_grad, &fth_op_factor_data_grad, grad_inputs, 4, layer, 0, outputs,
                    err));
    int fused = layer->weight_grad->op == &fth_op_linear_update;
    FTH_TRY(replace(graph, layer->weight_grad,
                    fused ? &fth_op_factor_update : &fth_op_factor_weight_grad, inputs, 3, layer, 1,
                    outputs, err));
    layer->row_gradients = outputs[0];
    return FTH_OK;
}

/* ---- the rows' update ---- */

/* Whether no other node writes where dx lies: its rows are then empty where a lookup is factorised. */
static int alone(const fth_graph *graph, fth_id dx) {
    uint32_t writers = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        writers += (uint32_t)fth_rewrite_writes(graph, graph->nodes[i], fth_graph_root(graph, dx));
    return writers == 1;
}

static fth_status extend_rows(fth_graph *graph, const struct layer *layer, struct fth_node *node,
                              fth_error *err) {
    const struct fth_factor_attributes *factor = layer->attributes;
    const struct fth_row_update_attributes *old = node->attributes;
    struct fth_row_update_attributes *a = fth_arena_alloc(
        graph->arena, 1, sizeof *a + (old->n + factor->n_lookups) * sizeof a->entries[0]);
    fth_id *inputs = fth_arena_alloc(graph->arena, node->n_inputs + 1, sizeof *inputs);
    if (!a || !inputs)
        return no_memory(err);
    memcpy(a, old, sizeof *a + old->n * sizeof a->entries[0]);
    memcpy(inputs, node->inputs, node->n_inputs * sizeof *inputs);
    inputs[node->n_inputs] = layer->row_gradients;
    uint32_t parts = fth_factor_parts(graph->values[layer->dy].columns);
    for (uint32_t p = 0; p < factor->n; p++) {
        if (factor->pieces[p].lookup < 0)
            continue;
        uint32_t lookup = (uint32_t)factor->pieces[p].lookup;
        for (uint32_t i = 0; i < old->n; i++)
            if (a->entries[i].lookup == lookup && !a->entries[i].parts && alone(graph, layer->dx) &&
                fth_graph_root(graph, inputs[a->entries[i].input]) == fth_graph_root(graph, layer->dx)) {
                a->entries[i].not_factored = 1;
                a->entries[i].most = factor->gradient_most;
            }
        a->entries[a->n++] = (struct fth_row_entry){.lookup = lookup,
                                                    .input = node->n_inputs,
                                                    .parts = parts,
                                                    .most = factor->gradient_most,
                                                    .dim = factor->dim};
    }
    node->attributes = a;
    node->inputs = inputs;
    node->n_inputs++;
    return FTH_OK;
}

static fth_status rewrite_layer(fth_graph *graph, struct layer *layer, fth_error *err) {
    for (uint32_t p = 0; p < layer->attributes->n; p++)
        if (layer->attributes->pieces[p].lookup >= 0)
            graph->lookups[layer->attributes->pieces[p].lookup].numbered = 1;
    FTH_TRY(rewrite_forward(graph, layer, err));
    FTH_TRY(rewrite_backward(graph, layer, err));
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct fth_node *node = graph->nodes[i];
        if (node->op == &fth_op_embedding_update || node->op == &fth_op_row_squares)
            FTH_TRY(extend_rows(graph, layer, node, err));
    }
    return FTH_OK;
}

/* ---- gathering what is read only ---- */

static int has_lookup(const struct fth_node *factor, uint32_t lookup) {
    const struct fth_factor_attributes *a = factor->attributes;
    for (uint32_t p = 0; p < a->n; p++)
        if (a->pieces[p].lookup == (int32_t)lookup)
            return 1;
    return 0;
}

/* Nobody reads columns of the node's numbered lookups but layers that factorise them when they have at most so many
 * sixteenths of unique rows; 0: somebody does. */
static uint32_t may_skip(const fth_graph *graph, const struct fth_node *embedding) {
    const struct fth_embedding_attributes *a = embedding->attributes;
    fth_id out = embedding->outputs[0];
    uint32_t first = fth_graph_column(graph, out), last = first + graph->values[out].columns, least = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        for (uint32_t j = 0; j < node->n_inputs; j++) {
            fth_id input = node->inputs[j];
            if (input == FTH_NONE || fth_graph_root(graph, input) != fth_graph_root(graph, out))
                continue;
            uint32_t from = fth_graph_column(graph, input), to = from + graph->values[input].columns;
            if (from >= last || to <= first)
                continue;
            if (node->op != &fth_op_factor_linear)
                return 0;
            for (uint32_t l = 0; l < a->n_lookups; l++)
                if (graph->lookups[a->lookups[l]].numbered && !has_lookup(node, a->lookups[l]))
                    return 0;
            uint32_t most = ((const struct fth_factor_attributes *)node->attributes)->gradient_most;
            least = least && least < most ? least : most;
        }
    }
    return least;
}

static fth_status skip_gathers(fth_graph *graph, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct fth_node *node = graph->nodes[i];
        uint32_t most = node->op == &fth_op_embedding ? may_skip(graph, node) : 0;
        if (!most)
            continue;
        const struct fth_embedding_attributes *old = node->attributes;
        size_t bytes = sizeof *old + old->n_lookups * sizeof old->lookups[0];
        struct fth_embedding_attributes *a = fth_arena_alloc(graph->arena, 1, bytes);
        if (!a)
            return no_memory(err);
        memcpy(a, old, bytes);
        a->skip_factored = most;
        node->attributes = a;
    }
    return FTH_OK;
}

static fth_status run(fth_graph *graph, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct layer layer;
        if (graph->nodes[i]->op != &fth_op_linear)
            continue;
        FTH_TRY(find_layer(graph, graph->nodes[i], &layer, err));
        if (layer.attributes && layer.attributes->n_lookups)
            FTH_TRY(rewrite_layer(graph, &layer, err));
    }
    return skip_gathers(graph, err);
}

const struct fth_pass fth_pass_factorise_first_layer = {
    .name = "factorise_first_layer",
    .when = FTH_PASS_TRAINING,
    .rounding = 1,
    .run = run};
