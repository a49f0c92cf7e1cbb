/* A batch, raw and ready: what data/, feature/ and everything after them exchange.
 *
 * A block is a run of consecutive lines, parsed into cells (raw text, borrowed from the block's own
 * buffer). A feature program turns a block into examples; examples are shuffled, split and packed into
 * batches, which the training step reads. Nothing here has behaviour beyond allocation.
 *
 *   text block --parser--> fth_block (cells) --feature program--> fth_batch (examples of the block)
 *        --assembler (shuffle, holdout, batch size)--> fth_batch (a training batch)
 *
 * Threads: each object has one owner at a time; queues hand them over. */
#ifndef FTH_CORE_BATCH_H
#define FTH_CORE_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/key.h"

/* ---- raw ---- */

/* One cell's text: bytes [offset, offset + length) of the block's text, quotes already resolved and, if
 * asked, spaces stripped. Length 0 is an empty cell; whether that means "missing" is feature/'s say. */
struct fth_cell {
    uint32_t offset, length;
};

/* What a line of libsvm or libffm holds: (field, index) : value. */
struct fth_entry {
    uint32_t field;  /* libffm's field; 0 for libsvm */
    float value;
    uint64_t index;
};

/* Bytes behind the text's NUL that may be read (and hold anything): cells can be looked at in words, the
 * whole in vectors. */
#define FTH_TEXT_PADDING 64

struct fth_block {
    char *text;              /* owned, NUL-terminated after text_length; FTH_TEXT_PADDING */
    size_t text_length, text_capacity;
    const char *file;        /* name for messages, borrowed from the reader */
    uint32_t file_index;
    uint64_t first_line;     /* 1-based number in its file of the block's first physical line */
    uint64_t first_example;  /* see example_number */
    uint64_t byte_offset;    /* of text[0] in its (decompressed) file */
    uint64_t byte_end;       /* one past the block's last byte in its file */
    uint64_t n_data;         /* data lines, well-formed or not */

    uint32_t n_lines;        /* well-formed data lines, = rows below */
    uint32_t n_columns;      /* csv, criteo: cells per line */
    struct fth_cell *cells;  /* [n_lines][n_columns]; csv and criteo */
    uint32_t *entry_start;   /* [n_lines + 1]; libsvm and libffm */
    struct fth_entry *entries;
    struct fth_cell *labels; /* [n_lines]; libsvm and libffm (csv, criteo: a column) */
    uint32_t *line_start;    /* [n_lines] offset of the line in text; column = offset - line_start + 1 */
    uint32_t *line_end;      /* [n_lines] one past its line ending */
    uint64_t *line_number;   /* [n_lines] 1-based physical line in the file */
    uint64_t *example_number; /* [n_lines] first_example + number among the block's data lines (well-formed
                                 or not). Blocks are parsed out of order, with first_example 0; the
                                 assembler adds what came before. */
    uint64_t *drawn_by;      /* [n_lines] hash of the cell by which lines are held out, where they are held out so */

    /* How many malformed lines there were, and the one that stands first in the file. Filled by
     * fth_block_refuse; a refusal on an earlier line takes the first one's place. */
    uint64_t n_bad;
    uint64_t first_bad_line; /* its physical line; 0: none */
    fth_error first_bad;     /* code FTH_E_DATA, message "file:line:column: reason"; code 0: none */

    /* Values of good lines that a feature left out, as configured, and the first one in the file. */
    uint64_t n_bad_values;
    fth_error first_bad_value;

    /* The first list that is longer than the standard max_length, which nobody asked for; code 0: none. */
    fth_error first_cut;

    size_t cells_capacity, entries_capacity, lines_capacity;
};

/* ---- ready ---- */

#define FTH_NO_GROUP (-1)

/* One categorical field's keys: the one array or the other. */
struct fth_keys {
    int32_t group;     /* FTH_NO_GROUP: exactly one key an example; else the ragged group its offsets are in */
    uint64_t *keys;    /* [n] or [groups[group].total], salted 64-bit; NULL where the schema has buckets */
    uint32_t *numbers; /* as many, below the buckets or FTH_NUMBER_MISSING; NULL where it has none */
    uint64_t salt;     /* of the numbers' keys */
    float *values;     /* NULL: all 1; else one a key (libsvm, libffm values) */
    size_t capacity;
};

/* Key i, whichever way it is kept. */
static inline uint64_t fth_key_at(const struct fth_keys *field, size_t i) {
    return field->numbers ? fth_bucket_key(field->salt, field->numbers[i]) : field->keys[i];
}

/* Offsets shared by the fields of one ragged group (a history's item and category): position t of example
 * i is in [offsets[i], offsets[i + 1]). offsets[0] == 0. */
struct fth_ragged {
    uint32_t *offsets; /* [n + 1] */
    uint32_t total;    /* == offsets[n] */
};

/* Whether keys i and j are the same. */
static inline int fth_same_key(const struct fth_keys *field, size_t i, size_t j) {
    return field->numbers ? field->numbers[i] == field->numbers[j] : field->keys[i] == field->keys[j];
}

/* What the columns of a batch are; fixed for a feature program's life, borrowed by batches. */
struct fth_schema {
    uint32_t n_dense;               /* floats an example after all numeric transforms */
    const char *const *dense_names; /* [n_dense] */
    uint32_t n_fields;
    const int32_t *field_group;     /* [n_fields] FTH_NO_GROUP or ragged group */
    const uint8_t *field_weighted;  /* [n_fields] 1: values are present */
    /* [n_fields], or both NULL: field f has numbers below field_buckets[f] for keys, with this salt (core/key.h);
     * 0 buckets: keys. */
    const uint32_t *field_buckets;
    const uint64_t *field_salt;
    uint32_t n_groups;
    const uint32_t *group_max;       /* [n_groups] most positions an example can have */
    int has_weight, has_query;
    uint32_t n_tasks;                /* labels an example; 0 is 1 */
};

/* Where the reader stands after a batch: enough to go on with the same bits (docs/checkpoint.md). */
struct fth_position {
    uint64_t epoch;        /* 0-based */
    uint64_t file_index;
    uint64_t byte_offset;  /* of the shuffle block (or line) to read next, in its decompressed file */
    uint64_t line;         /* physical line number there */
    uint64_t example;      /* number among the epoch's data lines there */
    uint64_t block;        /* shuffle block number within the epoch */
    uint64_t taken;        /* examples already emitted from that shuffle block */
    uint64_t examples_seen; /* training examples emitted since the start of training */
    uint64_t lines_read, lines_bad; /* since the start of training */
    uint64_t epoch_lines_bad; /* of this epoch: what data.on_bad_line's limit goes on from */
    double *feature_state; /* [n_feature_state] running statistics as of this batch; owned by the batch */
    size_t n_feature_state;
};

struct fth_batch {
    const struct fth_schema *schema;
    uint32_t n, capacity;     /* examples */
    uint32_t most;            /* that there will be, so room for no more is made ahead; 0: not known */
    float *dense;             /* [n][dense_ld] */
    uint32_t dense_ld;        /* fth_padded_columns(n_dense), or 0 */
    struct fth_ragged *groups; /* [n_groups] */
    struct fth_keys *fields;   /* [n_fields] */
    char *lists;               /* NULL, or a block that ragged fields' arrays are pieces of, as fth_batch_append makes it */
    size_t lists_bytes;
    float *label;             /* [n][tasks] 0 or 1 */
    float *weight;            /* [n][tasks] or NULL: all 1 */
    uint64_t *query;          /* [n] or NULL: the grouping column's hash, for grouped AUC */
    uint64_t *example_number; /* [n] number among the epoch's data lines */
    struct fth_position after; /* training batches only */
};

/* Labels (and weights) an example. */
static inline uint32_t fth_schema_tasks(const struct fth_schema *schema) {
    return schema->n_tasks ? schema->n_tasks : 1;
}

/* Room for `capacity` examples (at least 1) and no ragged positions yet. Owned: fth_batch_destroy. The
 * schema is borrowed for the batch's life. Arrays come from fth_alloc, but for pieces of `lists`; after.feature_state is NULL
 * until `finish` below allocates it the same way. */
fth_status fth_batch_create(const struct fth_schema *schema, uint32_t capacity, struct fth_batch **out,
                            fth_error *err);
void fth_batch_destroy(struct fth_batch *batch); /* NULL-safe */
/* Makes room for at least `examples`, and `positions` in each field of a group. Grows only. */
fth_status fth_batch_reserve(struct fth_batch *batch, uint32_t examples, fth_error *err);
fth_status fth_batch_reserve_positions(struct fth_batch *batch, uint32_t group, uint32_t positions,
                                       fth_error *err);
/* Appends the examples index[0..n) of `from` (same schema, not `to` itself) to `to`; on failure `to` is unchanged. */
fth_status fth_batch_append(struct fth_batch *to, const struct fth_batch *from, const uint32_t *index, uint32_t n,
                            fth_error *err);
/* No examples, position zero; keeps all memory, that of after.feature_state too. */
void fth_batch_clear(struct fth_batch *batch);

/* An empty block. Its arrays come from fth_alloc. */
fth_status fth_block_create(struct fth_block **out, fth_error *err);
void fth_block_destroy(struct fth_block *block); /* NULL-safe */
/* Room for that many in all (text: one more for the NUL); what is there is kept. Grows only. */
fth_status fth_block_reserve_text(struct fth_block *block, size_t bytes, fth_error *err);
fth_status fth_block_reserve_lines(struct fth_block *block, size_t lines, fth_error *err);
fth_status fth_block_reserve_cells(struct fth_block *block, size_t cells, fth_error *err);
fth_status fth_block_reserve_entries(struct fth_block *block, size_t entries, fth_error *err);
/* Counts a malformed line and keeps the reason of the first one: "file:line:column: reason". */
void fth_block_refuse(struct fth_block *block, uint64_t line, uint64_t column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* What data/ asks of feature/ (filled by train/): turns a parsed block into examples. Called from several
 * threads at once, on different blocks; `out` is cleared first. Lines that a feature refuses are left out of
 * `out` and counted in block->n_bad with first_bad set, like malformed lines. `finish` runs on the
 * assembling thread, in order, on each completed training or evaluation batch: it applies what depends on
 * the order of examples (running standardisation) and, when `train` is set, writes batch->after.feature_state. */
struct fth_transform {
    void *ctx;
    const struct fth_schema *schema;
    fth_status (*examples)(void *ctx, struct fth_block *block, struct fth_batch *out, fth_error *err);
    fth_status (*finish)(void *ctx, struct fth_batch *batch, int train, fth_error *err);
};

#endif
