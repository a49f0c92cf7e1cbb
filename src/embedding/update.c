/* Training rows: the gradients of a row's occurrences are summed in the batch's order (lookup,
 * position), then the optimizer is applied while the row is in cache. The end of a batch's way
 * through a step.
 *
 * A task works through its unique rows in blocks: first where the gradients of the block's
 * occurrences lie, with gradients and rows fetched into cache, then the sums and updates. Rows with
 * more occurrences than a block holds, and packs with max pooling (whose gradients have to be
 * picked column by column), are summed in pieces; the order of additions, and so the bits, are the
 * same.
 *
 * Threads: tasks are independent (a row belongs to one task), each with its worker's scratch. */
#include <assert.h>

#include "base/memory.h"
#include "embedding/update_private.h"

#define SOURCES 512 /* gradients in a block */
#define BLOCK_ROWS 32
#define MEMBER_ROWS 256
#define PICKED 32 /* gradients of max pooling in a piece */

size_t fth_embedding_update_scratch(void *ctx) {
    const struct fth_embedding *embedding = ctx;
    size_t dim = ((size_t)embedding->max_dim + 15) / 16 * 16;
    return FTH_CACHE_LINE + SOURCES * (sizeof(float *) + sizeof(float)) +
           (2 + PICKED) * dim * sizeof(float) +
           embedding->n_lookups * (sizeof(struct fth_own_gradients) + sizeof(uint32_t)) +
           embedding->n_members * sizeof(uint8_t);
}

/* How each member's rows can be updated: one number each with at most one gradient a lookup; else, where each lookup
 * has at most one gradient of whole rows, in blocks. */
static void find_ways(const struct fth_update_work *work) {
    const struct fth_embedding *embedding = work->embedding;
    for (uint32_t p = 0; p < embedding->n_packs; p++)
        for (uint32_t m = 0; m < embedding->packs[p].n_members; m++) {
            const struct fth_member *member = &embedding->packs[p].members[m];
            work->way[member->number] = fth_member_is_number(member) ? FTH_UPDATE_SINGLE : FTH_UPDATE_BLOCKS;
        }
    for (uint32_t l = 0; l < embedding->n_lookups; l++) {
        const struct fth_embedding_lookup *lookup = &embedding->lookups[l];
        const struct fth_own_gradients *own = &work->own[l];
        uint8_t *way = &work->way[fth_member_of(embedding, lookup)->number];
        if (own->first < own->last || lookup->argmax)
            *way = FTH_UPDATE_PIECES;
        else if (own->first_unique <= own->last_unique && *way == FTH_UPDATE_SINGLE)
            *way = FTH_UPDATE_BLOCKS;
    }
}

static struct fth_update_work work_begin(const struct fth_embedding *embedding,
                              const struct fth_row_gradient *gradients, uint32_t n, void *scratch) {
    size_t dim = ((size_t)embedding->max_dim + 15) / 16 * 16;
    struct fth_update_work work = {.embedding = embedding, .gradients = gradients};
    work.source = (const float **)(((uintptr_t)scratch + FTH_CACHE_LINE - 1) &
                                   ~(uintptr_t)(FTH_CACHE_LINE - 1));
    work.scale = (float *)(work.source + SOURCES);
    work.sum[0] = work.scale + SOURCES;
    work.sum[1] = work.sum[0] + dim;
    work.picked = work.sum[1] + dim;
    work.own = (struct fth_own_gradients *)(work.picked + PICKED * dim);
    work.met = (uint32_t *)(work.own + embedding->n_lookups);
    work.way = (uint8_t *)(work.met + embedding->n_lookups);
    for (uint32_t l = 0; l < embedding->n_lookups; l++)
        work.own[l] = (struct fth_own_gradients){.first = 1, .first_unique = 1};
    for (uint32_t i = 0; i < n; i++) {
        struct fth_own_gradients *own = &work.own[gradients[i].lookup];
        uint32_t *first = gradients[i].parts ? &own->first_unique : &own->first;
        uint32_t *last = gradients[i].parts ? &own->last_unique : &own->last;
        if (*first > *last)
            *first = i;
        *last = i;
        own->parts += gradients[i].parts;
        uint32_t l = gradients[i].parts ? embedding->lookups[gradients[i].lookup].head : FTH_NO_LOOKUP;
        for (; l != FTH_NO_LOOKUP; l = embedding->lookups[l].next)
            work.own[l].table_parts += gradients[i].parts;
    }
    find_ways(&work);
    return work;
}

static inline const struct fth_embedding_lookup *lookup_of(const struct fth_update_work *work,
                                                           uint32_t occurrence) {
    return fth_member_lookup_of(work->embedding, occurrence, work->member);
}

static inline void add_source(struct fth_update_work *work, const float *gradient, float scale) {
    work->source[work->n] = gradient;
    work->scale[work->n++] = scale;
    work->scaled |= scale != 1;
}

/* Sum of the sources [from, to); a single plain gradient is its own sum. */
static const float *sum_sources(const struct fth_update_work *work, uint32_t from, uint32_t to, int scaled,
                                uint32_t dim, float *out) {
    if (to - from == 1 && !scaled)
        return work->source[from];
    work->embedding->kernels->sum_rows(to - from, work->source + from,
                                       scaled ? work->scale + from : NULL, dim, out);
    return out;
}

/* As add_run, of a list's means: every source is an example, with its share. */
static const uint32_t *add_shares(struct fth_update_work *work, const struct fth_embedding_lookup *lookup,
                                  const float *gradient, size_t ld, const uint32_t *at,
                                  const uint32_t *end) {
    const float *share = lookup->share, **source = work->source + work->n;
    float *scale = work->scale + work->n;
    uint32_t base = lookup->base, last = lookup->end, n = 0, unlike = 0;
    for (; at + n < end && at[n] < last; n++) {
        uint32_t row = at[n] - base;
        source[n] = gradient + row * ld;
        scale[n] = share[row];
        unlike |= fth_unlike_one(share[row]);
        __builtin_prefetch(source[n]);
    }
    work->n += n;
    work->scaled |= unlike != 0;
    return at + n;
}

/* Adds the sources from `at` on that are one lookup's, which has one gradient a source or none; where
 * they end. */
static const uint32_t *add_run(struct fth_update_work *work, const uint32_t *at,
                               const uint32_t *end) {
    const struct fth_embedding *embedding = work->embedding;
    const struct fth_embedding_lookup *lookup = lookup_of(work, *at);
    struct fth_own_gradients own = work->own[lookup - embedding->lookups];
    if (own.first > own.last) {
        while (at < end && *at < lookup->end)
            at++;
        return at;
    }
    const float *gradient = work->gradients[own.first].gradient;
    size_t ld = work->gradients[own.first].ld;
    if (lookup->by_example && lookup->share)
        return add_shares(work, lookup, gradient, ld, at, end);
    int plain = lookup->by_example;
    for (; at < end && *at < lookup->end; at++) {
        uint32_t row = *at - lookup->base;
        float scale = plain ? 1 : fth_source_scale(embedding, lookup, *at, &row);
        __builtin_prefetch(gradient + row * ld);
        add_source(work, gradient + row * ld, scale);
    }
    return at;
}

/* Notes the lookup of source `at`, one of the key's, if it has gradients of unique rows. */
static inline void meet(struct fth_update_work *work, uint32_t at) {
    const struct fth_embedding_lookup *lookup = lookup_of(work, at);
    if (work->own[lookup - work->embedding->lookups].parts > 0 &&
        (work->n_met == 0 || lookup_of(work, work->met[work->n_met - 1]) != lookup))
        work->met[work->n_met++] = at;
}

/* The sources of a unique key, as far as their own gradients are looked at: in a numbered lookup, the only one of its
 * table, without gradients for examples none are. None of them is met yet, but where none will be. */
static inline const uint32_t *begin_sources(struct fth_update_work *work, uint32_t unique, const uint32_t *end) {
    const struct fth_embedding_lookup *lookup = lookup_of(work, end[-1]);
    const struct fth_own_gradients *own = &work->own[lookup - work->embedding->lookups];
    work->n_met = 0;
    work->meets = own->table_parts;
    int alone = lookup == &work->embedding->lookups[lookup->head] && lookup->next == FTH_NO_LOOKUP;
    if (alone && lookup->is.numbered && own->first > own->last) {
        meet(work, end[-1]);
        return end;
    }
    return end - work->embedding->unique_count[unique];
}

/* The next of the gradients of unique rows that the source's key has by its lookup, from number `i` on; NULL after
 * the last. */
static const struct fth_row_gradient *next_unique_gradient(const struct fth_update_work *work,
                                                           uint32_t occurrence, uint32_t *i,
                                                           const float **row) {
    const struct fth_embedding *embedding = work->embedding;
    const struct fth_embedding_lookup *lookup = lookup_of(work, occurrence);
    struct fth_own_gradients own = work->own[lookup - embedding->lookups];
    if (*i < own.first_unique)
        *i = own.first_unique;
    for (; *i <= own.last_unique; ++*i) {
        const struct fth_row_gradient *from = &work->gradients[*i];
        if (!from->parts || &embedding->lookups[from->lookup] != lookup)
            continue;
        uint32_t number = lookup->unique.number[occurrence - lookup->base];
        *row = from->gradient + (size_t)number * from->ld;
        ++*i;
        return from;
    }
    return NULL;
}

/* ---- in pieces ---- */

/* Adds up what is collected; the sum so far is the next piece's first source. */
static void end_piece(struct fth_update_work *work, uint32_t dim) {
    const float *so_far = sum_sources(work, 0, work->n, work->scaled, dim, work->sum[0]);
    float *other = work->sum[1];
    work->sum[1] = work->sum[0];
    work->sum[0] = other;
    work->n = work->n_picked = 0;
    work->scaled = 0;
    add_source(work, so_far, 1);
}

/* Max pooling: the columns whose maximum this position gave. */
static const float *pick_columns(struct fth_update_work *work, const struct fth_embedding_lookup *lookup,
                                 uint32_t occurrence, const float *gradient, uint32_t dim) {
    float *picked = work->picked + (size_t)work->n_picked++ * dim;
    const uint32_t *argmax = lookup->argmax + (size_t)work->embedding->example_of[occurrence] * dim;
    work->embedding->kernels->pick(dim, argmax, occurrence - lookup->base, gradient, picked);
    return picked;
}

/* The gradient of unique row `unique`, any number of occurrences; NULL when none has a gradient. */
static const float *sum_in_pieces(struct fth_update_work *work, uint32_t unique, uint32_t dim) {
    const struct fth_embedding *embedding = work->embedding;
    const uint32_t *end = embedding->list + embedding->unique_end[unique];
    work->n = work->n_picked = 0;
    work->scaled = 0;
    for (const uint32_t *at = begin_sources(work, unique, end); at < end; at++) {
        const struct fth_embedding_lookup *lookup = lookup_of(work, *at);
        if (work->meets)
            meet(work, *at);
        struct fth_own_gradients own = work->own[lookup - embedding->lookups];
        if (own.first == own.last && !lookup->argmax) {
            if (work->n == SOURCES)
                end_piece(work, dim);
            at = add_run(work, at, end - at < SOURCES - work->n ? end : at + (SOURCES - work->n)) - 1;
            continue;
        }
        uint32_t row;
        float scale = fth_source_scale(embedding, lookup, *at, &row);
        for (uint32_t i = own.first; i <= own.last; i++) {
            const struct fth_row_gradient *from = &work->gradients[i];
            if (from->parts || &embedding->lookups[from->lookup] != lookup)
                continue;
            if (work->n == SOURCES || work->n_picked == PICKED)
                end_piece(work, dim);
            const float *gradient = from->gradient + (size_t)row * from->ld;
            if (lookup->argmax)
                gradient = pick_columns(work, lookup, *at, gradient, dim);
            add_source(work, gradient, scale);
        }
    }
    const struct fth_row_gradient *from;
    const float *row;
    for (uint32_t m = 0, i = 0; m < work->n_met; m++, i = 0)
        while ((from = next_unique_gradient(work, work->met[m], &i, &row)) != NULL)
            for (uint32_t p = 0; p < from->parts; p++) {
                if (work->n == SOURCES)
                    end_piece(work, dim);
                add_source(work, row + p * from->part_stride, 1);
            }
    if (work->n == 0)
        return NULL;
    return sum_sources(work, 0, work->n, work->scaled, dim, work->sum[0]);
}

/* ---- rows of a shard ---- */

/* Collects the sources [at, end) of one row of a block, which begin_sources has begun, and fetches them; returns
 * whether one has a scale. */
static int collect_row(struct fth_update_work *work, const uint32_t *at, const uint32_t *end) {
    work->scaled = 0;
    while (at < end) {
        if (work->meets)
            meet(work, *at);
        at = add_run(work, at, end);
    }
    const struct fth_row_gradient *from;
    const float *row;
    for (uint32_t m = 0, i = 0; m < work->n_met; m++, i = 0)
        while ((from = next_unique_gradient(work, work->met[m], &i, &row)) != NULL)
            for (uint32_t p = 0; p < from->parts; p++, row += from->part_stride) {
                __builtin_prefetch(row);
                add_source(work, row, 1);
            }
    return work->scaled;
}

/* As many rows from `unique` on as a block takes; returns where it stopped. Rows too large for a
 * block are left to the caller: then it returns `unique`. */
static uint32_t update_block(struct fth_update_work *work, const struct fth_pack *pack, uint32_t unique,
                             uint32_t last, const struct fth_opt_args *args) {
    const struct fth_embedding *embedding = work->embedding;
    uint32_t dim = pack->members[work->member].dim;
    struct {
        uint32_t row, end;
        int scaled;
    } rows[BLOCK_ROWS];
    uint32_t n = 0;
    work->n = 0;
    for (; unique < last && n < BLOCK_ROWS; unique++) {
        uint32_t row = embedding->unique_row[unique];
        if (row == FTH_ROW_NONE)
            continue;
        const uint32_t *end = embedding->list + embedding->unique_end[unique];
        const uint32_t *at = begin_sources(work, unique, end);
        if ((uint32_t)(end - at) + work->meets > SOURCES - work->n)
            break;
        const char *memory = (const char *)fth_pack_row(pack, row);
        for (size_t line = 0; line < pack->stride * sizeof(float); line += FTH_CACHE_LINE)
            __builtin_prefetch(memory + line, 1);
        rows[n].row = row;
        rows[n].scaled = collect_row(work, at, end);
        rows[n++].end = work->n;
    }
    uint32_t from = 0;
    for (uint32_t i = 0; i < n; from = rows[i++].end) {
        if (rows[i].end > from)
            fth_update_row(work, &pack->members[work->member], fth_pack_row(pack, rows[i].row),
                           sum_sources(work, from, rows[i].end, rows[i].scaled, dim, work->sum[0]), args);
    }
    return unique;
}

static void update_range(struct fth_update_work *work, const struct fth_pack *pack, uint32_t unique,
                         uint32_t last, int in_pieces, const struct fth_opt_args *args) {
    const struct fth_embedding *embedding = work->embedding;
    uint32_t dim = pack->members[work->member].dim;
    while (unique < last) {
        uint32_t next = in_pieces ? unique : update_block(work, pack, unique, last, args);
        if (next == unique) {
            uint32_t row = embedding->unique_row[unique];
            const float *gradient =
                row != FTH_ROW_NONE ? sum_in_pieces(work, unique, dim) : NULL;
            if (gradient)
                fth_update_row(work, &pack->members[work->member], fth_pack_row(pack, row), gradient, args);
            next++;
        }
        unique = next;
    }
}

uint32_t fth_embedding_update_tasks(void *ctx) {
    (void)ctx;
    return FTH_UPDATE_TASKS;
}

/* Unique keys [unique, last), as many at a time as stay in cache from member to member; rows that nobody asks for their
 * frequency before are counted while they are there. */
static void update_members(struct fth_update_work *work, const struct fth_pack *pack,
                           uint32_t unique, uint32_t last, const struct fth_opt_args *args) {
    for (uint32_t next; unique < last; unique = next) {
        next = last - unique > MEMBER_ROWS ? unique + MEMBER_ROWS : last;
        for (work->member = 0; work->member < pack->n_members; work->member++) {
            uint8_t way = work->way[pack->members[work->member].number];
            if (way == FTH_UPDATE_SINGLE)
                fth_update_single(work, pack, unique, next, args);
            else
                update_range(work, pack, unique, next, way == FTH_UPDATE_PIECES, args);
        }
        if (!pack->counted)
            fth_count_range(work->embedding, pack, unique, next);
    }
}

void fth_embedding_update(void *ctx, const struct fth_row_gradient *gradients, uint32_t n,
                          float grad_scale, uint32_t task, void *scratch) {
    const struct fth_embedding *embedding = ctx;
    if (task >= embedding->n_tasks)
        return;
    struct fth_update_work work = work_begin(embedding, gradients, n, scratch);
    struct fth_opt_args args[] = {embedding->args[0], embedding->args[1]}; /* by fth_member.linear */
    args[0].grad_scale *= grad_scale;
    args[1].grad_scale *= grad_scale;
    struct fth_update_start begin = embedding->task_start[task],
                            end = embedding->task_start[task + 1];
    uint32_t segments = fth_segments(embedding);
    for (uint32_t s = begin.segment; s <= end.segment && s < segments; s++) {
        struct fth_segment segment = fth_segment_of(embedding, s);
        uint32_t from = s == begin.segment ? begin.unique : 0;
        uint32_t to = s == end.segment ? end.unique : segment.n;
        if (!fth_segment_is_whole(embedding, s))
            update_members(&work, segment.pack, segment.start + from, segment.start + to, args);
        else if (s < end.segment && embedding->parts[s].summed)
            fth_update_items(&work, &embedding->parts[s], args);
        else if (s < end.segment)
            fth_update_part(&work, &embedding->parts[s], args);
    }
}

/* Of the lookup's occurrences [first, last); with a part a table these are its part's, whose items are in the
 * order of their first occurrences. */
static double run_squares(struct fth_update_work *work, const struct fth_embedding_lookup *lookup,
                          uint32_t first, uint32_t last, double squares) {
    const struct fth_embedding *embedding = work->embedding;
    const struct fth_pack *pack = &embedding->packs[lookup->pack];
    const struct fth_part *part = &embedding->parts[lookup->first_part];
    if (fth_pack_by_weight(embedding, pack))
        return fth_part_squares(work, part, squares);
    uint32_t dim = lookup->is.dim;
    int by_part = embedding->by_part;
    uint32_t end = lookup->base + (by_part ? part->n_items : last);
    assert(by_part || embedding->lookups[lookup->leading].firsts); /* fth_embedding_options.norms */
    work->member = lookup->member;
    for (uint32_t i = lookup->base + first; i < end; i++) {
        uint32_t unique = by_part ? i : embedding->first_of[i];
        if (unique == FTH_NO_UNIQUE || embedding->unique_row[unique] == FTH_ROW_NONE)
            continue;
        const float *gradient = sum_in_pieces(work, unique, dim);
        if (gradient)
            squares += embedding->kernels->sum_squares(dim, gradient);
    }
    return squares;
}

/* The squares are cut over the occurrences, not over the shards: each row counts at its first
 * occurrence, for each lookup. So the sum has one order, however tables are packed. */
double fth_embedding_gradient_squares(void *ctx, const struct fth_row_gradient *gradients,
                                      uint32_t n, uint32_t task, void *scratch) {
    const struct fth_embedding *embedding = ctx;
    if (task >= embedding->n_tasks)
        return 0;
    struct fth_update_work work = work_begin(embedding, gradients, n, scratch);
    double squares = 0;
    uint64_t from = embedding->n_runs * task / embedding->n_tasks, before = 0;
    uint64_t to = embedding->n_runs * (task + 1) / embedding->n_tasks;
    for (uint32_t l = 0; l < embedding->n_lookups && before < to; l++) {
        const struct fth_embedding_lookup *lookup = &embedding->lookups[l];
        uint32_t size = (uint32_t)1 << embedding->part_shift;
        for (uint32_t first = 0; first < lookup->n && before < to; first += size, before++)
            if (before >= from)
                squares = run_squares(&work, lookup, first,
                                      lookup->n - first < size ? lookup->n : first + size, squares);
    }
    return squares;
}
