/* Running the generator: options checked, chunks of examples drawn and written as text by the workers of a
 * pool, handed to the sinks in order by the calling thread. The chunk is a fixed number of examples, so
 * that sums (and so every printed digit) do not depend on the number of threads. Memory: CHUNK_BYTES for
 * each of CHUNKS_PER_THREAD chunks a thread, and the histogram. */
#include "fathom/gen.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/thread.h"
#include "data/gen_private.h"

#define CHUNK_BYTES ((size_t)1 << 20)
#define CHUNK_EXAMPLES 1024
#define CHUNKS_PER_THREAD 4
#define TRUTH_BYTES 24

struct chunk {
    char *text, *truth;
    double *logits;
    uint8_t *labels;
    uint32_t n;
    size_t n_text, n_truth;
};

struct run {
    const struct fth_gen_model *model;
    int with_truth;
    uint32_t per_chunk, n_chunks;
    uint64_t next; /* example number of this round's first */
    struct chunk *chunks;               /* [n_chunks] */
    struct fth_gen_example *examples;   /* [threads] */
};

/* ---- options ---- */

static int is_share(double x) { return x >= 0 && x <= 1; } /* false for NaN */

static int good_name(const char name[32]) {
    size_t n = strnlen(name, 32);
    if (n == 0 || n == 32)
        return 0;
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == n;
}

static fth_status wrong(fth_error *err, const char *what, const char *accepted) {
    return fth_fail(err, FTH_E_ARGUMENT, "generator: %s: must be %s", what, accepted);
}

static fth_status check_number(const fth_gen_number *number, uint32_t j, fth_error *err) {
    char what[64];
    snprintf(what, sizeof what, "number column %u", j + 1);
    if (number->decimals < 0 || number->decimals > 6)
        return wrong(err, what, "written with 0 to 6 decimals");
    if (!is_share(number->missing))
        return wrong(err, what, "missing at a rate from 0 to 1");
    if (!(fabs(number->mean) <= 20) || !(number->deviation >= 0 && number->deviation <= 20))
        return wrong(err, what, "of mean -20 to 20 and deviation 0 to 20");
    if (number->decimals == 6 && fabs(number->mean) + 4 * number->deviation > 2000)
        return wrong(err, what, "within +-2000 with 6 decimals");
    if (number->shift < -1000000 || number->shift > 1000000)
        return wrong(err, what, "shifted by at most 1000000");
    return FTH_OK;
}

static fth_status check_column(const fth_gen_column *column, uint32_t f, fth_error *err) {
    char what[64];
    snprintf(what, sizeof what, "categorical column %u", f + 1);
    if (column->cardinality < 1 || column->cardinality > (uint64_t)1 << 32)
        return wrong(err, what, "of 1 to 2^32 ids");
    if (!(column->zipf >= 0 && column->zipf <= 5))
        return wrong(err, what, "of a Zipf exponent from 0 to 5");
    if (!is_share(column->missing))
        return wrong(err, what, "missing at a rate from 0 to 1");
    if (column->top_ids != 0 &&
        (!is_share(column->top_ids) || !is_share(column->top_draws) || column->top_draws == 1 ||
         column->top_draws < column->top_ids))
        return wrong(err, what, "skewed so that a share of ids gets at least that share of draws, below 1");
    return FTH_OK;
}

static fth_status check_names(const fth_gen_options *o, fth_error *err) {
    const char *names[2 * FTH_GEN_MAX_COLUMNS + 2 * FTH_GEN_MAX_ATTRIBUTES + 8] = {"label"};
    const fth_gen_sequence *s = &o->sequence;
    uint32_t n = 1;
    if (o->conversions)
        names[n++] = "converted";
    if (o->domains)
        names[n++] = "domain";
    for (uint32_t j = 0; j < o->n_numbers; j++)
        names[n++] = o->numbers[j].name;
    for (uint32_t f = 0; f < o->n_columns; f++)
        names[n++] = o->columns[f].name;
    for (int i = 0; s->items > 0 && i < 4; i++)
        names[n++] = s->names[i];
    if (s->items > 0 && s->times[0] != 0)
        names[n++] = s->times;
    for (uint32_t a = 0; s->items > 0 && a < s->n_attributes; a++) {
        if (s->attributes[a].name[0] != 0)
            names[n++] = s->attributes[a].name;
        if (s->attributes[a].list[0] != 0)
            names[n++] = s->attributes[a].list;
    }
    for (uint32_t i = 1; i < n; i++)
        if (!good_name(names[i]))
            return wrong(err, "a column's name", "1 to 31 letters, digits, '_', '.' or '-'");
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(names[i], names[k]) == 0)
                return fth_fail(err, FTH_E_ARGUMENT, "generator: two columns are named '%s'", names[i]);
    return FTH_OK;
}

static fth_status check_attribute(const fth_gen_attribute *attribute, uint32_t a, fth_error *err) {
    char what[64];
    snprintf(what, sizeof what, "sequence attribute %u", a + 1);
    if (attribute->values < 1 || attribute->values > (uint64_t)1 << (attribute->decimals < 0 ? 32 : 31))
        return wrong(err, what, "of 1 to 2^32 values, 2^31 where they are numbers");
    if (attribute->decimals < -1 || attribute->decimals > 6)
        return wrong(err, what, "written with -1 (as text) to 6 decimals");
    if (attribute->words[0] == 0)
        return FTH_OK;
    if (strnlen(attribute->words, sizeof attribute->words) == sizeof attribute->words)
        return wrong(err, what, "of words of 63 bytes in all");
    uint64_t words = 0;
    const char *p = attribute->words;
    for (size_t n; *p; p += n + (p[n] == ' '), words++)
        if ((n = strcspn(p, " ")) == 0 || n > 15)
            return wrong(err, what, "of words of 1 to 15 bytes between single spaces");
    if (words != attribute->values || words > FTH_GEN_MAX_WORDS)
        return wrong(err, what, "of a word a value, 16 at most");
    return FTH_OK;
}

static fth_status check_sequence(const fth_gen_options *o, fth_error *err) {
    const fth_gen_sequence *s = &o->sequence;
    if (s->n_attributes > FTH_GEN_MAX_ATTRIBUTES)
        return wrong(err, "sequence.attributes", "at most 16");
    if (s->items == 0)
        return s->max_length == 0 ? FTH_OK : wrong(err, "sequence.max_length", "0 without items");
    if (o->format != FTH_GEN_CSV)
        return wrong(err, "sequences", "in csv format");
    if (s->items > (uint64_t)1 << 32 || s->categories < 1 || s->categories > s->items)
        return wrong(err, "sequence", "of at most 2^32 items in 1 to that many categories");
    if (!(s->zipf >= 0 && s->zipf <= 5))
        return wrong(err, "sequence.zipf", "0 to 5");
    if (s->max_length < 1 || s->max_length > 50000)
        return wrong(err, "sequence.max_length", "1 to 50000");
    if (!(s->mean_length > 0 && s->mean_length < s->max_length))
        return wrong(err, "sequence.mean_length", "above 0 and below max_length");
    if (s->interests > 8)
        return wrong(err, "sequence.interests", "0 to 8");
    for (uint32_t a = 0; a < s->n_attributes; a++)
        FTH_TRY(check_attribute(&s->attributes[a], a, err));
    return FTH_OK;
}

fth_status fth_gen_check_options(const fth_gen_options *o, fth_error *err) {
    if (o->format < FTH_GEN_CRITEO || o->format > FTH_GEN_LIBFFM)
        return wrong(err, "format", "criteo, csv, libsvm or libffm");
    if (o->examples > UINT64_MAX / 2 || o->first > UINT64_MAX / 2)
        return wrong(err, "first and examples", "below 2^63");
    if (o->threads > FTH_GEN_MAX_THREADS)
        return wrong(err, "threads", "0 to 1024");
    if (o->n_numbers > FTH_GEN_MAX_COLUMNS || o->n_columns > FTH_GEN_MAX_COLUMNS)
        return wrong(err, "columns", "at most 256 of a kind");
    if (o->n_numbers + o->n_columns == 0 && o->sequence.items == 0)
        return wrong(err, "columns", "at least one");
    if (o->format == FTH_GEN_CRITEO && (o->n_numbers != 13 || o->n_columns != 26))
        return wrong(err, "criteo", "of 13 integer and 26 categorical columns");
    for (uint32_t j = 0; j < o->n_numbers; j++) {
        FTH_TRY(check_number(&o->numbers[j], j, err));
        if (o->format == FTH_GEN_CRITEO && o->numbers[j].decimals != 0)
            return wrong(err, "criteo", "of integers without decimals");
    }
    for (uint32_t f = 0; f < o->n_columns; f++)
        FTH_TRY(check_column(&o->columns[f], f, err));
    FTH_TRY(check_sequence(o, err));
    if ((o->conversions || o->domains) && o->format != FTH_GEN_CSV)
        return wrong(err, "conversions and domains", "in csv format");
    if (o->domains > 100)
        return wrong(err, "domains", "0 to 100");
    if (o->format == FTH_GEN_CSV)
        FTH_TRY(check_names(o, err));
    if (!(o->base_rate > 0 && o->base_rate < 1))
        return wrong(err, "base_rate", "above 0 and below 1");
    if (!(o->signal >= 0 && o->signal <= 20))
        return wrong(err, "signal", "0 to 20");
    if (!is_share(o->shares.linear) || !is_share(o->shares.numeric) ||
        !is_share(o->shares.interaction) || !is_share(o->shares.nonlinear) ||
        !is_share(o->shares.sequence))
        return wrong(err, "shares", "0 to 1 each");
    if (!(o->head > 0 && o->head <= 1e12))
        return wrong(err, "head", "above 0, at most 1e12");
    if (o->rank < 1 || o->rank > FTH_GEN_MAX_RANK)
        return wrong(err, "rank", "1 to 8");
    if (!is_share(o->drift_popularity) || !is_share(o->drift_weights))
        return wrong(err, "drift", "0 to 1");
    return FTH_OK;
}

/* ---- running ---- */

static void make_chunk(void *arg, uint32_t task, uint32_t worker) {
    const struct run *run = arg;
    struct chunk *chunk = &run->chunks[task];
    struct fth_gen_example *e = &run->examples[worker];
    uint64_t examples = run->model->options.examples;
    uint64_t first = run->next + (uint64_t)task * run->per_chunk;
    chunk->n = 0;
    chunk->n_truth = 0;
    char *p = chunk->text;
    for (uint64_t i = first; i < examples && chunk->n < run->per_chunk; i++) {
        fth_gen_example_draw(run->model, run->model->options.first + i, e);
        p = fth_gen_line(run->model, e, p);
        chunk->logits[chunk->n] = e->logit;
        chunk->labels[chunk->n++] = (uint8_t)e->label;
        if (run->with_truth) {
            char truth[32];
            fth_format_f64(truth, 9, fth_gen_probability(e->logit));
            size_t n = strlen(truth);
            memcpy(chunk->truth + chunk->n_truth, truth, n);
            chunk->truth[chunk->n_truth + n] = '\n';
            chunk->n_truth += n + 1;
        }
    }
    chunk->n_text = (size_t)(p - chunk->text);
}

static void destroy_run(struct run *run) {
    for (uint32_t c = 0; run->chunks && c < run->n_chunks; c++) {
        fth_free(run->chunks[c].text);
        fth_free(run->chunks[c].truth);
        fth_free(run->chunks[c].logits);
        fth_free(run->chunks[c].labels);
    }
    for (uint32_t t = 0; run->examples && t < run->model->options.threads; t++)
        fth_free(run->examples[t].history);
    fth_free(run->chunks);
    fth_free(run->examples);
}

static fth_status create_run(const struct fth_gen_model *model, int with_truth, struct run *run,
                             fth_error *err) {
    uint32_t threads = model->options.threads;
    size_t bound = fth_gen_line_bound(model), fit = CHUNK_BYTES / bound;
    *run = (struct run){.model = model, .with_truth = with_truth, .n_chunks = CHUNKS_PER_THREAD * threads};
    run->per_chunk = fit < 1 ? 1 : fit > CHUNK_EXAMPLES ? CHUNK_EXAMPLES : (uint32_t)fit;
    run->chunks = fth_alloc(run->n_chunks, sizeof *run->chunks);
    run->examples = fth_alloc(threads, sizeof *run->examples);
    int ok = run->chunks != NULL && run->examples != NULL;
    for (uint32_t c = 0; ok && c < run->n_chunks; c++) {
        struct chunk *chunk = &run->chunks[c];
        chunk->text = fth_alloc(run->per_chunk, bound);
        chunk->truth = fth_alloc(with_truth ? run->per_chunk : 1, TRUTH_BYTES);
        chunk->logits = fth_alloc(run->per_chunk, sizeof *chunk->logits);
        chunk->labels = fth_alloc(run->per_chunk, sizeof *chunk->labels);
        ok = chunk->text && chunk->truth && chunk->logits && chunk->labels;
    }
    for (uint32_t t = 0; ok && t < threads; t++) {
        run->examples[t].history =
            fth_alloc((size_t)model->options.sequence.max_length + 1, sizeof(uint64_t));
        ok = run->examples[t].history != NULL;
    }
    return ok ? FTH_OK : fth_fail(err, FTH_E_MEMORY, "no memory for the generator's buffers");
}

static fth_status write_all(struct run *run, fth_pool *pool, struct fth_gen_metric *metric,
                            const fth_gen_sink *data, const fth_gen_sink *truth, uint64_t *bytes,
                            fth_error *err) {
    uint64_t examples = run->model->options.examples;
    for (run->next = 0; run->next < examples;) {
        uint64_t left = (examples - run->next + run->per_chunk - 1) / run->per_chunk;
        uint32_t chunks = left < run->n_chunks ? (uint32_t)left : run->n_chunks;
        fth_pool_for(pool, chunks, make_chunk, run);
        for (uint32_t c = 0; c < chunks; c++) {
            const struct chunk *chunk = &run->chunks[c];
            FTH_TRY(data->write(data->ctx, chunk->text, chunk->n_text, err));
            if (truth != NULL)
                FTH_TRY(truth->write(truth->ctx, chunk->truth, chunk->n_truth, err));
            *bytes += chunk->n_text;
            for (uint32_t i = 0; i < chunk->n; i++)
                fth_gen_metric_add(metric, chunk->logits[i], chunk->labels[i]);
        }
        run->next += (uint64_t)chunks * run->per_chunk;
    }
    return FTH_OK;
}

fth_status fth_gen_run(const fth_gen_options *options, const fth_gen_sink *data,
                       const fth_gen_sink *truth, fth_gen_result *result, fth_error *err) {
    if (!options || !data || !data->write || (truth && !truth->write))
        return fth_fail_null(err, "fth_gen_run", "options, data, write");
    struct fth_gen_model *model = NULL;
    struct fth_gen_metric *metric = NULL;
    struct run run = {0};
    fth_pool *pool = NULL;
    fth_status status;
    char *header = NULL;
    uint64_t bytes = 0;
    FTH_TRY(fth_gen_check_options(options, err));
    FTH_TRY(fth_gen_model_create(options, &model, err));
    FTH_TRY_GOTO(status, create_run(model, truth != NULL, &run, err), done);
    FTH_TRY_GOTO(status, fth_pool_create(model->options.threads, &pool, err), done);
    FTH_TRY_GOTO(status, fth_gen_metric_create(model->logit_mean, model->logit_deviation, &metric, err),
                 done);
    size_t size = 256 + 33 * ((size_t)options->n_numbers + options->n_columns +
                              2 * (size_t)options->sequence.n_attributes);
    header = fth_alloc(size, 1);
    if (header == NULL) {
        status = fth_fail(err, FTH_E_MEMORY, "no memory for the header");
        goto done;
    }
    bytes = fth_gen_header(model, header, size);
    if (bytes > 0)
        FTH_TRY_GOTO(status, data->write(data->ctx, header, bytes, err), done);
    FTH_TRY_GOTO(status, write_all(&run, pool, metric, data, truth, &bytes, err), done);
    if (result != NULL) {
        memset(result, 0, sizeof *result);
        fth_gen_metric_result(metric, result);
        result->bytes = bytes;
        for (uint32_t f = 0; f < options->n_columns; f++)
            result->zipf[f] = model->fields[f].zipf.exponent;
    }
done:
    fth_free(header);
    fth_gen_metric_destroy(metric);
    fth_pool_destroy(pool);
    destroy_run(&run);
    fth_gen_model_destroy(model);
    return status;
}
