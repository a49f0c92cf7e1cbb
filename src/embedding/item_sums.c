/* Training rows of parts that are summed item by item (summed): no lists of sources are made for them. Their occurrences
 * are walked through instead, and each adds its gradient to its item's sum, which stays in the second cache; then the
 * optimizer is applied to item after item. The order of additions is that of lists (update.c), and so are the bits.
 *
 * The sums lie where the copies of the rows do, and items' single numbers: nobody reads these when rows are trained.
 *
 * Threads: a part's task. */
#include <string.h>

#include "embedding/update_private.h"

#define SUM_BYTES ((size_t)1 << 20) /* of a part's sums, which then stay in the second cache */
#define OFTEN 16                    /* else occurrences an item, at least */
#define STRETCH 8192                /* occurrences */
#define MEMBER_ITEMS 256
#define ROWS_AHEAD 12

int fth_items_can_be_summed(const struct fth_embedding *embedding, const struct fth_part *part) {
    const struct fth_pack *pack = &embedding->packs[embedding->lookups[part->lookup].pack];
    int small = part->n_items * fth_copy_at(pack, pack->n_members) * sizeof(float) <= SUM_BYTES;
    if (!part->copied || (!small && part->n / OFTEN < part->n_items))
        return 0;
    struct fth_span span = fth_first_span(embedding, part);
    for (; span.lookup != FTH_NO_LOOKUP; span = fth_next_span(embedding, span)) {
        const struct fth_embedding_lookup *leading = &embedding->lookups[span.lookup];
        for (uint32_t m = 0; m < pack->n_members; m++) {
            const struct fth_embedding_lookup *lookup = leading->members[m];
            if (lookup->values || lookup->argmax || (fth_lookup_pooled(&lookup->is) && !leading->by_example))
                return 0;
        }
    }
    return 1;
}

/* The part of a task, and the members of its rows that are summed together: [member, last_member). */
struct training {
    struct fth_update_work *work;
    const struct fth_embedding *embedding;
    const struct fth_part *part;
    const struct fth_pack *pack;
    uint32_t member, last_member;
    const uint32_t *sources; /* [items] an item's occurrences that have a gradient, the same of all these members */
};

/* A member's sums: item u's from at + u * stride on. */
struct sums {
    float *at;
    uint32_t stride, dim;
};

static struct sums sums_of(const struct training *t, uint32_t member) {
    if (member == t->pack->one_number)
        return (struct sums){t->embedding->item_weight + t->part->base, 1, 1};
    return (struct sums){fth_part_copies(t->embedding, t->part) + fth_copy_at(t->pack, member),
                         fth_copy_at(t->pack, t->pack->n_members), t->pack->members[member].dim};
}

static const struct fth_embedding_lookup *lookup_of(const struct training *t, struct fth_span span, uint32_t member) {
    return t->embedding->lookups[span.lookup].members[member];
}

static const struct fth_own_gradients *own_of(const struct training *t, const struct fth_embedding_lookup *lookup) {
    return &t->work->own[lookup - t->embedding->lookups];
}

static inline int is_own(const struct training *t, uint32_t i, const struct fth_embedding_lookup *lookup) {
    const struct fth_row_gradient *gradient = &t->work->gradients[i];
    return !gradient->parts && &t->embedding->lookups[gradient->lookup] == lookup;
}

/* Gradients of the lookup that have a row an example or position. */
static uint32_t n_own(const struct training *t, const struct fth_embedding_lookup *lookup) {
    const struct fth_own_gradients *own = own_of(t, lookup);
    uint32_t n = 0;
    for (uint32_t i = own->first; i <= own->last; i++)
        n += (uint32_t)is_own(t, i, lookup);
    return n;
}

/* What an occurrence's row gets. */
static uint32_t n_all(const struct training *t, const struct fth_embedding_lookup *lookup) {
    return n_own(t, lookup) + own_of(t, lookup)->parts;
}

/* ---- sums ---- */

/* Of the gradient's rows [first, first + n): examples, or occurrences of the span. */
static void add_rows(const struct training *t, struct fth_span span, uint32_t member, const struct fth_row_gradient *from,
                     uint32_t first, uint32_t n) {
    const struct fth_embedding_lookup *lookup = lookup_of(t, span, member);
    const uint32_t *item_of = t->embedding->item_of + span.base;
    const uint32_t *once = n_all(t, lookup) == 1 ? t->sources : NULL;
    struct sums sums = sums_of(t, member);
    for (uint32_t at = first, m; at < first + n; at += m) {
        const float *x = from->gradient + (size_t)at * from->ld;
        m = first + n - at < t->embedding->max_batch ? first + n - at : t->embedding->max_batch;
        if (lookup->by_example)
            t->embedding->kernels->add_to_rows(m, lookup->offsets + at, item_of, once,
                                               lookup->share ? lookup->share + at : NULL, x, from->ld, sums.dim, sums.at,
                                               sums.stride);
        else
            t->embedding->kernels->add_to_rows(m, t->embedding->identity, item_of + at, once, NULL, x, from->ld, sums.dim,
                                               sums.at, sums.stride);
    }
}

/* The same of several gradients, of which each occurrence's come one after the other. */
static void add_several(const struct training *t, struct fth_span span, uint32_t member, uint32_t first, uint32_t n) {
    const struct fth_embedding_lookup *lookup = lookup_of(t, span, member);
    const struct fth_own_gradients *own = own_of(t, lookup);
    const uint32_t *offsets = lookup->offsets, *item_of = t->embedding->item_of + span.base;
    struct sums sums = sums_of(t, member);
    for (uint32_t row = first; row < first + n; row++) {
        uint32_t at = lookup->by_example ? offsets[row] : row, end = lookup->by_example ? offsets[row + 1] : row + 1;
        const float *share = lookup->by_example && lookup->share ? lookup->share + row : NULL;
        for (; at < end; at++)
            for (uint32_t i = own->first; i <= own->last; i++) {
                const struct fth_row_gradient *from = &t->work->gradients[i];
                if (is_own(t, i, lookup))
                    t->embedding->kernels->add_to_rows(1, t->embedding->identity, item_of + at, NULL, share,
                                                       from->gradient + (size_t)row * from->ld, from->ld, sums.dim,
                                                       sums.at, sums.stride);
            }
    }
}

static void add_own(const struct training *t, struct fth_span span, uint32_t member, uint32_t first, uint32_t n) {
    const struct fth_embedding_lookup *lookup = lookup_of(t, span, member);
    uint32_t gradients = n_own(t, lookup);
    if (gradients == 1)
        add_rows(t, span, member, &t->work->gradients[own_of(t, lookup)->first], first, n);
    else if (gradients > 1)
        add_several(t, span, member, first, n);
}

/* A stretch at a time for all members, so that its occurrences' items stay in cache. */
static void add_span(const struct training *t, struct fth_span span) {
    uint32_t rows = t->embedding->lookups[span.lookup].by_example ? t->embedding->batch->n : span.n;
    uint32_t step = span.n > STRETCH ? (uint32_t)((uint64_t)rows * STRETCH / span.n) + 1 : rows;
    for (uint32_t at = 0, n; at < rows; at += n) {
        n = rows - at < step ? rows - at : step;
        for (uint32_t m = t->member; m < t->last_member; m++)
            add_own(t, span, m, at, n);
    }
}

/* Gradients of the lookup's unique rows. Which items these are: memory of the part's list, which there is not. */
static void add_unique(const struct training *t, struct fth_span span, uint32_t member) {
    const struct fth_embedding *embedding = t->embedding;
    const struct fth_embedding_lookup *lookup = lookup_of(t, span, member);
    const struct fth_own_gradients *own = own_of(t, lookup);
    const struct fth_unique_rows *unique = &lookup->unique;
    const uint32_t *once = n_all(t, lookup) == 1 ? t->sources : NULL;
    uint32_t *items = embedding->list + t->part->base;
    struct sums sums = sums_of(t, member);
    for (uint32_t u = 0; u < unique->n && own->parts > 0; u++)
        items[u] = embedding->item_of[span.base + unique->examples[unique->begin[u]]];
    for (uint32_t i = own->first_unique; i <= own->last_unique; i++) {
        const struct fth_row_gradient *from = &t->work->gradients[i];
        if (!from->parts || &embedding->lookups[from->lookup] != lookup)
            continue;
        for (uint32_t p = 0; p < from->parts; p++)
            embedding->kernels->add_to_rows(unique->n, embedding->identity, items, once, NULL,
                                            from->gradient + p * from->part_stride, from->ld, sums.dim, sums.at,
                                            sums.stride);
    }
}

static void sum_items(const struct training *t) {
    for (uint32_t m = t->member; m < t->last_member; m++) {
        struct sums sums = sums_of(t, m);
        uint32_t n = t->part->n_items, together = sums.stride == sums.dim ? n : 1;
        for (uint32_t u = 0; u < n; u += together)
            memset(sums.at + (size_t)u * sums.stride, 0, (size_t)together * sums.dim * sizeof *sums.at);
    }
    struct fth_span span = fth_first_span(t->embedding, t->part);
    for (; span.lookup != FTH_NO_LOOKUP; span = fth_next_span(t->embedding, span))
        add_span(t, span);
    for (uint32_t m = t->member; m < t->last_member; m++)
        for (span = fth_first_span(t->embedding, t->part); span.lookup != FTH_NO_LOOKUP;
             span = fth_next_span(t->embedding, span))
            add_unique(t, span, m);
}

/* ---- rows ---- */

static void fetch_row(const struct fth_pack *pack, uint32_t row) {
    const char *memory = (const char *)fth_pack_row(pack, row);
    for (size_t line = 0; line < pack->stride * sizeof(float); line += FTH_CACHE_LINE)
        __builtin_prefetch(memory + line, 1);
}

/* Items [first, last). */
static void step_items(const struct training *t, uint32_t member, uint32_t first, uint32_t last,
                       const struct fth_opt_args *args) {
    const uint32_t *rows = t->embedding->unique_row + t->part->base;
    const struct fth_member *of = &t->pack->members[member];
    struct sums sums = sums_of(t, member);
    struct fth_number_block block = {.n = 0};
    int number = fth_member_is_number(of);
    for (uint32_t u = first; u < last; u++) {
        if (member == t->member && u + ROWS_AHEAD < t->part->n_items)
            fetch_row(t->pack, rows[u + ROWS_AHEAD]);
        if (rows[u] == FTH_ROW_NONE || t->sources[u] == 0)
            continue;
        float *row = fth_pack_row(t->pack, rows[u]), *sum = sums.at + (size_t)u * sums.stride;
        if (number)
            fth_update_number(t->work, of, &block, row, *sum, args);
        else
            fth_update_row(t->work, of, row, sum, args);
    }
    fth_update_numbers(t->work, of, &block, args);
}

static void train_members(const struct training *t, const struct fth_opt_args *args) {
    sum_items(t);
    for (uint32_t item = 0, last; item < t->part->n_items; item = last) {
        last = t->part->n_items - item > MEMBER_ITEMS ? item + MEMBER_ITEMS : t->part->n_items;
        for (uint32_t m = t->member; m < t->last_member; m++)
            step_items(t, m, item, last, args);
        if (!t->pack->counted && t->member == 0)
            fth_count_range(t->embedding, t->pack, t->part->base + item, t->part->base + last);
    }
}

/* Whether all that the member's lookups read has gradients. */
static int all_trained(const struct training *t, uint32_t member) {
    struct fth_span span = fth_first_span(t->embedding, t->part);
    while (span.lookup != FTH_NO_LOOKUP && n_all(t, lookup_of(t, span, member)) > 0)
        span = fth_next_span(t->embedding, span);
    return span.lookup == FTH_NO_LOOKUP;
}

static void count_sources(const struct training *t, uint32_t *sources) {
    memset(sources, 0, t->part->n_items * sizeof *sources);
    struct fth_span span = fth_first_span(t->embedding, t->part);
    for (; span.lookup != FTH_NO_LOOKUP; span = fth_next_span(t->embedding, span))
        if (n_all(t, lookup_of(t, span, t->member)) > 0)
            for (uint32_t i = 0; i < span.n; i++)
                sources[t->embedding->item_of[span.base + i]]++;
}

/* Members together, where all occurrences are sources. Else each for itself; sources are counted in memory of lists. */
void fth_update_items(struct fth_update_work *work, const struct fth_part *part, const struct fth_opt_args *args) {
    const struct fth_embedding *embedding = work->embedding;
    const struct fth_pack *pack = &embedding->packs[embedding->lookups[part->lookup].pack];
    struct training t = {.work = work, .embedding = embedding, .part = part, .pack = pack,
                         .last_member = pack->n_members, .sources = embedding->item_count + part->base};
    uint32_t trained = 0;
    for (uint32_t m = 0; m < pack->n_members; m++)
        trained += (uint32_t)all_trained(&t, m);
    if (trained == pack->n_members) {
        train_members(&t, args);
        return;
    }
    t.sources = embedding->item_at + part->base;
    for (; t.member < pack->n_members; t.member++) {
        t.last_member = t.member + 1;
        count_sources(&t, embedding->item_at + part->base);
        train_members(&t, args);
    }
}
