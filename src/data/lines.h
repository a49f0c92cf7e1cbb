/* The files of a set as blocks of whole lines.
 *
 * Place on a batch's way: between source.c and the parsers. A block has about `block_bytes`; a
 * line that is longer makes it grow, up to 64 MiB. Blocks do not span files. Threads: one owner at
 * a time. Invariant: where blocks are cut depends on the format alone knowing where lines end;
 * lines themselves are the same for every block size. */
#ifndef FTH_DATA_LINES_H
#define FTH_DATA_LINES_H

#include "core/batch.h"
#include "data/set.h"

typedef struct fth_lines fth_lines;

/* `wake`: as in fth_source_open. Stands at the beginning of the first file. Refused a second time
 * for sets that can be read only once. Owned: fth_lines_destroy. */
fth_status fth_lines_create(fth_data_set *set, int wake, size_t block_bytes, fth_lines **out,
                            fth_error *err);
void fth_lines_destroy(fth_lines *lines); /* NULL-safe */

/* Back to the beginning: file_index 0, byte_offset 0, line 1. Else to the start of a data line, as
 * a position tells it; FTH_E_DATA when no line starts there. */
fth_status fth_lines_seek(fth_lines *lines, uint64_t file_index, uint64_t byte_offset,
                          uint64_t line, fth_error *err);

/* The next block's text, file, place and first line; *got 0 behind the last one. */
fth_status fth_lines_next(fth_lines *lines, struct fth_block *block, int *got, fth_error *err);
/* The same where it need not wait for a file: else FTH_E_INTERRUPTED, without a message, and the next call of either goes
 * on. The second: whether it is worth asking. */
fth_status fth_lines_next_now(fth_lines *lines, struct fth_block *block, int *got, fth_error *err);
int fth_lines_can_now(const fth_lines *lines);
/* Whether the file at hand is read past the page cache. */
int fth_lines_is_direct(const fth_lines *lines);

#endif
