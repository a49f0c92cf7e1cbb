/* Feature programs: raw cells to floats, keys and ragged lists, as the configuration says.
 *
 *   fth_block (cells) --examples--> fth_batch --assembler--> fth_batch --finish--> training step
 *
 * A program is what the configuration compiles to: read-only once learned boundaries are there, any
 * number of threads. A pass is one way through the data with its own running statistics: `examples` may
 * run on many threads at once, `finish` on one thread in the order of batches.
 *
 * Keys (core/key.h; stable: checkpoints depend on them), with salt = fth_hash_bytes(table's name, 0):
 *   text            fth_hash_bytes(cell's bytes, salt)
 *   text, buckets N number key of (text key modulo N)
 *   text, vocabulary       number key of its place, or of size + its unsalted hash modulo oov_buckets
 *   bucket, libsvm and libffm index i   number key of i = mix(salt ^ mix(i))
 *   missing         mix(salt ^ 0x9d1c5f0b6a3e8247)
 * Numbers: missing -> clip -> log1p -> standardise; a bucket is the count of boundaries <= the number as
 * it stands in the text, before all transforms. Missing gives missing_value as it is, after them. */
#ifndef FTH_FEATURE_PROGRAM_H
#define FTH_FEATURE_PROGRAM_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "config/config.h"
#include "core/batch.h"
#include "feature/side_table.h"

typedef struct fth_feature_program fth_feature_program;
typedef struct fth_feature_pass fth_feature_pass;

/* What embedding and the models need to know of a categorical field; index = field of the schema. */
struct fth_field_info {
    const char *name;
    const char *table;   /* fields with one table share rows; their dim and min_count agree */
    const char *column;  /* where it comes from; "" libsvm and libffm */
    uint32_t dim;        /* never 0: embedding.dim is filled in */
    uint64_t min_count;
    int64_t ffm_field;   /* libffm: the file's field number; else -1 */
    int32_t group;       /* as in the schema */
    int pooling;         /* as configured (enum fth_pooling) */
    int weighted;        /* values are present */
    int sequence;        /* positions are kept for attention */
    uint64_t missing;    /* key of a missing value */
};

/* Compiles the configuration for data with these columns (csv, criteo: names in cell order; libsvm and
 * libffm: none). Everything it names must exist; errors are FTH_E_CONFIG with key path and nearest name.
 * The configuration must live as long as the program. Owned: fth_feature_destroy (NULL-safe). */
fth_status fth_feature_create(const struct fth_config *config, const char *const *column_names,
                              size_t n_columns, fth_feature_program **out, fth_error *err);
/* The same for lines to predict: label, weight and query columns are not looked at and need not be there, nor what they alone
 * are made from. */
fth_status fth_feature_create_unlabelled(const struct fth_config *config,
                                         const char *const *column_names, size_t n_columns,
                                         fth_feature_program **out, fth_error *err);
void fth_feature_destroy(fth_feature_program *program);

/* Whether lines have features.derived[k] made: not of lines to predict, where no feature reads it. */
int fth_feature_makes(const fth_feature_program *program, uint32_t k);
/* What features.derived[k], a join, looks up: set before passes and learning, complete, borrowed for the program's
 * life. In a list's join no value has the list's separator in it. Errors: FTH_E_MEMORY. */
fth_status fth_feature_set_side_table(fth_feature_program *program, uint32_t k,
                                      const fth_side_table *table, fth_error *err);

/* The column that a list of the field is read from, where more than a few lists have been read and all of them are in
 * brackets, as in "[a, b]"; NULL: else. Borrowed for the program's life. */
const char *fth_feature_bracketed(const fth_feature_program *program, uint32_t field);

/* Borrowed for the program's life. */
const struct fth_schema *fth_feature_schema(const fth_feature_program *program);
const struct fth_field_info *fth_feature_fields(const fth_feature_program *program, uint32_t *n);

/* Indicator `i` in the order of the configuration: the feature's name, where its floats are; NULL past the last. */
const char *fth_feature_indicator(const fth_feature_program *program, uint32_t i, uint32_t *first,
                                  uint32_t *width);

/* Vocabularies that come from files, v from 0 on: the path, or NULL behind the last. Their texts are given, in
 * order, before passes (unless a state is loaded); *twice: n, or the place of a text that stood before (refused).
 * One that is learned has the path "". */
const char *fth_feature_vocabulary_file(const fth_feature_program *program, uint32_t v);
fth_status fth_feature_set_vocabulary(fth_feature_program *program, uint32_t v, const char *const *texts,
                                      const size_t *lengths, uint32_t n, uint32_t *twice, fth_error *err);

/* Warns of every field of which hardly a text (below one in a thousand, or none) of the first hundred thousand was in
 * its vocabulary: a file of another coding is easily overlooked. 1: it did. Beside running passes: as far as they are. */
int fth_feature_warn_vocabularies(const fth_feature_program *program);

/* The program for people: each feature's steps, which of them are one pass, and why others are not. Owned: free(). */
fth_status fth_feature_describe(const fth_feature_program *program, char **out, fth_error *err);

/* ---- learned boundaries and vocabularies ---- */

/* Lines still wanted: learn_lines less those taken in, or without end where that is 0; 0 when nothing is to be
 * learned or it is done. */
uint64_t fth_feature_learn_wanted(const fth_feature_program *program);
/* Takes n lines of the block, up to what is wanted: those of the rows `which` [n], or, if that is NULL, the first.
 * Malformed numbers are left to `examples`. */
fth_status fth_feature_learn_block(fth_feature_program *program, struct fth_block *block,
                                   const uint32_t *which, uint32_t n, fth_error *err);
/* Vocabularies are the most frequent texts, those met first before others as frequent; where a table has more texts
 * than are counted at a time, counts of rare ones may have been begun again (vocabulary.c). Quantiles of the lines, or
 * of a sample of them where all are read: boundary k of N buckets is the value of rank floor(k n / N), each once, not the
 * least value; behind one that fills more than a part the next larger one is a boundary, too. Must be called before passes when fth_feature_learn_wanted was ever > 0 (or a state loaded). */
fth_status fth_feature_learn_finish(fth_feature_program *program, fth_error *err);

/* ---- passes ---- */

/* state: [n] doubles of a position's feature_state to go on from, or NULL to begin. Several passes may
 * run on one program at once (training and evaluation). Owned: fth_feature_pass_destroy (NULL-safe). */
fth_status fth_feature_pass_create(const fth_feature_program *program, const double *state, size_t n,
                                   fth_feature_pass **out, fth_error *err);
void fth_feature_pass_destroy(fth_feature_pass *pass);
/* The functions that data/ calls; borrowed for the pass's life. */
struct fth_transform fth_feature_pass_transform(fth_feature_pass *pass);
/* Sets the running statistics (evaluation as of a training position). Not beside `finish`. */
fth_status fth_feature_pass_set_state(fth_feature_pass *pass, const double *state, size_t n,
                                      fth_error *err);

/* ---- checkpoints ---- */

/* Doubles in batch->after.feature_state: count, mean and sum of squared deviations of every column that
 * is standardised by running statistics. 0 when there is none. */
size_t fth_feature_state_size(const fth_feature_program *program);

/* Learned boundaries, vocabularies and running statistics as one JSON object that restores the same bits. `state`
 * NULL with n 0 stands for nothing seen yet. *out is owned: json_decref. */
fth_status fth_feature_state_save(const fth_feature_program *program, const double *state, size_t n,
                                  json_t **out, fth_error *err);
/* Sets the program's learned boundaries and vocabularies and writes state[n], n = fth_feature_state_size. A state that
 * does not fit the program is refused (FTH_E_CHECKPOINT) and changes nothing. Before passes run. */
fth_status fth_feature_state_load(fth_feature_program *program, const json_t *json, double *state,
                                  size_t n, fth_error *err);

#endif
