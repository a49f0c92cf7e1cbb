/* Batches whose tables' keys are one part each, rows of one number: they are found by part, in an order that is
 * dealt out by cost to the workers, and counted by their update. Against plain counts, and at several
 * thread counts bit for bit. */
#include "world.h"

#define FIELDS 5
#define BATCH 700
#define STEPS 9
#define MIN_COUNT 3
#define WITHOUT 3 /* the field that has no gradient */
#define PART 32768 /* the largest */

static const char *const names[] = {"a", "b", "c", "d", "e"};
static const int32_t no_groups[] = {FTH_NO_GROUP, FTH_NO_GROUP, FTH_NO_GROUP, FTH_NO_GROUP,
                                    FTH_NO_GROUP};
static const uint8_t weighted[FIELDS] = {0};
static const uint32_t different[FIELDS] = {3, 40, 5000, 2000, 300};
static const struct fth_schema schema = {
    .n_fields = FIELDS, .field_group = no_groups, .field_weighted = weighted};

static fth_embedding *create(int64_t limit, uint64_t min_count, uint32_t max_batch) {
    struct fth_lookup lookups[FIELDS];
    for (uint32_t i = 0; i < FIELDS; i++)
        lookups[i] = (struct fth_lookup){.field = i,
                                         .table = names[i],
                                         .dim = 1,
                                         .group = FTH_NO_GROUP,
                                         .min_count = min_count};
    return world_packed(lookups, FIELDS, "ftrl", limit, max_batch);
}

static void fill(struct fth_batch *batch, uint64_t step) {
    uint64_t random = step;
    batch->n = step % 4 == 0 ? 1 : (uint32_t)(BATCH - step);
    for (uint32_t f = 0; f < FIELDS; f++)
        for (uint32_t i = 0; i < batch->n; i++)
            batch->fields[f].keys[i] = world_random(&random) % different[f];
}

static void update(fth_embedding *embedding, fth_pool *pool, uint64_t step) {
    float gradient[BATCH];
    struct fth_row_gradient list[FIELDS];
    struct fth_opt_args args = world_args("ftrl", step);
    uint32_t n = 0;
    for (uint32_t i = 0; i < BATCH; i++)
        gradient[i] = (float)i * 0.01f - 3;
    for (uint32_t f = 0; f < FIELDS; f++)
        if (f != WITHOUT)
            list[n++] = (struct fth_row_gradient){.lookup = f, .gradient = gradient, .ld = 1};
    fth_embedding_set_args(embedding, &args, NULL);
    run_update(embedding, pool, list, n, 1);
}

static fth_embedding *trained(uint32_t threads, struct fth_batch *batch) {
    fth_embedding *embedding = create(64 << 20, MIN_COUNT, BATCH);
    fth_pool *pool = world_pool(threads);
    for (uint64_t step = 1; step <= STEPS; step++) {
        fill(batch, step);
        OK(fth_embedding_prepare(embedding, pool, batch, 1, step, err));
        update(embedding, pool, step);
    }
    fth_pool_destroy(pool);
    return embedding;
}

static struct fth_batch *new_batch(void) {
    struct fth_batch *batch;
    OK(fth_batch_create(&schema, BATCH, &batch, err));
    return batch;
}

/* Of field f's key: how often it was met, and when last. */
static void count(struct fth_batch *batch, uint64_t (*times)[5000], uint64_t (*last)[5000]) {
    for (uint64_t step = 1; step <= STEPS; step++) {
        fill(batch, step);
        for (uint32_t f = 0; f < FIELDS; f++) {
            for (uint32_t i = 0; i < batch->n; i++) {
                times[f][batch->fields[f].keys[i]]++;
                last[f][batch->fields[f].keys[i]] = step;
            }
        }
    }
}

static void counted_once(void **state) {
    static uint64_t times[FIELDS][5000], last[FIELDS][5000];
    struct fth_batch *batch = new_batch();
    fth_embedding *embedding = trained(3, batch);
    struct snapshot all;
    uint64_t rows = 0, candidates = 0;
    count(batch, times, last);
    for (uint32_t f = 0; f < FIELDS; f++) {
        for (uint32_t k = 0; k < different[f]; k++) {
            rows += times[f][k] >= MIN_COUNT;
            candidates += times[f][k] > 0 && times[f][k] < MIN_COUNT;
        }
    }
    snapshot_take(embedding, 0, &all);
    assert_true(rows > 500 && candidates > 500);
    assert_int_equal(all.n, rows);
    assert_int_equal(all.n_candidates, candidates);
    for (uint64_t i = 0; i < all.n; i++) {
        assert_int_equal(all.rows.frequency[i], times[all.rows.tables[i]][all.rows.keys[i]]);
        assert_int_equal(all.rows.last_step[i], last[all.rows.tables[i]][all.rows.keys[i]]);
    }
    for (uint64_t i = 0; i < all.n_candidates; i++)
        assert_int_equal(all.counts[i], times[all.tables[i]][all.keys[i]]);
    snapshot_free(&all);
    fth_batch_destroy(batch);
    fth_embedding_destroy(embedding);
}

static void dealt_out_to_any_number(void **state) {
    struct fth_batch *batch = new_batch();
    fth_embedding *one = trained(1, batch);
    for (uint32_t threads = 2; threads <= 7; threads++) {
        fth_embedding *many = trained(threads, batch);
        assert_same_embeddings(one, many);
        fth_embedding_destroy(many);
    }
    fth_batch_destroy(batch);
    fth_embedding_destroy(one);
}

static uint64_t sum_of_frequencies(fth_embedding *embedding) {
    struct snapshot all;
    uint64_t sum = 0;
    snapshot_take(embedding, 0, &all);
    for (uint64_t i = 0; i < all.n; i++)
        sum += all.rows.frequency[i];
    snapshot_free(&all);
    return sum;
}

static void a_refused_batch_is_not_counted(void **state) {
    struct fth_batch *batch = new_batch();
    fth_pool *pool = world_pool(2);
    fth_embedding *embedding = create(1 << 20, 1, BATCH);
    fth_error error = {0};
    fth_status status;
    uint64_t step = 0;
    batch->n = BATCH;
    for (;;) {
        step++;
        for (uint32_t f = 0; f < FIELDS; f++)
            for (uint32_t i = 0; i < BATCH; i++)
                batch->fields[f].keys[i] = i % 2 ? i : step * BATCH + i;
        status = fth_embedding_prepare(embedding, pool, batch, 1, step, &error);
        update(embedding, pool, step);
        if (status != FTH_OK)
            break;
        assert_int_equal(sum_of_frequencies(embedding), step * BATCH * FIELDS);
    }
    assert_int_equal(status, FTH_E_LIMIT);
    assert_true(step > 3);
    assert_int_equal(sum_of_frequencies(embedding), (step - 1) * BATCH * FIELDS);
    fth_batch_destroy(batch);
    fth_pool_destroy(pool);
    fth_embedding_destroy(embedding);
}

/* The key of the largest part's example i: one key, other keys only, each twice, keys of all ones and those beside, every
 * second one 0. */
static uint64_t whole_key(uint32_t field, uint32_t i) {
    const uint64_t key[FIELDS] = {0, PART - 1 - i, i / 2 * UINT64_C(0xf1de83e19937733d), UINT64_MAX - i % 3, i % 2 ? 0 : i};
    return key[field];
}

/* How often a key of the field is met in it. */
static uint64_t whole_times(uint32_t field, uint64_t key) {
    const uint64_t times[FIELDS] = {PART, 1, 2, (PART + 2 - (UINT64_MAX - key)) / 3, key == 0 ? PART / 2 + 1 : 1};
    return times[field];
}

static void whole_parts(void **state) {
    struct fth_batch *batch;
    struct snapshot all;
    struct fth_opt_args args = world_args("ftrl", 1);
    fth_pool *pool = world_pool(2);
    fth_embedding *embedding = create(64 << 20, 1, PART);
    uint64_t occurrences = 0;
    OK(fth_batch_create(&schema, PART, &batch, err));
    batch->n = PART;
    for (uint32_t f = 0; f < FIELDS; f++)
        for (uint32_t i = 0; i < PART; i++)
            batch->fields[f].keys[i] = whole_key(f, i);
    OK(fth_embedding_prepare(embedding, pool, batch, 1, 1, err));
    fth_embedding_set_args(embedding, &args, NULL);
    run_update(embedding, pool, NULL, 0, 1);
    snapshot_take(embedding, 0, &all);
    assert_int_equal(all.n, 1 + PART + PART / 2 + 3 + PART / 2);
    for (uint64_t i = 0; i < all.n; i++) {
        occurrences += all.rows.frequency[i];
        assert_int_equal(all.rows.frequency[i], whole_times(all.rows.tables[i], all.rows.keys[i]));
    }
    assert_int_equal(occurrences, (uint64_t)FIELDS * PART);
    snapshot_free(&all);
    fth_batch_destroy(batch);
    fth_pool_destroy(pool);
    fth_embedding_destroy(embedding);
}

/* Numbers of buckets, the missing value's among them, are the same as their keys. */
static void numbers_are_keys(void **state) {
    static const uint64_t salt[FIELDS] = {5, 6, 7, 8, 9};
    struct fth_schema known = schema;
    known.field_buckets = different;
    known.field_salt = salt;
    struct fth_batch *drawn = new_batch(), *batches[2] = {new_batch(), NULL};
    OK(fth_batch_create(&known, BATCH, &batches[1], err));
    fth_embedding *trained[2];
    for (int b = 0; b < 2; b++) {
        trained[b] = create(64 << 20, MIN_COUNT, BATCH);
        fth_pool *pool = world_pool(2);
        for (uint64_t step = 1; step <= STEPS; step++) {
            fill(drawn, step);
            batches[b]->n = drawn->n;
            for (uint32_t f = 0; f < FIELDS; f++)
                for (uint32_t i = 0; i < drawn->n; i++) {
                    uint32_t number = (uint32_t)drawn->fields[f].keys[i];
                    world_put_bucket(&batches[b]->fields[f], i, salt[f], number ? number : FTH_NUMBER_MISSING);
                }
            OK(fth_embedding_prepare(trained[b], pool, batches[b], 1, step, err));
            update(trained[b], pool, step);
        }
        fth_pool_destroy(pool);
    }
    assert_same_embeddings(trained[0], trained[1]);
    for (int b = 0; b < 2; b++) {
        fth_embedding_destroy(trained[b]);
        fth_batch_destroy(batches[b]);
    }
    fth_batch_destroy(drawn);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_keys),
        cmocka_unit_test(counted_once),
        cmocka_unit_test(dealt_out_to_any_number),
        cmocka_unit_test(a_refused_batch_is_not_counted),
        cmocka_unit_test(whole_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
