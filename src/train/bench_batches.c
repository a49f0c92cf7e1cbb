/* Batches held in memory for measuring steps: read once from the training data, or drawn by the schema. */
#include <glob.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/random.h"
#include "train/bench_private.h"

int fth_bench_has_data(const fth_config *config) {
    for (uint32_t i = 0; i < config->data.train.n; i++) {
        glob_t found;
        if (strcmp(config->data.train.items[i], "-") == 0)
            return 1;
        int result = glob(config->data.train.items[i], GLOB_NOSORT, NULL, &found);
        if (result == 0)
            globfree(&found);
        if (result != GLOB_NOMATCH)
            return 1; /* a failure shows when it is read */
    }
    return 0;
}

/* ---- drawn ---- */

#define IDS 100000.0 /* of a field; the popularity of id i falls as 1 / i */

struct draws {
    uint64_t seed, batch, next;
    uint32_t words[4];
};

static double unit(struct draws *draws) {
    if (draws->next % 4 == 0)
        fth_random_draw(draws->seed, FTH_RANDOM_GENERATE, draws->batch, draws->next / 4, draws->words);
    return (double)fth_random_unit(draws->words[draws->next++ % 4]);
}

static void draw_keys(struct draws *draws, struct fth_keys *keys, const char *table, uint32_t buckets, uint32_t n) {
    uint64_t salt = fth_hash_bytes(table, strlen(table), 0);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t id = (uint64_t)exp(unit(draws) * log(IDS));
        if (buckets)
            keys->numbers[i] = (uint32_t)(id % buckets);
        else
            keys->keys[i] = fth_hash_mix(salt ^ id);
        if (keys->values)
            keys->values[i] = 1;
    }
}

/* Lengths from 1 to half of what an example can have, as histories usually are; of lines without a limit as of usual
 * lists. */
static fth_status draw_lengths(struct draws *draws, struct fth_batch *batch, uint32_t group,
                               fth_error *err) {
    struct fth_ragged *ragged = &batch->groups[group];
    uint32_t most = batch->schema->group_max[group];
    most = ((most < FTH_WHOLE_LENGTH ? most : FTH_STANDARD_LENGTH) + 1) / 2;
    if ((uint64_t)batch->n * ((uint64_t)most + 1) > UINT32_MAX)
        return fth_fail(err, FTH_E_LIMIT, "generated batches of %u examples with lists of up to %u values: lower "
                                          "train.batch_size or max_length", batch->n, most);
    ragged->offsets[0] = 0;
    for (uint32_t i = 0; i < batch->n; i++)
        ragged->offsets[i + 1] = ragged->offsets[i] + 1 + (uint32_t)(unit(draws) * (most ? most : 1));
    FTH_TRY(fth_batch_reserve_positions(batch, group, ragged->offsets[batch->n], err));
    ragged->total = ragged->offsets[batch->n];
    return FTH_OK;
}

static fth_status draw_batch(struct fth_session *session, uint64_t number, struct fth_batch *batch,
                             fth_error *err) {
    const struct fth_schema *schema = batch->schema;
    struct draws draws = {.seed = session->config->seed, .batch = number};
    uint32_t n_fields, tasks = fth_schema_tasks(schema);
    const struct fth_field_info *fields = fth_feature_fields(session->program, &n_fields);
    batch->n = (uint32_t)session->config->train.batch_size;
    for (uint32_t g = 0; g < schema->n_groups; g++)
        FTH_TRY(draw_lengths(&draws, batch, g, err));
    for (uint32_t f = 0; f < n_fields; f++) {
        int32_t group = batch->fields[f].group;
        uint32_t n = group == FTH_NO_GROUP ? batch->n : batch->groups[group].total;
        draw_keys(&draws, &batch->fields[f], fields[f].table, schema->field_buckets ? schema->field_buckets[f] : 0, n);
    }
    for (uint32_t i = 0; i < batch->n; i++) {
        for (uint32_t j = 0; j < schema->n_dense; j++)
            batch->dense[(size_t)i * batch->dense_ld + j] = (float)(2 * unit(&draws) - 1);
        for (size_t at = (size_t)i * tasks; at < ((size_t)i + 1) * tasks; at++) {
            batch->label[at] = unit(&draws) < 0.25;
            if (batch->weight)
                batch->weight[at] = 1;
        }
        if (batch->query)
            batch->query[i] = i;
    }
    return FTH_OK;
}

static fth_status draw_all(struct fth_session *session, struct fth_bench_batches *out, fth_error *err) {
    const struct fth_schema *schema = fth_feature_schema(session->program);
    for (; out->n < out->capacity; out->n++) {
        struct fth_batch **batch = &out->items[out->n];
        FTH_TRY(fth_batch_create(schema, (uint32_t)session->config->train.batch_size, batch, err));
        fth_status status = draw_batch(session, out->n, *batch, err);
        if (status != FTH_OK) {
            fth_batch_destroy(*batch);
            return status;
        }
    }
    return FTH_OK;
}

/* ---- read ---- */

/* A short last batch is taken only when it is the only one. */
static fth_status read_all(struct fth_session *session, struct fth_bench_batches *out, fth_error *err) {
    struct fth_reader_options options = {.batch_size = (uint32_t)session->config->train.batch_size,
                                         .seed = session->config->seed,
                                         .epochs = 1,
                                         .train = 1,
                                         .held = out->capacity};
    FTH_TRY(fth_session_train_set(session, err));
    FTH_TRY(fth_session_program_for(session, session->train_set, 1, &out->program, err));
    FTH_TRY(fth_feature_pass_create(out->program, NULL, 0, &out->pass, err));
    struct fth_transform transform = fth_feature_pass_transform(out->pass);
    FTH_TRY(fth_reader_create(session->train_set, &transform, &options, &out->reader, err));
    while (out->n < out->capacity) {
        struct fth_batch *batch;
        FTH_TRY(fth_reader_next(out->reader, &batch, err));
        if (!batch)
            break;
        if (out->n && batch->n < options.batch_size) {
            fth_reader_release(out->reader, batch);
            break;
        }
        out->items[out->n++] = batch;
    }
    if (!out->n)
        return fth_fail(err, FTH_E_DATA, "data.train: there are no training examples in it");
    fth_reader_get_counts(out->reader, &out->counts);
    return FTH_OK;
}

fth_status fth_bench_hold(struct fth_session *session, uint32_t n, int generated,
                          struct fth_bench_batches *out, fth_error *err) {
    *out = (struct fth_bench_batches){.capacity = n, .generated = generated};
    out->items = fth_alloc(n, sizeof(struct fth_batch *));
    if (!out->items)
        return fth_fail(err, FTH_E_MEMORY, "no memory for %u batches", n);
    fth_status status = generated ? draw_all(session, out, err) : read_all(session, out, err);
    if (status != FTH_OK)
        fth_bench_release(out);
    return status;
}

void fth_bench_release(struct fth_bench_batches *batches) {
    for (uint32_t i = 0; i < batches->n; i++)
        if (batches->generated)
            fth_batch_destroy(batches->items[i]);
        else
            fth_reader_release(batches->reader, batches->items[i]);
    fth_reader_destroy(batches->reader);
    fth_feature_pass_destroy(batches->pass);
    fth_feature_destroy(batches->program);
    fth_free(batches->items);
    *batches = (struct fth_bench_batches){0};
}

fth_status fth_bench_stage(struct fth_session *session, double seconds, struct fth_stage_rate *out,
                           fth_error *err) {
    struct fth_data_set_options options = {.part = FTH_PART_TRAIN};
    fth_feature_program *program = NULL;
    fth_feature_pass *pass = NULL;
    fth_data_set *set = NULL;
    fth_status status = FTH_OK;
    *out = (struct fth_stage_rate){0};
    if (!fth_data_set_again(session->train_set))
        return FTH_OK;
    FTH_TRY_GOTO(status, fth_session_open_set(session, &options, &set, err), done);
    FTH_TRY_GOTO(status, fth_session_program_for(session, set, 1, &program, err), done);
    FTH_TRY_GOTO(status, fth_feature_pass_create(program, NULL, 0, &pass, err), done);
    struct fth_transform transform = fth_feature_pass_transform(pass);
    status = fth_data_time_stage(set, &transform, seconds, out, err);
done:
    fth_feature_pass_destroy(pass);
    fth_feature_destroy(program);
    fth_data_set_destroy(set);
    return status;
}
