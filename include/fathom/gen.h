/* Data sets of any size with a planted truth, streaming: what `fathom gen` writes.
 *
 * Every byte is a function of the options: one seed gives one data set, whatever the number of threads.
 * Nothing is stored per id, so cardinalities cost no memory.
 *
 * How an example is drawn. Column f with cardinality n draws ids 0..n-1 by popularity (0 the most popular):
 * Zipf's law with the given exponent, or with the exponent that gives the top share asked for. The text
 * of an id is a bijective scramble of its number, 8 hexadecimal digits, and says nothing about popularity.
 * Integer columns are round(exp(normal)) - shift, real ones normal; both draw from 4096 quantiles. Sequences:
 * an example has a user (the first column, if any) with three favoured categories, a target item, and a
 * history of items, oldest first; half of the targets and two thirds of the history are of favoured
 * categories. The category of an item is a fixed function of it. With `interests` the categories lie on a
 * ring, and an example has so many interests, each going round it by one category an entry, on or back. Four
 * of five entries are of an interest, drawn anew for each entry; four of five targets are of the trail of one or
 * at most 3 categories beyond either end; the rest are any items.
 *
 * How the label is planted. With u a number column's value after log1p (integers) and standardising, the
 * logit is bias + signal * the sum of these parts, each centred and scaled to its share of the variance:
 *   linear       one weight per id of every categorical column
 *   numeric      one weight per number column times u, and a weight of its own where missing
 *   interaction  sum over all pairs of interacting columns of <v_f(id_f), v_g(id_g)>: a factorisation
 *                machine of dimension `rank`
 *   nonlinear    tanh(u_0 u_1) + sin(1.5 u_2) of the first number columns
 *   sequence     tanh(sum over the history, newest first, age t, of 0.8^t where the category is the target's)
 *                with interests: tanh(sum) + 4 (fast - slow). An entry's category is like the target's by
 *                exp(-(d / 1.5)^2 / 2) at distance d on the ring; sum is over all entries, times 0.95^t at
 *                age t; fast and slow are running averages (by 0.7 and 0.95 an entry). So it counts whether the
 *                history has anything like the target, more if it is recent, and whether the interests move
 *                towards the target or away from it
 * Weights are draws by (seed, column, id), uniform with variance 1 and times 1 / (1 + id / head), for the
 * interaction head / 4: beyond the head ids matter less and less. Rare ids with strong weights of their
 * own could not be learned from few examples by any model, and the best possible AUC would be out of
 * reach. On criteo-small (exponent 1.5, head 20) DeepFM comes within 0.01 of it from one pass over a million
 * examples and within 0.006 from two million, its embeddings begun small (init_scale 0.01). Scales and
 * bias come from a pilot of 32768 examples drawn from the same options, apart from `first` and `examples`:
 * files made with the same seed share their truth, and a test file is the one whose `first` is where the
 * training file ends.
 *
 * Several labels and domains (csv). conversions: a second label, `converted`, written only where the first is 1
 * and empty elsewhere: it was not observed. Its logit has the same parts, each times a factor of its own, and a
 * bias of -1.5. domains N: a column `domain` of the texts d0, d1 ..., drawn evenly; the numeric part is times
 * cos(pi d / N) in domain d, so that what a number says depends on it.
 *
 * Drift. drift_popularity: over the file (or drift_over), every column's popularity order moves by this
 * share of its ids (ids in that range all count as head). drift_weights: over the file, weights turn into
 * others, 1: all the way to independent ones. */
#ifndef FATHOM_GEN_H
#define FATHOM_GEN_H

#include <stddef.h>
#include <stdint.h>

#include "fathom/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FTH_GEN_MAX_COLUMNS 256
#define FTH_GEN_MAX_ATTRIBUTES 16
#define FTH_GEN_MAX_WORDS 16

typedef enum fth_gen_format {
    FTH_GEN_CRITEO, /* label, 13 integers, 26 hexadecimal texts; tabs */
    FTH_GEN_CSV,    /* header; label, numbers, texts, the target's columns, the history's lists */
    FTH_GEN_LIBSVM, /* label index:value...: numbers 1.., then one index per id */
    FTH_GEN_LIBFFM, /* label field:index:value...: fields by column from 0 */
} fth_gen_format;

/* A number column. */
typedef struct fth_gen_number {
    char name[32];          /* csv */
    double mean, deviation; /* of the normal draw; -20 .. 20, 0 .. 20 */
    int decimals;           /* 0: an integer, round(exp(normal)) - shift; 1..6: real with that many */
    int shift;              /* to 1,000,000 either way */
    double missing;         /* rate, 0..1 */
} fth_gen_number;

/* A categorical column. */
typedef struct fth_gen_column {
    char name[32];
    uint64_t cardinality;    /* 1 .. 2^32 */
    double zipf;             /* exponent, 0 (uniform) .. 5; used when top_ids is 0 */
    double top_ids, top_draws; /* the exponent for which this share of ids gets that share of draws */
    double missing;
    int interacts;           /* takes part in the interaction */
} fth_gen_column;

/* A further column of the target, of the history's entries, or of both. It says nothing about the label. */
typedef struct fth_gen_attribute {
    char name[32], list[32]; /* the target's column and the history's; "": none */
    uint64_t values;         /* 1 .. 2^32 */
    int of_position;         /* drawn anew for each entry; 0: follows from the item */
    int decimals;            /* -1: 8 hexadecimal digits; else the number value / 10^decimals, 0..6 */
    char words[64];          /* "", or the values' texts between spaces, of at most 15 bytes each */
} fth_gen_attribute;

/* items 0: no sequences. csv only. */
typedef struct fth_gen_sequence {
    uint64_t items, categories;
    double zipf;        /* of items within a category and of categories not favoured */
    double mean_length; /* above 0, below max_length: truncated geometric */
    uint32_t max_length; /* 1 .. 50,000; without items 0 */
    uint32_t interests; /* that move through the categories, 1..8; 0: favoured categories that stand */
    char names[4][32];  /* of the item, its category, and the histories of both */
    char times[32];     /* of a list of the entries' times, which come in sessions; "": none */
    fth_gen_attribute attributes[FTH_GEN_MAX_ATTRIBUTES];
    uint32_t n_attributes;
} fth_gen_sequence;

/* Shares of the logit's variance; parts that the columns do not allow are left out, the rest rescaled. */
typedef struct fth_gen_shares {
    double linear, numeric, interaction, nonlinear, sequence;
} fth_gen_shares;

typedef struct fth_gen_options {
    fth_gen_format format;
    uint64_t seed;
    uint64_t first, examples; /* the file holds examples first .. first + examples - 1 of the seed's; each below 2^63 */
    uint32_t threads; /* to 1024; 0: all cores */
    fth_gen_number numbers[FTH_GEN_MAX_COLUMNS];
    uint32_t n_numbers;
    fth_gen_column columns[FTH_GEN_MAX_COLUMNS];
    uint32_t n_columns;
    fth_gen_sequence sequence;
    int conversions;         /* csv: a second label */
    uint32_t domains;        /* csv: 0 none, to 100 */
    double base_rate;        /* share of positives, calibrated by the pilot */
    double signal;           /* standard deviation of the logit, to 20; 0: labels are noise */
    fth_gen_shares shares;
    double head;             /* ids beyond it lose weight; above 0, to 1e12 */
    uint32_t rank;           /* 1..8 */
    double drift_popularity, drift_weights; /* 0..1 */
    uint64_t drift_over; /* drift runs over examples 0 .. drift_over, then stands; 0: to the last */
} fth_gen_options;

/* What was written. "Expected" takes the labels' probabilities in place of the drawn labels. */
typedef struct fth_gen_result {
    uint64_t examples, positives, bytes;
    double base_rate, expected_base_rate;
    double bayes_auc, expected_bayes_auc; /* of the true probability; NaN when one class is missing */
    double auc_error;         /* bound: logits closer than 1e-5 of their spread count as ties */
    double bayes_log_loss, expected_bayes_log_loss; /* natural logarithm */
    double zipf[FTH_GEN_MAX_COLUMNS]; /* the exponents in force */
} fth_gen_result;

/* Where bytes go, in order, on the calling thread. */
typedef struct fth_gen_sink {
    fth_status (*write)(void *ctx, const void *bytes, size_t n, fth_error *err);
    void *ctx;
} fth_gen_sink;

/* Named settings, which fth_gen_preset_name lists. Fills all options; 0 when there is no such name. The first is the
 * default. */
FTH_API int fth_gen_preset(const char *name, fth_gen_options *out);
/* Name and one-line description of preset `index`, NULL past the last. */
FTH_API const char *fth_gen_preset_name(size_t index, const char **description);

/* Any thread; several at once. result may be NULL; so may truth, else it gets one line per example, the true
 * probability of label 1 ("%.9g"). Options out of range are FTH_E_ARGUMENT and named; a sink's failure stops everything and is
 * handed on. */
FTH_API fth_status fth_gen_run(const fth_gen_options *options, const fth_gen_sink *data,
                               const fth_gen_sink *truth, fth_gen_result *result, fth_error *err);

/* The same into files ("-": standard output; truth_path NULL or "": none). They are written beside, as PATH.part,
 * and get their names when they are whole: a failure leaves what was there (but for the data, where only the
 * truth cannot get its name). Links, pipes and devices are written into. */
FTH_API fth_status fth_gen_file(const fth_gen_options *options, const char *path,
                                const char *truth_path, fth_gen_result *result, fth_error *err);

#ifdef __cplusplus
}
#endif
#endif
