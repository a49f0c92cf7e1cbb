/* prune_graph(): which entities of an example's relational graph link its nodes (ATBRG, Feng et al. 2020, "graph
 * connect" and "graph prune"; layers.h). The nodes are the target and each position of the history; a relation gives
 * every node one entity, its key, or none. An entity is kept when two nodes at least have it, or when one that is
 * reached from it through a further relation is kept: it is on that one's paths. All others are dropped.
 *
 * Keys alone are read, no number is trained here; no gradient. Keys of an example go through a small open table of
 * first positions, in the worker's scratch: time and memory by the length of the list. Per tile, any thread. */
#include <string.h>

#include "base/hash.h"
#include "core/batch.h"
#include "ops/ops_private.h"

#define DROPPED (-1e9f)

static const struct fth_prune_graph_attributes *attributes(const struct fth_node *node) {
    return node->attributes;
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    const struct fth_prune_graph_attributes *a = attributes(node);
    if (!a->n || a->group < 0 || a->group >= FTH_SESSIONS)
        return fth_fail(err, FTH_E_ARGUMENT, "%u relations of group %d: it takes one at least, of a ragged group of the "
                        "batch", a->n, (int)a->group);
    for (uint32_t r = 0; r < a->n; r++)
        if (a->relations[r].head >= (int32_t)r)
            return fth_fail(err, FTH_E_ARGUMENT, "relation %u is of relation %d, which is not before it", r,
                            (int)a->relations[r].head);
    FTH_TRY(fth_graph_output(graph, node, 0, FTH_EXAMPLES, -1, 0, 2 * a->n, err));
    return fth_graph_output(graph, node, 1, FTH_POSITIONS, a->group, 0, 2 * a->n, err);
}

/* Slots for n keys, half of them free. */
static uint32_t slots_for(uint32_t n) {
    uint32_t slots = 8;
    while (slots < 2 * (uint64_t)n && slots < 1u << 31)
        slots *= 2;
    return slots;
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    (void)err;
    prepare->scratch_bytes = fth_ops_align((size_t)slots_for(prepare->out[1].rows) * sizeof(uint32_t));
    return FTH_OK;
}

static void print(const struct fth_node *node, struct fth_text *out) {
    fth_text_printf(out, "relations=%u", attributes(node)->n);
}

/* The slot of a key: 0 in it, or 1 + the first of the positions from `begin` on that has it. */
static uint32_t *find(uint32_t *slots, uint32_t n_slots, const struct fth_keys *keys, size_t begin, uint64_t key) {
    uint32_t at = (uint32_t)fth_hash_mix(key) & (n_slots - 1);
    while (slots[at] && fth_key_at(keys, begin + slots[at] - 1) != key)
        at = (at + 1) & (n_slots - 1);
    return &slots[at];
}

/* One relation of one example, whose n positions begin at `begin`: 1 into the column where a node shares its entity. */
static void connect(const struct fth_graph_relation *relation, const struct fth_keys *keys, size_t begin, uint32_t n,
                    uint64_t target, uint32_t *slots, float *of_target, float *of_positions, uint32_t ld) {
    uint32_t n_slots = slots_for(n);
    memset(slots, 0, n_slots * sizeof *slots);
    *of_target = 0;
    for (uint32_t t = 0; t < n; t++) {
        float *kept = of_positions + (size_t)t * ld;
        *kept = 0;
        uint64_t key = fth_key_at(keys, begin + t);
        if (key == relation->missing)
            continue;
        uint32_t *slot = find(slots, n_slots, keys, begin, key);
        if (*slot)
            *kept = of_positions[(size_t)(*slot - 1) * ld] = 1;
        else
            *slot = t + 1;
    }
    uint32_t first = target == relation->missing ? 0 : *find(slots, n_slots, keys, begin, target);
    if (first)
        *of_target = of_positions[(size_t)(first - 1) * ld] = 1;
}

/* A row's heads of what is kept are kept; then the other half of the row. */
static void finish(const struct fth_prune_graph_attributes *a, float *row) {
    for (uint32_t r = a->n; r-- > 0;)
        if (row[r] != 0 && a->relations[r].head >= 0)
            row[a->relations[r].head] = 1;
    for (uint32_t r = 0; r < a->n; r++)
        row[a->n + r] = row[r] != 0 ? 0 : DROPPED;
}

static void run(const struct fth_run *run) {
    const struct fth_prune_graph_attributes *a = attributes(run->node);
    const struct fth_view *target = &run->out[0], *positions = &run->out[1];
    for (uint32_t i = 0; i < run->examples; i++) {
        uint32_t begin = positions->offsets[i], n = positions->offsets[i + 1] - begin;
        float *one = target->data + (size_t)i * target->ld;
        float *many = positions->data + (size_t)(begin - positions->offsets[0]) * positions->ld;
        for (uint32_t r = 0; r < a->n; r++) {
            const struct fth_graph_relation *relation = &a->relations[r];
            uint64_t key = fth_key_at(&run->fields[relation->target], run->example0 + i);
            connect(relation, &run->fields[relation->history], begin, n, key, run->scratch, one + r, many + r,
                    positions->ld);
        }
        finish(a, one);
        for (uint32_t t = 0; t < n; t++)
            finish(a, many + (size_t)t * positions->ld);
    }
}

const struct fth_op fth_op_prune_graph = {.name = "prune_graph",
                                          .n_outputs = 2,
                                          .granularity = FTH_PER_TILE,
                                          .shape = shape,
                                          .prepare = prepare,
                                          .cost = fth_ops_cost,
                                          .print = print,
                                          .run = run};
