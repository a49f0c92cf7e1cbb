/* A data set: the files of one part of the data, their columns, and which of their examples belong
 * to it.
 *
 * Made once per part; readers are made from it. Threads: one reader at a time works on a set (its
 * reading thread opens the files); several sets are independent. */
#ifndef FTH_DATA_SET_H
#define FTH_DATA_SET_H

#include "config/config.h"
#include "core/batch.h"
#include "io/io.h"

typedef struct fth_data_set fth_data_set;

enum fth_part {
    FTH_PART_TRAIN, /* data.train without what is held out */
    FTH_PART_VALID, /* data.valid, or what is held out of data.train */
    FTH_PART_TEST,  /* data.test */
    FTH_PART_FILES, /* given files */
};

struct fth_data_set_options {
    enum fth_part part;
    uint64_t seed;            /* chooses what is held out: the same for FTH_PART_TRAIN and _VALID */
    struct fth_strings files; /* FTH_PART_FILES */
    const char *files_key;    /* how messages call them; NULL: "files" */
    int labels_optional;      /* files may lack labels, of csv their columns (prediction) */
    struct fth_strings labels; /* their names, where it is not data.label alone */
    const char *memory;       /* not NULL: one file's bytes, borrowed, instead of files */
    size_t memory_bytes;
    const struct fth_io *io; /* NULL: the operating system's files */
    int wake; /* a file descriptor that ends waits for pipes when it becomes readable: FTH_E_INTERRUPTED; 0: none */
};

/* Expands the paths and reads the header of the first file; for a part held out by position it also
 * finds out how long the files are (a pass over compressed ones). The configuration is borrowed for
 * the set's life. Errors: FTH_E_CONFIG, FTH_E_IO, FTH_E_DATA. Owned: fth_data_set_destroy
 * (NULL-safe). */
fth_status fth_data_set_create(const struct fth_data_config *config,
                               const struct fth_data_set_options *options, fth_data_set **out,
                               fth_error *err);
void fth_data_set_destroy(fth_data_set *set);

/* Names of a line's cells; none for libsvm and libffm. Borrowed for the set's life. */
struct fth_strings fth_data_set_columns(const fth_data_set *set);
struct fth_strings fth_data_set_files(const fth_data_set *set);

/* Whether it can be read more than once: no pipes, no standard input. */
int fth_data_set_again(const fth_data_set *set);

/* Whether line `row` of a block of the set's files, whose example has this number (core/batch.h), belongs to the set.
 * What is held out by position is in no block. */
int fth_data_set_has(const fth_data_set *set, const struct fth_block *block, uint32_t row, uint64_t example_number);

/* How file `index` was when it was opened first. 0: it has not been, or is no regular file. Any thread. */
int fth_data_set_seen(fth_data_set *set, uint32_t index, struct fth_io_stat *out);

#endif
