/* Training rows of one number, the linear terms of models: the sums and updates of update.c, bit for bit. A
 * row's own arithmetic is a few operations, so rows are taken a block at a time: each one's gradients are
 * summed while its memory is fetched, then weights and slots are brought side by side, the optimizer is
 * called once for all, and they are put back.
 *
 * Threads: as update.c; nothing but the rows of the range is written. */
#include "embedding/update_private.h"

#define ROWS 64

struct block {
    uint32_t n;
    float *row[ROWS];
    float gradient[ROWS], weight[ROWS], slot[FTH_MAX_SLOTS][ROWS];
};

int fth_update_single_fits(const struct fth_update_work *work, const struct fth_pack *pack) {
    const struct fth_embedding *embedding = work->embedding;
    if (pack->dim != 1 || embedding->optimizer->rowwise)
        return 0;
    for (uint32_t l = 0; l < embedding->n_lookups; l++) {
        const struct fth_embedding_lookup *lookup = &embedding->lookups[l];
        const struct fth_own_gradients *own = &work->own[l];
        if (&embedding->packs[lookup->pack] == pack &&
            (own->first < own->last || own->first_unique <= own->last_unique || lookup->argmax))
            return 0;
    }
    return 1;
}

/* The sum of the gradients of the key's occurrences, as from sum_rows; 0 when there are none. */
static int sum_row(const struct fth_update_work *work, uint32_t unique, float *out) {
    const struct fth_embedding *embedding = work->embedding;
    const uint32_t *end = embedding->list + embedding->unique_end[unique];
    const uint32_t *at = end - embedding->unique_count[unique];
    uint32_t n = 0;
    float sum = 0, last = 0;
    int scaled = 0;
    while (at < end) {
        uint32_t part = *at >> embedding->part_shift;
        const struct fth_embedding_lookup *lookup = fth_lookup_of(embedding, *at);
        const struct fth_own_gradients *own = &work->own[lookup - embedding->lookups];
        const uint32_t *begin = at;
        if (own->first > own->last) {
            while (at < end && *at >> embedding->part_shift == part)
                at++;
            continue;
        }
        const float *gradient = work->gradients[own->first].gradient;
        size_t ld = work->gradients[own->first].ld;
        int plain = !lookup->values && !fth_lookup_pooled(&lookup->is);
        for (; at < end && *at >> embedding->part_shift == part; at++) {
            uint32_t row = *at - lookup->base;
            float scale = plain ? 1 : fth_occurrence_scale(embedding, lookup, *at, &row);
            last = gradient[row * ld];
            scaled |= scale != 1;
            sum += scale * last;
        }
        n += (uint32_t)(at - begin);
    }
    *out = n == 1 && !scaled ? last : sum;
    return n > 0;
}

static void update_block(const struct fth_update_work *work, const struct fth_pack *pack,
                         struct block *block, const struct fth_opt_args *args) {
    const struct fth_optimizer *optimizer = work->embedding->optimizer;
    float *slots[FTH_MAX_SLOTS] = {block->slot[0], block->slot[1]};
    for (uint32_t i = 0; i < block->n; i++) {
        block->weight[i] = block->row[i][0];
        for (uint32_t s = 0; s < optimizer->n_slots; s++)
            block->slot[s][i] = block->row[i][pack->slot_at[s]];
    }
    optimizer->apply(work->embedding->kernels, block->n, block->weight, slots, block->gradient, args,
                     NULL);
    for (uint32_t i = 0; i < block->n; i++) {
        block->row[i][0] = block->weight[i];
        for (uint32_t s = 0; s < optimizer->n_slots; s++)
            block->row[i][pack->slot_at[s]] = block->slot[s][i];
    }
    block->n = 0;
}

void fth_update_single(const struct fth_update_work *work, const struct fth_pack *pack,
                       uint32_t unique, uint32_t last, const struct fth_opt_args *args) {
    const struct fth_embedding *embedding = work->embedding;
    struct block block = {.n = 0};
    for (; unique < last; unique++) {
        uint32_t row = embedding->unique_row[unique];
        if (row == FTH_ROW_NONE)
            continue;
        float *memory = fth_pack_row(pack, row);
        __builtin_prefetch(memory, 1);
        if (!sum_row(work, unique, &block.gradient[block.n]))
            continue;
        block.row[block.n++] = memory;
        if (block.n == ROWS)
            update_block(work, pack, &block, args);
    }
    if (block.n)
        update_block(work, pack, &block, args);
}
