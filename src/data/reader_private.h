/* What reader.c (creation), reader_threads.c, rounds.c and assemble.c (order, holdout, shuffle, batches) share. */
#ifndef FTH_DATA_READER_PRIVATE_H
#define FTH_DATA_READER_PRIVATE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "base/thread.h"
#include "data/lines.h"
#include "data/reader.h"
#include "data/set_private.h"

enum fth_slot_kind { FTH_SLOT_BLOCK, FTH_SLOT_EPOCH_END, FTH_SLOT_FAILED };

/* A block on its way: text, then cells, then examples. Owned by the thread that took it from a
 * queue. */
struct fth_slot {
    enum fth_slot_kind kind;
    int only_count; /* none of its lines belongs to the part */
    struct fth_block *block;
    struct fth_batch *examples;
    uint32_t *scratch; /* [FTH_PARSE_SCRATCH]; NULL in rounds, where it is the worker's */
    fth_status status;
    fth_error error;
    sem_t parsed; /* posted by the parser that had it */
};

/* What only parsing needs, a worker's in rounds: from block to block it stays in the worker's cache. */
struct fth_parse_memory {
    uint32_t *scratch; /* [FTH_PARSE_SCRATCH] */
    struct fth_cell *cells;
    size_t cells_capacity;
};

/* A batch, an epoch's end or a failure on its way to the caller. */
enum fth_item_kind { FTH_ITEM_BATCH, FTH_ITEM_EPOCH_END, FTH_ITEM_FAILED };
struct fth_item {
    enum fth_item_kind kind;
    struct fth_batch *batch; /* its `after` counts for an epoch's end too */
    fth_error error;
};

/* Who has `lines` in rounds. */
enum fth_reading {
    FTH_READ_BY_THREAD,
    FTH_READ_GIVEN_BACK, /* the thread reads no more, but what it has read may not be in the window yet */
    FTH_READ_BY_WORKERS
};

/* Owned by the assembling thread. */
struct fth_assembler {
    struct fth_slot *slot; /* in hand, or NULL */
    uint32_t *chosen,
        *row; /* [n_chosen] examples of the slot that belong to the part, and their rows */
    uint32_t n_chosen, capacity, cursor;
    int epoch_ended; /* the stream of this epoch's blocks is over */

    int in_batch, in_buffer;   /* going on with a batch, with filling the buffer */
    struct fth_batch *buffer;  /* shuffle; NULL: none */
    uint32_t *order, n_order;  /* [n_order], as long as the buffer has been */
    uint64_t taken;            /* from the buffer */
    struct fth_position begin; /* where the buffer's examples begin */
    struct fth_position here;  /* behind the last line that was taken from a slot */

    /* Counting malformed lines by example numbers: here.lines_bad = base_bad + data lines - good
     * ones, both since the base (the start, or the epoch's beginning). */
    uint64_t base_example, base_read, base_bad, good;
    uint64_t examples_before; /* data lines of the epoch before the slot's */
    uint64_t epoch_bad;       /* malformed lines of this epoch, for the limit */
    uint64_t base_epoch_bad;  /* of them, before the start */
    uint64_t stop_at;         /* on_bad_line stop, or too many: the slot's first malformed line; 0 none */
    uint64_t epoch_bad_values; /* of features, in this epoch: left out, or missing */
    uint32_t warnings;
    int told_cut;
    uint64_t pull_ns; /* spent waiting for slots, since the last item */
};

struct fth_reader {
    fth_data_set *set;
    struct fth_transform transform;
    struct fth_reader_options options;
    struct fth_position start;
    uint32_t n_threads; /* parsers; 0: no threads at all */

    fth_lines *lines; /* reading thread; in rounds whoever `reading` names, workers under read_lock */
    uint64_t reading_epoch;
    int event; /* eventfd that its destruction writes to */
    int wake;  /* ends waits for pipes: the event, or that and the caller's by epoll */

    struct fth_slot *slots;
    uint32_t n_slots;
    struct fth_item *items;
    uint32_t n_items;
    fth_queue *free_slots, *to_parse, *in_order, *free_items, *ready;
    pthread_t *threads;
    uint32_t n_started;
    atomic_int stop;

    struct fth_assembler assembler;

    /* Rounds on options.pool, see rounds.c: `window` is a ring of slots, counted since the beginning */
    struct fth_slot **window; /* [n_slots]; NULL: no rounds */
    _Atomic uint64_t window_read;
    pthread_mutex_t read_lock;
    pthread_cond_t read_asked;
    uint64_t window_taken;    /* under read_lock, as the next two, and in a round what is put into the window */
    enum fth_reading reading;
    int read_all;             /* nothing is left to read */
    pthread_mutex_t assemble_lock;
    uint64_t window_begin; /* under assemble_lock in a round, as all below but memory */
    struct fth_item **made; /* [n_items], a ring */
    uint32_t made_begin;
    _Atomic uint32_t n_made;
    struct fth_item *partial; /* the batch that is being filled */
    uint64_t made_epoch;
    int made_last; /* nothing comes after what is made */
    int starved;   /* the assembler got no slot: the next round goes on */
    struct fth_parse_memory *memory; /* [the pool's workers] */

    /* caller */
    struct fth_item **held;
    uint32_t n_held;
    int over;
    struct fth_position position;

    _Atomic uint64_t bytes, direct_bytes, n_lines, n_bad, examples, read_ns, parse_ns, assemble_ns, wait_ns, rounds_ns;
};

/* The next block in the epoch's order, parsed; NULL when the reader is being destroyed. */
struct fth_slot *fth_reader_pull(struct fth_reader *reader);
/* The same of a round: NULL, and `starved`, when none is parsed yet. */
struct fth_slot *fth_reader_take_parsed(struct fth_reader *reader);
/* Rounds until there is an item; NULL when the reader has been stopped. */
struct fth_item *fth_reader_round(struct fth_reader *reader);
/* Threads, which are given the reader. The last reads beside rounds. */
void *fth_reader_reading_main(void *arg);
void *fth_reader_parsing_main(void *arg);
void *fth_reader_assembling_main(void *arg);
void *fth_reader_waiting_main(void *arg);
/* Reads a block into the slot, or what is there instead. now: 0, and nothing is read, where it would have to wait. */
int fth_reader_read(struct fth_reader *reader, struct fth_slot *slot, int now);
/* Whether nothing comes behind what the slot has got. */
int fth_reader_read_last(const struct fth_reader *reader, const struct fth_slot *slot);
void fth_reader_parse(struct fth_reader *reader, struct fth_slot *slot, uint32_t *scratch);
void fth_reader_add_time(_Atomic uint64_t *counter, uint64_t since);
void fth_reader_put_back(struct fth_reader *reader, struct fth_slot *slot);

fth_status fth_assembler_create(struct fth_reader *reader, fth_error *err);
void fth_assembler_destroy(struct fth_reader *reader);
/* Fills the item. Returns 0 when the reader is being destroyed, or, in rounds, when the item could not be
 * completed: the next call goes on with the same one. */
int fth_assembler_next(struct fth_reader *reader, struct fth_item *item);

#endif
