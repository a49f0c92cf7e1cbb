/* What a reader does with a block, and the threads that do it.
 *
 * Order: the reading thread puts a block first into to_parse, then into in_order; the assembler
 * takes blocks from in_order and waits for each one's `parsed`. Every block in in_order is in
 * to_parse or with a parser, and parsers empty to_parse even when it is closed, so that wait always
 * ends. */
#include <errno.h>

#include "base/clock.h"
#include "data/reader_private.h"

void fth_reader_add_time(_Atomic uint64_t *counter, uint64_t since) {
    atomic_fetch_add_explicit(counter, fth_now_ns() - since, memory_order_relaxed);
}

/* ---- the three steps ---- */

int fth_reader_read(struct fth_reader *reader, struct fth_slot *slot, int now) {
    const fth_data_set *set = reader->set;
    uint64_t since = fth_now_ns();
    int got = 0;
    slot->only_count = 0;
    slot->error = (fth_error){0};
    slot->status = now ? fth_lines_next_now(reader->lines, slot->block, &got, &slot->error)
                       : fth_lines_next(reader->lines, slot->block, &got, &slot->error);
    if (now && slot->status == FTH_E_INTERRUPTED)
        return 0;
    slot->kind = slot->status != FTH_OK ? FTH_SLOT_FAILED
                 : got                  ? FTH_SLOT_BLOCK
                                        : FTH_SLOT_EPOCH_END;
    if (slot->kind == FTH_SLOT_BLOCK && fth_lines_is_direct(reader->lines))
        atomic_fetch_add_explicit(&reader->direct_bytes, slot->block->text_length, memory_order_relaxed);
    if (slot->kind == FTH_SLOT_BLOCK && set->select == FTH_SELECT_TAIL)
        slot->only_count =
            set->file_start[slot->block->file_index] + slot->block->byte_offset < set->cut;
    if (slot->kind == FTH_SLOT_EPOCH_END && ++reader->reading_epoch < reader->options.epochs) {
        slot->status = fth_lines_seek(reader->lines, 0, 0, 1, &slot->error);
        if (slot->status != FTH_OK)
            slot->kind = FTH_SLOT_FAILED;
    }
    fth_reader_add_time(&reader->read_ns, since);
    return 1;
}

int fth_reader_read_last(const struct fth_reader *reader, const struct fth_slot *slot) {
    return slot->kind == FTH_SLOT_FAILED ||
           (slot->kind == FTH_SLOT_EPOCH_END && reader->reading_epoch == reader->options.epochs);
}

void fth_reader_parse(struct fth_reader *reader, struct fth_slot *slot, uint32_t *scratch) {
    const struct fth_parser *parser = &reader->set->parser;
    uint64_t since = fth_now_ns();
    slot->status = fth_parser_parse(parser, slot->block, scratch, &slot->error);
    if (slot->status == FTH_OK && !slot->only_count) {
        fth_batch_clear(slot->examples);
        slot->status = reader->transform.examples(reader->transform.ctx, slot->block,
                                                  slot->examples, &slot->error);
    }
    if (slot->status != FTH_OK)
        slot->kind = FTH_SLOT_FAILED;
    fth_reader_add_time(&reader->parse_ns, since);
}

/* ---- threads ---- */

void *fth_reader_reading_main(void *arg) {
    struct fth_reader *reader = arg;
    void *item;
    int more = reader->reading_epoch < reader->options.epochs;
    while (more && fth_queue_pop(reader->free_slots, &item) && !atomic_load(&reader->stop)) {
        struct fth_slot *slot = item;
        fth_reader_read(reader, slot, 0);
        /* A parser may turn the slot into a failed one as soon as it has it. */
        more = !fth_reader_read_last(reader, slot);
        if (slot->kind == FTH_SLOT_BLOCK) {
            if (!fth_queue_push(reader->to_parse, slot))
                break;
        } else {
            sem_post(&slot->parsed);
        }
        if (!fth_queue_push(reader->in_order, slot))
            break;
    }
    fth_queue_close(reader->to_parse);
    fth_queue_close(reader->in_order);
    return NULL;
}

void *fth_reader_parsing_main(void *arg) {
    struct fth_reader *reader = arg;
    void *item;
    while (fth_queue_pop(reader->to_parse, &item)) {
        struct fth_slot *slot = item;
        if (!atomic_load(&reader->stop))
            fth_reader_parse(reader, slot, slot->scratch);
        sem_post(&slot->parsed);
    }
    return NULL;
}

void *fth_reader_assembling_main(void *arg) {
    struct fth_reader *reader = arg;
    uint64_t epoch = reader->start.epoch;
    void *popped;
    while (epoch < reader->options.epochs && fth_queue_pop(reader->free_items, &popped)) {
        struct fth_item *item = popped;
        uint64_t since = fth_now_ns();
        if (atomic_load(&reader->stop) || !fth_assembler_next(reader, item))
            break;
        fth_reader_add_time(&reader->assemble_ns, since + reader->assembler.pull_ns);
        reader->assembler.pull_ns = 0;
        enum fth_item_kind kind = item->kind;
        if (!fth_queue_push(reader->ready, item) || kind == FTH_ITEM_FAILED)
            break;
        epoch += kind == FTH_ITEM_EPOCH_END;
    }
    return NULL;
}

static struct fth_slot *pull(struct fth_reader *reader) {
    if (reader->window)
        return fth_reader_take_parsed(reader);
    if (reader->n_threads == 0) {
        struct fth_slot *slot = &reader->slots[0];
        fth_reader_read(reader, slot, 0);
        if (slot->kind == FTH_SLOT_BLOCK)
            fth_reader_parse(reader, slot, slot->scratch);
        return slot;
    }
    void *item;
    if (!fth_queue_pop(reader->in_order, &item))
        return NULL;
    struct fth_slot *slot = item;
    while (sem_wait(&slot->parsed) != 0 && errno == EINTR)
        ;
    return atomic_load(&reader->stop) ? NULL : slot;
}

struct fth_slot *fth_reader_pull(struct fth_reader *reader) {
    uint64_t since = fth_now_ns();
    struct fth_slot *slot = pull(reader);
    reader->assembler.pull_ns += fth_now_ns() - since;
    return slot;
}

void fth_reader_put_back(struct fth_reader *reader, struct fth_slot *slot) {
    if (reader->n_threads || reader->window)
        fth_queue_push_first(reader->free_slots, slot);
}
