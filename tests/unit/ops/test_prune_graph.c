/* prune_graph against the rule in two loops: random keys, empty lists, chains of relations, tiles, missing keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/batch.h"
#include "gradcheck.h"

enum { EXAMPLES = 9, POSITIONS = 600, RELATIONS = 4, MISSING = 7 };

/* Fields 0 to 3 of the target, 4 to 7 of the history. Relation 1 leads from relation 0's entities on, 3 from 1's. */
static const struct fth_graph_relation relations[RELATIONS] = {
    {0, 4, MISSING, -1}, {1, 5, MISSING, 0}, {2, 6, MISSING, -1}, {3, 7, MISSING, 1}};
static const uint32_t offsets[EXAMPLES + 1] = {0, 0, 1, 4, 4, 9, 73, 74, 600, 600};

static uint64_t keys[2 * RELATIONS][POSITIONS];

static uint64_t draw(void) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

/* Whether a node's own entity of a relation is another node's, too; node -1 is the target. */
static int shared(uint32_t i, int node, uint32_t r) {
    const uint64_t *all = keys[RELATIONS + r] + offsets[i], target = keys[r][i];
    int n = (int)(offsets[i + 1] - offsets[i]);
    uint64_t key = node < 0 ? target : all[node];
    if (key == MISSING)
        return 0;
    if (node >= 0 && key == target)
        return 1;
    for (int t = 0; t < n; t++)
        if (t != node && all[t] == key)
            return 1;
    return 0;
}

static int kept(uint32_t i, int node, uint32_t r) {
    int is = shared(i, node, r);
    for (uint32_t beyond = r + 1; beyond < RELATIONS; beyond++)
        if (relations[beyond].head == (int32_t)r)
            is |= kept(i, node, beyond);
    return is;
}

static int compare(struct interpret *it, fth_id value, uint32_t row, uint32_t i, int node) {
    int n = 0;
    for (uint32_t r = 0; r < RELATIONS; r++) {
        int want = kept(i, node, r);
        float is = *interpret_at(it, value, row, r), weight = *interpret_at(it, value, row, RELATIONS + r);
        if (is != (float)want || weight != (want ? 0 : -1e9f))
            fail_msg("example %u, node %d, relation %u: %g and %g, but kept is %d", i, node, r, is, weight, want);
        n += want;
    }
    return n;
}

static void check(uint64_t different, uint32_t tile) {
    struct gradcheck made = {.group = -1}, *g = &made;
    struct fth_keys fields[2 * RELATIONS] = {{0}};
    fth_id target, history;
    for (uint32_t f = 0; f < 2 * RELATIONS; f++) {
        fields[f].keys = keys[f];
        for (uint32_t t = 0; t < POSITIONS; t++)
            keys[f][t] = draw() % different;
    }
    CHECK_OK(g, fth_graph_create(0, &g->graph, &g->err));
    CHECK_OK(g, fth_layer_prune_graph(g->graph, "p", 0, relations, RELATIONS, &target, &history, &g->err));
    CHECK_OK(g, fth_graph_verify(g->graph, &g->err));
    struct interpret_options options = {.examples = EXAMPLES, .tile = tile, .offsets = {offsets, NULL}, .fields = fields};
    struct interpret *it = interpret_create(g->graph, &options);
    interpret_run(it, FTH_FORWARD);
    int n = 0;
    for (uint32_t i = 0; i < EXAMPLES; i++) {
        n += compare(it, target, i, i, -1);
        for (uint32_t t = offsets[i]; t < offsets[i + 1]; t++)
            n += compare(it, history, t, i, (int)(t - offsets[i]));
    }
    assert_true(n > 0 && n < RELATIONS * (POSITIONS + EXAMPLES)); /* neither all nor none */
    interpret_destroy(it);
    fth_graph_destroy(g->graph);
}

static void test_rule(void **state) {
    static const uint64_t different[] = {9, 30, 400, 4000};
    for (size_t i = 0; i < sizeof different / sizeof *different; i++)
        for (uint32_t tile = 1; tile <= 16; tile *= 4)
            check(different[i], tile);
    gradcheck_all_ran("test_prune_graph");
}

static void test_refusals(void **state) {
    static const struct fth_graph_relation late[2] = {{0, 4, MISSING, 1}, {1, 5, MISSING, -1}};
    fth_graph *graph;
    fth_error err = {0};
    fth_id target, history;
    assert_int_equal(fth_graph_create(0, &graph, &err), FTH_OK);
    assert_int_equal(fth_layer_prune_graph(graph, "p", 0, late, 2, &target, &history, &err), FTH_E_ARGUMENT);
    assert_non_null(strstr(err.message, "relation 0 is of relation 1"));
    assert_int_equal(fth_layer_prune_graph(graph, "p", 0, late, 0, &target, &history, &err), FTH_E_ARGUMENT);
    assert_int_equal(fth_layer_prune_graph(graph, "p", FTH_NO_GROUP, relations, 1, &target, &history, &err),
                     FTH_E_ARGUMENT);
    fth_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
