/* embedding/ahead.c: rows that coming batches will make find their memory ready; how much follows from the
 * batches, and only memory is touched. */
#define _DEFAULT_SOURCE
#include "world.h"

#include <sys/mman.h>

#include "embedding/embedding_private.h"

#define BATCH 4096
#define PAGE 4096

static const char *const one_name[] = {"f"};
static const int32_t one_group[] = {FTH_NO_GROUP};
static const uint8_t one_weighted[] = {0};
static const struct fth_schema one_field = {
    .n_fields = 1, .field_names = one_name, .field_group = one_group, .field_weighted = one_weighted};
static const struct fth_lookup one_lookup = {.table = "f", .dim = 16, .group = FTH_NO_GROUP};

static fth_embedding *create(int64_t limit) {
    struct fth_optimizer_config optimizer = world_optimizer("adagrad");
    struct fth_embedding_config config = world_config; /* small pages */
    config.memory_limit = limit;
    struct fth_embedding_options options = {.lookups = &one_lookup,
                                            .n_lookups = 1,
                                            .config = &config,
                                            .optimizer = &optimizer,
                                            .seed = WORLD_SEED,
                                            .max_batch = BATCH};
    fth_embedding *embedding;
    OK(fth_embedding_create(&options, &embedding, err));
    return embedding;
}

/* Keys first, first + 1, ... */
static fth_status prepare(fth_embedding *embedding, fth_pool *pool, uint64_t first, int training,
                          fth_error *told) {
    struct fth_batch *batch;
    OK(fth_batch_create(&one_field, BATCH, &batch, err));
    batch->n = BATCH;
    for (uint32_t i = 0; i < BATCH; i++)
        batch->fields[0].keys[i] = first + i;
    fth_status status = fth_embedding_prepare(embedding, pool, batch, training, 1 + first / BATCH, told);
    fth_batch_destroy(batch);
    return status;
}

static int resident(const void *at) {
    unsigned char is = 0;
    assert_int_equal(mincore((void *)((uintptr_t)at & ~(uintptr_t)(PAGE - 1)), PAGE, &is), 0);
    return is & 1;
}

static int kernel_touches(void) {
    char *region = fth_region_alloc(3 * PAGE);
    assert_non_null(region);
    fth_region_touch(region + PAGE, 1);
    int does = resident(region + PAGE);
    assert_false(resident(region + 2 * PAGE));
    fth_region_free(region, 3 * PAGE);
    return does;
}

static const float *chunk_at(const struct fth_pack *pack, uint64_t chunk) {
    return fth_pack_row(pack, (uint32_t)chunk * FTH_ROW_CHUNK);
}

static void memory_is_ready_before_rows_are_made(void **state) {
    if (!kernel_touches())
        skip();
    fth_embedding *embedding = create((int64_t)64 << 20);
    fth_pool *pool = world_pool(2);
    const struct fth_rows *rows = fth_embedding_rows(embedding);
    struct fth_pack *pack = &embedding->packs[0];
    uint64_t step = 0;
    for (; pack->touch_to == 0; step++) {
        assert_true(step < 8);
        OK(prepare(embedding, pool, step * BATCH, 1, err));
    }
    assert_true(step > 2); /* not for a small table */
    uint64_t next = pack->next_chunk, made = BATCH / FTH_ROW_CHUNK;
    assert_true(pack->touch_from == next && pack->touch_to >= next + 2 * made);
    const float *last = chunk_at(pack, pack->touch_to - 1);
    assert_false(resident(last));
    rows->beside(rows->ctx);
    for (uint64_t chunk = pack->touch_from; chunk < pack->touch_to; chunk++) {
        assert_true(resident(chunk_at(pack, chunk)));
        assert_true(resident(&pack->metas[chunk * FTH_ROW_CHUNK]));
    }
    assert_false(resident(chunk_at(pack, pack->touch_to + 1)));
    for (uint32_t i = 0; i < FTH_ROW_CHUNK * pack->stride; i++)
        assert_true(last[i] == 0);
    /* Until what is ready would not do for another batch like the last one. */
    uint64_t ready = pack->touch_to;
    for (; pack->touch_to == ready; step++) {
        assert_false(pack->touch_wanted);
        assert_true(pack->next_chunk < ready);
        OK(prepare(embedding, pool, step * BATCH, 1, err));
    }
    assert_true(pack->touch_wanted && pack->touch_from == ready);
    fth_pool_destroy(pool);
    fth_embedding_destroy(embedding);
}

static void known_keys_ask_for_nothing(void **state) {
    fth_embedding *embedding = create((int64_t)64 << 20);
    fth_pool *pool = world_pool(1);
    struct fth_pack *pack = &embedding->packs[0];
    for (uint64_t step = 0; step < 8; step++)
        OK(prepare(embedding, pool, step * BATCH, 1, err));
    assert_true(pack->touch_wanted);
    fth_embedding_beside(embedding);
    uint64_t ready = pack->touch_to;
    OK(prepare(embedding, pool, 0, 1, err));
    OK(prepare(embedding, pool, 1000 * BATCH, 0, err)); /* an evaluation makes no rows */
    OK(prepare(embedding, pool, BATCH, 1, err));
    assert_true(!pack->touch_wanted && pack->touch_to == ready);
    fth_pool_destroy(pool);
    fth_embedding_destroy(embedding);
}

static void nothing_behind_the_limit(void **state) {
    fth_embedding *embedding = create((int64_t)5 << 20);
    fth_pool *pool = world_pool(2);
    struct fth_pack *pack = &embedding->packs[0];
    fth_error error = {0};
    fth_status status = FTH_OK;
    for (uint64_t step = 0; status == FTH_OK; step++) {
        status = prepare(embedding, pool, step * BATCH, 1, &error);
        assert_true(pack->touch_to <= pack->max_rows / FTH_ROW_CHUNK);
        fth_embedding_beside(embedding);
        assert_true(step < 100);
    }
    assert_int_equal(status, FTH_E_LIMIT);
    assert_true(pack->touch_to > 0);
    fth_pool_destroy(pool);
    fth_embedding_destroy(embedding);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_ready_before_rows_are_made),
        cmocka_unit_test(known_keys_ask_for_nothing),
        cmocka_unit_test(nothing_behind_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
