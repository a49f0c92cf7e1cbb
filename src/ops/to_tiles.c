/* to_tiles(x): x rounded to bf16 in tiles (kernels/tiles.h): by rows, as the left side of products NN, and in the way
 * that the weight gradient wants. What nobody reads is not made. */
#include "kernels/tiles.h"
#include "ops/ops_private.h"

#define PIECE 128u /* columns */

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    const struct fth_to_tiles_attributes *a = node->attributes;
    const int ways[2] = {FTH_TILES_ROWS, a->weight_grad};
    struct fth_value x = fth_ops_input(graph, node, 0);
    if (x.extent != FTH_EXAMPLES || x.tiles)
        return fth_fail(err, FTH_E_ARGUMENT, "its input has no floats of examples");
    for (uint32_t i = 0; i < 2; i++) {
        FTH_TRY(fth_ops_output_like(graph, node, i, 0, x.columns, err));
        graph->values[node->outputs[i]].tiles = ways[i];
    }
    return FTH_OK;
}

/* Both ways piece by piece, so that x comes into the first cache once. */
static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0];
    for (uint32_t row = 0; row < x->rows; row += FTH_TILES_ROUND)
        for (uint32_t column = 0; column < x->columns; column += PIECE) {
            uint32_t rows = x->rows - row < FTH_TILES_ROUND ? x->rows - row : FTH_TILES_ROUND;
            uint32_t columns = x->columns - column < PIECE ? x->columns - column : PIECE;
            const float *from = x->data + (size_t)row * x->ld + column;
            for (uint32_t i = 0; i < 2; i++) {
                const struct fth_view *out = &run->out[i];
                fth_tiles_way way = (fth_tiles_way)out->tiles;
                if (out->data)
                    fth_tiles_store(way, from, x->ld, rows, columns,
                                    out->data + (size_t)row * out->ld + fth_tiles_column(way, column), out->ld);
            }
        }
}

static void print(const struct fth_node *node, struct fth_text *out) {
    const struct fth_to_tiles_attributes *a = node->attributes;
    fth_text_printf(out, "weight_grad=%s", a->weight_grad == FTH_TILES_TURNED ? "left" : "right");
}

const struct fth_op fth_op_to_tiles = {.name = "to_tiles",
                                       .min_inputs = 1,
                                       .max_inputs = 1,
                                       .n_outputs = 2,
                                       .granularity = FTH_PER_TILE,
                                       .resource = FTH_MEMORY,
                                       .shape = shape,
                                       .cost = fth_ops_cost,
                                       .print = print,
                                       .run = run};
