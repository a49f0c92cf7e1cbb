/* After the first steps a step (lookup, forward, backward, updates) asks nothing of the allocator and nothing
 * of the system. Allocations are counted; system calls are forbidden: a child process puts a filter before
 * itself under which any of them ends it, and goes on stepping. For every model. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "count_alloc.h"
#include "model/model.h"
#include "must.h"
#include "runs.h"
#include "train/session_private.h"

enum { WARM = 3, STEPS = 10 };

struct stepper {
    fth_session *session;
    fth_plan *plan;
    fth_feature_program *program;
    struct fth_batch *batch; /* the first one, used again and again */
};

/* A copy of the first batch. The reader is gone afterwards: its threads, reading ahead, would be counted. */
static void first_batch(struct stepper *s) {
    fth_error err = {0};
    fth_feature_pass *pass = NULL;
    fth_reader *reader = NULL;
    struct fth_batch *batch = NULL;
    must(fth_session_train_set(s->session, &err), &err);
    must(fth_session_program_for(s->session, s->session->train_set, 1, &s->program, &err), &err);
    must(fth_feature_pass_create(s->program, NULL, 0, &pass, &err), &err);
    struct fth_transform transform = fth_feature_pass_transform(pass);
    struct fth_reader_options options = {.batch_size = 100, .seed = 7, .epochs = 1, .train = 1};
    must(fth_reader_create(s->session->train_set, &transform, &options, &reader, &err), &err);
    must(fth_reader_next(reader, &batch, &err), &err);
    assert_non_null(batch);
    must(fth_batch_create(fth_feature_schema(s->program), batch->n, &s->batch, &err), &err);
    for (uint32_t i = 0; i < batch->n; i++)
        must(fth_batch_append(s->batch, batch, &(uint32_t){i}, 1, &err), &err);
    fth_reader_release(reader, batch);
    fth_reader_destroy(reader);
    fth_feature_pass_destroy(pass);
}

static struct stepper make(const char *model, const char *const *overrides, size_t n) {
    struct stepper s = {0};
    fth_error err = {0};
    fth_config *config = NULL;
    const char *text = run_config(model, run_data(0));
    must(fth_config_parse("test", text, strlen(text), overrides, n, &config, &err), &err);
    must(fth_session_create(config, FTH_FOR_ALL, &s.session, &err), &err);
    fth_config_free(config);
    must(fth_session_plan(s.session, 1, &s.plan, &err), &err);
    first_batch(&s);
    return s;
}

static void destroy(struct stepper *s) {
    fth_batch_destroy(s->batch);
    fth_feature_destroy(s->program);
    fth_session_destroy(s->session);
}

/* As fth_session_train does it, the reader's side apart. */
static int step(struct stepper *s, uint64_t number) {
    const struct fth_config *config = s->session->config;
    struct fth_opt_args opt, no_decay, sparse;
    fth_optimizer_args(s->session->dense_optimizer, &config->dense_optimizer, &config->schedule, number,
                       s->batch->n, 1, &opt);
    fth_optimizer_args(s->session->dense_optimizer, &config->dense_optimizer, &config->schedule, number,
                       s->batch->n, 0, &no_decay);
    struct fth_step run = {.batch = s->batch, .opt = &opt, .opt_no_decay = &no_decay, .seed = 7,
                           .step = number};
    if (s->session->embedding) {
        fth_optimizer_args(fth_optimizer_find(config->sparse_optimizer.name), &config->sparse_optimizer,
                           &config->schedule, number, s->batch->n, 1, &sparse);
        if (fth_embedding_prepare(s->session->embedding, s->session->pool, s->batch, 1, number, NULL) !=
            FTH_OK)
            return 0;
        fth_embedding_set_args(s->session->embedding, &sparse, NULL);
        run.rows = fth_embedding_rows(s->session->embedding);
    }
    fth_plan_run(s->plan, s->session->pool, &run);
    return 1;
}

static const char *const one_thread[] = {"threads=1"};
static const char *const three_threads[] = {"threads=3"};
static const char *const clipped[] = {"threads=1", "train.clip_norm=0.5", "without=[packing]"};

/* Plans are cut for this machine's cores; a batch of 512 has smaller tiles on more than eight. */
static void test_cores(void **state) {
    static const char *const small[] = {"train.batch_size=512", "threads=1"}, *const asked[] = {"tile=48", "threads=1"};
    struct stepper s = make("deepfm", small, 2);
    struct fth_plan_options options;
    fth_session_plan_options(s.session, 1, &options);
    assert_int_equal(options.cores, fth_cpu_get()->cores);
    assert_int_equal(fth_session_tile(s.session, 2), 64);
    assert_int_equal(fth_session_tile(s.session, 16), 32);
    assert_int_equal(fth_session_tile(s.session, 0), fth_session_tile(s.session, fth_cpu_get()->cores));
    destroy(&s);
    s = make("deepfm", asked, 2);
    assert_int_equal(fth_session_tile(s.session, 16), 48);
    destroy(&s);
}

static void test_no_allocation(void **state) {
    if (!count_alloc_works())
        skip();
    for (const struct fth_model *const *model = fth_models(); *model; model++)
        for (int variant = 0; variant < 3; variant++) {
            struct stepper s = variant == 0   ? make((*model)->name, one_thread, 1)
                               : variant == 1 ? make((*model)->name, three_threads, 1)
                                              : make((*model)->name, clipped, 3);
            for (uint64_t i = 1; i <= WARM; i++)
                assert_true(step(&s, i));
            count_alloc_start();
            for (uint64_t i = WARM + 1; i <= WARM + STEPS; i++)
                step(&s, i);
            struct count_alloc counted = count_alloc_stop();
            if (counted.allocations || counted.mappings)
                fail_msg("%s, variant %d: %ld allocations, %ld mappings in %d steps", (*model)->name, variant,
                         counted.allocations, counted.mappings, STEPS);
            destroy(&s);
        }
}

/* ---- system calls ---- */

static int *forbidden; /* shared with the child: the call that was made */

static void on_forbidden(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    *forbidden = info->si_syscall;
    syscall(SYS_exit_group, 1);
}

/* From here on every system call but exit_group is trapped. 0: the system has no filters. */
static int forbid_calls(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    struct sigaction action = {.sa_sigaction = on_forbidden, .sa_flags = SA_SIGINFO};
    return sigaction(SIGSYS, &action, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

enum { CLEAN = 0, CALLED = 1, NO_FILTERS = 2, REFUSED = 3 };

/* Steps in a child without system calls; `call` makes one on purpose. The session is made in the child: its
 * one worker is the thread that steps. */
static int step_without_calls(const char *model, const char *const *overrides, size_t n, int call) {
    (void)run_data(0); /* here: a child that ends so would leave its folder */
    fflush(NULL);
    *forbidden = -1;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct stepper s = make(model, overrides, n);
        int ok = 1;
        for (uint64_t i = 1; i <= WARM; i++)
            ok = ok && step(&s, i);
        if (!ok || !forbid_calls())
            _exit(ok ? NO_FILTERS : REFUSED);
        for (uint64_t i = WARM + 1; i <= WARM + STEPS; i++)
            step(&s, i);
        if (call)
            syscall(SYS_getppid);
        syscall(SYS_exit_group, CLEAN);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status))
        fail_msg("%s: the child ended with signal %d", model, WTERMSIG(status));
    return WEXITSTATUS(status);
}

static void test_no_system_call(void **state) {
    if (!count_alloc_works()) /* a sanitizer makes calls of its own */
        skip();
    forbidden = mmap(NULL, sizeof *forbidden, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(forbidden != MAP_FAILED);
    int result = step_without_calls("lr", one_thread, 1, 1);
    if (result == NO_FILTERS) {
        print_message("no seccomp filters on this system: system calls are not checked\n");
        skip();
    }
    assert_int_equal(result, CALLED); /* the filter works */
    assert_int_equal(*forbidden, SYS_getppid);
    for (const struct fth_model *const *model = fth_models(); *model; model++)
        for (int variant = 0; variant < 2; variant++) {
            result = variant ? step_without_calls((*model)->name, clipped, 3, 0)
                             : step_without_calls((*model)->name, one_thread, 1, 0);
            if (result != CLEAN)
                fail_msg("%s: result %d, system call %d in a step", (*model)->name, result, *forbidden);
        }
    munmap(forbidden, sizeof *forbidden);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_system_call),
        cmocka_unit_test(test_cores),
        cmocka_unit_test(test_no_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
