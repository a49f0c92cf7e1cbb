/* train/step.c: an example of the short batch that ends an epoch counts as much as any other, for every optimizer that
 * counts gradients; the only batch of an epoch is taken as it is. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/text.h"
#include "data_support.h"
#include "must.h"
#include "train/session_private.h"

/* The bias of an LR of nothing else, from 0, behind `epochs` of `lines` positive examples in batches of 10. */
static double bias_after(uint32_t lines, uint32_t epochs, const char *optimizer) {
    struct fth_text csv = {0};
    char text[1000];
    fth_config *config = NULL;
    fth_session *session = NULL;
    fth_error err = {0};
    float bias = 0;
    fth_text_printf(&csv, "label,zero\n");
    for (uint32_t i = 0; i < lines; i++)
        fth_text_printf(&csv, "1,0\n");
    const char *path = temp_path("ones.csv");
    assert_false(csv.failed);
    write_file(path, csv.data, csv.length);
    fth_text_free(&csv);
    snprintf(text, sizeof text,
             "data: {format: csv, label: label, train: '%s'}\n"
             "features: {numeric: [{columns: zero}]}\n"
             "model: {name: lr, base_rate: 0.5}\n"
             "optimizer: {dense: %s}\n"
             "train: {batch_size: 10, epochs: %u}\n", path, optimizer, epochs);
    must(fth_config_parse("test", text, strlen(text), NULL, 0, &config, &err), &err);
    must(fth_session_create(config, FTH_FOR_ALL, &session, &err), &err);
    fth_config_free(config);
    must(fth_session_train(session, NULL, NULL, &err), &err);
    assert_int_equal(session->step, (lines + 9) / 10 * epochs);
    const struct fth_output_bias *at = &session->output_biases[0];
    fth_parameter_get(&session->parameters->items[session->parameters->of_value[at->parameter]], 0, 1, &bias);
    fth_session_destroy(session);
    return (double)bias;
}

static double miss(double bias) { return 1 - 1 / (1 + exp(-bias)); }

static void the_last_example_is_a_tenth_of_a_batch(void **state) {
    double after = 0.5 + miss(0.5) / 10;
    assert_float_equal(bias_after(10, 1, "{name: sgd, lr: 1}"), 0.5, 1e-6);
    assert_float_equal(bias_after(11, 1, "{name: sgd, lr: 1}"), after, 1e-6);
    double next = after + miss(after); /* the next epoch's first batch is full */
    assert_float_equal(bias_after(11, 2, "{name: sgd, lr: 1}"), next + miss(next) / 10, 1e-6);
}

static void the_only_batch_of_an_epoch_is_taken_as_it_is(void **state) {
    assert_float_equal(bias_after(3, 1, "{name: sgd, lr: 1}"), 0.5, 1e-6);
    assert_float_equal(bias_after(3, 2, "{name: sgd, lr: 1}"), 0.5 + miss(0.5), 1e-6);
}

/* FTRL's gradients are sums: 5 of the first ten, then one example's. w = lr * sum / (beta + sqrt(sum of squares)), the
 * sum less what w moved by. */
static void ftrl_takes_the_sum(void **state) {
    const char *ftrl = "{name: ftrl, lr: 1, beta: 1, l1: 0, l2: 0}";
    double first = 5.0 / 6, g = miss(first), n = sqrt(25 + g * g), z = 5 + g + (n - 5) * first;
    assert_float_equal(bias_after(10, 1, ftrl), first, 1e-6);
    assert_float_equal(bias_after(11, 1, ftrl), z / (1 + n), 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_example_is_a_tenth_of_a_batch),
        cmocka_unit_test(the_only_batch_of_an_epoch_is_taken_as_it_is),
        cmocka_unit_test(ftrl_takes_the_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
