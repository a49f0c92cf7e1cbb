/* Whole trainings for tests: see runs.h. */
#include "runs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"
#include "data_support.h"

/* ---- data ---- */

/* A heavy head and a long tail, so that some keys stay below min_count. */
static uint32_t skewed(uint32_t draw, uint32_t n) {
    uint64_t x = draw % 1000, y = draw / 1000 % 1000;
    return (uint32_t)(x * y * n / 1000000);
}

static void write_line(struct fth_text *text, uint32_t number) {
    uint32_t r[12];
    for (uint32_t i = 0; i < 3; i++)
        fth_random_draw(99, FTH_RANDOM_SHUFFLE, number, i, r + 4 * i);
    uint32_t user = skewed(r[0], 300), item = skewed(r[1], 200), category = item % 7;
    int age = (int)(r[2] % 60) + 18, hours = (int)(r[3] % 90);
    int score = (int)(user % 5) + (int)(item % 3) + age / 20 + hours / 30 + (int)(r[4] % 5);
    fth_text_printf(text, "%d,", score > 8);
    if (r[5] % 10)
        fth_text_printf(text, "%d", age);
    fth_text_printf(text, ",%d.%u,u%u,i%u,c%u,", hours, r[6] % 10, user, item, category);
    uint32_t length = r[7] % 6;
    for (uint32_t t = 0; t < length; t++)
        fth_text_printf(text, "%si%u", t ? ";" : "", skewed(r[8] + t * 7919, 200));
    fth_text_append(text, ",", 1);
    for (uint32_t t = 0; t < length; t++)
        fth_text_printf(text, "%sc%u", t ? ";" : "", skewed(r[8] + t * 7919, 200) % 7);
    fth_text_printf(text, ",q%u\n", r[9] % 40);
}

const char *run_data(int gzip) {
    static char plain[256], packed[256];
    if (!plain[0]) {
        struct fth_text text = {0};
        fth_text_printf(&text, "label,age,hours,user,item,category,hist_item,hist_category,query\n");
        for (uint32_t i = 0; i < RUN_LINES; i++)
            write_line(&text, i);
        assert_false(text.failed);
        snprintf(plain, sizeof plain, "%s", temp_path("train.csv"));
        snprintf(packed, sizeof packed, "%s", temp_path("train.csv.gz"));
        write_file(plain, text.data, text.length);
        write_gzip(packed, text.data, text.length, 0);
        fth_text_free(&text);
    }
    return gzip ? packed : plain;
}

/* ---- configurations ---- */

static const char head[] =
    "seed: 7\n"
    "threads: 2\n"
    "data:\n"
    "  format: csv\n"
    "  label: label\n"
    "  query: query\n"
    "  shuffle: 200\n"
    "  holdout: {by: hash, fraction: 0.1}\n"
    "features:\n"
    "  learn_lines: 500\n"
    "  numeric:\n"
    "    - {columns: [age], standardise: running, missing_indicator: true, quantiles: 5}\n"
    "    - {columns: [hours], log1p: true, standardise: running}\n"
    "  indicator: [{columns: category, name: place, values: [c0, c1], other: true}]\n"
    "  categorical:\n"
    "    - {columns: [user], min_count: 3}\n"
    "    - {columns: [item, category]}\n"
    "    - {columns: [hist_item], table: item, separator: \";\", group: h, max_length: 5%s}\n"
    "    - {columns: [hist_category], table: category, separator: \";\", group: h, max_length: 5%s}\n"
    "embedding: {dim: 8, huge_pages: false}\n"
    "optimizer:\n"
    "  dense: {name: adam, lr: 0.01}\n"
    "  sparse: {name: adagrad, lr: 0.05}\n"
    "train: {batch_size: 100, epochs: 3}\n";

static const struct {
    const char *name, *keys;
} models[] = {
    {"lr", ""},
    {"fm", ""},
    {"wide_deep", "hidden: [16, 8], dropout: 0.2, batch_norm: true"},
    {"deepfm", "hidden: [16, 8], dropout: 0.2, activation: prelu"},
    {"dcn", "hidden: [16, 8], cross_layers: 2, batch_norm: true, dropout: 0.1"},
    {"dcnv2", "hidden: [16, 16], cross_layers: 2, layer_norm: true, residual: true"},
    {"dlrm", "bottom: [16, 8], top: [16], dropout: 0.1, activation: gelu"},
    {"xdeepfm", "cin: [8, 6], hidden: [16, 8], dropout: 0.2, batch_norm: true"},
    {"can", "target: item, hidden: [16, 8], co_action_layers: [5, 3], co_action_dim: 6, dropout: 0.1"},
    {"two_tower", "item_fields: [item, category], loss: in_batch_softmax, normalise: true, temperature: 0.2, hidden: [16, 8], dropout: 0.1"},
    {"din", "attention: [8], hidden: [16], activation: dice, dropout: 0.1"},
    {"star", "domain: place, hidden: [16, 8], auxiliary_hidden: [8], dropout: 0.1"},
    {"mmoe", "experts: 3, expert_hidden: [16, 8], tower: [8], dropout: 0.1, batch_norm: true"},
    {"dien", "hidden: [16], activation: sigmoid, dropout: 0.1, auxiliary: 0.5, recurrent: 12"},
    {"dsin", "session: hist_category, heads: 2, feed_forward: 12, session_length: 2, sessions: 2, hidden: [16], "
             "activation: dice, dropout: 0.1"},
    {"atbrg", "relations: [category:hist_category], target: item, hidden: [16], dropout: 0.1"},
};

const char *run_config(const char *model, const char *data) {
    static char text[4096];
    const char *keys = NULL, *sequence = !strstr("din dien dsin atbrg can", model) ? "" : ", sequence: true";
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (!strcmp(models[i].name, model))
            keys = models[i].keys;
    if (!keys)
        fail_msg("runs.c has no keys for the model %s", model);
    int n = snprintf(text, sizeof text, head, sequence, sequence);
    snprintf(text + n, sizeof text - (size_t)n, "model: {name: %s%s%s}\n", model, *keys ? ", " : "", keys);
    char *place = strstr(text, "  indicator:"), *behind = strstr(place, "  categorical:");
    if (strcmp(model, "star"))
        memmove(place, behind, strlen(behind) + 1);
    char *label = strstr(text, "  label: label\n");
    if (!strcmp(model, "mmoe")) {
        memmove(label, label + strlen("  label: label\n"), strlen(label + strlen("  label: label\n")) + 1);
        strcat(text, "tasks:\n  - {name: first, label: label}\n"
                     "  - {name: second, label: query, positive: [q1, q2, q3, q5], weight: 0.5}\n");
    }
    char *at = strstr(text, "  format: csv\n");
    char rest[4096];
    snprintf(rest, sizeof rest, "%s", at);
    snprintf(at, sizeof text - (size_t)(at - text), "  train: %s\n%s", data, rest);
    return text;
}

/* ---- runs ---- */

struct stopper {
    fth_session *session;
    uint64_t after;
    struct run *run;
};

static void on_loss(void *ctx, uint64_t step, double loss) {
    struct stopper *stopper = ctx;
    (void)loss;
    if (stopper->after && step >= stopper->after)
        fth_session_interrupt(stopper->session);
}

static void on_evaluated(void *ctx, uint64_t step, const fth_evaluation *evaluation, int best) {
    struct run *run = ((struct stopper *)ctx)->run;
    (void)evaluation;
    (void)best;
    assert_true(run->n_evaluated < RUN_EVALUATIONS);
    run->evaluated[run->n_evaluated++] = step;
}

static void go_on(struct run *run, fth_session *session) {
    struct stopper stopper = {session, run->stop_after, run};
    fth_callbacks callbacks = {.ctx = &stopper, .loss = on_loss, .evaluated = on_evaluated};
    if (run->status == FTH_OK)
        run->status = fth_session_train(session, &callbacks, &run->training, &run->error);
    if (run->status == FTH_OK)
        run->status = fth_session_digest(session, run->digest, &run->error);
    fth_session_destroy(session);
}

static size_t collect(const struct run *run, char *dir, size_t room, const char **overrides) {
    size_t n = 0;
    while (run->overrides[n]) {
        overrides[n] = run->overrides[n];
        n++;
    }
    if (run->dir) {
        snprintf(dir, room, "checkpoint.dir=%s", run->dir);
        overrides[n++] = dir;
    }
    return n;
}

static void forget_results(struct run *run) {
    run->error = (fth_error){0};
    run->training = (fth_training){0};
    run->n_evaluated = 0;
    run->digest[0] = 0;
}

void run_train(struct run *run) {
    char dir[512];
    const char *overrides[17];
    size_t n = collect(run, dir, sizeof dir, overrides);
    fth_config *config = NULL;
    fth_session *session = NULL;
    forget_results(run);
    run->status = fth_config_parse("test", run->config, strlen(run->config), overrides, n, &config,
                                   &run->error);
    if (run->status == FTH_OK)
        run->status = fth_session_create(config, FTH_FOR_ALL, &session, &run->error);
    fth_config_free(config);
    go_on(run, session);
}

void run_resume(struct run *run) {
    char dir[512];
    const char *overrides[17];
    size_t n = collect(run, dir, sizeof dir, overrides);
    fth_session *session = NULL;
    forget_results(run);
    run->status = fth_session_open(run->dir, overrides, n, &session, &run->error);
    go_on(run, session);
}

static void must(const struct run *run) {
    if (run->status != FTH_OK)
        fail_msg("%s", run->error.message);
}

void run_train_ok(struct run *run) {
    run_train(run);
    must(run);
}

void run_resume_ok(struct run *run) {
    run_resume(run);
    must(run);
}

struct run run_stopped(const char *dir, uint64_t after) {
    struct run run = {.config = run_config("wide_deep", run_data(0)), .dir = dir, .stop_after = after};
    run_train_ok(&run);
    assert_true(run.training.interrupted);
    run.stop_after = 0;
    return run;
}

void run_refused(struct run *run, fth_status status, const char *part) {
    run_resume(run);
    if (run->status != status || !strstr(run->error.message, part))
        fail_msg("status %d, '%s' without '%s'", run->status, run->error.message, part);
    assert_int_equal(run->training.steps, 0);
}

void run_write_manifest(const char *path, json_t *manifest) {
    char check[17];
    json_object_del(manifest, "check");
    char *text = json_dumps(manifest, JSON_COMPACT | JSON_SORT_KEYS);
    snprintf(check, sizeof check, "%016llx", (unsigned long long)fth_hash_bytes(text, strlen(text), 0));
    json_object_set_new(manifest, "check", json_string(check));
    assert_int_equal(json_dump_file(manifest, path, JSON_INDENT(1)), 0);
    json_decref(manifest);
    free(text);
}

const char *run_new_dir(void) {
    static char dirs[8][256];
    static unsigned made;
    char name[32];
    char *dir = dirs[made % 8];
    snprintf(name, sizeof name, "checkpoints-%u", made++);
    snprintf(dir, sizeof dirs[0], "%s", temp_path(name));
    return dir;
}
