/* Held-out data that cannot be read any more: what was trained until then is saved before the training fails, and
 * going on from there ends in the bits of a run that never failed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "data_support.h"
#include "fathom/session.h"
#include "fathom/tools.h"
#include "runs.h"

struct loser {
    const char *file;
    uint64_t step; /* during which the file goes */
};

static void on_loss(void *ctx, uint64_t step, double loss) {
    struct loser *loser = ctx;
    (void)loss;
    if (step == loser->step)
        assert_int_equal(unlink(loser->file), 0);
}

/* Trains with an evaluation every `every` steps (0: after each epoch); the file is lost during `lost`. Where it is to
 * fail, the newest checkpoint must be of that step. */
static void fails_at(uint64_t every, uint64_t lost, uint64_t fails) {
    char held_out[300], valid[400], dir[300], checkpoint[400], eval_every[64], whole[17];
    size_t bytes = 0;
    char *text = read_whole(run_data(0), &bytes);
    snprintf(held_out, sizeof held_out, "%s", temp_path("held-out.csv"));
    write_file(held_out, text, bytes);
    snprintf(valid, sizeof valid, "data.valid=%s", held_out);
    snprintf(dir, sizeof dir, "%s", run_new_dir());
    snprintf(checkpoint, sizeof checkpoint, "checkpoint.dir=%s", dir);
    snprintf(eval_every, sizeof eval_every, "train.eval_every=%llu", (unsigned long long)every);
    struct run run = {.config = run_config("wide_deep", run_data(0)),
                      .overrides = {"data.holdout.by=none", valid, eval_every}};
    run_train_ok(&run);
    memcpy(whole, run.digest, sizeof whole);

    fth_config *config = NULL;
    fth_session *session = NULL;
    fth_error err = {0};
    const char *overrides[] = {"data.holdout.by=none", valid, eval_every, checkpoint};
    assert_int_equal(fth_config_parse("test", run.config, strlen(run.config), overrides, 4, &config, &err), FTH_OK);
    assert_int_equal(fth_session_create(config, 0, &session, &err), FTH_OK);
    struct loser loser = {held_out, lost};
    fth_callbacks callbacks = {.ctx = &loser, .loss = on_loss};
    assert_int_equal(fth_session_train(session, &callbacks, NULL, &err), FTH_E_IO);
    assert_non_null(strstr(err.message, "held-out.csv"));
    fth_session_destroy(session);
    fth_config_free(config);

    char path[400];
    snprintf(path, sizeof path, "%s/step-%012llu/manifest.json", dir, (unsigned long long)fails);
    if (access(path, R_OK) != 0)
        fail_msg("%s is not there", path);
    write_file(held_out, text, bytes);
    run.dir = dir;
    run_resume_ok(&run);
    assert_string_equal(run.digest, whole);
    free(text);
}

static void between_evaluations(void **state) {
    fails_at(6, 8, 12);
}

static void at_the_last_step_of_an_epoch(void **state) {
    fails_at(15, 9, 15);
}

static void after_an_epoch(void **state) {
    fails_at(0, 20, 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_evaluations),
        cmocka_unit_test(at_the_last_step_of_an_epoch),
        cmocka_unit_test(after_an_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
