/* embedding/: threads, packing and a stop in between change no bit. */
#include "import_rows.h"
#include "world.h"

#define STEPS 9

static fth_embedding *trained(const char *optimizer, int packing, uint32_t threads) {
    fth_embedding *embedding = world_embedding(optimizer, packing);
    fth_pool *pool = world_pool(threads);
    world_train(embedding, pool, optimizer, 1, STEPS);
    fth_pool_destroy(pool);
    return embedding;
}

static void any_number_of_threads(void **state) {
    fth_embedding *one = trained("adagrad", 1, 1);
    for (uint32_t threads = 2; threads <= 8; threads *= 2) {
        fth_embedding *many = trained("adagrad", 1, threads);
        assert_same_embeddings(one, many);
        fth_embedding_destroy(many);
    }
    fth_embedding_destroy(one);
}

/* The row of a key of a table in any pack of the embedding: number in the snapshot. */
static const float *find_row(const struct snapshot *packs, uint32_t n_packs, const char *table,
                             uint64_t key, const struct snapshot **pack, uint64_t *number) {
    for (uint32_t p = 0; p < n_packs; p++) {
        for (uint64_t i = 0; i < packs[p].n; i++) {
            if (packs[p].rows.keys[i] == key &&
                strcmp(packs[p].info.table_names[packs[p].rows.tables[i]], table) == 0) {
                *pack = &packs[p];
                *number = i;
                return packs[p].rows.weights + i * packs[p].info.dim;
            }
        }
    }
    return NULL;
}

static void assert_same_row(const struct snapshot *a, uint64_t i, const struct snapshot *b,
                            uint64_t j) {
    uint32_t dim = a->info.dim;
    assert_int_equal(dim, b->info.dim);
    assert_memory_equal(a->rows.weights + i * dim, b->rows.weights + j * dim, dim * sizeof(float));
    for (uint32_t s = 0; s < a->info.n_slots; s++) {
        uint32_t columns = a->info.slot_columns[s];
        assert_memory_equal(a->rows.slots[s] + i * columns, b->rows.slots[s] + j * columns,
                            columns * sizeof(float));
    }
    assert_int_equal(a->rows.frequency[i], b->rows.frequency[j]);
    assert_int_equal(a->rows.last_step[i], b->rows.last_step[j]);
}

/* The same rows, however they are packed. */
static void assert_same_rows(const fth_embedding *packed, const fth_embedding *apart) {
    uint32_t n_packed = fth_embedding_packs(packed), n_apart = fth_embedding_packs(apart);
    assert_int_equal(n_packed, 3); /* dimensions 8, 4 and 1 */
    assert_int_equal(n_apart, world_tables);
    struct snapshot a[3], b[LOOKUPS];
    uint64_t rows_packed = 0, rows_apart = 0, candidates_packed = 0, candidates_apart = 0;
    for (uint32_t p = 0; p < n_packed; p++) {
        snapshot_take(packed, p, &a[p]);
        rows_packed += a[p].n, candidates_packed += a[p].n_candidates;
    }
    for (uint32_t p = 0; p < n_apart; p++) {
        snapshot_take(apart, p, &b[p]);
        rows_apart += b[p].n, candidates_apart += b[p].n_candidates;
    }
    assert_int_equal(rows_packed, rows_apart);
    assert_int_equal(candidates_packed, candidates_apart);
    for (uint32_t p = 0; p < n_apart; p++) {
        for (uint64_t i = 0; i < b[p].n; i++) {
            const struct snapshot *pack = NULL;
            uint64_t at = 0;
            assert_non_null(find_row(a, n_packed, b[p].info.table_names[0], b[p].rows.keys[i],
                                     &pack, &at));
            assert_same_row(pack, at, &b[p], i);
        }
    }
    for (uint32_t p = 0; p < n_packed; p++)
        snapshot_free(&a[p]);
    for (uint32_t p = 0; p < n_apart; p++)
        snapshot_free(&b[p]);
}

static const char *const kinds[] = {"sgd", "adagrad", "rowwise_adagrad", "ftrl", "adam"};

/* Also whether rows are shared: without packing no tables share rows. */
static void packed_or_not(void **state) {
    for (int o = 0; o < 5; o++) {
        fth_embedding *packed = trained(kinds[o], 1, 2), *apart = trained(kinds[o], 0, 2);
        assert_same_rows(packed, apart);
        fth_embedding_destroy(packed);
        fth_embedding_destroy(apart);
    }
}

static uint32_t table_number(const fth_embedding *embedding, const char *name, uint32_t *pack) {
    for (*pack = 0; *pack < fth_embedding_packs(embedding); ++*pack) {
        struct fth_pack_info info;
        fth_embedding_pack_info(embedding, *pack, &info);
        for (uint32_t t = 0; t < info.n_tables; t++)
            if (strcmp(info.table_names[t], name) == 0)
                return t;
    }
    fail_msg("no table %s", name);
    return 0;
}

/* Rows and candidates of packs of one table into an embedding whose tables share packs and rows, the last
 * tables, which do not lead, first; then both train on. */
static void taken_over_from_tables_apart(void **state) {
    for (int o = 0; o < 5; o++) {
        fth_pool *pool = world_pool(2);
        fth_embedding *apart = trained(kinds[o], 0, 1), *packed = world_embedding(kinds[o], 1);
        for (uint32_t p = fth_embedding_packs(apart); p-- > 0;) {
            struct snapshot all;
            snapshot_take(apart, p, &all);
            uint32_t pack, table = table_number(packed, all.info.table_names[0], &pack);
            for (uint64_t i = 0; i < all.n; i++)
                all.rows.tables[i] = table;
            for (uint64_t i = 0; i < all.n_candidates; i++)
                all.tables[i] = table;
            OK(import_rows(packed, pack, all.n, &all.rows, err));
            OK(fth_embedding_import_candidates(packed, pack, all.n_candidates, all.keys, all.tables,
                                               all.counts, err));
            snapshot_free(&all);
        }
        assert_same_rows(packed, apart);
        world_train(packed, pool, kinds[o], STEPS + 1, STEPS + 5);
        world_train(apart, pool, kinds[o], STEPS + 1, STEPS + 5);
        assert_same_rows(packed, apart);
        fth_embedding_destroy(packed);
        fth_embedding_destroy(apart);
        fth_pool_destroy(pool);
    }
}

/* Every row and candidate into a new embedding, in small bites. */
static fth_embedding *copied(const fth_embedding *from, const char *optimizer) {
    fth_embedding *to = world_embedding(optimizer, 1);
    for (uint32_t p = 0; p < fth_embedding_packs(from); p++) {
        struct snapshot all;
        snapshot_take(from, p, &all);
        for (uint64_t at = 0; at < all.n; at += 50) {
            uint64_t n = all.n - at < 50 ? all.n - at : 50;
            struct fth_row_arrays part = {.keys = all.rows.keys + at,
                                          .tables = all.rows.tables + at,
                                          .weights = all.rows.weights + at * all.info.dim,
                                          .frequency = all.rows.frequency + at,
                                          .last_step = all.rows.last_step + at};
            for (uint32_t s = 0; s < all.info.n_slots; s++)
                part.slots[s] = all.rows.slots[s] + at * all.info.slot_columns[s];
            /* The same bite read on its own. */
            uint64_t keys[50];
            struct fth_row_arrays only_keys = {.keys = keys};
            assert_int_equal(fth_embedding_export(from, p, at, n, &only_keys), n);
            assert_memory_equal(keys, part.keys, n * 8);
            OK(import_rows(to, p, n, &part, err));
        }
        OK(fth_embedding_import_candidates(to, p, all.n_candidates, all.keys, all.tables,
                                           all.counts, err));
        snapshot_free(&all);
    }
    return to;
}

static void stopped_and_resumed(void **state) {
    const char *optimizers[] = {"adagrad", "rowwise_adagrad", "ftrl"};
    for (int o = 0; o < 3; o++) {
        fth_pool *pool = world_pool(2);
        fth_embedding *through = world_embedding(optimizers[o], 1);
        world_train(through, pool, optimizers[o], 1, 5);
        struct fth_pack_info info;
        fth_embedding_pack_info(through, 0, &info);
        assert_true(info.candidates > 0);
        fth_embedding *resumed = copied(through, optimizers[o]);
        assert_same_embeddings(through, resumed);
        world_train(through, pool, optimizers[o], 6, 12);
        world_train(resumed, pool, optimizers[o], 6, 12);
        assert_same_embeddings(through, resumed);
        fth_embedding_destroy(through);
        fth_embedding_destroy(resumed);
        fth_pool_destroy(pool);
    }
}

static void import_overwrites_and_checks(void **state) {
    fth_embedding *embedding = trained("adagrad", 1, 1);
    struct snapshot before, after;
    snapshot_take(embedding, 0, &before);
    float weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct fth_row_arrays row = {
        .keys = before.rows.keys + 3, .tables = before.rows.tables + 3, .weights = weights};
    OK(import_rows(embedding, 0, 1, &row, err));
    snapshot_take(embedding, 0, &after);
    assert_int_equal(after.n, before.n);
    assert_memory_equal(after.rows.weights + 3 * 8, weights, sizeof weights);
    assert_memory_equal(after.rows.slots[0], before.rows.slots[0], before.n * 8 * sizeof(float));
    assert_memory_equal(after.rows.frequency, before.rows.frequency, before.n * 8);
    uint32_t table = 1000;
    row.tables = &table;
    fth_error error = {0};
    assert_int_equal(import_rows(embedding, 0, 1, &row, &error), FTH_E_CHECKPOINT);
    assert_non_null(strstr(error.message, "1000"));
    snapshot_free(&before);
    snapshot_free(&after);
    fth_embedding_destroy(embedding);
}

/* Frequencies and steps beyond 32 bits, in rows of every size. */
static void large_counts(void **state) {
    fth_embedding *embedding[2] = {trained("ftrl", 1, 1), trained("ftrl", 1, 1)};
    fth_pool *pool = world_pool(1);
    struct fth_batch *batch = world_batch(3, WORLD_BATCH);
    uint64_t frequency[2] = {1, UINT32_MAX}, step = ((uint64_t)9 << 32) + 1;
    for (uint32_t p = 0; p < fth_embedding_packs(embedding[0]); p++) {
        struct snapshot now[2];
        for (int e = 0; e < 2; e++) {
            snapshot_take(embedding[e], p, &now[e]);
            for (uint64_t i = 0; i < now[e].n; i++) {
                now[e].rows.frequency[i] = frequency[e];
                now[e].rows.last_step[i] = step - 1;
            }
            OK(import_rows(embedding[e], p, now[e].n, &now[e].rows, err));
            snapshot_free(&now[e]);
        }
    }
    for (int e = 0; e < 2; e++)
        world_step(embedding[e], pool, "ftrl", batch, step);
    for (uint32_t p = 0; p < fth_embedding_packs(embedding[0]); p++) {
        struct snapshot now[2];
        snapshot_take(embedding[0], p, &now[0]);
        snapshot_take(embedding[1], p, &now[1]);
        uint64_t counted = 0;
        for (uint64_t i = 0; i < now[0].n; i++) {
            int fresh = now[0].rows.frequency[i] == now[1].rows.frequency[i];
            uint64_t more = now[0].rows.frequency[i] - frequency[0];
            assert_true(fresh || now[1].rows.frequency[i] == frequency[1] + more);
            assert_int_equal(now[1].rows.last_step[i], fresh || more ? step : step - 1);
            assert_int_equal(now[1].rows.tables[i], now[0].rows.tables[i]);
            counted += !fresh && more;
        }
        assert_true(counted > 0);
        snapshot_free(&now[0]);
        snapshot_free(&now[1]);
    }
    fth_batch_destroy(batch);
    fth_pool_destroy(pool);
    fth_embedding_destroy(embedding[0]);
    fth_embedding_destroy(embedding[1]);
}

/* Sum over the tasks, in their order, as the runtime does. */
static double squares_of(fth_embedding *embedding, const struct fth_row_gradient *list,
                         uint32_t n) {
    const struct fth_rows *rows = fth_embedding_rows(embedding);
    void *scratch = malloc(rows->update_scratch(rows->ctx));
    double sum = 0;
    for (uint32_t t = 0; t < rows->update_tasks(rows->ctx); t++)
        sum += rows->gradient_squares(rows->ctx, list, n, t, scratch);
    free(scratch);
    return sum;
}

/* With SGD at rate 1 a row moves by its gradient: the squares are those of the moves. Packing
 * leaves the bits of the sum alone. */
static void squares_of_the_gradient(void **state) {
    fth_pool *pool = world_pool(2);
    struct fth_batch *batch = world_batch(7, WORLD_BATCH);
    struct world_gradients gradients;
    world_gradients_make(&gradients, batch, 7);
    double squares[2];
    uint64_t keys[2], unique[2];
    for (int packing = 0; packing < 2; packing++) {
        fth_embedding *embedding = world_embedding("sgd", packing);
        const struct fth_rows *rows = fth_embedding_rows(embedding);
        OK(fth_embedding_prepare(embedding, pool, batch, 1, 1, err));
        fth_embedding_last_batch(embedding, &keys[packing], &unique[packing]);
        float out[WORLD_BATCH * 8];
        rows->gather(rows->ctx, 5, 0, batch->n, out, 8); /* max pooling */
        squares[packing] = squares_of(embedding, gradients.list, LOOKUPS);
        struct snapshot before[LOOKUPS], after[LOOKUPS];
        for (uint32_t p = 0; p < fth_embedding_packs(embedding); p++)
            snapshot_take(embedding, p, &before[p]);
        struct fth_opt_args args = {.lr = 1, .grad_scale = 1};
        fth_embedding_set_args(embedding, &args, NULL);
        run_update(embedding, pool, gradients.list, LOOKUPS, 1);
        double moved = 0;
        for (uint32_t p = 0; p < fth_embedding_packs(embedding); p++) {
            snapshot_take(embedding, p, &after[p]);
            for (uint64_t i = 0; i < after[p].n * after[p].info.dim; i++) {
                double move = (double)after[p].rows.weights[i] - before[p].rows.weights[i];
                moved += move * move;
            }
            snapshot_free(&before[p]);
            snapshot_free(&after[p]);
        }
        assert_true(moved > 1 && fabs(squares[packing] - moved) < 1e-4 * moved);
        fth_embedding_destroy(embedding);
    }
    assert_memory_equal(&squares[0], &squares[1], sizeof squares[0]);
    assert_int_equal(keys[0], keys[1]);
    assert_int_equal(unique[0], unique[1]);
    world_gradients_free(&gradients);
    fth_batch_destroy(batch);
    fth_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads),   cmocka_unit_test(packed_or_not),
        cmocka_unit_test(taken_over_from_tables_apart),
        cmocka_unit_test(stopped_and_resumed),     cmocka_unit_test(import_overwrites_and_checks),
        cmocka_unit_test(squares_of_the_gradient),
        cmocka_unit_test(large_counts),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    world_long();
    failed += cmocka_run_group_tests_name("long", tests, NULL, NULL);
    world_longest = 6;
    world_apart();
    return failed + cmocka_run_group_tests_name("apart", tests, NULL, NULL);
}
