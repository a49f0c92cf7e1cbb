/* For the tests of embedding/: an embedding of up to five one-key fields, "a" to "e", and batches of neighbouring keys. */
#ifndef FTH_TEST_EMBEDDING_COLUMNS_H
#define FTH_TEST_EMBEDDING_COLUMNS_H

#include "embedding/embedding_private.h"
#include "world.h"

#define FIELDS 5
static const char *const names[] = {"a", "b", "c", "d", "e"};
static const int32_t no_groups[] = {FTH_NO_GROUP, FTH_NO_GROUP, FTH_NO_GROUP, FTH_NO_GROUP,
                                    FTH_NO_GROUP};
static const uint8_t weighted[] = {0, 0, 0, 1, 0};
static const struct fth_schema schema = {
    .n_fields = FIELDS, .field_group = no_groups, .field_weighted = weighted};

struct setting {
    uint32_t n_lookups, dim, max_batch;
    uint64_t min_count;
    int64_t limit;
    int init;
};

static fth_status create(const struct setting *with, fth_embedding **out, fth_error *err) {
    struct fth_lookup lookups[FIELDS];
    for (uint32_t i = 0; i < with->n_lookups; i++)
        lookups[i] = (struct fth_lookup){.field = i,
                                         .table = names[i],
                                         .dim = with->dim,
                                         .group = FTH_NO_GROUP,
                                         .weighted = weighted[i],
                                         .min_count = with->min_count};
    struct fth_embedding_config config = {.init = with->init,
                                          .init_scale = 0.25,
                                          .memory_limit = with->limit ? with->limit : 256 << 20};
    struct fth_optimizer_config optimizer = world_optimizer("adagrad");
    struct fth_embedding_options options = {.lookups = lookups,
                                            .n_lookups = with->n_lookups,
                                            .config = &config,
                                            .optimizer = &optimizer,
                                            .seed = 5,
                                            .max_batch = with->max_batch,
                                            .packing = 1};
    return fth_embedding_create(&options, out, err);
}

static fth_embedding *create_ok(const struct setting *with) {
    fth_embedding *embedding;
    OK(create(with, &embedding, err));
    return embedding;
}

static struct fth_batch *batch_of(uint32_t n, uint64_t first_key) {
    struct fth_batch *batch;
    OK(fth_batch_create(&schema, n, &batch, err));
    batch->n = n;
    for (uint32_t f = 0; f < FIELDS; f++) {
        for (uint32_t i = 0; i < n; i++) {
            batch->fields[f].keys[i] = first_key + i;
            if (weighted[f])
                batch->fields[f].values[i] = 2;
        }
    }
    return batch;
}

/* How many of the fixed number of update tasks have something to do. */
static uint32_t update_work(const fth_embedding *embedding) {
    return embedding->n_tasks;
}

/* The update of the prepared batch without any gradient: rows stay as they are, but are counted. */
static inline void update_without_gradients(fth_embedding *embedding) {
    const struct fth_rows *rows = fth_embedding_rows(embedding);
    void *scratch = malloc(rows->update_scratch(rows->ctx));
    for (uint32_t task = 0; task < rows->update_tasks(rows->ctx); task++)
        rows->update(rows->ctx, NULL, 0, 1, task, scratch);
    free(scratch);
}

#endif
