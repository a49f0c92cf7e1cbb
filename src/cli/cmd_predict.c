/* fathom predict: a probability for every input line. */
#include <stdio.h>

#include "cli/cli.h"

static const char doc[] =
    "Print a probability for every data line of FILE (default: standard input), one a line, in "
    "order; of several tasks one each, with commas between, in the configuration's order.\v"
    "CHECKPOINT is a step-* folder, or a checkpoint.dir whose newest is taken (with early stopping that need "
    "not be the best one, which is kept beside it: 'fathom train' names it in the end). Lines are in the "
    "format of the training data; labels are not looked at and may be lacking (of csv their columns). "
    "With "
    "data.on_bad_line=skip a malformed line gives 'nan', so that lines still match. Of two towers trained by "
    "in_batch_softmax the numbers rank a user's items and are no probabilities.\n\n"
    "Examples:\n"
    "  fathom predict checkpoints demo/criteo.test.tsv -o probabilities.txt\n"
    "  zcat new.tsv.gz | fathom predict checkpoints --set data.on_bad_line=skip | paste - "
    "labels.txt";

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "write there instead of standard output; a read-only file is kept", 0}, {0}};

struct arguments {
    const char *checkpoint, *file, *output;
    struct cli_overrides overrides;
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->overrides;
        break;
    case 'o':
        a->output = arg;
        break;
    case ARGP_KEY_ARG:
        if (!a->checkpoint)
            a->checkpoint = arg;
        else if (!a->file)
            a->file = arg;
        else
            argp_error(state, "one input file, not two ('%s' and '%s')", a->file, arg);
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

static int predict(const struct arguments *a, fth_session *session) {
    fth_error err = {0};
    uint64_t lines = 0;
    struct cli_output out;
    if (a->output && cli_is_read("predict", a->output, fth_session_config(session), a->file ? a->file : "-"))
        return CLI_USAGE;
    if (a->output && cli_is_of_checkpoint("predict", a->output, fth_session_checkpoint(session)))
        return CLI_USAGE;
    if (!cli_output_open(&out, "predict", a->output))
        return CLI_FAILURE;
    if (fth_session_predict(session, a->file ? a->file : "-", out.file, &lines, &err) == FTH_OK)
        return cli_output_close(&out);
    int lost = ferror(out.file);
    if (lost) /* the library was not told what it is called */
        fprintf(stderr, "fathom predict: %s: %s\n", out.to.path, err.message);
    cli_output_discard(&out);
    return lost ? CLI_FAILURE : cli_fail(&err);
}

int cli_predict(int argc, char **argv) {
    static const struct argp argp = {options, parse, "CHECKPOINT [FILE]", doc, cli_use_options,
                                     NULL,    NULL};
    struct arguments a = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &a))
        return CLI_USAGE;
    fth_error err = {0};
    fth_session *session = NULL;
    fth_status status = fth_session_open_to_predict(a.checkpoint, (const char *const *)a.overrides.items,
                                                    a.overrides.n, &session, &err);
    int code = status == FTH_OK ? predict(&a, session) : cli_fail(&err);
    fth_session_destroy(session);
    cli_overrides_free(&a.overrides);
    return code;
}
