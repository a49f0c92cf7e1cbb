/* What the tests of data/reader read: a thousand lines in three files, and how. */
#ifndef FTH_TESTS_READER_FILES_H
#define FTH_TESTS_READER_FILES_H

#include "data_support.h"

#define LINES 1000

extern const char *const columns[3];
/* Plain without a last LF, gzip, zstd. */
extern const char *files[3];
extern const struct fth_data_set_options train_set, valid_set;

/* Group set-up and tear-down: the files and a pool. */
int make_files(void **state);
int free_pool(void **state);

/* Lines of different lengths, quoted LFs and delimiters among them. Owned: free(). */
char *csv_text(uint32_t from, uint32_t to, size_t *n);
/* -1: parsing and assembling on a pool. */
void set_threads(struct fth_data_config *config, struct fth_reader_options *options, int64_t threads);
struct fth_data_config make_config(void);
struct fth_reader_options train_options(void);

#endif
