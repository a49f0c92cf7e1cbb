/* Inside embedding/: the embedding, its lookups, and what is known of the current batch.
 *
 * Occurrences of keys are numbered over all lookups, in their order: lookup by lookup, in each by
 * position in the batch. A lookup has a whole number of units of 2^part_shift numbers, so that
 * occurrence >> part_shift finds it (lookup_of). A part is a unit with keys, or some (a lookup's last part
 * may be short, its numbers are still taken): the more keys, the more of them repeat, so a list of many units has
 * as few parts as the workers allow. How it is cut changes nothing but the time.
 *
 * A source is where an occurrence's gradient comes from: the occurrence itself; or, where nothing of the
 * gradient depends on the position (pooled lists without values and maxima: by_example), the lookup's base
 * plus the example, so that reading the list of a row's sources needs no look at the position's example.
 *
 * An item is a unique key of a part. Items have numbers of their own, a part's lie together, the parts' close behind
 * each other, so that their arrays take the memory of items, not of occurrences. They are in the order of their
 * shards, in each as they are met, so that what a shard's task reads and writes of a part lies together: the part's
 * items [at[s], at[s + 1]) are shard s's.
 *
 *   prepare, phase 1 (a task a part)    item_of, item_count, item_first, part_hash, item_place
 *            phase 2 (a task a shard)   of the shard's unique keys: hash, unique_row, unique_count, unique_first,
 *                                       unique_end, first_of; item_row, item_at
 *            phase 3 (a task a part)    row_of; list: each unique key's sources
 *                    (a task a shard)   frequencies and last steps of packs that are counted before the update
 *
 * Where rows have a member of one number, phase 2 brings a copy of it as well, which gathering reads in the order of
 * occurrences: unique_weight, item_weight, in phase 3 weight_of.
 *
 * Where every table's keys are one part, the parts' items are the unique keys, and nothing has to be brought together
 * by shard: `by_part`. Such a part has all of a table's lookups, which lie one behind the other (spans); tables of more
 * than a unit (long) are one part where that leaves the workers enough to share. There items are in the order in which
 * they are met, and have the numbers of the part's first occurrences.
 *
 *   prepare, phase 1 (a task a part)    item_of, item_count, part_hash (of items known by bucket: keys);
 *                                       unique_row where there is a row; missing: the other items, lookup by
 *                                       lookup, stably by shard
 *            phase 2 (a task a shard)   unique_row of these, new rows and candidates
 *            phase 3 (a task a part)    row_of, list, unique_end; item_weight, of long parts (from phase 1) weight_of;
 *                                       counts as above. Of long parts whose keys repeat, copies of the rows in place
 *                                       of row_of and weight_of: occurrences read these and item_weight by item_of;
 *                                       mostly no list, as gradients are added to the items' sums (item_sums.c)
 *
 * Of rows of one number (pack->single) phases 1 and 2 bring item_weight: there is no phase 3.
 *
 * Frequencies and last steps are kept by the update, which has the rows in hand, but for packs whose frequencies the
 * step itself reads (pack->counted).
 *
 * Parts are those of leading lookups (place.c): following ones have their occurrences, and so their rows, lists
 * and unique keys, and read and train another member of the row. Counts of occurrences and rows that must not
 * depend on who shares rows (cut.c, the norm's tasks, n_keys, n_unique) take each lookup for itself.
 *
 * There unique key u of a part is entry base + u, item u, but that a long part's with lists are sorted by their counts in
 * phase 3, after which only occurrences have to do with its items. Unique keys come in segments, which the update walks
 * through: the parts; or, lookup by lookup, what of a shard's keys is first met there (runs), so that one lookup's gradients
 * are read at a time, which stay in the second cache. Arrays "by shard" are cut at the shards' `start`, by their items:
 * unique key u of a shard is entry start + u.
 * The list is cut by their occurrences: the key's sources, one an occurrence and in their order, end at unique_end.
 * Nothing that is written here but the cut into parts depends on threads: the order of shards, unique keys and
 * sources and the update tasks follow from the batch. */
#ifndef FTH_EMBEDDING_PRIVATE_H
#define FTH_EMBEDDING_PRIVATE_H

#include "embedding/embedding.h"
#include "embedding/shard.h"

#define FTH_UPDATE_TASKS 64 /* the plan's number; a small batch fills fewer, the rest do nothing */
#define FTH_NO_UNIQUE UINT32_MAX
#define FTH_NO_LOOKUP UINT32_MAX
#define FTH_PART_SHIFT_MAX 15      /* of a unit */
#define FTH_LONG_PART_SHIFT_MAX 20 /* of a long list's part */

struct fth_embedding_lookup {
    struct fth_lookup is; /* table: borrowed from the pack's table */
    uint32_t pack, table; /* table: number in the pack */
    uint32_t member;      /* of the pack's rows; 0: it leads */
    uint32_t leading;     /* the lookup that leads it; itself */
    int pooled;           /* it leads, and it or one that follows is pooled */
    struct fth_embedding_lookup **members; /* it leads: [pack's n_members], itself first */
    uint32_t *argmax;     /* max pooling: [max_batch][dim] positions of the maxima, from gather */
    float *share;         /* mean pooling: [max_batch] 1 / the length of an example's list */
    int firsts;           /* it leads, and first_of is needed of it */
    uint32_t head, next;  /* of the lookups that read the same member of the same table's rows: the first; the one
                           * behind this, or FTH_NO_LOOKUP */
    /* the current batch */
    uint32_t base, n; /* its occurrences */
    uint32_t end;     /* of its numbers: base + 2^part_shift * units */
    uint32_t first_part, n_parts;
    uint32_t cost; /* of finding its rows, as of the batch before */
    int by_example;   /* its sources are examples */
    int spread;       /* weight_of has its single numbers */
    uint32_t n_new;   /* by_part: of its part's items, those first met in it */
    uint32_t missing_at[FTH_SHARDS + 1]; /* by_part: among its part's missing items, where each shard's of these are */
    const struct fth_keys *keys;
    uint32_t buckets; /* it has numbers below this for keys; 0: it has not */
    const float *values;     /* NULL: all 1 */
    const uint32_t *offsets; /* ragged fields */
    /* numbered lookups: see unique.c */
    struct fth_unique_rows unique;
    void *unique_region;
    uint32_t *unique_number, *unique_begin, *unique_examples, *unique_row_of, *unique_table;
    float *unique_rows;
};

struct fth_part {
    uint32_t lookup;
    uint32_t base, n, shift;     /* occurrences; at most 2^shift */
    uint32_t n_items, n_rows;    /* by_part: n_rows of the items had one already */
    uint32_t items;              /* its first item; by_part: base */
    int by_bucket;               /* item_bucket says which the items are */
    int copied;                  /* by_part: its items' rows lie side by side, from phase 3 on (fth_part_copies) */
    int summed;                  /* copied: its rows are trained without lists of sources (item_sums.c) */
    uint32_t at[FTH_SHARDS + 1]; /* not by_part: among the items, where each shard's begin */
    uint32_t occurrences[FTH_SHARDS]; /* of each shard's items */
};

/* Occurrences of a part that are one lookup's. */
struct fth_span {
    uint32_t lookup, base, n;
};

/* What an occurrence takes of its item. */
struct fth_met {
    uint32_t row;
    float weight;
};

/* A unique key that has no row yet. */
struct fth_missing {
    uint64_t hash;
    uint32_t item, count;
};

/* Where an update task begins: unique key `unique` of a segment. */
struct fth_update_start {
    uint32_t segment, unique;
};

/* Unique keys that lie together in the arrays: entries [start, start + n); their sources from `list` on. */
struct fth_segment {
    const struct fth_pack *pack;
    uint32_t start, n, list;
};

/* A shard's unique keys that are first met in one lookup: entries [start, start + n). */
struct fth_run {
    uint32_t start, n;
};

/* A member of a pack's rows, and one of its tables. */
struct fth_place {
    uint32_t pack, member, table;
};

/* What is shown as a pack: tables of one dimension and optimizer, wherever they are. */
struct fth_view {
    uint32_t dim, n_tables, n_sources;
    int linear; /* fth_member's */
    const char **names;        /* [n_tables] */
    struct fth_place *places;  /* [n_tables] */
    struct fth_place *sources; /* members that are shown, all their tables; in the order of their rows */
};

struct fth_embedding {
    struct fth_pack *packs;
    uint32_t n_packs, n_members;
    struct fth_view *views;
    uint32_t n_views;
    struct fth_embedding_lookup *lookups;
    uint32_t n_lookups;
    struct fth_embedding_lookup **by_member; /* [n_lookups] the leading lookups' `members` */
    char *names; /* all table names, owned */
    struct fth_row_optimizer optimizer[2]; /* by fth_member.linear */
    const struct fth_kernels *kernels;
    struct fth_opt_args args[2];
    struct fth_budget budget;
    uint32_t max_batch, max_dim, part_shift;
    uint64_t factor; /* of keys' places in a batch's tables: base/hash.h */
    uint32_t *by_cost;  /* [n_lookups] lookups, those whose rows cost most first */
    uint32_t *identity; /* [max_batch + 1]: 0, 1, 2, ... as offsets of one-key fields */
    struct fth_rows rows;

    /* ---- the current batch ---- */
    const struct fth_batch *batch; /* NULL: none prepared */
    int training;
    int by_part; /* every table's keys are one part */
    int short_parts; /* by_part at any number of workers: those parts are units */
    uint64_t step;
    uint32_t n_parts, parts_capacity;
    uint64_t n_runs; /* of 2^part_shift occurrences: each lookup's own, leading or not */
    struct fth_part *parts; /* by_part: the costly ones first, dealt out to the workers */
    uint32_t *part_order; /* not by_part: [n_parts] numbers of parts, those of one pack together, in the
                           * batch's order */
    uint32_t *lookup_of;  /* [units] */
    uint64_t n_keys, n_unique;
    struct fth_run *runs; /* [n_lookups][FTH_SHARDS] of lookups that lead, others' are empty; not by_part */
    uint32_t n_tasks;
    struct fth_update_start task_start[FTH_UPDATE_TASKS + 1];
    /* [capacity], one block */
    uint32_t capacity;
    _Atomic uint32_t items; /* taken by parts, if not by_part */
    uint32_t met_stride; /* room for a part a worker; 0: there is none, each part has its own */
    void *block;
    uint64_t *part_hash; /* by item: its key, then its hash */
    uint64_t *hash;      /* by shard: of unique keys */
    uint32_t *seen;      /* [2 capacity] by shard, from 2 start on: a table of its unique keys */
    uint32_t *item_of;   /* by occurrence: its item, within the part, as they are met */
    uint32_t *item_count, *item_first, *item_row; /* by item */
    float *item_weight;  /* by item: weights of the member of one number */
    uint32_t *item_at; /* by item: where its next occurrence goes in the list */
    uint32_t *item_place; /* not by_part, as the part's items are met: which of them in the order of shards */
    uint32_t *item_bucket; /* by_part: item_place's memory */
    struct fth_missing *missing; /* by_part: items without a row, by part, in each by lookup and shard; memory of `hash`
                                  * and the two arrays behind it */
    uint32_t *unique_row, *unique_end; /* by shard; by_part: by item */
    uint32_t *shard_count, *unique_first; /* by shard */
    uint32_t *unique_count;               /* the former, by_part the items' */
    float *unique_weight; /* by shard: as item_weight */
    float *weight_of;     /* by occurrence: the same, from phase 3 on; seen's memory */
    uint32_t *list;       /* by shard; from phase 3 on */
    uint32_t *row_of;     /* by occurrence: its row, from phase 3 on; item_of's memory, by_part first_of's */
    uint32_t *first_of;   /* by occurrence, of lookups with `firsts`: the unique entry it is first in, or FTH_NO_UNIQUE */
    uint32_t *example_of; /* by occurrence: pooled ragged fields whose sources are positions, and of short parts */
};

/* Of an occurrence or a source. */
static inline struct fth_embedding_lookup *fth_lookup_of(const struct fth_embedding *embedding,
                                                         uint32_t number) {
    return &embedding->lookups[embedding->lookup_of[number >> embedding->part_shift]];
}

/* The lookup of the row's member that the occurrence belongs to, beside its leading one. */
static inline struct fth_embedding_lookup *
fth_member_lookup_of(const struct fth_embedding *embedding, uint32_t occurrence, uint32_t member) {
    struct fth_embedding_lookup *leading = fth_lookup_of(embedding, occurrence);
    return member ? leading->members[member] : leading;
}

static inline const struct fth_member *fth_member_of(const struct fth_embedding *embedding,
                                                     const struct fth_embedding_lookup *lookup) {
    return &embedding->packs[lookup->pack].members[lookup->member];
}

static inline int fth_lookup_pooled(const struct fth_lookup *lookup) {
    return lookup->group != FTH_NO_GROUP && lookup->pooling != FTH_POOL_NONE;
}

static inline uint32_t fth_segments(const struct fth_embedding *embedding) {
    return embedding->by_part ? embedding->n_parts : embedding->n_lookups * FTH_SHARDS;
}

static inline struct fth_segment fth_segment_of(const struct fth_embedding *embedding,
                                                uint32_t number) {
    if (embedding->by_part) {
        const struct fth_part *part = &embedding->parts[number];
        return (struct fth_segment){&embedding->packs[embedding->lookups[part->lookup].pack],
                                    part->base, part->n_items, part->base};
    }
    const struct fth_pack *pack = &embedding->packs[embedding->lookups[number / FTH_SHARDS].pack];
    const struct fth_shard *shard = &pack->shards[number % FTH_SHARDS];
    struct fth_run run = embedding->runs[number];
    uint32_t list = run.start == shard->start || run.n == 0 ? shard->list : embedding->unique_end[run.start - 1];
    return (struct fth_segment){pack, run.start, run.n, list};
}

/* Whether item_weight has the member's weights in this batch. */
static inline int fth_member_copied(const struct fth_embedding *embedding,
                                    const struct fth_pack *pack, uint32_t member) {
    return embedding->by_part && pack->one_number == member;
}

/* Whether item_weight and the items are all there is of the pack in this batch. */
static inline int fth_pack_by_weight(const struct fth_embedding *embedding,
                                     const struct fth_pack *pack) {
    return embedding->by_part && pack->single;
}

/* Whether the segment goes to one update task as a whole: a part whose gradients are summed item by item. */
static inline int fth_segment_is_whole(const struct fth_embedding *embedding, uint32_t number) {
    if (!embedding->by_part)
        return 0;
    const struct fth_part *part = &embedding->parts[number];
    return part->summed || fth_pack_by_weight(embedding, &embedding->packs[embedding->lookups[part->lookup].pack]);
}

/* A part's spans: its lookups' occurrences, those of one lookup where parts are not tables. */
static inline struct fth_span fth_first_span(const struct fth_embedding *embedding, const struct fth_part *part) {
    uint32_t n = embedding->by_part ? embedding->lookups[part->lookup].n : part->n;
    return (struct fth_span){part->lookup, part->base, n};
}

static inline struct fth_span fth_next_span(const struct fth_embedding *embedding, struct fth_span span) {
    uint32_t next = embedding->by_part ? embedding->lookups[span.lookup].next : FTH_NO_LOOKUP;
    if (next == FTH_NO_LOOKUP)
        return (struct fth_span){.lookup = FTH_NO_LOOKUP};
    return (struct fth_span){next, embedding->lookups[next].base, embedding->lookups[next].n};
}

/* Two numbers for each of a long part's occurrences, for its task in phase 1: the worker's, always in the same place,
 * if there is room for all workers. */
static inline uint32_t *fth_part_room(const struct fth_embedding *embedding, const struct fth_part *part,
                                      uint32_t worker) {
    return embedding->seen + 2 * (size_t)(embedding->met_stride ? worker * embedding->met_stride : part->base);
}

/* Copies of a part's rows (copied): item by item, of each member but that of one number the weights, from fth_copy_at of
 * an item's floats on, as many as fth_copy_at of all members. In place of the part's `missing`. */
static inline float *fth_part_copies(const struct fth_embedding *embedding, const struct fth_part *part) {
    return (float *)(void *)(embedding->missing + part->base);
}
static inline uint32_t fth_copy_at(const struct fth_pack *pack, uint32_t member) {
    uint32_t at = 0;
    for (uint32_t m = 0; m < member; m++)
        at += m == pack->one_number ? 0 : fth_padded_columns(pack->members[m].dim);
    return at;
}

/* The part whose copies a lookup's occurrences read; NULL: they read rows. */
static inline const struct fth_part *fth_copied_part(const struct fth_embedding *embedding,
                                                     const struct fth_embedding_lookup *lookup) {
    if (!embedding->by_part || lookup->n == 0 || !embedding->parts[lookup->first_part].copied)
        return NULL;
    return &embedding->parts[lookup->first_part];
}

/* Whether the part is more than a unit of one lookup's. */
static inline int fth_part_is_long(const struct fth_embedding *embedding, const struct fth_part *part) {
    return part->shift > embedding->part_shift;
}

/* parts.c: puts each of the span's sources where its item's next one goes in the list (item_at: by the
 * part's items), and moves that on. */
void fth_part_list(struct fth_embedding *embedding, struct fth_span span, uint32_t *item_at);
/* The key of an entry of a table by bucket, whose last one is the missing value's. */
static inline uint64_t fth_entry_key(const struct fth_embedding_lookup *lookup, uint32_t entry) {
    return fth_bucket_key(lookup->keys->salt, entry < lookup->buckets ? entry : FTH_NUMBER_MISSING);
}
/* long_part.c: as fth_part_number, but keys in place of hashes, of long parts. table: 2 numbers an occurrence of the
 * part. bucket: unless NULL the items' buckets in place of their keys, if they are those of few buckets (by_bucket). */
uint32_t fth_long_part_number(const struct fth_embedding *embedding, struct fth_part *part, uint32_t *table,
                              uint64_t *item_key, uint32_t *item_count, uint32_t *item_first,
                              uint32_t *item_bucket);
/* A part's items in the order in which they are met: hashes (by_part and by_bucket: none), counts, unless `first` is
 * NULL first occurrences; how many (phase 1, both ways). */
uint32_t fth_part_number(struct fth_embedding *embedding, struct fth_part *part, uint32_t worker, uint64_t *hashes,
                         uint32_t *count, uint32_t *first);
/* Of a span's occurrences the rows, in item_of's place if that is where they are to be, and single numbers. */
void fth_part_spread(const struct fth_embedding *embedding, const struct fth_pack *pack, struct fth_span span,
                     const struct fth_met *met);
/* table_part.c: long parts by_part. Room for the table's rows by bucket, where they are to be found by that. */
fth_status fth_table_part_room(struct fth_embedding *embedding, uint32_t lookup, fth_error *err);
/* Phase 1 of a part numbered by bucket: the items' rows and single numbers. Those that have no row come in `missing`,
 * with hashes in place of their keys; how many. */
uint32_t fth_table_part_find(struct fth_embedding *embedding, const struct fth_part *part, uint32_t worker,
                             uint32_t *missing);
/* item_sums.c: whether the part's rows can be trained without lists of sources. */
int fth_items_can_be_summed(const struct fth_embedding *embedding, const struct fth_part *part);
/* Phase 3. */
void fth_table_part_keep(struct fth_embedding *embedding, struct fth_part *part);
/* The phases 1 to 3 of by_part. */
void fth_part_find(void *arg, uint32_t task, uint32_t worker);
void fth_part_create(void *arg, uint32_t task, uint32_t worker);
void fth_part_keep(void *arg, uint32_t task, uint32_t worker);
/* Rows of hashes, those that have one, and unless weight is NULL their member's of one number; how many have
 * one. Only reads. */
uint32_t fth_find_rows(const struct fth_pack *pack, const uint64_t *hash, uint32_t n,
                       uint32_t *rows, float *weight);
/* For a unique key without a row: makes it, where its count with this batch's occurrences, `count`, allows it. */
fth_status fth_create_row(struct fth_pack *pack, struct fth_shard *shard, uint32_t table, uint64_t hash,
                          uint64_t count, uint32_t *row);
/* Adds to the count of a key that is a candidate. */
void fth_count_candidate(const struct fth_pack *pack, uint64_t hash, uint32_t count);
/* ahead.c: decides which memory of rows the coming batches are to find ready, so many workers together; touches what is
 * wanted, once. */
void fth_pack_plan_ahead(struct fth_pack *pack, uint32_t workers);
void fth_embedding_beside(void *ctx);

/* Frequency and last step of a unique key's row, or its candidate's count. */
static inline void fth_count_unique(const struct fth_embedding *embedding, const struct fth_pack *pack,
                                    uint32_t unique) {
    uint32_t row = embedding->unique_row[unique], count = embedding->unique_count[unique];
    if (row != FTH_ROW_NONE)
        fth_pack_count(pack, row, count, embedding->step);
    else
        fth_count_candidate(pack, (embedding->by_part ? embedding->part_hash : embedding->hash)[unique], count);
}
/* The same of unique keys [unique, last). */
void fth_count_range(const struct fth_embedding *embedding, const struct fth_pack *pack, uint32_t unique,
                     uint32_t last);
/* cut.c: cuts the unique rows into update tasks. */
void fth_embedding_cut_updates(struct fth_embedding *embedding);

/* The first half of prepare: points the lookups at the batch's keys, counts them, cuts the parts,
 * makes room. workers: who is going to prepare. */
fth_status fth_embedding_take_batch(struct fth_embedding *embedding, const struct fth_batch *batch,
                                    uint32_t workers, fth_error *err);
/* Frees what that has allocated. */
void fth_embedding_free_batch(struct fth_embedding *embedding);

/* unique.c: room for a numbered lookup; its part of prepare, training only (otherwise nothing is
 * numbered); and the end of that room. */
fth_status fth_embedding_unique_create(const struct fth_embedding *embedding, struct fth_embedding_lookup *lookup,
                                       fth_error *err);
void fth_embedding_unique_number(struct fth_embedding *embedding, fth_pool *pool);
void fth_embedding_unique_free(struct fth_embedding_lookup *lookup, uint32_t max_batch);

/* rows.h's functions. */
const struct fth_unique_rows *fth_embedding_unique(void *ctx, uint32_t lookup);
void fth_embedding_gather(void *ctx, uint32_t lookup, uint32_t example0, uint32_t n, float *out,
                          uint32_t ld);
void fth_embedding_gather_many(void *ctx, const uint32_t *lookups, uint32_t n_lookups,
                               uint32_t example0, uint32_t n, float *out, uint32_t ld);
void fth_embedding_frequencies(void *ctx, uint32_t lookup, uint32_t example0, uint32_t n, float *out,
                               uint32_t ldo);
uint32_t fth_embedding_update_tasks(void *ctx);
void fth_embedding_update(void *ctx, const struct fth_row_gradient *gradients, uint32_t n,
                          float grad_scale, uint32_t task, void *scratch);
double fth_embedding_gradient_squares(void *ctx, const struct fth_row_gradient *gradients,
                                      uint32_t n, uint32_t task, void *scratch);
size_t fth_embedding_update_scratch(void *ctx);

/* place.c: views, packs with their members and tables, and every lookup's place in them. */
fth_status fth_embedding_place(struct fth_embedding *embedding,
                               const struct fth_embedding_options *options, fth_error *err);
void fth_embedding_free_views(struct fth_embedding *embedding);

/* Writes FTH_E_LIMIT with the table, what is in use, and the key that says so. */
fth_status fth_embedding_limit_error(const struct fth_embedding *embedding,
                                     const struct fth_pack *pack, uint32_t table, fth_error *err);

#endif
