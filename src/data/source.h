/* A stream of bytes: a file, standard input or memory, decompressed by what its first bytes say.
 *
 * Place on a batch's way: the very beginning; lines.c cuts what comes out into blocks.
 * Threads: one owner at a time. Memory: one input buffer, the decompressor's window (zstd frames
 * that ask for more than 128 MiB are refused) and what fth_source_peek was asked for. */
#ifndef FTH_DATA_SOURCE_H
#define FTH_DATA_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "io/io.h"

typedef struct fth_source fth_source;

/* "-" is standard input. `wake` is a file descriptor (-1: none) that ends a wait for a pipe when it
 * becomes readable: reads then fail with FTH_E_INTERRUPTED. Errors name the file. Owned:
 * fth_source_close. */
fth_status fth_source_open(const struct fth_io *io, const char *path, int wake, fth_source **out,
                           fth_error *err);

/* Reads bytes[0..n), borrowed for the source's life. */
fth_status fth_source_open_memory(const char *name, const void *bytes, size_t n, fth_source **out,
                                  fth_error *err);
void fth_source_close(fth_source *source); /* NULL-safe */

void fth_source_set_wake(fth_source *source, int wake);

/* How a regular file is read from here on: enum fth_direct_reads (OFF as it is opened). all_bytes: of the data that it is
 * a part of, which tells whether it could stay in memory. */
void fth_source_set_direct(fth_source *source, int mode, uint64_t all_bytes);

int fth_source_is_direct(const fth_source *source); /* whether it is read past the page cache now */

/* Whether the stream can be opened again from its beginning (a regular file or memory). */
int fth_source_again(const fth_source *source);
/* The file as it was just before it was opened; 0: no regular file. */
int fth_source_stat(const fth_source *source, struct fth_io_stat *out);
/* The number of decompressed bytes, when known without reading (not compressed, a regular file). */
int fth_source_size(const fth_source *source, uint64_t *bytes);

/* Up to `size` bytes, at least one unless at the end (*got == 0). Damaged and truncated files, and those that have
 * become shorter since they were opened, fail with FTH_E_DATA, naming the file and the offset in it. */
fth_status fth_source_read(fth_source *source, char *buffer, size_t size, size_t *got,
                           fth_error *err);

/* now: from here on reads take what is in memory, and fail with FTH_E_INTERRUPTED, without a message and without having
 * taken anything, where they would have to wait. Only where fth_source_can_now: a regular file that is not compressed. */
void fth_source_set_now(fth_source *source, int now);
int fth_source_can_now(const fth_source *source);

/* Looks at the next `want` bytes without taking them; *n is less only at the end. The text is
 * borrowed until the next call on this source. */
fth_status fth_source_peek(fth_source *source, size_t want, const char **text, size_t *n,
                           fth_error *err);

/* Moves on by `bytes`; plain files seek, compressed ones are decompressed up to there. Going beyond
 * the end fails with FTH_E_DATA. */
fth_status fth_source_skip(fth_source *source, uint64_t bytes, fth_error *err);

#endif
