/* A reader's creation, its end, and the caller's side: see reader.h; what its threads do is in reader_threads.c.
 *
 * Closing: `stop`, the eventfd (a wait for a pipe) and closing all queues (every other wait). */
#include "data/reader.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "data/reader_private.h"

#define ROUND_SLOTS 10 /* blocks a worker of the pool */

/* ---- creation ---- */

static fth_status check_options(const fth_data_set *set, const struct fth_reader_options *options,
                                fth_error *err) {
    if (options->batch_size == 0)
        return fth_fail(err, FTH_E_ARGUMENT, "a batch size of 0; at least 1 is needed");
    if (set->again)
        return FTH_OK;
    uint64_t before = options->start ? options->start->epoch : 0;
    if (options->epochs > before + 1)
        return fth_fail(
            err, FTH_E_CONFIG,
            "%llu epochs over standard input or a pipe, which can be read only once; give files "
            "or train.epochs: %llu",
            (unsigned long long)(options->epochs - before), (unsigned long long)before + 1);
    if (options->start &&
        (options->start->byte_offset || options->start->example || options->start->taken))
        return fth_fail(
            err, FTH_E_CONFIG,
            "training cannot go on within standard input or a pipe, which begins anew; give files, or begin the next "
            "epoch (--next-epoch)");
    return FTH_OK;
}

static fth_status create_parse_memory(struct fth_reader *reader, fth_error *err) {
    uint32_t workers = fth_pool_size(reader->options.pool);
    reader->memory = fth_alloc(workers, sizeof *reader->memory);
    int ok = reader->memory != NULL;
    for (uint32_t w = 0; ok && w < workers; w++) {
        reader->memory[w].scratch = fth_alloc(FTH_PARSE_SCRATCH, sizeof *reader->memory[w].scratch);
        ok = reader->memory[w].scratch != NULL;
    }
    return ok ? FTH_OK : fth_fail(err, FTH_E_MEMORY, "no memory to parse with %u workers", workers);
}

static fth_status create_slots(struct fth_reader *reader, fth_error *err) {
    int rounds = reader->n_threads == 0 && reader->options.pool;
    reader->n_slots = rounds ? ROUND_SLOTS * fth_pool_size(reader->options.pool)
                      : reader->n_threads ? 2 * reader->n_threads + 2
                                          : 1;
    reader->slots = fth_alloc(reader->n_slots, sizeof *reader->slots);
    reader->window = rounds ? fth_alloc(reader->n_slots, sizeof *reader->window) : NULL;
    if (!reader->slots || (rounds && !reader->window))
        return fth_fail(err, FTH_E_MEMORY, "no memory for %u blocks", reader->n_slots);
    for (uint32_t s = 0; s < reader->n_slots; s++)
        sem_init(&reader->slots[s].parsed, 0, 0);
    for (uint32_t s = 0; s < reader->n_slots; s++) {
        struct fth_slot *slot = &reader->slots[s];
        FTH_TRY(fth_block_create(&slot->block, err));
        FTH_TRY(fth_batch_create(reader->transform.schema, 1, &slot->examples, err));
        slot->scratch = rounds ? NULL : fth_alloc(FTH_PARSE_SCRATCH, sizeof *slot->scratch);
        if (!rounds && !slot->scratch)
            return fth_fail(err, FTH_E_MEMORY, "no memory for %u blocks", reader->n_slots);
    }
    return rounds ? create_parse_memory(reader, err) : FTH_OK;
}

static fth_status create_items(struct fth_reader *reader, fth_error *err) {
    int64_t depth = reader->n_threads || reader->window ? reader->set->config->queue_depth : 1;
    if (depth < 1)
        depth = 1;
    if (depth > 65536)
        return fth_fail(err, FTH_E_CONFIG, "data.queue_depth: %lld batches; at most 65536",
                        (long long)depth);
    if (reader->options.held == 0)
        reader->options.held = 1;
    reader->n_items = (uint32_t)depth + 1 + reader->options.held;
    reader->items = fth_alloc(reader->n_items, sizeof *reader->items);
    reader->held = fth_alloc(reader->options.held, sizeof *reader->held);
    reader->made = fth_alloc(reader->n_items, sizeof *reader->made);
    if (!reader->items || !reader->held || !reader->made)
        return fth_fail(err, FTH_E_MEMORY, "no memory for %u batches", reader->n_items);
    for (uint32_t i = 0; i < reader->n_items; i++)
        FTH_TRY(fth_batch_create(reader->transform.schema, reader->options.batch_size,
                                 &reader->items[i].batch, err));
    FTH_TRY(fth_queue_create(reader->n_items, &reader->free_items, err));
    FTH_TRY(fth_queue_create(reader->n_items, &reader->ready, err));
    for (uint32_t i = 0; i < reader->n_items; i++)
        fth_queue_push(reader->free_items, &reader->items[i]);
    FTH_TRY(fth_queue_create(reader->n_slots, &reader->free_slots, err));
    FTH_TRY(fth_queue_create(reader->n_slots, &reader->to_parse, err));
    FTH_TRY(fth_queue_create(reader->n_slots, &reader->in_order, err));
    for (uint32_t s = 0; s < reader->n_slots; s++)
        fth_queue_push(reader->free_slots, &reader->slots[s]);
    return FTH_OK;
}

static fth_status start_threads(struct fth_reader *reader, fth_error *err) {
    uint32_t n = reader->window ? 1 : reader->n_threads + 2;
    if (reader->n_threads == 0 && !reader->window)
        return FTH_OK;
    reader->threads = fth_alloc(n, sizeof *reader->threads);
    if (!reader->threads)
        return fth_fail(err, FTH_E_MEMORY, "no memory for %u threads", n);
    /* Signals are for the program's own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = 0;
    /* The assembler comes last: without parsers, should they not start, it would wait for ever. */
    while (reader->n_started < n && !failed) {
        void *(*entry)(void *) = reader->window                           ? fth_reader_waiting_main
                                 : reader->n_started == 0                 ? fth_reader_reading_main
                                 : reader->n_started <= reader->n_threads ? fth_reader_parsing_main
                                                                           : fth_reader_assembling_main;
        failed = fth_thread_create(&reader->threads[reader->n_started], entry, reader);
        reader->n_started += !failed;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return fth_fail(err, FTH_E_MEMORY, "cannot start a reading thread: %s", strerror(failed));
    return FTH_OK;
}

/* Its own event ends its own waits; the caller's, which others wait for too, is only listened to. */
static int open_wake(struct fth_reader *reader) {
    struct epoll_event in = {.events = EPOLLIN};
    reader->event = reader->wake = eventfd(0, EFD_CLOEXEC);
    if (reader->event < 0 || !reader->options.wake)
        return reader->event >= 0;
    reader->wake = epoll_create1(EPOLL_CLOEXEC);
    return reader->wake >= 0 && epoll_ctl(reader->wake, EPOLL_CTL_ADD, reader->event, &in) == 0 &&
           epoll_ctl(reader->wake, EPOLL_CTL_ADD, reader->options.wake, &in) == 0;
}

static fth_status reader_init(struct fth_reader *reader, fth_error *err) {
    const struct fth_data_config *config = reader->set->config;
    if (config->parse_threads < 0 || config->parse_threads > 1024)
        return fth_fail(err, FTH_E_CONFIG, "data.parse_threads: %lld; 0 to 1024",
                        (long long)config->parse_threads);
    reader->n_threads = (uint32_t)config->parse_threads;
    if (!open_wake(reader))
        return fth_fail(err, FTH_E_IO, "cannot create an event: %s", strerror(errno));
    reader->start = (struct fth_position){.line = 1};
    if (reader->options.start)
        reader->start = *reader->options.start;
    reader->start.feature_state = NULL;
    reader->start.n_feature_state = 0;
    reader->position = reader->start;
    reader->reading_epoch = reader->made_epoch = reader->start.epoch;
    FTH_TRY(fth_lines_create(reader->set, reader->wake,
                             config->block_bytes < 1 ? 1 : (size_t)config->block_bytes,
                             &reader->lines, err));
    if (reader->start.epoch < reader->options.epochs)
        FTH_TRY(fth_lines_seek(reader->lines, reader->start.file_index, reader->start.byte_offset,
                               reader->start.line, err));
    else
        reader->over = 1;
    FTH_TRY(create_slots(reader, err));
    FTH_TRY(create_items(reader, err));
    FTH_TRY(fth_assembler_create(reader, err));
    return start_threads(reader, err);
}

fth_status fth_reader_create(fth_data_set *set, const struct fth_transform *transform,
                             const struct fth_reader_options *options, fth_reader **out,
                             fth_error *err) {
    FTH_TRY(check_options(set, options, err));
    struct fth_reader *reader = fth_alloc(1, sizeof *reader);
    if (!reader)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a reader");
    reader->set = set;
    reader->transform = *transform;
    reader->options = *options;
    reader->event = reader->wake = -1;
    pthread_mutex_init(&reader->read_lock, NULL);
    pthread_mutex_init(&reader->assemble_lock, NULL);
    pthread_cond_init(&reader->read_asked, NULL);
    fth_status status = reader_init(reader, err);
    if (status != FTH_OK) {
        fth_reader_destroy(reader);
        return status;
    }
    reader->options.start = NULL;
    *out = reader;
    return FTH_OK;
}

static void stop_threads(struct fth_reader *reader) {
    fth_queue *queues[] = {reader->free_slots, reader->to_parse, reader->in_order,
                           reader->free_items, reader->ready};
    uint64_t one = 1;
    atomic_store(&reader->stop, 1);
    /* Cannot fail on an event that is written once. */
    ssize_t written = write(reader->event, &one, sizeof one);
    (void)written;
    for (size_t q = 0; q < sizeof queues / sizeof queues[0]; q++)
        fth_queue_close(queues[q]);
    pthread_mutex_lock(&reader->read_lock);
    pthread_cond_broadcast(&reader->read_asked);
    pthread_mutex_unlock(&reader->read_lock);
    for (uint32_t t = 0; t < reader->n_started; t++)
        pthread_join(reader->threads[t], NULL);
}

void fth_reader_destroy(fth_reader *reader) {
    if (!reader)
        return;
    if (reader->n_started)
        stop_threads(reader);
    for (uint32_t s = 0; reader->slots && s < reader->n_slots; s++) {
        fth_block_destroy(reader->slots[s].block);
        fth_batch_destroy(reader->slots[s].examples);
        fth_free(reader->slots[s].scratch);
        sem_destroy(&reader->slots[s].parsed);
    }
    for (uint32_t w = 0; reader->memory && w < fth_pool_size(reader->options.pool); w++) {
        fth_free(reader->memory[w].scratch);
        fth_free(reader->memory[w].cells);
    }
    for (uint32_t i = 0; reader->items && i < reader->n_items; i++)
        fth_batch_destroy(reader->items[i].batch);
    fth_assembler_destroy(reader);
    fth_queue_destroy(reader->free_slots);
    fth_queue_destroy(reader->to_parse);
    fth_queue_destroy(reader->in_order);
    fth_queue_destroy(reader->free_items);
    fth_queue_destroy(reader->ready);
    fth_lines_destroy(reader->lines);
    pthread_cond_destroy(&reader->read_asked);
    pthread_mutex_destroy(&reader->read_lock);
    pthread_mutex_destroy(&reader->assemble_lock);
    if (reader->wake >= 0 && reader->wake != reader->event)
        close(reader->wake);
    if (reader->event >= 0)
        close(reader->event);
    fth_free(reader->made);
    fth_free(reader->memory);
    fth_free(reader->window);
    fth_free(reader->held);
    fth_free(reader->items);
    fth_free(reader->slots);
    fth_free(reader->threads);
    fth_free(reader);
}

/* ---- the caller's side ---- */

static struct fth_item *next_item(struct fth_reader *reader) {
    void *item;
    if (reader->n_threads)
        return fth_queue_pop(reader->ready, &item) ? item : NULL;
    if (reader->window)
        return fth_reader_round(reader);
    uint64_t since = fth_now_ns();
    fth_queue_pop(reader->free_items, &item);
    fth_assembler_next(reader, item);
    fth_reader_add_time(&reader->assemble_ns, since + reader->assembler.pull_ns);
    reader->assembler.pull_ns = 0;
    return item;
}

fth_status fth_reader_next(fth_reader *reader, struct fth_batch **batch, fth_error *err) {
    *batch = NULL;
    if (reader->over)
        return FTH_OK;
    if (reader->n_held == reader->options.held)
        return fth_fail(err, FTH_E_ARGUMENT, "%u batches are in hand; release one first",
                        reader->n_held);
    uint64_t since = fth_now_ns();
    struct fth_item *item = next_item(reader);
    fth_reader_add_time(&reader->wait_ns, since);
    if (item->kind == FTH_ITEM_FAILED) {
        reader->over = 1;
        return fth_fail(err, item->error.code, "%s", item->error.message);
    }
    reader->position = item->batch->after;
    reader->position.feature_state = NULL;
    reader->position.n_feature_state = 0;
    if (item->kind == FTH_ITEM_EPOCH_END) {
        reader->over = reader->position.epoch >= reader->options.epochs;
        fth_queue_push(reader->free_items, item);
        return FTH_OK;
    }
    atomic_fetch_add_explicit(&reader->examples, item->batch->n, memory_order_relaxed);
    reader->held[reader->n_held++] = item;
    *batch = item->batch;
    return FTH_OK;
}

void fth_reader_release(fth_reader *reader, struct fth_batch *batch) {
    for (uint32_t h = 0; h < reader->n_held; h++) {
        if (reader->held[h]->batch != batch)
            continue;
        fth_queue_push_first(reader->free_items, reader->held[h]); /* grown lists are used again first */
        reader->held[h] = reader->held[--reader->n_held];
        return;
    }
}

void fth_reader_get_position(const fth_reader *reader, struct fth_position *out) {
    *out = reader->position;
}

void fth_reader_get_counts(const fth_reader *reader, struct fth_reader_counts *out) {
    *out = (struct fth_reader_counts){
        .bytes = atomic_load_explicit(&reader->bytes, memory_order_relaxed),
        .direct_bytes = atomic_load_explicit(&reader->direct_bytes, memory_order_relaxed),
        .lines = atomic_load_explicit(&reader->n_lines, memory_order_relaxed),
        .bad = atomic_load_explicit(&reader->n_bad, memory_order_relaxed),
        .examples = atomic_load_explicit(&reader->examples, memory_order_relaxed),
        .read_ns = atomic_load_explicit(&reader->read_ns, memory_order_relaxed),
        .parse_ns = atomic_load_explicit(&reader->parse_ns, memory_order_relaxed),
        .assemble_ns = atomic_load_explicit(&reader->assemble_ns, memory_order_relaxed),
        .wait_ns = atomic_load_explicit(&reader->wait_ns, memory_order_relaxed),
        .rounds_ns = atomic_load_explicit(&reader->rounds_ns, memory_order_relaxed),
    };
}
