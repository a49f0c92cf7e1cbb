/* runtime/run.c: numbers too small to be normal are 0 in a step, on every worker, and nowhere else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xmmintrin.h>
#include <cmocka.h>

#include "data_support.h"
#include "train/session_private.h"

static const char config_text[] =
    "data: {format: csv, train: %s, label: y, weight: w}\n"
    "features: {numeric: [{columns: x}], categorical: [{columns: k}]}\n"
    "embedding: {dim: 4}\n"
    "model: {name: wide_deep, hidden: [8]}\n"
    "optimizer: {dense: {name: momentum, lr: 0.1}, sparse: {name: momentum, lr: 0.1}}\n"
    "train: {batch_size: 64}\nthreads: %d\n";

/* Half of such a weight is no normal number any more, so all gradients are 0. */
static void gradients_vanish(void **state) {
    char file[512], config[1024], lines[64 * 32];
    size_t n = (size_t)sprintf(lines, "y,w,x,k\n");
    for (int i = 0; i < 64; i++)
        n += (size_t)sprintf(lines + n, "%d,1.5e-38,%d.5,t%d\n", i % 2, i % 5, i % 7);
    snprintf(file, sizeof file, "%s", temp_path("tiny.csv"));
    write_file(file, lines, n);
    for (int threads = 1; threads <= 3; threads += 2) {
        fth_config *parsed = NULL;
        fth_session *session = NULL;
        fth_error err = {0};
        snprintf(config, sizeof config, config_text, file, threads);
        fth_status status = fth_config_parse("test", config, strlen(config), NULL, 0, &parsed, &err);
        if (status == FTH_OK)
            status = fth_session_create(parsed, FTH_FOR_ALL, &session, &err);
        /* Nine tenths of such a slot are none, either. */
        for (uint32_t i = 0; status == FTH_OK && i < session->parameters->n; i++) {
            const struct fth_parameter *p = &session->parameters->items[i];
            assert_int_equal(p->n_slots, 1);
            for (uint32_t at = 0; at < p->rows * p->ld; at++)
                p->slots[0][at] = 1.2e-38f;
        }
        if (status == FTH_OK)
            status = fth_session_train(session, NULL, NULL, &err);
        if (status != FTH_OK)
            fail_msg("%s", err.message);
        assert_int_equal(session->step, 1);
        for (uint32_t i = 0; i < session->parameters->n; i++) {
            const struct fth_parameter *p = &session->parameters->items[i];
            for (uint32_t r = 0; r < p->rows; r++)
                for (uint32_t c = 0; c < p->columns; c++)
                    assert_true(p->slots[0][(size_t)r * p->ld + c] == 0);
        }
        volatile float small = 1.5e-38f; /* the caller's arithmetic is as it was */
        assert_true(small * 0.25f > 0);
        fth_session_destroy(session);
        fth_config_free(parsed);
    }
}

static void note_control(void *control, uint32_t worker) {
    ((unsigned *)control)[worker] = _mm_getcsr();
}

/* In tiles, too: what a logit is made of, the weight times x. Behind the run every worker is as it was. */
static void check_logits(float weight, const char *x) {
    enum { LINES = 5000, WORKERS = 3 };
    static const char config[] =
        "data: {format: csv, train: %s, label: y}\nfeatures: {numeric: [{columns: x}]}\n"
        "model: {name: lr, base_rate: 0.5}\noptimizer: {dense: {name: sgd, lr: 1e-300}}\ntrain: {batch_size: 5000}\nthreads: 3\n";
    char yaml[1024], *lines = malloc(LINES * 16);
    static double out[LINES];
    unsigned before[WORKERS] = {0}, after[WORKERS] = {0};
    size_t n = (size_t)sprintf(lines, "y,x\n");
    for (int i = 0; i < LINES; i++)
        n += (size_t)sprintf(lines + n, "%d,%s\n", i % 2, x);
    write_file(temp_path("logits.csv"), lines, n);
    snprintf(yaml, sizeof yaml, config, temp_path("logits.csv"));
    fth_config *parsed = NULL;
    fth_session *session = NULL;
    fth_error err = {0};
    uint64_t count;
    uint32_t ld;
    assert_int_equal(fth_config_parse("test", yaml, strlen(yaml), NULL, 0, &parsed, &err), FTH_OK);
    assert_int_equal(fth_session_create(parsed, FTH_FOR_ALL, &session, &err), FTH_OK);
    fth_pool_run(session->pool, note_control, before);
    for (uint32_t i = 0; i < session->parameters->n; i++) {
        struct fth_parameter *p = &session->parameters->items[i];
        float value = strstr(p->name, "bias") ? 0 : weight;
        assert_int_equal(p->rows * p->columns, 1);
        fth_parameter_set(p, &value, 1);
    }
    for (int training = 0; training <= 1; training++) {
        fth_status status = training ? fth_session_train(session, NULL, NULL, &err)
                                     : fth_session_predict_text(session, lines, n, out, LINES, &count, &err);
        if (status != FTH_OK)
            fail_msg("%s", err.message);
        fth_pool_run(session->pool, note_control, after);
        assert_memory_equal(before, after, sizeof before);
        const float *logits = fth_plan_value(training ? session->train_plan : session->eval_plan, session->graph->logit, &ld);
        for (uint32_t i = 0; i < LINES && logits; i++)
            assert_true(logits[(size_t)i * ld] == 0);
        assert_true(training || logits);
    }
    fth_session_destroy(session);
    fth_config_free(parsed);
    free(lines);
}

static void logits_vanish(void **state) {
    check_logits(1e-20f, "1e-20"); /* the product is 1e-40 */
    check_logits(1e-40f, "1e3");   /* an operand is */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_vanish), cmocka_unit_test(logits_vanish)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
