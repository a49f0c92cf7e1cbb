/* Passes that round otherwise (split_attention, fuse_attention, tile_weight_grads): one step of SGD of a DIN graph with all
 * passes, without one of them and without any gives the same weights and rows within 1e-6 of the step, for
 * attention units with and without batch statistics. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "interpret.h"
#include "passes/passes.h"
#include "zoo.h"

#define EXAMPLES 13
#define TILE 4

/* The second tile has no position at all. */
static const uint32_t offsets[EXAMPLES + 1] = {0, 3, 3, 4, 6, 6, 6, 6, 6, 11, 11, 12, 17, 20};

static void fill(fth_graph *graph, struct interpret *it) {
    for (uint32_t l = 0; l < graph->n_lookups; l++)
        for (uint32_t r = 0; r < interpret_lookup_rows(it, l); r++)
            for (uint32_t c = 0; c < graph->lookups[l].dim; c++)
                *interpret_row_at(it, l, r, c) = interpret_number(graph->lookups[l].table, r, c);
    for (uint32_t v = 0; v < graph->n_values; v++) {
        const struct fth_value *value = &graph->values[v];
        if (value->role == FTH_ROLE_NORMAL || value->role == FTH_ROLE_WEIGHT)
            continue;
        for (uint32_t r = 0; r < interpret_rows(it, (fth_id)v); r++)
            for (uint32_t c = 0; c < value->columns; c++) {
                float x = interpret_number(value->name, r, c);
                *interpret_at(it, (fth_id)v, r, c) = value->role == FTH_ROLE_LABEL ? x > 0 : x;
            }
    }
    interpret_refresh(it);
}

struct step {
    fth_graph *graph;
    struct interpret *it;
};

static struct step take(const struct zoo_options *zoo) {
    struct step step = {.graph = zoo_graph(zoo)};
    struct interpret_options options = {.examples = EXAMPLES,
                                        .tile = TILE,
                                        .offsets = {offsets, NULL},
                                        .opt = {.lr = 1, .grad_scale = 1},
                                        .opt_no_decay = {.lr = 1, .grad_scale = 1},
                                        .seed = 3,
                                        .step = 1};
    step.it = interpret_create(step.graph, &options);
    fill(step.graph, step.it);
    interpret_run(step.it, FTH_UPDATE);
    assert_true(interpret_transposed_equal(step.it));
    return step;
}

static void release(struct step *step) {
    interpret_destroy(step->it);
    fth_graph_destroy(step->graph);
}

static fth_id named(const fth_graph *graph, const char *name) {
    for (uint32_t v = 0; v < graph->n_values; v++)
        if (graph->values[v].role == FTH_ROLE_PARAMETER && !strcmp(graph->values[v].name, name))
            return (fth_id)v;
    fail_msg("no parameter %s", name);
    return FTH_NONE;
}

static void expect_near(const char *what, const char *name, double a, double b) {
    if (!(fabs(a - b) <= 1e-6 * (0.1 + fabs(b))))
        fail_msg("%s: %s is %.9g, plain %.9g", what, name, a, b);
}

/* All parameters and rows; returns by how much they moved at most, so that nothing is compared with nothing. */
static double compare(const char *what, struct step *got, struct step *want) {
    double moved = 0;
    for (uint32_t v = 0; v < want->graph->n_values; v++) {
        const struct fth_value *value = &want->graph->values[v];
        if (value->role != FTH_ROLE_PARAMETER)
            continue;
        fth_id other = named(got->graph, value->name);
        for (uint32_t r = 0; r < value->rows; r++)
            for (uint32_t c = 0; c < value->columns; c++) {
                double now = *interpret_at(want->it, (fth_id)v, r, c);
                expect_near(what, value->name, *interpret_at(got->it, other, r, c), now);
                if (strstr(value->name, "attention"))
                    moved = fmax(moved, fabs(now - (double)interpret_number(value->name, r, c)));
            }
    }
    for (uint32_t l = 0; l < want->graph->n_lookups; l++)
        for (uint32_t r = 0; r < interpret_lookup_rows(want->it, l); r++)
            for (uint32_t c = 0; c < want->graph->lookups[l].dim; c++)
                expect_near(what, want->graph->lookups[l].table, *interpret_row_at(got->it, l, r, c),
                            *interpret_row_at(want->it, l, r, c));
    return moved;
}

static void activation_check(const char *activation) {
    struct zoo_options plain = {.model = "din", .no_passes = 1, .attention_activation = activation};
    struct step want = take(&plain);
    for (const struct fth_pass *const *pass = fth_passes(); *pass; pass++) {
        char what[64];
        struct zoo_options without = {
            .model = "din", .without = (*pass)->name, .attention_activation = activation};
        struct step got = take(&without);
        snprintf(what, sizeof what, "%s, without %s", activation, (*pass)->name);
        assert_true(compare(what, &got, &want) > 1e-3);
        release(&got);
    }
    struct zoo_options with = {.model = "din", .attention_activation = activation};
    struct step got = take(&with);
    assert_true(compare(activation, &got, &want) > 1e-3);
    release(&got);
    release(&want);
}

static void test_sigmoid(void **state) {
    activation_check("sigmoid");
}
static void test_relu(void **state) {
    activation_check("relu");
}
static void test_dice(void **state) {
    activation_check("dice");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sigmoid),
        cmocka_unit_test(test_relu),
        cmocka_unit_test(test_dice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
