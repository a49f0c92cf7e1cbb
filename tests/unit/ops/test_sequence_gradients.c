/* Operations over the positions of examples and of sessions: backward against finite differences, several tiles
 * against one, a step of SGD; attention against its formula; what shape rules refuse. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/batch.h"
#include "gradcheck.h"

/* Sessions of runs of equal keys (keys: pairs of positions) or of length alone. */
static int32_t sessions_of(struct gradcheck *c, int32_t field, uint32_t length) {
    struct fth_sessions sessions = {.group = 0, .field = field, .length = length};
    int32_t group;
    CHECK_OK(c, fth_graph_sessions(c->graph, &sessions, &group, &c->err));
    return group;
}

static fth_id attention(struct gradcheck *c, uint32_t columns, uint32_t heads, int32_t sessions) {
    fth_id y, x = gradcheck_input(c, 0, columns);
    CHECK_OK(c, fth_layer_self_attention(c->graph, "self", x, heads, sessions, &y, &c->err));
    return y;
}

static fth_id one_head(struct gradcheck *c) {
    return attention(c, c->columns + 1, 1, FTH_NO_SESSIONS);
}
static fth_id three_heads(struct gradcheck *c) {
    return attention(c, 3 * c->columns, 3, FTH_NO_SESSIONS);
}
static fth_id session_attention(struct gradcheck *c) {
    return attention(c, 4, 2, sessions_of(c, -1, 2));
}
static fth_id keyed_attention(struct gradcheck *c) {
    return attention(c, 6, 2, sessions_of(c, 0, 8));
}

/* Positions -> sessions -> examples, with a layer over sessions between. */
static fth_id pool(struct gradcheck *c, fth_pooling pooling, int32_t sessions) {
    fth_id y, x = gradcheck_input(c, 0, c->columns);
    CHECK_OK(c, fth_layer_segment_pool(c->graph, "pool", x, pooling, sessions, &y, &c->err));
    if (sessions == FTH_NO_SESSIONS)
        return y;
    CHECK_OK(c, fth_layer_linear(c->graph, "fc", y, 3, 1, &y, &c->err));
    CHECK_OK(c, fth_layer_segment_sum(c->graph, "sum", y, FTH_NONE, &y, &c->err));
    return y;
}

static fth_id pool_sum(struct gradcheck *c) {
    return pool(c, FTH_POOL_SUM, FTH_NO_SESSIONS);
}
static fth_id pool_mean(struct gradcheck *c) {
    return pool(c, FTH_POOL_MEAN, FTH_NO_SESSIONS);
}
static fth_id session_sum(struct gradcheck *c) {
    return pool(c, FTH_POOL_SUM, sessions_of(c, -1, 3));
}
static fth_id session_mean(struct gradcheck *c) {
    return pool(c, FTH_POOL_MEAN, sessions_of(c, 0, 3));
}
static fth_id session_max(struct gradcheck *c) {
    return pool(c, FTH_POOL_MAX, sessions_of(c, -1, 1)); /* one position: no kink */
}

static fth_id bilinear(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, 0, c->columns + 1), v = gradcheck_input(c, -1, 3);
    CHECK_OK(c, fth_layer_bilinear(c->graph, "bilinear", x, v, &y, &c->err));
    return y;
}

static fth_id position(struct gradcheck *c, uint32_t rows, int one, enum fth_position_index index,
                       int32_t sessions) {
    fth_id y, x = gradcheck_input(c, 0, c->columns);
    CHECK_OK(c, fth_layer_position_bias(c->graph, "position", x, rows, one, index, sessions, &y,
                                        &c->err));
    CHECK_OK(c, fth_layer_mul(c->graph, y, y, &y, &c->err)); /* the gradient differs by position */
    return y;
}

static fth_id position_embedding(struct gradcheck *c) {
    return position(c, 3, 0, FTH_POSITION_FROM_START, FTH_NO_SESSIONS); /* of up to 5 */
}
static fth_id position_from_end(struct gradcheck *c) {
    return position(c, 9, 0, FTH_POSITION_FROM_END, FTH_NO_SESSIONS);
}
static fth_id position_in_session(struct gradcheck *c) {
    return position(c, 2, 1, FTH_POSITION_FROM_START, sessions_of(c, -1, 2));
}
static fth_id session_number(struct gradcheck *c) {
    return position(c, 2, 1, FTH_SESSION_FROM_END, sessions_of(c, -1, 2));
}
static fth_id session_row(struct gradcheck *c) {
    return position(c, 4, 0, FTH_SESSION_FROM_END, sessions_of(c, 0, 8));
}

#define CASE(name) {#name, name}
static const struct {
    const char *name;
    fth_id (*build)(struct gradcheck *check);
} cases[] = {
    CASE(one_head), CASE(three_heads), CASE(session_attention),
    CASE(keyed_attention), CASE(pool_sum), CASE(pool_mean),
    CASE(session_sum), CASE(session_mean), CASE(session_max), CASE(bilinear),
    CASE(position_embedding), CASE(position_from_end), CASE(position_in_session),
    CASE(session_number), CASE(session_row),
};

static const struct gradcheck_shape shapes[] = {
    {.examples = 1, .tile = 4, .columns = 1, .group = -1},
    {.examples = 8, .tile = 3, .columns = 5, .group = -1},
    {.examples = 8, .tile = 1, .columns = 18, .group = -1}, /* tiles without a position */
};

static void test_gradients(void **state) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            gradcheck_run(cases[i].name, cases[i].build, &shapes[s]);
    static const char *const ops[] = {"segment_attention", "segment_attention_grad", "segment_pool",
                                      "segment_pool_grad", "position_bias", "position_bias_grad"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        assert_true(interpret_has_run(ops[i]));
}

/* What stands where, by numbers that tell it: sessions of 2 in an example of 5 are 0 | 1 2 | 3 4. */
static void test_positions_and_sessions(void **state) {
    static const uint32_t offsets[] = {0, 0, 5, 6};
    struct gradcheck check = {0}, *c = &check;
    fth_id x[4], pooled, y[3];
    CHECK_OK(c, fth_graph_create(0, &c->graph, &c->err));
    int32_t sessions = sessions_of(c, -1, 2), again = sessions_of(c, -1, 2);
    assert_int_equal(sessions, again);
    x[0] = gradcheck_input(c, 0, 2);
    CHECK_OK(c, fth_layer_position_bias(c->graph, "a", x[0], 2, 1, FTH_SESSION_FROM_END, sessions,
                                        &x[1], &c->err));
    CHECK_OK(c, fth_layer_position_bias(c->graph, "b", x[0], 9, 1, FTH_POSITION_FROM_START, sessions,
                                        &x[2], &c->err));
    CHECK_OK(c, fth_layer_position_bias(c->graph, "c", x[0], 4, 1, FTH_POSITION_FROM_END,
                                        FTH_NO_SESSIONS, &x[3], &c->err));
    CHECK_OK(c, fth_layer_segment_pool(c->graph, "p", x[0], FTH_POOL_SUM, sessions, &pooled, &c->err));
    for (int i = 0; i < 3; i++)
        y[i] = c->graph->nodes[1 + i]->inputs[1];
    CHECK_OK(c, fth_graph_verify(c->graph, &c->err));
    struct interpret_options options = {.examples = 3, .tile = 2, .offsets = {offsets, NULL}};
    struct interpret *it = interpret_create(c->graph, &options);
    for (uint32_t t = 0; t < 6; t++)
        for (uint32_t j = 0; j < 2; j++)
            *interpret_row_at(it, 0, t, j) = (float)(100 << t);
    for (int i = 0; i < 3; i++)
        for (uint32_t r = 0; r < c->graph->values[y[i]].rows; r++)
            *interpret_at(it, y[i], r, 0) = (float)r;
    interpret_run(it, FTH_FORWARD);
    static const float want[3][6] = {{1, 1, 1, 0, 0, 0}, {0, 0, 1, 0, 1, 0}, {3, 3, 2, 1, 0, 0}};
    for (int i = 0; i < 3; i++)
        for (uint32_t t = 0; t < 6; t++)
            assert_true(*interpret_at(it, x[1 + i], t, 1) - (float)(100 << t) == want[i][t]);
    static const float sums[] = {100, 200 + 400, 800 + 1600, 3200};
    assert_int_equal(interpret_rows(it, pooled), 4);
    for (uint32_t s = 0; s < 4; s++)
        assert_true(*interpret_at(it, pooled, s, 0) == sums[s]);
    interpret_destroy(it);
    fth_graph_destroy(c->graph);
}

/* The maximum's gradient goes to the first of an example's positions that has it. */
static void test_maximum(void **state) {
    static const uint32_t offsets[] = {0, 3, 3, 5};
    static const float values[] = {1, 4, 4, -2, -3}, want[] = {0, 10, 0, 30, 0};
    struct gradcheck check = {0}, *c = &check;
    CHECK_OK(c, fth_graph_create(0, &c->graph, &c->err));
    fth_id x = gradcheck_input(c, 0, 1), in[3] = {gradcheck_input(c, -1, 1), x, FTH_NONE}, dx;
    struct fth_segment_pool_attributes a = {FTH_NO_SESSIONS, 0, FTH_POOL_MAX};
    CHECK_OK(c, fth_layer_segment_pool(c->graph, "p", x, FTH_POOL_MAX, FTH_NO_SESSIONS, &in[2], &c->err));
    CHECK_OK(c, fth_graph_node(c->graph, &fth_op_segment_pool_grad, "g", in, 3, &a, sizeof a, &dx,
                               &c->err));
    struct interpret_options options = {.examples = 3, .tile = 2, .offsets = {offsets, NULL}};
    struct interpret *it = interpret_create(c->graph, &options);
    for (uint32_t t = 0; t < 5; t++)
        *interpret_row_at(it, 0, t, 0) = values[t];
    for (uint32_t i = 0; i < 3; i++)
        *interpret_row_at(it, 1, i, 0) = (float)(10 * (i + 1));
    interpret_run(it, FTH_FORWARD);
    assert_true(*interpret_at(it, in[2], 0, 0) == 4 && *interpret_at(it, in[2], 1, 0) == 0 &&
                *interpret_at(it, in[2], 2, 0) == -2);
    for (uint32_t t = 0; t < 5; t++)
        assert_true(*interpret_at(it, dx, t, 0) == want[t]);
    interpret_destroy(it);
    fth_graph_destroy(c->graph);
}

static void cut(const struct fth_sessions *sessions, const struct fth_keys *keys, const uint32_t *want_offsets,
                const uint32_t *want_starts) {
    static const uint32_t offsets[] = {0, 0, 7, 8, 11};
    uint32_t made_offsets[5], made_starts[12];
    struct fth_session_rows rows = {.offsets = made_offsets, .starts = made_starts};
    fth_sessions_cut(sessions, offsets, 4, keys, &rows);
    assert_memory_equal(made_offsets, want_offsets, sizeof made_offsets);
    assert_memory_equal(made_starts, want_starts, (want_offsets[4] + 1) * sizeof *want_starts);
}

static void test_cutting(void **state) {
    /* a session that goes on in the next example, one that comes again, runs of one and of many */
    static uint64_t list[] = {7, 7, 7, 7, 7, 8, 7, 7, 7, 7, 9};
    static uint32_t buckets[] = {7, 7, 7, 7, 7, 8, 7, 7, 7, 7, FTH_NUMBER_MISSING};
    struct fth_keys as_keys = {.keys = list}, as_numbers = {.numbers = buckets}, *keys = &as_keys;
    cut(&(struct fth_sessions){0, -1, 3}, NULL, (uint32_t[]){0, 0, 3, 4, 5},
        (uint32_t[]){0, 1, 4, 7, 8, 11});
    cut(&(struct fth_sessions){0, -1, 100}, NULL, (uint32_t[]){0, 0, 1, 2, 3},
        (uint32_t[]){0, 7, 8, 11});
    cut(&(struct fth_sessions){0, 5, 100}, keys, (uint32_t[]){0, 0, 3, 4, 6},
        (uint32_t[]){0, 5, 6, 7, 8, 10, 11});
    cut(&(struct fth_sessions){0, 5, 2}, keys, (uint32_t[]){0, 0, 5, 6, 8},
        (uint32_t[]){0, 1, 3, 5, 6, 7, 8, 10, 11});
    cut(&(struct fth_sessions){0, 5, 2}, &as_numbers, (uint32_t[]){0, 0, 5, 6, 8},
        (uint32_t[]){0, 1, 3, 5, 6, 7, 8, 10, 11});
    cut(&(struct fth_sessions){0, -1, 1}, NULL, (uint32_t[]){0, 0, 7, 8, 11},
        (uint32_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
}

#define REFUSED(call, part)                                                                        \
    do {                                                                                           \
        c->err.message[0] = 0;                                                                     \
        if ((call) == FTH_OK || !strstr(c->err.message, part))                                     \
            fail_msg("%s: \"%s\" without \"%s\"", #call, c->err.message, part);                    \
    } while (0)

static void test_refusals(void **state) {
    struct gradcheck check = {0}, *c = &check;
    fth_id y;
    int32_t group;
    CHECK_OK(c, fth_graph_create(0, &c->graph, &c->err));
    fth_id x = gradcheck_input(c, 0, 6), e = gradcheck_input(c, -1, 6), other = gradcheck_input(c, 1, 6);
    int32_t sessions = sessions_of(c, -1, 4);
    REFUSED(fth_graph_sessions(c->graph, &(struct fth_sessions){0, -1, 0}, &group, &c->err),
            "at least one position");
    REFUSED(fth_graph_sessions(c->graph, &(struct fth_sessions){sessions, -1, 2}, &group, &c->err),
            "a ragged group of the batch");
    REFUSED(fth_layer_self_attention(c->graph, "s", x, 4, FTH_NO_SESSIONS, &y, &c->err),
            "model.heads: ");
    REFUSED(fth_layer_self_attention(c->graph, "t", x, 0, FTH_NO_SESSIONS, &y, &c->err), "model.heads: 0");
    REFUSED(fth_layer_self_attention(c->graph, "u", e, 2, FTH_NO_SESSIONS, &y, &c->err),
            "has no positions");
    REFUSED(fth_layer_self_attention(c->graph, "v", other, 2, sessions, &y, &c->err), "has no sessions");
    REFUSED(fth_layer_self_attention(c->graph, "w", x, 2, sessions + 1, &y, &c->err), "has no sessions");
    REFUSED(fth_layer_position_bias(c->graph, "p", x, 3, 0, FTH_SESSION_FROM_END, FTH_NO_SESSIONS, &y,
                                    &c->err),
            "there are none");
    REFUSED(fth_layer_segment_pool(c->graph, "q", x, FTH_POOL_NONE, FTH_NO_SESSIONS, &y, &c->err),
            "sum, mean or max");
    REFUSED(fth_layer_segment_pool(c->graph, "r", e, FTH_POOL_SUM, FTH_NO_SESSIONS, &y, &c->err),
            "has no positions");
    fth_graph_destroy(c->graph);
}

static void test_every_op_was_checked(void **state) {
    gradcheck_all_ran("test_sequence_gradients");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_positions_and_sessions),
        cmocka_unit_test(test_maximum),
        cmocka_unit_test(test_cutting),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_every_op_was_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
