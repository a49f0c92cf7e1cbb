/* For the tests of embedding/: a small world of fields and lookups of every kind, random batches,
 * and a plain model of what an embedding does: a list of rows found by walking through it, one
 * occurrence after the other. Bits are compared, so the model uses the same kernels for the
 * arithmetic. */
#ifndef FTH_TEST_EMBEDDING_WORLD_H
#define FTH_TEST_EMBEDDING_WORLD_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/random.h"
#include "embedding/embedding.h"

#define OK(expr)                                                                                   \
    do {                                                                                           \
        fth_error ok_error = {0};                                                                  \
        fth_error *err = &ok_error;                                                                \
        if ((expr) != FTH_OK)                                                                      \
            fail_msg("%s: %s", #expr, ok_error.message);                                           \
    } while (0)

static uint64_t world_random(uint64_t *state) {
    return fth_hash_mix(*state += 0x9e3779b97f4a7c15ull);
}
static inline float world_float(uint64_t *state) {
    return fth_random_unit((uint32_t)world_random(state)) - 0.5f;
}

/* A bucket's number, or where the field has keys its key. */
static inline void world_put_bucket(const struct fth_keys *field, uint32_t i, uint64_t salt, uint32_t number) {
    if (field->numbers)
        field->numbers[i] = number;
    else
        field->keys[i] = fth_bucket_key(salt, number);
}

/* ---- fields and lookups ---- */
static const int32_t field_group[] = {FTH_NO_GROUP, FTH_NO_GROUP, FTH_NO_GROUP, 0, 1, FTH_NO_GROUP};
static const uint8_t field_weighted[] = {0, 0, 1, 0, 1, 0};
static const uint32_t group_max[] = {320, 320};
static const struct fth_schema world_schema = {.n_fields = 6,
                                               .field_group = field_group,
                                               .field_weighted = field_weighted,
                                               .n_groups = 2,
                                               .group_max = group_max};
#define LOOKUPS 24
static struct fth_lookup world_lookups[LOOKUPS] = {
    {.field = 0, .table = "user", .dim = 8, .group = FTH_NO_GROUP},
    {.field = 1, .table = "item", .dim = 8, .group = FTH_NO_GROUP},
    {.field = 2, .table = "price", .dim = 8, .group = FTH_NO_GROUP, .weighted = 1},
    {.field = 3, .table = "item", .dim = 8, .group = 0, .pooling = FTH_POOL_SUM},
    {.field = 4, .table = "tags", .dim = 8, .group = 1, .pooling = FTH_POOL_MEAN, .weighted = 1},
    {.field = 3, .table = "best", .dim = 8, .group = 0, .pooling = FTH_POOL_MAX},
    {.field = 3, .table = "steps", .dim = 4, .group = 0, .pooling = FTH_POOL_NONE},
    {.field = 0, .table = "user.linear", .dim = 1, .group = FTH_NO_GROUP, .zero_init = 1},
    {.field = 4,
     .table = "tags.linear",
     .dim = 1,
     .group = 1,
     .pooling = FTH_POOL_MEAN,
     .weighted = 1},
    {.field = 3, .table = "item.linear", .dim = 1, .group = 0, .pooling = FTH_POOL_SUM},
    {.field = 1, .table = "item.linear", .dim = 1, .group = FTH_NO_GROUP},
    {.field = 5, .table = "rare", .dim = 8, .group = FTH_NO_GROUP, .min_count = 4},
    {.field = 4,
     .table = "tags_plain",
     .dim = 4,
     .group = 1,
     .pooling = FTH_POOL_NONE,
     .weighted = 1},
    {.field = 4,
     .table = "tags_best",
     .dim = 8,
     .group = 1,
     .pooling = FTH_POOL_MAX,
     .weighted = 1},
    /* The field has values; this lookup does without. */
    {.field = 2, .table = "price_plain", .dim = 8, .group = FTH_NO_GROUP},
    {.field = 3, .table = "item", .dim = 8, .group = 0, .pooling = FTH_POOL_MEAN},
    {.field = 3, .table = "item.linear", .dim = 1, .group = 0, .pooling = FTH_POOL_MEAN},
    /* In a pack without maxima: a list, weighted or not, and single keys. */
    {.field = 1, .table = "place", .dim = 4, .group = FTH_NO_GROUP, .min_count = 3},
    {.field = 3, .table = "place", .dim = 4, .group = 0, .pooling = FTH_POOL_MEAN, .min_count = 3},
    {.field = 4, .table = "place", .dim = 4, .group = 1, .pooling = FTH_POOL_SUM, .weighted = 1},
    {.field = 5,
     .table = "rare.linear",
     .dim = 1,
     .group = FTH_NO_GROUP,
     .min_count = 4,
     .zero_init = 1},
    /* As table "item", which "item.linear" is not: its fields come in another order. */
    {.field = 1, .table = "item.twin", .dim = 1, .group = FTH_NO_GROUP},
    {.field = 3, .table = "item.twin", .dim = 1, .group = 0, .pooling = FTH_POOL_SUM},
    {.field = 3, .table = "item.twin", .dim = 1, .group = 0, .pooling = FTH_POOL_MEAN},
};
static uint32_t world_tables = 16; /* different ones */
static uint32_t world_longest = 6; /* list */
/* A table a lookup: batches of up to 256 occurrences a lookup are then found part by part. */
static inline void world_apart(void) {
    world_lookups[3].table = "item_history";
    world_lookups[10].table = "item_only.linear";
    world_lookups[15].table = "item_mean";
    world_lookups[16].table = "item_mean.linear";
    world_lookups[18].table = "place_history";
    world_lookups[19].table = "place_tags";
    world_lookups[22].table = "item_history.twin";
    world_lookups[23].table = "item_mean.twin";
    world_tables = LOOKUPS;
}
/* Lists of many parts, which are larger then, and keys with more sources than the update takes at
 * once. */
static inline void world_long(void) {
    world_longest = 320;
}
#define WORLD_BATCH 64
#define WORLD_SEED 77

static const struct fth_embedding_config world_config = {
    .init = FTH_INIT_UNIFORM, .init_scale = 0.3, .memory_limit = (int64_t)64 << 20, .huge_pages = 0};
static inline struct fth_optimizer_config world_optimizer(const char *name) {
    return (struct fth_optimizer_config){.name = name,
                                         .lr = 0.1,
                                         .eps = 1e-8,
                                         .beta1 = 0.9,
                                         .beta2 = 0.99,
                                         .momentum = 0.9,
                                         .weight_decay = 0.01,
                                         .l1 = 0.001,
                                         .l2 = 0.01,
                                         .initial_accumulator = 0.1,
                                         .lr_power = -0.5,
                                         .beta = 1};
}

/* linear: the optimizer of linear terms, or NULL. */
static inline fth_embedding *world_embedding_of(const char *optimizer, const char *linear, int packing) {
    struct fth_optimizer_config config = world_optimizer(optimizer), of_linear = world_optimizer(linear);
    struct fth_embedding_options options = {.lookups = world_lookups,
                                            .n_lookups = LOOKUPS,
                                            .config = &world_config,
                                            .optimizer = &config,
                                            .linear = linear ? &of_linear : NULL,
                                            .seed = WORLD_SEED,
                                            .max_batch = WORLD_BATCH,
                                            .packing = packing,
                                            .norms = 1};
    fth_embedding *embedding;
    OK(fth_embedding_create(&options, &embedding, err));
    return embedding;
}
static inline fth_embedding *world_embedding(const char *optimizer, int packing) {
    return world_embedding_of(optimizer, NULL, packing);
}

/* A random batch: many repetitions, keys 0 and ~0 among them, empty lists. */
static inline struct fth_batch *world_batch(uint64_t number, uint32_t n) {
    struct fth_batch *batch;
    uint64_t state = fth_hash_mix(number + 1);
    OK(fth_batch_create(&world_schema, WORLD_BATCH, &batch, err));
    batch->n = n;
    for (uint32_t g = 0; g < 2; g++) {
        uint32_t at = 0;
        for (uint32_t i = 0; i < n; i++) {
            batch->groups[g].offsets[i] = at;
            at += (uint32_t)(world_random(&state) % (world_longest + 1));
        }
        batch->groups[g].offsets[n] = batch->groups[g].total = at;
        OK(fth_batch_reserve_positions(batch, g, at, err));
    }
    for (uint32_t f = 0; f < world_schema.n_fields; f++) {
        struct fth_keys *field = &batch->fields[f];
        uint32_t count = field->group == FTH_NO_GROUP ? n : batch->groups[field->group].total;
        /* Every third batch has hardly any distinct keys: rows with many occurrences. */
        uint64_t range = number % 3 == 2 ? 2 : f == 0 ? 3 : f == 5 ? 60 : 200;
        for (uint32_t i = 0; i < count; i++) {
            uint64_t draw = world_random(&state) % range;
            field->keys[i] = draw == 1 ? UINT64_MAX : draw << 40;
            if (field_weighted[f])
                field->values[i] = world_float(&state) * 3;
        }
    }
    return batch;
}

/* ---- gradients: one a lookup, rows longer than dim ---- */
struct world_gradients {
    struct fth_row_gradient list[LOOKUPS];
    float *data[LOOKUPS];
};
static inline uint32_t lookup_rows(const struct fth_lookup *lookup, const struct fth_batch *batch) {
    return lookup->group != FTH_NO_GROUP && lookup->pooling == FTH_POOL_NONE
               ? batch->groups[lookup->group].total
               : batch->n;
}
static inline void world_gradients_make(struct world_gradients *to, const struct fth_batch *batch,
                                        uint64_t number) {
    uint64_t state = fth_hash_mix(number + 1000);
    for (uint32_t l = 0; l < LOOKUPS; l++) {
        uint32_t ld = world_lookups[l].dim + 3, rows = lookup_rows(&world_lookups[l], batch);
        to->data[l] = malloc(((size_t)rows * ld + 1) * sizeof(float));
        for (size_t i = 0; i < (size_t)rows * ld; i++)
            to->data[l][i] = world_float(&state);
        to->list[l] = (struct fth_row_gradient){.lookup = l, .gradient = to->data[l], .ld = ld};
    }
}
static inline void world_gradients_free(struct world_gradients *gradients) {
    for (uint32_t l = 0; l < LOOKUPS; l++)
        free(gradients->data[l]);
}

/* ---- one step ---- */
struct update_job {
    const struct fth_rows *rows;
    const struct fth_row_gradient *gradients;
    uint32_t n;
    float scale;
    char *scratch;
    size_t scratch_bytes;
};
static inline void update_task(void *arg, uint32_t task, uint32_t worker) {
    struct update_job *job = arg;
    job->rows->update(job->rows->ctx, job->gradients, job->n, job->scale, task,
                      job->scratch + worker * job->scratch_bytes);
}
static inline void run_update(fth_embedding *embedding, fth_pool *pool,
                              const struct fth_row_gradient *gradients, uint32_t n, float scale) {
    const struct fth_rows *rows = fth_embedding_rows(embedding);
    struct update_job job = {.rows = rows, .gradients = gradients, .n = n, .scale = scale};
    job.scratch_bytes = (rows->update_scratch(rows->ctx) + 63) / 64 * 64;
    job.scratch = malloc(job.scratch_bytes * fth_pool_size(pool));
    fth_pool_for(pool, rows->update_tasks(rows->ctx), update_task, &job);
    free(job.scratch);
}
static inline struct fth_opt_args world_args(const char *optimizer, uint64_t step) {
    struct fth_optimizer_config config = world_optimizer(optimizer);
    struct fth_schedule_config schedule = {.kind = FTH_SCHEDULE_CONSTANT};
    struct fth_opt_args args;
    fth_optimizer_args(fth_optimizer_find(optimizer), &config, &schedule, step, 1, 1, &args);
    return args;
}
/* Gathers every lookup, then updates. */
static inline void world_step(fth_embedding *embedding, fth_pool *pool, const char *optimizer,
                              const struct fth_batch *batch, uint64_t step) {
    struct world_gradients gradients;
    struct fth_opt_args args = world_args(optimizer, step);
    const struct fth_rows *rows = fth_embedding_rows(embedding);
    OK(fth_embedding_prepare(embedding, pool, batch, 1, step, err));
    for (uint32_t l = 0; l < LOOKUPS; l++) {
        uint32_t ld = world_lookups[l].dim;
        float *out =
            malloc(((size_t)lookup_rows(&world_lookups[l], batch) * ld + 1) * sizeof(float));
        rows->gather(rows->ctx, l, 0, batch->n, out, ld);
        free(out);
    }
    world_gradients_make(&gradients, batch, step);
    fth_embedding_set_args(embedding, &args, NULL);
    run_update(embedding, pool, gradients.list, LOOKUPS, 0.75f);
    world_gradients_free(&gradients);
}
static inline void world_train(fth_embedding *embedding, fth_pool *pool, const char *optimizer,
                               uint64_t first, uint64_t last) {
    for (uint64_t step = first; step <= last; step++) {
        struct fth_batch *batch = world_batch(step, (uint32_t)(1 + step * 37 % WORLD_BATCH));
        world_step(embedding, pool, optimizer, batch, step);
        fth_batch_destroy(batch);
    }
}

static inline fth_pool *world_pool(uint32_t size) {
    fth_pool *pool;
    OK(fth_pool_create(size, &pool, err));
    return pool;
}

/* ---- what is inside, copied out ---- */
struct snapshot {
    struct fth_pack_info info;
    uint64_t n, n_candidates;
    struct fth_row_arrays rows;
    uint64_t *keys, *counts;
    uint32_t *tables;
};
static inline void snapshot_take(const fth_embedding *embedding, uint32_t pack,
                                 struct snapshot *to) {
    fth_embedding_pack_info(embedding, pack, &to->info);
    uint64_t n = to->info.rows, c = to->info.candidates;
    to->rows = (struct fth_row_arrays){.keys = fth_alloc(n, 8),
                                       .tables = fth_alloc(n, 4),
                                       .weights = fth_alloc(n, to->info.dim * sizeof(float)),
                                       .frequency = fth_alloc(n, 8),
                                       .last_step = fth_alloc(n, 8)};
    for (uint32_t s = 0; s < to->info.n_slots; s++)
        to->rows.slots[s] = fth_alloc(n, to->info.slot_columns[s] * sizeof(float));
    to->n = fth_embedding_export(embedding, pack, 0, n + 5, &to->rows);
    assert_int_equal(to->n, n);
    to->keys = fth_alloc(c, 8), to->counts = fth_alloc(c, 8), to->tables = fth_alloc(c, 4);
    to->n_candidates = fth_embedding_export_candidates(embedding, pack, 0, c + 5, to->keys,
                                                       to->tables, to->counts);
    assert_int_equal(to->n_candidates, c);
}
static inline void snapshot_free(struct snapshot *of) {
    fth_free(of->rows.keys), fth_free(of->rows.tables), fth_free(of->rows.weights);
    fth_free(of->rows.frequency), fth_free(of->rows.last_step);
    for (uint32_t s = 0; s < of->info.n_slots; s++)
        fth_free(of->rows.slots[s]);
    fth_free(of->keys), fth_free(of->counts), fth_free(of->tables);
}
/* Bit for bit, order included. */
static inline void assert_same_embeddings(const fth_embedding *a, const fth_embedding *b) {
    assert_int_equal(fth_embedding_packs(a), fth_embedding_packs(b));
    for (uint32_t p = 0; p < fth_embedding_packs(a); p++) {
        struct snapshot x, y;
        snapshot_take(a, p, &x);
        snapshot_take(b, p, &y);
        assert_int_equal(x.n, y.n);
        assert_int_equal(x.n_candidates, y.n_candidates);
        assert_memory_equal(x.rows.keys, y.rows.keys, x.n * 8);
        assert_memory_equal(x.rows.tables, y.rows.tables, x.n * 4);
        assert_memory_equal(x.rows.weights, y.rows.weights, x.n * x.info.dim * sizeof(float));
        for (uint32_t s = 0; s < x.info.n_slots; s++)
            assert_memory_equal(x.rows.slots[s], y.rows.slots[s],
                                x.n * x.info.slot_columns[s] * sizeof(float));
        assert_memory_equal(x.rows.frequency, y.rows.frequency, x.n * 8);
        assert_memory_equal(x.rows.last_step, y.rows.last_step, x.n * 8);
        assert_memory_equal(x.keys, y.keys, x.n_candidates * 8);
        assert_memory_equal(x.tables, y.tables, x.n_candidates * 4);
        assert_memory_equal(x.counts, y.counts, x.n_candidates * 8);
        snapshot_free(&x);
        snapshot_free(&y);
    }
}

/* An embedding of lookups of one's own, in packs, for batches of up to max_batch. */
static inline fth_embedding *world_packed(const struct fth_lookup *lookups, uint32_t n, const char *optimizer_name,
                                          int64_t limit, uint32_t max_batch) {
    struct fth_embedding_config config = {.init_scale = 0.25, .memory_limit = limit};
    struct fth_optimizer_config optimizer = world_optimizer(optimizer_name);
    struct fth_embedding_options options = {.lookups = lookups,
                                            .n_lookups = n,
                                            .config = &config,
                                            .optimizer = &optimizer,
                                            .seed = 5,
                                            .max_batch = max_batch,
                                            .packing = 1,
                                            .norms = 1};
    fth_embedding *embedding;
    OK(fth_embedding_create(&options, &embedding, err));
    return embedding;
}

/* An update by Adagrad of lookups that make a row of `dim` numbers an example: made-up gradients, the same for all. */
static inline void world_update(fth_embedding *embedding, fth_pool *pool, uint32_t lookups, uint32_t examples,
                                uint32_t dim, uint64_t step) {
    float *gradient = malloc((size_t)examples * dim * sizeof *gradient);
    struct fth_row_gradient *list = malloc(lookups * sizeof *list);
    struct fth_opt_args args = world_args("adagrad", step);
    assert_true(gradient && list);
    for (uint32_t i = 0; i < examples * dim; i++)
        gradient[i] = (float)(i * step % 91) * 0.01f - 0.4f;
    for (uint32_t l = 0; l < lookups; l++)
        list[l] = (struct fth_row_gradient){.lookup = l, .gradient = gradient, .ld = dim};
    fth_embedding_set_args(embedding, &args, NULL);
    run_update(embedding, pool, list, lookups, 1);
    free(list);
    free(gradient);
}

#endif
