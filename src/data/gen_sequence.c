/* The generator's sequences: lengths, histories, targets, further columns of both, and what they say about the
 * label; see fathom/gen.h. Like gen_model.c: the model is read-only once created, drawing is a pure function
 * of (model, index), on any thread. */
#include <math.h>
#include <string.h>

#include "data/gen_private.h"

#define USER_CATEGORIES 3
#define RECENCY 0.8
#define MOST_INTERESTS 8
/* Interests that move: the share of their targets and entries, how far from the trail a target may be, how
 * near a category is like another, and the two averages of likeness over the history, by the age's factor. */
#define INTERESTED 0.8
#define MARGIN 3
#define NEAR 1.5
#define FAST 0.7
#define SLOW 0.95
#define RISING 4

uint64_t fth_gen_item_category(const struct fth_gen_model *model, uint64_t item) {
    return item % model->options.sequence.categories;
}

uint64_t fth_gen_attribute_value(const struct fth_gen_model *model, const struct fth_gen_example *e,
                                 uint32_t a, uint32_t position) {
    const struct fth_gen_field *field = &model->attributes[a];
    uint64_t item = position ? e->history[position - 1] : e->ids[model->options.n_columns];
    uint64_t of = model->options.sequence.attributes[a].of_position
                      ? e->context + position * FTH_GEN_GOLDEN
                      : item * FTH_GEN_GOLDEN;
    return fth_hash_mix(field->linear.key + of) % field->cardinality;
}

/* ---- drawing ---- */

static uint32_t draw_length(const struct fth_gen_model *model, double u) {
    uint32_t low = 0, high = model->options.sequence.max_length;
    while (low < high) { /* the first length whose cumulative probability is above u */
        uint32_t middle = low + (high - low) / 2;
        if (model->length_cumulative[middle] > u)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static uint64_t draw_popular(const struct fth_gen_model *model, double time, struct fth_gen_draws *draws) {
    const struct fth_gen_field *items = &model->fields[model->options.n_columns];
    return fth_gen_rotate(items, fth_zipf_draw(&items->zipf, draws), time);
}

/* An item of category c is c + categories * place: the popularity order within the category. */
static uint64_t draw_in_category(const struct fth_gen_model *model, uint64_t category, double time,
                                 struct fth_gen_draws *draws) {
    const struct fth_gen_field *items = &model->fields[model->options.n_columns];
    uint64_t categories = model->options.sequence.categories, places = items->cardinality / categories;
    uint64_t place = fth_zipf_draw(&model->in_category, draws) +
                     (uint64_t)((double)(items->rotation / categories) * time);
    return category + categories * (place % places);
}

static uint64_t draw_item(const struct fth_gen_model *model, const uint64_t *favoured, double share,
                          double time, struct fth_gen_draws *draws) {
    uint64_t choice = fth_gen_draw(draws);
    if ((uint32_t)choice >= fth_gen_threshold(share))
        return draw_popular(model, time, draws);
    return draw_in_category(model, favoured[(choice >> 32) % USER_CATEGORIES], time, draws);
}

static void draw_favoured(const struct fth_gen_model *model, struct fth_gen_example *e,
                          struct fth_gen_draws *draws) {
    uint64_t favoured[USER_CATEGORIES];
    uint64_t user = fth_gen_key(model->options.seed, FTH_GEN_KEY_USER, 0) +
                    (model->options.n_columns > 0 ? e->ids[0] * FTH_GEN_GOLDEN : fth_gen_draw(draws));
    for (uint64_t k = 0; k < USER_CATEGORIES; k++)
        favoured[k] = fth_hash_mix(fth_hash_mix(user) + k * FTH_GEN_GOLDEN) %
                      model->options.sequence.categories;
    e->length = draw_length(model, fth_gen_unit(draws));
    e->ids[model->options.n_columns] = draw_item(model, favoured, 0.5, e->time, draws);
    for (uint32_t t = 0; t < e->length; t++)
        e->history[t] = draw_item(model, favoured, 2.0 / 3, e->time, draws);
}

/* Each interest goes around the ring of categories, one on or one back an entry; a target is of its trail or a
 * little before or behind it, so that where it lies says nothing about which end of the trail is the newer. */
static void draw_moving(const struct fth_gen_model *model, struct fth_gen_example *e,
                        struct fth_gen_draws *draws) {
    uint64_t categories = model->options.sequence.categories, at[MOST_INTERESTS], on[MOST_INTERESTS];
    uint32_t interests = model->options.sequence.interests, steps[MOST_INTERESTS] = {0};
    for (uint32_t k = 0; k < interests; k++) {
        uint64_t draw = fth_gen_draw(draws);
        at[k] = (draw >> 1) % categories;
        on[k] = draw & 1 ? 1 : categories - 1;
    }
    e->length = draw_length(model, fth_gen_unit(draws));
    for (uint32_t t = 0; t < e->length; t++) {
        uint64_t choice = fth_gen_draw(draws);
        uint32_t k = (uint32_t)((choice >> 32) % interests);
        if ((uint32_t)choice >= fth_gen_threshold(INTERESTED)) {
            e->history[t] = draw_popular(model, e->time, draws);
            continue;
        }
        e->history[t] = draw_in_category(model, at[k], e->time, draws);
        at[k] = (at[k] + on[k]) % categories;
        steps[k]++;
    }
    uint64_t choice = fth_gen_draw(draws), *target = &e->ids[model->options.n_columns];
    uint32_t k = (uint32_t)((choice >> 32) % interests);
    if ((uint32_t)choice >= fth_gen_threshold(INTERESTED)) {
        *target = draw_popular(model, e->time, draws);
        return;
    }
    uint64_t back = fth_gen_draw(draws) % (steps[k] + 2 * MARGIN); /* from MARGIN beyond the newest */
    uint64_t ahead = (at[k] + (MARGIN - 1) * on[k]) % categories;
    *target = draw_in_category(model, (ahead + back % categories * (categories - on[k])) % categories,
                               e->time, draws);
}

void fth_gen_sequence_draw(const struct fth_gen_model *model, struct fth_gen_example *e,
                           struct fth_gen_draws *draws) {
    uint64_t *ids = e->ids + model->options.n_columns;
    if (model->options.sequence.interests > 0)
        draw_moving(model, e, draws);
    else
        draw_favoured(model, e, draws);
    ids[1] = fth_gen_item_category(model, ids[0]);
}

/* ---- truth ---- */

static double part_of_favoured(const struct fth_gen_model *model, const struct fth_gen_example *e) {
    uint64_t target = e->ids[model->options.n_columns + 1];
    double sum = 0, recency = 1;
    for (uint32_t t = e->length; t > 0 && recency > 1e-9; t--, recency *= RECENCY)
        if (fth_gen_item_category(model, e->history[t - 1]) == target)
            sum += recency;
    return tanh(sum);
}

static double part_of_moving(const struct fth_gen_model *model, const struct fth_gen_example *e) {
    uint64_t target = e->ids[model->options.n_columns + 1], ring = model->options.sequence.categories;
    double fast = 0, slow = 0, sum = 0;
    for (uint32_t t = 0; t < e->length; t++) {
        uint64_t apart = (fth_gen_item_category(model, e->history[t]) + ring - target) % ring;
        double distance = (double)(apart < ring - apart ? apart : ring - apart) / NEAR;
        double alike = exp(-distance * distance / 2);
        sum = sum * SLOW + alike;
        fast += (1 - FAST) * (alike - fast);
        slow += (1 - SLOW) * (alike - slow);
    }
    return tanh(sum) + RISING * (fast - slow);
}

double fth_gen_sequence_part(const struct fth_gen_model *model, const struct fth_gen_example *e) {
    return model->options.sequence.interests > 0 ? part_of_moving(model, e) : part_of_favoured(model, e);
}

/* ---- set-up ---- */

/* P(length = k) proportional to q^k for k in 0..max, q such that the mean is the one asked for. */
static void make_lengths(const fth_gen_sequence *sequence, double *cumulative) {
    double low = -50, high = 50; /* log q */
    uint32_t max = sequence->max_length;
    for (int i = 0; i < 80; i++) {
        double middle = (low + high) / 2, sum = 0, mean = 0;
        for (uint32_t k = 0; k <= max; k++) {
            double p = exp(middle * (middle > 0 ? (double)k - max : (double)k));
            sum += p;
            mean += p * k;
        }
        if (mean / sum < sequence->mean_length)
            low = middle;
        else
            high = middle;
    }
    double sum = 0;
    for (uint32_t k = 0; k <= max; k++) {
        sum += exp(low * (low > 0 ? (double)k - max : (double)k));
        cumulative[k] = sum;
    }
    for (uint32_t k = 0; k <= max; k++)
        cumulative[k] /= sum;
    cumulative[max] = 2; /* above every draw */
}

/* The texts between spaces; checked to be there by fth_gen_run. */
static void split_words(const char *words, char out[FTH_GEN_MAX_WORDS][16]) {
    for (uint32_t i = 0; i < FTH_GEN_MAX_WORDS && *words; i++) {
        size_t n = strcspn(words, " ");
        memcpy(out[i], words, n);
        words += n + (words[n] == ' ');
    }
}

void fth_gen_sequence_make(struct fth_gen_model *model) {
    const fth_gen_sequence *sequence = &model->options.sequence;
    uint32_t n = model->options.n_columns;
    fth_gen_field_make(model, n, sequence->items, sequence->zipf, &model->fields[n]);
    fth_gen_field_make(model, n + 1, sequence->categories, 0, &model->fields[n + 1]);
    model->n_fields = n + 2;
    fth_zipf_init(&model->in_category, sequence->items / sequence->categories, sequence->zipf);
    make_lengths(sequence, model->length_cumulative);
    for (uint32_t a = 0; a < sequence->n_attributes; a++) {
        fth_gen_field_make(model, n + 2 + a, sequence->attributes[a].values, 0, &model->attributes[a]);
        split_words(sequence->attributes[a].words, model->words[a]);
    }
}
