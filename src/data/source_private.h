/* What source.c and decompress.c share. */
#ifndef FTH_DATA_SOURCE_PRIVATE_H
#define FTH_DATA_SOURCE_PRIVATE_H

#include <zlib.h>
#include <zstd.h>

#include "data/source.h"

#define FTH_SOURCE_INPUT_BYTES ((size_t)256 << 10)
#define FTH_SOURCE_FIRST_BYTES 10 /* tell what a file is */

enum fth_source_kind { FTH_SOURCE_PLAIN, FTH_SOURCE_GZIP, FTH_SOURCE_ZSTD };

struct fth_source {
    char *name;
    enum fth_source_kind kind;
    const struct fth_io *io;
    int file;  /* -1: memory */
    int close; /* it is ours */
    int wake;
    int regular;
    int now; /* what would have to wait is not read */
    const unsigned char *memory;
    uint64_t size;       /* of the file or memory; 0 for pipes */
    struct fth_io_stat stat; /* of the file, when it was opened */
    uint64_t raw_offset; /* in the file, of the next byte to read from it */

    /* Input not yet consumed: input[at .. n). Of a plain file only its first bytes pass through. */
    unsigned char *input;
    unsigned char first[FTH_SOURCE_FIRST_BYTES];
    size_t input_at, input_n;
    int input_end; /* nothing left behind input_n */

    z_stream gzip;
    int gzip_ready;
    ZSTD_DStream *zstd;
    int in_frame; /* between the first and last byte of a gzip member or zstd frame */

    /* Decompressed bytes that were looked at and not yet taken: peeked[at .. n). */
    char *peeked;
    size_t peeked_at, peeked_n, peeked_capacity;
};

/* Makes sure that input[at .. n) is not empty unless at the end. */
fth_status fth_source_fill_input(struct fth_source *source, fth_error *err);

fth_status fth_source_start_decoder(struct fth_source *source, fth_error *err);
void fth_source_end_decoder(struct fth_source *source);
fth_status fth_source_decode(struct fth_source *source, char *buffer, size_t size, size_t *got,
                             fth_error *err);

#endif
