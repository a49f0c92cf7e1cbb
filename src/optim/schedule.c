/* Learning-rate schedules: a factor as a pure function of the step. Threads: pure. */
#include <math.h>

#include "optim/optim.h"

double fth_schedule_factor(const struct fth_schedule_config *schedule, uint64_t step) {
    double at = (double)step, warmup = (double)schedule->warmup_steps;
    if (at < warmup)
        return at / warmup;
    if (schedule->kind == FTH_SCHEDULE_CONSTANT)
        return 1;
    double length = (double)schedule->total_steps - warmup;
    /* Step `warmup` has factor 1, step `total` and every later one has end_factor. */
    double left = at - warmup < length ? 1 - (at - warmup) / length : 0;
    double shape = schedule->kind == FTH_SCHEDULE_COSINE ? 0.5 * (1 - cos(acos(-1.0) * left))
                                                         : pow(left, schedule->power);
    return schedule->end_factor + (1 - schedule->end_factor) * shape;
}
