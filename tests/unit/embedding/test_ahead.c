/* embedding/ahead.c: rows that coming batches will make find their memory ready; how much follows from the
 * batches, and only memory is touched. */
#define _DEFAULT_SOURCE
#include "world.h"

#include <sys/mman.h>

#include "embedding/embedding_private.h"

#define BATCH 4096
#define PAGE 4096
#define PIECE ((uint64_t)2 << 20) /* that a worker touches */

static const int32_t one_group[] = {FTH_NO_GROUP};
static const uint8_t one_weighted[] = {0};
static const struct fth_schema one_field = {
    .n_fields = 1, .field_group = one_group, .field_weighted = one_weighted};
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

static uint64_t rows_bytes(const struct fth_pack *pack, uint64_t chunks) {
    return chunks * FTH_ROW_CHUNK * pack->stride * sizeof(float);
}

static const char *piece_at(const struct fth_pack *pack, uint64_t piece) {
    return (const char *)pack->rows + piece * PIECE;
}

static int wanted(const struct fth_pack *pack) { return pack->touch_next < pack->touch_to; }

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
    uint64_t used = rows_bytes(pack, pack->next_chunk), made = rows_bytes(pack, BATCH / FTH_ROW_CHUNK);
    uint64_t first = pack->touch_next, ready = pack->touch_to;
    assert_true(wanted(pack) && first == used / PIECE && ready * PIECE >= used + 2 * made);
    const char *last = piece_at(pack, ready) - PAGE;
    assert_false(resident(last));
    rows->beside(rows->ctx);
    assert_false(wanted(pack));
    for (const char *at = piece_at(pack, first); at < piece_at(pack, ready); at += PAGE)
        assert_true(resident(at));
    uint64_t row = PIECE / (pack->stride * sizeof(float));
    for (uint64_t i = first * row; i < ready * row; i += FTH_ROW_CHUNK)
        assert_true(resident(&pack->metas[i]));
    assert_false(resident(piece_at(pack, ready)));
    for (uint32_t i = 0; i < PAGE; i++)
        assert_true(last[i] == 0);
    for (; rows_bytes(pack, pack->next_chunk) < 3 * PIECE; step++) {
        OK(prepare(embedding, pool, step * BATCH, 1, err));
        rows->beside(rows->ctx);
    }
    /* Until what is ready would not do for another batch like the last one: then a page for each of the workers. */
    ready = pack->touch_to;
    for (; pack->touch_to == ready; step++) {
        assert_true(!wanted(pack) && rows_bytes(pack, pack->next_chunk) < ready * PIECE);
        OK(prepare(embedding, pool, step * BATCH, 1, err));
    }
    assert_true(pack->touch_next == ready && pack->touch_to == ready + 2);
    pack->touch_next++; /* as another worker would */
    rows->beside(rows->ctx);
    assert_true(!resident(piece_at(pack, ready + 1) - PAGE) && resident(piece_at(pack, ready + 1)));
    fth_pool_destroy(pool);
    fth_embedding_destroy(embedding);
}

static void known_keys_ask_for_nothing(void **state) {
    fth_embedding *embedding = create((int64_t)64 << 20);
    fth_pool *pool = world_pool(1);
    struct fth_pack *pack = &embedding->packs[0];
    for (uint64_t step = 0; step < 8; step++)
        OK(prepare(embedding, pool, step * BATCH, 1, err));
    assert_true(wanted(pack));
    fth_embedding_beside(embedding);
    uint64_t ready = pack->touch_to;
    OK(prepare(embedding, pool, 0, 1, err));
    OK(prepare(embedding, pool, 1000 * BATCH, 0, err)); /* an evaluation makes no rows */
    OK(prepare(embedding, pool, BATCH, 1, err));
    assert_true(!wanted(pack) && pack->touch_to == ready);
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
        assert_true(pack->touch_to <= rows_bytes(pack, pack->max_rows / FTH_ROW_CHUNK) / PIECE);
        fth_embedding_beside(embedding);
        assert_true(step < 100);
    }
    assert_int_equal(status, FTH_E_LIMIT);
    assert_true(pack->touch_to > 0);
    fth_pool_destroy(pool);
    fth_embedding_destroy(embedding);
}

static void expected_rows_find_memory_and_index(void **state) {
    if (!kernel_touches())
        skip();
    const uint64_t STEPS = 12;
    fth_embedding *embedding = create((int64_t)64 << 20);
    fth_pool *pool = world_pool(2);
    struct fth_pack *pack = &embedding->packs[0];
    atomic_int stop = 1;
    uint64_t bytes = fth_pack_bytes(pack);
    OK(fth_embedding_expect(embedding, pool, STEPS * BATCH, &stop, err));
    assert_false(resident(piece_at(pack, 0) + PIECE / 2));
    assert_true(fth_pack_bytes(pack) > bytes); /* the indices */
    stop = 0;
    OK(fth_embedding_expect(embedding, pool, STEPS * BATCH, &stop, err));
    uint64_t ready = pack->touch_to;
    assert_true(!wanted(pack) && ready * PIECE >= rows_bytes(pack, STEPS * BATCH / FTH_ROW_CHUNK));
    assert_true(resident(piece_at(pack, 0) + PIECE / 2) && resident(piece_at(pack, ready) - PAGE));
    assert_false(resident(piece_at(pack, ready)));
    uint32_t groups[FTH_SHARDS];
    for (uint32_t i = 0; i < FTH_SHARDS; i++) {
        groups[i] = pack->shards[i].index.n_groups;
        assert_true(resident((const char *)pack->shards[i].index.groups + fth_index_bytes(&pack->shards[i].index) - 1));
    }
    for (uint64_t step = 0; step + 2 < STEPS; step++) { /* the last ones would plan for those behind them */
        OK(prepare(embedding, pool, step * BATCH, 1, err));
        assert_true(!wanted(pack) && pack->touch_to == ready);
    }
    for (uint32_t i = 0; i < FTH_SHARDS; i++)
        assert_int_equal(pack->shards[i].index.n_groups, groups[i]);
    OK(fth_embedding_expect(embedding, pool, STEPS * BATCH, NULL, err)); /* with rows, as after a restore */
    fth_error error = {0};
    assert_int_equal(fth_embedding_expect(embedding, pool, 1 << 20, NULL, &error), FTH_E_CONFIG);
    assert_non_null(strstr(error.message, "expected_rows"));
    OK(prepare(embedding, pool, STEPS * BATCH, 1, err));
    fth_pool_destroy(pool);
    fth_embedding_destroy(embedding);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_ready_before_rows_are_made),
        cmocka_unit_test(known_keys_ask_for_nothing),
        cmocka_unit_test(nothing_behind_the_limit),
        cmocka_unit_test(expected_rows_find_memory_and_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
