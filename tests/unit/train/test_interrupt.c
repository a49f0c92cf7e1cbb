/* Training on a pipe that says nothing any more: an interruption is heard all the same, and what was trained is saved. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "data_support.h"
#include "fathom/session.h"
#include "runs.h"

static char pipe_path[300];
static int pipe_end = -1;

#define TIMES 4 /* the header is looked for in the first 64 KB */
#define STEPS (TIMES * RUN_LINES / 100 - 1) /* the last block may go on */

static int stays_open;

/* All lines, again and again, and then nothing. */
static void *write_lines(void *arg) {
    size_t n = 0, header;
    char *text = read_whole(run_data(0), &n);
    (void)arg;
    header = (size_t)(strchr(text, '\n') + 1 - text);
    pipe_end = open(pipe_path, O_WRONLY);
    for (int i = 0; i < TIMES; i++)
        for (size_t wrote = 0, done = i ? header : 0; done < n; done += wrote)
            wrote = (size_t)write(pipe_end, text + done, n - done);
    if (!stays_open)
        close(pipe_end);
    free(text);
    return NULL;
}

static fth_session *training;
static atomic_uint_fast64_t steps;

static void on_loss(void *ctx, uint64_t step, double loss) {
    (void)ctx;
    (void)loss;
    atomic_store(&steps, step);
}

/* Once training has had all there is. */
static void *interrupt(void *arg) {
    (void)arg;
    while (atomic_load(&steps) < STEPS)
        usleep(1000);
    fth_session_interrupt(training);
    return NULL;
}

static void interrupted_while_waiting(const char *threads, const char *behind) {
    char train[800], dir[300];
    stays_open = !*behind;
    snprintf(train, sizeof train, "data.train=[%s%s]", pipe_path, behind);
    snprintf(dir, sizeof dir, "checkpoint.dir=%s", run_new_dir());
    const char *overrides[] = {train, dir, threads, "data.holdout.by=none", "train.epochs=1", "data.shuffle=0",
                               "data.block_bytes=1024", "features.numeric=[{columns: [hours]}]"};
    fth_config *config = NULL;
    fth_session *session = NULL;
    fth_training result;
    fth_error err = {0};
    pthread_t writer, interrupter;
    const char *text = run_config("fm", run_data(0));
    if (fth_config_parse("test", text, strlen(text), overrides, 8, &config, &err) != FTH_OK)
        fail_msg("%s", err.message);
    pthread_create(&writer, NULL, write_lines, NULL);
    if (fth_session_create(config, FTH_FOR_ALL, &session, &err) != FTH_OK)
        fail_msg("%s", err.message);
    training = session;
    atomic_store(&steps, 0);
    pthread_create(&interrupter, NULL, interrupt, NULL);
    fth_callbacks callbacks = {.loss = on_loss};
    if (fth_session_train(session, &callbacks, &result, &err) != FTH_OK)
        fail_msg("%s", err.message);
    pthread_join(interrupter, NULL);
    pthread_join(writer, NULL);
    if (stays_open)
        close(pipe_end);
    assert_true(result.interrupted);
    assert_true(result.steps == STEPS || (!stays_open && result.steps == STEPS + 1));
    assert_non_null(fth_session_checkpoint(session));
    fth_session_destroy(session);
    fth_config_free(config);
}

static void test_pipe_that_says_nothing(void **state) {
    run_data(0);
    snprintf(pipe_path, sizeof pipe_path, "%s", temp_path("pipe"));
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    alarm(60); /* else a failure would be a test that never ends */
    interrupted_while_waiting("data.parse_threads=0", "");
    interrupted_while_waiting("data.parse_threads=2", "");
}

/* The next file is a pipe that nobody has opened to write. */
static void test_pipe_without_a_writer(void **state) {
    char behind[320];
    (void)state;
    snprintf(behind, sizeof behind, ",%s.next", pipe_path);
    assert_int_equal(mkfifo(behind + 1, 0600), 0);
    alarm(60);
    interrupted_while_waiting("data.parse_threads=0", behind);
    interrupted_while_waiting("data.parse_threads=2", behind);
}

static void *interrupt_soon(void *arg) {
    (void)arg;
    usleep(50000); /* by then training waits, unless the machine is very slow */
    fth_session_interrupt(training);
    return NULL;
}

/* Without a header it is training that opens the first file, and waits for its first byte. */
static void test_pipe_that_never_begins(void **state) {
    char train[330], dir[300];
    (void)state;
    snprintf(train, sizeof train, "data.train=%s.next", pipe_path);
    snprintf(dir, sizeof dir, "checkpoint.dir=%s", run_new_dir());
    const char *overrides[] = {train, dir, "data.holdout.by=none", "train.epochs=1", "data.csv.header=false",
                               "data.csv.columns=[label, age, hours, user, item, category, hist_item, hist_category, query]",
                               "features.numeric=[{columns: [hours]}]"};
    fth_config *config = NULL;
    fth_session *session = NULL;
    fth_training result;
    fth_error err = {0};
    pthread_t interrupter;
    const char *text = run_config("fm", run_data(0));
    if (fth_config_parse("test", text, strlen(text), overrides, 7, &config, &err) != FTH_OK ||
        fth_session_create(config, FTH_FOR_ALL, &session, &err) != FTH_OK)
        fail_msg("%s", err.message);
    training = session;
    alarm(60);
    pthread_create(&interrupter, NULL, interrupt_soon, NULL);
    if (fth_session_train(session, NULL, &result, &err) != FTH_OK)
        fail_msg("%s", err.message);
    pthread_join(interrupter, NULL);
    assert_true(result.interrupted);
    assert_int_equal(result.steps, 0);
    fth_session_destroy(session);
    fth_config_free(config);
}

static atomic_int another; /* comes while what ended the last wait is taken back */

/* In place of the C library's. */
ssize_t read(int file, void *bytes, size_t n) {
    ssize_t (*real)(int, void *, size_t);
    void *symbol = dlsym(RTLD_NEXT, "read");
    memcpy(&real, &symbol, sizeof real);
    if (n == sizeof(uint64_t) && atomic_exchange(&another, 0))
        fth_session_interrupt(training);
    return real(file, bytes, n);
}

/* Asked between a training's end and a prediction, which is the next one: it does not wait. */
static void test_asked_at_the_end(void **state) {
    char dir[300];
    (void)state;
    snprintf(dir, sizeof dir, "checkpoint.dir=%s", run_new_dir());
    const char *overrides[] = {dir, "data.holdout.by=none", "train.max_steps=2"};
    fth_config *config = NULL;
    fth_training result;
    fth_error err = {0};
    const char *text = run_config("fm", run_data(0));
    if (fth_config_parse("test", text, strlen(text), overrides, 3, &config, &err) != FTH_OK ||
        fth_session_create(config, FTH_FOR_ALL, &training, &err) != FTH_OK)
        fail_msg("%s", err.message);
    alarm(60);
    another = 1;
    assert_int_equal(fth_session_train(training, NULL, &result, &err), FTH_OK);
    assert_false(result.interrupted);
    assert_int_equal(another, 0);
    char silent[310];
    uint64_t lines;
    snprintf(silent, sizeof silent, "%s.next", pipe_path);
    assert_int_equal(fth_session_predict(training, silent, stdout, &lines, &err), FTH_E_INTERRUPTED);
    fth_session_destroy(training);
    fth_config_free(config);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pipe_that_says_nothing),
                                       cmocka_unit_test(test_pipe_without_a_writer),
                                       cmocka_unit_test(test_pipe_that_never_begins),
                                       cmocka_unit_test(test_asked_at_the_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
