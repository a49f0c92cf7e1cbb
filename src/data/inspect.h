/* Parsed blocks without a reader: for learned quantiles, for `fathom inspect` on data files, and for the
 * speed of parsing in `fathom bench`.
 *
 * One thread, one block at a time; nothing depends on how long the files are. */
#ifndef FTH_DATA_INSPECT_H
#define FTH_DATA_INSPECT_H

#include "core/batch.h"
#include "data/set.h"

/* Calls `each` with the parsed blocks of the set's files, from the beginning until `*more` is 0 or a
 * failure. Which lines held out by hash are the set's says fth_data_set_has. Malformed lines are counted in the
 * block. wake: as in fth_source_open. Uses up a set that can be read only once. */
fth_status fth_data_each_block(fth_data_set *set, int wake,
                               fth_status (*each)(void *ctx, struct fth_block *block,
                                                  int *more, fth_error *err),
                               void *ctx, fth_error *err);

/* How fast text becomes examples on one thread, the stage alone: blocks of the set's files (about
 * 16 MB) are held in memory and parsed and transformed again and again for `seconds`. Malformed
 * lines are passed over. Uses up a set that can be read only once. */
struct fth_stage_rate {
    uint64_t bytes, lines; /* in all */
    double split;          /* GB/s, median over blocks: text to cells */
    double whole;          /* text to cells to floats and keys */
};
fth_status fth_data_time_stage(fth_data_set *set, const struct fth_transform *transform,
                               double seconds, struct fth_stage_rate *out, fth_error *err);

#define FTH_DATA_MESSAGES 10

struct fth_column_stats {
    const char *name; /* borrowed from the set, or static: label, field, index, value */
    uint64_t cells;   /* of well-formed lines; libsvm, libffm: entries */
    uint64_t missing; /* empty, or one of the given texts */
    uint64_t numbers; /* cells that are decimal numbers; min, max and mean are theirs */
    double min, max, mean;
    double distinct; /* estimated texts (numbers for entries), missing aside: within about 1 %, never more than there are */
};

struct fth_data_stats {
    struct fth_column_stats *columns;
    uint32_t n_columns;
    uint32_t n_files;
    uint64_t bytes; /* decompressed */
    uint64_t lines; /* data lines, well-formed or not */
    uint64_t bad;
    /* Of malformed lines that stand apart (one every 4 KB at most), the first ones. */
    char messages[FTH_DATA_MESSAGES][1024];
    uint32_t n_messages;
};

/* `missing` may be empty. Owned: fth_data_stats_destroy (NULL-safe); not to outlive the set. */
fth_status fth_data_scan(fth_data_set *set, const struct fth_strings *missing,
                         struct fth_data_stats **out, fth_error *err);
void fth_data_stats_destroy(struct fth_data_stats *stats);

#endif
