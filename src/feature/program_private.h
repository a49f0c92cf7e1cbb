/* The compiled form of a feature program; only feature/ includes this. */
#ifndef FTH_FEATURE_PROGRAM_PRIVATE_H
#define FTH_FEATURE_PROGRAM_PRIVATE_H

#include <endian.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "feature/codes.h"
#include "feature/program.h"
#include "feature/side_table.h"
#include "feature/split.h"
#include "feature/words.h"
#include "kernels/text_key.h"

/* Lines that instructions work on together: their cells and outputs stay in the first cache. */
#define FTH_FEATURE_CHUNK 64
#define FTH_FEATURE_NUMBERS 512 /* that are transformed at a time, at most; kernels go on to a multiple of eight */
#define FTH_FEATURE_LOG1P_TABLE 16384
#define FTH_FEATURE_SAMPLE (1u << 20) /* numbers kept of a column that is learned from all lines */
#define FTH_FEATURE_TEXTS (1u << 22)  /* texts of a table that are counted at a time, at least */

struct fth_feature_boundaries {
    float *values; /* ascending, no duplicates */
    uint32_t n;
};

struct fth_feature_numeric {
    const struct fth_numeric_config *config;
    const char *name; /* of the float; its copies are name_missing and name_bucket */
    uint32_t column;
    struct fth_separator separator; /* of a list; length 0: one number */
    /* A join that is made here, value by value (join.c); `column` is the join's, for messages, and never made. */
    const struct fth_feature_derived *joined; /* NULL none */
    float *joined_numbers; /* owned: [pairs of the side table] NaN: the value's text decides */
    int32_t dense, indicator; /* positions among the floats; -1 none */
    int32_t running;          /* index of its running statistics; -1 none */
    int32_t field;            /* of the bucketised copy; -1 none */
    uint64_t salt;            /* of that field's table */
    float clip_low, clip_high, missing_value;
    struct fth_feature_boundaries boundaries;
    /* learning */
    int learned;
    float *sample; /* region of program->sample_room floats; NULL before and after learning */
    uint64_t n_sample, n_met; /* numbers in the sample, met so far */
};

/* A field made of several columns by OP+OSRP. */
struct fth_feature_osrp {
    uint32_t *columns;
    uint64_t *salts; /* [n_columns] a text in two columns is two features */
    uint32_t n_columns;
    uint64_t bins;
    uint64_t hash[4]; /* of its two hash functions: factor, summand, factor, summand */
};

#define FTH_FEATURE_BARE UINT32_MAX /* a list is not in brackets */

struct fth_feature_field {
    struct fth_field_info info;
    uint32_t column;
    uint64_t salt, missing;
    uint32_t buckets; /* 0: none; else batches have numbers for its keys */
    uint64_t reciprocal; /* of buckets, for the kernel */
    const struct fth_feature_vocabulary *vocabulary; /* NULL none */
    struct fth_feature_lookups *lookups; /* of texts that are not missing in the vocabulary; of a join's: its file's */
    const struct fth_feature_osrp *osrp; /* NULL: made of its one column */
    struct fth_separator separator; /* length 0: one value */
    _Atomic uint32_t *in_brackets;  /* how many of its lists are, or FTH_FEATURE_BARE; NULL: it has none */
    /* A join that is made here, value by value, instead of before (join.c): `column` is then the join's source. */
    const struct fth_feature_derived *joined; /* NULL none */
    uint64_t *joined_codes; /* owned: [pairs of the side table] the key of each pair's value, or its number */
};

#define FTH_INDICATOR_NONE UINT32_MAX /* a text that counts nowhere */

/* Inputs for texts. */
struct fth_feature_indicator {
    const struct fth_indicator_config *config;
    uint32_t column;
    const char *name;      /* the feature's */
    uint32_t dense, width; /* of the floats; the last one is for others, if asked */
    uint32_t other;        /* its place in the width, or FTH_INDICATOR_NONE */
    struct fth_separator separator;
    struct fth_words words; /* the short values, the empty text and the short missing ones */
    struct fth_codes codes; /* of the values, for long ones */
    int long_texts;         /* a value or a missing text has more than eight bytes */
};

/* The texts of one table that have rows of their own; those outside share `oov` rows. */
struct fth_feature_vocabulary {
    const char *table, *file; /* file "": learned */
    uint32_t size, oov;       /* learned: at most */
    size_t most;              /* texts that are counted at a time; the rarest make room for others */
    uint64_t min_count;
    int ready;
    struct fth_codes codes;
    struct fth_feature_counts *counts; /* while learning */
};

/* How many of a join's first values were keys of its side table, of a field's first texts were in its vocabulary. */
struct fth_feature_lookups {
    _Atomic uint64_t values, found;
};

/* What stands in a byte's place: it, another, or nothing (length 0). */
struct fth_feature_put {
    uint8_t byte, length;
};

/* A column made from others. */
struct fth_feature_derived {
    const struct fth_derived_config *config;
    uint32_t *from; /* [config->from.n] columns */
    struct fth_separator separator; /* length 0: a cell is one value */
    const struct fth_feature_put *puts; /* replace: [256] */
    const fth_side_table *table;    /* join; NULL until fth_feature_set_side_table */
    struct fth_feature_lookups *lookups;
    const char *not_fused; /* why its column is made; NULL: it is not, its features look values up themselves */
    int counted;           /* a vocabulary is learned from it: its column is made while learning */
    int left_out;          /* of lines to predict: no feature reads it, and what it is made from need not be there */
};

/* One ragged group: fields[first .. first + n) of `group_fields`. */
struct fth_feature_group {
    const char *name;
    uint32_t first, n;
    uint32_t max;
    int unasked; /* max is the standard one */
    int keep_last;
};

enum fth_feature_op {
    FTH_FEATURE_NUMERIC,
    FTH_FEATURE_INDICATOR,
    FTH_FEATURE_SINGLE,
    FTH_FEATURE_LISTS,
    FTH_FEATURE_OSRP,
    FTH_FEATURE_LABEL,
    FTH_FEATURE_WEIGHT,
    FTH_FEATURE_TASK,
    FTH_FEATURE_TASK_WEIGHT,
    FTH_FEATURE_QUERY,
    FTH_FEATURE_ENTRIES,
};

/* index: of numeric[], indicators[], fields[], groups[] or the task (FTH_ALL_TASKS: all); column: label,
 * weight, query; of numeric[] how many of them, from index on, are made together (number_rows.c). */
#define FTH_ALL_TASKS UINT32_MAX
struct fth_feature_instruction {
    enum fth_feature_op op;
    uint32_t index, column;
};

/* Operations that are made in separate steps (plain.c), as `without` asks for. */
enum fth_feature_plain {
    FTH_PLAIN_SPLITS = 1,  /* fuse_splits: split+truncate+hash; a join with what reads it */
    FTH_PLAIN_NUMBERS = 2, /* fuse_numbers: split+number+reduce; neighbouring columns of numbers; joins, too */
    FTH_PLAIN_COUNTS = 4,  /* fuse_counts: split+one-hot+sum */
    FTH_PLAIN_ALL = 7,     /* feature_fusion */
};

struct fth_feature_program {
    const struct fth_config *config;
    fth_arena *arena; /* every array below except samples and boundaries */
    const char *const *columns; /* names: [n_columns] of the data, then [n_derived] */
    uint32_t n_columns, n_derived;
    struct fth_feature_derived *derived;
    int entries; /* libsvm or libffm */
    int unlabelled; /* label, weight and query are not looked at */
    unsigned plain; /* enum fth_feature_plain: what is not fused */

    struct fth_feature_instruction *instructions;
    uint32_t n_instructions;
    struct fth_feature_numeric *numeric;
    uint32_t n_numeric;
    struct fth_feature_indicator *indicators;
    uint32_t n_indicators;
    struct fth_feature_field *fields;
    struct fth_field_info *infos; /* copies of fields[].info, the array callers see */
    uint32_t n_fields;
    struct fth_feature_vocabulary *vocabularies;
    uint32_t n_vocabularies;
    struct fth_feature_group *groups;
    uint32_t *group_fields;
    uint32_t n_groups;
    uint32_t n_running;
    uint32_t *running_dense; /* [n_running] position among the floats */

    /* libffm: field number -> field of the schema, -1 none; by_order: the list is meant to be whole */
    int32_t *ffm_map;
    uint32_t n_ffm_map;
    int ffm_by_order;

    struct fth_schema schema;
    float *log1p_table; /* [FTH_FEATURE_LOG1P_TABLE] */

    int n_learned;          /* numeric columns with learned boundaries */
    int learning_done;
    struct fth_feature_names *names; /* while it is compiled */
    uint64_t sample_lines, sample_wanted, sample_room;
};

struct fth_feature_pass {
    const fth_feature_program *program;
    pthread_mutex_t mutex;                   /* of the list below */
    struct fth_feature_scratch *scratch_list; /* kept for the next block */
    double *state;   /* [3 * n_running] */
    double *scratch; /* [5 * n_running] of one finish */
};

/* Bytes that need not end in NUL; FTH_TEXT_PADDING may be read behind them. */
struct fth_feature_text {
    const char *bytes;
    uint32_t length;
};

/* The lines an instruction works on: out row = base + i holds line lines[i]. */
struct fth_feature_chunk {
    const fth_feature_program *program;
    const struct fth_feature_text *derived; /* [n_derived][FTH_FEATURE_CHUNK] columns behind the block's */
    struct fth_block *block;
    struct fth_batch *out;
    const uint32_t *lines;
    uint32_t n, base;
    uint8_t *bad; /* [n] set for refused lines */
    uint64_t bad_line; /* first refused line of the block and why; 0 none */
    fth_error bad_error;
    /* Values of this run over the chunk that were left out, and the first one; line 0: none. */
    uint64_t skipped, skipped_line;
    fth_error skipped_error;
    fth_error cut; /* the block's first list that was cut unasked, told; code FTH_OK: none */
    fth_error *err;
};

/* A key, or where the field has buckets its number: what fth_feature_text_code gives. */
static inline void fth_feature_put(const struct fth_keys *to, size_t at, uint64_t code) {
    if (to->numbers)
        to->numbers[at] = (uint32_t)code;
    else
        to->keys[at] = code;
}

/* What a column has in line i of the chunk. */
static inline struct fth_feature_text fth_feature_cell(const struct fth_feature_chunk *chunk,
                                                       uint32_t i, uint32_t column) {
    const struct fth_block *block = chunk->block;
    if (column >= block->n_columns)
        return chunk->derived[(size_t)(column - block->n_columns) * FTH_FEATURE_CHUNK + i];
    const struct fth_cell *cell = &block->cells[(size_t)chunk->lines[i] * block->n_columns + column];
    return (struct fth_feature_text){block->text + cell->offset, cell->length};
}

/* The chunk's texts of one column, one after the other. */
void fth_feature_column(const struct fth_feature_chunk *chunk, uint32_t column, struct fth_feature_text *out);

/* The beginning of the list four behind texts[i]: they are too far apart for the hardware to fetch them by itself. */
static inline void fth_feature_fetch_list(const struct fth_feature_text *texts, uint32_t i, uint32_t n) {
    const char *bytes = texts[i + 4 < n ? i + 4 : i].bytes;
    for (uint32_t at = 0; at < 192; at += 64)
        __builtin_prefetch(bytes + at);
}

static inline struct fth_feature_text fth_feature_entry_label(const struct fth_feature_chunk *chunk,
                                                              uint32_t i) {
    const struct fth_cell *cell = &chunk->block->labels[chunk->lines[i]];
    return (struct fth_feature_text){chunk->block->text + cell->offset, cell->length};
}

/* The empty cell and the texts of features.missing. */
int fth_feature_is_missing(const fth_feature_program *program, const char *bytes, size_t length);
/* Whether only the empty text is missing: then keys are made of several texts at a time. */
static inline int fth_feature_only_empty_missing(const fth_feature_program *program) {
    return program->config->features.missing.n == 0;
}

/* Whether a list cell has no elements: it is missing. One missing element, which looks the same, can only be
 * made by a derived column, as this text. */
extern const char fth_feature_one_missing[];
static inline int fth_feature_no_list(const fth_feature_program *program,
                                      struct fth_feature_text text) {
    return text.bytes != fth_feature_one_missing &&
           (text.length == 0 || (!fth_feature_only_empty_missing(program) &&
                                 fth_feature_is_missing(program, text.bytes, text.length)));
}

/* Marks row i of the chunk as refused; the first one's reason is kept. `where` (may be NULL) is told by its
 * place in the line, if it lies in one. */
void fth_feature_refuse(struct fth_feature_chunk *chunk, uint32_t i, const char *where,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Counts a bad value of row i that is left out by the configuration's leave, not its line. */
void fth_feature_skip_value(struct fth_feature_chunk *chunk, uint32_t i, const char *where,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Tells of row i's list that is cut unasked. */
void fth_feature_tell_cut(struct fth_feature_chunk *chunk, uint32_t i, const char *where,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The number in a text; 0 and row i refused when there is none. */
int fth_feature_number(struct fth_feature_chunk *chunk, uint32_t i, struct fth_feature_text text,
                       uint32_t column, float *out);
/* What to do about a text that is no number but for brackets, quotes, "$", "%" or ",", or that says that there is none
 * ("NA"); "" where it is none of these. about_missing: the latter alone. */
const char *fth_feature_about_text(const char *bytes, uint32_t length);
const char *fth_feature_about_missing(const char *bytes, uint32_t length);
/* The column as messages have it between quotes: a join's with its file. */
const char *fth_feature_name_told(const fth_feature_program *program, uint32_t column, char room[320]);

/* cells.c: the numbers of a column, a list's reduced: x 0 and present 0 where there is none, else all ones.
 * Fails for want of memory only, in plain form. `out` of the chunk is not touched. */
fth_status fth_feature_numbers(struct fth_feature_chunk *chunk,
                               const struct fth_feature_numeric *numeric, float *x,
                               uint32_t *present);
fth_status fth_feature_run_numeric(struct fth_feature_chunk *chunk,
                                   const struct fth_feature_numeric *numeric);
void fth_feature_run_single(struct fth_feature_chunk *chunk, uint32_t field);
/* The key of one categorical text; its number where the field has buckets. */
uint64_t fth_feature_text_code(const fth_feature_program *program, const struct fth_feature_field *field, const char *bytes,
                               size_t length);
static inline struct fth_text_hash fth_feature_hash(const struct fth_feature_field *field) {
    return (struct fth_text_hash){field->salt, field->missing, field->buckets, field->reciprocal};
}
/* The keys of n texts, of which empty ones are missing, from `at` on. */
void fth_feature_hash_texts(const struct fth_feature_field *field, uint32_t n, const char *text, const uint32_t *begins,
                            const uint32_t *ends, const struct fth_keys *to, uint32_t at);

/* Whether one of n bytes is not 0; those behind them, to a multiple of 8, may be anything. */
static inline int fth_feature_any(const uint8_t *bytes, uint32_t n) {
    uint64_t all = 0, word;
    for (uint32_t i = 0; i < n; i += 8) {
        memcpy(&word, bytes + i, sizeof word);
        all |= n - i < 8 ? le64toh(word) << 8 * (8 - (n - i)) : word;
    }
    return all != 0;
}

/* cells.c: clips, takes logarithms, standardises n numbers, at most FTH_FEATURE_NUMBERS. */
void fth_feature_transform(const fth_feature_program *program,
                           const struct fth_feature_numeric *numeric, float *x, uint32_t n);

/* number_rows.c: makes neighbouring columns of plain numbers one instruction; such a one's floats. */
void fth_feature_join_numeric(fth_feature_program *program);
void fth_feature_run_number_rows(struct fth_feature_chunk *chunk,
                                 const struct fth_feature_numeric *numeric, uint32_t columns);

/* indicator.c; fails for want of memory only, in plain form */
fth_status fth_feature_run_indicator(struct fth_feature_chunk *chunk,
                                     const struct fth_feature_indicator *indicator);

/* number_list.c */
void fth_feature_number_lists(struct fth_feature_chunk *chunk,
                              const struct fth_feature_numeric *numeric, float *x,
                              uint32_t *present);

/* osrp.c. begin draws the hashes; bins is set. reduce: items are bin * 2 + (1: plus); in their place the keys of
 * the bins' signs, ascending by bin; how many. */
void fth_feature_osrp_begin(struct fth_feature_osrp *osrp, uint64_t salt);
uint32_t fth_feature_osrp_reduce(uint64_t salt, uint64_t *items, uint32_t n);
fth_status fth_feature_run_osrp(struct fth_feature_chunk *chunk, uint32_t field);

/* lists.c. Room for `more` positions behind `used` in every field of the group; it grows by half, so that after
 * the first batches nothing is allocated. */
fth_status fth_feature_reserve(struct fth_feature_chunk *chunk, uint32_t group, uint32_t used,
                               uint64_t more);
fth_status fth_feature_run_lists(struct fth_feature_chunk *chunk,
                                 const struct fth_feature_group *group);
fth_status fth_feature_run_entries(struct fth_feature_chunk *chunk);

/* join.c. Counts values, none of them missing, that a join looked up; warns when none of the first thousand was
 * found: keys written otherwise than in the data are easily overlooked. */
void fth_feature_count_lookups(const struct fth_feature_derived *derived, uint64_t values, uint64_t found);
/* The keys of values joined to a list's first `keep` elements from `start` on; how many. Those of one cell
 * each: a chunk's. */
uint32_t fth_feature_join_list(const fth_feature_program *program, const struct fth_feature_field *field,
                               const char *text, uint32_t start, uint32_t length, uint32_t keep,
                               const struct fth_keys *to, uint32_t at);
void fth_feature_join_cells(const fth_feature_program *program, const struct fth_feature_field *field,
                            const struct fth_feature_text *cells, uint32_t n, const struct fth_keys *to, uint32_t at);
/* The numbers of values joined to one cell each, as fth_feature_numbers has them. */
void fth_feature_join_numbers(struct fth_feature_chunk *chunk, const struct fth_feature_numeric *numeric,
                              const struct fth_feature_text *cells, float *x, uint32_t *present);
/* The numbers of values joined to n elements of a list, at most FTH_FEATURE_CHUNK. Where one is NaN its text
 * decides; one of length 0 is missing. */
void fth_feature_join_elements(const fth_feature_program *program, const struct fth_feature_numeric *numeric,
                               const struct fth_feature_text *elements, uint32_t n, float *numbers,
                               struct fth_feature_text *texts);
/* The first bytes of the list that a list's join would write; how many, at most `room`. */
uint32_t fth_feature_join_text(const fth_feature_program *program, const struct fth_feature_derived *derived,
                               struct fth_feature_text list, char *out, uint32_t room);
/* When vocabularies are there: the keys of joined values that go through them. */
fth_status fth_feature_join_vocabularies(fth_feature_program *program, fth_error *err);

/* compile_derived.c */
fth_status fth_feature_check_side_tables(const fth_feature_program *program, fth_error *err);

/* vocabulary.c. The key of a text that is not missing, of a field with a vocabulary; counts it. */
uint64_t fth_feature_vocabulary_key(const struct fth_feature_field *field, const char *bytes, size_t length);
/* The same of n texts, of which empty ones are missing. */
void fth_feature_vocabulary_keys(const struct fth_feature_field *field, uint32_t n, const char *text,
                                 const uint32_t *begins, const uint32_t *ends, uint64_t *keys);
fth_status fth_feature_vocabulary_set(struct fth_feature_vocabulary *vocabulary, const uint64_t *hashes,
                                      uint32_t n, uint32_t *twice, fth_error *err);
/* Counts the chunk's texts of every field whose table learns a vocabulary. */
fth_status fth_feature_count_texts(struct fth_feature_chunk *chunk);
/* The most frequent texts become the vocabulary. */
fth_status fth_feature_choose_texts(struct fth_feature_vocabulary *vocabulary, fth_error *err);
void fth_feature_vocabulary_free(struct fth_feature_vocabulary *vocabulary);

/* learn.c: gives the learning sample back. */
void fth_feature_drop_samples(fth_feature_program *program);

/* derive.c: memory for the derived columns of one chunk after another. Owned: fth_feature_scratch_destroy
 * (NULL-safe). */
struct fth_feature_scratch {
    struct fth_feature_scratch *next;
    struct fth_feature_text *derived; /* [n_derived][FTH_FEATURE_CHUNK] */
    struct fth_feature_piece *pieces; /* of text; the newest first */
    struct fth_feature_text *values;  /* [n_values] of one list */
    uint32_t n_values;
};
fth_status fth_feature_scratch_create(const fth_feature_program *program,
                                      struct fth_feature_scratch **out, fth_error *err);
void fth_feature_scratch_destroy(struct fth_feature_scratch *scratch);
/* Room for `length` bytes and the padding. NULL: no memory. */
char *fth_feature_scratch_take(struct fth_feature_scratch *scratch, size_t length);
/* Fills chunk->derived, which holds until the scratch is used again; lines may be refused. learning: texts that
 * vocabularies count are made, too. */
fth_status fth_feature_run_derived(struct fth_feature_chunk *chunk,
                                   struct fth_feature_scratch *scratch, int learning);

/* sessions.c. A list's values, points in time, become the texts of their sessions' numbers. Fails for want of memory
 * only; lines may be refused. */
fth_status fth_feature_sessions(struct fth_feature_chunk *chunk, struct fth_feature_scratch *scratch,
                                const struct fth_feature_derived *derived, uint32_t row,
                                struct fth_feature_text *values, uint32_t n);

/* pass.c */
fth_status fth_feature_examples(void *ctx, struct fth_block *block, struct fth_batch *out,
                                fth_error *err);
fth_status fth_feature_finish(void *ctx, struct fth_batch *batch, int train, fth_error *err);

#endif
