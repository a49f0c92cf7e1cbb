/* What update.c (rows of any length), single.c (rows of one number) and item_sums.c (rows of parts that are summed) share. */
#ifndef FTH_EMBEDDING_UPDATE_PRIVATE_H
#define FTH_EMBEDDING_UPDATE_PRIVATE_H

#include <string.h>

#include "embedding/embedding_private.h"

/* A lookup's gradients among those of the call: [first, last] bounds the ones that are its own;
 * usually one. */
struct fth_own_gradients {
    uint32_t first, last;               /* a row an example; first > last: none */
    uint32_t first_unique, last_unique; /* a row a unique row */
    uint32_t parts, table_parts;        /* of those, together; of all lookups of the same rows */
};

enum { FTH_UPDATE_SINGLE, FTH_UPDATE_BLOCKS, FTH_UPDATE_PIECES };

/* One task's. */
struct fth_update_work {
    const struct fth_embedding *embedding;
    const struct fth_row_gradient *gradients;
    struct fth_own_gradients *own; /* [n_lookups] */
    uint32_t member;               /* of the rows, whose lookups' gradients these are */
    const float **source;          /* [SOURCES] */
    float *scale;                  /* [SOURCES] */
    float *sum[2];                 /* [max_dim] each */
    float *picked;                 /* [PICKED][max_dim] */
    uint8_t *way;                  /* [n_members] FTH_UPDATE_* */
    uint32_t *met;                 /* [n_lookups] a source of each lookup with gradients of unique rows that the key has */
    uint32_t n;                    /* sources collected */
    uint32_t n_picked, n_met;
    uint32_t meets; /* gradients of unique rows that the key may have, at most */
    int scaled; /* a scale is not 1 */
};

/* What an occurrence's output gradient is multiplied by on its way to the row; the row of the
 * gradient. */
static inline float fth_occurrence_scale(const struct fth_embedding *embedding,
                                         const struct fth_embedding_lookup *lookup,
                                         uint32_t occurrence, uint32_t *gradient_row) {
    uint32_t position = occurrence - lookup->base;
    float scale = lookup->values ? lookup->values[position] : 1;
    *gradient_row = position;
    if (fth_lookup_pooled(&lookup->is)) {
        uint32_t example = embedding->example_of[occurrence];
        *gradient_row = example;
        if (lookup->is.pooling == FTH_POOL_MEAN)
            scale /= (float)(lookup->offsets[example + 1] - lookup->offsets[example]);
    }
    return scale;
}

/* Not 0 where a scale is not 1: without a comparison of floats, which waits for it. */
static inline uint32_t fth_unlike_one(float scale) {
    const float one = 1;
    uint32_t bits[2];
    memcpy(&bits[0], &scale, sizeof scale);
    memcpy(&bits[1], &one, sizeof one);
    return bits[0] ^ bits[1];
}

/* The same of a source. */
static inline float fth_source_scale(const struct fth_embedding *embedding,
                                     const struct fth_embedding_lookup *lookup, uint32_t source,
                                     uint32_t *gradient_row) {
    if (!lookup->by_example)
        return fth_occurrence_scale(embedding, lookup, source, gradient_row);
    uint32_t example = *gradient_row = source - lookup->base;
    return lookup->share ? lookup->share[example] : 1;
}

/* A row's member, from its summed gradient. */
static inline void fth_update_row(const struct fth_update_work *work, const struct fth_member *member, float *row,
                                  const float *gradient, const struct fth_opt_args *args) {
    float *slots[FTH_MAX_SLOTS] = {row + member->slot_at[0], row + member->slot_at[1]};
    member->optimizer->is->apply(work->embedding->kernels, member->dim, row + member->at, slots, gradient,
                                 &args[member->linear], NULL);
}

/* Members of one number whose optimizer looks at nothing else are updated a block of rows at a time. */
#define FTH_NUMBERS 64
struct fth_number_block {
    uint32_t n;
    float *row[FTH_NUMBERS];
    float gradient[FTH_NUMBERS];
};
static inline int fth_member_is_number(const struct fth_member *member) {
    return member->dim == 1 && !member->optimizer->is->rowwise;
}
/* single.c: updates the block's rows, and empties it. */
void fth_update_numbers(const struct fth_update_work *work, const struct fth_member *member,
                        struct fth_number_block *block, const struct fth_opt_args *args);
/* Adds a row and its gradient; a full block is updated. */
static inline void fth_update_number(const struct fth_update_work *work, const struct fth_member *member,
                                     struct fth_number_block *block, float *row, float gradient,
                                     const struct fth_opt_args *args) {
    block->row[block->n] = row;
    block->gradient[block->n++] = gradient;
    if (block->n == FTH_NUMBERS)
        fth_update_numbers(work, member, block, args);
}

/* single.c: the update of unique keys [unique, last), of FTH_UPDATE_SINGLE. args: two, by fth_member.linear. */
void fth_update_single(const struct fth_update_work *work, const struct fth_pack *pack,
                       uint32_t unique, uint32_t last, const struct fth_opt_args *args);

/* single.c: of a part whose items' weights are all there is (fth_pack_by_weight): the update of all its
 * rows, and the squares of their gradients added to a sum. */
void fth_update_part(const struct fth_update_work *work, const struct fth_part *part,
                     const struct fth_opt_args *args);
double fth_part_squares(const struct fth_update_work *work, const struct fth_part *part,
                        double sum);

/* item_sums.c: the update of a part that is summed, of all its rows. */
void fth_update_items(struct fth_update_work *work, const struct fth_part *part, const struct fth_opt_args *args);

#endif
