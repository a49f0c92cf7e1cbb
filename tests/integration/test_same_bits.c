/* The trained model is a function of (configuration, data, seed): threads, queues, blocks, compression,
 * packing, and stopping and resuming change no bit of it. Compared are the digests of whole trainings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/cpu.h"
#include "base/text.h"
#include "data_support.h"
#include "runs.h"

/* Ragged and not; between them dropout, batch norm, Dice, pooled and kept sequences. */
static const char *const both[] = {"wide_deep", "din", "mmoe", "dien", "star"};

static void reference(struct run *run, const char *model) {
    *run = (struct run){.config = run_config(model, run_data(0))};
    run_train_ok(run);
    assert_true(run->training.steps > 30);
}

static void same(const struct run *expected, const struct run *run, const char *what) {
    if (strcmp(expected->digest, run->digest))
        fail_msg("%s: digest %s instead of %s", what, run->digest, expected->digest);
}

/* The digest sees what it should: another seed, learning rate, batch size or line of data is another model. */
static void test_digest_tells_apart(void **state) {
    static const char *const changes[] = {"seed=8", "optimizer.dense.lr=0.011", "optimizer.sparse.lr=0.051",
                                          "optimizer.linear={name: ftrl}", "optimizer.linear={name: adagrad, lr: 0.01}",
                                          "train.batch_size=99", "data.shuffle=201",
                                          "train.label_smoothing=0.01",
                                          "features.numeric.0.quantiles=6", "train.max_steps=38"};
    struct run expected;
    reference(&expected, "wide_deep");
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct run run = {.config = run_config("wide_deep", run_data(0)), .overrides = {changes[i]}};
        run_train_ok(&run);
        if (!strcmp(run.digest, expected.digest))
            fail_msg("%s changed nothing", changes[i]);
    }
}

static void test_machine_does_not_matter(void **state) {
    static const char *const changes[][3] = {
        {"threads=1"},
        {"threads=8"},
        {"data.queue_depth=1"},
        {"data.queue_depth=8"},
        {"data.block_bytes=1024"},
        {"data.parse_threads=3"},
        {"data.direct_reads=on"},
        {"data.direct_reads=on", "data.parse_threads=3"},
        {"threads=8", "data.parse_threads=3", "data.queue_depth=1"},
        {"data.block_bytes=1024", "data.parse_threads=3", "data.queue_depth=8"},
        {"without=[packing]"},
        {"without=[packing]", "threads=8"},
        {"embedding.huge_pages=true"},
        {"checkpoint.every_steps=7"},
    };
    for (size_t m = 0; m < 4; m++) {
        struct run expected;
        reference(&expected, both[m]);
        for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
            struct run run = {.config = run_config(both[m], run_data(0)), .dir = run_new_dir()};
            for (size_t k = 0; k < 3; k++)
                run.overrides[k] = changes[i][k];
            run_train_ok(&run);
            same(&expected, &run, changes[i][0]);
        }
        struct run packed = {.config = run_config(both[m], run_data(1))};
        run_train_ok(&packed);
        same(&expected, &packed, "gzip");
        struct run direct = {.config = run_config(both[m], run_data(1)), .overrides = {"data.direct_reads=on"}};
        run_train_ok(&direct);
        same(&expected, &direct, "gzip, past the page cache");
    }
}

/* Maxima of lists that share a table: rows are found part by part where a batch has few keys a worker, else not. */
static void test_maxima_of_a_shared_table(void **state) {
    static const char config[] =
        "data: {format: csv, label: y, train: %s}\n"
        "features: {categorical: [{columns: [a, b], separator: \";\", pooling: max, table: t}, {columns: [c]}]}\n"
        "embedding: {dim: 4}\nmodel: {name: %s}\ntrain: {batch_size: 32, epochs: 1}\nseed: 3\n";
    static const char *const models[] = {"lr", "deepfm"};
    struct fth_text text = {0};
    char yaml[1024];
    fth_text_printf(&text, "y,a,b,c\n");
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t x = i * 2654435761u;
        fth_text_printf(&text, "%u,t%u;t%u,t%u;t%u;t%u,%u\n", x >> 31, x >> 5 & 255, x >> 9 & 255, x >> 13 & 255, x >> 17 & 255,
                        x >> 21 & 255, x >> 3 & 15);
    }
    write_file(temp_path("maxima.csv"), text.data, text.length);
    for (size_t m = 0; m < 2; m++) {
        snprintf(yaml, sizeof yaml, config, temp_path("maxima.csv"), models[m]);
        static const char *const changes[] = {"threads=1", "threads=2", "threads=4", "threads=16", "without=[packing]"};
        struct run expected = {.config = yaml, .overrides = {changes[0]}};
        run_train_ok(&expected);
        for (size_t i = 1; i < sizeof changes / sizeof *changes; i++) {
            struct run run = {.config = yaml, .overrides = {changes[i]}};
            run_train_ok(&run);
            same(&expected, &run, changes[i]);
        }
    }
    fth_text_free(&text);
}

/* Linear terms with an optimizer of their own: the same bits stopped and gone on with, on one thread, unpacked; and those
 * without, where it is the same one. */
static void test_linear_optimizer(void **state) {
    static const char *const ftrl = "optimizer.linear={name: ftrl, lr: 0.1, l1: 0.01}";
    static const char *const changes[] = {NULL, "threads=1", "without=[packing]", "checkpoint.every_steps=7"};
    struct run expected = {.config = run_config("wide_deep", run_data(0)), .overrides = {ftrl}}, plain;
    run_train_ok(&expected);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct run run = {.config = expected.config, .dir = run_new_dir(), .overrides = {ftrl, changes[i]}, .stop_after = 11};
        run_train_ok(&run);
        assert_int_equal(run.training.steps, 11);
        run.stop_after = 0;
        run_resume_ok(&run);
        same(&expected, &run, changes[i] ? changes[i] : "resumed");
    }
    reference(&plain, "wide_deep");
    struct run named = {.config = plain.config, .overrides = {"optimizer.linear={name: adagrad, lr: 0.05}"}};
    run_train_ok(&named);
    same(&plain, &named, "the sparse one by name");
}

/* Batches large enough for the first layer to be factorised: that it was, shows in the digest without it. */
static void test_factorised(void **state) {
    static const char *const changes[][3] = {{"threads=1"},
                                             {"threads=8", "data.parse_threads=3"},
                                             {"without=[packing]"},
                                             {"without=[weight_panels, fuse_updates, round_once]", "threads=3"},
                                             {"data.block_bytes=1024", "data.queue_depth=1"}};
    static const char *const large = "train.batch_size=400", *const wide = "embedding.dim=8";
    struct run expected = {.config = run_config("wide_deep", run_data(0)), .overrides = {large, wide}};
    run_train_ok(&expected);
    struct run plain = {.config = run_config("wide_deep", run_data(0)),
                        .overrides = {large, wide, "without=[factorise_first_layer]"}};
    run_train_ok(&plain);
    assert_string_not_equal(expected.digest, plain.digest);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct run run = {.config = run_config("wide_deep", run_data(0)), .dir = run_new_dir(),
                          .stop_after = 3, .overrides = {large, wide}};
        for (size_t k = 0; k < 3; k++)
            run.overrides[2 + k] = changes[i][k];
        run_train_ok(&run);
        assert_true(run.training.interrupted);
        run.stop_after = 0;
        run_resume_ok(&run);
        same(&expected, &run, changes[i][0]);
    }
}

/* A product without the zeros of ReLU has the bits of the whole one: both add up in the same order. */
static void test_zeros_left_out(void **state) {
    static const char *const models[] = {"wide_deep", "deepfm", "dcnv2", "star"};
    if (fth_cpu_get()->isa == FTH_ISA_SCALAR)
        skip();
    for (size_t i = 0; i < 4; i++) {
        struct run expected = {.config = run_config(models[i], run_data(0)), .overrides = {"model.hidden=[96, 64]"}};
        run_train_ok(&expected);
        struct run whole = {.config = run_config(models[i], run_data(0)),
                            .overrides = {"model.hidden=[96, 64]", "without=[skip_zeros]", "threads=3"}};
        run_train_ok(&whole);
        same(&expected, &whole, models[i]);
    }
}

static const char *const precisions[] = {"precision=bf16", "precision=bf16x3", "precision=bf16x6"};

/* Weights kept in panels of bf16 are what products round themselves; a restored model has them, too. */
static void test_reduced_precision(void **state) {
    if (!fth_cpu_get()->avx512_bf16)
        skip();
    for (size_t i = 0; i < 3; i++) {
        struct run expected = {.config = run_config("wide_deep", run_data(0)), .overrides = {precisions[i]}};
        run_train_ok(&expected);
        struct run plain = {.config = run_config("wide_deep", run_data(0)),
                            .overrides = {precisions[i], "without=[weight_panels, fuse_updates, round_once]", "threads=3"}};
        run_train_ok(&plain);
        same(&expected, &plain, precisions[i]);
        struct run run = {.config = run_config("wide_deep", run_data(0)), .dir = run_new_dir(), .stop_after = 9,
                          .overrides = {precisions[i]}};
        run_train_ok(&run);
        run.stop_after = 0;
        run_resume_ok(&run);
        same(&expected, &run, precisions[i]);
    }
}

/* How many tiles a worker takes together depends on how many workers there are. Nothing but ReLU between the layers, so
 * that products round what they make (pass round_once). By AMX alone; tiles together by fp32: unit.runtime.test_run. */
static void test_tiles_together(void **state) {
    static const char *const threads[] = {"threads=1", "threads=3"};
    if (!fth_cpu_get()->amx_bf16)
        skip();
    for (size_t i = 0; i < 3; i++) {
        struct run expected = {.config = run_config("wide_deep", run_data(0)),
                               .overrides = {precisions[i], "train.batch_size=400", "model.hidden=[96, 64, 32]",
                                             "model.dropout=0", "model.batch_norm=false", "threads=8"}};
        run_train_ok(&expected);
        for (size_t t = 0; t < 2; t++) {
            struct run run = expected;
            run.overrides[5] = threads[t];
            run_train_ok(&run);
            same(&expected, &run, threads[t]);
        }
    }
}

/* Every kind of place: the first step, in mid-epoch, the last step of an epoch, the last of all. */
static void test_stop_and_resume(void **state) {
    for (size_t m = 0; m < 4; m++) {
        struct run expected;
        reference(&expected, both[m]);
        uint64_t all = expected.training.steps, epoch = all / 3;
        const uint64_t stops[] = {1, 2, epoch - 1, epoch, epoch + 1, 2 * epoch, all - 1, all};
        for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
            struct run run = {.config = run_config(both[m], run_data(0)), .dir = run_new_dir(),
                              .stop_after = stops[i]};
            char what[64];
            snprintf(what, sizeof what, "%s stopped after step %u", both[m], (unsigned)stops[i]);
            run_train_ok(&run);
            assert_int_equal(run.training.steps, stops[i]);
            assert_true(run.training.interrupted); /* behind the last step before its evaluation */
            run.stop_after = 0;
            run_resume_ok(&run);
            same(&expected, &run, what);
            run_resume_ok(&run); /* finished: nothing more happens */
            assert_int_equal(run.training.steps, 0);
            same(&expected, &run, what);
        }
    }
}

/* Stopped again and again, each time going on with other threads, queues, blocks and packs, from a compressed
 * file. */
static void test_resume_elsewhere(void **state) {
    static const char *const machines[][3] = {{"threads=1"},
                                              {"threads=8", "data.parse_threads=3"},
                                              {"data.block_bytes=1024", "data.queue_depth=1"},
                                              {"without=[packing]"},
                                              {"without=[]", "data.queue_depth=8"}};
    for (size_t m = 0; m < 4; m++) {
        struct run expected;
        reference(&expected, both[m]);
        struct run run = {.config = run_config(both[m], run_data(1)), .dir = run_new_dir(), .stop_after = 5};
        run_train_ok(&run);
        for (size_t i = 0; run.training.interrupted; i++) {
            for (size_t k = 0; k < 3; k++)
                run.overrides[k] = machines[i % 5][k];
            run.stop_after += 5;
            run_resume_ok(&run);
        }
        same(&expected, &run, both[m]);
    }
}

/* Models with operations of their own: threads, and a stop in mid-epoch. */
static void test_other_models(void **state) {
    static const char *const others[] = {"xdeepfm", "can", "two_tower", "dsin", "atbrg"};
    for (size_t m = 0; m < sizeof others / sizeof *others; m++) {
        struct run expected, run;
        reference(&expected, others[m]);
        run = (struct run){.config = run_config(others[m], run_data(0)), .dir = run_new_dir(),
                           .overrides = {"threads=1"}, .stop_after = 7};
        run_train_ok(&run);
        assert_true(run.training.interrupted);
        run.stop_after = 0;
        run.overrides[0] = "threads=8";
        run_resume_ok(&run);
        same(&expected, &run, others[m]);
    }
}

/* Early stopping decides from evaluations before and after the stop. */
static void test_early_stopping(void **state) {
    static const char *const settings[] = {"train.eval_every=4", "train.early_stopping.metric=log_loss",
                                           "train.early_stopping.patience=3", "train.epochs=40",
                                           "optimizer.dense.lr=0.05"};
    struct run expected = {.config = run_config("wide_deep", run_data(0))};
    memcpy(expected.overrides, settings, sizeof settings);
    run_train_ok(&expected);
    assert_true(expected.training.stopped_early);
    uint64_t last = expected.training.steps;
    assert_true(last >= 12);
    const uint64_t stops[] = {3, 4, last - 5, last - 4, last - 1};
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        struct run run = {.config = run_config("wide_deep", run_data(0)), .dir = run_new_dir(),
                          .stop_after = stops[i]};
        memcpy(run.overrides, settings, sizeof settings);
        run_train_ok(&run);
        assert_true(run.training.interrupted);
        run.stop_after = 0;
        run_resume_ok(&run);
        assert_true(run.training.stopped_early);
        assert_int_equal(run.training.steps, last - stops[i]);
        assert_int_equal(run.training.best_step, expected.training.best_step);
        same(&expected, &run, "early stopping");
    }
}

/* A run that ends at max_steps and is then allowed more is the longer run. Its evaluation at the end, which the
 * longer run does not make, must leave no trace. */
static void test_more_steps(void **state) {
    static const char *const settings[] = {"train.early_stopping.metric=auc", "train.early_stopping.patience=2",
                                           "train.epochs=3"};
    struct run expected = {.config = run_config("wide_deep", run_data(0))};
    memcpy(expected.overrides, settings, sizeof settings);
    run_train_ok(&expected);
    struct run run = {.config = run_config("wide_deep", run_data(0)), .dir = run_new_dir()};
    memcpy(run.overrides, settings, sizeof settings);
    run.overrides[3] = "train.max_steps=10";
    run_train_ok(&run);
    assert_int_equal(run.training.steps, 10);
    assert_true(run.training.evaluated);
    run.overrides[3] = "train.max_steps=0";
    run_resume_ok(&run);
    same(&expected, &run, "more steps");
}

/* Checkpoints on the way: whatever step they are due at, the last of an epoch and of all included. */
static void test_periodic_checkpoints(void **state) {
    struct run expected;
    reference(&expected, "wide_deep");
    uint64_t all = expected.training.steps;
    for (uint64_t every = 1; every <= all; every = every < 3 ? every + 1 : every * 2 - 1) {
        char due[64];
        snprintf(due, sizeof due, "checkpoint.every_steps=%u", (unsigned)every);
        struct run run = {.config = run_config("wide_deep", run_data(0)), .dir = run_new_dir(),
                          .overrides = {due}};
        run_train_ok(&run);
        same(&expected, &run, due);
    }
    char last[64];
    snprintf(last, sizeof last, "checkpoint.every_steps=%u", (unsigned)all);
    struct run run = {.config = run_config("wide_deep", run_data(0)), .dir = run_new_dir(),
                      .overrides = {last}};
    run_train_ok(&run);
    same(&expected, &run, last);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digest_tells_apart), cmocka_unit_test(test_maxima_of_a_shared_table),
        cmocka_unit_test(test_linear_optimizer),
        cmocka_unit_test(test_machine_does_not_matter),
        cmocka_unit_test(test_stop_and_resume),    cmocka_unit_test(test_resume_elsewhere),
        cmocka_unit_test(test_other_models),
        cmocka_unit_test(test_early_stopping),     cmocka_unit_test(test_more_steps),
        cmocka_unit_test(test_periodic_checkpoints), cmocka_unit_test(test_factorised),
        cmocka_unit_test(test_reduced_precision), cmocka_unit_test(test_zeros_left_out),
        cmocka_unit_test(test_tiles_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
