/* The unique rows of lookups with one key an example: their numbers, examples and copies are what the batch says, also
 * where other lookups read the same table, before or behind; and gradients of unique rows, which come in parts, train
 * rows as the same gradients for one of the row's examples do. */
#include "world.h"

enum { N = 600, DIM = 8, PARTS = 2, NUMBERED = 3, ALL = 6 };

/* "left" and "right" share a table with a list, of "apart" nobody else knows, "rare" admits late; the last has as many keys as
 * there are examples. */
static const char *const names[] = {"left", "apart", "right", "rare", "many", "list"};
static const int32_t groups[] = {FTH_NO_GROUP, FTH_NO_GROUP, FTH_NO_GROUP, FTH_NO_GROUP, FTH_NO_GROUP, 0};
static const uint8_t weighted[ALL];
static const uint32_t longest[] = {6};
static const struct fth_schema schema = {.n_fields = ALL,
                                         .field_group = groups,
                                         .field_weighted = weighted,
                                         .n_groups = 1,
                                         .group_max = longest};

/* shared: or each table is one lookup's. */
static fth_embedding *make(const char *optimizer, int shared) {
    struct fth_lookup lookups[ALL];
    for (uint32_t i = 0; i < ALL; i++)
        lookups[i] = (struct fth_lookup){.field = i,
                                         .table = i == 2 && shared ? names[0] : names[i],
                                         .dim = DIM,
                                         .group = groups[i],
                                         .min_count = i == 3 ? 3 : 0,
                                         .numbered = groups[i] == FTH_NO_GROUP};
    lookups[ALL - 1].pooling = FTH_POOL_MEAN;
    if (shared)
        lookups[ALL - 1].table = names[0];
    return world_packed(lookups, ALL, optimizer, 64 << 20, N);
}

static struct fth_batch *batch_of(uint64_t seed, int lists) {
    static const uint64_t ranges[ALL] = {40, 70, 60, 190, UINT64_MAX, 90};
    struct fth_batch *batch;
    uint64_t state = fth_hash_mix(seed);
    OK(fth_batch_create(&schema, N, &batch, err));
    batch->n = N;
    uint32_t at = 0;
    for (uint32_t i = 0; i < N; i++) {
        batch->groups[0].offsets[i] = at;
        at += lists ? (uint32_t)(world_random(&state) % 7) : 0;
    }
    batch->groups[0].offsets[N] = batch->groups[0].total = at;
    OK(fth_batch_reserve_positions(batch, 0, at, err));
    for (uint32_t f = 0; f < ALL; f++)
        for (uint32_t i = 0; i < (groups[f] < 0 ? N : at); i++)
            batch->fields[f].keys[i] = world_random(&state) % ranges[f];
    return batch;
}

static void check_numbers(const struct fth_rows *rows, uint32_t l, const struct fth_batch *batch) {
    const struct fth_unique_rows *unique = rows->unique(rows->ctx, l);
    const uint64_t *keys = batch->fields[l].keys;
    float *gathered = malloc(N * DIM * sizeof *gathered);
    uint32_t seen = 0;
    rows->gather(rows->ctx, l, 0, N, gathered, DIM);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t number = unique->number[i], first = unique->examples[unique->begin[number]];
        assert_true(number <= seen && number < unique->n); /* in the order of first occurrences */
        seen += number == seen;
        assert_true(keys[i] == keys[first] || l == 3);
        assert_memory_equal(unique->rows + (size_t)number * unique->ld, gathered + (size_t)i * DIM,
                            DIM * sizeof(float));
        for (uint32_t j = 0; j < i && j < 50; j++)
            assert_true(keys[j] != keys[i] || unique->number[j] == number);
    }
    assert_int_equal(seen, unique->n);
    assert_int_equal(unique->begin[0], 0);
    assert_int_equal(unique->begin[unique->n], N);
    for (uint32_t u = 0; u < unique->n; u++)
        for (uint32_t k = unique->begin[u]; k < unique->begin[u + 1]; k++) {
            assert_int_equal(unique->number[unique->examples[k]], u);
            assert_true(k == unique->begin[u] || unique->examples[k] > unique->examples[k - 1]);
        }
    free(gathered);
}

static void numbers(void **state) {
    fth_pool *pool = world_pool(3);
    for (int shared = 0; shared < 2; shared++)
        for (int lists = 0; lists < 2; lists++) {
            fth_embedding *embedding = make("sgd", shared);
            const struct fth_rows *rows = fth_embedding_rows(embedding);
            for (uint64_t step = 1; step < 4; step++) {
                struct fth_batch *batch = batch_of(step, lists);
                OK(fth_embedding_prepare(embedding, pool, batch, 1, step, err));
                for (uint32_t l = 0; l < 4; l++)
                    check_numbers(rows, l, batch);
                assert_int_equal(rows->unique(rows->ctx, 4)->n, 0);
                OK(fth_embedding_prepare(embedding, pool, batch, 0, step, err));
                assert_int_equal(rows->unique(rows->ctx, 0)->n, 0);
                fth_batch_destroy(batch);
            }
            fth_embedding_destroy(embedding);
        }
    fth_pool_destroy(pool);
}

/* The same random gradient a unique row: in parts, or to the row's first example. Powers of two and small numbers, so
 * that sums are exact in any order. */
static void train(fth_embedding *embedding, fth_pool *pool, const struct fth_batch *batch, int as_unique) {
    const struct fth_rows *rows = fth_embedding_rows(embedding);
    struct fth_row_gradient list[NUMBERED + 2];
    struct fth_opt_args args = world_args("sgd", 1);
    float *data[2 * NUMBERED + 1];
    uint64_t state = 9;
    uint32_t n = 0;
    OK(fth_embedding_prepare(embedding, pool, batch, 1, 1, err));
    for (uint32_t l = 0; l < NUMBERED; l++) {
        const struct fth_unique_rows *unique = rows->unique(rows->ctx, l);
        float *parts = calloc(PARTS * N, DIM * sizeof *parts), *plain = calloc(N, DIM * sizeof *plain);
        for (uint32_t u = 0; u < unique->n; u++)
            for (uint32_t j = 0; j < DIM; j++) {
                float *to = plain + (size_t)unique->examples[unique->begin[u]] * DIM + j;
                for (uint32_t p = 0; p < PARTS; p++) {
                    float value = (float)(world_random(&state) % 16);
                    parts[((size_t)p * N + u) * DIM + j] = value;
                    *to += value;
                }
            }
        data[2 * l] = parts;
        data[2 * l + 1] = plain;
        list[n++] = as_unique ? (struct fth_row_gradient){.lookup = l,
                                                          .gradient = parts,
                                                          .ld = DIM,
                                                          .parts = PARTS,
                                                          .part_stride = (size_t)N * DIM}
                              : (struct fth_row_gradient){.lookup = l, .gradient = plain, .ld = DIM};
    }
    /* The first also has gradients for its examples, and so has the list. */
    float *both = data[2 * NUMBERED] = malloc(N * DIM * sizeof *both);
    for (uint32_t i = 0; i < N * DIM; i++)
        both[i] = (float)(world_random(&state) % 4 * 60);
    list[n++] = (struct fth_row_gradient){.lookup = 0, .gradient = both, .ld = DIM};
    list[n++] = (struct fth_row_gradient){.lookup = ALL - 1, .gradient = both, .ld = DIM};
    fth_embedding_set_args(embedding, &args, NULL);
    run_update(embedding, pool, list, n, 1);
    for (uint32_t i = 0; i < 2 * NUMBERED + 1; i++)
        free(data[i]);
}

static void compare(const fth_embedding *a, const fth_embedding *b) {
    struct snapshot x, y;
    snapshot_take(a, 0, &x);
    snapshot_take(b, 0, &y);
    assert_int_equal(x.n, y.n);
    assert_memory_equal(x.rows.keys, y.rows.keys, x.n * 8);
    for (uint64_t i = 0; i < x.n * DIM; i++)
        assert_true(fabsf(x.rows.weights[i] - y.rows.weights[i]) <= 1e-5f * fabsf(y.rows.weights[i]) + 1e-4f);
    snapshot_free(&x);
    snapshot_free(&y);
}

static void gradients(void **state) {
    for (int shared = 0; shared < 2; shared++)
        for (int lists = 0; lists < 2; lists++) {
            fth_embedding *unique = make("sgd", shared), *plain = make("sgd", shared), *one = make("sgd", shared);
            fth_pool *pool = world_pool(3), *alone = world_pool(1);
            struct fth_batch *batch = batch_of(7, lists);
            train(unique, pool, batch, 1);
            train(plain, pool, batch, 0);
            train(one, alone, batch, 1);
            compare(unique, plain);
            assert_same_embeddings(unique, one);
            fth_batch_destroy(batch);
            fth_pool_destroy(pool);
            fth_pool_destroy(alone);
            fth_embedding_destroy(unique);
            fth_embedding_destroy(plain);
            fth_embedding_destroy(one);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers), cmocka_unit_test(gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
