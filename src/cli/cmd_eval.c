/* fathom eval: AUC and the other metrics of a checkpoint on labelled data. */
#include "cli/cli.h"

static const char doc[] =
    "Evaluate a checkpoint (a step-* folder, or a checkpoint.dir whose newest is taken).\v"
    "Without FILE the configuration's data.test is read, or else data.valid or the held-out part "
    "of data.train. '-' is standard input. The result goes to standard output. With early stopping the "
    "newest checkpoint need not be the best one, which is kept beside it: 'fathom train' names it in the end.\n\n"
    "Examples:\n"
    "  fathom eval checkpoints\n"
    "  fathom eval checkpoints/step-000000001200 monday.tsv 'tuesday-*.tsv.gz'";

#define MOST_FILES 1024
struct arguments {
    const char *checkpoint, *files[MOST_FILES];
    size_t n_files;
    struct cli_overrides overrides;
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->overrides;
        break;
    case ARGP_KEY_ARG:
        if (!a->checkpoint)
            a->checkpoint = arg;
        else if (a->n_files < MOST_FILES)
            a->files[a->n_files++] = arg;
        else
            argp_error(state, "more than %d files; a quoted glob names many at once", MOST_FILES);
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

int cli_eval(int argc, char **argv) {
    static const struct argp argp = {NULL, parse, "CHECKPOINT [FILE...]", doc, cli_use_options,
                                     NULL, NULL};
    struct arguments a = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &a))
        return CLI_USAGE;
    fth_error err = {0};
    fth_session *session = NULL;
    fth_evaluation evaluation;
    fth_status status = fth_session_open(a.checkpoint, (const char *const *)a.overrides.items,
                                         a.overrides.n, &session, &err);
    if (status == FTH_OK)
        status = fth_session_evaluate(session, a.files, a.n_files, &evaluation, &err);
    int code = CLI_OK;
    if (status == FTH_OK)
        cli_print_evaluation(stdout, fth_session_checkpoint(session), &evaluation);
    else
        code = cli_fail(&err);
    fth_session_destroy(session);
    cli_overrides_free(&a.overrides);
    return code;
}
