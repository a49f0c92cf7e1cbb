/* For tests of data/: files in a temporary folder, a transform that keeps what the cells said, and
 * digests of what a reader gives. */
#ifndef DATA_SUPPORT_H
#define DATA_SUPPORT_H

#include "data/reader.h"

/* Paths below a temporary folder that is made at the first call and removed at exit; the string is
 * static until eight more calls. */
const char *temp_path(const char *name);
void write_file(const char *path, const void *bytes, size_t n);
void write_gzip(const char *path, const char *text, size_t n, int append);
void write_zstd(const char *path, const char *text, size_t n, int append);
/* The whole file, NUL-terminated; owned: free(). NULL when it cannot be read. */
char *read_whole(const char *path, size_t *n);
/* The first existing of $FATHOM_DATA/name and ../shared/data/name, or NULL. Static. */
const char *shared_data(const char *name);

/* A small csv configuration without header; change what the test needs. */
struct fth_data_config csv_config(const char *const *files, uint32_t n_files,
                                  const char *const *columns, uint32_t n_columns);

/* One key per example (a hash of all cells or entries), a ragged group of the first three cells'
 * hashes or of the entries, and one float: the number of cells. Lines whose first cell is "refuse"
 * are refused. */
struct fth_transform hash_transform(void);
uint64_t cell_hash(const char *text); /* as in the ragged group */

/* Folds batch contents (not positions) into a digest. */
uint64_t batch_digest(uint64_t digest, const struct fth_batch *batch);

struct read_result {
    fth_status status;
    fth_error error;
    uint32_t batches;
    uint64_t examples, epochs;
    uint64_t digest;
    uint64_t pieces; /* read between two batches */
    struct fth_reader_counts counts;
    uint64_t *numbers; /* [examples] example numbers in order; owned */
};
/* Reads everything; fails the test only where creation fails. */
struct read_result read_all(const struct fth_data_config *config,
                            const struct fth_data_set_options *set_options,
                            const struct fth_reader_options *options);
void read_result_free(struct read_result *result);

#endif
