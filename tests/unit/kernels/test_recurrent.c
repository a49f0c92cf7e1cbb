/* kernels/cpu/recurrent: every instruction set against scalar, scalar's gradients against finite differences. */
#include "kernel_test.h"

#define MOST 64

/* Example i's step is at position rows[i], the one before at previous[i]; no two alike. */
static void positions(struct call *c, uint32_t *rows, uint32_t *previous) {
    for (uint32_t i = 0; i < c->m; i++) {
        rows[i] = 2 * ((i * 7 + 3) % (uint32_t)c->m) + 1;
        previous[i] = rows[i] - 1;
    }
    for (uint32_t i = 0; i < c->m && c->m % 7 == 0; i++) /* 7 i would repeat itself */
        rows[i] = 2 * i + 1, previous[i] = 2 * i;
}

/* in_place: as passes/gates_in_place has it. */
static void forward(const struct fth_kernels *k, struct call *c, int lstm, int scored, int by_step, int in_place) {
    uint32_t rows[MOST], previous[MOST];
    size_t m = c->m, n = c->n, ld, gates = lstm ? 4 : 3;
    struct fth_recurrent cell = {.m = m, .n = n, .rows = rows, .x_by_step = by_step};
    assert_true(m <= MOST);
    positions(c, rows, previous);
    cell.x = call_in(c, by_step ? m : 2 * m, gates * n, -3, 3, &cell.ldx);
    cell.r = call_in(c, m, gates * n, -3, 3, &cell.ldr);
    size_t pad = c->pad;
    c->pad = 0; /* scores and biases are vectors */
    cell.score = scored ? call_in(c, 2 * m, 1, 0, 1, &ld) : NULL;
    cell.bias = call_in(c, 1, gates * n, -1, 1, &ld);
    c->pad = pad;
    cell.h = call_inout(c, m, n, -1, 1, &cell.ldh);
    cell.c = lstm ? call_inout(c, m, n, -2, 2, &cell.ldc) : NULL;
    cell.states = call_inout(c, 2 * m, n, 0, 1, &cell.lds);
    cell.kept = call_inout(c, 2 * m, (gates + 1) * n, -3, 3, &cell.ldk);
    if (in_place)
        cell.x = cell.kept, cell.ldx = cell.ldk;
    (lstm ? k->lstm : k->gru)(&cell);
}

static void backward(const struct fth_kernels *k, struct call *c, int lstm, int scored, int first, int in_place) {
    uint32_t rows[MOST], previous[MOST];
    size_t m = c->m, n = c->n, ld_score;
    struct fth_recurrent_grad g = {.m = m, .n = n, .rows = rows, .previous = first ? NULL : previous};
    positions(c, rows, previous);
    float *kept = (in_place ? call_inout : call_in)(c, 2 * m, (lstm ? 5 : 4) * n, 0.1f, 0.9f, &g.ldk);
    g.kept = kept;
    g.states = call_in(c, 2 * m, n, -1, 1, &g.lds);
    g.dy = call_in(c, 2 * m, n, -1, 1, &g.lddy);
    size_t pad = c->pad;
    c->pad = 0;
    g.score = scored ? call_in(c, 2 * m, 1, 0, 1, &ld_score) : NULL;
    g.dscore = scored ? call_inout(c, 2 * m, 1, 0, 1, &ld_score) : NULL;
    c->pad = pad;
    g.dh = call_inout(c, m, n, -1, 1, &g.lddh);
    g.dc = lstm ? call_inout(c, m, n, -1, 1, &g.lddc) : NULL;
    g.gates = in_place ? kept : call_inout(c, 2 * m, 4 * n, 0, 1, &g.ldg);
    g.ldg = in_place ? g.ldk : g.ldg;
    g.earlier = in_place && !first ? previous : NULL; /* fetched alone */
    g.before = call_inout(c, 2 * m, n, 0, 1, &g.ldb);
    g.dr = call_out(c, m, (lstm ? 4 : 3) * n, &g.lddr);
    (lstm ? k->lstm_grad : k->gru_grad)(&g);
}

static void run_gru(const struct fth_kernels *k, struct call *c) {
    forward(k, c, 0, 0, 0, 0);
}
static void run_gru_in_place(const struct fth_kernels *k, struct call *c) {
    forward(k, c, 0, 0, 0, 1);
}
static void run_augru(const struct fth_kernels *k, struct call *c) {
    forward(k, c, 0, 1, 1, 0);
}
static void run_lstm(const struct fth_kernels *k, struct call *c) {
    forward(k, c, 1, 0, 0, 0);
}
static void run_lstm_in_place(const struct fth_kernels *k, struct call *c) {
    forward(k, c, 1, 0, 0, 1);
}
static void run_gru_grad(const struct fth_kernels *k, struct call *c) {
    backward(k, c, 0, 0, 1, 0);
}
static void run_augru_grad(const struct fth_kernels *k, struct call *c) {
    backward(k, c, 0, 1, 0, 0);
}
static void run_augru_grad_in_place(const struct fth_kernels *k, struct call *c) {
    backward(k, c, 0, 1, 0, 1);
}
static void run_lstm_grad(const struct fth_kernels *k, struct call *c) {
    backward(k, c, 1, 0, 0, 0);
}
static void run_lstm_grad_in_place(const struct fth_kernels *k, struct call *c) {
    backward(k, c, 1, 0, 0, 1);
}
static void run_lstm_grad_first(const struct fth_kernels *k, struct call *c) {
    backward(k, c, 1, 0, 1, 0);
}

static void cells_agree(void **state) {
    check_shapes(run_gru, 4e-6f, 1);
    check_shapes(run_gru_in_place, 4e-6f, 1);
    check_shapes(run_augru, 4e-6f, 1);
    check_shapes(run_lstm, 4e-6f, 1);
    check_shapes(run_lstm_in_place, 4e-6f, 1);
    check_shapes(run_gru_grad, 4e-6f, 1);
    check_shapes(run_augru_grad, 4e-6f, 4);
    check_shapes(run_augru_grad_in_place, 4e-6f, 4);
    check_shapes(run_lstm_grad, 4e-6f, 1);
    check_shapes(run_lstm_grad_in_place, 4e-6f, 1);
    check_shapes(run_lstm_grad_first, 4e-6f, 1);
}

/* One example of three units: numbers in[] are x, its bias, r, the state (and the cell) before, the score; the sum of the
 * new state (and cell) times numbers of its own is what is differentiated. */
enum { N = 3 };
struct one {
    float x[4 * N], bias[4 * N], r[4 * N], h[N], c[N], score, kept[10 * N];
};
static const float weight[2 * N] = {0.7f, -1.1f, 0.4f, 0.9f, -0.3f, 0.5f};

static double one_run(struct one o, int lstm, struct one *kept) {
    uint32_t row = 1;
    float h[N], c[N], states[2 * N], scores[2] = {0, o.score};
    memcpy(h, o.h, sizeof h);
    memcpy(c, o.c, sizeof c);
    struct fth_recurrent cell = {.m = 1, .n = N, .rows = &row, .x = o.x, .bias = o.bias, .r = o.r, .x_by_step = 1, .h = h,
                            .c = c, .ldk = 5 * N, .lds = N, .states = states, .kept = o.kept,
                            .score = lstm ? NULL : scores};
    (lstm ? fth_kernels_for(FTH_ISA_SCALAR)->lstm : fth_kernels_for(FTH_ISA_SCALAR)->gru)(&cell);
    double sum = 0;
    for (int j = 0; j < N; j++)
        sum += weight[j] * h[j] + (lstm ? weight[N + j] * c[j] : 0);
    assert_memory_equal(h, states + N, sizeof h);
    if (kept)
        *kept = o;
    return sum;
}

static double difference(const struct one *o, int lstm, size_t offset) {
    struct one up = *o, down = *o;
    *(float *)(void *)((char *)&up + offset) += 0x1p-7f;
    *(float *)(void *)((char *)&down + offset) -= 0x1p-7f;
    return (one_run(up, lstm, NULL) - one_run(down, lstm, NULL)) * 64;
}

static void gradients_follow_differences(void **state) {
    for (int lstm = 0; lstm < 2; lstm++) {
        struct one o = {.score = 0.6f}, kept;
        for (int j = 0; j < 4 * N; j++) {
            o.x[j] = (float)(j * 5 % 7) / 4 - 0.6f;
            o.bias[j] = (float)(j * 7 % 5) / 8 - 0.3f;
            o.r[j] = (float)(j * 3 % 11) / 6 - 0.8f;
        }
        for (int j = 0; j < N; j++) {
            o.h[j] = (float)j / 3 - 0.4f;
            o.c[j] = 0.5f - (float)j / 2;
        }
        one_run(o, lstm, &kept);
        /* Position 0 is the step before, position 1 the step. */
        uint32_t row = 1, previous = 0;
        float dh[N], dc[N], gates[8 * N], before[2 * N], dr[4 * N], dscore[2], dy[2 * N] = {0};
        float all_kept[10 * N], states[2 * N], score[2] = {0, o.score};
        memcpy(dh, weight, sizeof dh);
        memcpy(dc, weight + N, sizeof dc);
        memcpy(states, o.h, sizeof dh);
        memcpy(all_kept, kept.kept, sizeof all_kept);
        memcpy(all_kept + 4 * N, o.c, sizeof dc);
        struct fth_recurrent_grad g = {.m = 1, .n = N, .rows = &row, .previous = &previous, .kept = all_kept,
                                  .ldk = 5 * N, .states = states, .lds = N, .dy = dy, .lddy = N, .dh = dh,
                                  .dc = dc, .gates = gates, .ldg = 4 * N, .before = before, .ldb = N, .dr = dr,
                                  .dscore = dscore, .score = lstm ? NULL : score};
        (lstm ? fth_kernels_for(FTH_ISA_SCALAR)->lstm_grad : fth_kernels_for(FTH_ISA_SCALAR)->gru_grad)(&g);
        int columns = lstm ? 4 * N : 3 * N;
        for (int j = 0; j < columns; j++) {
            assert_near(gates[4 * N + j], difference(&o, lstm, offsetof(struct one, x) + sizeof(float) * j), 2e-4);
            assert_near(gates[4 * N + j], difference(&o, lstm, offsetof(struct one, bias) + sizeof(float) * j), 2e-4);
            assert_near(dr[j], difference(&o, lstm, offsetof(struct one, r) + sizeof(float) * j), 2e-4);
        }
        for (int j = 0; j < N; j++) {
            assert_near(dh[j], difference(&o, lstm, offsetof(struct one, h) + sizeof(float) * j), 2e-4);
            assert_true(before[N + j] == o.h[j]);
            if (lstm)
                assert_near(dc[j], difference(&o, lstm, offsetof(struct one, c) + sizeof(float) * j), 2e-4);
            else
                assert_true(gates[7 * N + j] == dr[2 * N + j]);
        }
        if (!lstm)
            assert_near(dscore[1], difference(&o, lstm, offsetof(struct one, score)), 2e-4);
    }
}

/* Two gates share a division: however closed or open both are, their product stays a number, and NaN stays NaN. */
static void gates_saturate(void **state) {
    enum { UNITS = 36 };
    static const float far[] = {-INFINITY, -1e30f, -200, -60, 0, 60, 200, 1e30f, INFINITY};
    const struct fth_kernels *tables[3];
    const char *names[3];
    size_t count = tables_under_test(tables, names), n_far = sizeof far / sizeof *far;
    for (size_t k = 0; k < count; k++)
        for (size_t shift = 0; shift < n_far; shift++) {
            float x[3 * UNITS] = {0}, bias[3 * UNITS] = {0}, r[3 * UNITS] = {0}, h[UNITS], states[UNITS], kept[4 * UNITS];
            uint32_t row = 0;
            struct fth_recurrent cell = {.m = 1, .n = UNITS, .rows = &row, .x = x, .bias = bias, .r = r, .x_by_step = 1,
                                         .h = h, .states = states, .kept = kept};
            for (size_t j = 0; j < UNITS; j++) {
                h[j] = 0.5f;
                x[j] = far[j % n_far]; /* candidate, update, reset */
                x[UNITS + j] = far[(j + shift) % n_far];
                x[2 * UNITS + j] = j == 20 ? NAN : far[j / 4 % n_far];
            }
            tables[k]->gru(&cell);
            for (size_t j = 0; j < 3 * UNITS; j++) {
                double exact = j < UNITS ? tanh(x[j]) : 1 / (1 + exp(-(double)x[j]));
                if (j % UNITS == 20 && j != UNITS + 20) /* the reset gate and the candidate behind it */
                    assert_true(isnan(kept[j]));
                else if (j != UNITS + 20)
                    assert_near(kept[j], exact, 1e-6);
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_agree),
        cmocka_unit_test(gates_saturate),
        cmocka_unit_test(gradients_follow_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
