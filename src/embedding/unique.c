/* The unique rows of single-key lookups, numbered by first occurrence, for whoever works on unique
 * rows instead of examples (graph/rows.h). The last part of prepare.
 *
 *   number     [batch]       which unique row an example has
 *   begin      [most + 1]    where its examples begin in
 *   examples   [batch]       the examples, unique row by unique row
 *   rows       [most][ld]    copies of the weights, one after the other
 *
 * All four lie in one region a lookup, for the largest batch. A lookup with more unique rows than
 * fth_unique_most is given up on the way, so that little is spent on it.
 *
 * Threads: a task a lookup; it reads what prepare's phases found. */
#include "base/memory.h"
#include "embedding/embedding_private.h"

#define GATHERED 64 /* rows copied at once */

static size_t aligned(size_t bytes) {
    return (bytes + FTH_CACHE_LINE - 1) & ~(size_t)(FTH_CACHE_LINE - 1);
}

static size_t region_bytes(const struct fth_embedding_lookup *lookup, uint32_t max_batch) {
    size_t most = (size_t)fth_unique_most(max_batch) + 1;
    return 2 * aligned(max_batch * sizeof(uint32_t)) + aligned((most + 1) * sizeof(uint32_t)) +
           most * fth_padded_columns(lookup->is.dim) * sizeof(float) + 16 * FTH_CACHE_LINE;
}

fth_status fth_embedding_unique_create(struct fth_embedding_lookup *lookup, uint32_t max_batch,
                                       fth_error *err) {
    char *region = fth_region_alloc(region_bytes(lookup, max_batch));
    if (!region)
        return fth_fail(err, FTH_E_MEMORY, "no memory for the unique rows of table '%s'",
                        lookup->is.table);
    lookup->unique_region = region;
    /* Staggered: arrays of a power of two would fall on the same cache sets. */
    lookup->unique_number = (uint32_t *)(void *)region;
    region += aligned(max_batch * sizeof(uint32_t)) + 5 * FTH_CACHE_LINE;
    lookup->unique_examples = (uint32_t *)(void *)region;
    region += aligned(max_batch * sizeof(uint32_t)) + 5 * FTH_CACHE_LINE;
    lookup->unique_begin = (uint32_t *)(void *)region;
    region += aligned(((size_t)fth_unique_most(max_batch) + 2) * sizeof(uint32_t));
    lookup->unique_rows = (float *)(void *)region;
    lookup->unique = (struct fth_unique_rows){.number = lookup->unique_number,
                                              .examples = lookup->unique_examples,
                                              .begin = lookup->unique_begin,
                                              .rows = lookup->unique_rows,
                                              .ld = fth_padded_columns(lookup->is.dim)};
    return FTH_OK;
}

void fth_embedding_unique_free(struct fth_embedding_lookup *lookup, uint32_t max_batch) {
    if (lookup->unique_region)
        fth_region_free(lookup->unique_region, region_bytes(lookup, max_batch));
}

const struct fth_unique_rows *fth_embedding_unique(void *ctx, uint32_t lookup) {
    const struct fth_embedding *embedding = ctx;
    return &embedding->lookups[lookup].unique;
}

/* Notes the examples of one unique key: its occurrences are all this lookup's, in rising order. */
static uint32_t take_examples(const struct fth_embedding *embedding,
                              struct fth_embedding_lookup *lookup, uint32_t unique, uint32_t number,
                              uint32_t at) {
    const uint32_t *end = embedding->list + embedding->unique_end[unique];
    for (const uint32_t *from = end - embedding->unique_count[unique]; from < end; from++) {
        uint32_t example = *from - lookup->base;
        lookup->unique_number[example] = number;
        lookup->unique_examples[at++] = example;
    }
    return at;
}

static void number_lookup(void *arg, uint32_t task, uint32_t worker) {
    struct fth_embedding *embedding = arg;
    struct fth_embedding_lookup *lookup = &embedding->lookups[task];
    if (!lookup->is.numbered)
        return;
    const struct fth_pack *pack = &embedding->packs[lookup->pack];
    const struct fth_member *member = fth_member_of(embedding, lookup);
    const float *from = pack->rows + member->at;
    const struct fth_part *part = &embedding->parts[lookup->first_part];
    int by_part = embedding->by_part;
    uint32_t most = fth_unique_most(lookup->n), n = 0, at = 0, copied = 0, ld = lookup->unique.ld;
    uint32_t rows[GATHERED], items = by_part && lookup->n ? part->n_items : lookup->n;
    for (uint32_t i = 0; i < items; i++) {
        uint32_t unique = by_part ? part->base + i : embedding->first_of[lookup->base + i];
        if (unique == FTH_NO_UNIQUE)
            continue;
        if (n == most)
            return;
        lookup->unique_begin[n] = at;
        at = take_examples(embedding, lookup, unique, n, at);
        rows[n++ - copied] = embedding->unique_row[unique];
        if (n - copied == GATHERED) {
            embedding->kernels->gather(GATHERED, rows, from, pack->stride, member->dim,
                                       lookup->unique_rows + (size_t)copied * ld, ld);
            copied = n;
        }
    }
    embedding->kernels->gather(n - copied, rows, from, pack->stride, member->dim,
                               lookup->unique_rows + (size_t)copied * ld, ld);
    lookup->unique_begin[n] = at;
    lookup->unique.n = n;
}

void fth_embedding_unique_number(struct fth_embedding *embedding, fth_pool *pool) {
    int wanted = 0;
    for (uint32_t l = 0; l < embedding->n_lookups; l++)
        wanted |= embedding->lookups[l].is.numbered;
    if (wanted && embedding->training)
        fth_pool_for(pool, embedding->n_lookups, number_lookup, embedding);
}
