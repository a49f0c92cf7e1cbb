/* Rows that are restored by several workers: with pieces of a few rows instead of thousands, and several files a pack, the
 * same model, in the same order, as by one; what cannot be read is told by whichever worker met it. */
#include "count_alloc.h"
#include "world.h"

#undef FTH_SHARD_ROWS
#define FTH_SHARD_ROWS ((uint64_t)1000)
#define fth_checkpoint_save save_in_small_shards
#define no_memory no_memory_to_save
fth_status save_in_small_shards(const struct fth_io *io, const char *dir, int64_t keep, uint64_t best, int replace,
                                const struct fth_checkpoint_source *source, const struct fth_checkpoint_state *state,
                                char **path_out, fth_error *err);
#include "checkpoint/save.c"
#undef no_memory

#define AT_ONCE ((uint64_t)8)
#define fth_checkpoint_restore restore_in_small_pieces
fth_status restore_in_small_pieces(fth_checkpoint *c, fth_pool *pool, fth_parameters *parameters, fth_embedding *embedding,
                                   int weights_only, fth_error *err);
#include "checkpoint/restore.c"

enum { MANY = 1500 }; /* rows a table */

static char *dir, *path;
static struct world saved;

static int save_one(void **state) {
    struct fth_checkpoint_source source;
    saved = world_create(&(struct world_options){.seed = 1});
    for (uint32_t p = 0; p < fth_embedding_packs(saved.embedding); p++) {
        struct fth_pack_info info;
        fth_embedding_pack_info(saved.embedding, p, &info);
        for (uint64_t i = 0; i < MANY * info.n_tables; i++) {
            uint64_t key = 5000 + i;
            uint32_t table = (uint32_t)(i % info.n_tables);
            const struct fth_row_arrays row = {.keys = &key, .tables = &table, .frequency = &i};
            OK(import_rows(saved.embedding, p, 1, &row, err));
        }
    }
    dir = scratch_create();
    source = world_source(&saved);
    OK(save_in_small_shards(fth_io_posix(), dir, 0, 0, 0, &source, &saved.state, &path, err));
    assert_true(count_names(path, "pack-0.") > 2);
    return 0;
}

static int remove_one(void **state) {
    world_destroy(&saved);
    free(path);
    scratch_remove(dir);
    return 0;
}

static fth_status restore_by(const struct fth_io *io, struct world *into, uint32_t threads, fth_error *err) {
    fth_checkpoint *c = NULL;
    fth_pool *pool = NULL;
    fth_error none = {0};
    assert_int_equal(fth_pool_create(threads, &pool, &none), FTH_OK);
    fth_status status = fth_checkpoint_open(io, path, &c, err);
    if (status == FTH_OK)
        status = restore_in_small_pieces(c, pool, into->parameters, into->embedding, 0, err);
    fth_checkpoint_close(c);
    fth_pool_destroy(pool);
    return status;
}

/* The same rows, candidates and numbers. */
static void assert_same_model(struct world *a, const struct world *b) {
    char expected[17], got[17];
    json_decref(a->state.features);
    a->state = b->state;
    json_incref(a->state.features);
    world_digest(a, got);
    world_digest(b, expected);
    assert_string_equal(got, expected);
}

static void assert_same_order(const struct world *a, const struct world *b) {
    static uint64_t keys[2][4 * MANY];
    static uint32_t tables[2][4 * MANY];
    assert_int_equal(fth_embedding_packs(a->embedding), fth_embedding_packs(b->embedding));
    for (uint32_t p = 0; p < fth_embedding_packs(a->embedding); p++) {
        uint64_t n = 0;
        for (int i = 0; i < 2; i++) {
            const struct fth_row_arrays rows = {.keys = keys[i], .tables = tables[i]};
            uint64_t m = fth_embedding_export((i ? b : a)->embedding, p, 0, 4 * MANY, &rows);
            assert_true(m >= MANY && m < 4 * MANY && (i == 0 || m == n));
            n = m;
        }
        assert_memory_equal(keys[0], keys[1], n * sizeof **keys);
        assert_memory_equal(tables[0], tables[1], n * sizeof **tables);
    }
}

static void any_number_of_threads(void **state) {
    static const struct world_options into[] = {{.seed = 0}, {.unpacked = 1}};
    for (size_t i = 0; i < 2; i++) {
        struct world one = world_create(&into[i]);
        OK(restore_by(fth_io_posix(), &one, 1, err));
        assert_same_model(&one, &saved);
        for (uint32_t threads = 2; threads < 70; threads *= 3) {
            struct world many = world_create(&into[i]);
            OK(restore_by(fth_io_posix(), &many, threads, err));
            assert_same_model(&many, &saved);
            assert_same_order(&many, &one);
            if (i == 0)
                assert_same_order(&many, &saved);
            world_destroy(&many);
        }
        world_destroy(&one);
    }
}

/* Pieces of a shard each, of two, of all. */
static void shared_out_by_order(void **state) {
    struct piece pieces[256];
    struct restored r = {.pieces = pieces, .n_pieces = 256};
    for (uint32_t p = 0; p < 256; p++)
        pieces[p].shards = UINT64_C(1) << p / 4;
    assert_int_equal(count_tasks(&r), 64);
    for (uint32_t p = 0; p < 256; p++)
        pieces[p].shards = UINT64_C(3) << p / 8 * 2;
    assert_int_equal(count_tasks(&r), 32);
    for (uint32_t p = 0; p < 256; p++)
        pieces[p].shards = UINT64_MAX;
    assert_int_equal(count_tasks(&r), 1);
    for (uint32_t tasks = 1; tasks <= 64; tasks *= 2) {
        uint64_t all = 0;
        for (uint32_t t = 0; t < tasks; t++) {
            assert_true((all & task_shards(tasks, t)) == 0);
            all |= task_shards(tasks, t);
        }
        assert_true(all == UINT64_MAX);
    }
}

/* Whichever column of whichever piece it is. */
static void any_read_fails(void **state) {
    for (uint64_t at = 1;; at += 1 + at / 4) {
        struct world w = world_create(&(struct world_options){.seed = 0});
        struct fault_io *fault = fault_io_create(fth_io_posix());
        fth_checkpoint *c = NULL;
        fth_error why = {0};
        OK(fth_checkpoint_open(&fault->io, path, &c, err));
        fault->read_at = fault->reads + at;
        fault->read_error = EIO;
        fault->once = at % 2;
        fth_status status = restore_in_small_pieces(c, w.pool, w.parameters, w.embedding, 0, &why);
        int failed = fault->reads >= fault->read_at;
        if (status != (failed ? FTH_E_IO : FTH_OK) || (failed && (why.code != status || !strstr(why.message, path))))
            fail_msg("read %llu: %d %s", (unsigned long long)at, status, why.message);
        fth_checkpoint_close(c);
        assert_int_equal(fault_io_open_files(fault), 0);
        fault_io_destroy(fault);
        world_destroy(&w);
        if (!failed)
            break;
        assert_true(at < 100000);
    }
}

/* A row of no table, wherever it is: also where it became one after the file was verified. */
static void any_row_of_no_table(void **state) {
    size_t n;
    const char *name = "pack-0.1.safetensors";
    char file[700];
    snprintf(file, sizeof file, "%s", scratch_path(path, name));
    char *bytes = read_bytes(file, &n);
    for (uint64_t row = 0; row < 1000; row += 111) {
        struct world w = world_create(&(struct world_options){.seed = 0});
        fth_checkpoint *c = NULL;
        OK(fth_checkpoint_open(fth_io_posix(), path, &c, err));
        char *at = bytes + fth_checkpoint_find(c, name, "tables")->offset + row * sizeof(uint32_t) + 2;
        *at ^= 1;
        write_bytes(file, bytes, n);
        REFUSED(FTH_E_CHECKPOINT, restore_in_small_pieces(c, w.pool, w.parameters, w.embedding, 0, err), name,
                "a row of a table that the pack does not have");
        *at ^= 1;
        write_bytes(file, bytes, n);
        fth_checkpoint_close(c);
        world_destroy(&w);
    }
    fth_free(bytes);
}

static void no_room(void **state) {
    for (uint32_t threads = 1; threads < 5; threads++)
        for (int64_t limit = 1 << 16; limit < 1 << 18; limit += 1 << 16) {
            struct world w = world_create(&(struct world_options){.memory_limit = limit});
            REFUSED(FTH_E_LIMIT, restore_by(fth_io_posix(), &w, threads, err), path, "does not fit into memory",
                    "embedding table '", "embedding.memory_limit");
            world_destroy(&w);
        }
}

static void no_memory_anywhere(void **state) {
    if (!count_alloc_works())
        skip();
    fth_status status = FTH_E_MEMORY;
    long from = 1;
    for (; status != FTH_OK; from += 1 + from / 8) {
        struct world w = world_create(&(struct world_options){.seed = 0});
        fth_checkpoint *c = NULL;
        fth_error why = {0};
        OK(fth_checkpoint_open(fth_io_posix(), path, &c, err));
        count_alloc_start_failing(from);
        status = restore_in_small_pieces(c, w.pool, w.parameters, w.embedding, 0, &why);
        count_alloc_stop();
        if (status != FTH_OK && (status != FTH_E_MEMORY || why.code != status))
            fail_msg("allocation %ld: %d %s", from, status, why.message);
        fth_checkpoint_close(c);
        world_destroy(&w);
    }
    assert_true(from > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads), cmocka_unit_test(shared_out_by_order), cmocka_unit_test(any_read_fails),
        cmocka_unit_test(any_row_of_no_table),   cmocka_unit_test(no_room),             cmocka_unit_test(no_memory_anywhere),
    };
    return cmocka_run_group_tests(tests, save_one, remove_one);
}
