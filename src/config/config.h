/* The configuration, checked into structs. One YAML file plus --set overrides become one fth_config;
 * schema.c is the one table of keys (name, type, range, default, help) from which parsing, checking,
 * printing and docs/configuration.md are made.
 *
 * Strings and arrays are owned by the config (its arena). Read-only after loading: any thread. */
#ifndef FTH_CONFIG_CONFIG_H
#define FTH_CONFIG_CONFIG_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "fathom/config.h"

struct fth_strings {
    const char *const *items;
    uint32_t n;
};
struct fth_ints {
    const int64_t *items;
    uint32_t n;
};
struct fth_floats {
    const double *items;
    uint32_t n;
};

/* Reading refuses files above this size and values nested deeper than this. */
#define FTH_CONFIG_MAX_BYTES (1 << 20)            /* of a file that a person wrote */
#define FTH_CONFIG_MAX_PRINTED ((size_t)64 << 20) /* of what it is printed as, ranges of columns in full */
#define FTH_CONFIG_MAX_DEPTH 16

/* Equal to fth_precision of kernels/gemm.h, which this level may not include (train/build.c asserts it). */
enum fth_config_precision {
    FTH_PRECISION_FP32 = 0,
    FTH_PRECISION_BF16 = 1,
    FTH_PRECISION_BF16X3 = 2,
    FTH_PRECISION_BF16X6 = 3,
};

/* ---- data: ---- */
enum fth_format { FTH_FORMAT_CRITEO, FTH_FORMAT_CSV, FTH_FORMAT_LIBSVM, FTH_FORMAT_LIBFFM };
enum fth_bad_line { FTH_BAD_STOP, FTH_BAD_SKIP };
enum fth_direct_reads { FTH_DIRECT_OFF, FTH_DIRECT_AUTO, FTH_DIRECT_ON };
enum fth_holdout { FTH_HOLDOUT_NONE, FTH_HOLDOUT_HASH, FTH_HOLDOUT_TAIL };

struct fth_data_config {
    int format;                 /* enum fth_format */
    struct fth_strings train;   /* files, globs, "-" for standard input; gzip and zstd by content */
    struct fth_strings valid;   /* the held-out part by file (may be empty) */
    struct fth_strings test;    /* what `fathom eval` reads by default (may be empty) */
    int holdout;                /* enum fth_holdout: part of `train` held out when `valid` is empty */
    double holdout_fraction;    /* 0..1 */
    const char *holdout_column; /* hash: lines with one text there belong together; "": each by its number */
    const char *delimiter;      /* csv: 1 to 8 bytes */
    int header;                 /* csv: first line of each file names the columns */
    struct fth_strings columns; /* csv without header: the names in order */
    int strip;                  /* csv: spaces around cells are dropped */
    const char *escape;         /* csv: in front of a sign that stands for itself; "" none */
    int quotes;                 /* csv: cells in double quotes may hold delimiters, line breaks, doubled quotes */
    int skip_blank;             /* blank lines are not data (else malformed) */
    const char *comment;        /* csv: lines that start with this are not data; "" none */
    int on_bad_line;            /* enum fth_bad_line */
    int64_t bad_line_limit;     /* with skip: more than this many stop; -1 no limit */
    int64_t shuffle;            /* examples in the shuffle buffer; 0 none */
    int64_t queue_depth;        /* batches read ahead, at least 1 */
    int64_t block_bytes;        /* text read at once; with its cells it should stay in L2 */
    int direct_reads;           /* enum fth_direct_reads: past the page cache */
    int64_t parse_threads;
    const char *label;          /* column name; criteo and libsvm have their own */
    struct fth_strings positive; /* label texts that mean 1, and bounds; empty: the numbers 0 and 1 (-1 is 0) */
    const char *weight;         /* sample weight's column, "" none */
    const char *query;          /* grouping column for grouped AUC, "" none */
};

/* ---- tasks: several labels an example; none: data.label alone ---- */
#define FTH_CONFIG_MAX_TASKS 64
struct fth_task_config {
    const char *name;
    const char *label;           /* column; where it is empty the example does not count in this task */
    struct fth_strings positive; /* as data.positive */
    double weight;               /* of the task's loss in the sum over the tasks */
    const char *sample_weight;   /* column; times data.weight, if there is one; "" none */
};

/* ---- features: ---- */
enum fth_standardise { FTH_STANDARDISE_NONE, FTH_STANDARDISE_RUNNING, FTH_STANDARDISE_GIVEN };
/* What a list of numbers becomes. */
enum fth_reduce { FTH_REDUCE_MEAN, FTH_REDUCE_SUM, FTH_REDUCE_MIN, FTH_REDUCE_MAX, FTH_REDUCE_COUNT };
/* A text in a list that is no number: the line is malformed, the value is left out, the list is missing. */
enum fth_bad_value { FTH_BAD_VALUE_STOP, FTH_BAD_VALUE_SKIP, FTH_BAD_VALUE_MISSING };

/* numeric: in the order written: list -> missing -> clip -> log1p -> standardise. */
struct fth_numeric_config {
    struct fth_strings columns; /* the transforms hold for each; "I1..I13" ranges are expanded */
    const char *name;           /* of the one column's feature; "": the column's own */
    const char *separator;      /* "": a cell is one number */
    int reduce;                 /* enum fth_reduce; of a list, as the following three */
    int64_t max_length;         /* values of a list that are used; 0: all */
    int keep_last;              /* 1: the last max_length, 0: the first */
    int on_bad_value;           /* enum fth_bad_value */
    int clip;
    double clip_low, clip_high;
    int log1p;                  /* sign(x) * log1p(|x|) */
    int standardise;            /* enum fth_standardise */
    double mean, deviation;     /* FTH_STANDARDISE_GIVEN */
    int missing_indicator;      /* a second float, 1 where missing: "a weight of its own" */
    double missing_value;       /* stands for the number where missing (after transforms) */
    /* Bucketised copy as a categorical field (named COLUMN_bucket), next to or instead of the number */
    struct fth_floats boundaries; /* given */
    int64_t quantiles;            /* > 0: learned from the first `learn_lines` lines */
    int bucket_only;              /* the number itself is not a feature */
    const char *table;            /* of the bucketised field; "" = its own name */
    int64_t dim;                  /* 0: embedding.dim */
};

/* Equal to fth_pooling of kernels/kernels.h, which this level may not include (train/build.c asserts it). */
enum fth_config_pooling { FTH_CONFIG_POOL_SUM = 1, FTH_CONFIG_POOL_MEAN = 2, FTH_CONFIG_POOL_MAX = 3 };

/* A float for each of some texts, as in one-hot and multi-hot encodings. */
struct fth_indicator_config {
    struct fth_strings columns;
    const char *name;           /* of the one column's feature; "": the column's own */
    struct fth_strings values;  /* the texts, in order */
    const char *separator;      /* "": a cell is one value */
    int count;                  /* how often each is there, not whether */
    int other;                  /* one more float for texts that are not listed */
};

struct fth_categorical_config {
    struct fth_strings columns; /* "C1..C26" ranges are expanded */
    const char *name;           /* of the one column's feature; "": the column's own */
    const char *table;          /* shared table's name; "" = the feature's own name */
    int64_t buckets;            /* > 0: key = hash % buckets */
    const char *vocabulary_file; /* a text a line, each has a row of its own; "" none */
    int64_t vocabulary_size;    /* > 0: the most frequent texts of the first learn_lines lines instead */
    int64_t vocabulary_min_count; /* ... that are there this often */
    int64_t oov_buckets;        /* rows for texts outside the vocabulary; 0: they count as missing */
    int64_t bins;               /* > 0: all columns as one feature of 2 bins values, by OP+OSRP */
    int64_t min_count;          /* admission */
    int64_t dim;                /* 0: embedding.dim */
    /* ragged fields: */
    int sequence;               /* 1: positions kept (attention); 0 with separator: pooled */
    const char *separator;      /* "" = single value */
    const char *group;          /* sequences whose positions belong together share a group; "" own */
    int64_t max_length;         /* positions kept; 0: fth_categorical_length's */
    int keep_last;              /* 1: the last max_length, 0: the first */
    int pooling;                /* enum fth_config_pooling */
    int64_t ffm_field;          /* libffm: the field number; -1: by order. libsvm: all entries */
};

enum fth_derive { FTH_DERIVE_JOIN, FTH_DERIVE_DATE, FTH_DERIVE_CROSS, FTH_DERIVE_SESSIONS, FTH_DERIVE_REPLACE };
enum fth_date_part {
    FTH_DATE_YEAR,
    FTH_DATE_MONTH,
    FTH_DATE_DAY,
    FTH_DATE_HOUR,
    FTH_DATE_MINUTE,
    FTH_DATE_SECOND,
    FTH_DATE_WEEKDAY,
    FTH_DATE_YEARDAY,
    FTH_DATE_WEEKEND,
    FTH_DATE_DAYS,
    FTH_DATE_SECONDS,
};

/* A column made from others, to be used like one of the file's. */
struct fth_derived_config {
    int as;                   /* enum fth_derive */
    const char *name;
    struct fth_strings from;  /* one column; cross: two or more; derived ones that stand before, too */
    const char *characters;   /* replace: those that are left out, or `by` stands for */
    const char *by;           /* replace: one character, or "" */
    const char *separator;    /* join, date: of list cells, whose values are taken one by one; "": none; sessions */
    const char *file;         /* join: a CSV */
    struct fth_strings columns; /* join: the names in order of a file without a header */
    struct fth_strings key;   /* join: its columns that are compared; several: with a cross */
    const char *value;        /* join: its column that is taken */
    const char *several;      /* join: between a key's values; "": it has one */
    const char *delimiter;    /* join: 1 to 8 bytes */
    const char *escape;       /* join: as in data */
    int strip, quotes;        /* join */
    const char *format;       /* date, sessions: "iso", "unix", "unix_ms" or a pattern such as "%y%m%d%H" */
    int part;                 /* date: enum fth_date_part */
    int64_t gap;              /* sessions: seconds */
    int on_bad_value;         /* date, sessions: enum fth_bad_value */
};

struct fth_features_config {
    struct fth_derived_config *derived;
    uint32_t n_derived;
    struct fth_numeric_config *numeric;
    uint32_t n_numeric;
    struct fth_indicator_config *indicator;
    uint32_t n_indicator;
    struct fth_categorical_config *categorical;
    uint32_t n_categorical;
    struct fth_strings missing; /* texts that mean missing besides the empty cell, such as "?" */
    int64_t learn_lines;        /* from which quantiles and vocabularies are learned; 0: all */
};

/* ---- embedding: ---- */
enum fth_init { FTH_INIT_UNIFORM, FTH_INIT_NORMAL, FTH_INIT_ZERO };
struct fth_embedding_config {
    int64_t dim;
    int init;            /* enum fth_init */
    double init_scale;   /* uniform: [-scale, scale); normal: deviation */
    int64_t memory_limit; /* bytes for all packs; reaching it stops with FTH_E_LIMIT */
    int64_t expected_rows; /* whose memory is taken before the first step */
    int huge_pages;
};

/* ---- model: one struct for the zoo; a model reads what it uses, the rest is refused when set ---- */
struct fth_model_config {
    const char *name;         /* as in models.def */
    struct fth_ints hidden;   /* deep part's layers */
    struct fth_ints bottom;   /* dlrm */
    struct fth_ints top;      /* dlrm, without the last 1 */
    struct fth_ints cin;      /* xdeepfm: maps of the interaction network's layers */
    struct fth_strings co_action; /* can: "induction:feed"; empty: target with every other field */
    struct fth_ints co_action_layers; /* can: widths of a row's network */
    int64_t co_action_dim, co_action_orders; /* can: floats of a feed's row, powers of it */
    struct fth_strings user_fields, item_fields; /* two_tower; no user_fields: all that are not the item's */
    int in_batch_softmax, log_q, normalise;      /* two_tower: loss, its correction; vectors of length 1 */
    double temperature;                          /* two_tower: divides the product */
    int64_t cross_layers;     /* dcn, dcnv2 */
    struct fth_ints attention; /* din: attention unit's hidden layers */
    int64_t experts;          /* mmoe */
    struct fth_ints expert_hidden; /* mmoe: of each expert */
    const char *domain;       /* star: an indicator feature, one value a domain */
    struct fth_ints auxiliary_hidden; /* star: of the auxiliary network */
    struct fth_ints tower;    /* mmoe: of each task, without the last 1 */
    const char *activation;   /* relu prelu dice sigmoid tanh gelu */
    const char *attention_activation; /* din, dsin: of the attention unit's layers; "same": activation */
    double base_rate;         /* where predictions begin; 0: the first batch's share of positive labels */
    double dropout;
    int batch_norm, layer_norm, residual;
    struct fth_strings wide;  /* wide_deep: categorical fields of the wide part; empty: all */
    double auxiliary;         /* dien: factor of the auxiliary loss; 0 none */
    struct fth_strings negatives; /* dien: sequences of negatives for it; empty: drawn */
    int64_t recurrent;        /* dien: width of the interest evolution; 0: that of the history */
    int64_t heads, feed_forward; /* dsin: of the self-attention; width of the layer behind it */
    const char *session;      /* dsin: the sequence that names sessions */
    int64_t session_length, sessions; /* dsin: most positions of one; those with a bias of their own */
    struct fth_strings relations; /* atbrg: "target's entity:history's entity[:head]"; empty: by tables */
    const char *target;       /* din, can, dien, dsin, atbrg: the target item's column; "": matched by table with the history */
};

/* ---- optimizer: ---- */
enum fth_schedule { FTH_SCHEDULE_CONSTANT, FTH_SCHEDULE_POLYNOMIAL, FTH_SCHEDULE_COSINE };
struct fth_optimizer_config {
    const char *name; /* sgd momentum adagrad rowwise_adagrad adam adamw ftrl lamb */
    double lr, eps, beta1, beta2, momentum, weight_decay, l1, l2, initial_accumulator;
    double lr_power, beta; /* ftrl */
};
struct fth_schedule_config {
    int kind;             /* enum fth_schedule, after the warm-up */
    int64_t warmup_steps; /* linear from 0 */
    int64_t total_steps;  /* where polynomial and cosine end */
    double end_factor;    /* lr there, as a factor */
    double power;
};

/* ---- train: ---- */
struct fth_train_config {
    int64_t batch_size, epochs;
    int64_t max_steps;            /* 0: none */
    double label_smoothing;
    double clip_norm;             /* 0: none */
    int64_t eval_every;           /* steps; 0: at the end of every epoch */
    const char *early_stop_metric; /* "" none; auc log_loss normalised_entropy gauc */
    const char *early_stop_task;   /* whose metric that is; "": of the first task */
    int64_t early_stop_patience;  /* evaluations without a better value */
    double early_stop_min_delta;
    int64_t log_every;            /* steps between lines when not on a terminal */
};
struct fth_checkpoint_config {
    const char *dir; /* "" none */
    int64_t every_steps;
    double every_minutes;
    int64_t keep;
    int keep_best;
};

struct fth_config {
    uint64_t seed;
    int64_t threads;      /* 0: all cores */
    int precision;        /* enum fth_config_precision */
    const char *tuning;   /* file, "" built in */
    int64_t tile;         /* examples a tile; 0: by the plan */
    struct fth_strings without; /* switched-off optimisations (passes' and stages' names) */
    struct fth_data_config data;
    struct fth_task_config *tasks;
    uint32_t n_tasks; /* 0: one task without a name, whose label is the data's */
    struct fth_features_config features;
    struct fth_embedding_config embedding;
    struct fth_model_config model;
    struct fth_optimizer_config dense_optimizer;  /* optimizer.dense */
    struct fth_optimizer_config sparse_optimizer; /* optimizer.sparse */
    struct fth_optimizer_config linear_optimizer; /* optimizer.linear */
    struct fth_schedule_config schedule;
    struct fth_train_config train;
    struct fth_checkpoint_config checkpoint;
    fth_arena *arena; /* owns every string and array above */
};

/* An item of `positive` that is ">= X" or "> X": labels are numbers, and 1 from X on, or above it. 0: it is a label's text
 * (as ">50K" is). */
int fth_config_label_bound(const char *item, double *bound, int *above);

#define FTH_AS_SPARSE "as_sparse"
/* Of linear terms' rows; NULL: that of all rows. */
static inline const struct fth_optimizer_config *fth_config_linear_optimizer(const struct fth_config *config) {
    return strcmp(config->linear_optimizer.name, FTH_AS_SPARSE) ? &config->linear_optimizer : NULL;
}

#define FTH_STANDARD_LENGTH 100
#define FTH_WHOLE_LENGTH (1 << 20)

/* How many values of a cell's list, or entries of a libsvm or libffm line, the feature uses. */
static inline int64_t fth_categorical_length(const struct fth_config *config,
                                             const struct fth_categorical_config *categorical) {
    int entries = config->data.format == FTH_FORMAT_LIBSVM || config->data.format == FTH_FORMAT_LIBFFM;
    return categorical->max_length ? categorical->max_length : entries ? FTH_WHOLE_LENGTH : FTH_STANDARD_LENGTH;
}

/* The first key by which two configurations differ. */
enum fth_difference_of {
    FTH_DIFFERENCE_OF_MEANING, /* of those that say what inputs and outputs of trained weights are: features, model */
    FTH_DIFFERENCE_OF_RESULT   /* of all that what is trained depends on: not threads, places, lengths */
};
struct fth_difference {
    char key[128]; /* "features.numeric.0.log1p"; "": none */
    char was[128]; /* its value in the first configuration, for a message */
};
fth_status fth_config_difference(const struct fth_config *a, const struct fth_config *b, enum fth_difference_of of,
                                 struct fth_difference *out, fth_error *err);

#endif
