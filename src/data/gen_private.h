/* The generator's inside; only gen*.c include this. See fathom/gen.h for what is drawn and planted. */
#ifndef FTH_DATA_GEN_PRIVATE_H
#define FTH_DATA_GEN_PRIVATE_H

#include "base/error.h"
#include "base/hash.h"
#include "fathom/gen.h"

#define FTH_GEN_QUANTILES 4096
#define FTH_GEN_MISSING UINT64_MAX
#define FTH_GEN_FIELDS (FTH_GEN_MAX_COLUMNS + 2) /* with the sequence's item and category */
#define FTH_GEN_MAX_RANK 8
#define FTH_GEN_MAX_THREADS 1024
#define FTH_GEN_GOLDEN 0x9e3779b97f4a7c15ull

/* What a key is for; with the column's number. */
enum fth_gen_key_kind {
    FTH_GEN_KEY_LINEAR = 1, FTH_GEN_KEY_LINEAR_DRIFT, FTH_GEN_KEY_VECTOR, FTH_GEN_KEY_TEXT,
    FTH_GEN_KEY_NUMBER, FTH_GEN_KEY_USER
};
uint64_t fth_gen_key(uint64_t seed, enum fth_gen_key_kind kind, uint64_t column);

enum fth_gen_part { FTH_GEN_LINEAR, FTH_GEN_NUMERIC, FTH_GEN_INTERACTION, FTH_GEN_NONLINEAR,
                    FTH_GEN_SEQUENCE, FTH_GEN_PARTS };

/* Ranks 1..n by Zipf's law in constant time: rejection-inversion, W. Hoermann and G. Derflinger,
 * "Rejection-inversion to generate variates from monotone discrete distributions" (1996). */
struct fth_zipf {
    double n, exponent, h_first, h_last, shortcut;
};
void fth_zipf_init(struct fth_zipf *zipf, uint64_t n, double exponent);
/* The exponent at which the first `share_ids` of n ids get `share_draws` of the draws, within 0..5. */
double fth_zipf_solve(uint64_t n, double share_ids, double share_draws);
/* Share of draws of the first k ids. */
double fth_zipf_share(uint64_t n, double exponent, double k);

/* A stream of draws for one example: element k of splitmix64 from a counter-based key. */
struct fth_gen_draws {
    uint64_t state;
};
static inline uint64_t fth_gen_draw(struct fth_gen_draws *draws) {
    return fth_hash_mix(draws->state += 0x9e3779b97f4a7c15ull);
}
static inline double fth_gen_unit(struct fth_gen_draws *draws) { /* (0, 1) */
    return ((double)(fth_gen_draw(draws) >> 12) + 0.5) * 0x1p-52;
}
uint64_t fth_zipf_draw(const struct fth_zipf *zipf, struct fth_gen_draws *draws); /* 0-based rank */

/* One weight per id: a pure function of key and id. */
struct fth_gen_weights {
    uint64_t key, drift_key;
};

struct fth_gen_field {
    uint64_t cardinality, rotation; /* rotation: ids by which popularity moves over the file */
    uint64_t missing;               /* of 2^32 */
    int interacts;
    struct fth_zipf zipf;
    struct fth_gen_weights linear;
    uint64_t vector_key;
    uint32_t scramble[2]; /* of the text */
};

struct fth_gen_numeric {
    int32_t value[FTH_GEN_QUANTILES]; /* as written, times 10^decimals */
    float u[FTH_GEN_QUANTILES];
    uint64_t missing;
    int decimals;
    double weight, missing_weight;
};

/* Everything that is fixed for a run. */
struct fth_gen_model {
    fth_gen_options options;
    struct fth_gen_field fields[FTH_GEN_FIELDS];
    uint32_t n_fields; /* columns, then item and category of sequences */
    struct fth_gen_numeric *numeric; /* [n_numbers] */
    struct fth_zipf in_category;
    struct fth_gen_field attributes[FTH_GEN_MAX_ATTRIBUTES];
    char words[FTH_GEN_MAX_ATTRIBUTES][FTH_GEN_MAX_WORDS][16];
    double *length_cumulative; /* [max_length + 1] */
    double bias, offset[FTH_GEN_PARTS], scale[FTH_GEN_PARTS];
    double logit_mean, logit_deviation; /* of the pilot */
};

/* One example; ids and history as drawn. */
struct fth_gen_example {
    double time; /* 0..1 along the file */
    uint64_t ids[FTH_GEN_FIELDS];          /* or FTH_GEN_MISSING */
    uint32_t quantile[FTH_GEN_MAX_COLUMNS]; /* or UINT32_MAX where missing */
    uint32_t length;
    uint64_t *history; /* [max_length] items, oldest first; borrowed */
    uint64_t context;  /* what attributes of positions are drawn from */
    uint32_t domain;
    double logit;
    int label, converted; /* converted: only where label is 1 */
};

fth_status fth_gen_model_create(const fth_gen_options *options, struct fth_gen_model **out,
                                fth_error *err);
void fth_gen_model_destroy(struct fth_gen_model *model); /* NULL-safe */
/* Example `index` of the file. example->history must have room. Any thread. */
void fth_gen_example_draw(const struct fth_gen_model *model, uint64_t index,
                          struct fth_gen_example *example);

/* Of fields and sequences, as gen_model.c and gen_sequence.c share them. */
void fth_gen_field_make(const struct fth_gen_model *model, uint32_t column, uint64_t cardinality,
                        double zipf, struct fth_gen_field *field);
uint64_t fth_gen_rotate(const struct fth_gen_field *field, uint64_t id, double time);
void fth_gen_sequence_make(struct fth_gen_model *model); /* fields, lengths; options.sequence.items > 0 */
void fth_gen_sequence_draw(const struct fth_gen_model *model, struct fth_gen_example *example,
                           struct fth_gen_draws *draws);
double fth_gen_sequence_part(const struct fth_gen_model *model, const struct fth_gen_example *example);
uint64_t fth_gen_item_category(const struct fth_gen_model *model, uint64_t item);
/* Attribute a of the target (position 0) or of history entry position - 1: below its number of values. */
uint64_t fth_gen_attribute_value(const struct fth_gen_model *model, const struct fth_gen_example *example,
                                 uint32_t a, uint32_t position);
double fth_gen_probability(double logit);
/* Share `share` of 2^32, for comparing with 32 random bits. */
uint64_t fth_gen_threshold(double share);

/* Text. */
size_t fth_gen_line_bound(const struct fth_gen_model *model);
size_t fth_gen_header(const struct fth_gen_model *model, char *out, size_t size);
char *fth_gen_line(const struct fth_gen_model *model, const struct fth_gen_example *example, char *out);

/* Counts of labels by logit, for the AUC in bounded memory. One thread. */
struct fth_gen_metric;
fth_status fth_gen_metric_create(double mean, double deviation, struct fth_gen_metric **out,
                                 fth_error *err);
void fth_gen_metric_destroy(struct fth_gen_metric *metric);
void fth_gen_metric_add(struct fth_gen_metric *metric, double logit, int label);
void fth_gen_metric_result(const struct fth_gen_metric *metric, fth_gen_result *result);

/* FTH_E_ARGUMENT for what is out of range, by name. */
fth_status fth_gen_check_options(const fth_gen_options *options, fth_error *err);

/* fth_gen_file on another table of file functions (tests put failures there). */
struct fth_io;
fth_status fth_gen_file_io(const struct fth_io *io, const fth_gen_options *options, const char *path,
                           const char *truth_path, fth_gen_result *result, fth_error *err);

#endif
