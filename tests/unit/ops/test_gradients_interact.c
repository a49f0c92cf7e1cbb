/* Layers that multiply columns or vectors of a row with each other, and two towers: backward against finite differences,
 * several tiles against one, a step of SGD. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "gradient_cases.h"

static fth_id row_sum(struct gradcheck *c) {
    fth_id y;
    CHECK_OK(c, fth_layer_row_sum(c->graph, "sum", X(c), &y, &c->err));
    return y;
}

static fth_id fm(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, c->group, 4 * c->columns);
    CHECK_OK(c, fth_layer_fm(c->graph, "fm", x, c->columns, &y, &c->err));
    return y;
}

/* Two layers; the second one's maps are read by nobody, or beside their sums. */
static fth_id cin(struct gradcheck *c, uint32_t fields, uint32_t dim, uint32_t maps, int read) {
    fth_id x0 = gradcheck_input(c, c->group, fields * dim), y, z, all[3];
    CHECK_OK(c, fth_layer_cin(c->graph, "cin.0", x0, x0, dim, maps, &y, &all[0], &c->err));
    CHECK_OK(c, fth_layer_cin(c->graph, "cin.1", y, x0, dim, 3, &all[2], &all[1], &c->err));
    CHECK_OK(c, fth_layer_concat(c->graph, "all", all, read ? 3 : 2, &z, &c->err));
    return z;
}
static fth_id cin_small(struct gradcheck *c) {
    return cin(c, 2, c->columns, 2, 1);
}
static fth_id cin_pooled(struct gradcheck *c) {
    return cin(c, 5, c->columns, 4, 0);
}
/* More products than a block of fields, more rows than a block has. */
static fth_id cin_blocks(struct gradcheck *c) {
    return cin(c, 27, c->columns, 21, 0);
}
static fth_id cin_rows(struct gradcheck *c) {
    return cin(c, 2, 100, 2, 1);
}

/* A row's own network, over single rows and over positions. */
static fth_id co_action(struct gradcheck *c, uint32_t d, uint32_t n, uint32_t orders) {
    static const uint32_t widths[] = {5, 3, 2};
    struct fth_co_action_options options = {widths, n, orders};
    fth_id w = gradcheck_input(c, -1, fth_co_action_weights(d, widths, n)), y;
    CHECK_OK(c, fth_layer_co_action(c->graph, "unit", w, gradcheck_input(c, c->group, d), &options, &y, &c->err));
    return y;
}
static fth_id co_action_one(struct gradcheck *c) {
    return co_action(c, c->columns + 1, 1, 3);
}
static fth_id co_action_two(struct gradcheck *c) {
    return co_action(c, c->columns + 1, 2, 2);
}
static fth_id co_action_three(struct gradcheck *c) {
    return co_action(c, 4, 3, 1);
}

static fth_id normalise(struct gradcheck *c) {
    fth_id y;
    CHECK_OK(c, fth_layer_normalise(c->graph, "n", gradcheck_input(c, c->group, c->columns + 1), &y, &c->err));
    return y;
}

/* Two towers of one layer; corrected by frequencies or not. */
static fth_id towers(struct gradcheck *c, int corrected) {
    fth_id x[2], product;
    for (int i = 0; i < 2; i++)
        CHECK_OK(c, fth_layer_linear(c->graph, i ? "item" : "user", gradcheck_input(c, -1, c->columns), 3, 1, &x[i],
                                     &c->err));
    CHECK_OK(c, fth_layer_mul(c->graph, x[0], x[1], &product, &c->err));
    CHECK_OK(c, fth_layer_row_sum(c->graph, "product", product, &c->graph->logit, &c->err));
    c->graph->softmax.user = x[0];
    c->graph->softmax.item = x[1];
    struct fth_lookup lookup = {.table = "sampled", .dim = 1, .group = -1, .counted = 1};
    uint32_t sampled;
    if (corrected) {
        CHECK_OK(c, fth_graph_lookup(c->graph, &lookup, &sampled, &c->err));
        c->graph->softmax.sampled = (int32_t)sampled;
    }
    return FTH_NONE;
}
static fth_id towers_plain(struct gradcheck *c) {
    return towers(c, 0);
}
static fth_id towers_corrected(struct gradcheck *c) {
    return towers(c, 1);
}

static fth_id dot_interaction(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, c->group, 4 * c->columns);
    CHECK_OK(c, fth_layer_dot_interaction(c->graph, "dot", x, c->columns, &y, &c->err));
    return y;
}

static fth_id cross(struct gradcheck *c) {
    fth_id y, x0 = X(c);
    CHECK_OK(c, fth_layer_cross(c->graph, "cross.0", x0, x0, &y, &c->err));
    CHECK_OK(c, fth_layer_cross(c->graph, "cross.1", x0, y, &y, &c->err));
    return y;
}

static fth_id cross_v2(struct gradcheck *c) {
    fth_id y, x0 = X(c);
    CHECK_OK(c, fth_layer_cross_v2(c->graph, "cross.0", x0, x0, &y, &c->err));
    CHECK_OK(c, fth_layer_cross_v2(c->graph, "cross.1", x0, y, &y, &c->err));
    return y;
}

static const struct gradient_case cases[] = {
    CASE(row_sum, ROWS),
    CASE(fm, ROWS),
    CASE(cin_small, ROWS),
    CASE(cin_pooled, ROWS),
    CASE(cin_blocks, ROWS),
    CASE(cin_rows, ROWS),
    CASE(co_action_one, ROWS),
    CASE(co_action_two, ROWS),
    CASE(co_action_three, ROWS),
    CASE(normalise, ROWS),
    CASE(towers_plain, EXAMPLES),
    CASE(towers_corrected, EXAMPLES),
    CASE(dot_interaction, ROWS),
    CASE(cross, ROWS),
    CASE(cross_v2, ROWS),
};

static void test_gradients(void **state) {
    gradient_cases_run(cases, sizeof cases / sizeof *cases);
}

static void test_every_op_was_checked(void **state) {
    gradcheck_all_ran("test_gradients_interact");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_every_op_was_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
