/* Lists of thousands of keys, cut into parts by the number of workers: against plain counts, the linear term's
 * sums against its rows, at several thread counts bit for bit, and numbered by bucket as without. */
#include "world.h"

#include "kernels/text_key.h"

#define BATCH 96
#define LONGEST 200
#define STEPS 5
#define DIFFERENT 9000
#define DIM 4

static const int32_t groups[] = {0, FTH_NO_GROUP};
static const uint8_t weighted[] = {0, 0};
static const uint32_t longest[] = {LONGEST};
static const struct fth_schema schema = {.n_fields = 2,
                                         .field_group = groups,
                                         .field_weighted = weighted,
                                         .n_groups = 1,
                                         .group_max = longest};
static const struct fth_lookup lookups[] = {
    {.field = 0, .table = "t", .dim = DIM, .group = 0, .pooling = FTH_POOL_MEAN},
    {.field = 1, .table = "t", .dim = DIM, .group = FTH_NO_GROUP},
    {.field = 0, .table = "t.linear", .dim = 1, .group = 0, .pooling = FTH_POOL_SUM},
    {.field = 1, .table = "t.linear", .dim = 1, .group = FTH_NO_GROUP},
};
#define N_LOOKUPS (sizeof lookups / sizeof lookups[0])

static fth_embedding *create(void) {
    return world_packed(lookups, N_LOOKUPS, "adagrad", 64 << 20, BATCH);
}

/* In even steps a list's keys are nearly all different, in odd ones few; 0 is among them. */
static void fill(struct fth_batch *batch, uint64_t step) {
    uint64_t random = step;
    uint32_t *offsets = batch->groups[0].offsets;
    batch->n = BATCH;
    for (uint32_t i = 0; i < BATCH; i++) {
        offsets[i + 1] = offsets[i] + LONGEST - (uint32_t)(world_random(&random) % 9) * (i % 3);
        batch->fields[1].keys[i] = world_random(&random) % DIFFERENT;
    }
    batch->groups[0].total = offsets[BATCH];
    for (uint32_t i = 0; i < offsets[BATCH]; i++)
        batch->fields[0].keys[i] = step % 2 ? world_random(&random) % 600 : (i * step) % DIFFERENT;
}

#define SALT 77
#define BUCKETS 7000

/* Keys of buckets in place of those that fill makes, the missing value's among them. */
static void fill_buckets(struct fth_batch *from, struct fth_batch *to, uint64_t step) {
    fill(from, step);
    to->n = BATCH;
    memcpy(to->groups[0].offsets, from->groups[0].offsets, (BATCH + 1) * sizeof(uint32_t));
    to->groups[0].total = from->groups[0].total;
    for (uint32_t f = 0; f < 2; f++)
        for (uint32_t i = 0; i < (f ? BATCH : to->groups[0].total); i++) {
            uint64_t key = from->fields[f].keys[i];
            world_put_bucket(&to->fields[f], i, SALT, key < BUCKETS ? (uint32_t)key : FTH_NUMBER_MISSING);
        }
}

static fth_embedding *trained_on(uint32_t threads, struct fth_batch *batch, struct fth_batch *of_buckets) {
    fth_embedding *embedding = create();
    fth_pool *pool = world_pool(threads);
    for (uint64_t step = 1; step <= STEPS; step++) {
        if (of_buckets) {
            fill_buckets(batch, of_buckets, step);
            OK(fth_embedding_prepare(embedding, pool, of_buckets, 1, step, err));
            world_update(embedding, pool, N_LOOKUPS, BATCH, DIM, step);
            continue;
        }
        fill(batch, step);
        OK(fth_embedding_prepare(embedding, pool, batch, 1, step, err));
        world_update(embedding, pool, N_LOOKUPS, BATCH, DIM, step);
    }
    fth_pool_destroy(pool);
    return embedding;
}

static fth_embedding *trained(uint32_t threads, struct fth_batch *batch) { return trained_on(threads, batch, NULL); }

static struct fth_batch *batch_of(const struct fth_schema *with) {
    struct fth_batch *batch;
    OK(fth_batch_create(with, BATCH, &batch, err));
    OK(fth_batch_reserve_positions(batch, 0, BATCH * LONGEST, err));
    return batch;
}

static struct fth_batch *new_batch(void) { return batch_of(&schema); }

static void counted_once(void **state) {
    static uint64_t times[DIFFERENT];
    struct fth_batch *batch = new_batch();
    fth_embedding *embedding = trained(2, batch);
    struct snapshot all;
    uint64_t rows = 0;
    for (uint64_t step = 1; step <= STEPS; step++) {
        fill(batch, step);
        for (uint32_t i = 0; i < batch->groups[0].total; i++)
            times[batch->fields[0].keys[i]]++;
        for (uint32_t i = 0; i < BATCH; i++)
            times[batch->fields[1].keys[i]]++;
    }
    for (uint32_t k = 0; k < DIFFERENT; k++)
        rows += times[k] > 0;
    assert_true(rows > 4000);
    snapshot_take(embedding, 0, &all);
    assert_int_equal(all.n, rows);
    for (uint64_t i = 0; i < all.n; i++)
        assert_int_equal(all.rows.frequency[i], times[all.rows.keys[i]]);
    snapshot_free(&all);
    fth_batch_destroy(batch);
    fth_embedding_destroy(embedding);
}

/* What is read of the list's linear term is the sum of what single keys read. */
static void sums_of_single_numbers(void **state) {
    static float weights[DIFFERENT];
    struct fth_batch *batch = new_batch();
    fth_embedding *embedding = trained(3, batch);
    fth_pool *pool = world_pool(2);
    const struct fth_rows *rows = fth_embedding_rows(embedding);
    float out[BATCH];
    for (uint32_t k = 0; k < DIFFERENT; k += BATCH) {
        for (uint32_t i = 0; i < BATCH; i++)
            batch->fields[1].keys[i] = k + i;
        OK(fth_embedding_prepare(embedding, pool, batch, 0, STEPS, err));
        rows->gather(rows->ctx, 3, 0, BATCH, out, 1);
        for (uint32_t i = 0; i < BATCH && k + i < DIFFERENT; i++)
            weights[k + i] = out[i];
    }
    rows->gather(rows->ctx, 2, 0, BATCH, out, 1);
    int different = 0;
    for (uint32_t i = 0; i < BATCH; i++) {
        float sum = 0;
        for (uint32_t p = batch->groups[0].offsets[i]; p < batch->groups[0].offsets[i + 1]; p++)
            sum += weights[batch->fields[0].keys[p]];
        assert_memory_equal(&sum, &out[i], sizeof sum);
        different += sum != out[0];
    }
    assert_true(different > BATCH / 2);
    fth_pool_destroy(pool);
    fth_batch_destroy(batch);
    fth_embedding_destroy(embedding);
}

static void cut_for_any_number(void **state) {
    struct fth_batch *batch = new_batch();
    fth_embedding *one = trained(1, batch);
    for (uint32_t threads = 2; threads <= 9; threads++) {
        fth_embedding *many = trained(threads, batch);
        assert_same_embeddings(one, many);
        fth_embedding_destroy(many);
    }
    fth_batch_destroy(batch);
    fth_embedding_destroy(one);
}

/* The same as where they are keys: also of buckets that are too many for a table of them (by hash), and where the table's
 * other field has keys, or more buckets. */
static void numbered_by_bucket(void **state) {
    static const uint32_t buckets[][2] = {{BUCKETS, BUCKETS}, {BUCKETS, 0}, {0, BUCKETS}, {BUCKETS, 4000000000},
                                          {4000000000, 4000000000}};
    static const uint64_t salt[] = {SALT, SALT};
    struct fth_batch *batch = new_batch(), *keys = new_batch();
    for (uint32_t k = 0; k < sizeof buckets / sizeof *buckets; k++) {
        struct fth_schema known = schema;
        known.field_buckets = buckets[k];
        known.field_salt = salt;
        struct fth_batch *of_buckets = batch_of(&known);
        for (uint32_t threads = 1; threads <= 3; threads++) {
            fth_embedding *plain = trained_on(threads, batch, keys), *by_bucket = trained_on(threads, batch, of_buckets);
            assert_same_embeddings(plain, by_bucket);
            fth_embedding_destroy(plain);
            fth_embedding_destroy(by_bucket);
        }
        fth_batch_destroy(of_buckets);
    }
    fth_batch_destroy(batch);
    fth_batch_destroy(keys);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counted_once),
        cmocka_unit_test(sums_of_single_numbers),
        cmocka_unit_test(cut_for_any_number),
        cmocka_unit_test(numbered_by_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
