/* Recurrent layers and the loss over their states: backward against finite differences, several tiles against one, a
 * step of SGD (gradcheck.h); the layers against a plain loop over each example's positions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "gradcheck.h"
#include "passes/passes.h"

static int split; /* the pass gate_split runs before the gradients are made */

static void passes(struct gradcheck *c) {
    static const char *const panels[] = {"weight_panels"};
    if (split)
        CHECK_OK(c, fth_passes_run(c->graph, FTH_PASS_FORWARD, panels, split == 1, &c->err));
}

static fth_id gru(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, 0, c->columns);
    CHECK_OK(c, fth_layer_gru(c->graph, "gru", x, 3, 0, &y, &c->err));
    passes(c);
    return y;
}

static fth_id gru_reverse(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, 0, c->columns);
    CHECK_OK(c, fth_layer_gru(c->graph, "gru", x, 19, 1, &y, &c->err));
    passes(c);
    return y;
}

static fth_id augru(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, 0, c->columns), scores = gradcheck_input(c, 0, 1);
    CHECK_OK(c, fth_layer_augru(c->graph, "augru", x, scores, 4, &y, &c->err));
    passes(c);
    return y;
}

static fth_id lstm(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, 0, c->columns);
    CHECK_OK(c, fth_layer_lstm(c->graph, "lstm", x, 3, 0, &y, &c->err));
    passes(c);
    return y;
}

static fth_id lstm_reverse(struct gradcheck *c) {
    fth_id y, x = gradcheck_input(c, 0, c->columns);
    CHECK_OK(c, fth_layer_lstm(c->graph, "lstm", x, 17, 1, &y, &c->err));
    passes(c);
    return y;
}

/* A loss of its own beside the logit's. */
static fth_id next_loss(struct gradcheck *c) {
    fth_id x = gradcheck_input(c, 0, c->columns), h = gradcheck_input(c, 0, c->columns);
    fth_id negatives = gradcheck_input(c, 0, c->columns), user = gradcheck_input(c, -1, 3);
    CHECK_OK(c, fth_layer_next_loss(c->graph, "next", h, x, negatives, 0.5f, &c->err));
    CHECK_OK(c, fth_layer_linear(c->graph, "out", user, 1, 1, &c->graph->logit, &c->err));
    return FTH_NONE;
}

static const struct {
    const char *name;
    fth_id (*build)(struct gradcheck *check);
} cases[] = {{"gru", gru},   {"gru_reverse", gru_reverse},   {"augru", augru},
             {"lstm", lstm}, {"lstm_reverse", lstm_reverse}, {"next_loss", next_loss}};

/* Lengths are those of gradcheck.c: 0, 3, 1, 0, 5, 2, 0, ... */
static const struct gradcheck_shape shapes[] = {
    {.examples = 1, .tile = 1, .columns = 17, .group = 0},
    {.examples = 8, .tile = 3, .columns = 5, .group = 0},
    {.examples = 8, .tile = 1, .columns = 1, .group = 0},
};

/* Unsplit, split, and split with weights in panels. */
static void test_gradients(void **state) {
    for (split = 0; split < 3; split++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
                gradcheck_run(cases[i].name, cases[i].build, &shapes[s]);
}

/* ---- against plain loops ---- */

enum { D = 5, N = 18, EXAMPLES = 9 };
/* Nothing, one, many, equal lengths. */
static const uint32_t offsets[EXAMPLES + 1] = {0, 7, 7, 8, 41, 41, 48, 50, 51, 51};

static float number(uint32_t a, uint32_t b) {
    return (float)((a * 7919 + b * 104729 + a * b * 31) % 1009) / 1009 - 0.5f;
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

struct world {
    struct gradcheck check;
    struct interpret *it;
    fth_id x, score, y, w, b, u;
    int lstm, reverse, scored;
};

static double gate(struct world *w, uint32_t row, const double *h, uint32_t xg, uint32_t rg, double *recurrent) {
    double in = *interpret_at(w->it, w->b, 0, xg), sum = 0;
    for (uint32_t d = 0; d < D; d++)
        in += (double)*interpret_row_at(w->it, 0, row, d) * *interpret_at(w->it, w->w, d, xg);
    for (uint32_t d = 0; d < N; d++)
        sum += h[d] * *interpret_at(w->it, w->u, d, rg);
    *recurrent = sum;
    return in;
}

static void plain_gru(struct world *w, uint32_t row, double *h) {
    double next[N], r;
    double score = w->scored ? *interpret_row_at(w->it, 1, row, 0) : 1;
    for (uint32_t j = 0; j < N; j++) {
        double u = gate(w, row, h, N + j, j, &r);
        u = sigmoid(u + r);
        double v = gate(w, row, h, 2 * N + j, N + j, &r);
        v = sigmoid(v + r);
        double g = gate(w, row, h, j, 2 * N + j, &r);
        g = tanh(g + v * r);
        next[j] = (1 - score * u) * h[j] + score * u * g;
    }
    memcpy(h, next, sizeof next);
}

static void plain_lstm(struct world *w, uint32_t row, double *h, double *c) {
    double next[N], r[4], a[4];
    for (uint32_t j = 0; j < N; j++) {
        for (uint32_t g = 0; g < 4; g++)
            a[g] = gate(w, row, h, g * N + j, g * N + j, &r[g]);
        c[j] = sigmoid(a[1] + r[1]) * c[j] + sigmoid(a[0] + r[0]) * tanh(a[2] + r[2]);
        next[j] = sigmoid(a[3] + r[3]) * tanh(c[j]);
    }
    memcpy(h, next, sizeof next);
}

static void compare(struct world *w) {
    for (uint32_t i = 0; i < EXAMPLES; i++) {
        double h[N] = {0}, c[N] = {0};
        for (uint32_t t = 0; t < offsets[i + 1] - offsets[i]; t++) {
            uint32_t row = w->reverse ? offsets[i + 1] - 1 - t : offsets[i] + t;
            if (w->lstm)
                plain_lstm(w, row, h, c);
            else
                plain_gru(w, row, h);
            for (uint32_t j = 0; j < N; j++)
                if (!(fabs(h[j] - *interpret_at(w->it, w->y, row, j)) < 2e-6))
                    fail_msg("%s%s example %u step %u unit %u: %.9g, plain %.9g", w->lstm ? "lstm" : "gru",
                             w->reverse ? " reverse" : "", i, t, j, *interpret_at(w->it, w->y, row, j), h[j]);
        }
    }
}

static fth_id named(const fth_graph *graph, const char *name) {
    for (uint32_t v = 0; v < graph->n_values; v++)
        if (graph->values[v].name && !strcmp(graph->values[v].name, name))
            return (fth_id)v;
    fail_msg("no %s", name);
    return FTH_NONE;
}

static void world_run(int lstm, int reverse, int scored, int tile, int pass) {
    struct world w = {.lstm = lstm, .reverse = reverse, .scored = scored};
    struct gradcheck *c = &w.check;
    CHECK_OK(c, fth_graph_create(0, &c->graph, &c->err));
    w.x = gradcheck_input(c, 0, D);
    w.score = scored ? gradcheck_input(c, 0, 1) : FTH_NONE;
    if (lstm)
        CHECK_OK(c, fth_layer_lstm(c->graph, "r", w.x, N, reverse, &w.y, &c->err));
    else if (scored)
        CHECK_OK(c, fth_layer_augru(c->graph, "r", w.x, w.score, N, &w.y, &c->err));
    else
        CHECK_OK(c, fth_layer_gru(c->graph, "r", w.x, N, reverse, &w.y, &c->err));
    split = pass;
    passes(c);
    CHECK_OK(c, fth_graph_verify(c->graph, &c->err));
    w.w = named(c->graph, "r.weight");
    w.b = named(c->graph, "r.bias");
    w.u = named(c->graph, "r.recurrent");
    struct interpret_options options = {
        .examples = EXAMPLES, .tile = (uint32_t)tile, .offsets = {offsets, NULL}};
    w.it = interpret_create(c->graph, &options);
    for (uint32_t l = 0; l < c->graph->n_lookups; l++)
        for (uint32_t r = 0; r < offsets[EXAMPLES]; r++)
            for (uint32_t j = 0; j < c->graph->lookups[l].dim; j++)
                *interpret_row_at(w.it, l, r, j) = 2 * number(r + 1, j + 3) + (l ? 1 : 0);
    for (uint32_t v = 0; v < c->graph->n_values; v++)
        for (uint32_t r = 0; c->graph->values[v].role == FTH_ROLE_PARAMETER && r < c->graph->values[v].rows; r++)
            for (uint32_t j = 0; j < c->graph->values[v].columns; j++)
                *interpret_at(w.it, (fth_id)v, r, j) = number(v + 2 + r, j + 1);
    interpret_refresh(w.it);
    interpret_run(w.it, FTH_FORWARD);
    compare(&w);
    interpret_destroy(w.it);
    fth_graph_destroy(c->graph);
}

static void test_against_plain_loops(void **state) {
    for (int pass = 0; pass < 3; pass++)
        for (int tile = 1; tile <= EXAMPLES; tile += 4) {
            world_run(0, 0, 0, tile, pass);
            world_run(0, 1, 0, tile, pass);
            world_run(0, 0, 1, tile, pass);
            world_run(1, 0, 0, tile, pass);
            world_run(1, 1, 0, tile, pass);
        }
}

/* ---- drawn negatives ---- */

/* The loss of examples whose x is e_p (a one-hot of its position) and whose h is all ones times t: every product is
 * t, so that what is drawn does not matter to the loss, and dx shows which rows were drawn. */
static void test_drawn_negatives(void **state) {
    struct gradcheck check = {0};
    struct gradcheck *c = &check;
    enum { COLUMNS = 51 };
    CHECK_OK(c, fth_graph_create(0, &c->graph, &c->err));
    fth_id x = gradcheck_input(c, 0, COLUMNS), h = gradcheck_input(c, 0, COLUMNS), user = gradcheck_input(c, -1, 2);
    CHECK_OK(c, fth_layer_next_loss(c->graph, "next", h, x, FTH_NONE, 3, &c->err));
    CHECK_OK(c, fth_layer_linear(c->graph, "out", user, 1, 1, &c->graph->logit, &c->err));
    CHECK_OK(c, fth_layer_loss(c->graph, 0, &c->err));
    CHECK_OK(c, fth_graph_differentiate(c->graph, &c->err));
    CHECK_OK(c, fth_graph_verify(c->graph, &c->err));
    float first_step[COLUMNS][COLUMNS];
    for (int run = 0; run < 3; run++) {
        struct interpret_options options = {.examples = EXAMPLES, .tile = run == 1 ? 1 : EXAMPLES,
                                            .offsets = {offsets, NULL}, .seed = 5, .step = run == 2 ? 2 : 1};
        struct interpret *it = interpret_create(c->graph, &options);
        for (uint32_t r = 0; r < COLUMNS; r++)
            for (uint32_t j = 0; j < COLUMNS; j++) {
                *interpret_row_at(it, 0, r, j) = r == j;
                *interpret_row_at(it, 1, r, j) = 0.25f;
            }
        for (uint32_t r = 0; r < EXAMPLES; r++)
            *interpret_row_at(it, 2, r, 0) = *interpret_row_at(it, 2, r, 1) = *interpret_at(it, c->graph->label, r, 0) = 0;
        interpret_run(it, FTH_BACKWARD);
        fth_id dh = c->graph->values[h].gradient;
        int apart = 0;
        double want = 0, plain = log(2);
        for (uint32_t i = 0; i < EXAMPLES; i++) {
            uint32_t n = offsets[i + 1] - offsets[i];
            double up = log1p(exp(-0.25)), down = run == 1 ? 0 : log1p(exp(0.25));
            want += n > 1 ? 3 * (up + down) / EXAMPLES : 0;
            for (uint32_t t = offsets[i]; t < offsets[i + 1]; t++) {
                int drawn = 0;
                for (uint32_t j = 0; j < COLUMNS; j++) {
                    float d = *interpret_at(it, dh, t, j), slope = 3.0f / (EXAMPLES * (n - 1.0f));
                    int last = t + 1 == offsets[i + 1], next = !last && j == t + 1, own = j >= offsets[i] && j < offsets[i + 1];
                    if (d > 0) { /* a negative pulls the other way */
                        assert_false(own);
                        assert_true(fabs(d - slope * sigmoid(0.25)) < 1e-6);
                        drawn++;
                    } else
                        assert_true(fabs(d - (next ? slope * (sigmoid(0.25) - 1) : 0)) < 1e-6);
                    if (!run)
                        first_step[t][j] = d;
                    apart += first_step[t][j] != d;
                }
                assert_int_equal(drawn, run != 1 && t + 1 < offsets[i + 1]);
            }
        }
        assert_true(run ? apart > 20 : apart == 0); /* another step, other draws; alone in a tile: none */
        assert_true(fabs(*interpret_at(it, c->graph->loss, 0, 0) - want - plain) < 1e-5);
        interpret_destroy(it);
    }
    fth_graph_destroy(c->graph);
}

static void test_every_op_was_checked(void **state) {
    gradcheck_all_ran("test_gradients_recurrent");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_against_plain_loops),
        cmocka_unit_test(test_drawn_negatives),
        cmocka_unit_test(test_every_op_was_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
