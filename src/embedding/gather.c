/* Reading rows: pooled or plain, straight into the tile's input. The start of a step's forward
 * part.
 *
 * Threads: any worker, any examples; rows are only read. Gathering for max pooling notes which
 * position gave each maximum, for the gradient: each example's notes belong to whoever gathers the
 * example. */
#include "embedding/embedding_private.h"

/* What a lookup's occurrences read: its member of the pack's rows, or the batch's own copies of rows or single
 * numbers. */
struct source {
    const uint32_t *row_of;
    const float *rows;
    uint32_t stride, dim;
};

/* The occurrences' own copies of the lookup's single numbers, one after the other; NULL if there are none. */
static const float *weights_of(const struct fth_embedding *embedding,
                               const struct fth_embedding_lookup *lookup) {
    const struct fth_pack *pack = &embedding->packs[lookup->pack];
    if (!lookup->spread || pack->one_number != lookup->member || fth_copied_part(embedding, lookup))
        return NULL;
    return embedding->weight_of + lookup->base;
}

/* Items are numbered from their part's first occurrence on, which another lookup of the table may have. */
static struct source source_of(const struct fth_embedding *embedding,
                               const struct fth_embedding_lookup *lookup) {
    const struct fth_pack *pack = &embedding->packs[lookup->pack];
    const struct fth_member *member = &pack->members[lookup->member];
    const struct fth_part *copied = fth_copied_part(embedding, lookup);
    const uint32_t *item_of = embedding->item_of + lookup->base;
    if (lookup->n > 0 && fth_member_copied(embedding, pack, lookup->member))
        return (struct source){item_of, embedding->item_weight + embedding->parts[lookup->first_part].base, 1, 1};
    if (copied)
        return (struct source){item_of, fth_part_copies(embedding, copied) + fth_copy_at(pack, lookup->member),
                               fth_copy_at(pack, pack->n_members), member->dim};
    return (struct source){embedding->row_of + lookup->base, pack->rows + member->at, pack->stride,
                           member->dim};
}

/* Rows of positions [first, first + n), times their values where the field has some. */
static void gather_positions(const struct fth_embedding *embedding,
                             const struct fth_embedding_lookup *lookup, uint32_t first, uint32_t n,
                             float *out, uint32_t ld) {
    struct source from = source_of(embedding, lookup);
    const uint32_t *rows = from.row_of + first;
    const float *weights = weights_of(embedding, lookup);
    if (weights) {
        for (uint32_t i = 0; i < n; i++)
            out[(size_t)i * ld] = weights[first + i] * (lookup->values ? lookup->values[first + i] : 1);
        return;
    }
    if (!lookup->values && from.stride == 1) { /* copies: a kernel's prefetches and masks cost more */
        for (uint32_t i = 0; i < n; i++)
            out[(size_t)i * ld] = from.rows[rows[i]];
        return;
    }
    if (!lookup->values) {
        embedding->kernels->gather(n, rows, from.rows, from.stride, from.dim, out, ld);
        return;
    }
    for (uint32_t done = 0; done < n;) {
        uint32_t m = n - done < embedding->max_batch ? n - done : embedding->max_batch;
        embedding->kernels->gather_pool(m, embedding->identity, rows + done,
                                        lookup->values + first + done, from.rows, from.stride,
                                        from.dim, FTH_POOL_SUM, out + (size_t)done * ld, ld, NULL);
        done += m;
    }
}

#define AHEAD 64u    /* occurrences behind the one at hand whose number is fetched */
#define NEAR 0x8000u /* so many numbers of a part stay in a second cache, beside what else is read */

/* As the kernel's sums of rows of one number, from copies that lie in the order of positions, or by item. */
static inline __attribute__((always_inline)) void
pool_numbers(const struct fth_embedding_lookup *lookup, const float *weights, const uint32_t *items, int fetch,
             const uint32_t *offsets, uint32_t n, float *out, uint32_t ld) {
    for (uint32_t i = 0; i < n; i++) {
        float sum = 0;
        for (uint32_t p = offsets[i]; p < offsets[i + 1]; p++) {
            if (fetch)
                __builtin_prefetch(&weights[items[p + AHEAD < offsets[n] ? p + AHEAD : p]]);
            float weight = weights[items ? items[p] : p];
            sum += lookup->values ? weight * lookup->values[p] : weight;
        }
        uint32_t length = offsets[i + 1] - offsets[i];
        out[(size_t)i * ld] = lookup->is.pooling == FTH_POOL_MEAN && length ? sum / (float)length : sum;
    }
}

/* Whether it did. */
static int pool_weights(const struct fth_embedding *embedding, const struct fth_embedding_lookup *lookup,
                        const uint32_t *offsets, uint32_t n, float *out, uint32_t ld) {
    const float *weights = weights_of(embedding, lookup);
    struct source from = source_of(embedding, lookup);
    if (lookup->is.pooling == FTH_POOL_MAX || (!weights && from.stride > 1))
        return 0;
    if (weights)
        pool_numbers(lookup, weights, NULL, 0, offsets, n, out, ld);
    else if (embedding->by_part && (lookup->n == 0 || embedding->parts[lookup->first_part].n_items <= NEAR))
        pool_numbers(lookup, from.rows, from.row_of, 0, offsets, n, out, ld);
    else
        pool_numbers(lookup, from.rows, from.row_of, 1, offsets, n, out, ld);
    return 1;
}

void fth_embedding_gather(void *ctx, uint32_t number, uint32_t example0, uint32_t n, float *out,
                          uint32_t ld) {
    const struct fth_embedding *embedding = ctx;
    const struct fth_embedding_lookup *lookup = &embedding->lookups[number];
    if (!embedding->batch)
        return;
    if (!lookup->offsets) {
        gather_positions(embedding, lookup, example0, n, out, ld);
        return;
    }
    const uint32_t *offsets = lookup->offsets + example0;
    if (lookup->is.pooling == FTH_POOL_NONE) {
        gather_positions(embedding, lookup, offsets[0], offsets[n] - offsets[0], out, ld);
        return;
    }
    if (pool_weights(embedding, lookup, offsets, n, out, ld))
        return;
    int largest = lookup->is.pooling == FTH_POOL_MAX;
    struct source from = source_of(embedding, lookup);
    embedding->kernels->gather_pool(n, offsets, from.row_of + offsets[0],
                                    lookup->values ? lookup->values + offsets[0] : NULL, from.rows,
                                    from.stride, from.dim, (fth_pooling)lookup->is.pooling, out, ld,
                                    largest ? lookup->argmax + (size_t)example0 * from.dim : NULL);
}

/* Lookup by lookup: example by example, and fetching the next lookup's first rows, were no faster
 * (docs/embedding.md). */
void fth_embedding_gather_many(void *ctx, const uint32_t *lookups, uint32_t n_lookups,
                               uint32_t example0, uint32_t n, float *out, uint32_t ld) {
    const struct fth_embedding *embedding = ctx;
    for (uint32_t l = 0; l < n_lookups; l++) {
        fth_embedding_gather(ctx, lookups[l], example0, n, out, ld);
        out += embedding->lookups[lookups[l]].is.dim;
    }
}

void fth_embedding_frequencies(void *ctx, uint32_t number, uint32_t example0, uint32_t n, float *out,
                               uint32_t ldo) {
    const struct fth_embedding *embedding = ctx;
    const struct fth_embedding_lookup *lookup = &embedding->lookups[number];
    const struct fth_pack *pack = &embedding->packs[lookup->pack];
    const uint32_t *rows = embedding->row_of + lookup->base + example0;
    for (uint32_t i = 0; i < n; i++)
        out[(size_t)i * ldo] = embedding->batch ? (float)fth_pack_get_meta(pack, rows[i]).frequency : 0;
}
