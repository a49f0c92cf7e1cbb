/* A new model begins at the share of positive labels: the bias of its output is moved by the logit of that share before
 * the first step. From 0, where labels are few, every key's row would first learn that, and a rare key's row keeps it:
 * its first steps are its largest (docs/embedding.md). */
#include <math.h>

#include "ops/layers.h"
#include "train/session_private.h"

/* Of the batch's examples that count, as if there were a positive and a negative one more: never 0 or 1. */
static double first_share(const struct fth_batch *batch, uint32_t task, uint32_t tasks) {
    double examples = 0, weights = 0, positive = 0;
    for (size_t i = task; i < (size_t)batch->n * tasks; i += tasks) {
        double weight = batch->weight ? (double)batch->weight[i] : 1;
        examples += weight > 0;
        weights += weight;
        positive += weight * (double)batch->label[i];
    }
    return weights > 0 ? (examples * (positive / weights) + 1) / (examples + 2) : 0.5;
}

fth_status fth_session_find_output_biases(struct fth_session *session, fth_error *err) {
    uint32_t tasks = fth_session_tasks(session->config);
    session->output_biases = fth_arena_alloc(session->graph->arena, tasks, sizeof *session->output_biases);
    if (!session->output_biases)
        return fth_fail(err, FTH_E_MEMORY, "no memory for the model");
    for (uint32_t t = 0; t < tasks; t++) {
        struct fth_output_bias *bias = &session->output_biases[t];
        int softmax = session->graph->softmax.user != FTH_NONE; /* scores rank, the share says nothing of them */
        if (softmax || !fth_layer_output_bias(session->graph, t, &bias->parameter, &bias->column))
            bias->parameter = FTH_NONE;
    }
    return FTH_OK;
}

static fth_status move(struct fth_session *session, const struct fth_output_bias *bias, double by, fth_error *err) {
    fth_parameters *parameters = session->parameters;
    struct fth_parameter *parameter = &parameters->items[parameters->of_value[bias->parameter]];
    float *row = fth_alloc(parameter->columns, sizeof *row);
    if (!row)
        return fth_fail(err, FTH_E_MEMORY, "no memory for the output's bias");
    fth_parameter_get(parameter, 0, 1, row);
    row[bias->column] += (float)by;
    fth_parameter_begin(parameter, row, session->dense_optimizer, &session->config->dense_optimizer);
    fth_free(row);
    return FTH_OK;
}

fth_status fth_session_begin_at_base_rate(struct fth_session *session, const struct fth_batch *batch, fth_error *err) {
    const struct fth_config *config = session->config;
    uint32_t tasks = fth_session_tasks(config);
    for (uint32_t t = 0; t < tasks; t++) {
        double share = config->model.base_rate > 0 ? config->model.base_rate : first_share(batch, t, tasks);
        if (session->output_biases[t].parameter != FTH_NONE)
            FTH_TRY(move(session, &session->output_biases[t], log(share / (1 - share)), err));
    }
    return FTH_OK;
}
