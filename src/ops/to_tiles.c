/* to_tiles(x): x rounded to bf16 in tiles (kernels/tiles.h): by rows, as the left side of products NN, and in the way
 * that the weight gradient wants; both, whoever reads them. */
#include "kernels/tiles.h"
#include "ops/ops_private.h"

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

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *by_rows = &run->out[0], *summed = &run->out[1];
    fth_tiles_store(&(struct fth_tiles_store){.x = x->data, .ldx = x->ld, .rows = x->rows, .columns = x->columns,
                                              .by_rows = by_rows->data, .summed = summed->data,
                                              .way = (fth_tiles_way)summed->tiles, .ld = by_rows->ld,
                                              .precision = (fth_precision)by_rows->precision});
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
                                       .shape = shape,
                                       .cost = fth_ops_cost,
                                       .print = print,
                                       .run = run};
