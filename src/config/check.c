/* Combinations that no single key can judge: each is refused with the reason and what would do.
 * Features and what models ask of them: check_features.c. */
#include <stdio.h>
#include <string.h>

#include "config/check_features.h"

static uint32_t standard_inputs(const struct fth_strings *files) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < files->n; i++)
        n += strcmp(files->items[i], "-") == 0;
    return n;
}

uint32_t fth_config_standard_inputs(const struct fth_data_config *data) {
    return standard_inputs(&data->train) + standard_inputs(&data->valid) + standard_inputs(&data->test);
}

/* ---- data ---- */
static fth_status check_sources(struct fth_loader *l) {
    const struct fth_data_config *data = &l->config->data;
    uint32_t n = fth_config_standard_inputs(data), piped = standard_inputs(&data->train);
    if (piped && data->holdout == FTH_HOLDOUT_TAIL)
        return fth_load_fail_path(
            l, "data.holdout.by",
            "tail cannot hold out the end of standard input, which has no known "
            "length; name files in data.valid");
    if (standard_inputs(&data->valid) && (l->config->train.eval_every || l->config->train.epochs > 1))
        return fth_load_fail_path(l, "data.valid",
                                  "standard input (\"-\") can be read once, and there may be several evaluations; use files");
    if (n > 1)
        return fth_load_fail_path(
            l, "data", "standard input (\"-\") is given %u times but can be read once; use files",
            n);
    if (data->valid.n && data->holdout != FTH_HOLDOUT_NONE)
        return fth_load_fail_path(
            l, "data.holdout.by",
            "data.valid already names the held-out part; remove one of the two");
    if (*data->holdout_column && data->holdout != FTH_HOLDOUT_HASH)
        return fth_load_fail_path(l, "data.holdout.column", "only for data.holdout.by: hash; set that, or remove it");
    if (*data->holdout_column && (data->format == FTH_FORMAT_LIBSVM || data->format == FTH_FORMAT_LIBFFM))
        return fth_load_fail_path(l, "data.holdout.column", "libsvm and libffm lines have no columns; remove it");
    for (uint32_t d = 0; *data->holdout_column && d < l->config->features.n_derived; d++)
        if (strcmp(l->config->features.derived[d].name, data->holdout_column) == 0)
            return fth_load_fail_path(l, "data.holdout.column",
                                      "features.derived.%u makes this column, and lines are held out before any is made; name "
                                      "a column of the files", d);
    if (fth_node_find(l, "data.holdout.fraction") && !fth_node_find(l, "data.holdout.by"))
        return fth_load_fail_path(
            l, "data.holdout.by",
            "missing; data.holdout.fraction alone holds nothing out: hash or tail says which lines");
    return FTH_OK;
}

static fth_status check_csv(struct fth_loader *l) {
    const struct fth_data_config *data = &l->config->data;
    if (data->format != FTH_FORMAT_CSV)
        return FTH_OK;
    if (!*data->label && !l->config->n_tasks)
        return fth_load_fail_path(l, "data.label",
                                  "missing; with csv, name the column of the label");
    if (!data->header && data->columns.n == 0)
        return fth_load_fail_path(
            l, "data.csv.columns",
            "missing; without a header the columns' names must be listed in order");
    if (*data->weight && fth_check_is_label(l->config, data->weight))
        return fth_load_fail_path(l, "data.weight", "this column is the label; a weight says how much an example counts");
    if (strchr(data->comment, '\n') || strchr(data->comment, '\r'))
        return fth_load_fail_path(l, "data.csv.comment", "a line cannot start with a line break");
    if (*data->escape && strstr(data->delimiter, data->escape))
        return fth_load_fail_path(l, "data.csv.escape", FTH_ESCAPE_IN_DELIMITER);
    return FTH_OK;
}

/* ---- labels ---- */
int fth_config_label_bound(const char *item, double *bound, int *above) {
    *above = strncmp(item, "> ", 2) == 0;
    if (!*above && strncmp(item, ">= ", 3) != 0)
        return 0;
    item += *above ? 2 : 3;
    item += strspn(item, " ");
    return fth_parse_f64(item, strlen(item), bound);
}

/* ---- tasks ---- */
static int good_name(const char *name) {
    size_t n = strlen(name);
    return n > 0 && n <= 64 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == n;
}

static fth_status check_task(struct fth_loader *l, uint32_t item) {
    const struct fth_task_config *tasks = l->config->tasks, *task = &tasks[item];
    char name[32], label[32];
    snprintf(name, sizeof name, "tasks.%u.name", item);
    snprintf(label, sizeof label, "tasks.%u.label", item);
    if (!good_name(task->name))
        return fth_load_fail_path(l, name, "a task needs a name of 1 to 64 letters, digits, '_' or '-'");
    for (uint32_t i = 0; i < item; i++)
        if (strcmp(tasks[i].name, task->name) == 0)
            return fth_load_fail_path(l, name, "%s is already the name of task %u", task->name, i);
    if (!*task->label)
        return fth_load_fail_path(l, label, "missing; name the column of the task's label");
    if (*task->sample_weight && fth_check_is_label(l->config, task->sample_weight)) {
        char path[40];
        snprintf(path, sizeof path, "tasks.%u.sample_weight", item);
        return fth_load_fail_path(l, path, "this column is a label; a weight says how much an example counts");
    }
    return FTH_OK;
}

static fth_status check_tasks(struct fth_loader *l) {
    static const char *const formats[] = {"criteo", "csv", "libsvm", "libffm"};
    const struct fth_config *config = l->config;
    const struct fth_data_config *data = &config->data;
    if (!config->n_tasks)
        return FTH_OK;
    if (data->format != FTH_FORMAT_CSV)
        return fth_load_fail_path(l, "tasks", "%s lines have one label; several need data.format csv",
                                  formats[data->format]);
    if (*data->label || data->positive.n)
        return fth_load_fail_path(l, *data->label ? "data.label" : "data.positive",
                                  "each of the tasks names its own; remove one of the two");
    if (config->n_tasks > FTH_CONFIG_MAX_TASKS)
        return fth_load_fail_path(l, "tasks", "%u tasks; at most %d can be trained together",
                                  config->n_tasks, FTH_CONFIG_MAX_TASKS);
    for (uint32_t i = 0; i < config->n_tasks; i++)
        FTH_TRY(check_task(l, i));
    return FTH_OK;
}

/* ---- training ---- */
static fth_status check_early_task(struct fth_loader *l) {
    const struct fth_config *config = l->config;
    const char *name = config->train.early_stop_task;
    if (!*name)
        return FTH_OK;
    for (uint32_t i = 0; i < config->n_tasks; i++)
        if (strcmp(config->tasks[i].name, name) == 0)
            return FTH_OK;
    return fth_load_fail_path(l, "train.early_stopping.task",
                              config->n_tasks ? "there is no task of this name under tasks"
                                              : "there is one task only; remove it");
}

static fth_status check_train(struct fth_loader *l) {
    const struct fth_config *config = l->config;
    const struct fth_train_config *train = &config->train;
    int held_out = config->data.valid.n || config->data.holdout != FTH_HOLDOUT_NONE;
    if (*train->early_stop_metric && !held_out)
        return fth_load_fail_path(
            l, "train.early_stopping.metric",
            "nothing is held out to watch %s on; set data.holdout.by or data.valid",
            train->early_stop_metric);
    if (train->eval_every && !held_out)
        return fth_load_fail_path(
            l, "train.eval_every",
            "nothing is held out to evaluate on; set data.holdout.by or data.valid");
    if (strcmp(train->early_stop_metric, "gauc") == 0 && !*config->data.query)
        return fth_load_fail_path(
            l, "train.early_stopping.metric",
            "gauc needs data.query, the column that groups examples; set it, or use "
            "auc");
    const struct fth_checkpoint_config *checkpoint = &config->checkpoint;
    if ((checkpoint->every_steps || checkpoint->every_minutes > 0) && !*checkpoint->dir)
        return fth_load_fail_path(
            l, checkpoint->every_steps ? "checkpoint.every_steps" : "checkpoint.every_minutes",
            "set, but not checkpoint.dir, the folder to write to; set it too");
    return FTH_OK;
}

/* FTRL's weights are sums divided by it, which 32-bit floats no longer hold. */
static fth_status check_ftrl(struct fth_loader *l, const struct fth_optimizer_config *optimizer, const char *key) {
    if (strcmp(optimizer->name, "ftrl") != 0 || optimizer->lr >= 1e-30)
        return FTH_OK;
    return fth_load_fail_path(l, key, "%g; ftrl divides by it: expected at least 1e-30", optimizer->lr);
}

static fth_status check_optimizer(struct fth_loader *l) {
    const struct fth_config *config = l->config;
    FTH_TRY(check_ftrl(l, &config->dense_optimizer, "optimizer.dense.lr"));
    FTH_TRY(check_ftrl(l, &config->sparse_optimizer, "optimizer.sparse.lr"));
    FTH_TRY(check_ftrl(l, &config->linear_optimizer, "optimizer.linear.lr"));
    const struct fth_schedule_config *schedule = &config->schedule;
    if (strcmp(config->dense_optimizer.name, "rowwise_adagrad") == 0)
        return fth_load_fail_path(
            l, "optimizer.dense.name",
            "rowwise_adagrad keeps one sum a row of an embedding table, dense "
            "parameters have no such rows; use adagrad");
    int linear = strcmp(config->linear_optimizer.name, "lamb") == 0;
    if (linear || strcmp(config->sparse_optimizer.name, "lamb") == 0)
        return fth_load_fail_path(
            l, linear ? "optimizer.linear.name" : "optimizer.sparse.name",
            "lamb scales by the norm of a whole layer, which rows updated one by one "
            "do not have; use adam or adamw");
    if (schedule->kind != FTH_SCHEDULE_CONSTANT && schedule->total_steps <= schedule->warmup_steps)
        return fth_load_fail_path(
            l, "optimizer.schedule.total_steps",
            "%lld; %s must end after the warm-up: expected a whole number above %lld",
            (long long)schedule->total_steps,
            schedule->kind == FTH_SCHEDULE_COSINE ? "cosine" : "polynomial",
            (long long)schedule->warmup_steps);
    return FTH_OK;
}

fth_status fth_config_check(struct fth_loader *l) {
    FTH_TRY(check_sources(l));
    FTH_TRY(check_csv(l));
    FTH_TRY(check_tasks(l));
    FTH_TRY(check_early_task(l));
    FTH_TRY(check_train(l));
    FTH_TRY(check_optimizer(l));
    return fth_config_check_features(l);
}
