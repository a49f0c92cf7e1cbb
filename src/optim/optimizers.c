/* The optimizers of optimizers.def: how each calls its kernels, and a step's arguments.
 *
 * On a batch's way this is the last thing that happens: a block of dense weights or an embedding
 * row, while it is in cache, meets its gradient. Threads: pure functions and constants. */
#include "optim/optim.h"

#include <math.h>
#include <string.h>

static void apply_sgd(const struct fth_kernels *kernels, size_t n, float *w, float *const *slots,
                      const float *g, const struct fth_opt_args *args, float *direction) {
    kernels->opt_sgd(n, w, g, args);
}

static void apply_momentum(const struct fth_kernels *kernels, size_t n, float *w,
                           float *const *slots, const float *g, const struct fth_opt_args *args,
                           float *direction) {
    kernels->opt_momentum(n, w, slots[0], g, args);
}

static void apply_adagrad(const struct fth_kernels *kernels, size_t n, float *w,
                          float *const *slots, const float *g, const struct fth_opt_args *args,
                          float *direction) {
    kernels->opt_adagrad(n, w, slots[0], g, args);
}

static void apply_rowwise_adagrad(const struct fth_kernels *kernels, size_t n, float *w,
                                  float *const *slots, const float *g,
                                  const struct fth_opt_args *args, float *direction) {
    kernels->opt_rowwise_adagrad(n, w, slots[0], g, args);
}

static void apply_adam(const struct fth_kernels *kernels, size_t n, float *w, float *const *slots,
                       const float *g, const struct fth_opt_args *args, float *direction) {
    kernels->opt_adam(n, w, slots[0], slots[1], g, args);
}

#define apply_adamw apply_adam /* its decay is in the arguments */

static void apply_ftrl(const struct fth_kernels *kernels, size_t n, float *w, float *const *slots,
                       const float *g, const struct fth_opt_args *args, float *direction) {
    kernels->opt_ftrl(n, w, slots[0], slots[1], g, args);
}

static void apply_lamb(const struct fth_kernels *kernels, size_t n, float *w, float *const *slots,
                       const float *g, const struct fth_opt_args *args, float *direction) {
    kernels->opt_lamb_direction(n, w, slots[0], slots[1], g, args, direction);
}

float fth_optimizer_norm_factor(float lr, double weights, double direction) {
    /* A parameter that is all zeros, or stands still, has no ratio: it moves as Adam would. */
    double ratio = weights > 0 && direction > 0 ? sqrt(weights) / sqrt(direction) : 1;
    return (float)(-(double)lr * ratio);
}

static float initial_NONE(const struct fth_optimizer_config *config, uint32_t slot) {
    return 0;
}

static float initial_SLOT0(const struct fth_optimizer_config *config, uint32_t slot) {
    return slot == 0 ? (float)config->initial_accumulator : 0;
}

static float initial_SLOT1(const struct fth_optimizer_config *config, uint32_t slot) {
    return slot == 1 ? (float)config->initial_accumulator : 0;
}

/* z by which w is what it is: the step's formula for w turned over. */
static void begin_Z(const struct fth_optimizer_config *config, size_t n, const float *w, float *const *slots) {
    double root = pow(config->initial_accumulator, -config->lr_power);
    double rate = (config->beta + root) / config->lr + config->l2;
    for (size_t i = 0; i < n; i++)
        slots[0][i] = w[i] == 0 ? 0 : (float)(-(double)w[i] * rate - copysign(config->l1, (double)w[i]));
}

#define begin_NONE NULL
static const struct fth_optimizer optimizers[] = {
#define FTH_OPTIMIZER(id, slots, slot0, slot1, by_row, for_dense, for_sparse, whole, first, from, on_the_way) \
    {.name = #id,                                                                                  \
     .n_slots = slots,                                                                             \
     .slot_names = {slot0, slot1},                                                                 \
     .rowwise = by_row,                                                                            \
     .dense = for_dense,                                                                           \
     .sparse = for_sparse,                                                                         \
     .step = FTH_STEP_##on_the_way,                                                                \
     .whole_parameter = whole,                                                                     \
     .apply = apply_##id,                                                                          \
     .initial = initial_##first,                                                                   \
     .begin = begin_##from},
#include "optim/optimizers.def"
#undef FTH_OPTIMIZER
};

const struct fth_optimizer *fth_optimizer_find(const char *name) {
    for (size_t i = 0; i < sizeof optimizers / sizeof optimizers[0]; i++) {
        if (strcmp(optimizers[i].name, name) == 0)
            return &optimizers[i];
    }
    return NULL;
}

void fth_optimizer_args(const struct fth_optimizer *optimizer,
                        const struct fth_optimizer_config *config,
                        const struct fth_schedule_config *schedule, uint64_t step, uint32_t examples,
                        int decay, struct fth_opt_args *out) {
    /* Of the decays as the kernels have them: 0.999 as a float differs from 0.999 by more than a float
     * near 1 - 0.999 can resolve, and the first steps' averages would come out off by 1e-5. */
    float beta1 = (float)config->beta1, beta2 = (float)config->beta2;
    double factor = fth_schedule_factor(schedule, step);
    int ftrl = strcmp(optimizer->name, "ftrl") == 0;
    int decoupled = strcmp(optimizer->name, "adamw") == 0 || strcmp(optimizer->name, "lamb") == 0;
    *out = (struct fth_opt_args){
        .lr = (float)(ftrl ? config->lr : config->lr * factor),
        .schedule = (float)factor,
        .grad_scale = ftrl ? (float)examples : 1,
        .l1 = ftrl ? (float)config->l1 : 0,
        .l2 = ftrl || decay ? (float)config->l2 : 0,
        .weight_decay = decoupled && decay ? (float)config->weight_decay : 0,
        .momentum = (float)config->momentum,
        .eps = (float)config->eps,
        .beta1 = beta1,
        .beta2 = beta2,
        .correction1 = (float)(1 - pow((double)beta1, (double)step)),
        .correction2 = (float)(1 - pow((double)beta2, (double)step)),
        .lr_power = (float)config->lr_power,
        .beta = (float)config->beta,
    };
}
