/* Training rows of one number, the linear terms of models: the sums and updates of update.c, bit for bit. A
 * row's own arithmetic is a few operations, so rows are taken a block at a time: each one's gradients are
 * summed while its memory is fetched, then weights and slots are brought side by side, the optimizer is
 * called once for all, and they are put back.
 *
 * Where a part's items are its unique keys (parts.c), there are no lists of occurrences: gradients are
 * added to their items' sums while the part's occurrences are walked through, which is the same order.
 *
 * Threads: as update.c; nothing but the rows of the range is written. */
#include <string.h>

#include "embedding/update_private.h"

#define ROWS_AHEAD 20 /* asked for at once: more than about 24 lines are not fetched */

/* The sum of the gradients of the key's occurrences, as from sum_rows; 0 when there are none. */
static int sum_row(const struct fth_update_work *work, uint32_t unique, float *out) {
    const struct fth_embedding *embedding = work->embedding;
    const uint32_t *end = embedding->list + embedding->unique_end[unique];
    const uint32_t *at = end - embedding->unique_count[unique];
    uint32_t n = 0;
    float sum = 0, last = 0;
    int scaled = 0;
    while (at < end) {
        const struct fth_embedding_lookup *lookup =
            fth_member_lookup_of(embedding, *at, work->member);
        const struct fth_own_gradients *own = &work->own[lookup - embedding->lookups];
        const uint32_t *begin = at;
        if (own->first > own->last) {
            while (at < end && *at < lookup->end)
                at++;
            continue;
        }
        const float *gradient = work->gradients[own->first].gradient;
        size_t ld = work->gradients[own->first].ld;
        int plain = !lookup->values && !fth_lookup_pooled(&lookup->is);
        if (lookup->by_example && lookup->share) {
            const float *share = lookup->share;
            uint32_t base = lookup->base, unlike = 0;
            for (uint32_t to = lookup->end; at < end && *at < to; at++) {
                uint32_t row = *at - base;
                last = gradient[row * ld];
                unlike |= fth_unlike_one(share[row]);
                sum += share[row] * last;
            }
            scaled |= unlike != 0;
        }
        for (; at < end && *at < lookup->end; at++) {
            uint32_t row = *at - lookup->base;
            float scale = plain ? 1 : fth_source_scale(embedding, lookup, *at, &row);
            last = gradient[row * ld];
            scaled |= scale != 1;
            sum += scale * last;
        }
        n += (uint32_t)(at - begin);
    }
    *out = n == 1 && !scaled ? last : sum;
    return n > 0;
}

void fth_update_numbers(const struct fth_update_work *work, const struct fth_member *member,
                        struct fth_number_block *block, const struct fth_opt_args *args) {
    const struct fth_optimizer *optimizer = member->optimizer->is;
    float weight[FTH_NUMBERS], slot[FTH_MAX_SLOTS][FTH_NUMBERS], *slots[FTH_MAX_SLOTS] = {slot[0], slot[1]};
    for (uint32_t i = 0; i < block->n; i++) {
        weight[i] = block->row[i][member->at];
        for (uint32_t s = 0; s < optimizer->n_slots; s++)
            slot[s][i] = block->row[i][member->slot_at[s]];
    }
    if (block->n > 0)
        optimizer->apply(work->embedding->kernels, block->n, weight, slots, block->gradient, &args[member->linear],
                         NULL);
    for (uint32_t i = 0; i < block->n; i++) {
        block->row[i][member->at] = weight[i];
        for (uint32_t s = 0; s < optimizer->n_slots; s++)
            block->row[i][member->slot_at[s]] = slot[s][i];
    }
    block->n = 0;
}

void fth_update_single(const struct fth_update_work *work, const struct fth_pack *pack,
                       uint32_t unique, uint32_t last, const struct fth_opt_args *args) {
    const struct fth_embedding *embedding = work->embedding;
    const struct fth_member *member = &pack->members[work->member];
    struct fth_number_block block = {.n = 0};
    for (; unique < last; unique++) {
        uint32_t row = embedding->unique_row[unique];
        float *memory = fth_pack_row(pack, row), gradient;
        if (row == FTH_ROW_NONE)
            continue;
        __builtin_prefetch(memory + member->at, 1);
        if (sum_row(work, unique, &gradient))
            fth_update_number(work, member, &block, memory, gradient, args);
    }
    fth_update_numbers(work, member, &block, args);
}

/* ---- a part's items ---- */

/* Adds one gradient's share of the part to the items' sums. */
static void add_gradient(const struct fth_update_work *work, const struct fth_part *part,
                         const struct fth_row_gradient *from, float *sum, uint8_t *scaled) {
    const struct fth_embedding *embedding = work->embedding;
    const struct fth_embedding_lookup *lookup = &embedding->lookups[part->lookup];
    const uint32_t *item_of = embedding->item_of + part->base;
    const float *gradient = from->gradient;
    size_t ld = from->ld;
    if (!lookup->values && !fth_lookup_pooled(&lookup->is)) {
        gradient += (part->base - lookup->base) * ld;
        for (uint32_t i = 0; i < part->n; i++)
            sum[item_of[i]] += gradient[i * ld];
        return;
    }
    for (uint32_t i = 0; i < part->n; i++) {
        uint32_t row;
        float scale = fth_occurrence_scale(embedding, lookup, part->base + i, &row);
        scaled[item_of[i]] |= scale != 1;
        sum[item_of[i]] += scale * gradient[row * ld];
    }
}

/* The items' gradients; 0 when the lookup has none. Sums begin at -0, which adds nothing to anything: one
 * plain gradient is its own sum. */
static int sum_items(const struct fth_update_work *work, const struct fth_part *part, float *sum) {
    const struct fth_embedding *embedding = work->embedding;
    const struct fth_own_gradients *own = &work->own[part->lookup];
    uint8_t scaled[1 << FTH_PART_SHIFT_MAX];
    uint32_t n = 0;
    for (uint32_t u = 0; u < part->n_items; u++)
        sum[u] = -0.0f;
    memset(scaled, 0, part->n_items);
    for (uint32_t i = own->first; i <= own->last; i++) {
        const struct fth_row_gradient *from = &work->gradients[i];
        if (from->parts || from->lookup != part->lookup)
            continue;
        add_gradient(work, part, from, sum, scaled);
        n++;
    }
    static const float zero[2] = {-0.0f, 0.0f}; /* no branch: which it is nothing foretells */
    const uint32_t *count = embedding->item_count + part->base;
    for (uint32_t u = 0; u < part->n_items; u++)
        sum[u] += zero[(n > 1) | scaled[u] | (count[u] > 1)];
    return n > 0;
}

void fth_update_part(const struct fth_update_work *work, const struct fth_part *part,
                     const struct fth_opt_args *args) {
    const struct fth_embedding *embedding = work->embedding;
    const struct fth_pack *pack = &embedding->packs[embedding->lookups[part->lookup].pack];
    const uint32_t *rows = embedding->unique_row + part->base;
    float sum[1 << FTH_PART_SHIFT_MAX];
    struct fth_number_block block = {.n = 0};
    for (uint32_t u = 0; u < part->n_items && u < ROWS_AHEAD; u++)
        __builtin_prefetch(fth_pack_row(pack, rows[u]), 1);
    int trained = sum_items(work, part, sum);
    for (uint32_t u = 0; u < part->n_items; u++) {
        if (u + ROWS_AHEAD < part->n_items)
            __builtin_prefetch(fth_pack_row(pack, rows[u + ROWS_AHEAD]), 1);
        fth_count_unique(embedding, pack, part->base + u);
        if (rows[u] != FTH_ROW_NONE && trained)
            fth_update_number(work, &pack->members[0], &block, fth_pack_row(pack, rows[u]), sum[u], args);
    }
    fth_update_numbers(work, &pack->members[0], &block, args);
}

double fth_part_squares(const struct fth_update_work *work, const struct fth_part *part,
                        double squares) {
    const uint32_t *rows = work->embedding->unique_row + part->base;
    float sum[1 << FTH_PART_SHIFT_MAX];
    if (!sum_items(work, part, sum))
        return squares;
    for (uint32_t u = 0; u < part->n_items; u++)
        if (rows[u] != FTH_ROW_NONE)
            squares += work->embedding->kernels->sum_squares(1, &sum[u]);
    return squares;
}
