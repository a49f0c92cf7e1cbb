/* Tables whose keys are one part, of several lookups, lists among them: the same bits, and rows in the same order, as
 * by shard, which is how many workers find them; by bucket as without; with rows that were made by shard; where rows are
 * copied as where they are not; and where gradients are summed item by item as from lists, whatever gradients there are. */
#include "embedding/embedding_private.h"
#include "world.h"

#include "kernels/text_key.h"

#define BATCH 256
#define LONGEST 80
#define STEPS 6
#define DIM 4
#define FIELDS 11
#define TABLES 6
#define SUMMED 4 /* of them */
#define SALT 77
#define BUCKETS 1900
#define MANY 9 /* workers: no table leaves them their share */

/* Tables a to e: single keys, then a list; c counts its keys first, and its list has values; b has maxima. f: a list that
 * is not pooled. */
static const int32_t groups[] = {FTH_NO_GROUP, FTH_NO_GROUP, FTH_NO_GROUP, FTH_NO_GROUP, FTH_NO_GROUP,
                                 0,            0,            1,            0,            1,            1};
static const uint8_t weighted[] = {0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0};
static const uint32_t longest[] = {LONGEST, LONGEST};
static uint32_t buckets[FIELDS];
static uint64_t salts[FIELDS];
static const struct fth_schema schema = {.n_fields = FIELDS,
                                         .field_group = groups,
                                         .field_weighted = weighted,
                                         .n_groups = 2,
                                         .group_max = longest};
static const struct fth_lookup lookups[] = {
    {.field = 0, .table = "a", .dim = DIM, .group = FTH_NO_GROUP},
    {.field = 1, .table = "b", .dim = DIM, .group = FTH_NO_GROUP},
    {.field = 2, .table = "c", .dim = DIM, .group = FTH_NO_GROUP, .min_count = 5},
    {.field = 3, .table = "d", .dim = DIM, .group = FTH_NO_GROUP, .numbered = 1},
    {.field = 4, .table = "e", .dim = DIM, .group = FTH_NO_GROUP, .counted = 1},
    {.field = 5, .table = "a", .dim = DIM, .group = 0, .pooling = FTH_POOL_MEAN},
    {.field = 6, .table = "b", .dim = DIM, .group = 0, .pooling = FTH_POOL_MAX},
    {.field = 7, .table = "c", .dim = DIM, .group = 1, .pooling = FTH_POOL_SUM, .weighted = 1, .min_count = 5},
    {.field = 8, .table = "d", .dim = DIM, .group = 0, .pooling = FTH_POOL_SUM},
    {.field = 9, .table = "e", .dim = DIM, .group = 1, .pooling = FTH_POOL_MEAN},
    {.field = 0, .table = "a.linear", .dim = 1, .group = FTH_NO_GROUP},
    {.field = 5, .table = "a.linear", .dim = 1, .group = 0, .pooling = FTH_POOL_SUM},
    {.field = 1, .table = "b.linear", .dim = 1, .group = FTH_NO_GROUP},
    {.field = 6, .table = "b.linear", .dim = 1, .group = 0, .pooling = FTH_POOL_MAX},
    {.field = 3, .table = "d.second", .dim = DIM - 1, .group = FTH_NO_GROUP},
    {.field = 8, .table = "d.second", .dim = DIM - 1, .group = 0, .pooling = FTH_POOL_MEAN},
    {.field = 10, .table = "f", .dim = DIM, .group = 1},
};
#define N_LOOKUPS (sizeof lookups / sizeof lookups[0])

static const char *optimizer_name = "adagrad";

static fth_embedding *create(void) {
    struct fth_embedding_config config = {.init_scale = 0.25, .memory_limit = 64 << 20};
    struct fth_optimizer_config optimizer = world_optimizer(optimizer_name);
    struct fth_embedding_options options = {.lookups = lookups,
                                            .n_lookups = N_LOOKUPS,
                                            .config = &config,
                                            .optimizer = &optimizer,
                                            .seed = 5,
                                            .max_batch = BATCH,
                                            .packing = 1};
    fth_embedding *embedding;
    OK(fth_embedding_create(&options, &embedding, err));
    return embedding;
}

/* Whether a step's keys repeat so often that rows are copied. */
static int few_keys(uint64_t step) {
    return step % 3 == 0;
}

/* Keys of buckets, and the missing value's. In step 5 lists have no keys. */
static void fill(struct fth_batch *batch, uint64_t step) {
    uint64_t random = step;
    batch->n = BATCH;
    for (uint32_t g = 0; g < 2; g++) {
        uint32_t *offsets = batch->groups[g].offsets;
        for (uint32_t i = 0; i < BATCH; i++)
            offsets[i + 1] = offsets[i] + (step == 5 ? 0 : (uint32_t)(world_random(&random) % (LONGEST + 1)));
        batch->groups[g].total = offsets[BATCH];
    }
    for (uint32_t f = 0; f < FIELDS; f++) {
        uint32_t n = groups[f] == FTH_NO_GROUP ? BATCH : batch->groups[groups[f]].total;
        for (uint32_t i = 0; i < n; i++) {
            uint64_t key = world_random(&random) % (few_keys(step) ? 90 : 1900 + 100 * step);
            world_put_bucket(&batch->fields[f], i, SALT, key ? (uint32_t)key % BUCKETS : FTH_NUMBER_MISSING);
            if (weighted[f])
                batch->fields[f].values[i] = world_float(&random);
        }
    }
}

/* What the lookups read of a batch, and the unique rows of the numbered one. */
struct read {
    float of[N_LOOKUPS][BATCH * LONGEST * DIM];
    uint32_t n_unique, number[BATCH];
};

#define NUMBERED 3

static void read_all(fth_embedding *embedding, struct read *read) {
    const struct fth_rows *rows = fth_embedding_rows(embedding);
    for (uint32_t l = 0; l < N_LOOKUPS; l++)
        rows->gather(rows->ctx, l, 0, BATCH, read->of[l], DIM);
    const struct fth_unique_rows *unique = rows->unique(rows->ctx, NUMBERED);
    read->n_unique = unique->n;
    memset(read->number, 0, sizeof read->number);
    if (unique->n > 0)
        memcpy(read->number, unique->number, sizeof read->number);
}

static uint32_t copied_parts(const fth_embedding *embedding) {
    uint32_t copied = 0;
    for (uint32_t p = 0; p < embedding->n_parts; p++)
        copied += embedding->parts[p].copied != 0;
    return embedding->by_part ? copied : 0;
}

static uint32_t summed_parts(const fth_embedding *embedding) {
    uint32_t summed = 0;
    for (uint32_t p = 0; embedding->by_part && p < embedding->n_parts; p++)
        summed += embedding->parts[p].summed != 0;
    return summed;
}

/* Which gradients there are: one a lookup; several of some lookups; none of some; the numbered lookup's of its unique rows,
 * in two parts and one, beside others or alone. */
enum { ONE, SEVERAL, NONE, PARTS, PART, KINDS };
static int gradients = ONE;

#define MOST_GRADIENTS (N_LOOKUPS + 4)

static void add(struct fth_row_gradient *list, uint32_t *n, uint32_t lookup, const float *data, uint32_t parts) {
    assert_true(*n < MOST_GRADIENTS);
    list[(*n)++] = (struct fth_row_gradient){
        .lookup = lookup, .gradient = data, .ld = DIM, .parts = parts, .part_stride = (size_t)BATCH * DIM};
}

static void update(fth_embedding *embedding, fth_pool *pool, uint64_t step) {
    enum { FLOATS = BATCH * LONGEST * DIM };
    static float data[2][FLOATS]; /* as many rows as a list has positions, or parts and unique rows */
    const struct fth_rows *rows = fth_embedding_rows(embedding);
    struct fth_row_gradient list[MOST_GRADIENTS];
    struct fth_opt_args args = world_args(optimizer_name, step);
    uint64_t random = 100 + step;
    uint32_t n = 0;
    int by_unique = gradients >= PARTS && rows->unique(rows->ctx, NUMBERED)->n > 0;
    assert_int_equal(by_unique, gradients >= PARTS && few_keys(step));
    for (uint32_t i = 0; i < 2 * FLOATS; i++)
        data[i / FLOATS][i % FLOATS] = i % 5 ? world_float(&random) : -0.0f;
    for (uint32_t l = 0; l < N_LOOKUPS; l++) {
        if ((gradients == NONE && l % 4 == 3) || (by_unique && gradients == PART && l == NUMBERED))
            continue;
        add(list, &n, l, data[l % 2] + l * DIM, 0);
        if (gradients == SEVERAL && l % 5 == 0)
            add(list, &n, l, data[1 - l % 2], 0);
    }
    if (by_unique)
        add(list, &n, NUMBERED, data[0], gradients == PARTS ? 2 : 1);
    fth_embedding_set_args(embedding, &args, NULL);
    run_update(embedding, pool, list, n, 1);
}

static void train(fth_embedding *embedding, uint32_t threads, struct fth_batch *batch, uint64_t first, uint64_t last,
                  struct read *read) {
    fth_pool *pool = world_pool(threads);
    for (uint64_t step = first; step <= last; step++) {
        fill(batch, step);
        OK(fth_embedding_prepare(embedding, pool, batch, 1, step, err));
        assert_int_equal(embedding->by_part, threads < MANY || step == 5);
        assert_int_equal(copied_parts(embedding), threads < MANY && few_keys(step) ? TABLES : 0);
        assert_int_equal(summed_parts(embedding), threads < MANY && few_keys(step) ? SUMMED : 0);
        read_all(embedding, read);
        update(embedding, pool, step);
    }
    fth_pool_destroy(pool);
}

static struct fth_batch *batch_of(const struct fth_schema *with) {
    struct fth_batch *batch;
    OK(fth_batch_create(with, BATCH, &batch, err));
    for (uint32_t g = 0; g < 2; g++)
        OK(fth_batch_reserve_positions(batch, g, BATCH * LONGEST, err));
    return batch;
}

static struct fth_schema schema_of_buckets(void) {
    struct fth_schema known = schema;
    for (uint32_t f = 0; f < FIELDS; f++) {
        buckets[f] = BUCKETS;
        salts[f] = SALT;
    }
    known.field_buckets = buckets;
    known.field_salt = salts;
    return known;
}

/* By shard up to step `turn`, from there with so many threads; of_buckets: that is known. */
static void compare(uint32_t threads, uint64_t turn, int of_buckets) {
    static struct read plain_read, read;
    struct fth_schema known = schema_of_buckets();
    struct fth_batch *plain = batch_of(&schema), *batch = batch_of(of_buckets ? &known : &schema);
    fth_embedding *by_shard = create(), *other = create();
    memset(&plain_read, 0, sizeof read);
    memset(&read, 0, sizeof read);
    train(by_shard, MANY, plain, 1, STEPS, &plain_read);
    train(other, MANY, batch, 1, turn, &read);
    train(other, threads, batch, turn + 1, STEPS, &read);
    assert_same_embeddings(by_shard, other);
    assert_memory_equal(&plain_read, &read, sizeof read);
    uint32_t tables = 0;
    for (uint32_t p = 0; p < other->n_packs; p++)
        for (uint32_t t = 0; t < other->packs[p].n_tables; t++)
            tables += other->packs[p].tables[t].row_of_bucket != NULL;
    assert_int_equal(tables, of_buckets ? TABLES : 0);
    fth_embedding_destroy(by_shard);
    fth_embedding_destroy(other);
    fth_batch_destroy(plain);
    fth_batch_destroy(batch);
}

static void as_by_shard(void **state) {
    for (uint32_t threads = 1; threads <= 2; threads++)
        for (uint64_t turn = 0; turn < 4; turn += 3)
            compare(threads, turn, 0);
}

static void by_bucket(void **state) {
    for (uint32_t threads = 1; threads <= 2; threads++)
        for (uint64_t turn = 0; turn < 4; turn += 3)
            compare(threads, turn, 1);
}

static void any_gradients(void **state) {
    const char *optimizers[] = {"adagrad", "adam"};
    for (int o = 0; o < 2; o++)
        for (gradients = ONE; gradients < KINDS; gradients++) {
            optimizer_name = optimizers[o];
            for (uint32_t threads = 1; threads <= 2; threads++)
                compare(threads, 0, (int)threads - 1);
        }
    optimizer_name = "adagrad";
    gradients = ONE;
}

/* A batch that is only read, twice, then one whose rows are copied: unknown keys get no row, others are found, also where by
 * bucket nothing is known yet; and nothing is counted. */
static void only_read(void **state) {
    static struct read trained, read;
    struct fth_schema known = schema_of_buckets();
    struct fth_batch *plain = batch_of(&schema), *batch = batch_of(&known);
    fth_embedding *embedding = create(), *unread = create();
    fth_pool *pool = world_pool(2), *many = world_pool(MANY);
    train(embedding, MANY, plain, 1, 2, &read);
    train(unread, MANY, plain, 1, 2, &read);
    for (uint32_t again = 0; again < 3; again++) {
        uint64_t step = again < 2 ? 4 : 3;
        fill(plain, step);
        fill(batch, step);
        OK(fth_embedding_prepare(embedding, many, plain, 0, 3, err));
        read_all(embedding, &trained);
        uint64_t unique = embedding->n_unique;
        OK(fth_embedding_prepare(embedding, pool, batch, 0, 3, err));
        read_all(embedding, &read);
        assert_memory_equal(&trained, &read, sizeof read);
        assert_int_equal(copied_parts(embedding), few_keys(step) ? TABLES : 0);
        assert_true(unique > (few_keys(step) ? 60 : 300) && embedding->n_unique == unique);
    }
    assert_same_embeddings(unread, embedding);
    fth_pool_destroy(pool);
    fth_pool_destroy(many);
    fth_batch_destroy(plain);
    fth_batch_destroy(batch);
    fth_embedding_destroy(embedding);
    fth_embedding_destroy(unread);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_by_shard),
        cmocka_unit_test(by_bucket),
        cmocka_unit_test(any_gradients),
        cmocka_unit_test(only_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
