/* The gradient that reaches rows through every way of pooling, against finite differences of what
 * gather gives: the rows are moved along a random direction, and the change of a weighted sum of
 * the outputs compared with what one SGD step of rate 1 took off the rows. */
#include "import_rows.h"
#include "world.h"

#define PACKS 8
#define STEP 1e-4 /* small enough that no maximum moves to another position */

static struct fth_batch *batch;
static fth_pool *pool;

/* Weighted sum of lookup l's output; the weights are `gradients`. */
static double weighted_output(fth_embedding *embedding, uint32_t l,
                              const struct world_gradients *gradients) {
    const struct fth_rows *rows = fth_embedding_rows(embedding);
    uint32_t dim = world_lookups[l].dim, n = lookup_rows(&world_lookups[l], batch);
    float *out = malloc(((size_t)n * dim + 1) * sizeof(float));
    double sum = 0;
    rows->gather(rows->ctx, l, 0, batch->n, out, dim);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t d = 0; d < dim; d++)
            sum += (double)out[i * dim + d] *
                   gradients->data[l][(size_t)i * gradients->list[l].ld + d];
    free(out);
    return sum;
}

/* The direction in which weight i of a row moves: a function of the row and of i alone. */
static float direction(const struct snapshot *rows, uint64_t row, uint32_t i) {
    uint64_t state = rows->rows.keys[row] * 31 + rows->rows.tables[row] * 1000003 + i;
    return 2 * world_float(&state);
}

static fth_embedding *prepared(void) {
    fth_embedding *embedding = world_embedding("sgd", 1);
    OK(fth_embedding_prepare(embedding, pool, batch, 1, 1, err));
    return embedding;
}

/* The weighted output with every row moved by `by` times its direction. */
static double moved_output(uint32_t l, const struct world_gradients *gradients, float by) {
    fth_embedding *embedding = prepared();
    for (uint32_t p = 0; p < fth_embedding_packs(embedding); p++) {
        struct snapshot rows;
        snapshot_take(embedding, p, &rows);
        for (uint64_t r = 0; r < rows.n; r++)
            for (uint32_t d = 0; d < rows.info.dim; d++)
                rows.rows.weights[r * rows.info.dim + d] += by * direction(&rows, r, d);
        OK(import_rows(embedding, p, rows.n, &rows.rows, err));
        snapshot_free(&rows);
    }
    OK(fth_embedding_prepare(embedding, pool, batch, 0, 1, err));
    double sum = weighted_output(embedding, l, gradients);
    fth_embedding_destroy(embedding);
    return sum;
}

/* What the step took off the rows, along the direction. */
static double gradient_along(uint32_t l, const struct world_gradients *gradients) {
    fth_embedding *embedding = prepared();
    struct snapshot before[PACKS], after;
    struct fth_opt_args args = {.lr = 1, .grad_scale = 1};
    double sum = 0;
    uint32_t packs = fth_embedding_packs(embedding);
    assert_true(packs <= PACKS);
    for (uint32_t p = 0; p < packs; p++)
        snapshot_take(embedding, p, &before[p]);
    weighted_output(embedding, l, gradients); /* max pooling remembers where its maxima came from */
    fth_embedding_set_args(embedding, &args, NULL);
    run_update(embedding, pool, &gradients->list[l], 1, 1.0f);
    for (uint32_t p = 0; p < packs; p++) {
        snapshot_take(embedding, p, &after);
        for (uint64_t r = 0; r < after.n; r++)
            for (uint32_t d = 0; d < after.info.dim; d++)
                sum += ((double)before[p].rows.weights[r * after.info.dim + d] -
                        after.rows.weights[r * after.info.dim + d]) *
                       direction(&after, r, d);
        snapshot_free(&after);
        snapshot_free(&before[p]);
    }
    fth_embedding_destroy(embedding);
    return sum;
}

static void every_pooling(void **state) {
    pool = world_pool(2);
    for (uint64_t number = 1; number <= 4; number++) {
        struct world_gradients gradients;
        uint32_t changed = 0;
        batch = world_batch(number, WORLD_BATCH);
        world_gradients_make(&gradients, batch, number);
        for (uint32_t l = 0; l < LOOKUPS; l++) {
            double along = gradient_along(l, &gradients);
            double moved = (moved_output(l, &gradients, (float)STEP) -
                            moved_output(l, &gradients, (float)-STEP)) /
                           (2 * STEP);
            if (fabs(along - moved) > 0.01 * (1 + fabs(along)))
                fail_msg("batch %d, lookup %u (%s): gradient %g, finite difference %g", (int)number,
                         l, world_lookups[l].table, along, moved);
            changed += along != 0;
        }
        assert_true(changed >= LOOKUPS - 2); /* all but, perhaps, the tables with admission */
        world_gradients_free(&gradients);
        fth_batch_destroy(batch);
    }
    fth_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_pooling)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
