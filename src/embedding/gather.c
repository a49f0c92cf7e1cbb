/* Reading rows: pooled or plain, straight into the tile's input. The start of a step's forward
 * part.
 *
 * Threads: any worker, any examples; rows are only read. Gathering for max pooling notes which
 * position gave each maximum, for the gradient: each example's notes belong to whoever gathers the
 * example. */
#include <string.h>

#include "embedding/embedding_private.h"

/* Rows of positions [first, first + n), times their values where the field has some. */
static void gather_positions(const struct fth_embedding *embedding,
                             const struct fth_embedding_lookup *lookup, uint32_t first, uint32_t n,
                             float *out, uint32_t ld) {
    const struct fth_pack *pack = &embedding->packs[lookup->pack];
    const uint32_t *rows = embedding->row_of + lookup->base + first;
    if (!lookup->values) {
        embedding->kernels->gather(n, rows, pack->rows, pack->stride, pack->dim, out, ld);
        return;
    }
    for (uint32_t done = 0; done < n;) {
        uint32_t m = n - done < embedding->max_batch ? n - done : embedding->max_batch;
        embedding->kernels->gather_pool(m, embedding->identity, rows + done,
                                        lookup->values + first + done, pack->rows, pack->stride,
                                        pack->dim, FTH_POOL_SUM, out + (size_t)done * ld, ld);
        done += m;
    }
}

/* The same as the kernel's max pooling, and where each maximum was first met. */
static void gather_max(const struct fth_embedding *embedding,
                       const struct fth_embedding_lookup *lookup, uint32_t example, float *out) {
    const struct fth_pack *pack = &embedding->packs[lookup->pack];
    uint32_t dim = pack->dim, first = lookup->offsets[example], last = lookup->offsets[example + 1];
    uint32_t *argmax = lookup->argmax + (size_t)example * dim;
    memset(out, 0, dim * sizeof *out);
    for (uint32_t j = 0; j < dim; j++)
        argmax[j] = first;
    for (uint32_t t = first; t < last; t++) {
        const float *row = fth_pack_row(pack, embedding->row_of[lookup->base + t]);
        float value = lookup->values ? lookup->values[t] : 1;
        for (uint32_t j = 0; j < dim; j++) {
            float x = value * row[j];
            if (t == first || x > out[j] || x != x) {
                out[j] = x;
                argmax[j] = t;
            }
        }
    }
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
    if (lookup->is.pooling == FTH_POOL_MAX) {
        for (uint32_t i = 0; i < n; i++)
            gather_max(embedding, lookup, example0 + i, out + (size_t)i * ld);
        return;
    }
    const struct fth_pack *pack = &embedding->packs[lookup->pack];
    embedding->kernels->gather_pool(n, offsets, embedding->row_of + lookup->base + offsets[0],
                                    lookup->values ? lookup->values + offsets[0] : NULL, pack->rows,
                                    pack->stride, pack->dim, (fth_pooling)lookup->is.pooling, out,
                                    ld);
}

/* ---- many one-key fields side by side ---- */

#define MANY 64

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

static inline void copy_row(uint32_t dim, const float *row, float *out) {
    uint32_t j = 0;
    for (; j + 4 <= dim; j += 4)
        *(four *)(out + j) = *(const four *)(row + j);
    for (; j < dim; j++)
        out[j] = row[j];
}

/* Example by example, so that the output is written in order; the next example's rows are fetched
 * meanwhile (with 26 fields: 26 rows ahead). */
static inline __attribute__((always_inline)) void
gather_side_by_side(const uint32_t *const *rows, const float *const *base, uint32_t n_lookups,
                    size_t stride, uint32_t dim, uint32_t n, float *out, uint32_t ld) {
    for (uint32_t i = 0; i < n; i++, out += ld) {
        if (i + 1 < n) {
            for (uint32_t l = 0; l < n_lookups; l++)
                __builtin_prefetch(base[l] + rows[l][i + 1] * stride);
        }
        for (uint32_t l = 0; l < n_lookups; l++)
            copy_row(dim, base[l] + rows[l][i] * stride, out + (size_t)l * dim);
    }
}

void fth_embedding_gather_many(void *ctx, const uint32_t *lookups, uint32_t n_lookups,
                               uint32_t example0, uint32_t n, float *out, uint32_t ld) {
    const struct fth_embedding *embedding = ctx;
    const uint32_t *rows[MANY];
    const float *base[MANY];
    if (!embedding->batch)
        return;
    for (uint32_t l = 0; l < n_lookups;) {
        uint32_t dim = embedding->lookups[lookups[l]].is.dim, m = 0;
        size_t stride = embedding->packs[embedding->lookups[lookups[l]].pack].stride;
        for (; m < MANY && l + m < n_lookups; m++) {
            const struct fth_embedding_lookup *lookup = &embedding->lookups[lookups[l + m]];
            if (lookup->offsets || lookup->values)
                break;
            rows[m] = embedding->row_of + lookup->base + example0;
            base[m] = embedding->packs[lookup->pack].rows;
        }
        float *to = out + (size_t)l * dim;
        if (m == 0) {
            fth_embedding_gather(ctx, lookups[l], example0, n, to, ld);
            m = 1;
        } else if (dim == 1) {
            gather_side_by_side(rows, base, m, stride, 1, n, to, ld);
        } else if (dim == 16) {
            gather_side_by_side(rows, base, m, stride, 16, n, to, ld);
        } else {
            gather_side_by_side(rows, base, m, stride, dim, n, to, ld);
        }
        l += m;
    }
}
