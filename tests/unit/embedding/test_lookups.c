/* embedding/: many one-key fields of one embedding: gathers side by side, admission, hot rows,
 * tables that share rows, hostile keys, refusals. */
#include "columns.h"
#include "import_rows.h"

static void side_by_side_is_one_by_one(void **state) {
    uint32_t dims[] = {1, 3, 4, 16, 20};
    fth_pool *pool = world_pool(1);
    for (int d = 0; d < 5; d++) {
        uint32_t dim = dims[d], n = 37, ld = FIELDS * dim + 2;
        fth_embedding *embedding =
            create_ok(&(struct setting){.n_lookups = FIELDS, .dim = dim, .max_batch = 64});
        struct fth_batch *batch = batch_of(n, 7);
        OK(fth_embedding_prepare(embedding, pool, batch, 1, 1, err));
        const struct fth_rows *rows = fth_embedding_rows(embedding);
        uint32_t order[] = {4, 0, 3, 2, 1};
        float *many = calloc(n * ld, sizeof(float)), *one = calloc(n * ld, sizeof(float));
        rows->gather_many(rows->ctx, order, FIELDS, 5, n - 5, many + 5 * ld, ld);
        for (uint32_t l = 0; l < FIELDS; l++)
            rows->gather(rows->ctx, order[l], 5, n - 5, one + 5 * ld + l * dim, ld);
        assert_memory_equal(many, one, n * ld * sizeof(float));
        float
            first[20]; /* what the row's draws say, key 7 + 5 of table "e"; field "d" has value 2 */
        fth_random_uniform(5 ^ fth_hash_bytes("e", 1, 0), FTH_RANDOM_ROW_INIT, 12, dim, -0.25f,
                           0.25f, first);
        assert_memory_equal(many + 5 * ld, first, dim * sizeof(float));
        fth_random_uniform(5 ^ fth_hash_bytes("d", 1, 0), FTH_RANDOM_ROW_INIT, 12, dim, -0.25f,
                           0.25f, first);
        assert_true(many[5 * ld + 2 * dim] == 2 * first[0]);
        free(many), free(one);
        fth_batch_destroy(batch);
        fth_embedding_destroy(embedding);
    }
    fth_pool_destroy(pool);
}

static void first_values(void **state) {
    fth_pool *pool = world_pool(1);
    int inits[] = {FTH_INIT_NORMAL, FTH_INIT_ZERO};
    for (int i = 0; i < 2; i++) {
        fth_embedding *embedding = create_ok(
            &(struct setting){.n_lookups = 1, .dim = 6, .max_batch = 8, .init = inits[i]});
        struct fth_batch *batch = batch_of(1, 3);
        OK(fth_embedding_prepare(embedding, pool, batch, 1, 1, err));
        float got[6], want[6] = {0};
        const struct fth_rows *rows = fth_embedding_rows(embedding);
        rows->gather(rows->ctx, 0, 0, 1, got, 6);
        if (inits[i] == FTH_INIT_NORMAL)
            fth_random_normal(5 ^ fth_hash_bytes("a", 1, 0), FTH_RANDOM_ROW_INIT, 3, 6, 0, 0.25f,
                              want);
        assert_memory_equal(got, want, sizeof want);
        fth_batch_destroy(batch);
        fth_embedding_destroy(embedding);
    }
    fth_pool_destroy(pool);
}

/* Frequencies are kept by the update, which has the rows in hand; before it only where the step asks for them. Of both ways
 * through prepare: a part a table, and a table of two fields. */
static void frequencies_are_kept_once(void **state) {
    fth_pool *pool = world_pool(2);
    for (int counted = 0; counted < 2; counted++)
        for (int shared = 0; shared < 2; shared++) {
            struct fth_lookup lookups[2] = {
                {.field = 0, .table = "a", .dim = 4, .group = FTH_NO_GROUP, .counted = counted},
                {.field = 1, .table = shared ? "a" : "b", .dim = 4, .group = FTH_NO_GROUP}};
            struct fth_embedding_config config = {.init_scale = 0.25, .memory_limit = 1 << 20};
            struct fth_optimizer_config optimizer = world_optimizer("adagrad");
            struct fth_embedding_options options = {.lookups = lookups, .n_lookups = 2, .config = &config,
                                                    .optimizer = &optimizer, .max_batch = 8, .packing = 1};
            fth_embedding *embedding;
            OK(fth_embedding_create(&options, &embedding, err));
            struct fth_batch *batch = batch_of(8, 7); /* each key once a field */
            const struct fth_rows *rows = fth_embedding_rows(embedding);
            float got[8];
            for (int step = 1; step <= 3; step++) {
                float before = (float)((step - 1) * (1 + shared)), after = (float)(step * (1 + shared));
                OK(fth_embedding_prepare(embedding, pool, batch, 1, (uint64_t)step, err));
                rows->frequencies(rows->ctx, 0, 0, 8, got, 1);
                for (int i = 0; i < 8; i++)
                    assert_true(got[i] == (counted ? after : before));
                update_without_gradients(embedding);
                rows->frequencies(rows->ctx, 0, 0, 8, got, 1);
                for (int i = 0; i < 8; i++)
                    assert_true(got[i] == after);
            }
            fth_batch_destroy(batch);
            fth_embedding_destroy(embedding);
        }
    fth_pool_destroy(pool);
}

static void admission_counts_whole_batches(void **state) {
    fth_embedding *embedding =
        create_ok(&(struct setting){.n_lookups = 1, .dim = 4, .max_batch = 8, .min_count = 5});
    fth_pool *pool = world_pool(1);
    struct fth_batch *batch = batch_of(3, 9);
    uint64_t keys[] = {50, 50, 60}, frequency, unique;
    memcpy(batch->fields[0].keys, keys, sizeof keys);
    float out[3 * 4], zero[3 * 4] = {0};
    const struct fth_rows *rows = fth_embedding_rows(embedding);
    struct fth_pack_info info;
    for (uint64_t step = 1; step <= 2; step++) { /* 50: 2, 4 times */
        OK(fth_embedding_prepare(embedding, pool, batch, 1, step, err));
        rows->gather(rows->ctx, 0, 0, 3, out, 4);
        assert_memory_equal(out, zero, sizeof out);
        fth_embedding_pack_info(embedding, 0, &info);
        assert_int_equal(info.rows, 0);
        assert_int_equal(info.candidates, 2);
        assert_int_equal(update_work(embedding), 1);
        fth_embedding_last_batch(embedding, &frequency, &unique);
        assert_int_equal(frequency, 3);
        assert_int_equal(unique, 0);
        update_without_gradients(embedding);
    }
    OK(fth_embedding_prepare(embedding, pool, batch, 1, 3, err)); /* 50: 6 times */
    update_without_gradients(embedding);
    rows->gather(rows->ctx, 0, 0, 3, out, 4);
    assert_memory_not_equal(out, zero, 4 * sizeof(float));
    assert_memory_equal(out, out + 4, 4 * sizeof(float));
    assert_memory_equal(out + 8, zero, 4 * sizeof(float));
    fth_embedding_pack_info(embedding, 0, &info);
    assert_int_equal(info.rows, 1);
    assert_int_equal(info.candidates, 1);
    struct fth_row_arrays arrays = {.frequency = &frequency};
    assert_int_equal(fth_embedding_export(embedding, 0, 0, 1, &arrays), 1);
    assert_int_equal(frequency, 6);
    uint64_t candidate, count;
    assert_int_equal(fth_embedding_export_candidates(embedding, 0, 0, 9, &candidate, NULL, &count),
                     1);
    assert_int_equal(candidate, 60);
    assert_int_equal(count, 3);
    /* A candidate that is imported as a row is one no more; its count is not lost. */
    uint32_t table = 0;
    struct fth_row_arrays row = {.keys = &candidate, .tables = &table};
    OK(import_rows(embedding, 0, 1, &row, err));
    OK(fth_embedding_import_candidates(embedding, 0, 1, &candidate, &table, &count, err));
    fth_embedding_pack_info(embedding, 0, &info);
    assert_int_equal(info.rows, 2);
    assert_int_equal(info.candidates, 0);
    fth_batch_destroy(batch);
    fth_pool_destroy(pool);
    fth_embedding_destroy(embedding);
}

/* `rows` keys of one shard, so that they meet in the update's blocks, share N examples evenly;
 * `lists` gradients for the one lookup. */
static void check_sums(fth_embedding *embedding, fth_pool *pool, uint32_t rows, uint32_t lists) {
    enum { N = 3000, DIM = 7 };
    struct fth_batch *batch = batch_of(N, 1);
    float *gradient = malloc(N * DIM * sizeof(float)), sum[DIM], got[DIM], zero[DIM] = {0};
    const float **source = malloc(2 * N * sizeof *source);
    uint64_t random = 4, key = 0;
    const struct fth_table a = {.hash = fth_hash_bytes("a", 1, 0)};
    for (uint32_t i = 0; i < N; i++, key++) {
        uint32_t table = 0;
        while (i < rows && fth_shard_of(fth_pack_hash(&a, key)) != 0)
            key++;
        batch->fields[0].keys[i] = i < rows ? key : batch->fields[0].keys[i % rows];
        for (uint32_t j = 0; j < DIM; j++)
            gradient[i * DIM + j] = world_float(&random);
        struct fth_row_arrays row = {
            .keys = &key, .tables = &table, .weights = zero, .slots = {zero}};
        if (i < rows)
            OK(import_rows(embedding, 0, 1, &row, err));
    }
    const struct fth_rows *of = fth_embedding_rows(embedding);
    struct fth_row_gradient list[] = {{.gradient = gradient, .ld = DIM},
                                      {.gradient = gradient, .ld = 0}};
    struct fth_opt_args args = {.lr = 1, .grad_scale = 1};
    OK(fth_embedding_prepare(embedding, pool, batch, 1, 1, err));
    fth_embedding_set_args(embedding, &args, NULL);
    run_update(embedding, pool, list, lists, 1);
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t n = 0;
        for (uint32_t i = r; i < N; i += rows) {
            source[n++] = gradient + i * DIM;
            if (lists == 2)
                source[n++] = gradient;
        }
        float want[DIM] = {0}, slot[DIM] = {0};
        fth_kernels_get()->sum_rows(n, source, NULL, DIM, sum);
        fth_kernels_get()->opt_adagrad(DIM, want, slot, sum, &args);
        of->gather(of->ctx, 0, r, 1, got, DIM);
        assert_memory_equal(got, want, sizeof want);
    }
    free(gradient), free(source);
    fth_batch_destroy(batch);
}

/* Rows with more occurrences than a block of the update holds, blocks that rows fill unevenly. */
static void hot_rows_sum_in_order(void **state) {
    fth_embedding *embedding =
        create_ok(&(struct setting){.n_lookups = 1, .dim = 7, .max_batch = 3000});
    fth_pool *pool = world_pool(2);
    uint32_t rows[] = {1, 2, 12, 40, 700};
    for (int i = 0; i < 5; i++) {
        check_sums(embedding, pool, rows[i], 1);
        check_sums(embedding, pool, rows[i], 2);
    }
    fth_pool_destroy(pool);
    fth_embedding_destroy(embedding);
}

/* The tables of pack `p`, member by member: "user|user.linear;..." */
static const char *members_of(const fth_embedding *embedding, uint32_t p, char out[256]) {
    const struct fth_pack *pack = &embedding->packs[p];
    out[0] = 0;
    for (uint32_t t = 0; t < pack->n_tables; t++)
        for (uint32_t m = 0; m < pack->n_members; m++) {
            strcat(out, pack->members[m].tables[t].name);
            strcat(out, m + 1 < pack->n_members ? "|" : ";");
        }
    return out;
}

/* Tables of the same keys share rows; one that admits otherwise, or whose fields come in another order, does not. */
static void tables_of_the_same_keys_share_rows(void **state) {
    static const char *const want[] = {"user|user.linear;item|item.twin;rare|rare.linear;",
                                       "price|price_plain;",
                                       "tags|tags.linear|tags_plain|tags_best;", "best|steps;",
                                       "item.linear;", "place;"};
    uint64_t bytes[2] = {0};
    fth_pool *pool = world_pool(1);
    for (int packing = 0; packing < 2; packing++) {
        fth_embedding *embedding = world_embedding("adagrad", packing);
        char members[256];
        assert_int_equal(embedding->n_packs, packing ? 6 : world_tables);
        uint32_t found = 0;
        for (uint32_t p = 0; packing && p < 6; p++)
            for (uint32_t w = 0; w < 6; w++)
                found += strcmp(members_of(embedding, p, members), want[w]) == 0;
        assert_int_equal(found, packing ? 6 : 0);
        world_train(embedding, pool, "adagrad", 1, 5);
        for (uint32_t v = 0; v < fth_embedding_packs(embedding); v++) {
            struct fth_pack_info info;
            fth_embedding_pack_info(embedding, v, &info);
            bytes[packing] += info.bytes;
        }
        assert_int_equal(bytes[packing], embedding->budget.used);
        fth_embedding_destroy(embedding);
    }
    assert_true(bytes[1] < bytes[0]);
    world_lookups[20].min_count = 5; /* "rare.linear" */
    fth_embedding *embedding = world_embedding("adagrad", 1);
    assert_int_equal(embedding->n_packs, 7);
    fth_embedding_destroy(embedding);
    world_lookups[20].min_count = 4;
    fth_pool_destroy(pool);
}

static void hostile_keys(void **state) {
    enum { N = 4096 };
    fth_embedding *embedding =
        create_ok(&(struct setting){.n_lookups = 2, .dim = 2, .max_batch = N});
    fth_pool *pool = world_pool(2);
    struct fth_batch *batch = batch_of(N, 0);
    for (uint32_t shift = 0; shift < 64; shift += 7) {
        for (uint32_t i = 0; i < N; i++)
            batch->fields[0].keys[i] = batch->fields[1].keys[i] = (uint64_t)i << shift;
        batch->fields[0].keys[1] = UINT64_MAX;
        OK(fth_embedding_prepare(embedding, pool, batch, 1, 1 + shift, err));
        OK(fth_embedding_prepare(embedding, pool, batch, 0, 1 + shift, err));
        float got[N * 2], want[2];
        const struct fth_rows *rows = fth_embedding_rows(embedding);
        rows->gather(rows->ctx, 1, 0, N, got, 2);
        for (uint32_t i = 0; i < N; i++) {
            fth_random_uniform(5 ^ fth_hash_bytes("b", 1, 0), FTH_RANDOM_ROW_INIT,
                               batch->fields[1].keys[i], 2, -0.25f, 0.25f, want);
            assert_memory_equal(got + i * 2, want, sizeof want);
        }
    }
    fth_batch_destroy(batch);
    fth_pool_destroy(pool);
    fth_embedding_destroy(embedding);
}

static void wrong_use_is_refused(void **state) {
    fth_error error = {0};
    fth_embedding *embedding = NULL;
    assert_int_equal(
        create(&(struct setting){.n_lookups = 1, .dim = 4, .max_batch = 8, .limit = 1000},
               &embedding, &error),
        FTH_E_LIMIT);
    assert_non_null(strstr(error.message, "embedding.memory_limit"));
    assert_int_equal(
        create(&(struct setting){.n_lookups = 1, .dim = 0, .max_batch = 8}, &embedding, &error),
        FTH_E_ARGUMENT);
    assert_null(embedding);
    struct fth_lookup twice[] = {{.table = "a", .dim = 4, .group = FTH_NO_GROUP},
                                 {.table = "a", .dim = 8, .group = FTH_NO_GROUP}};
    struct fth_optimizer_config optimizer = world_optimizer("adam");
    struct fth_embedding_options options = {.lookups = twice,
                                            .n_lookups = 2,
                                            .config = &world_config,
                                            .optimizer = &optimizer,
                                            .max_batch = 8,
                                            .packing = 1};
    assert_int_equal(fth_embedding_create(&options, &embedding, &error), FTH_E_CONFIG);
    assert_non_null(strstr(error.message, "'a'"));
    twice[1].dim = 4;
    optimizer.name = "lamb";
    assert_int_equal(fth_embedding_create(&options, &embedding, &error), FTH_E_CONFIG);
    assert_non_null(strstr(error.message, "lamb"));
    fth_embedding_destroy(NULL);

    embedding = create_ok(&(struct setting){.n_lookups = 1, .dim = 4, .max_batch = 8});
    fth_pool *pool = world_pool(1);
    struct fth_batch *batch = batch_of(9, 0);
    assert_int_equal(fth_embedding_prepare(embedding, pool, batch, 1, 1, &error), FTH_E_ARGUMENT);
    batch->n = 8;
    batch->fields[0].group = 0;
    assert_int_equal(fth_embedding_prepare(embedding, pool, batch, 1, 1, &error), FTH_E_ARGUMENT);
    batch->fields[0].group = FTH_NO_GROUP;
    batch->n = 0; /* an empty batch is none of that */
    OK(fth_embedding_prepare(embedding, pool, batch, 1, 1, err));
    assert_int_equal(update_work(embedding), 0);
    fth_batch_destroy(batch);
    fth_pool_destroy(pool);
    fth_embedding_destroy(embedding);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(side_by_side_is_one_by_one),
        cmocka_unit_test(first_values),
        cmocka_unit_test(frequencies_are_kept_once),
        cmocka_unit_test(admission_counts_whole_batches),
        cmocka_unit_test(hot_rows_sum_in_order),
        cmocka_unit_test(tables_of_the_same_keys_share_rows),
        cmocka_unit_test(hostile_keys),
        cmocka_unit_test(wrong_use_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
