/* The tuning file for a model: its plan says which matrix products there are, kernels/ times them. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "fathom/fathom.h"
#include "train/session_private.h"

struct shapes {
    struct fth_gemm_shape *items;
    size_t n, capacity;
    int failed;
};

static int same_product(const struct fth_gemm_shape *a, const struct fth_gemm_shape *b) {
    return a->form == b->form && a->m == b->m && a->n == b->n && a->k == b->k &&
           a->precision == b->precision;
}

static void add_shape(void *ctx, const struct fth_gemm_shape *shape) {
    struct shapes *shapes = ctx;
    for (size_t i = 0; i < shapes->n; i++)
        if (same_product(&shapes->items[i], shape))
            return;
    if (shapes->n == shapes->capacity) {
        size_t capacity = shapes->capacity ? shapes->capacity * 2 : 64;
        struct fth_gemm_shape *items = realloc(shapes->items, capacity * sizeof *items);
        if (!items) {
            shapes->failed = 1;
            return;
        }
        shapes->items = items;
        shapes->capacity = capacity;
    }
    shapes->items[shapes->n++] = *shape;
}

/* Without a model: the widths that layers usually have, tiles of 64 examples, batches of 1024 to 4096. */
static void usual_shapes(struct shapes *shapes) {
    static const uint32_t widths[] = {64, 128, 256, 512, 1024};
    struct fth_gemm_cut cut = fth_gemm_cut(FTH_FP32);
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 5; j++) {
            uint32_t k = widths[i], n = widths[j];
            struct fth_gemm_shape forward = {.form = FTH_GEMM_NN, .m = 64, .n = n, .k = k,
                                             .lda = fth_padded_columns(k),
                                             .ldb = fth_padded_columns(n),
                                             .ldc = fth_padded_columns(n)};
            add_shape(shapes, &forward);
            /* Weight gradients come in blocks. */
            for (uint32_t batch = 1024; batch <= 4096 && k <= cut.block_rows && n <= cut.block_columns; batch *= 2) {
                struct fth_gemm_shape gradient = {.form = FTH_GEMM_TN, .m = k, .n = n, .k = batch,
                                                  .lda = fth_padded_columns(k),
                                                  .ldb = fth_padded_columns(n),
                                                  .ldc = fth_padded_columns(n)};
                add_shape(shapes, &gradient);
            }
        }
}

static fth_status model_shapes(const fth_config *config, struct shapes *shapes, fth_error *err) {
    fth_session *session = NULL;
    fth_plan *plan = NULL;
    struct fth_plan_options options;
    FTH_TRY(fth_session_create(config, FTH_FOR_SHAPE, &session, err));
    fth_session_plan_options(session, 1, &options);
    options.on_product = add_shape;
    options.on_product_ctx = shapes;
    options.tuning = NULL;
    fth_status status = fth_plan_create(session->graph, session->parameters, &options, &plan, err);
    fth_plan_destroy(plan);
    fth_session_destroy(session);
    return status;
}

fth_status fth_tune(const fth_config *config, void (*begun)(void *ctx, size_t products), void *ctx,
                    char **out, fth_error *err) {
    if (!out)
        return fth_fail_null(err, "fth_tune", "out");
    struct shapes shapes = {0};
    struct fth_text text = {0};
    fth_status status = FTH_OK;
    if (config && config->precision != FTH_PRECISION_FP32)
        return fth_fail(err, FTH_E_CONFIG, "precision: there is one provider for products of bf16, nothing to choose; "
                                           "only fp32 can be tuned");
    if (config)
        status = model_shapes(config, &shapes, err);
    else
        usual_shapes(&shapes);
    if (status == FTH_OK && shapes.failed)
        status = fth_fail(err, FTH_E_MEMORY, "no memory for a list of matrix products");
    if (status == FTH_OK && begun)
        begun(ctx, shapes.n);
    if (status == FTH_OK)
        status = fth_tuning_measure(shapes.items, shapes.n, &text, err);
    char *copy = status == FTH_OK && !text.failed ? strdup(fth_text_get(&text)) : NULL;
    fth_text_free(&text);
    free(shapes.items);
    if (status != FTH_OK)
        return status;
    if (!copy)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a tuning file");
    *out = copy;
    return FTH_OK;
}
