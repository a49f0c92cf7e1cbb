/* What a training tells of before it goes wrong, once each. Threads: the training's. */
#include "base/cpu.h"
#include "base/log.h"
#include "base/text.h"
#include "train/loop_private.h"

#define NEARLY_FULL 0.9
#define FEW_STEPS 100
#define LARGE_BATCH 1024

/* Rows are never removed, so a run of days is better warned than stopped. Beyond the memory of the machine, or of its
 * container, nothing would be saved: the system ends the process. */
void fth_loop_warn_memory(struct fth_loop *loop) {
    const struct fth_session *session = loop->session;
    double limit = (double)session->config->embedding.memory_limit, all = (double)fth_session_model_bytes(session);
    double machine = (double)fth_cpu_get()->memory;
    int of_machine = machine < limit;
    double most = of_machine ? machine : limit, used = of_machine ? all : all - (double)session->parameters->bytes;
    if (loop->told_memory || !session->embedding || used < NEARLY_FULL * most)
        return;
    char now[32], then[32];
    loop->told_memory = 1;
    fth_format_bytes(now, used);
    fth_format_bytes(then, most);
    fth_log(FTH_LOG_WARN,
            of_machine ? "the model has grown to %s of the %s of memory that there is here, which embedding.memory_limit "
                         "goes beyond: the system may end the training without a checkpoint; lower the limit, or admit "
                         "fewer keys (min_count, buckets)"
                       : "the tables have grown to %s of the %s that embedding.memory_limit allows, where training ends; "
                         "raise it, or admit fewer keys (min_count, buckets)",
            now, then);
}

void fth_loop_warn_few_steps(const struct fth_loop *loop) {
    const struct fth_session *session = loop->session;
    const struct fth_train_config *config = &session->config->train;
    if (loop->steps_here == 0 || session->step >= FEW_STEPS || config->batch_size < LARGE_BATCH || session->stopped_early ||
        (config->max_steps && session->step >= (uint64_t)config->max_steps))
        return;
    fth_log(FTH_LOG_WARN,
            "only %llu step%s made in all, with a train.batch_size of %lld: a smaller batch or more train.epochs lets the "
            "model learn more",
            (unsigned long long)session->step, session->step == 1 ? " was" : "s were", (long long)config->batch_size);
}
