/* Saving: whatever fails or stops in between, under a final name there are whole checkpoints only, the earlier
 * ones stay, and the error says which file, why, and which checkpoint is the last. */
#include <errno.h>

#include "base/log.h"
#include "world.h"

/* The system's files, but that fsync does nothing: a crash is played (fault_io.h), and real ones would take
 * most of the test's time. */
static struct fth_io quick;
static const struct fth_io *files = &quick;

static int no_fsync(void *ctx, int file) {
    (void)ctx;
    (void)file;
    return 0;
}

static char *join(const char *dir, uint64_t step) {
    static char paths[4][600];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/step-%012llu", dir, (unsigned long long)step);
    return path;
}

static void test_same_step_twice(void **state) {
    char *dir = scratch_create(), *path = NULL;
    struct world a = world_create(&(struct world_options){.seed = 1});
    OK(world_save(&a, files, dir, 0, &path, err));
    assert_string_equal(path, join(dir, 101));
    free(path);
    a.state.train_seconds += 60; /* not part of the state */
    OK(world_save(&a, files, dir, 0, &path, err));
    assert_string_equal(path, join(dir, 101));
    free(path);
    char before[17], after[17];
    digest_at(join(dir, 101), before);
    a.parameters->items[1].slots[1][3] += 1e-6f;
    REFUSED(FTH_E_CHECKPOINT, world_save(&a, files, dir, 0, NULL, err), join(dir, 101), "another state",
            "checkpoint.dir");
    digest_at(join(dir, 101), after);
    assert_string_equal(before, after);
    assert_int_equal(count_names(dir, ""), 1);
    world_destroy(&a);
    scratch_remove(dir);
}

/* A checkpoint of the step that cannot be read, left behind by whoever resumed from an earlier one, gives way, and is not
 * removed: it may be whole, but for a descriptor that lacked. */
static void test_damaged_gives_way(void **state) {
    char *dir = scratch_create(), expected[17], found[17];
    struct world a = world_create(&(struct world_options){.seed = 1});
    OK(world_save(&a, files, dir, 0, NULL, err));
    world_digest(&a, expected);
    write_bytes(scratch_path(join(dir, 101), "dense.safetensors"), "gone", 4);
    digest_at(join(dir, 101), found);
    assert_string_equal(found, "");
    OK(world_save(&a, files, dir, 2, NULL, err));
    digest_at(join(dir, 101), found);
    assert_string_equal(found, expected);
    assert_int_equal(count_names(dir, ""), 2);
    assert_int_equal(count_names(dir, ".replaced-1"), 1);
    world_destroy(&a);
    scratch_remove(dir);
}

/* A save that fails behind the rename says where its checkpoint is. */
static void test_published_but_not_synced(void **state) {
    struct world a = world_create(&(struct world_options){.seed = 1});
    int published = 0;
    for (uint64_t at = 1, fails = 1; fails; at++) {
        char *dir = scratch_create(), *path = NULL;
        struct fault_io *fault = fault_io_create(files);
        fault->fsync_at = at;
        fault->fsync_error = EIO;
        fails = world_save(&a, &fault->io, dir, 0, &path, NULL) != FTH_OK;
        assert_int_equal(path != NULL, exists(join(dir, 101)));
        published += fails && path;
        fault_io_destroy(fault);
        free(path);
        scratch_remove(dir);
    }
    assert_int_equal(published, 1);
    world_destroy(&a);
}

static void test_keep_and_sweep(void **state) {
    char *dir = scratch_create(), found[17];
    struct world a = world_create(&(struct world_options){.seed = 1});
    const char *foreign = scratch_path(dir, "notes.txt");
    write_bytes(foreign, "mine", 4);
    OK(fth_io_make_dirs(files, scratch_path(dir, ".step-000000000007.tmp"), err));
    write_bytes(scratch_path(dir, ".step-000000000007.tmp/pack-0.safetensors"), "half", 4);
    OK(fth_io_make_dirs(files, scratch_path(dir, ".step-000000000006.old.tmp"), err));
    OK(fth_io_make_dirs(files, scratch_path(dir, "step-x"), err));
    write_bytes(scratch_path(dir, ".nfs0001"), "mine", 4); /* before them in the list of names */
    for (uint64_t step = 1; step <= 6; step++) {
        a.state.step = step * 10;
        OK(world_save(&a, files, dir, 3, NULL, err));
        assert_int_equal(count_names(dir, "step-0"), step < 3 ? step : 3);
        assert_int_equal(count_names(dir, ".tmp"), 0);
    }
    assert_true(exists(join(dir, 60)) && exists(join(dir, 50)) && exists(join(dir, 40)));
    assert_true(exists(foreign) && exists(scratch_path(dir, "step-x")));
    /* Going on from an earlier one: what it saves is not thrown away for being earlier than others. */
    a.state.step = 45;
    OK(world_save(&a, files, dir, 1, NULL, err));
    digest_at(join(dir, 45), found);
    assert_true(*found);
    assert_true(exists(join(dir, 60)) && exists(join(dir, 50)) && !exists(join(dir, 40)));
    a.state.step = 70;
    OK(world_save(&a, files, dir, 0, NULL, err)); /* 0: all stay */
    assert_int_equal(count_names(dir, "step-0"), 4);
    a.best = 50; /* stays besides, as long as it is the best */
    a.state.step = 80;
    OK(world_save(&a, files, dir, 1, NULL, err));
    assert_true(exists(join(dir, 50)) && exists(join(dir, 80)));
    assert_int_equal(count_names(dir, "step-0"), 2);
    a.best = a.state.step = 90;
    OK(world_save(&a, files, dir, 1, NULL, err));
    assert_int_equal(count_names(dir, "step-0"), 1);
    world_destroy(&a);
    scratch_remove(dir);
}

static const char *write_protected; /* what has this in its path; NULL: nothing */

static int unlink_unless_protected(void *ctx, const char *path) {
    return write_protected && strstr(path, write_protected) ? -EACCES : fth_io_posix()->unlink(ctx, path);
}

static void count_staying(void *ctx, int level, const char *line) {
    *(int *)ctx += level == FTH_LOG_WARN && strstr(line, " stay");
}

/* What cannot be removed stays, by its name if it is a checkpoint, and is no reason not to save or not to remove others, but
 * in the place of what is being written. It is told once. Once it can be, it goes without another save, too. */
static void test_what_cannot_be_removed(void **state) {
    char *dir = scratch_create(), found[17];
    char left[600];
    snprintf(left, sizeof left, "%s/.step-000000000007.tmp", dir);
    struct fth_io io = quick;
    io.unlink = unlink_unless_protected;
    struct world a = world_create(&(struct world_options){.seed = 1});
    OK(fth_io_make_dirs(&io, left, err));
    write_bytes(scratch_path(left, "x"), "half", 4);
    int told = 0;
    fth_log_set(count_staying, &told);
    for (uint64_t step = 10; step <= 40; step += 10) {
        write_protected = step == 10 ? ".step-000000000007" : "step-000000000010";
        a.state.step = step;
        OK(world_save(&a, &io, dir, step <= 20 ? 2 : 1, NULL, err));
        assert_int_equal(exists(left), step == 10);
        digest_at(join(dir, 10), found);
        assert_true(*found);
        assert_int_equal(told, step < 30 ? 1 : 2);
    }
    fth_log_set(NULL, NULL);
    assert_int_equal(count_names(dir, ""), 2);
    assert_true(exists(join(dir, 40)));
    OK(fth_io_make_dirs(&io, left, err));
    write_bytes(scratch_path(left, "x"), "half", 4);
    write_protected = ".step-000000000007";
    a.state.step = 7;
    REFUSED(FTH_E_IO, world_save(&a, &io, dir, 1, NULL, err), "step-000000000007.tmp", "ermission denied");
    write_protected = NULL;
    fth_checkpoint_tidy(&io, dir);
    assert_false(exists(left));
    assert_true(exists(join(dir, 10)) && exists(join(dir, 40)));
    write_protected = "step-000000000010.old.tmp/dense"; /* of which a part goes: no checkpoint any more */
    a.state.step = 50;
    OK(world_save(&a, &io, dir, 1, NULL, err));
    assert_false(exists(join(dir, 10)));
    write_protected = NULL;
    fth_checkpoint_tidy(&io, dir);
    assert_int_equal(count_names(dir, ""), 1);
    digest_at(join(dir, 50), found);
    assert_true(*found);
    world_destroy(&a);
    scratch_remove(dir);
}

/* A model that has diverged, in its weights or in its optimizers' slots, is not saved, and what was saved before stays. */
static void test_diverged(void **state) {
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    char *dir = scratch_create();
    struct world a = world_create(&(struct world_options){.seed = 1});
    OK(world_save(&a, files, dir, 1, NULL, err));
    float *dense[] = {&a.parameters->items[0].data[3], &a.parameters->items[0].slots[0][3]};
    for (int i = 0; i < 6; i++) {
        float good = *dense[i / 3];
        a.state.step++;
        *dense[i / 3] = bad[i % 3];
        REFUSED(FTH_E_NUMERIC, world_save(&a, files, dir, 1, NULL, err), i < 3 ? "deep.weight holds" : "deep.weight/",
                "not finite", join(dir, 101));
        *dense[i / 3] = good;
    }
    uint64_t key = 3, count = 1, step = 1;
    uint32_t table = 0;
    float weights[64] = {0, 0, NAN}, slots[2][64] = {{0}};
    struct fth_row_arrays row = {.keys = &key, .tables = &table, .weights = weights, .slots = {slots[0], slots[1]},
                                 .frequency = &count, .last_step = &step};
    OK(import_rows(a.embedding, 0, 1, &row, err));
    REFUSED(FTH_E_NUMERIC, world_save(&a, files, dir, 1, NULL, err), "pack-0.safetensors: weights", "not finite");
    world_destroy(&a);
    a = world_create(&(struct world_options){.seed = 1});
    a.state.step++;
    weights[2] = 0;
    slots[0][1] = INFINITY;
    OK(import_rows(a.embedding, 0, 1, &row, err));
    REFUSED(FTH_E_NUMERIC, world_save(&a, files, dir, 1, NULL, err), "pack-0.safetensors: ", "not finite");
    assert_int_equal(count_names(dir, ""), 1);
    assert_true(exists(join(dir, 101)));
    world_destroy(&a);
    scratch_remove(dir);
}

/* What is in `dir` after a save of `b` over the checkpoint of `a` was disturbed. */
static void check_left(const char *dir, const struct world *a, const struct world *b, fth_status status,
                       const fth_error *err, int crashed) {
    char old[17], new[17], at_a[17], at_b[17];
    world_digest(a, old);
    world_digest(b, new);
    digest_at(join(dir, a->state.step), at_a);
    digest_at(join(dir, b->state.step), at_b);
    if (exists(join(dir, a->state.step)))
        assert_string_equal(at_a, old);
    if (exists(join(dir, b->state.step)))
        assert_string_equal(at_b, new);
    assert_true(*at_a || *at_b);
    if (status == FTH_OK)
        assert_string_equal(at_b, new);
    if (status == FTH_OK || crashed)
        return;
    const char *last = join(dir, *at_b ? b->state.step : a->state.step);
    if (err->code != FTH_E_IO || !strstr(err->message, last) || !strstr(err->message, dir) ||
        (strstr(err->message, "No space") == NULL && strstr(err->message, "Input/output") == NULL))
        fail_msg("'%s' does not say what is to be said; the last is %s", err->message, last);
}

enum kind { WRITES, FSYNCS, CRASHES, POWER_FAILURES, KINDS };

static void plan(struct fault_io *fault, enum kind kind, uint64_t at, int error) {
    if (kind == WRITES) {
        fault->write_at = at;
        fault->write_error = error;
    } else if (kind == FSYNCS) {
        fault->fsync_at = at;
        fault->fsync_error = error;
    } else {
        fault->crash_after = at;
        fault->lose_unsynced = kind == POWER_FAILURES;
    }
}

/* Every operation in turn fails (a full disk, an input/output error, once or from there on) or is the last
 * before a crash; then the next save, on a healthy disk, works. */
static void disturb(enum kind kind, int error, int once, int64_t keep) {
    struct world a = world_create(&(struct world_options){.seed = 1});
    struct world b = world_create(&(struct world_options){.seed = 2});
    unsigned failures = 0;
    for (uint64_t at = 1;; at++) {
        char *dir = scratch_create(), found[17];
        OK(world_save(&a, files, dir, keep, NULL, err));
        struct fault_io *fault = fault_io_create(files);
        plan(fault, kind, at, error);
        fault->once = once;
        fth_error why = {0};
        fth_status status = world_save(&b, &fault->io, dir, keep, NULL, &why);
        assert_int_equal(fault_io_open_files(fault), 0);
        uint64_t reached = kind == WRITES ? fault->writes : kind == FSYNCS ? fault->fsyncs : fault->changes;
        int over = kind < CRASHES ? reached < at : !fault->crashed;
        check_left(dir, &a, &b, status, &why, fault->crashed);
        if (status != FTH_OK && !fault->crashed)
            assert_int_equal(count_names(dir, ".tmp"), 0);
        failures += status != FTH_OK;
        fault_io_destroy(fault);
        OK(world_save(&b, files, dir, keep, NULL, err));
        digest_at(join(dir, b.state.step), found);
        assert_true(*found);
        assert_int_equal(count_names(dir, ".tmp"), 0);
        scratch_remove(dir);
        if (over)
            break;
    }
    assert_true(failures > 5);
    world_destroy(&a);
    world_destroy(&b);
}

static void test_full_disk(void **state) {
    disturb(WRITES, ENOSPC, 0, 2);
    disturb(WRITES, ENOSPC, 1, 1);
}

static void test_io_errors(void **state) {
    disturb(FSYNCS, EIO, 0, 2);
    disturb(FSYNCS, EIO, 1, 1);
    disturb(WRITES, EIO, 1, 2);
}

static void test_crashes(void **state) {
    disturb(CRASHES, 0, 0, 2);
    disturb(CRASHES, 0, 0, 1);
}

static void test_power_failures(void **state) {
    disturb(POWER_FAILURES, 0, 0, 1);
}

/* The first save into a folder that is not there: nothing, or the whole. */
static void test_first_save(void **state) {
    struct world a = world_create(&(struct world_options){.seed = 1});
    char expected[17], found[17];
    world_digest(&a, expected);
    for (uint64_t at = 1;; at++) {
        char *base = scratch_create(), *newest = NULL, dir[600];
        uint64_t step;
        snprintf(dir, sizeof dir, "%s/deep/down", base);
        struct fault_io *fault = fault_io_create(files);
        fault->crash_after = at;
        world_save(&a, &fault->io, dir, 2, NULL, NULL);
        int crashed = fault->crashed;
        fault_io_destroy(fault);
        OK(fth_checkpoint_newest(files, dir, &newest, &step, err));
        if (newest) {
            digest_at(newest, found);
            assert_string_equal(found, expected);
        }
        free(newest);
        OK(world_save(&a, files, dir, 2, NULL, err));
        scratch_remove(base);
        if (!crashed)
            break;
    }
    struct fault_io *fault = fault_io_create(files);
    char *dir = scratch_create();
    fault->write_at = 2;
    fault->write_error = ENOSPC;
    REFUSED(FTH_E_IO, world_save(&a, &fault->io, dir, 2, NULL, err), "no checkpoint was saved before",
            "No space", ".tmp/");
    fault_io_destroy(fault);
    /* A disk that fails for good, behind a save: what is on it is not known any more, and not denied. */
    OK(world_save(&a, files, dir, 2, NULL, err));
    a.state.step++;
    fault = fault_io_create(files);
    fault->crash_after = 3;
    REFUSED(FTH_E_IO, world_save(&a, &fault->io, dir, 2, NULL, err), "(no whole checkpoint can be read there now)");
    fault_io_destroy(fault);
    scratch_remove(dir);
    world_destroy(&a);
}

/* Interrupted and short writes are no failures. */
static void test_rough_disk(void **state) {
    char *dir = scratch_create(), expected[17], found[17];
    struct world a = world_create(&(struct world_options){.seed = 1});
    struct fault_io *fault = fault_io_create(files);
    fault->interrupt_every = 3;
    fault->short_writes = 777;
    fault->short_reads = 100;
    OK(world_save(&a, &fault->io, dir, 2, NULL, err));
    world_digest(&a, expected);
    fth_checkpoint *c = NULL;
    OK(fth_checkpoint_open(&fault->io, dir, &c, err));
    assert_string_equal(fth_checkpoint_digest(c), expected);
    fth_checkpoint_close(c);
    assert_int_equal(fault_io_open_files(fault), 0);
    digest_at(dir, found);
    assert_string_equal(found, expected);
    fault_io_destroy(fault);
    world_destroy(&a);
    scratch_remove(dir);
}

static void test_not_a_directory(void **state) {
    char *dir = scratch_create();
    struct world a = world_create(&(struct world_options){.seed = 1});
    const char *file = scratch_path(dir, "file");
    write_bytes(file, "x", 1);
    REFUSED(FTH_E_IO, world_save(&a, files, file, 2, NULL, err), file, "Not a directory");
    world_destroy(&a);
    scratch_remove(dir);
}

static int setup(void **state) {
    quick = *fth_io_posix();
    quick.fsync = no_fsync;
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_step_twice), cmocka_unit_test(test_damaged_gives_way),
        cmocka_unit_test(test_published_but_not_synced),
        cmocka_unit_test(test_keep_and_sweep),  cmocka_unit_test(test_what_cannot_be_removed),
        cmocka_unit_test(test_diverged),        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_io_errors),       cmocka_unit_test(test_crashes),
        cmocka_unit_test(test_power_failures),  cmocka_unit_test(test_first_save),
        cmocka_unit_test(test_rough_disk),      cmocka_unit_test(test_not_a_directory),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
