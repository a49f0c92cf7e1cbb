/* Optimizers and learning-rate schedules: one list (optimizers.def), used by dense parameters
 * (ops/update) and by embedding rows. The arithmetic is kernels.def's opt_*; this says slots,
 * defaults and step arguments. Embedding rows are updated lazily (only those of the batch): see
 * optimizers.def.
 *
 * Threads: everything here is const or a pure function. */
#ifndef FTH_OPTIM_OPTIM_H
#define FTH_OPTIM_OPTIM_H

#include "base/error.h"
#include "config/config.h"
#include "kernels/gemm.h"
#include "kernels/kernels.h"

#define FTH_MAX_SLOTS 2

struct fth_optimizer {
    const char *name;
    uint32_t n_slots;
    const char *slot_names[FTH_MAX_SLOTS]; /* as in checkpoints: "adagrad.sum" */
    int rowwise;                           /* the slot is one float a row, not one a weight */
    int dense, sparse;                     /* what it may be used for */
    fth_weight_step step;                  /* which one a weight gradient can make on its way */
    int whole_parameter;                   /* scales its step by norms of the whole parameter (LAMB) */
    /* n weights at w, slots[i] beside them, gradient g (not changed). Decoupled and coupled decay come from args.
     * Of whole_parameter optimizers the weights stay, and `direction` [n] becomes what is to be added to them times
     * fth_optimizer_norm_factor; NULL for the others. */
    void (*apply)(const struct fth_kernels *kernels, size_t n, float *w, float *const *slots,
                  const float *g, const struct fth_opt_args *args, float *direction);
    /* Slot's value before the first step. */
    float (*initial)(const struct fth_optimizer_config *config, uint32_t slot);
    /* NULL, or sets what the slots of n first weights must be for the weights to count: they follow from slots. */
    void (*begin)(const struct fth_optimizer_config *config, size_t n, const float *w, float *const *slots);
};

/* NULL when unknown. */
const struct fth_optimizer *fth_optimizer_find(const char *name);

/* Minus the learning rate times the ratio of two norms, whose squares are given: the weights' and the direction's. */
float fth_optimizer_norm_factor(float lr, double weights, double direction);

/* The arguments of step `step` (1-based), of a batch of `examples`: learning rate and schedule, bias corrections, and
 * for ftrl the sum over the examples instead of their mean (optimizers.def). l2 is added to the gradient;
 * weight_decay is adamw's and lamb's alone, l1 is ftrl's. `decay` 0 leaves out l2 and weight_decay (FTRL's l1 and l2
 * penalties stay). */
void fth_optimizer_args(const struct fth_optimizer *optimizer,
                        const struct fth_optimizer_config *config,
                        const struct fth_schedule_config *schedule, uint64_t step, uint32_t examples,
                        int decay, struct fth_opt_args *out);

/* The schedule's factor at a step (1-based): linear warm-up from 0 (step warmup_steps has factor
 * 1), then constant, or polynomial or cosine down to end_factor at total_steps, where it stays. */
double fth_schedule_factor(const struct fth_schedule_config *schedule, uint64_t step);

#endif
