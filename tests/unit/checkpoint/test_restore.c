/* Opening and restoring: what was saved comes back in every bit, under any packing; what is damaged, foreign or
 * of another shape is refused by name before anything is changed. */
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/checkpoint_private.h"
#include "count_alloc.h"
#include "world.h"

static char *dir, *path; /* one checkpoint, of the world with seed 1 */

static int save_one(void **state) {
    dir = scratch_create();
    struct world a = world_create(&(struct world_options){.seed = 1});
    OK(world_save(&a, fth_io_posix(), dir, 0, &path, err));
    world_destroy(&a);
    return 0;
}

static int remove_one(void **state) {
    free(path);
    scratch_remove(dir);
    return 0;
}

static void expected_digest(char out[17]) {
    struct world a = world_create(&(struct world_options){.seed = 1});
    world_digest(&a, out);
    world_destroy(&a);
}

/* Into a fresh model, into one that has trained, packed or not, weights in rows or in panels; from the folder and from the
 * step. */
static void test_round_trip(void **state) {
    static const struct world_options into[] = {{.seed = 0}, {.unpacked = 1}, {.in_panels = 1}};
    char expected[17], got[17];
    expected_digest(expected);
    for (size_t i = 0; i < 3; i++)
        for (int whole = 0; whole < 2; whole++) {
            struct world w = world_create(&into[i]);
            OK(world_restore(&w, whole ? dir : path, err));
            assert_true((w.parameters->items[0].data == NULL) == into[i].in_panels);
            world_digest(&w, got);
            assert_string_equal(got, expected);
            for (uint32_t k = 0; k < w.parameters->n; k++) {
                const struct fth_parameter *p = &w.parameters->items[k];
                float row[64];
                fth_parameter_get(p, p->rows - 1, 1, row);
                assert_true(row[2] == world_number(1, k, (p->rows - 1) * 64 + 2));
            }
            world_destroy(&w);
        }
    /* and an unpacked one into packs */
    char *other = scratch_create();
    struct world a = world_create(&(struct world_options){.seed = 1, .unpacked = 1}), b = world_create(&into[0]);
    OK(world_save(&a, fth_io_posix(), other, 0, NULL, err));
    OK(world_restore(&b, other, err));
    world_digest(&b, got);
    assert_string_equal(got, expected);
    world_destroy(&a);
    world_destroy(&b);
    scratch_remove(other);
}

/* More rows and candidates than are read (2^14) or hashed (2^10) at once: the last ones count, too. */
static void test_many_rows(void **state) {
    enum { MANY = (1 << 14) + 100 };
    char *large = scratch_create(), before[17], after[17];
    struct world a = world_create(&(struct world_options){.seed = 1});
    struct world b = world_create(&(struct world_options){.unpacked = 1});
    for (uint32_t p = 0; p < fth_embedding_packs(a.embedding); p++) {
        struct fth_pack_info info;
        fth_embedding_pack_info(a.embedding, p, &info);
        for (uint64_t key = 2000; key < 2000 + MANY; key++) {
            uint64_t candidate = key + MANY, count = 1 + key % 4;
            uint32_t table = 0;
            OK(import_rows(a.embedding, p, 1, &(struct fth_row_arrays){.keys = &key, .tables = &table}, err));
            if (info.candidates)
                OK(fth_embedding_import_candidates(a.embedding, p, 1, &candidate, &table, &count, err));
        }
        fth_embedding_pack_info(a.embedding, p, &info);
        uint64_t key, count = 1000;
        uint32_t table;
        const struct fth_row_arrays last = {.keys = &key, .tables = &table};
        world_digest(&a, before);
        assert_int_equal(fth_embedding_export(a.embedding, p, info.rows - 1, 1, &last), 1);
        const struct fth_row_arrays again = {.keys = &key, .tables = &table, .frequency = &count};
        OK(import_rows(a.embedding, p, 1, &again, err));
        world_digest(&a, after);
        assert_string_not_equal(before, after);
        if (!info.candidates)
            continue;
        assert_int_equal(
            fth_embedding_export_candidates(a.embedding, p, info.candidates - 1, 1, &key, &table, NULL), 1);
        count = 2;
        OK(fth_embedding_import_candidates(a.embedding, p, 1, &key, &table, &count, err));
        world_digest(&a, before);
        count = 3;
        OK(fth_embedding_import_candidates(a.embedding, p, 1, &key, &table, &count, err));
        world_digest(&a, after);
        assert_string_not_equal(before, after);
    }
    OK(world_save(&a, fth_io_posix(), large, 0, NULL, err));
    OK(world_restore(&b, large, err));
    world_digest(&a, before);
    world_digest(&b, after);
    assert_string_equal(before, after);
    world_destroy(&a);
    world_destroy(&b);
    scratch_remove(large);
}

static void test_state(void **state) {
    fth_checkpoint *c = NULL;
    struct world a = world_create(&(struct world_options){.seed = 1});
    OK(fth_checkpoint_open(fth_io_posix(), dir, &c, err));
    const struct fth_checkpoint_state *s = fth_checkpoint_state(c);
    assert_int_equal(s->step, 101);
    assert_true(s->seed == a.state.seed);
    a.state.position.feature_state = s->position.feature_state;
    assert_memory_equal(&s->position, &a.state.position, sizeof s->position);
    assert_string_equal(s->config_yaml, a.state.config_yaml);
    assert_true(json_equal(s->features, a.state.features));
    assert_true(s->best_metric == 0.7 && s->best_step == 90 && s->evaluations_without_better == 1);
    assert_true(!s->stopped_early && !s->finished && s->train_seconds == 1.5 && s->tuning_digest == 5);
    assert_string_equal(s->isa, "avx2");
    assert_int_equal(s->cores, 16);
    assert_string_equal(fth_checkpoint_path(c), path);
    assert_int_equal(c->n_tensors, 3 + 2 * 2 + 6 + 6 + 3);
    char *report = NULL;
    OK(fth_checkpoint_report(c, 2, &report, err));
    assert_non_null(strstr(report, fth_checkpoint_digest(c)));
    assert_non_null(strstr(report, "category"));
    free(report);
    fth_checkpoint_close(c);
    world_destroy(&a);
}

/* The digest tells everything apart that training depends on. */
static void test_digest(void **state) {
    char before[17], after[17];
    struct world w = world_create(&(struct world_options){.seed = 1});
    uint64_t *const counts[] = {&w.state.step, &w.state.seed, &w.state.position.epoch,
                                &w.state.position.file_index, &w.state.position.byte_offset,
                                &w.state.position.line, &w.state.position.block, &w.state.position.taken,
                                &w.state.position.examples_seen, &w.state.position.lines_bad,
                                &w.state.best_step, &w.state.evaluations_without_better};
    world_digest(&w, before);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        ++*counts[i];
        world_digest(&w, after);
        assert_string_not_equal(before, after);
        --*counts[i];
    }
    w.state.best_metric = NAN;
    world_digest(&w, after);
    assert_string_not_equal(before, after);
    w.state.best_metric = 0.7;
    w.state.train_seconds = 9;
    w.state.isa = "scalar";
    world_digest(&w, after);
    assert_string_equal(before, after);
    uint64_t known = 7, number = 999;
    uint32_t of = 0;
    float floats[64] = {3};
    const struct fth_row_arrays rows[] = {{&known, &of, .frequency = &number}, {&known, &of, .last_step = &number},
                                          {&known, &of, .weights = floats}, {&known, &of, .slots = {floats}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char row[17];
        world_digest(&w, row);
        OK(import_rows(w.embedding, 0, 1, &rows[i], err));
        world_digest(&w, after);
        assert_string_not_equal(row, after);
    }
    world_digest(&w, before);
    uint64_t key = 1001, count = 77;
    uint32_t table = 0;
    for (uint32_t p = 0; p < fth_embedding_packs(w.embedding); p++) {
        struct fth_pack_info info;
        fth_embedding_pack_info(w.embedding, p, &info);
        if (info.candidates)
            OK(fth_embedding_import_candidates(w.embedding, p, 1, &key, &table, &count, err));
    }
    world_digest(&w, after);
    assert_string_not_equal(before, after);
    world_destroy(&w);
}

/* ---- other models ---- */

static void refused(struct world_options options, const char *name) {
    char before[17], after[17];
    options.seed = 2;
    struct world w = world_create(&options);
    world_digest(&w, before);
    REFUSED(FTH_E_CHECKPOINT, world_restore(&w, path, err), name, path);
    world_digest(&w, after);
    assert_string_equal(before, after);
    world_destroy(&w);
}

/* A parameter that older checkpoints of the model lack keeps its first values, slots too; one that is there is read. */
static void test_later_parameter(void **state) {
    char *other = scratch_create();
    struct world before = world_create(&(struct world_options){.seed = 1, .without_bias = 1});
    OK(world_save(&before, fth_io_posix(), other, 0, NULL, err));
    world_destroy(&before);
    for (int there = 0; there < 2; there++) {
        struct world w = world_create(&(struct world_options){.later_bias = 1});
        const struct fth_parameter *bias = &w.parameters->items[1];
        float row[7];
        assert_string_equal(bias->name, "deep.bias");
        OK(world_restore(&w, there ? path : other, err));
        fth_parameter_get(bias, 0, 1, row);
        for (uint32_t c = 0; c < 7; c++) {
            assert_true(row[c] == (there ? world_number(1, 1, c) : 0));
            assert_true(bias->slots[1][c] == (there ? world_number(1, 102, c) : 0));
        }
        fth_parameter_get(&w.parameters->items[0], 4, 1, row);
        assert_true(row[2] == world_number(1, 0, 4 * 64 + 2));
        world_destroy(&w);
    }
    scratch_remove(other);
    refused((struct world_options){.later_bias = 1, .dense = "momentum"}, "'deep.weight/");
}

static void test_other_models(void **state) {
    refused((struct world_options){.weight_columns = 6}, "'deep.weight' is 5 x 7");
    refused((struct world_options){.dense = "momentum"}, "'deep.weight/");
    refused((struct world_options){.dense = "sgd"}, "dense tensors");
    refused((struct world_options){.without_bias = 1}, "dense tensors");
    refused((struct world_options){.sparse = "sgd"}, "'user'");
    refused((struct world_options){.sparse = "ftrl"}, "'user'");
    refused((struct world_options){.sparse = "rowwise_adagrad"}, "'user'");
    refused((struct world_options){.user_dim = 8}, "'user' has dimension 4");
    refused((struct world_options){.without_item = 1}, "'item'");
    refused((struct world_options){.with_brand = 1}, "no table 'brand'");
    refused((struct world_options){.with_brand = 1, .unpacked = 1}, "no table 'brand'");
}

/* ---- memory that is short ---- */

/* Wherever it ends, that is what is said, and never that the checkpoint is damaged. */
static void test_no_memory(void **state) {
    if (!count_alloc_works())
        skip();
    for (int restoring = 0; restoring < 2; restoring++) {
        fth_status status = FTH_E_MEMORY;
        long from = 1;
        for (; status != FTH_OK; from++) {
            struct world w = world_create(&(struct world_options){.seed = 0});
            fth_checkpoint *c = NULL;
            fth_error why = {0};
            if (restoring)
                OK(fth_checkpoint_open(fth_io_posix(), dir, &c, err));
            count_alloc_start_failing(from);
            status = restoring ? fth_checkpoint_restore(c, w.pool, w.parameters, w.embedding, 0, &why)
                               : fth_checkpoint_open(fth_io_posix(), from % 2 ? dir : path, &c, &why);
            count_alloc_stop();
            if (status != FTH_OK && status != FTH_E_MEMORY)
                fail_msg("allocation %ld: %d %s", from, status, why.message);
            fth_checkpoint_close(c);
            world_destroy(&w);
        }
        assert_true(from > 20);
    }
}

/* ---- damage ---- */

static void copy_checkpoint(const char *from, const char *to) {
    char **names = NULL;
    size_t n = 0;
    fth_arena *arena = fth_arena_create(4096);
    OK(fth_io_list(fth_io_posix(), from, arena, &names, &n, err));
    OK(fth_io_make_dirs(fth_io_posix(), to, err));
    for (size_t i = 0; i < n; i++) {
        size_t length;
        char *bytes = read_bytes(scratch_path(from, names[i]), &length);
        write_bytes(scratch_path(to, names[i]), bytes, length);
        fth_free(bytes);
    }
    fth_arena_destroy(arena);
}

/* A copy of the checkpoint to damage: "<other>/step-000000000101". */
static char *other, damaged[600];

static int copy_one(void **state) {
    other = scratch_create();
    snprintf(damaged, sizeof damaged, "%s/step-000000000101", other);
    copy_checkpoint(path, damaged);
    return 0;
}

static int remove_copy(void **state) {
    scratch_remove(other);
    return 0;
}

static fth_status open_damaged(fth_error *err) {
    fth_checkpoint *c = NULL;
    fth_status status = fth_checkpoint_open(fth_io_posix(), damaged, &c, err);
    if (status == FTH_OK) {
        char expected[17];
        expected_digest(expected);
        assert_string_equal(fth_checkpoint_digest(c), expected);
    } else {
        assert_null(c);
    }
    fth_checkpoint_close(c);
    return status;
}

static int says_the_same(const char *bytes, size_t n, const json_t *as) {
    json_t *json = json_loadb(bytes, n, 0, NULL);
    int same = json_equal(json, as);
    json_decref(json);
    return same;
}

/* Any byte of the manifest changed: refused, or (white space, a last digit) it says the same. */
static void test_manifest_bytes(void **state) {
    const char *name = scratch_path(damaged, "manifest.json");
    char file[700];
    snprintf(file, sizeof file, "%s", name);
    size_t n, accepted = 0;
    char *bytes = read_bytes(file, &n);
    json_t *original = json_loadb(bytes, n, 0, NULL);
    static const unsigned char changes[] = {1, 0x20, 0x80};
    for (size_t at = 0; at < n; at++)
        for (size_t k = 0; k < 3; k++) {
            fth_error err = {0};
            char was = bytes[at];
            bytes[at] = (char)(was ^ changes[k]);
            write_bytes(file, bytes, n);
            fth_status status = open_damaged(&err);
            accepted += status == FTH_OK;
            if (status == FTH_OK ? !says_the_same(bytes, n, original)
                                 : status != FTH_E_CHECKPOINT || !*err.message)
                fail_msg("byte %zu '%c' -> '%c': status %d %s", at, was, bytes[at], status, err.message);
            bytes[at] = was;
        }
    for (size_t cut = 0; cut + 1 < n; cut += 1 + n / 200) {
        write_bytes(file, bytes, cut);
        REFUSED(FTH_E_CHECKPOINT, open_damaged(err), "manifest.json");
    }
    write_bytes(file, bytes, n);
    OK(open_damaged(err));
    assert_true(accepted < n / 4);
    json_decref(original);
    fth_free(bytes);
}

static void test_other_files(void **state) {
    static const char *const names[] = {"config.yaml", "dense.safetensors", "pack-0.safetensors",
                                        "pack-1.safetensors"};
    for (size_t i = 0; i < 4; i++) {
        char file[700];
        size_t n;
        snprintf(file, sizeof file, "%s/%s", damaged, names[i]);
        char *bytes = read_bytes(file, &n);
        for (size_t at = 0; at < n; at += 1 + n / 60) {
            bytes[at] ^= 4;
            write_bytes(file, bytes, n);
            REFUSED(FTH_E_CHECKPOINT, open_damaged(err), names[i], "damaged");
            bytes[at] ^= 4;
        }
        write_bytes(file, bytes, n - 1);
        REFUSED(FTH_E_CHECKPOINT, open_damaged(err), names[i], "bytes");
        write_bytes(file, "", 0);
        REFUSED(FTH_E_CHECKPOINT, open_damaged(err), names[i], "bytes");
        OK(fth_io_remove(fth_io_posix(), file, err));
        REFUSED(FTH_E_CHECKPOINT, open_damaged(err), names[i], "No such file");
        write_bytes(file, bytes, n);
        fth_free(bytes);
    }
    write_bytes(scratch_path(damaged, "notes.txt"), "mine", 4); /* a file too many is nobody's business */
    OK(open_damaged(err));
}

/* What is no file is not waited for, nor read without end. */
static void test_no_files(void **state) {
    static const char *const names[] = {"manifest.json", "config.yaml", "dense.safetensors", "pack-1.safetensors"};
    alarm(60);
    for (size_t i = 0; i < 4; i++) {
        char file[700], kept[710];
        snprintf(file, sizeof file, "%s/%s", damaged, names[i]);
        snprintf(kept, sizeof kept, "%s.kept", file);
        assert_int_equal(rename(file, kept), 0);
        assert_int_equal(mkdir(file, 0700), 0);
        REFUSED(FTH_E_CHECKPOINT, open_damaged(err), names[i], "a directory where a file should be");
        assert_int_equal(rmdir(file), 0);
        assert_int_equal(mkfifo(file, 0600), 0);
        REFUSED(FTH_E_CHECKPOINT, open_damaged(err), names[i], "a pipe or device where");
        assert_int_equal(unlink(file), 0);
        assert_int_equal(symlink("/dev/zero", file), 0);
        REFUSED(FTH_E_CHECKPOINT, open_damaged(err), names[i], "a pipe or device where");
        assert_int_equal(unlink(file), 0);
        assert_int_equal(symlink(kept, file), 0);
        OK(open_damaged(err));
        assert_int_equal(rename(kept, file), 0);
    }
    alarm(0);
}

/* A manifest changed on purpose, its check value made right again: still nothing impossible passes. */
static json_t *load_manifest(void) {
    json_t *json = json_load_file(scratch_path(damaged, "manifest.json"), 0, NULL);
    assert_non_null(json);
    return json;
}

static void store_manifest(json_t *json) {
    char check[17];
    json_object_del(json, "check");
    char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    snprintf(check, sizeof check, "%016llx", (unsigned long long)fth_hash_bytes(text, strlen(text), 0));
    free(text);
    json_object_set_new(json, "check", json_string(check));
    text = json_dumps(json, JSON_INDENT(1));
    write_bytes(scratch_path(damaged, "manifest.json"), text, strlen(text));
    free(text);
    json_decref(json);
}

static void test_forged_manifests(void **state) {
    static const struct {
        const char *key, *value; /* of the whole manifest; value NULL: taken out */
        const char *reason;
    } top[] = {
        {"format", "\"zip\"", "not a Fathom checkpoint"},
        {"version", "2", "version 2"},
        {"version", "\"1\"", "version"},
        {"step", "-1", "'step'"},
        {"step", "1.5", "'step'"},
        {"seed", "7", "'seed'"},
        {"seed", "\"12\"", "'seed'"},
        {"digest", NULL, "manifest.json"},
        {"position", "{}", "'epoch'"},
        {"position", NULL, "'epoch'"},
        {"early_stopping", "[]", "'best'"},
        {"features", NULL, "'features'"},
        {"isa", "3", "'isa'"},
        {"files", "[]", "config.yaml 0 times"},
        {"files", "[3]", "'name'"},
        {"files", "[{\"name\": \"../x\", \"bytes\": 1, \"xxh3\": \"0000000000000000\"}]", "'files'"},
        {"files", "[{\"name\": \".hidden\", \"bytes\": 1, \"xxh3\": \"0000000000000000\"}]", "'files'"},
        {"packs", "[{}]", "'dim'"},
        {"packs", "[{\"dim\": 4, \"rows\": 0, \"candidates\": 0, \"tables\": [1], \"slots\": [], \"files\": []}]",
         "'tables'"},
        {"packs", "[{\"dim\": 4, \"rows\": 0, \"candidates\": 0, \"tables\": [\"a\"], \"slots\": [], \"files\": []}]",
         "impossible"},
        {"packs", "[{\"dim\": 4, \"rows\": 0, \"candidates\": 0, \"tables\": [\"a\"], \"slots\": [], "
                  "\"files\": [\"dense.safetensors\"]}]", "wrong shape"},
    };
    for (size_t i = 0; i < sizeof top / sizeof *top; i++) {
        json_t *json = load_manifest(), *kept = json_deep_copy(json);
        if (top[i].value)
            json_object_set_new(json, top[i].key, json_loads(top[i].value, JSON_DECODE_ANY, NULL));
        else
            json_object_del(json, top[i].key);
        store_manifest(json);
        REFUSED(FTH_E_CHECKPOINT, open_damaged(err), top[i].reason, "step-000000000101");
        store_manifest(kept);
    }
    OK(open_damaged(err));
}

static void forge_pack(const char *key, json_t *value, const char *reason) {
    json_t *json = load_manifest(), *kept = json_deep_copy(json);
    json_object_set_new(json_array_get(json_object_get(json, "packs"), 0), key, value);
    store_manifest(json);
    REFUSED(FTH_E_CHECKPOINT, open_damaged(err), reason);
    store_manifest(kept);
}

static void test_forged_packs(void **state) {
    forge_pack("dim", json_integer(5), "wrong shape");
    forge_pack("dim", json_integer(0), "impossible");
    forge_pack("rows", json_integer(1), "a pack of 1 rows");
    forge_pack("candidates", json_integer(1), "candidates");
    forge_pack("slots", json_pack("[s]", "nothing"), "wrong shape");
    forge_pack("slots", json_pack("[s,s,s]", "a", "b", "c"), "impossible");
    forge_pack("tables", json_pack("[s,s]", "user", "user"), "'user' stands there twice");
    forge_pack("tables", json_pack("[s,s]", "user", "category"), "'category' stands there twice");
    forge_pack("files", json_pack("[s]", "pack-1.safetensors"), "wrong shape");
    forge_pack("files", json_pack("[s]", "pack-7.safetensors"), "wrong shape");
    forge_pack("files", json_pack("[s,s]", "pack-0.safetensors", "pack-0.safetensors"), "in its files");
}

/* ---- places ---- */

static void test_foreign(void **state) {
    fth_checkpoint *c = NULL;
    char *empty = scratch_create();
    REFUSED(FTH_E_CHECKPOINT, fth_checkpoint_open(fth_io_posix(), empty, &c, err), empty, "no checkpoint here");
    REFUSED(FTH_E_CHECKPOINT, fth_checkpoint_open(fth_io_posix(), "/nowhere/at/all", &c, err), "/nowhere");
    write_bytes(scratch_path(empty, "manifest.json"), "{\"format\": \"other\"}", 19);
    REFUSED(FTH_E_CHECKPOINT, fth_checkpoint_open(fth_io_posix(), empty, &c, err), "not a Fathom checkpoint");
    static const char *const beginnings[] = {"", "{", "{\"format\": \"fathom-checkpoint\","}; /* of a cut-off copy */
    for (size_t i = 0; i < 3; i++) {
        write_bytes(scratch_path(empty, "manifest.json"), beginnings[i], strlen(beginnings[i]));
        REFUSED(FTH_E_CHECKPOINT, fth_checkpoint_open(fth_io_posix(), empty, &c, err), "manifest.json: damaged or cut off");
    }
    REFUSED(FTH_E_CHECKPOINT,
            fth_checkpoint_open(fth_io_posix(), scratch_path(empty, "manifest.json"), &c, err), "manifest.json");
    char *newest = NULL;
    uint64_t step;
    OK(fth_checkpoint_newest(fth_io_posix(), empty, &newest, &step, err));
    assert_null(newest);
    OK(fth_checkpoint_newest(fth_io_posix(), "/nowhere/at/all", &newest, &step, err));
    assert_null(newest);
    scratch_remove(empty);
}

/* The newest is damaged: refused, and the newest whole one is named, not one that is damaged too. */
static void test_names_the_last_whole(void **state) {
    char *many = scratch_create(), steps[4][600];
    fth_checkpoint *c = NULL;
    for (int i = 0; i < 4; i++) {
        snprintf(steps[i], sizeof steps[i], "%s/step-%012d", many, 10 * (i + 1));
        copy_checkpoint(path, steps[i]);
    }
    write_bytes(scratch_path(steps[3], "pack-0.safetensors"), "x", 1);
    REFUSED(FTH_E_CHECKPOINT, fth_checkpoint_open(fth_io_posix(), many, &c, err), steps[3], "pack-0",
            "step-000000000030 is whole");
    write_bytes(scratch_path(steps[2], "manifest.json"), "{}", 2);
    REFUSED(FTH_E_CHECKPOINT, fth_checkpoint_open(fth_io_posix(), many, &c, err), "step-000000000020 is whole");
    REFUSED(FTH_E_CHECKPOINT, fth_checkpoint_open(fth_io_posix(), steps[2], &c, err),
            "step-000000000020 is whole");
    write_bytes(scratch_path(steps[0], "config.yaml"), "x", 1);
    write_bytes(scratch_path(steps[1], "config.yaml"), "x", 1);
    fth_error err = {0};
    assert_int_equal(fth_checkpoint_open(fth_io_posix(), many, &c, &err), FTH_E_CHECKPOINT);
    assert_null(strstr(err.message, "whole"));
    scratch_remove(many);
}

/* A copy that somebody named by its date is not the newest, but can be opened; one under another step's name is refused. */
static void test_names_of_copies(void **state) {
    char *many = scratch_create(), mine[600], dated[600], later[600];
    fth_checkpoint *c = NULL;
    snprintf(mine, sizeof mine, "%s/step-%012d", many, 101);
    snprintf(dated, sizeof dated, "%s/step-20240305", many);
    snprintf(later, sizeof later, "%s/step-%012d", many, 102);
    copy_checkpoint(path, mine);
    copy_checkpoint(path, dated);
    OK(fth_checkpoint_open(fth_io_posix(), many, &c, err));
    assert_string_equal(fth_checkpoint_path(c), mine);
    fth_checkpoint_close(c);
    OK(fth_checkpoint_open(fth_io_posix(), dated, &c, err));
    fth_checkpoint_close(c);
    copy_checkpoint(path, later);
    REFUSED(FTH_E_CHECKPOINT, fth_checkpoint_open(fth_io_posix(), many, &c, err), later, "holds step 101",
            "step-000000000101 is whole");
    OK(fth_checkpoint_open(fth_io_posix(), later, &c, err));
    fth_checkpoint_close(c);
    scratch_remove(many);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_many_rows),
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_digest),
        cmocka_unit_test(test_later_parameter),
        cmocka_unit_test(test_other_models), cmocka_unit_test(test_no_memory),
        cmocka_unit_test_setup_teardown(test_manifest_bytes, copy_one, remove_copy),
        cmocka_unit_test_setup_teardown(test_other_files, copy_one, remove_copy),
        cmocka_unit_test_setup_teardown(test_no_files, copy_one, remove_copy),
        cmocka_unit_test_setup_teardown(test_forged_manifests, copy_one, remove_copy),
        cmocka_unit_test_setup_teardown(test_forged_packs, copy_one, remove_copy),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_names_the_last_whole),
        cmocka_unit_test(test_names_of_copies),
    };
    return cmocka_run_group_tests(tests, save_one, remove_one);
}
