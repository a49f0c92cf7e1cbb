/* What the files of data/ know of a set. */
#ifndef FTH_DATA_SET_PRIVATE_H
#define FTH_DATA_SET_PRIVATE_H

#include <pthread.h>

#include "base/memory.h"
#include "data/parser.h"
#include "data/set.h"
#include "data/source.h"

#define FTH_LINE_LIMIT ((size_t)64 << 20) /* bytes of the longest line */

enum fth_select {
    FTH_SELECT_ALL,
    FTH_SELECT_NOT_DRAWN,
    FTH_SELECT_DRAWN,
    FTH_SELECT_HEAD,
    FTH_SELECT_TAIL
};

struct fth_data_set {
    const struct fth_data_config *config;
    fth_arena *arena;
    struct fth_parser parser;
    struct fth_strings files, columns;
    int again;
    int labels_optional;
    struct fth_strings labels; /* empty: the configuration's label */
    const struct fth_io *io;
    int wake; /* while it is made; -1: none */
    const char *memory;
    size_t memory_bytes;
    uint64_t bytes; /* of all files as they are stored */

    enum fth_select select;
    uint64_t seed;
    pthread_mutex_t seen_lock; /* of first_seen, which a reader's thread sets while a checkpoint reads it */
    struct fth_io_stat *first_seen; /* [files.n] as each was when it was opened first; FTH_IO_OTHER: not yet */
    uint64_t *
        file_start; /* [files.n + 1] of each file in the decompressed bytes of all; HEAD and TAIL */
    uint64_t cut;   /* there: lines that begin before it are the head, and no
                       block has lines on both sides */

    /* A pipe whose header was read: waits here for the reader. */
    fth_source *held;
    uint64_t held_offset, held_line;
    int used; /* a set that cannot be read again has its reader */
};

/* What messages call file `index`: borrowed from the set, or static. */
const char *fth_data_set_message_name(const fth_data_set *set, uint32_t index);
/* Opens file `index` at its first data line: byte order mark and header are behind. *offset and
 * *line say where that is. The source is owned by the caller. */
fth_status fth_data_set_open(fth_data_set *set, uint32_t index, int wake, fth_source **source,
                             uint64_t *offset, uint64_t *line, fth_error *err);
/* Opens file `index` at its first byte. */
fth_status fth_data_set_open_raw(fth_data_set *set, uint32_t index, int wake, fth_source **source,
                                 fth_error *err);
/* Every pass reads the same data: FTH_E_DATA where the file that was opened is not as it was when this was asked first,
 * by size and time (not by inode, which some network file systems invent anew). Asked by who reads all of it: what is
 * appended before that is read. */
fth_status fth_data_set_check(fth_data_set *set, uint32_t index, const fth_source *source, fth_error *err);

/* columns.c: takes csv's header line: the set's columns, or compared with them. *offset and *line go behind it. */
fth_status fth_data_set_take_header(fth_data_set *set, const char *name, fth_source *source, uint64_t *offset,
                                    uint64_t *line, fth_error *err);
/* columns.c: where labels may lack (labels_optional), the first file's lines, which stay, say whether they do. */
fth_status fth_data_set_look_for_labels(fth_data_set *set, const char *name, fth_source *source, fth_error *err);

#endif
