/* embedding/ against a plain model: a list of rows walked through for every key, sequential, bit
 * for bit. */
#include "optimizer_names.h"
#include "world.h"

#define DIM 8
#define ROWS 4000

struct plain_row {
    const char *table;
    uint64_t key, frequency, last_step, pending;
    int admitted;
    float values[3 * DIM]; /* weights, slots */
};
struct plain {
    const struct fth_optimizer *optimizers[2]; /* by lookup's zero_init: of linear terms */
    struct fth_optimizer_config configs[2];
    struct plain_row rows[ROWS];
    uint32_t n;
};

static uint64_t table_min_count(const char *table) {
    if (strcmp(table, "place") == 0 || strcmp(table, "place_history") == 0)
        return 3;
    return strncmp(table, "rare", 4) == 0 ? 4 : 1;
}

static struct plain_row *plain_find(struct plain *plain, const struct fth_lookup *lookup,
                                    uint64_t key) {
    for (uint32_t i = 0; i < plain->n; i++) {
        if (plain->rows[i].key == key && strcmp(plain->rows[i].table, lookup->table) == 0)
            return &plain->rows[i];
    }
    return NULL;
}

static const struct fth_optimizer *optimizer_of(const struct plain *plain, const struct fth_lookup *lookup) {
    return plain->optimizers[lookup->zero_init];
}

static uint32_t slot_columns(const struct plain *plain, const struct fth_lookup *lookup) {
    return optimizer_of(plain, lookup)->rowwise ? 1 : lookup->dim;
}

static struct plain_row *plain_add(struct plain *plain, const struct fth_lookup *lookup,
                                   uint64_t key) {
    assert_true(plain->n < ROWS);
    struct plain_row *row = &plain->rows[plain->n++];
    *row = (struct plain_row){.table = lookup->table, .key = key};
    float scale = (float)world_config.init_scale;
    if (!lookup->zero_init)
        fth_random_uniform(WORLD_SEED ^ fth_hash_bytes(lookup->table, strlen(lookup->table), 0),
                           FTH_RANDOM_ROW_INIT, key, lookup->dim, -scale, scale, row->values);
    const struct fth_optimizer *optimizer = optimizer_of(plain, lookup);
    const struct fth_optimizer_config *config = &plain->configs[lookup->zero_init];
    for (uint32_t s = 0; s < optimizer->n_slots; s++) {
        for (uint32_t j = 0; j < slot_columns(plain, lookup); j++)
            row->values[(1 + s) * DIM + j] = optimizer->initial(config, s);
    }
    if (optimizer->begin)
        optimizer->begin(config, lookup->dim, row->values,
                         (float *[]){row->values + DIM, row->values + 2 * DIM});
    return row;
}

static uint32_t keys_of(const struct fth_batch *batch, const struct fth_lookup *lookup) {
    return lookup->group == FTH_NO_GROUP ? batch->n : batch->groups[lookup->group].total;
}

/* The weights of an example's positions, kept for the next call. */
static struct {
    const struct fth_lookup *lookup;
    uint32_t example;
    const float *weights[1000];
} maxima;

/* Occurrences are counted first: a key is admitted for the whole batch in which it reaches its
 * count. */
static void plain_prepare(struct plain *plain, const struct fth_batch *batch, uint64_t step) {
    maxima.lookup = NULL;
    for (uint32_t l = 0; l < LOOKUPS; l++) {
        const struct fth_lookup *lookup = &world_lookups[l];
        for (uint32_t i = 0; i < keys_of(batch, lookup); i++) {
            uint64_t key = batch->fields[lookup->field].keys[i];
            struct plain_row *row = plain_find(plain, lookup, key);
            if (!row)
                row = plain_add(plain, lookup, key);
            row->frequency++;
            row->last_step = step;
        }
    }
    for (uint32_t i = 0; i < plain->n; i++)
        plain->rows[i].admitted |=
            plain->rows[i].frequency >= table_min_count(plain->rows[i].table);
}

static const float zeros[3 * DIM];

/* Weights of one occurrence: the row's, or zeros. */
static const float *plain_weights(struct plain *plain, const struct fth_batch *batch,
                                  const struct fth_lookup *lookup, uint32_t i) {
    struct plain_row *row = plain_find(plain, lookup, batch->fields[lookup->field].keys[i]);
    return row && row->admitted ? row->values : zeros;
}

static float value_of(const struct fth_batch *batch, const struct fth_lookup *lookup, uint32_t i) {
    return lookup->weighted ? batch->fields[lookup->field].values[i] : 1;
}

static int pooled(const struct fth_lookup *lookup) {
    return lookup->group != FTH_NO_GROUP && lookup->pooling != FTH_POOL_NONE;
}

static uint32_t example_at(const struct fth_batch *batch, const struct fth_lookup *lookup,
                           uint32_t i) {
    uint32_t example = 0;
    while (batch->groups[lookup->group].offsets[example + 1] <= i)
        example++;
    return example;
}

/* First position of the example that has the largest value in column j. */
static uint32_t first_maximum(struct plain *plain, const struct fth_batch *batch,
                              const struct fth_lookup *lookup, uint32_t example, uint32_t j) {
    const uint32_t *offsets = batch->groups[lookup->group].offsets;
    uint32_t best = offsets[example], first = best;
    if (maxima.lookup != lookup || maxima.example != example) {
        maxima.lookup = lookup;
        maxima.example = example;
        for (uint32_t t = first; t < offsets[example + 1]; t++)
            maxima.weights[t - first] = plain_weights(plain, batch, lookup, t);
    }
    for (uint32_t t = best + 1; t < offsets[example + 1]; t++) {
        if (value_of(batch, lookup, t) * maxima.weights[t - first][j] >
            value_of(batch, lookup, best) * maxima.weights[best - first][j])
            best = t;
    }
    return best;
}

static void check_gather(struct plain *plain, fth_embedding *embedding,
                         const struct fth_batch *batch) {
    const struct fth_rows *rows = fth_embedding_rows(embedding);
    const struct fth_kernels *kernels = fth_kernels_get();
    for (uint32_t l = 0; l < LOOKUPS; l++) {
        const struct fth_lookup *lookup = &world_lookups[l];
        uint32_t dim = lookup->dim, ld = dim + 1, keys = keys_of(batch, lookup);
        uint32_t n = lookup_rows(lookup, batch);
        float *table = malloc((keys * dim + 1) * sizeof(float));
        float *want = calloc(n * ld + 1, sizeof(float)), *got = calloc(n * ld + 1, sizeof(float));
        uint32_t *numbers = malloc((keys + 1) * sizeof *numbers), *maximum_at = malloc((n * dim + 1) * sizeof *maximum_at);
        for (uint32_t i = 0; i < keys; i++) {
            memcpy(table + i * dim, plain_weights(plain, batch, lookup, i), dim * sizeof(float));
            numbers[i] = i;
        }
        numbers[keys] = keys;
        const uint32_t *offsets = pooled(lookup) ? batch->groups[lookup->group].offsets : numbers;
        kernels->gather_pool(n, offsets, numbers,
                             lookup->weighted ? batch->fields[lookup->field].values : NULL, table,
                             dim, dim, pooled(lookup) ? (fth_pooling)lookup->pooling : FTH_POOL_SUM,
                             want, ld, maximum_at);
        /* In three tiles, as workers would. */
        for (uint32_t tile = 0; tile < 3; tile++) {
            uint32_t from = batch->n * tile / 3, to = batch->n * (tile + 1) / 3;
            uint32_t first = lookup->group != FTH_NO_GROUP && !pooled(lookup)
                                 ? batch->groups[lookup->group].offsets[from]
                                 : from;
            rows->gather(rows->ctx, l, from, to - from, got + first * ld, ld);
        }
        assert_memory_equal(got, want, n * ld * sizeof(float));
        free(table), free(want), free(got), free(numbers), free(maximum_at);
    }
}

/* The summed gradient of a row; 0 when it has no occurrence. */
static int plain_gradient(struct plain *plain, const struct plain_row *row,
                          const struct fth_batch *batch, const struct world_gradients *gradients,
                          float *sum, uint32_t *dim) {
    static const float *source[100000];
    static float scale[100000], picked[100000];
    uint32_t n = 0, n_picked = 0;
    for (uint32_t l = 0; l < LOOKUPS; l++) {
        const struct fth_lookup *lookup = &world_lookups[l];
        if (strcmp(lookup->table, row->table) != 0)
            continue;
        *dim = lookup->dim;
        for (uint32_t i = 0; i < keys_of(batch, lookup); i++) {
            if (batch->fields[lookup->field].keys[i] != row->key)
                continue;
            uint32_t at = pooled(lookup) ? example_at(batch, lookup, i) : i;
            source[n] = gradients->list[l].gradient + at * gradients->list[l].ld;
            scale[n] = value_of(batch, lookup, i);
            if (pooled(lookup) && lookup->pooling == FTH_POOL_MEAN) {
                const uint32_t *offsets = batch->groups[lookup->group].offsets;
                scale[n] /= (float)(offsets[at + 1] - offsets[at]);
            }
            if (pooled(lookup) && lookup->pooling == FTH_POOL_MAX) {
                for (uint32_t j = 0; j < *dim; j++)
                    picked[n_picked + j] =
                        first_maximum(plain, batch, lookup, at, j) == i ? source[n][j] : 0;
                source[n] = picked + n_picked;
                n_picked += *dim;
            }
            n++;
        }
    }
    if (n == 0)
        return 0;
    fth_kernels_get()->sum_rows(n, source, scale, *dim, sum);
    return 1;
}

static const struct fth_lookup *lookup_of_table(const char *table) {
    for (uint32_t l = 0; l < LOOKUPS; l++) {
        if (strcmp(world_lookups[l].table, table) == 0)
            return &world_lookups[l];
    }
    return NULL;
}

/* args: two, by zero_init. */
static void plain_update(struct plain *plain, const struct fth_batch *batch,
                         const struct world_gradients *gradients, const struct fth_opt_args *args) {
    static float sums[ROWS][DIM];
    static uint32_t dims[ROWS];
    for (uint32_t i = 0; i < plain->n; i++) {
        dims[i] = 0;
        if (plain->rows[i].admitted &&
            !plain_gradient(plain, &plain->rows[i], batch, gradients, sums[i], &dims[i]))
            dims[i] = 0;
    }
    for (uint32_t i = 0; i < plain->n; i++) {
        float *values = plain->rows[i].values;
        float *slots[] = {values + DIM, values + 2 * DIM};
        const struct fth_lookup *lookup = lookup_of_table(plain->rows[i].table);
        if (dims[i])
            optimizer_of(plain, lookup)->apply(fth_kernels_get(), dims[i], values, slots, sums[i],
                                               &args[lookup->zero_init], NULL);
    }
}

static void check_rows(struct plain *plain, const fth_embedding *embedding) {
    uint64_t rows = 0, candidates = 0;
    for (uint32_t p = 0; p < fth_embedding_packs(embedding); p++) {
        struct snapshot of;
        snapshot_take(embedding, p, &of);
        uint32_t dim = of.info.dim;
        for (uint64_t i = 0; i < of.n; i++) {
            const struct fth_lookup *lookup =
                lookup_of_table(of.info.table_names[of.rows.tables[i]]);
            struct plain_row *row = plain_find(plain, lookup, of.rows.keys[i]);
            assert_non_null(row);
            assert_true(row->admitted);
            assert_int_equal(row->frequency, of.rows.frequency[i]);
            assert_int_equal(row->last_step, of.rows.last_step[i]);
            assert_memory_equal(row->values, of.rows.weights + i * dim, dim * sizeof(float));
            assert_int_equal(of.info.n_slots, optimizer_of(plain, lookup)->n_slots);
            for (uint32_t s = 0; s < of.info.n_slots; s++) {
                uint32_t columns = of.info.slot_columns[s];
                assert_int_equal(columns, slot_columns(plain, lookup));
                assert_memory_equal(row->values + (1 + s) * DIM, of.rows.slots[s] + i * columns,
                                    columns * sizeof(float));
            }
        }
        for (uint64_t i = 0; i < of.n_candidates; i++) {
            const struct fth_lookup *lookup = lookup_of_table(of.info.table_names[of.tables[i]]);
            struct plain_row *row = plain_find(plain, lookup, of.keys[i]);
            assert_non_null(row);
            assert_false(row->admitted);
            assert_int_equal(row->frequency, of.counts[i]);
        }
        rows += of.n, candidates += of.n_candidates;
        snapshot_free(&of);
    }
    assert_int_equal(rows + candidates, plain->n);
}

static uint64_t first_step = 1, last_step = 6, stride = 1;

/* linear: the optimizer of linear terms, or NULL. */
static void check_against_plain(const char *optimizer, const char *linear, int packing, int threads) {
    static struct plain plain;
    const char *of_linear = linear ? linear : optimizer;
    plain = (struct plain){.optimizers = {fth_optimizer_find(optimizer), fth_optimizer_find(of_linear)},
                           .configs = {world_optimizer(optimizer), world_optimizer(of_linear)}};
    fth_embedding *embedding = world_embedding_of(optimizer, linear, packing);
    fth_pool *pool = world_pool((uint32_t)threads);
    for (uint64_t step = first_step; step <= last_step; step += stride) {
        struct fth_batch *batch = world_batch(step, (uint32_t)(1 + step * 37 % WORLD_BATCH));
        struct world_gradients gradients;
        struct fth_opt_args args[] = {world_args(optimizer, step), world_args(of_linear, step)};
        world_gradients_make(&gradients, batch, step);
        plain_prepare(&plain, batch, step);
        OK(fth_embedding_prepare(embedding, pool, batch, 1, step, err));
        check_gather(&plain, embedding, batch);
        args[1].lr *= linear ? 0.5f : 1;
        fth_embedding_set_args(embedding, &args[0], linear ? &args[1] : NULL);
        run_update(embedding, pool, gradients.list, LOOKUPS, 0.5f);
        args[0].grad_scale = args[1].grad_scale = 0.5f;
        plain_update(&plain, batch, &gradients, args);
        check_rows(&plain, embedding);
        world_gradients_free(&gradients);
        fth_batch_destroy(batch);
    }
    /* Evaluation changes nothing, and keys never seen read zeros. */
    struct fth_batch *batch = world_batch(99, WORLD_BATCH);
    OK(fth_embedding_prepare(embedding, pool, batch, 0, 7, err));
    check_gather(&plain, embedding, batch);
    check_rows(&plain, embedding);
    fth_batch_destroy(batch);
    fth_pool_destroy(pool);
    fth_embedding_destroy(embedding);
}

static void every_sparse_optimizer(void **state) {
    for (const char *const *name = optimizer_names; *name; name++) {
        if (fth_optimizer_find(*name)->sparse)
            check_against_plain(*name, NULL, 1, 2);
    }
}

static void unpacked(void **state) {
    check_against_plain("adagrad", NULL, 0, 1);
    check_against_plain("adam", NULL, 0, 3);
}

/* With other slots than the embeddings beside which they lie, and a rate of their own. */
static void linear_terms(void **state) {
    static const char *const of[][2] = {{"adagrad", "ftrl"}, {"ftrl", "sgd"}, {"sgd", "rowwise_adagrad"}, {"adam", "adam"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (int packing = 0; packing < 2; packing++)
            check_against_plain(of[i][0], of[i][1], packing, 2);
}

static void long_lists(void **state) {
    check_against_plain("adagrad", NULL, 1, 2);
    check_against_plain("adagrad", "ftrl", 1, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sparse_optimizer),
        cmocka_unit_test(unpacked),
        cmocka_unit_test(linear_terms),
    };
    const struct CMUnitTest longer[] = {cmocka_unit_test(long_lists)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    world_long();
    first_step = 12, last_step = 17, stride = 5; /* many keys, few */
    failed += cmocka_run_group_tests_name("long", longer, NULL, NULL);
    world_longest = 6;
    first_step = 1, last_step = 6, stride = 1;
    world_apart();
    return failed + cmocka_run_group_tests_name("apart", tests, NULL, NULL);
}
