/* Prediction: a probability a task for every line, in order, as text to a stream or as numbers to memory. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "train/session_private.h"

struct writer {
    FILE *out;       /* NULL: to numbers */
    double *numbers; /* [capacity] */
    size_t capacity;
    uint32_t tasks; /* columns */
    uint64_t lines; /* written so far = number of the next data line */
    uint64_t undefined, first_undefined; /* lines for which the model gives no number */
};

/* A stream of the caller's may give none (fmemopen that is full, fopencookie). */
static fth_status cannot_write(fth_error *err) {
    return fth_fail(err, FTH_E_IO, "cannot write predictions: %s", errno ? strerror(errno) : "the stream takes no more");
}

static double probability(float logit) {
    return 1.0 / (1.0 + exp(-(double)logit));
}

/* Nine digits; behind the nines of one near 1 nine more, or as many as a double has. */
static void format_probability(char out[32], float logit) {
    double lacks = 1.0 / (1.0 + exp((double)logit));
    int nines = lacks >= 1e-8 ? (int)-log10(lacks) : 8;
    fth_format_f64(out, 9 + (nines > 0 ? nines : 0), probability(logit));
}

static fth_status put_text(struct writer *writer, const float *logits, fth_error *err) {
    for (uint32_t t = 0; t < writer->tasks; t++) {
        char text[32] = "nan";
        if (logits && !isnan(logits[t]))
            format_probability(text, logits[t]);
        errno = 0;
        if (fputs(text, writer->out) < 0 || fputc(t + 1 < writer->tasks ? ',' : '\n', writer->out) < 0)
            return cannot_write(err);
    }
    return FTH_OK;
}

static fth_status put_numbers(struct writer *writer, const float *logits, fth_error *err) {
    if (writer->capacity - writer->lines * writer->tasks < writer->tasks)
        return fth_fail(err, FTH_E_LIMIT, "more than %llu lines: out has room for %zu numbers, %u a line",
                        (unsigned long long)writer->lines, writer->capacity, writer->tasks);
    for (uint32_t t = 0; t < writer->tasks; t++)
        writer->numbers[writer->lines * writer->tasks + t] = logits ? probability(logits[t]) : NAN;
    return FTH_OK;
}

/* A data line's probabilities; without logits: of a malformed line. */
static fth_status put(struct writer *writer, const float *logits, fth_error *err) {
    FTH_TRY(writer->out ? put_text(writer, logits, err) : put_numbers(writer, logits, err));
    int undefined = 0;
    for (uint32_t t = 0; logits && t < writer->tasks; t++)
        undefined |= isnan(logits[t]);
    if (undefined && writer->undefined++ == 0)
        writer->first_undefined = writer->lines;
    writer->lines++;
    return FTH_OK;
}

/* Lines that were left out as malformed show as gaps in the numbers. */
static fth_status put_gap(struct writer *writer, uint64_t up_to, fth_error *err) {
    while (writer->lines < up_to)
        FTH_TRY(put(writer, NULL, err));
    return FTH_OK;
}

static fth_status put_batch(void *ctx, const struct fth_batch *batch, const float *logits, uint32_t ld,
                            fth_error *err) {
    struct writer *writer = ctx;
    for (uint32_t i = 0; i < batch->n; i++) {
        FTH_TRY(put_gap(writer, batch->example_number[i], err));
        FTH_TRY(put(writer, logits + (size_t)i * ld, err));
    }
    return FTH_OK;
}

/* Behind the last batch. */
static fth_status finish(struct writer *writer, const struct fth_forward *forward, fth_error *err) {
    struct fth_reader_counts counts;
    fth_reader_get_counts(forward->reader, &counts);
    FTH_TRY(put_gap(writer, counts.lines, err));
    errno = 0;
    if (writer->out && fflush(writer->out) != 0)
        return cannot_write(err);
    if (writer->undefined)
        fth_log(FTH_LOG_WARN,
                "the model gives no number for %llu of %llu lines, data line %llu the first: 'nan' stands there; its training "
                "has diverged, or numbers in the data are too large for it",
                (unsigned long long)writer->undefined, (unsigned long long)writer->lines,
                (unsigned long long)writer->first_undefined + 1);
    return FTH_OK;
}

/* The data is given by `options`, but for what all predictions have. */
static fth_status predict(fth_session *session, struct fth_data_set_options *options, struct writer *writer,
                          uint64_t *lines, fth_error *err) {
    FTH_TRY(fth_session_needs_data(session, err));
    options->part = FTH_PART_FILES;
    options->labels_optional = 1;
    writer->tasks = fth_session_tasks(session->config);
    struct fth_forward forward = {0};
    fth_status status = fth_forward_open(session, options, 0, &forward, err);
    if (status == FTH_OK)
        status = fth_forward_batches(&forward, put_batch, writer, err);
    if (status == FTH_OK)
        status = finish(writer, &forward, err);
    fth_forward_close(&forward);
    fth_session_interrupt_heard(session);
    *lines = writer->lines;
    return status == FTH_E_INTERRUPTED ? fth_fail(err, status, "the prediction was stopped") : status;
}

fth_status fth_session_predict(fth_session *session, const char *path, FILE *out, uint64_t *lines,
                               fth_error *err) {
    if (lines)
        *lines = 0;
    if (!session || !path || !out || !lines)
        return fth_fail_null(err, "fth_session_predict", "session, path, out, lines");
    struct fth_data_set_options options = {.files = {&path, 1}, .files_key = "FILE"};
    return predict(session, &options, &(struct writer){.out = out}, lines, err);
}

fth_status fth_session_predict_text(fth_session *session, const char *text, size_t n, double *out, size_t capacity,
                                    uint64_t *lines, fth_error *err) {
    if (lines)
        *lines = 0;
    if (!session || !text || !out || !lines)
        return fth_fail_null(err, "fth_session_predict_text", "session, text, out, lines");
    struct fth_data_set_options options = {.memory = text, .memory_bytes = n};
    return predict(session, &options, &(struct writer){.numbers = out, .capacity = capacity}, lines, err);
}
