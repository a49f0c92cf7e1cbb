/* Where values live: in the worker's scratch, a span's tiles one behind the other, when one tile phase makes and reads
 * them, else in a buffer for the whole batch. Scratch is shared by values whose lives in the phase do not overlap.
 * Every start is moved by a different number of cache lines (docs/layout.md). */
#include <stdlib.h>
#include <string.h>

#include "kernels/tiles.h"
#include "runtime/plan_private.h"

uint32_t fth_plan_group_max(const fth_graph *graph, const uint32_t *group_max, int32_t group) {
    const struct fth_sessions *sessions = fth_graph_sessions_of(graph, group);
    if (!sessions)
        return group_max[group];
    uint32_t positions = group_max[sessions->group], pieces = positions / sessions->length;
    return sessions->field >= 0 ? positions : pieces + (pieces * sessions->length < positions);
}

size_t fth_plan_rows(const struct fth_plan *plan, const struct fth_value *value, uint32_t tiles) {
    size_t examples = tiles ? (size_t)tiles * plan->options.tile : plan->options.max_batch;
    switch (value->extent) {
    case FTH_EXAMPLES: return examples;
    case FTH_POSITIONS:
        return examples * fth_plan_group_max(plan->graph, plan->group_max, value->group);
    case FTH_TILES: return tiles ? tiles : plan->max_tiles;
    case FTH_WHOLE: return value->rows;
    }
    return 0;
}

/* What the plan's nodes do with a root value. */
struct use {
    int used, whole, read;  /* whole: read or written by a whole-batch node */
    uint32_t first, last;   /* positions in plan->nodes */
    uint32_t phase_first, phase_last;
};

static void resolve_views(struct fth_plan *plan) {
    for (uint32_t i = 0; i < plan->graph->n_values; i++) {
        struct fth_place *place = &plan->places[i];
        fth_id at = (fth_id)i;
        uint32_t column = 0;
        while (plan->graph->values[at].view_of != FTH_NONE) {
            column += plan->graph->values[at].view_column;
            at = plan->graph->values[at].view_of;
        }
        place->root = at;
        place->column = column;
        uint32_t columns = plan->graph->values[at].columns;
        place->ld = plan->graph->values[at].tiles ? fth_tiles_ld((fth_precision)plan->options.precision, columns)
                                                      : fth_padded_columns(columns);
    }
}

static void note_use(const struct fth_plan *plan, struct use *uses, fth_id value, uint32_t index, int read) {
    if (value == FTH_NONE)
        return;
    struct use *use = &uses[plan->places[value].root];
    const struct fth_planned_node *planned = &plan->nodes[index];
    if (!use->used) {
        use->used = 1;
        use->first = index;
        use->phase_first = planned->phase;
    }
    use->read |= read;
    use->last = index;
    use->phase_last = planned->phase;
    if (planned->node->op->granularity == FTH_WHOLE_BATCH)
        use->whole = 1;
}

static enum fth_place_kind kind_of(const struct fth_plan *plan, const struct fth_value *value,
                                   const struct use *use) {
    switch (value->role) {
    case FTH_ROLE_DENSE: return FTH_PLACE_DENSE;
    case FTH_ROLE_LABEL: return FTH_PLACE_LABEL;
    case FTH_ROLE_WEIGHT: return FTH_PLACE_WEIGHT;
    case FTH_ROLE_PARAMETER:
    case FTH_ROLE_STATE: return FTH_PLACE_PARAMETER;
    case FTH_ROLE_NORMAL: break;
    }
    if (!use->used || (value->tiles && !use->read))
        return FTH_PLACE_NONE;
    int per_tile = value->extent != FTH_WHOLE;
    int wanted = plan->graph->logit != FTH_NONE &&
                 plan->places[plan->graph->logit].root == value->id;
    if (!per_tile || use->whole || use->phase_first != use->phase_last || wanted)
        return FTH_PLACE_BUFFER;
    return FTH_PLACE_SCRATCH;
}

static int value_bytes(const struct fth_plan *plan, const struct fth_value *value, uint32_t tiles, size_t *out) {
    size_t floats, rows = fth_plan_rows(plan, value, tiles);
    rows = value->tiles ? (rows + FTH_TILES_ROUND - 1) / FTH_TILES_ROUND * FTH_TILES_ROUND : rows;
    return fth_mul_size(rows, plan->places[value->id].ld, &floats) &&
           fth_mul_size(floats, sizeof(float), out) && *out < SIZE_MAX / 4;
}

static size_t staggered(size_t offset, uint32_t index) {
    return (offset + 63) / 64 * 64 + (size_t)(index * 7 % 64) * 64;
}

struct piece {
    fth_id value;
    uint32_t first, last; /* nodes between which it is wanted */
    size_t start, bytes;
};

static int large_first(const void *a, const void *b) {
    const struct piece *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->value < y->value ? -1 : 1;
}

/* Behind all pieces before it that it would meet. */
static size_t first_fit(const struct piece *pieces, uint32_t n) {
    const struct piece *piece = &pieces[n];
    size_t start = staggered(0, (uint32_t)piece->value);
    for (int moved = 1; moved;) {
        moved = 0;
        for (const struct piece *p = pieces; p < piece; p++)
            if (p->first <= piece->last && piece->first <= p->last && start < p->start + p->bytes &&
                p->start < start + piece->bytes) {
                start = staggered(p->start + p->bytes, (uint32_t)piece->value);
                moved = 1;
            }
    }
    return start;
}

/* The largest first, so that small ones do not break up the room between them. */
static fth_status place_scratch(struct fth_plan *plan, const struct use *uses, fth_error *err) {
    uint32_t n = 0, values = plan->graph->n_values;
    struct piece *pieces = fth_alloc(values ? values : 1, sizeof *pieces);
    if (!pieces)
        return fth_fail(err, FTH_E_MEMORY, "no memory to plan the graph");
    for (uint32_t v = 0; v < values; v++) {
        if (plan->places[v].kind != FTH_PLACE_SCRATCH || plan->places[v].root != (fth_id)v)
            continue;
        struct piece piece = {.value = (fth_id)v, .first = uses[v].first, .last = uses[v].last};
        if (!value_bytes(plan, &plan->graph->values[v], plan->max_span, &piece.bytes)) {
            fth_free(pieces);
            return fth_fail(err, FTH_E_LIMIT, "a tile's values do not fit into the address space");
        }
        pieces[n++] = piece;
    }
    qsort(pieces, n, sizeof *pieces, large_first);
    for (uint32_t i = 0; i < n; i++) {
        pieces[i].start = plan->places[pieces[i].value].offset = first_fit(pieces, i);
        if (pieces[i].start + pieces[i].bytes > plan->scratch_bytes)
            plan->scratch_bytes = pieces[i].start + pieces[i].bytes;
    }
    fth_free(pieces);
    return FTH_OK;
}

static fth_status place_buffers(struct fth_plan *plan, fth_error *err) {
    size_t offset = 0;
    for (uint32_t v = 0; v < plan->graph->n_values; v++) {
        struct fth_place *place = &plan->places[v];
        if (place->kind != FTH_PLACE_BUFFER || place->root != (fth_id)v)
            continue;
        size_t bytes;
        if (!value_bytes(plan, &plan->graph->values[v], 0, &bytes) ||
            offset + bytes > ((size_t)1 << 46))
            return fth_fail(err, FTH_E_LIMIT,
                            "train.batch_size %u with the configured sequence lengths needs more address "
                            "space than there is; use smaller batches or a smaller max_length",
                            plan->options.max_batch);
        place->offset = staggered(offset, v);
        offset = place->offset + bytes;
    }
    plan->buffer_bytes = offset + 64;
    return FTH_OK;
}

fth_status fth_plan_place(struct fth_plan *plan, fth_error *err) {
    const fth_graph *graph = plan->graph;
    struct use *uses = fth_alloc(graph->n_values ? graph->n_values : 1, sizeof *uses);
    if (!uses)
        return fth_fail(err, FTH_E_MEMORY, "no memory to plan the graph");
    resolve_views(plan);
    for (uint32_t i = 0; i < plan->n_nodes; i++) {
        const struct fth_node *node = plan->nodes[i].node;
        for (uint32_t j = 0; j < node->n_inputs; j++)
            note_use(plan, uses, node->inputs[j], i, 1);
        for (uint32_t j = 0; j < node->n_outputs; j++)
            note_use(plan, uses, node->outputs[j], i, 0);
    }
    for (uint32_t v = 0; v < graph->n_values; v++)
        if (plan->places[v].root == (fth_id)v)
            plan->places[v].kind = kind_of(plan, &graph->values[v], &uses[v]);
    fth_status status;
    FTH_TRY_GOTO(status, place_scratch(plan, uses, err), done);
    FTH_TRY_GOTO(status, place_buffers(plan, err), done);
    for (uint32_t v = 0; v < graph->n_values; v++) {
        plan->places[v].kind = plan->places[plan->places[v].root].kind;
        plan->places[v].offset = plan->places[plan->places[v].root].offset;
    }
done:
    fth_free(uses);
    return status;
}
