/* The reader: a data set's examples as batches, read, parsed and assembled beside the caller.
 *
 *   reading thread          parse_threads parsers        assembling thread           caller
 *   source, lines  --block-->  parser, transform  --examples-->  holdout, shuffle,  --batch--> next
 *        ^                                                        batch size           release |
 *        '---- blocks, and batches below, go round through free lists: a fixed number -----<---'
 *
 * The batches are a function of (files, configuration, seed, batch size): parse_threads,
 * queue_depth, block_bytes and pool change nothing. With parse_threads 0 and a pool, parsing and
 * assembling, and reading what is in memory, happen in fth_reader_next on the pool's workers
 * (rounds.c); without a pool everything happens there, on the caller's thread.
 *
 * Memory: (2 parse_threads + 2, or 10 a worker of the pool) blocks of text with their cells and examples, queue_depth + 1 +
 * held batches, and the shuffle buffer. Nothing is allocated once these have found their sizes, but, in a file, when reading
 * past the page cache begins (io/direct.h).
 *
 * Threads: one thread calls these functions; fth_reader_get_counts may be called from any. */
#ifndef FTH_DATA_READER_H
#define FTH_DATA_READER_H

#include "base/thread.h"
#include "core/batch.h"
#include "data/set.h"

typedef struct fth_reader fth_reader;

struct fth_reader_options {
    uint32_t batch_size;
    uint64_t seed;   /* of the shuffle */
    uint64_t epochs; /* in all, those before `start` included */
    int train;       /* shuffle, number examples, fill batch->after, finish(..., train) */
    /* With parse_threads 0: parses and assembles within fth_reader_next, on all its workers. Borrowed for
     * the reader's life, used in fth_reader_next alone; its pauses otherwise: fth_reader_filler. NULL: none. */
    fth_pool *pool;
    uint32_t held;   /* batches the caller has in hand at once; 0: 1 */
    /* An eventfd that ends waiting for a pipe when it is written to: fth_reader_next then fails with
     * FTH_E_INTERRUPTED. Borrowed for the reader's life; 0: none. */
    int wake;
    /* Where to go on: batch->after of the last batch used. NULL: the beginning. Copied. */
    const struct fth_position *start;
};

/* Set and transform must live as long as the reader; the set serves one reader at a time. Refused
 * (FTH_E_CONFIG): going on in, or several epochs over, standard input. Owned: fth_reader_destroy.
 */
fth_status fth_reader_create(fth_data_set *set, const struct fth_transform *transform,
                             const struct fth_reader_options *options, fth_reader **out,
                             fth_error *err);

/* The next batch, borrowed until fth_reader_release; NULL at the end of each epoch, and again and
 * again behind the last one. The last batch of an epoch can be short; none is empty. A failure ends
 * the reader: it is told once. A malformed line ends it when on_bad_line is stop, after all batches
 * that are filled from the lines before it. */
fth_status fth_reader_next(fth_reader *reader, struct fth_batch **batch, fth_error *err);
void fth_reader_release(fth_reader *reader, struct fth_batch *batch);

/* Reading on, a block a piece, for pauses of the pool's workers between two calls of fth_reader_next. Nothing to do where
 * batches are not made on a pool. */
void fth_reader_filler(fth_reader *reader, struct fth_filler *out);

/* Where the reader stands behind what fth_reader_next gave last (at the end of an epoch: the
 * beginning of the next). feature_state is not filled. Training readers only. */
void fth_reader_get_position(const fth_reader *reader, struct fth_position *out);

/* At any time; what is under way is given up. NULL-safe. */
void fth_reader_destroy(fth_reader *reader);

/* Since creation, of what has been assembled. The times are of all threads that did the work. */
struct fth_reader_counts {
    uint64_t bytes;    /* decompressed, of the blocks that were parsed */
    uint64_t direct_bytes; /* likewise, of the blocks that were read past the page cache */
    uint64_t lines;    /* data lines, well-formed or not */
    uint64_t bad;      /* malformed ones */
    uint64_t examples; /* given out */
    uint64_t read_ns, parse_ns, assemble_ns;
    uint64_t wait_ns;   /* the caller's, in fth_reader_next */
    uint64_t rounds_ns; /* of these, spent parsing and assembling with the pool */
};
void fth_reader_get_counts(const fth_reader *reader, struct fth_reader_counts *out);

#endif
