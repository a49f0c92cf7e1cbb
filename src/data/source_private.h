/* What source.c and decompress.c share. */
#ifndef FTH_DATA_SOURCE_PRIVATE_H
#define FTH_DATA_SOURCE_PRIVATE_H

#include <zlib.h>
#include <zstd.h>

#include "config/config.h"
#include "data/source.h"
#include "io/direct.h"

#define FTH_SOURCE_INPUT_BYTES ((size_t)256 << 10)
#define FTH_SOURCE_FIRST_BYTES 10 /* tell what a file is */

enum fth_source_kind { FTH_SOURCE_PLAIN, FTH_SOURCE_GZIP, FTH_SOURCE_ZSTD };

/* direct.c's */
struct fth_source_direct {
    int mode;             /* enum fth_direct_reads; OFF, too, once it is given up */
    uint64_t all_bytes;   /* of the data, of which the file may be a part */
    fth_direct *reads;    /* NULL: through the page cache */
    uint64_t bytes, ns;   /* read since it was judged, and what that took */
    uint64_t from_disk_before; /* bytes that the process had read from disks by then */
    double cached_cost;   /* in ns a byte, before */
};

enum fth_direct_verdict { FTH_DIRECT_GO_ON, FTH_DIRECT_BEGIN, FTH_DIRECT_GIVE_UP };

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
    struct fth_source_direct direct;

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

/* pread of a regular file's next bytes, through the page cache or past it; -EAGAIN, only with `now`: it would have to wait. */
int64_t fth_source_pread(struct fth_source *source, void *buffer, size_t size);

/* By what was read since it was judged last. from_disk: bytes that came from disks meanwhile; left: of the file, that are
 * not read yet; memory: the machine's. */
enum fth_direct_verdict fth_source_judge(const struct fth_source_direct *direct, uint64_t from_disk, uint64_t left,
                                         uint64_t memory);

/* Makes sure that input[at .. n) is not empty unless at the end. */
fth_status fth_source_fill_input(struct fth_source *source, fth_error *err);

fth_status fth_source_start_decoder(struct fth_source *source, fth_error *err);
void fth_source_end_decoder(struct fth_source *source);
fth_status fth_source_decode(struct fth_source *source, char *buffer, size_t size, size_t *got,
                             fth_error *err);

#endif
