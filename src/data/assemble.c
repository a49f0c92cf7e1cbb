/* The assembler: parsed blocks, in order, to batches.
 *
 *   slot --choose (holdout)--> [buffer, permuted] --fill--> batch --finish--> item
 *
 * Threads: everything here runs on the assembling thread (or the caller's when there are no
 * threads). Invariant: all that a batch and its position hold is counted by examples and lines,
 * never by blocks, so that it does not matter where blocks were cut. */
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "data/reader_private.h"

#define WARNINGS 10u /* malformed lines that are logged when they are skipped */
#define AT_ONCE (1u << 12) /* a larger shuffle buffer grows with the examples: there may be fewer than it could hold */

/* Room for the order of n examples. */
static fth_status make_order(struct fth_assembler *a, uint32_t n, fth_error *err) {
    if (n <= a->n_order)
        return FTH_OK;
    fth_free(a->order);
    a->order = fth_alloc(n, sizeof *a->order);
    a->n_order = a->order ? n : 0;
    return a->order ? FTH_OK : fth_fail(err, FTH_E_MEMORY, "no memory for a shuffle buffer of %u examples", n);
}

fth_status fth_assembler_create(struct fth_reader *reader, fth_error *err) {
    struct fth_assembler *a = &reader->assembler;
    int64_t shuffle = reader->options.train ? reader->set->config->shuffle : 0;
    a->here = a->begin = reader->start;
    a->here.taken = a->begin.taken = 0;
    a->base_example = reader->start.example;
    a->base_read = reader->start.lines_read;
    a->base_bad = reader->start.lines_bad;
    a->base_epoch_bad = a->epoch_bad = reader->start.epoch_lines_bad;
    a->examples_before = reader->start.example;
    if (shuffle <= 0)
        return FTH_OK;
    if (shuffle > INT32_MAX)
        return fth_fail(err, FTH_E_CONFIG,
                        "data.shuffle: %lld examples are more than the %d it can hold",
                        (long long)shuffle, INT32_MAX);
    uint32_t room = shuffle < AT_ONCE ? (uint32_t)shuffle : AT_ONCE;
    FTH_TRY(fth_batch_create(reader->transform.schema, room, &a->buffer, err));
    a->buffer->most = (uint32_t)shuffle;
    return make_order(a, room, err);
}

void fth_assembler_destroy(struct fth_reader *reader) {
    struct fth_assembler *a = &reader->assembler;
    fth_batch_destroy(a->buffer);
    fth_free(a->order);
    fth_free(a->chosen);
    fth_free(a->row);
}

/* Values that features left out, or took as missing, with the configuration's leave: counted, the first ones told. */
static void tell_bad_values(struct fth_reader *reader, const struct fth_block *block) {
    struct fth_assembler *a = &reader->assembler;
    if (block->n_bad_values == 0)
        return;
    a->epoch_bad_values += block->n_bad_values;
    if (a->warnings == WARNINGS)
        return;
    a->warnings++;
    fth_log(FTH_LOG_WARN, "%llu bad value%s: %s%s", (unsigned long long)block->n_bad_values,
            block->n_bad_values == 1 ? "" : "s, the first one", block->first_bad_value.message,
            a->warnings == WARNINGS ? " (more will not be told)" : "");
}

/* Lists that are longer than the standard max_length: the first one is told, once. */
static void tell_cut(struct fth_reader *reader, const struct fth_block *block) {
    struct fth_assembler *a = &reader->assembler;
    if (block->first_cut.code == FTH_OK || a->told_cut || !reader->options.train)
        return;
    a->told_cut = 1;
    fth_log(FTH_LOG_WARN, "%s", block->first_cut.message);
}

/* Malformed lines of the slot: counted, or the end; what stands before the first of them is given out all
 * the same, so that where blocks were cut does not show. */
static void check_bad(struct fth_reader *reader, const struct fth_block *block) {
    struct fth_assembler *a = &reader->assembler;
    const struct fth_data_config *config = reader->set->config;
    if (block->n_bad == 0)
        return;
    a->epoch_bad += block->n_bad;
    atomic_fetch_add_explicit(&reader->n_bad, block->n_bad, memory_order_relaxed);
    if (config->on_bad_line == FTH_BAD_STOP) {
        a->stop_at = block->first_bad_line;
        return;
    }
    if (config->bad_line_limit >= 0 && a->epoch_bad > (uint64_t)config->bad_line_limit) {
        a->stop_at = block->first_bad_line; /* of the block that has one too many */
        return;
    }
    if (a->warnings < WARNINGS) {
        a->warnings++;
        fth_log(FTH_LOG_WARN, "skipped %llu malformed line%s: %s%s",
                (unsigned long long)block->n_bad, block->n_bad == 1 ? "" : "s, the first one",
                block->first_bad.message,
                a->warnings == WARNINGS ? " (more will not be told)" : "");
    }
}

static fth_status fail_bad(const struct fth_reader *reader, const struct fth_block *block, fth_error *err) {
    const struct fth_data_config *config = reader->set->config;
    if (config->on_bad_line == FTH_BAD_STOP)
        return fth_fail(err, FTH_E_DATA, "%s", block->first_bad.message);
    return fth_fail(err, FTH_E_DATA, "%s (more malformed lines than the %lld that data.on_bad_line allows)",
                    block->first_bad.message, (long long)config->bad_line_limit);
}

static fth_status choose(struct fth_reader *reader, struct fth_slot *slot, fth_error *err) {
    struct fth_assembler *a = &reader->assembler;
    struct fth_batch *examples = slot->examples;
    const struct fth_block *block = slot->block;
    if (a->capacity < examples->n) {
        fth_free(a->chosen);
        fth_free(a->row);
        a->capacity = 0;
        a->chosen = fth_alloc(examples->capacity, sizeof *a->chosen);
        a->row = fth_alloc(examples->capacity, sizeof *a->row);
        if (!a->chosen || !a->row)
            return fth_fail(err, FTH_E_MEMORY, "no memory to choose from %u examples", examples->n);
        a->capacity = examples->capacity;
    }
    uint32_t row = 0;
    for (uint32_t i = 0; i < examples->n; i++, row++) {
        /* The transform leaves out rows that it refuses. */
        while (block->example_number[row] != examples->example_number[i])
            row++;
        if (a->stop_at && block->line_number[row] > a->stop_at)
            break;
        examples->example_number[i] += a->examples_before;
        if (!fth_data_set_has(reader->set, block, row, examples->example_number[i]))
            continue;
        a->chosen[a->n_chosen] = i;
        a->row[a->n_chosen++] = row;
    }
    return FTH_OK;
}

static void drop_slot(struct fth_reader *reader) {
    struct fth_assembler *a = &reader->assembler;
    if (!a->slot)
        return;
    a->examples_before += a->slot->block->n_data;
    if (!a->slot->only_count)
        a->good += a->slot->examples->n;
    else
        a->good += a->slot->block->n_data;
    fth_reader_put_back(reader, a->slot);
    a->slot = NULL;
    a->n_chosen = a->cursor = 0;
}

/* Brings chosen examples into hand. FTH_E_INTERRUPTED: the reader is being destroyed, or the
 * next slot is not parsed yet (rounds.c). */
static fth_status next_slot(struct fth_reader *reader, fth_error *err) {
    struct fth_assembler *a = &reader->assembler;
    while (!a->epoch_ended && a->cursor == a->n_chosen) {
        if (a->stop_at)
            return fail_bad(reader, a->slot->block, err);
        drop_slot(reader);
        struct fth_slot *slot = fth_reader_pull(reader);
        if (!slot)
            return FTH_E_INTERRUPTED;
        fth_status status = FTH_OK;
        if (slot->kind == FTH_SLOT_FAILED) {
            if (err)
                *err = slot->error;
            status = slot->status;
        } else if (slot->kind == FTH_SLOT_EPOCH_END) {
            a->epoch_ended = 1;
            if (a->epoch_bad_values)
                fth_log(FTH_LOG_WARN, "%llu bad value%s in this pass over the data (on_bad_value)",
                        (unsigned long long)a->epoch_bad_values, a->epoch_bad_values == 1 ? "" : "s");
        } else {
            atomic_fetch_add_explicit(&reader->bytes, slot->block->text_length,
                                      memory_order_relaxed);
            atomic_fetch_add_explicit(&reader->n_lines, slot->block->n_data, memory_order_relaxed);
            if (!slot->only_count) {
                check_bad(reader, slot->block);
                tell_bad_values(reader, slot->block);
                tell_cut(reader, slot->block);
                FTH_TRY_GOTO(status, choose(reader, slot, err), failed);
            }
            a->slot = slot;
            continue;
        }
    failed:
        fth_reader_put_back(reader, slot);
        FTH_TRY(status);
    }
    return FTH_OK;
}

/* `here` moves behind the line of chosen example c. */
static void move_behind(struct fth_reader *reader, uint32_t c) {
    struct fth_assembler *a = &reader->assembler;
    const struct fth_block *block = a->slot->block;
    uint32_t row = a->row[c], start = block->line_start[row], end = block->line_end[row];
    uint64_t good = a->good + a->chosen[c] + 1;
    a->here.file_index = block->file_index;
    a->here.byte_offset = block->byte_offset + end;
    a->here.line = block->line_number[row] +
                   reader->set->parser.kernels->count_byte(block->text + start, end - start, '\n');
    a->here.example = a->slot->examples->example_number[a->chosen[c]] + 1;
    a->here.lines_read = a->base_read + (a->here.example - a->base_example);
    uint64_t bad = a->here.example - a->base_example - good;
    a->here.lines_bad = a->base_bad + bad;
    a->here.epoch_lines_bad = a->base_epoch_bad + bad;
}

/* Up to `want` chosen examples of the slot in hand. */
static fth_status take(struct fth_reader *reader, struct fth_batch *to, uint32_t want,
                       fth_error *err) {
    struct fth_assembler *a = &reader->assembler;
    uint32_t n = a->n_chosen - a->cursor;
    if (n > want)
        n = want;
    FTH_TRY(fth_batch_append(to, a->slot->examples, a->chosen + a->cursor, n, err));
    a->cursor += n;
    move_behind(reader, a->cursor - 1);
    return FTH_OK;
}

/* A permutation by Fisher and Yates whose draws depend on (seed, epoch, shuffle block, element)
 * alone. */
static void permute(const struct fth_reader *reader, uint32_t *order, uint32_t n) {
    const struct fth_position *begin = &reader->assembler.begin;
    uint32_t draw[4] = {0};
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t i = 0; i + 1 < n; i++) {
        if (i % 4 == 0)
            fth_random_draw(reader->options.seed, FTH_RANDOM_SHUFFLE, begin->epoch,
                            begin->block << 32 | i / 4, draw);
        uint32_t other = i + (uint32_t)((uint64_t)draw[i % 4] * (n - i) >> 32);
        uint32_t swapped = order[i];
        order[i] = order[other];
        order[other] = swapped;
    }
}

static fth_status fill_buffer(struct fth_reader *reader, fth_error *err) {
    struct fth_assembler *a = &reader->assembler;
    uint32_t size = (uint32_t)reader->set->config->shuffle;
    if (!a->in_buffer) {
        fth_batch_clear(a->buffer);
        a->begin = a->here;
        a->in_buffer = 1;
    }
    while (a->buffer->n < size) {
        FTH_TRY(next_slot(reader, err));
        if (a->cursor == a->n_chosen)
            break;
        FTH_TRY(take(reader, a->buffer, size - a->buffer->n, err));
    }
    FTH_TRY(make_order(a, a->buffer->n, err));
    permute(reader, a->order, a->buffer->n);
    a->taken = 0;
    a->in_buffer = 0;
    return FTH_OK;
}

/* As many examples as there are, up to the batch size. */
static fth_status fill_batch(struct fth_reader *reader, struct fth_batch *batch, fth_error *err) {
    struct fth_assembler *a = &reader->assembler;
    uint32_t size = reader->options.batch_size;
    while (batch->n < size) {
        if (!a->buffer) {
            FTH_TRY(next_slot(reader, err));
            if (a->cursor == a->n_chosen)
                return FTH_OK;
            FTH_TRY(take(reader, batch, size - batch->n, err));
            continue;
        }
        if (a->in_buffer || a->taken == a->buffer->n) {
            FTH_TRY(fill_buffer(reader, err));
            if (a->buffer->n == 0)
                return FTH_OK;
        }
        uint64_t left = a->buffer->n - a->taken;
        uint32_t n = left < size - batch->n ? (uint32_t)left : size - batch->n;
        FTH_TRY(fth_batch_append(batch, a->buffer, a->order + a->taken, n, err));
        a->taken += n;
        if (a->taken == a->buffer->n)
            a->here.block++;
    }
    return FTH_OK;
}

/* Keeps what belongs to the batch's own memory. */
static void set_position(struct fth_batch *batch, const struct fth_position *position) {
    double *state = batch->after.feature_state;
    size_t n = batch->after.n_feature_state;
    batch->after = *position;
    batch->after.feature_state = state;
    batch->after.n_feature_state = n;
}

static void begin_epoch(struct fth_assembler *a) {
    uint64_t lines = a->examples_before - a->base_example;
    a->base_read += lines;
    a->base_bad += lines - a->good;
    a->base_example = a->examples_before = a->good = a->epoch_bad = a->epoch_bad_values = 0;
    a->base_epoch_bad = 0;
    a->epoch_ended = 0;
    a->here = (struct fth_position){.epoch = a->here.epoch + 1,
                                    .line = 1,
                                    .examples_seen = a->here.examples_seen,
                                    .lines_read = a->base_read,
                                    .lines_bad = a->base_bad};
    a->taken = 0;
    if (a->buffer)
        fth_batch_clear(a->buffer);
}

/* Going on within a shuffle block: it is filled and permuted again, and the examples that were
 * given out are passed over. */
static fth_status resume_buffer(struct fth_reader *reader, fth_error *err) {
    struct fth_assembler *a = &reader->assembler;
    uint64_t taken = reader->start.taken;
    if (a->buffer)
        FTH_TRY(fill_buffer(reader, err));
    reader->start.taken = 0;
    if (!a->buffer || taken > a->buffer->n)
        return fth_fail(
            err, FTH_E_DATA,
            "%llu examples of a shuffle block were used, but it holds %u: data or data.shuffle "
            "are not those of before",
            (unsigned long long)taken, a->buffer ? a->buffer->n : 0);
    a->taken = taken;
    if (taken == a->buffer->n)
        a->here.block++;
    return FTH_OK;
}

static fth_status next_batch(struct fth_reader *reader, struct fth_item *item, fth_error *err) {
    struct fth_assembler *a = &reader->assembler;
    struct fth_batch *batch = item->batch;
    if (!a->in_batch)
        fth_batch_clear(batch);
    a->in_batch = 1;
    if (reader->start.taken)
        FTH_TRY(resume_buffer(reader, err));
    FTH_TRY(fill_batch(reader, batch, err));
    a->in_batch = 0;
    if (batch->n == 0) {
        begin_epoch(a);
        set_position(batch, &a->here);
        item->kind = FTH_ITEM_EPOCH_END;
        return FTH_OK;
    }
    a->here.examples_seen += batch->n;
    struct fth_position position = a->here;
    if (a->buffer && a->taken < a->buffer->n) {
        position = a->begin;
        position.taken = a->taken;
        position.examples_seen = a->here.examples_seen;
    }
    item->kind = FTH_ITEM_BATCH;
    if (reader->options.train)
        set_position(batch, &position);
    return reader->transform.finish(reader->transform.ctx, batch, reader->options.train, err);
}

int fth_assembler_next(struct fth_reader *reader, struct fth_item *item) {
    item->error.code = FTH_OK;
    fth_status status = next_batch(reader, item, &item->error);
    if (status == FTH_OK)
        return 1;
    if (status == FTH_E_INTERRUPTED && (reader->starved || atomic_load(&reader->stop)))
        return 0;
    item->error.code = status;
    item->kind = FTH_ITEM_FAILED;
    return 1;
}
