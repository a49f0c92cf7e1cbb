/* fathom eval: AUC and the other metrics of a checkpoint on labelled data. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "cli/cli.h"

static const char doc[] =
    "Evaluate a checkpoint (a step-* folder, or a checkpoint.dir whose newest is taken).\v"
    "Without FILE the configuration's data.test is read, or else data.valid or the held-out part "
    "of data.train. '-' is standard input. The result goes to standard output. With early stopping the "
    "newest checkpoint need not be the best one, which is kept beside it: 'fathom train' names it in the end.\n\n"
    "--json writes an object: the checkpoint, malformed lines, seconds, and of each task its name (null where there is "
    "one without), examples, weight and metrics; null stands for what is not defined.\n\n"
    "Examples:\n"
    "  fathom eval checkpoints\n"
    "  fathom eval checkpoints/step-000000001200 monday.tsv 'tuesday-*.tsv.gz'\n"
    "  fathom eval checkpoints --json metrics.json";

enum { KEY_JSON = 256 };

static const struct argp_option options[] = {
    {"json", KEY_JSON, "FILE", 0, "write the result to FILE, too; '-' is standard output, in the place of the text", 0},
    {0}};

struct arguments {
    const char *checkpoint, *json, *files[CLI_MOST_FILES];
    size_t n_files;
    struct cli_overrides overrides;
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->overrides;
        break;
    case KEY_JSON:
        a->json = arg;
        break;
    case ARGP_KEY_ARG:
        if (!a->checkpoint)
            a->checkpoint = arg;
        else if (a->n_files < CLI_MOST_FILES)
            a->files[a->n_files++] = arg;
        else
            argp_error(state, "more than %d files; a quoted glob names many at once", CLI_MOST_FILES);
        break;
    case ARGP_KEY_END:
        if (!a->checkpoint)
            argp_error(state, "a checkpoint is needed");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static json_t *number(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *metrics(const fth_evaluation *e) {
    return json_pack("{ss? sI so so so so so so so}", "name", e->task, "examples", (json_int_t)e->examples, "weight",
                     number(e->weight), "auc", number(e->auc), "log_loss", number(e->log_loss), "normalised_entropy",
                     number(e->normalised_entropy), "calibration", number(e->calibration), "gauc", number(e->gauc),
                     "base_rate", number(e->base_rate));
}

/* 0: no memory. What cannot be written is left to the stream. */
static int write_json(FILE *out, const char *checkpoint, const fth_evaluation *evaluation) {
    json_t *path = json_string(checkpoint); /* NULL: it is no UTF-8 */
    json_t *tasks = json_array();
    int made = tasks != NULL;
    for (uint32_t t = 0; t <= evaluation->n_others && made; t++)
        made = json_array_append_new(tasks, metrics(t ? &evaluation->others[t - 1] : evaluation)) == 0;
    json_t *all = json_pack("{sO? sI so sO?}", "checkpoint", path, "lines_bad", (json_int_t)evaluation->lines_bad,
                            "seconds", number(evaluation->seconds), "tasks", tasks);
    char *text = made && all ? json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(path);
    json_decref(tasks);
    json_decref(all);
    if (text)
        fprintf(out, "%s\n", text);
    free(text);
    return text != NULL;
}

/* Whether the path may be written to, as far as what is read is concerned. */
static int is_free(const struct arguments *a, const fth_session *session, const char *path) {
    int taken = cli_is_read("eval", path, fth_session_config(session), NULL) ||
                cli_is_of_checkpoint("eval", path, fth_session_checkpoint(session));
    for (size_t f = 0; f < a->n_files && !taken; f++)
        taken = cli_is_read("eval", path, fth_session_config(session), a->files[f]);
    return !taken;
}

static int evaluate(const struct arguments *a, fth_session *session) {
    fth_error err = {0};
    fth_evaluation evaluation;
    struct cli_output out;
    if (a->json && !is_free(a, session, a->json))
        return CLI_USAGE;
    if (a->json && !cli_output_open(&out, "eval", a->json))
        return CLI_FAILURE;
    if (fth_session_evaluate(session, a->files, a->n_files, &evaluation, &err) != FTH_OK) {
        if (a->json)
            cli_output_discard(&out);
        return cli_fail(&err);
    }
    if (!a->json || !out.to.standard)
        cli_print_evaluation(stdout, fth_session_checkpoint(session), &evaluation);
    if (!a->json)
        return CLI_OK;
    if (write_json(out.file, fth_session_checkpoint(session), &evaluation))
        return cli_output_close(&out);
    fprintf(stderr, "fathom eval: no memory for the result as JSON\n");
    cli_output_discard(&out);
    return CLI_FAILURE;
}

int cli_eval(int argc, char **argv) {
    static const struct argp argp = {options, parse, "CHECKPOINT [FILE...]", doc, cli_use_options, NULL, NULL};
    struct arguments a = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &a))
        return CLI_USAGE;
    fth_error err = {0};
    fth_session *session = NULL;
    fth_status status = fth_session_open_to_predict(a.checkpoint, (const char *const *)a.overrides.items,
                                                    a.overrides.n, &session, &err);
    int code = status == FTH_OK ? evaluate(&a, session) : cli_fail(&err);
    fth_session_destroy(session);
    cli_overrides_free(&a.overrides);
    return code;
}
