/* Steps on examples read from data.train, in turns with steps on batches held in memory: what reading and new rows cost.
 * One session makes both, so both meet the same weights and the same disturbances of the machine. Of compressed files up to
 * ten blocks a worker are read ahead in the other's turn; with data.parse_threads 0 nothing else is. */
#include "base/sort.h"
#include "train/bench_private.h"

#define TURN 16 /* steps */

/* Reads on behind the batches held, so that there are new keys as long as there are new lines; then all of them again. */
struct reading {
    fth_data_set *set;
    fth_feature_program *program;
    fth_feature_pass *pass;
    fth_reader *reader;
    struct fth_filler filler;
};

static fth_status begin(struct fth_session *session, const struct fth_bench_batches *held, struct reading *reading,
                        fth_error *err) {
    struct fth_data_set_options part = {.part = FTH_PART_TRAIN};
    const struct fth_position *after = &held->items[held->n - 1]->after;
    struct fth_reader_options options = {.batch_size = (uint32_t)session->config->train.batch_size,
                                         .seed = session->config->seed,
                                         .epochs = UINT64_MAX,
                                         .train = 1,
                                         .pool = session->pool,
                                         .start = after};
    FTH_TRY(fth_session_open_set(session, &part, &reading->set, err));
    FTH_TRY(fth_session_program_for(session, reading->set, 1, &reading->program, err));
    FTH_TRY(fth_feature_pass_create(reading->program, after->feature_state, after->n_feature_state, &reading->pass, err));
    struct fth_transform transform = fth_feature_pass_transform(reading->pass);
    FTH_TRY(fth_reader_create(reading->set, &transform, &options, &reading->reader, err));
    fth_reader_filler(reading->reader, &reading->filler);
    return FTH_OK;
}

static void end(struct reading *reading) {
    fth_reader_destroy(reading->reader);
    fth_feature_pass_destroy(reading->pass);
    fth_feature_destroy(reading->program);
    fth_data_set_destroy(reading->set);
}

/* Through an epoch's end. */
static fth_status next(struct reading *reading, struct fth_batch **batch, fth_error *err) {
    FTH_TRY(fth_reader_next(reading->reader, batch, err));
    if (!*batch)
        FTH_TRY(fth_reader_next(reading->reader, batch, err));
    return *batch ? FTH_OK : fth_fail(err, FTH_E_DATA, "data.train: there are no training examples in it any more");
}

/* A turn of steps on held batches, or with `reading` on what it reads: adds their times to *sum; *rate is the turn's. */
static fth_status turn(struct fth_session *session, fth_plan *plan, const struct fth_bench_batches *held,
                       struct reading *reading, struct fth_bench_side *sum, double *rate, fth_error *err) {
    struct fth_bench_side before = *sum;
    for (int i = 0; i < TURN; i++) {
        struct fth_batch *batch = reading ? NULL : held->items[sum->steps % held->n];
        uint64_t start = fth_now_ns(), lookup = session->times.lookup;
        double loss;
        if (reading)
            FTH_TRY(next(reading, &batch, err));
        uint64_t there = reading ? fth_now_ns() : start;
        fth_status status = fth_session_step(session, plan, batch, reading ? &reading->filler : NULL, &loss, err);
        sum->examples += batch->n;
        if (reading)
            fth_reader_release(reading->reader, batch);
        FTH_TRY(status);
        sum->steps++;
        sum->ns += (double)(fth_now_ns() - start);
        sum->waiting += (double)(there - start);
        sum->lookup += (double)(session->times.lookup - lookup);
    }
    *rate = (double)(sum->examples - before.examples) * 1e9 / (sum->ns - before.ns);
    return FTH_OK;
}

static fth_status take_turns(struct fth_session *session, fth_plan *plan, const struct fth_bench_batches *held,
                             struct reading *reading, double seconds, double *ratios, struct fth_bench_turns *out,
                             fth_error *err) {
    struct fth_bench_side first = {0};
    double from_text, in_memory;
    /* Not counted: memory finds its sizes. */
    FTH_TRY(turn(session, plan, held, reading, &first, &from_text, err));
    while (out->n == 0 || (out->n < FTH_BENCH_SAMPLES && out->text.ns * 1e-9 < seconds)) {
        FTH_TRY(turn(session, plan, held, NULL, &out->memory, &in_memory, err));
        FTH_TRY(turn(session, plan, held, reading, &out->text, &from_text, err));
        ratios[out->n++] = from_text / in_memory;
    }
    fth_sort_doubles(ratios, out->n);
    out->median = (ratios[(out->n - 1) / 2] + ratios[out->n / 2]) / 2;
    return FTH_OK;
}

fth_status fth_bench_in_turns(struct fth_session *session, fth_plan *plan, const struct fth_bench_batches *held,
                              double seconds, double *ratios, struct fth_bench_turns *out, fth_error *err) {
    struct reading reading = {0};
    fth_status status = begin(session, held, &reading, err);
    if (status == FTH_OK)
        status = take_turns(session, plan, held, &reading, seconds, ratios, out, err);
    end(&reading);
    return status;
}
