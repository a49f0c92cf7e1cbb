/* Parsing and assembling on the training threads, between steps: see reader.h.
 *
 *   in_order --take_read--> window  | parsed, or being parsed | read |  --assemble--> made batches
 *                                   begin                     taken  read
 *
 * Threads that parse beside training would take the processors from its workers in the middle of a
 * phase, whose other workers then wait. So the caller of fth_reader_next, when no batch is left, does
 * a round with the pool: each worker takes a block, parses it, and puts into the batch what is parsed up to there, unless
 * another does; until a batch is made. In a step's long pauses, when workers have no task left while others work on
 * their last, they do the same block by block (fth_reader_filler), which leaves the next round less. So nothing waits
 * for anything but the last block, and blocks are copied into the batch from the cache that they were parsed in.
 *
 * Reading has a thread of its own, because it waits. Where a plain file's bytes are in memory nothing waits, and
 * a worker that has nothing to parse reads the next block itself; when that would have to wait, the thread is asked, which
 * reads some blocks and gives the file back.
 *
 * Threads: `window_begin`, the assembler and the made items belong to whoever has assemble_lock; a slot to the worker that
 * took it, until it posts `parsed`. Whoever `reading` names has `lines`; it goes from the thread to the workers only between
 * rounds, when all that the thread has read is in the window, so blocks stay in order. */
#include "base/clock.h"
#include "data/reader_private.h"

#define LOCK_LOOKS 1000
#define THREAD_BLOCKS 8 /* that the thread reads before the workers are to try again */

static struct fth_slot **window_at(struct fth_reader *reader, uint64_t i) {
    return &reader->window[i % reader->n_slots];
}

static void put_in_window(struct fth_reader *reader, struct fth_slot *slot) {
    uint64_t at = atomic_load(&reader->window_read);
    *window_at(reader, at) = slot;
    atomic_store(&reader->window_read, at + 1);
}

struct fth_slot *fth_reader_take_parsed(struct fth_reader *reader) {
    uint64_t at = reader->window_begin;
    if (at == atomic_load(&reader->window_read) || sem_trywait(&(*window_at(reader, at))->parsed) != 0) {
        reader->starved = 1;
        return NULL;
    }
    reader->window_begin++;
    return *window_at(reader, at);
}

/* Whether what is parsed makes a batch, or ends the epoch. */
static int makes_batch(struct fth_reader *reader) {
    const struct fth_assembler *a = &reader->assembler;
    uint64_t examples = a->n_chosen - a->cursor;
    if (a->epoch_ended)
        return 1;
    if (a->buffer && !a->in_buffer)
        examples += a->buffer->n - a->taken;
    for (uint64_t i = reader->window_begin; i < atomic_load(&reader->window_read); i++) {
        struct fth_slot *slot = *window_at(reader, i);
        int parsed = 0;
        sem_getvalue(&slot->parsed, &parsed);
        if (!parsed)
            break;
        if (slot->kind != FTH_SLOT_BLOCK)
            return 1;
        examples += slot->examples->n;
    }
    return examples >= reader->options.batch_size;
}

/* As many batches as there are examples and room for. One that would stay unfinished is not begun behind a finished
 * one: that will have come back by the next round, and its memory is used again. */
static void assemble(struct fth_reader *reader) {
    reader->starved = 0;
    while (!reader->made_last) {
        void *item = reader->partial;
        if (!item && reader->n_made > 0 && !makes_batch(reader))
            return;
        if (!item && !fth_queue_try_pop(reader->free_items, &item))
            return;
        reader->partial = item;
        uint64_t since = fth_now_ns();
        int complete = fth_assembler_next(reader, item);
        fth_reader_add_time(&reader->assemble_ns, since);
        if (!complete)
            return;
        reader->partial = NULL;
        enum fth_item_kind kind = ((struct fth_item *)item)->kind;
        reader->made_epoch += kind == FTH_ITEM_EPOCH_END;
        reader->made_last =
            kind == FTH_ITEM_FAILED || reader->made_epoch == reader->options.epochs;
        reader->made[(reader->made_begin + reader->n_made++) % reader->n_items] = item;
    }
}

/* A block's cells are not looked at any more once it has become examples. */
static void exchange_cells(struct fth_block *block, struct fth_parse_memory *memory) {
    struct fth_cell *cells = block->cells;
    size_t capacity = block->cells_capacity;
    block->cells = memory->cells;
    block->cells_capacity = memory->cells_capacity;
    memory->cells = cells;
    memory->cells_capacity = capacity;
}

/* Another worker reads a block in less time than it takes to fall asleep and wake. */
static void lock_reading(struct fth_reader *reader) {
    for (int i = 0; i < LOCK_LOOKS; i++) {
        if (pthread_mutex_trylock(&reader->read_lock) == 0)
            return;
        __builtin_ia32_pause();
    }
    pthread_mutex_lock(&reader->read_lock);
}

/* Under read_lock. A block into the window, and whether there is one: not where there is no slot for it, or the thread
 * has to wait for it. */
static int read_now(struct fth_reader *reader) {
    void *slot;
    if (reader->reading != FTH_READ_BY_WORKERS || reader->read_all ||
        !fth_queue_try_pop(reader->free_slots, &slot))
        return 0;
    if (!fth_reader_read(reader, slot, 1)) {
        fth_queue_push_first(reader->free_slots, slot);
        reader->reading = FTH_READ_BY_THREAD;
        pthread_cond_signal(&reader->read_asked);
        return 0;
    }
    put_in_window(reader, slot);
    reader->read_all = fth_reader_read_last(reader, slot);
    return 1;
}

/* The next slot that nobody has taken; NULL: there is none. */
static struct fth_slot *take_slot(struct fth_reader *reader) {
    struct fth_slot *slot = NULL;
    lock_reading(reader);
    if (reader->window_taken < atomic_load(&reader->window_read) || read_now(reader))
        slot = *window_at(reader, reader->window_taken++);
    pthread_mutex_unlock(&reader->read_lock);
    return slot;
}

void *fth_reader_waiting_main(void *arg) {
    struct fth_reader *reader = arg;
    int more = reader->reading_epoch < reader->options.epochs;
    void *slot;
    for (uint32_t n = 1; more && fth_queue_pop(reader->free_slots, &slot); n++) {
        if (atomic_load(&reader->stop))
            break;
        fth_reader_read(reader, slot, 0);
        pthread_mutex_lock(&reader->read_lock);
        more = !fth_reader_read_last(reader, slot);
        reader->read_all = !more;
        /* Together: who finds it read by the thread can wait for a block. */
        more &= fth_queue_push(reader->in_order, slot);
        if (more && n % THREAD_BLOCKS == 0 && fth_lines_can_now(reader->lines))
            reader->reading = FTH_READ_GIVEN_BACK;
        while (more && reader->reading != FTH_READ_BY_THREAD && !atomic_load(&reader->stop))
            pthread_cond_wait(&reader->read_asked, &reader->read_lock);
        pthread_mutex_unlock(&reader->read_lock);
    }
    fth_queue_close(reader->in_order);
    return NULL;
}

/* What is parsed goes into batches, unless another worker is at it: what it does not see any more the next one will. */
static void try_assemble(struct fth_reader *reader) {
    if (pthread_mutex_trylock(&reader->assemble_lock) != 0)
        return;
    assemble(reader);
    pthread_mutex_unlock(&reader->assemble_lock);
}

/* One block, unless there is none or a batch is made. */
static int take_piece(void *arg, uint32_t worker) {
    struct fth_reader *reader = arg;
    struct fth_parse_memory *memory = &reader->memory[worker];
    struct fth_slot *slot;
    if (atomic_load(&reader->n_made) > 0 || (slot = take_slot(reader)) == NULL)
        return 0;
    if (slot->kind == FTH_SLOT_BLOCK) {
        exchange_cells(slot->block, memory);
        fth_reader_parse(reader, slot, memory->scratch);
        exchange_cells(slot->block, memory);
    }
    sem_post(&slot->parsed);
    try_assemble(reader);
    return 1;
}

static void run_worker(void *arg, uint32_t worker) {
    try_assemble(arg); /* what the round before, or a pause, has left */
    while (take_piece(arg, worker))
        ;
}

void fth_reader_filler(fth_reader *reader, struct fth_filler *out) {
    *out = (struct fth_filler){.fn = reader->window ? take_piece : NULL, .arg = reader};
}

static enum fth_reading who_reads(struct fth_reader *reader) {
    pthread_mutex_lock(&reader->read_lock);
    enum fth_reading reading = reader->reading;
    pthread_mutex_unlock(&reader->read_lock);
    return reading;
}

/* What has been read into the window; waits only when there would be nothing to do. 0: the reader has
 * been stopped. */
static int take_read(struct fth_reader *reader) {
    void *slot;
    enum fth_reading reading = who_reads(reader);
    if (reading == FTH_READ_BY_THREAD && reader->starved && reader->window_begin == reader->window_read) {
        if (!fth_queue_pop(reader->in_order, &slot))
            return 0;
        put_in_window(reader, slot);
    }
    while (fth_queue_try_pop(reader->in_order, &slot))
        put_in_window(reader, slot);
    if (reading == FTH_READ_GIVEN_BACK) { /* all that it has read is in the window now */
        pthread_mutex_lock(&reader->read_lock);
        reader->reading = FTH_READ_BY_WORKERS;
        pthread_mutex_unlock(&reader->read_lock);
    }
    return 1;
}

struct fth_item *fth_reader_round(struct fth_reader *reader) {
    while (reader->n_made == 0) {
        if (!take_read(reader))
            return NULL;
        uint64_t since = fth_now_ns();
        fth_pool_share(reader->options.pool, run_worker, reader);
        fth_reader_add_time(&reader->rounds_ns, since);
    }
    struct fth_item *item = reader->made[reader->made_begin];
    reader->made_begin = (reader->made_begin + 1) % reader->n_items;
    reader->n_made--;
    return item;
}
