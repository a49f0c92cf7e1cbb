/* The unique rows of single-key lookups, numbered by first occurrence, for whoever works on unique
 * rows instead of examples (graph/rows.h). The last part of prepare.
 *
 *   number     [batch]       which unique row an example has
 *   begin      [most + 1]    where its examples begin in
 *   examples   [batch]       the examples, unique row by unique row
 *   rows       [most][ld]    copies of the weights, one after the other
 *
 * They lie in one region a lookup, for the largest batch, with what numbering needs. A lookup with more unique rows than
 * fth_unique_most is given up on the way, so that little is spent on it.
 *
 * Threads: a task a lookup; it reads what prepare's phases found. */
#include <string.h>

#include "base/memory.h"
#include "embedding/embedding_private.h"

/* Arrays of lookup l begin l % LOOKUP_STEPS * LOOKUP_LINES cache lines later: 16 of the 64 sets of a first cache. */
#define LOOKUP_STEPS 16
#define LOOKUP_LINES 3

static uint32_t table_bits(uint32_t most) {
    uint32_t bits = 1;
    while ((uint32_t)1 << bits < 2 * most)
        bits++;
    return bits;
}

static size_t aligned(size_t bytes) {
    return (bytes + FTH_CACHE_LINE - 1) & ~(size_t)(FTH_CACHE_LINE - 1);
}

static size_t region_bytes(const struct fth_embedding_lookup *lookup, uint32_t max_batch) {
    size_t most = (size_t)fth_unique_most(max_batch) + 1;
    size_t table = (size_t)1 << table_bits((uint32_t)most);
    return 2 * aligned(max_batch * sizeof(uint32_t)) + 2 * aligned((most + 1) * sizeof(uint32_t)) +
           aligned(table * sizeof(uint32_t)) + most * fth_padded_columns(lookup->is.dim) * sizeof(float) +
           (16 + LOOKUP_STEPS * LOOKUP_LINES) * FTH_CACHE_LINE;
}

fth_status fth_embedding_unique_create(const struct fth_embedding *embedding, struct fth_embedding_lookup *lookup,
                                       fth_error *err) {
    uint32_t max_batch = embedding->max_batch;
    char *region = fth_region_alloc(region_bytes(lookup, max_batch));
    if (!region)
        return fth_fail(err, FTH_E_MEMORY, "no memory for the unique rows of table '%s'",
                        lookup->is.table);
    lookup->unique_region = region;
    /* Staggered: arrays of a power of two would fall on the same cache sets, and the numbers of all lookups, whose regions
     * begin with pages, are read together (gather_sum). */
    region += (size_t)(lookup - embedding->lookups) % LOOKUP_STEPS * LOOKUP_LINES * FTH_CACHE_LINE;
    lookup->unique_number = (uint32_t *)(void *)region;
    region += aligned(max_batch * sizeof(uint32_t)) + 5 * FTH_CACHE_LINE;
    lookup->unique_examples = (uint32_t *)(void *)region;
    region += aligned(max_batch * sizeof(uint32_t)) + 5 * FTH_CACHE_LINE;
    lookup->unique_begin = (uint32_t *)(void *)region;
    region += aligned(((size_t)fth_unique_most(max_batch) + 2) * sizeof(uint32_t));
    lookup->unique_row_of = (uint32_t *)(void *)region;
    region += aligned(((size_t)fth_unique_most(max_batch) + 2) * sizeof(uint32_t));
    lookup->unique_table = (uint32_t *)(void *)region;
    region += aligned(sizeof(uint32_t) << table_bits(fth_unique_most(max_batch) + 1));
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

/* Where all parts are short the items are the unique keys; the examples of each are its sources, which are all this
 * lookup's. */
static uint32_t number_items(const struct fth_embedding *embedding, struct fth_embedding_lookup *lookup,
                             const struct fth_part *part) {
    uint32_t at = 0;
    for (uint32_t u = 0; u < part->n_items; u++) {
        const uint32_t *end = embedding->list + embedding->unique_end[part->base + u];
        lookup->unique_begin[u] = at;
        for (const uint32_t *from = end - embedding->unique_count[part->base + u]; from < end; from++) {
            uint32_t example = *from - lookup->base;
            lookup->unique_number[example] = u;
            lookup->unique_examples[at++] = example;
        }
    }
    lookup->unique_begin[part->n_items] = at;
    return part->n_items;
}

/* Else a key's sources may be other lookups' too, and which keys are one part depends on the workers, which must not
 * decide: the examples' rows are numbered in a table filled linearly, its entries numbers from 1 on; all keys without a
 * row are one. 0: they are more than `most`. */
static uint32_t number_rows(struct fth_embedding_lookup *lookup, const uint32_t *row_of, uint32_t most) {
    uint32_t bits = table_bits(most), mask = ((uint32_t)1 << bits) - 1, n = 0, before = 0;
    uint32_t *table = lookup->unique_table, *rows = lookup->unique_row_of, *begin = lookup->unique_begin;
    memset(table, 0, ((size_t)mask + 1) * sizeof *table);
    for (uint32_t i = 0; i < lookup->n; i++) {
        uint32_t at = (row_of[i] * 0x9e3779b1u) >> (32 - bits), number;
        while ((number = table[at]) != 0 && rows[number - 1] != row_of[i])
            at = (at + 1) & mask;
        if (number == 0) {
            if (n == most)
                return 0;
            rows[n] = row_of[i];
            number = table[at] = ++n;
            begin[number] = 0;
        }
        lookup->unique_number[i] = number - 1;
        begin[number]++;
    }
    /* begin[u + 1]: where u's next example goes, in the end where they end. */
    begin[0] = 0;
    for (uint32_t u = 1; u <= n; u++) {
        uint32_t count = begin[u];
        begin[u] = before;
        before += count;
    }
    for (uint32_t i = 0; i < lookup->n; i++)
        lookup->unique_examples[begin[lookup->unique_number[i] + 1]++] = i;
    return n;
}

static void number_lookup(void *arg, uint32_t task, uint32_t worker) {
    struct fth_embedding *embedding = arg;
    struct fth_embedding_lookup *lookup = &embedding->lookups[task];
    uint32_t most = fth_unique_most(lookup->n);
    if (!lookup->is.numbered || most == 0)
        return;
    const struct fth_pack *pack = &embedding->packs[lookup->pack];
    const struct fth_member *member = fth_member_of(embedding, lookup);
    const struct fth_part *part = &embedding->parts[lookup->first_part];
    const uint32_t *rows = lookup->unique_row_of;
    uint32_t n;
    if (!embedding->short_parts) {
        n = number_rows(lookup, embedding->row_of + lookup->base, most);
    } else {
        rows = embedding->unique_row + part->base;
        n = part->n_items <= most ? number_items(embedding, lookup, part) : 0;
    }
    embedding->kernels->gather(n, rows, pack->rows + member->at, pack->stride, member->dim, lookup->unique_rows,
                               lookup->unique.ld);
    lookup->unique.n = n;
    lookup->unique.of = lookup->n;
}

void fth_embedding_unique_number(struct fth_embedding *embedding, fth_pool *pool) {
    int wanted = 0;
    for (uint32_t l = 0; l < embedding->n_lookups; l++)
        wanted |= embedding->lookups[l].is.numbered;
    if (wanted && embedding->training)
        fth_pool_for(pool, embedding->n_lookups, number_lookup, embedding);
}
