/* runtime/run.c: numbers too small to be normal are 0 in a step, on every worker, and nowhere else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
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
        if (status == FTH_OK)
            status = fth_session_train(session, NULL, NULL, &err);
        if (status != FTH_OK)
            fail_msg("%s", err.message);
        assert_int_equal(session->step, 1);
        for (uint32_t i = 0; i < session->parameters->n; i++) {
            const struct fth_parameter *p = &session->parameters->items[i];
            assert_int_equal(p->n_slots, 1);
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_vanish)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
