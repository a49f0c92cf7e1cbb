/* The generator's distributions and planted truth: see fathom/gen.h. The model is read-only once created;
 * drawing an example is a pure function of (model, index), on any thread. */
#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/random.h"
#include "data/gen_private.h"

#define PILOT 32768
#define ROOT3 1.7320508075688772

/* The second label: related to the first, part by part. */
#define CONVERSION_BIAS (-1.5)
static const double conversion_factor[FTH_GEN_PARTS] = {0.8, -1, 1, 1.2, 1};

uint64_t fth_gen_key(uint64_t seed, enum fth_gen_key_kind kind, uint64_t column) {
    uint32_t bits[4];
    fth_random_draw(seed, FTH_RANDOM_GENERATE, column, (uint64_t)kind << 32, bits);
    return (uint64_t)bits[0] << 32 | bits[1];
}

uint64_t fth_gen_threshold(double share) {
    return (uint64_t)(share * 0x1p32);
}

double fth_gen_probability(double logit) { return 1 / (1 + exp(-logit)); }

/* Uniform with variance 1, by id. */
static double weight_of(uint64_t key, uint64_t id) {
    return ((double)(fth_hash_mix(key + id * FTH_GEN_GOLDEN) >> 11) * 0x1p-52 - 1) * ROOT3;
}

/* How much an id matters: 1 for missing and for ids that are ever the most popular, less beyond. */
static double scale_of(const struct fth_gen_field *field, double head, uint64_t id) {
    if (id == FTH_GEN_MISSING || id <= field->rotation)
        return 1;
    return head / (head + (double)(id - field->rotation));
}

/* ---- drawing ---- */

uint64_t fth_gen_rotate(const struct fth_gen_field *field, uint64_t id, double time) {
    id += (uint64_t)((double)field->rotation * time);
    return id < field->cardinality ? id : id - field->cardinality;
}

/* ---- truth ---- */

static double number_value(const struct fth_gen_model *model, const struct fth_gen_example *e,
                           uint32_t j) {
    j %= model->options.n_numbers;
    return e->quantile[j] == UINT32_MAX ? 0 : (double)model->numeric[j].u[e->quantile[j]];
}

/* <v_f, v_g> summed over all pairs, by the identity of factorisation machines (Rendle, ICDM 2010). */
static void interaction_part(const struct fth_gen_model *model, const struct fth_gen_example *e,
                             double turn[2], double *out) {
    double sum[FTH_GEN_MAX_RANK] = {0}, squares = 0;
    uint32_t rank = model->options.rank;
    for (uint32_t f = 0; f < model->options.n_columns; f++) {
        const struct fth_gen_field *field = &model->fields[f];
        if (!field->interacts)
            continue;
        double scale = scale_of(field, model->options.head / 4, e->ids[f]);
        for (uint32_t d = 0; d < rank; d++) {
            double v = turn[0] * weight_of(field->vector_key + 2 * d * FTH_GEN_GOLDEN * FTH_GEN_GOLDEN, e->ids[f]);
            if (turn[1] != 0)
                v += turn[1] *
                     weight_of(field->vector_key + (2 * d + 1) * FTH_GEN_GOLDEN * FTH_GEN_GOLDEN, e->ids[f]);
            v *= scale;
            sum[d] += v;
            squares += v * v;
        }
    }
    *out = -squares;
    for (uint32_t d = 0; d < rank; d++)
        *out += sum[d] * sum[d];
    *out /= 2;
}

static void compute_parts(const struct fth_gen_model *model, const struct fth_gen_example *e,
                          double parts[FTH_GEN_PARTS]) {
    const fth_gen_options *options = &model->options;
    double angle = options->drift_weights * e->time * 1.5707963267948966;
    double turn[2] = {angle > 0 ? cos(angle) : 1, angle > 0 ? sin(angle) : 0};
    memset(parts, 0, FTH_GEN_PARTS * sizeof *parts);
    for (uint32_t f = 0; f < model->n_fields; f++) {
        const struct fth_gen_field *field = &model->fields[f];
        double w = turn[0] * weight_of(field->linear.key, e->ids[f]);
        if (turn[1] != 0)
            w += turn[1] * weight_of(field->linear.drift_key, e->ids[f]);
        parts[FTH_GEN_LINEAR] += w * scale_of(field, options->head, e->ids[f]);
    }
    interaction_part(model, e, turn, &parts[FTH_GEN_INTERACTION]);
    for (uint32_t j = 0; j < options->n_numbers; j++)
        parts[FTH_GEN_NUMERIC] += e->quantile[j] == UINT32_MAX
                                      ? model->numeric[j].missing_weight
                                      : model->numeric[j].weight * number_value(model, e, j);
    if (options->domains)
        parts[FTH_GEN_NUMERIC] *= cos(3.141592653589793 * e->domain / options->domains);
    if (options->n_numbers > 0)
        parts[FTH_GEN_NONLINEAR] =
            tanh(number_value(model, e, 0) * number_value(model, e, 1)) +
            sin(1.5 * number_value(model, e, 2));
    if (options->sequence.items > 0)
        parts[FTH_GEN_SEQUENCE] = fth_gen_sequence_part(model, e);
}

/* Draws example `index` of the file (pilot 0) or of the pilot (1), all but its label. */
static struct fth_gen_draws draw_inputs(const struct fth_gen_model *model, uint64_t index, int pilot,
                                        struct fth_gen_example *e) {
    const fth_gen_options *options = &model->options;
    uint32_t bits[4];
    fth_random_draw(options->seed, FTH_RANDOM_GENERATE, index, (uint64_t)pilot, bits);
    struct fth_gen_draws draws = {(uint64_t)bits[0] << 32 | bits[1]};
    e->context = (uint64_t)bits[2] << 32 | bits[3];
    uint64_t over = options->drift_over ? options->drift_over : options->first + options->examples;
    e->time = pilot ? (double)index / PILOT : index < over ? (double)index / (double)over : 1;
    for (uint32_t j = 0; j < options->n_numbers; j++) {
        uint64_t draw = fth_gen_draw(&draws);
        e->quantile[j] = (uint32_t)draw < model->numeric[j].missing
                             ? UINT32_MAX
                             : (uint32_t)(draw >> 32) % FTH_GEN_QUANTILES;
    }
    for (uint32_t f = 0; f < options->n_columns; f++) {
        const struct fth_gen_field *field = &model->fields[f];
        e->ids[f] = FTH_GEN_MISSING;
        if (field->missing == 0 || (uint32_t)(fth_gen_draw(&draws) >> 32) >= field->missing)
            e->ids[f] = fth_gen_rotate(field, fth_zipf_draw(&field->zipf, &draws), e->time);
    }
    e->length = 0;
    if (options->sequence.items > 0)
        fth_gen_sequence_draw(model, e, &draws);
    if (options->domains)
        e->domain = (uint32_t)((fth_gen_draw(&draws) >> 32) % options->domains);
    return draws;
}

void fth_gen_example_draw(const struct fth_gen_model *model, uint64_t index, struct fth_gen_example *e) {
    struct fth_gen_draws draws = draw_inputs(model, index, 0, e);
    double parts[FTH_GEN_PARTS];
    compute_parts(model, e, parts);
    double conversion = CONVERSION_BIAS;
    e->logit = model->bias;
    for (int p = 0; p < FTH_GEN_PARTS; p++) {
        e->logit += model->scale[p] * (parts[p] - model->offset[p]);
        conversion += conversion_factor[p] * model->scale[p] * (parts[p] - model->offset[p]);
    }
    e->label = fth_gen_unit(&draws) < fth_gen_probability(e->logit);
    e->converted = model->options.conversions && e->label &&
                   fth_gen_unit(&draws) < fth_gen_probability(conversion);
}

/* ---- set-up ---- */

/* The standard normal distribution's quantiles (k + 1/2) / n, by bisection. */
static void normal_quantiles(double out[FTH_GEN_QUANTILES]) {
    for (int k = 0; k < FTH_GEN_QUANTILES; k++) {
        double p = (k + 0.5) / FTH_GEN_QUANTILES, low = -9, high = 9;
        for (int i = 0; i < 60; i++) {
            double middle = (low + high) / 2;
            if (erfc(-middle / 1.4142135623730951) / 2 < p)
                low = middle;
            else
                high = middle;
        }
        out[k] = (low + high) / 2;
    }
}

static void make_numeric(const struct fth_gen_model *model, uint32_t j, const double *normal) {
    const fth_gen_number *number = &model->options.numbers[j];
    struct fth_gen_numeric *numeric = &model->numeric[j];
    double power = pow(10, number->decimals), mean = 0, square = 0;
    for (int k = 0; k < FTH_GEN_QUANTILES; k++) {
        double z = number->mean + number->deviation * normal[k], value, x;
        if (number->decimals == 0)
            value = x = round(exp(z < 20 ? z : 20)) - number->shift;
        else
            value = round(z * power), x = value / power;
        if (number->decimals == 0)
            x = copysign(log1p(fabs(x)), x);
        numeric->value[k] = (int32_t)value;
        numeric->u[k] = (float)x;
        mean += x / FTH_GEN_QUANTILES;
        square += x * x / FTH_GEN_QUANTILES;
    }
    double variance = square - mean * mean;
    double deviation = variance > 1e-12 ? sqrt(variance) : 1;
    for (int k = 0; k < FTH_GEN_QUANTILES; k++)
        numeric->u[k] = (float)(((double)numeric->u[k] - mean) / deviation);
    uint64_t key = fth_gen_key(model->options.seed, FTH_GEN_KEY_NUMBER, j);
    numeric->missing = fth_gen_threshold(number->missing);
    numeric->decimals = number->decimals;
    numeric->weight = weight_of(key, 0);
    numeric->missing_weight = weight_of(key, 1);
}

void fth_gen_field_make(const struct fth_gen_model *model, uint32_t f, uint64_t cardinality, double zipf,
                        struct fth_gen_field *field) {
    uint64_t seed = model->options.seed, text = fth_gen_key(seed, FTH_GEN_KEY_TEXT, f);
    field->cardinality = cardinality;
    field->rotation = (uint64_t)(model->options.drift_popularity * (double)cardinality);
    if (field->rotation >= cardinality)
        field->rotation = cardinality - 1;
    fth_zipf_init(&field->zipf, cardinality, zipf);
    field->linear.key = fth_gen_key(seed, FTH_GEN_KEY_LINEAR, f);
    field->linear.drift_key = fth_gen_key(seed, FTH_GEN_KEY_LINEAR_DRIFT, f);
    field->vector_key = fth_gen_key(seed, FTH_GEN_KEY_VECTOR, f);
    field->scramble[0] = (uint32_t)text;
    field->scramble[1] = (uint32_t)(text >> 32);
}

static void mean_and_deviation(const double *values, size_t stride, double *mean, double *deviation) {
    double sum = 0, square = 0;
    for (size_t i = 0; i < PILOT; i++)
        sum += values[i * stride];
    *mean = sum / PILOT;
    for (size_t i = 0; i < PILOT; i++)
        square += (values[i * stride] - *mean) * (values[i * stride] - *mean);
    *deviation = sqrt(square / PILOT);
}

/* Sets scales and bias from the pilot's parts[PILOT][FTH_GEN_PARTS]; logits is scratch. */
static void calibrate(struct fth_gen_model *model, const double *parts, double *logits) {
    const fth_gen_shares *s = &model->options.shares;
    const double shares[FTH_GEN_PARTS] = {s->linear, s->numeric, s->interaction, s->nonlinear,
                                          s->sequence};
    double deviation, signal = model->options.signal;
    for (int p = 0; p < FTH_GEN_PARTS; p++) {
        mean_and_deviation(parts + p, FTH_GEN_PARTS, &model->offset[p], &deviation);
        model->scale[p] = deviation > 1e-9 ? sqrt(shares[p]) / deviation : 0;
    }
    for (size_t i = 0; i < PILOT; i++) {
        logits[i] = 0;
        for (int p = 0; p < FTH_GEN_PARTS; p++)
            logits[i] += model->scale[p] * (parts[i * FTH_GEN_PARTS + (size_t)p] - model->offset[p]);
    }
    mean_and_deviation(logits, 1, &model->logit_mean, &deviation);
    double rescale = deviation > 1e-9 ? signal / deviation : 0;
    for (int p = 0; p < FTH_GEN_PARTS; p++)
        model->scale[p] *= rescale;
    double low = -60, high = 60;
    for (int step = 0; step < 60; step++) {
        double middle = (low + high) / 2, sum = 0;
        for (size_t i = 0; i < PILOT; i++)
            sum += fth_gen_probability(middle + logits[i] * rescale);
        if (sum / PILOT < model->options.base_rate)
            low = middle;
        else
            high = middle;
    }
    model->bias = (low + high) / 2;
    model->logit_mean = model->bias;
    model->logit_deviation = deviation * rescale;
}

static fth_status run_pilot(struct fth_gen_model *model, fth_error *err) {
    double *parts = fth_alloc(PILOT, FTH_GEN_PARTS * sizeof *parts);
    double *logits = fth_alloc(PILOT, sizeof *logits);
    struct fth_gen_example *e = fth_alloc(1, sizeof *e);
    fth_status status = FTH_OK;
    if (e != NULL)
        e->history = fth_alloc((size_t)model->options.sequence.max_length + 1, sizeof *e->history);
    if (parts == NULL || logits == NULL || e == NULL || e->history == NULL) {
        status = fth_fail(err, FTH_E_MEMORY, "no memory for the generator's pilot");
    } else {
        for (size_t i = 0; i < PILOT; i++) {
            draw_inputs(model, i, 1, e);
            compute_parts(model, e, parts + i * FTH_GEN_PARTS);
        }
        calibrate(model, parts, logits);
    }
    if (e != NULL)
        fth_free(e->history);
    fth_free(e);
    fth_free(logits);
    fth_free(parts);
    return status;
}

fth_status fth_gen_model_create(const fth_gen_options *options, struct fth_gen_model **out,
                                fth_error *err) {
    struct fth_gen_model *model = fth_alloc(1, sizeof *model);
    if (model == NULL)
        return fth_fail(err, FTH_E_MEMORY, "no memory for the generator");
    model->options = *options;
    if (options->threads == 0) {
        uint32_t cores = fth_cpu_get()->cores;
        model->options.threads = cores < FTH_GEN_MAX_THREADS ? cores : FTH_GEN_MAX_THREADS;
    }
    model->numeric = fth_alloc((size_t)options->n_numbers + 1, sizeof *model->numeric);
    model->length_cumulative =
        fth_alloc((size_t)options->sequence.max_length + 1, sizeof *model->length_cumulative);
    double *normal = fth_alloc(FTH_GEN_QUANTILES, sizeof *normal);
    fth_status status = FTH_OK;
    if (model->numeric == NULL || model->length_cumulative == NULL || normal == NULL) {
        status = fth_fail(err, FTH_E_MEMORY, "no memory for the generator");
    } else {
        normal_quantiles(normal);
        for (uint32_t j = 0; j < options->n_numbers; j++)
            make_numeric(model, j, normal);
        for (uint32_t f = 0; f < options->n_columns; f++) {
            const fth_gen_column *column = &options->columns[f];
            double zipf = column->top_ids > 0 ? fth_zipf_solve(column->cardinality, column->top_ids,
                                                               column->top_draws)
                                              : column->zipf;
            fth_gen_field_make(model, f, column->cardinality, zipf, &model->fields[f]);
            model->fields[f].missing = fth_gen_threshold(column->missing);
            model->fields[f].interacts = column->interacts;
        }
        model->n_fields = options->n_columns;
        if (options->sequence.items > 0)
            fth_gen_sequence_make(model);
        status = run_pilot(model, err);
    }
    fth_free(normal);
    if (status != FTH_OK) {
        fth_gen_model_destroy(model);
        return status;
    }
    *out = model;
    return FTH_OK;
}

void fth_gen_model_destroy(struct fth_gen_model *model) {
    if (model == NULL)
        return;
    fth_free(model->numeric);
    fth_free(model->length_cumulative);
    fth_free(model);
}
