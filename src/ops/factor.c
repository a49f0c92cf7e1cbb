/* Which fields of a factorised layer are factorised in this batch, and where the other columns go:
 * see factor.h. Pure functions; any thread. */
#include "ops/factor.h"

static void add_range(struct fth_factor_layout *layout, const struct fth_factor_piece *piece) {
    struct fth_factor_range *last = layout->n_ranges ? &layout->ranges[layout->n_ranges - 1] : NULL;
    if (last && last->column + last->columns == piece->column)
        last->columns += piece->columns;
    else
        layout->ranges[layout->n_ranges++] =
            (struct fth_factor_range){piece->column, piece->columns, layout->columns};
    layout->columns += piece->columns;
}

/* NULL: not in this batch and this way. */
static const struct fth_unique_rows *factorised(const struct fth_run *run, const struct fth_factor_piece *piece,
                                                enum fth_factor_way way) {
    const struct fth_factor_attributes *a = run->node->attributes;
    const struct fth_rows *rows = run->rows;
    if (piece->lookup < 0 || !rows->unique)
        return NULL;
    const struct fth_unique_rows *unique = rows->unique(rows->ctx, (uint32_t)piece->lookup);
    return (way == FTH_FACTOR_FORWARD ? unique->n > 0 : fth_unique_few(unique, a->gradient_most)) ? unique : NULL;
}

static int wanted(const struct fth_factor_piece *piece, enum fth_factor_way way) {
    return piece->gradient || way != FTH_FACTOR_DATA;
}

void fth_factor_layout_make(const struct fth_run *run, enum fth_factor_way way, struct fth_factor_layout *out) {
    const struct fth_factor_attributes *a = run->node->attributes;
    int weights = way == FTH_FACTOR_WEIGHTS;
    out->n_fields = out->unique_rows = out->columns = out->n_ranges = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct fth_factor_piece *piece = &a->pieces[i];
        const struct fth_unique_rows *unique = factorised(run, piece, way);
        if (unique) {
            out->fields[out->n_fields++] =
                (struct fth_factor_field){unique, piece->column, out->unique_rows};
            out->unique_rows += unique->n;
        } else if (wanted(piece, way) && !(weights && factorised(run, piece, FTH_FACTOR_FORWARD))) {
            add_range(out, piece);
        }
    }
    for (uint32_t i = 0; weights && i < a->n; i++)
        if (factorised(run, &a->pieces[i], FTH_FACTOR_FORWARD) && !factorised(run, &a->pieces[i], way))
            add_range(out, &a->pieces[i]);
}

uint32_t fth_factor_columns(const struct fth_factor_attributes *a, enum fth_factor_way way, uint32_t plain) {
    uint32_t columns = plain * a->dim;
    for (uint32_t i = 0; i < a->n; i++)
        if (a->pieces[i].lookup < 0 && wanted(&a->pieces[i], way))
            columns += a->pieces[i].columns;
    return columns;
}

fth_status fth_factor_check(const fth_graph *graph, const struct fth_factor_attributes *a,
                            uint32_t columns, fth_error *err) {
    uint32_t at = 0, lookups = 0;
    for (uint32_t i = 0; a && i < a->n; i++) {
        const struct fth_factor_piece *piece = &a->pieces[i];
        if (piece->column != at || !piece->columns)
            return fth_fail(err, FTH_E_ARGUMENT, "piece %u begins at column %u, not %u", i,
                            piece->column, at);
        at += piece->columns;
        if (piece->lookup < 0)
            continue;
        if ((uint32_t)piece->lookup >= graph->n_lookups || piece->columns != a->dim ||
            graph->lookups[piece->lookup].dim != a->dim || !graph->lookups[piece->lookup].numbered)
            return fth_fail(err, FTH_E_ARGUMENT, "lookup %d cannot be factorised here",
                            (int)piece->lookup);
        lookups++;
    }
    if (!a || at != columns || lookups != a->n_lookups || !lookups || lookups > FTH_FACTOR_LOOKUPS)
        return fth_fail(err, FTH_E_ARGUMENT, "%u columns in pieces with %u lookups do not fit x",
                        at, lookups);
    return FTH_OK;
}

void fth_factor_print(const struct fth_node *node, struct fth_text *out) {
    const struct fth_factor_attributes *a = node->attributes;
    fth_text_printf(out, "lookups=");
    for (uint32_t i = 0, n = 0; i < a->n; i++)
        if (a->pieces[i].lookup >= 0)
            fth_text_printf(out, "%s%d", n++ ? "," : "", (int)a->pieces[i].lookup);
}

#define LEAST_COLUMNS 8

struct fth_factor_blocks fth_factor_blocks_make(uint32_t columns) {
    uint32_t rest = columns % FTH_FACTOR_BLOCK, count = columns / FTH_FACTOR_BLOCK;
    struct fth_factor_blocks blocks = {.count = count, .last = FTH_FACTOR_BLOCK + rest};
    if (rest == 0)
        blocks.last = FTH_FACTOR_BLOCK;
    else if (rest >= LEAST_COLUMNS || count == 0)
        blocks = (struct fth_factor_blocks){.count = count + 1, .last = rest};
    uint32_t widest = blocks.last > FTH_FACTOR_BLOCK ? blocks.last : FTH_FACTOR_BLOCK;
    blocks.ld = (widest + 15) & ~15u;
    return blocks;
}

uint32_t fth_factor_parts(uint32_t columns) {
    uint32_t blocks = fth_factor_blocks_make(columns).count;
    return blocks < 4 ? blocks : 4;
}
