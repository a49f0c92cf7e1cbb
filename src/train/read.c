/* The data side of a session: columns, learning from the head of the data, readers. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "core/criteo.h"
#include "data/inspect.h"
#include "data/paths.h"
#include "data/source.h"
#include "train/session_private.h"

fth_status fth_session_open_set(struct fth_session *session, const struct fth_data_set_options *options,
                                fth_data_set **out, fth_error *err) {
    struct fth_data_set_options of_session = *options;
    const struct fth_config *config = session->config;
    of_session.seed = config->seed;
    of_session.wake = session->wake;
    if (config->n_tasks && !session->labels.n) {
        const char **labels = fth_arena_alloc(config->arena, config->n_tasks, sizeof *labels);
        if (!labels)
            return fth_fail(err, FTH_E_MEMORY, "no memory for column names");
        for (uint32_t t = 0; t < config->n_tasks; t++)
            labels[t] = config->tasks[t].label;
        session->labels = (struct fth_strings){labels, config->n_tasks};
    }
    of_session.labels = session->labels;
    return fth_data_set_create(&session->config->data, &of_session, out, err);
}

#define LEARNING_TOLD_NS 5000000000ull /* between two lines on how far a first pass is */

static int has_header(const struct fth_config *config) {
    return config->data.format == FTH_FORMAT_CSV && config->data.header;
}

/* Appends a name to the list unless it is there. */
static void add_name(const char **names, size_t *n, const char *name) {
    if (!name || !*name)
        return;
    for (size_t i = 0; i < *n; i++)
        if (strcmp(names[i], name) == 0)
            return;
    names[(*n)++] = name;
}

/* Appends a column that the data must have: not a derived one. */
static void add_column(const struct fth_config *config, const char **names, size_t *n, const char *column) {
    for (uint32_t i = 0; i < config->features.n_derived; i++)
        if (column && strcmp(config->features.derived[i].name, column) == 0)
            return;
    add_name(names, n, column);
}

static void add_columns(const struct fth_config *config, const char **names, size_t *n,
                        const struct fth_strings *columns) {
    for (uint32_t c = 0; c < columns->n; c++)
        add_column(config, names, n, columns->items[c]);
}

/* Every column that the configuration names: enough to know the model's shape when there is no file to look
 * at. The order differs from a file's, so such a program never reads lines. */
static fth_status named_columns(struct fth_session *session, fth_error *err) {
    const struct fth_config *config = session->config;
    size_t room = 4 + 2 * (size_t)config->n_tasks, n = 0;
    for (uint32_t i = 0; i < config->features.n_derived; i++)
        room += config->features.derived[i].from.n;
    for (uint32_t i = 0; i < config->features.n_indicator; i++)
        room += config->features.indicator[i].columns.n;
    for (uint32_t i = 0; i < config->features.n_numeric; i++)
        room += config->features.numeric[i].columns.n;
    for (uint32_t i = 0; i < config->features.n_categorical; i++)
        room += config->features.categorical[i].columns.n;
    const char **names = fth_arena_alloc(session->config->arena, room, sizeof *names);
    if (!names)
        return fth_fail(err, FTH_E_MEMORY, "no memory for column names");
    add_name(names, &n, config->data.label);
    for (uint32_t t = 0; t < config->n_tasks; t++) {
        add_name(names, &n, config->tasks[t].label);
        add_column(config, names, &n, config->tasks[t].sample_weight);
    }
    add_column(config, names, &n, config->data.weight);
    add_column(config, names, &n, config->data.query);
    for (uint32_t i = 0; i < config->features.n_derived; i++)
        add_columns(config, names, &n, &config->features.derived[i].from);
    for (uint32_t i = 0; i < config->features.n_numeric; i++)
        add_columns(config, names, &n, &config->features.numeric[i].columns);
    for (uint32_t i = 0; i < config->features.n_indicator; i++)
        add_columns(config, names, &n, &config->features.indicator[i].columns);
    for (uint32_t i = 0; i < config->features.n_categorical; i++)
        add_columns(config, names, &n, &config->features.categorical[i].columns);
    session->columns = names;
    session->n_columns = n;
    return FTH_OK;
}

fth_status fth_session_columns(struct fth_session *session, enum fth_columns_from from, fth_error *err) {
    const struct fth_config *config = session->config;
    if (config->data.format == FTH_FORMAT_LIBSVM || config->data.format == FTH_FORMAT_LIBFFM)
        return FTH_OK;
    if (config->data.format == FTH_FORMAT_CRITEO) {
        session->columns = fth_criteo_columns;
        session->n_columns = FTH_CRITEO_COLUMNS;
        return FTH_OK;
    }
    if (!has_header(config) && from != FTH_COLUMNS_FROM_NAMES) {
        session->columns = config->data.columns.items;
        session->n_columns = config->data.columns.n;
        return FTH_OK;
    }
    if (from != FTH_COLUMNS_FROM_DATA)
        return named_columns(session, err);
    if (!config->data.train.n)
        return fth_fail(err, FTH_E_CONFIG, "data.train: no training files are named");
    FTH_TRY(fth_session_train_set(session, err));
    struct fth_strings columns = fth_data_set_columns(session->train_set);
    session->columns = columns.items;
    session->n_columns = columns.n;
    return FTH_OK;
}

static int file_size(const char *path, uint64_t *bytes) {
    fth_source *source = NULL;
    int known = fth_source_open(fth_io_posix(), path, -1, &source, NULL) == FTH_OK &&
                fth_source_size(source, bytes);
    fth_source_close(source);
    return known;
}

/* Where each training file begins among the bytes of an epoch, for progress. */
static fth_status measure_files(struct fth_session *session, fth_error *err) {
    struct fth_strings files = fth_data_set_files(session->train_set);
    if (!fth_data_set_again(session->train_set))
        return FTH_OK;
    uint64_t *starts = fth_alloc((size_t)files.n + 1, sizeof *starts);
    if (!starts)
        return fth_fail(err, FTH_E_MEMORY, "no memory for the list of files");
    for (uint32_t i = 0; i < files.n; i++) {
        uint64_t bytes = 0;
        if (!file_size(files.items[i], &bytes)) {
            fth_free(starts);
            return FTH_OK;
        }
        starts[i + 1] = starts[i] + bytes;
    }
    session->file_starts = starts;
    return FTH_OK;
}

fth_status fth_session_train_set(struct fth_session *session, fth_error *err) {
    if (session->train_set)
        return FTH_OK;
    if (!session->config->data.train.n)
        return fth_fail(err, FTH_E_CONFIG, "data.train: no training files are named");
    struct fth_data_set_options options = {.part = FTH_PART_TRAIN};
    FTH_TRY(fth_session_open_set(session, &options, &session->train_set, err));
    return measure_files(session, err);
}

double fth_session_epoch_fraction(const struct fth_session *session) {
    const struct fth_position *at = &session->position;
    if (!session->file_starts)
        return -1;
    uint32_t n = fth_data_set_files(session->train_set).n;
    double all = (double)session->file_starts[n];
    if (at->file_index >= n || all <= 0)
        return 1;
    double read = (double)session->file_starts[at->file_index] + (double)at->byte_offset;
    return read < all ? read / all : 1;
}

/* ---- learning ---- */

/* A first pass over all of the data takes a while: how far it is. */
struct learning {
    fth_session *session;
    const fth_data_set *set;
    uint32_t *which; /* owned; [capacity] lines of a block that are the set's */
    size_t capacity;
    uint64_t lines, begun, told; /* told: when, in ns */
};

static void tell_learning(struct learning *learning, const struct fth_block *block) {
    const fth_session *session = learning->session;
    uint64_t now = fth_now_ns();
    if (now < learning->told + LEARNING_TOLD_NS)
        return;
    learning->told = now;
    if (!session->file_starts) {
        fth_log(FTH_LOG_INFO, "learning: %llu lines read", (unsigned long long)learning->lines);
        return;
    }
    uint64_t all = session->file_starts[fth_data_set_files(session->train_set).n];
    uint64_t read = session->file_starts[block->file_index] + block->byte_end;
    fth_log(FTH_LOG_INFO, "learning: %llu lines read, %.0f %% of the training data",
            (unsigned long long)learning->lines, all ? 100.0 * (double)read / (double)all : 100.0);
}

static fth_status learn_block(void *ctx, struct fth_block *block, int *more, fth_error *err) {
    struct learning *learning = ctx;
    fth_feature_program *program = learning->session->program;
    uint32_t n = 0;
    if (learning->capacity < block->n_lines) {
        fth_free(learning->which);
        learning->capacity = block->lines_capacity;
        learning->which = fth_alloc(learning->capacity, sizeof *learning->which);
        if (!learning->which)
            return fth_fail(err, FTH_E_MEMORY, "no memory to choose from %u lines", block->n_lines);
    }
    for (uint32_t row = 0; row < block->n_lines; row++)
        if (fth_data_set_has(learning->set, block, row, block->example_number[row]))
            learning->which[n++] = row;
    FTH_TRY(fth_feature_learn_block(program, block, learning->which, n, err));
    learning->lines += n;
    tell_learning(learning, block);
    *more = fth_feature_learn_wanted(program) > 0;
    return FTH_OK;
}

/* Reads the first learn_lines lines that are trained on, or all of them, on this thread, in order. Malformed ones are left
 * to training. */
fth_status fth_session_learn(struct fth_session *session, fth_error *err) {
    int all = session->config->features.learn_lines == 0;
    FTH_TRY(fth_session_vocabularies(session, err));
    if (fth_feature_learn_wanted(session->program) == 0)
        return FTH_OK;
    struct fth_data_set_options options = {.part = FTH_PART_TRAIN};
    fth_data_set *set = NULL;
    /* Asked before a second set is opened, which would take its header from the middle of a pipe. */
    FTH_TRY(fth_session_train_set(session, err));
    if (!fth_data_set_again(session->train_set))
        return fth_fail(err, FTH_E_CONFIG,
                        "features: learned quantiles and vocabularies need training data that can be read "
                        "twice, not standard input or a pipe; give boundaries and files instead");
    FTH_TRY(fth_session_join(session, session->program, err));
    fth_status status = fth_session_open_set(session, &options, &set, err);
    struct learning learning = {.session = session, .set = set, .begun = fth_now_ns()};
    learning.told = learning.begun;
    if (status == FTH_OK && all)
        fth_log(FTH_LOG_INFO, "learning quantiles and vocabularies from all of the training data "
                              "(features.learn_lines: 0), before the first epoch");
    if (status == FTH_OK)
        status = fth_data_each_block(set, session->wake, learn_block, &learning, err);
    fth_free(learning.which);
    fth_data_set_destroy(set);
    if (status == FTH_OK)
        status = fth_feature_learn_finish(session->program, err);
    double seconds = (double)(fth_now_ns() - learning.begun) / 1e9;
    char took[32] = "";
    if (seconds >= 1)
        snprintf(took, sizeof took, " in %.0f s", seconds);
    if (status == FTH_OK && all)
        fth_log(FTH_LOG_INFO, "learned from %llu lines%s", (unsigned long long)learning.lines, took);
    return status;
}

/* ---- a program for other files: their columns may stand in another order ---- */

fth_status fth_session_program_for(struct fth_session *session, const fth_data_set *set, int labels,
                                   fth_feature_program **out, fth_error *err) {
    struct fth_strings columns = fth_data_set_columns(set);
    size_t n = fth_feature_state_size(session->program);
    double *unused = fth_alloc(n + 1, sizeof *unused);
    json_t *state = NULL;
    fth_feature_program *program = NULL;
    if (!unused)
        return fth_fail(err, FTH_E_MEMORY, "no memory for the feature state");
    fth_status status =
        labels ? fth_feature_create(session->config, columns.items, columns.n, &program, err)
               : fth_feature_create_unlabelled(session->config, columns.items, columns.n, &program, err);
    if (status == FTH_OK)
        status = fth_session_join(session, program, err);
    if (status == FTH_OK)
        status = fth_feature_state_save(session->program, session->position.feature_state,
                                        session->position.n_feature_state, &state, err);
    if (status == FTH_OK)
        status = fth_feature_state_load(program, state, unused, n, err);
    json_decref(state);
    fth_free(unused);
    if (status != FTH_OK) {
        fth_feature_destroy(program);
        return status;
    }
    *out = program;
    return FTH_OK;
}

/* Slips of globs. A held-out file that cannot be expanded is an error when it is opened. */
void fth_session_warn_files(struct fth_session *session) {
    struct fth_strings train = fth_data_set_files(session->train_set), valid = {0};
    const char *again = fth_paths_common(&train, &train), *held_out = NULL;
    if (session->config->data.valid.n &&
        fth_paths_expand(&session->config->data.valid, "data.valid", session->config->arena, &valid, NULL) == FTH_OK)
        held_out = fth_paths_common(&train, &valid);
    if (again)
        fth_log(FTH_LOG_WARN, "data.train: %s stands there more than once: its lines are trained on as often in an epoch",
                again);
    if (held_out)
        fth_log(FTH_LOG_WARN,
                "data.valid: %s is one of the files of data.train: evaluations look better than they are; leave it out of "
                "one",
                held_out);
}
