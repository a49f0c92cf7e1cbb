/* Operations whose arithmetic depends on the example's domain (STAR, Sheng et al. 2021). The domain is a value
 * [., domains] of which the example's column is 1 and the others 0: an indicator's floats. */
#ifndef FTH_OPS_DOMAIN_H
#define FTH_OPS_DOMAIN_H

#include "ops/ops_private.h"

/* The first column above 1/2; the last one where none is. */
static inline uint32_t fth_domain_of(const struct fth_view *domain, uint32_t row) {
    const float *at = domain->data + (size_t)row * domain->ld;
    uint32_t d = 0;
    while (d + 1 < domain->columns && !(at[d] > 0.5f))
        d++;
    return d;
}

/* Numbers of those of n rows that are of domain d, ascending; how many. */
static inline uint32_t fth_domain_rows(const struct fth_view *domain, uint32_t d, uint32_t n, uint32_t *rows) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++)
        if (fth_domain_of(domain, i) == d)
            rows[found++] = i;
    return found;
}

/* Shape rules: input i has a row like input `like` and is a domain; input i is [domains of input 1, columns]. */
fth_status fth_domain_need(const fth_graph *graph, const struct fth_node *node, uint32_t i, uint32_t like,
                           fth_error *err);
fth_status fth_domain_need_table(const fth_graph *graph, const struct fth_node *node, uint32_t i,
                                 uint32_t columns, fth_error *err);

/* The panels of the weights that are domain_weights' output 0, or of their transposed copies; FTH_NONE for
 * other values. */
fth_id fth_domain_panels(const fth_graph *graph, fth_id weights, int turned);

/* Columns of n rows, one after the other at rows of ld floats. */
void fth_domain_gather(uint32_t n, const uint32_t *rows, const struct fth_view *from, uint32_t column,
                       uint32_t columns, float *to, uint32_t ld);

#endif
