/* embedding/: the room that rows take: growth, the memory limit, no allocation for known keys. */
#include "columns.h"
#include "count_alloc.h"
#include "import_rows.h"

static uint64_t rows_in(const fth_embedding *embedding) {
    struct fth_pack_info info;
    fth_embedding_pack_info(embedding, 0, &info);
    return info.rows;
}

static void growth_to_a_million_keys(void **state) {
    enum { N = 1 << 15, BATCHES = 31 };
    fth_embedding *embedding =
        create_ok(&(struct setting){.n_lookups = 1, .dim = 1, .max_batch = N});
    fth_pool *pool = world_pool(2);
    struct fth_batch *batch = batch_of(N, 0);
    float *got = malloc(N * sizeof(float)), want;
    const struct fth_rows *rows = fth_embedding_rows(embedding);
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint64_t b = 0; b < BATCHES; b++) {
            for (uint32_t i = 0; i < N; i++)
                batch->fields[0].keys[i] = b * N + i;
            OK(fth_embedding_prepare(embedding, pool, batch, turn == 0, 1, err));
            rows->gather(rows->ctx, 0, 0, N, got, 1);
            for (uint32_t i = 0; i < N; i += 97) {
                fth_random_uniform(5 ^ fth_hash_bytes("a", 1, 0), FTH_RANDOM_ROW_INIT, b * N + i, 1,
                                   -0.25f, 0.25f, &want);
                assert_true(got[i] == want);
            }
        }
        assert_int_equal(rows_in(embedding), (uint64_t)N * BATCHES);
    }
    free(got);
    fth_batch_destroy(batch);
    fth_pool_destroy(pool);
    fth_embedding_destroy(embedding);
}

static void the_memory_limit_holds(void **state) {
    enum { N = 1024 };
    const int64_t limit = 4 << 20;
    fth_embedding *embedding =
        create_ok(&(struct setting){.n_lookups = 2, .dim = 16, .max_batch = N, .limit = limit});
    fth_pool *pool = world_pool(2);
    fth_error error = {0};
    fth_status status = FTH_OK;
    uint64_t step = 0, rows_before = 0;
    struct fth_batch *batch = NULL;
    while (status == FTH_OK) {
        assert_true(++step < 100);
        fth_batch_destroy(batch);
        batch = batch_of(N, step * N);
        rows_before = rows_in(embedding);
        status = fth_embedding_prepare(embedding, pool, batch, 1, step, &error);
        update_without_gradients(embedding);
        struct fth_pack_info info;
        fth_embedding_pack_info(embedding, 0, &info);
        assert_true(info.bytes <= (uint64_t)limit);
    }
    assert_int_equal(status, FTH_E_LIMIT);
    assert_non_null(strstr(error.message, "embedding.memory_limit"));
    assert_non_null(strstr(error.message, "4194304"));
    assert_true(strstr(error.message, "'a'") || strstr(error.message, "'b'"));
    assert_true(rows_before > 10000 && rows_in(embedding) >= rows_before);
    /* Nothing is prepared; what there was works as before; the same batch is refused again. */
    const struct fth_rows *rows = fth_embedding_rows(embedding);
    assert_int_equal(update_work(embedding), 0);
    assert_int_equal(fth_embedding_prepare(embedding, pool, batch, 1, step, &error), FTH_E_LIMIT);
    struct fth_batch *old = batch_of(N, N);
    float got[16], want[16];
    OK(fth_embedding_prepare(embedding, pool, old, 1, step, err));
    update_without_gradients(embedding);
    rows->gather(rows->ctx, 1, N - 1, 1, got, 16);
    fth_random_uniform(5 ^ fth_hash_bytes("b", 1, 0), FTH_RANDOM_ROW_INIT, 2 * N - 1, 16, -0.25f,
                       0.25f, want);
    assert_memory_equal(got, want, sizeof want);
    OK(fth_embedding_prepare(embedding, pool, batch, 0, step, err)); /* reading needs no rows */
    /* Rows made before the failure have no uses yet. */
    uint64_t n = rows_in(embedding), *frequency = malloc(n * 8), *last_step = malloc(n * 8),
             unused = 0;
    struct fth_row_arrays arrays = {.frequency = frequency, .last_step = last_step};
    assert_int_equal(fth_embedding_export(embedding, 0, 0, n, &arrays), n);
    for (uint64_t i = 0; i < n; i++) {
        assert_true(frequency[i] <= 2);
        unused += frequency[i] == 0;
    }
    assert_int_equal(n - unused, rows_before);
    free(frequency), free(last_step);
    fth_batch_destroy(batch);
    fth_batch_destroy(old);
    fth_pool_destroy(pool);
    fth_embedding_destroy(embedding);
}

/* A row of two members against the limit: bytes stay below, the leading table is named. */
static void the_memory_limit_holds_for_shared_rows(void **state) {
    enum { N = 1024 };
    struct fth_lookup lookups[] = {{.table = "a.linear", .dim = 1, .group = FTH_NO_GROUP},
                                   {.table = "a", .dim = 16, .group = FTH_NO_GROUP}};
    struct fth_embedding_config config = {.init_scale = 0.25, .memory_limit = 2 << 20};
    struct fth_optimizer_config optimizer = world_optimizer("adagrad");
    struct fth_embedding_options options = {.lookups = lookups,
                                            .n_lookups = 2,
                                            .config = &config,
                                            .optimizer = &optimizer,
                                            .max_batch = N,
                                            .packing = 1};
    fth_embedding *embedding;
    OK(fth_embedding_create(&options, &embedding, err));
    fth_pool *pool = world_pool(2);
    fth_error error = {0};
    fth_status status = FTH_OK;
    for (uint64_t step = 1; status == FTH_OK; step++) {
        assert_true(step < 20);
        struct fth_batch *batch = batch_of(N, step * N);
        status = fth_embedding_prepare(embedding, pool, batch, 1, step, &error);
        fth_batch_destroy(batch);
    }
    assert_int_equal(status, FTH_E_LIMIT);
    assert_non_null(strstr(error.message, "'a'"));
    struct fth_pack_info linear, whole;
    fth_embedding_pack_info(embedding, 0, &linear);
    fth_embedding_pack_info(embedding, 1, &whole);
    assert_int_equal(linear.dim, 1);
    assert_int_equal(linear.rows, whole.rows);
    /* 160 bytes a row, metas within: all but chunks that are begun and the index is rows. */
    assert_true(whole.rows > 9600 && whole.rows < (2 << 20) / 160);
    assert_true(linear.bytes >= linear.rows * 2 * sizeof(float));
    assert_true(linear.bytes + whole.bytes <= 2 << 20);
    fth_pool_destroy(pool);
    fth_embedding_destroy(embedding);
}

/* An index that is made large at once is as large as one that grew, or grows as ever where there is no room for it. */
static void room_that_is_reserved(void **state) {
    static const uint64_t keys[] = {1, 100, 5000, 40000, 100000};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        struct fth_pack_info info[3];
        for (int reserve = 0; reserve < 3; reserve++) {
            const struct setting with = {.n_lookups = 1, .dim = 1, .max_batch = 16,
                                         .limit = reserve == 2 ? info[0].bytes : 0};
            fth_embedding *embedding = create_ok(&with);
            fth_embedding_reserve(embedding, 0, reserve == 2 ? UINT64_MAX : reserve * keys[k]);
            for (uint64_t key = 0; key < keys[k]; key++) {
                uint32_t table = 0;
                const struct fth_row_arrays row = {.keys = &key, .tables = &table};
                fth_error error = {0};
                fth_status status = import_rows(embedding, 0, 1, &row, &error);
                if (reserve < 2)
                    assert_int_equal(status, FTH_OK);
                else
                    assert_true(status == FTH_OK || status == FTH_E_LIMIT);
            }
            fth_embedding_pack_info(embedding, 0, &info[reserve]);
            fth_embedding_destroy(embedding);
        }
        assert_int_equal(info[0].rows, keys[k]);
        assert_int_equal(info[1].rows, keys[k]);
        assert_int_equal(info[1].bytes, info[0].bytes);
        assert_true(info[2].bytes <= info[0].bytes);
    }
}

static void known_keys_allocate_nothing(void **state) {
    if (!count_alloc_works())
        skip();
    enum { N = 512, DIM = 8 };
    fth_embedding *embedding =
        create_ok(&(struct setting){.n_lookups = FIELDS, .dim = DIM, .max_batch = N});
    fth_pool *pool = world_pool(2);
    struct fth_batch *batch = batch_of(N, 0);
    const struct fth_rows *rows = fth_embedding_rows(embedding);
    float *gradient = calloc(N * DIM, sizeof(float)),
          *out = calloc(N * FIELDS * DIM, sizeof(float));
    struct fth_row_gradient list[FIELDS];
    uint32_t lookups[FIELDS];
    for (uint32_t l = 0; l < FIELDS; l++) {
        list[l] = (struct fth_row_gradient){.lookup = l, .gradient = gradient, .ld = DIM};
        lookups[l] = l;
    }
    struct update_job job = {.rows = rows, .gradients = list, .n = FIELDS, .scale = 1};
    job.scratch_bytes = (rows->update_scratch(rows->ctx) + 63) / 64 * 64;
    job.scratch = malloc(job.scratch_bytes * 2);
    struct fth_opt_args args = {.lr = 1, .grad_scale = 1};
    fth_embedding_set_args(embedding, &args, NULL);
    struct count_alloc counted;
    for (uint64_t step = 1; step <= 3; step++) {
        count_alloc_start();
        fth_status status = fth_embedding_prepare(embedding, pool, batch, 1, step, NULL);
        rows->gather_many(rows->ctx, lookups, FIELDS, 0, N, out, FIELDS * DIM);
        fth_pool_for(pool, rows->update_tasks(rows->ctx), update_task, &job);
        counted = count_alloc_stop();
        assert_int_equal(status, FTH_OK);
        assert_true(step > 1 || counted.allocations > 0); /* the counter counts */
    }
    assert_int_equal(counted.allocations, 0);
    assert_int_equal(counted.mappings, 0);
    free(gradient), free(out), free(job.scratch);
    fth_batch_destroy(batch);
    fth_pool_destroy(pool);
    fth_embedding_destroy(embedding);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growth_to_a_million_keys),
        cmocka_unit_test(the_memory_limit_holds),
        cmocka_unit_test(the_memory_limit_holds_for_shared_rows),
        cmocka_unit_test(room_that_is_reserved),
        cmocka_unit_test(known_keys_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
