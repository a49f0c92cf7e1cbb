/* Passes, and the checkpointed form of what a feature program learned and of running statistics. One thread. */
#include "feature/program_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>


/* ---- passes ---- */

fth_status fth_feature_pass_create(const fth_feature_program *program, const double *state, size_t n,
                                   fth_feature_pass **out, fth_error *err) {
    FTH_TRY(fth_feature_check_side_tables(program, err));
    if (program->n_learned > 0 && !program->learning_done)
        return fth_fail(err, FTH_E_ARGUMENT, "quantiles or vocabularies have not been learned yet");
    for (uint32_t v = 0; v < program->n_vocabularies; v++)
        if (!program->vocabularies[v].ready)
            return fth_fail(err, FTH_E_ARGUMENT, "the vocabulary of table '%s' is not there yet",
                            program->vocabularies[v].table);
    fth_feature_pass *pass = fth_alloc(1, sizeof *pass);
    if (pass == NULL)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a feature pass");
    pass->program = program;
    pthread_mutex_init(&pass->mutex, NULL);
    pass->state = fth_alloc(3 * (size_t)program->n_running + 1, sizeof(double));
    pass->scratch = fth_alloc(5 * (size_t)program->n_running + 1, sizeof(double));
    fth_status status = FTH_OK;
    if (pass->state == NULL || pass->scratch == NULL)
        status = fth_fail(err, FTH_E_MEMORY, "no memory for a feature pass");
    else if (state != NULL)
        status = fth_feature_pass_set_state(pass, state, n, err);
    if (status != FTH_OK) {
        fth_feature_pass_destroy(pass);
        return status;
    }
    *out = pass;
    return FTH_OK;
}

void fth_feature_pass_destroy(fth_feature_pass *pass) {
    if (pass == NULL)
        return;
    while (pass->scratch_list) {
        struct fth_feature_scratch *scratch = pass->scratch_list;
        pass->scratch_list = scratch->next;
        fth_feature_scratch_destroy(scratch);
    }
    pthread_mutex_destroy(&pass->mutex);
    fth_free(pass->state);
    fth_free(pass->scratch);
    fth_free(pass);
}

struct fth_transform fth_feature_pass_transform(fth_feature_pass *pass) {
    return (struct fth_transform){.ctx = pass,
                                  .schema = &pass->program->schema,
                                  .examples = fth_feature_examples,
                                  .finish = fth_feature_finish};
}

size_t fth_feature_state_size(const fth_feature_program *program) {
    return 3 * (size_t)program->n_running;
}

fth_status fth_feature_pass_set_state(fth_feature_pass *pass, const double *state, size_t n,
                                      fth_error *err) {
    if (n != fth_feature_state_size(pass->program))
        return fth_fail(err, FTH_E_ARGUMENT, "running statistics of %zu numbers where %zu are needed", n,
                        fth_feature_state_size(pass->program));
    if (n > 0)
        memcpy(pass->state, state, n * sizeof(double));
    return FTH_OK;
}

/* ---- checkpoints ---- */

/* Hashes as 16 hexadecimal digits: whole numbers of JSON end at 2^63. */
static json_t *save_codes(const struct fth_codes *codes) {
    json_t *list = json_array();
    int failed = list == NULL;
    for (uint32_t i = 0; i < codes->n && !failed; i++)
        failed |= json_array_append_new(list, json_sprintf("%016llx", (unsigned long long)codes->hashes[i]));
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

static int read_hash(const json_t *item, uint64_t *out) {
    const char *text = json_string_value(item);
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return 0;
    *out = strtoull(text, NULL, 16);
    return 1;
}

/* Reads one table's vocabulary into the program. */
static fth_status load_vocabulary(struct fth_feature_vocabulary *vocabulary, const json_t *list,
                                  fth_error *err) {
    size_t n = json_array_size(list);
    uint64_t *hashes = n <= UINT32_MAX ? fth_alloc(n + 1, sizeof *hashes) : NULL;
    uint32_t twice = 0;
    int good = json_is_array(list);
    if (!hashes)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a vocabulary of %zu texts", n);
    for (size_t i = 0; i < n && good; i++)
        good = read_hash(json_array_get(list, i), &hashes[i]);
    fth_status status = FTH_OK;
    if (good)
        status = fth_feature_vocabulary_set(vocabulary, hashes, (uint32_t)n, &twice, err);
    if (status == FTH_OK && (!good || twice < n))
        status = fth_fail(err, FTH_E_CHECKPOINT,
                          "feature state: the vocabulary of table '%s' is no list of different hashes",
                          vocabulary->table);
    fth_free(hashes);
    return status;
}

fth_status fth_feature_state_save(const fth_feature_program *program, const double *state, size_t n,
                                  json_t **out, fth_error *err) {
    if (state != NULL && n != fth_feature_state_size(program))
        return fth_fail(err, FTH_E_ARGUMENT, "running statistics of %zu numbers where %zu are needed", n,
                        fth_feature_state_size(program));
    json_t *boundaries = json_object(), *running = json_object(), *vocabularies = json_object();
    json_t *root = json_pack("{s:o, s:o, s:o}", "boundaries", boundaries, "running", running,
                             "vocabularies", vocabularies);
    int failed = root == NULL;
    for (uint32_t v = 0; v < program->n_vocabularies && !failed; v++)
        failed |= json_object_set_new(vocabularies, program->vocabularies[v].table,
                                      save_codes(&program->vocabularies[v].codes));
    for (uint32_t k = 0; k < program->n_numeric && !failed; k++) {
        const struct fth_feature_numeric *numeric = &program->numeric[k];
        const char *column = numeric->name;
        if (numeric->learned) {
            json_t *list = json_array();
            for (uint32_t i = 0; i < numeric->boundaries.n; i++)
                failed |= json_array_append_new(list, json_real((double)numeric->boundaries.values[i]));
            failed |= json_object_set_new(boundaries, column, list);
        }
        if (numeric->running >= 0) {
            double s[3] = {0, 0, 0};
            if (state != NULL)
                memcpy(s, state + 3 * numeric->running, sizeof s);
            failed |= json_object_set_new(running, column,
                                          json_pack("[f, f, f]", s[0], s[1], s[2]));
        }
    }
    if (failed) {
        json_decref(root);
        return fth_fail(err, FTH_E_MEMORY, "no memory for the feature state");
    }
    *out = root;
    return FTH_OK;
}

/* Reads [boundaries] of one column into new memory. */
static fth_status load_boundaries(const json_t *list, const char *column,
                                  struct fth_feature_boundaries *out, fth_error *err) {
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > UINT32_MAX)
        return fth_fail(err, FTH_E_CHECKPOINT, "feature state: no boundaries for column '%s'", column);
    out->values = fth_alloc(n + 1, sizeof(float));
    if (out->values == NULL)
        return fth_fail(err, FTH_E_MEMORY, "no memory for boundaries");
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        float x = (float)json_number_value(item);
        if (!json_is_number(item) || !isfinite(x) || (i > 0 && !(x > out->values[i - 1])))
            return fth_fail(err, FTH_E_CHECKPOINT,
                            "feature state: boundaries of column '%s' are not ascending numbers",
                            column);
        out->values[i] = x;
    }
    out->n = (uint32_t)n;
    return FTH_OK;
}

static fth_status load_running(const json_t *list, const char *column, double state[3],
                               fth_error *err) {
    for (size_t i = 0; i < 3; i++) {
        const json_t *item = json_array_get(list, i);
        state[i] = json_number_value(item);
        if (json_array_size(list) != 3 || !json_is_number(item) || !isfinite(state[i]) ||
            (i != 1 && state[i] < 0))
            return fth_fail(err, FTH_E_CHECKPOINT,
                            "feature state: running statistics of column '%s' must be [count, mean, "
                            "squared deviations]",
                            column);
    }
    return FTH_OK;
}

fth_status fth_feature_state_load(fth_feature_program *program, const json_t *json, double *state,
                                  size_t n, fth_error *err) {
    const json_t *boundaries = json_object_get(json, "boundaries");
    const json_t *running = json_object_get(json, "running");
    fth_status status = FTH_OK;
    if (n != fth_feature_state_size(program))
        return fth_fail(err, FTH_E_ARGUMENT, "running statistics of %zu numbers where %zu are needed", n,
                        fth_feature_state_size(program));
    uint32_t n_quantiles = 0;
    for (uint32_t k = 0; k < program->n_numeric; k++)
        n_quantiles += program->numeric[k].learned != 0;
    const json_t *vocabularies = json_object_get(json, "vocabularies");
    if (json_object_size(vocabularies) != program->n_vocabularies)
        return fth_fail(err, FTH_E_CHECKPOINT, "feature state: %zu vocabularies, the configuration has %u",
                        json_object_size(vocabularies), program->n_vocabularies);
    if (json_object_size(boundaries) != n_quantiles || json_object_size(running) != program->n_running)
        return fth_fail(err, FTH_E_CHECKPOINT,
                        "feature state: %zu columns with learned boundaries and %zu with running "
                        "statistics, the configuration has %u and %u",
                        json_object_size(boundaries), json_object_size(running), n_quantiles,
                        program->n_running);
    struct fth_feature_boundaries *loaded = fth_alloc(program->n_numeric + 1, sizeof *loaded);
    double *values = fth_alloc(n + 1, sizeof *values);
    if (loaded == NULL || values == NULL)
        status = fth_fail(err, FTH_E_MEMORY, "no memory for the feature state");
    for (uint32_t k = 0; k < program->n_numeric && status == FTH_OK; k++) {
        const struct fth_feature_numeric *numeric = &program->numeric[k];
        const char *column = numeric->name;
        if (numeric->learned)
            status = load_boundaries(json_object_get(boundaries, column), column, &loaded[k], err);
        if (status == FTH_OK && numeric->running >= 0)
            status = load_running(json_object_get(running, column), column,
                                  values + 3 * numeric->running, err);
    }
    for (uint32_t v = 0; v < program->n_vocabularies && status == FTH_OK; v++)
        status = load_vocabulary(&program->vocabularies[v],
                                 json_object_get(vocabularies, program->vocabularies[v].table), err);
    for (uint32_t k = 0; loaded && k < program->n_numeric; k++) {
        struct fth_feature_numeric *numeric = &program->numeric[k];
        if (numeric->learned && status == FTH_OK) {
            struct fth_feature_boundaries old = numeric->boundaries;
            numeric->boundaries = loaded[k];
            loaded[k] = old;
        }
        fth_free(loaded[k].values);
    }
    if (status == FTH_OK) {
        memcpy(state, values, n * sizeof *values);
        program->learning_done = 1;
        status = fth_feature_join_vocabularies(program, err);
    }
    fth_free(loaded);
    fth_free(values);
    return status;
}
