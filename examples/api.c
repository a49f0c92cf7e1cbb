/* The library in a program of one's own: trains what a configuration says, then prints a probability for every line of
 * standard input.
 *   cc api.c -o api $(pkg-config --cflags --libs fathom)      after make install && ldconfig
 *   ./api shop.yaml checkpoint.dir=model < new.csv */
#include <stdio.h>

#include <fathom/fathom.h>

static void tell(void *ctx, int level, const char *line) {
    (void)ctx;
    fprintf(stderr, "%s%s\n", level == 0 ? "warning: " : "", line);
}

static void evaluated(void *ctx, uint64_t step, const fth_evaluation *evaluation, int best) {
    (void)ctx;
    fprintf(stderr, "step %llu: AUC %.4f%s\n", (unsigned long long)step, evaluation->auc, best ? ", the best" : "");
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: api CONFIG [KEY=VALUE...] < DATA\n");
        return 2;
    }
    fth_log_to(tell, NULL);
    fth_error err = {0};
    fth_config *config = NULL;
    fth_session *session = NULL;
    fth_training training;
    fth_callbacks callbacks = {.evaluated = evaluated};
    uint64_t lines;
    fth_status status = fth_config_read(argv[1], (const char *const *)argv + 2, (size_t)argc - 2, &config, &err);
    if (status == FTH_OK)
        status = fth_session_create(config, FTH_FOR_TRAINING, &session, &err);
    if (status == FTH_OK)
        status = fth_session_train(session, &callbacks, &training, &err);
    if (status == FTH_OK)
        fprintf(stderr, "%llu steps, loss %.4f\n", (unsigned long long)training.steps, training.final_loss);
    if (status == FTH_OK)
        status = fth_session_predict(session, "-", stdout, &lines, &err);
    if (status != FTH_OK)
        fprintf(stderr, "api: %s: %s\n", fth_status_name(status), err.message);
    fth_session_destroy(session);
    fth_config_free(config);
    return status == FTH_OK ? 0 : 1;
}
