/* fathom graph: the planned graph of a configuration. */
#include <stdlib.h>

#include "cli/cli.h"

static const char doc[] =
    "Print the training graph of a configuration: its nodes, phases and where values live.\v"
    "No data is read. With --dot the output is for Graphviz; with --features it is what each feature does with its "
    "text, which steps are one pass, and why others are not.\n\n"
    "Examples:\n"
    "  fathom graph examples/deepfm.yaml\n"
    "  fathom graph --dot examples/dlrm.yaml | dot -Tsvg > dlrm.svg\n"
    "  fathom graph --features examples/din.yaml";

static const struct argp_option options[] = {
    {"dot", 'd', NULL, 0, "Graphviz DOT", 0},
    {"features", 'f', NULL, 0, "the feature program instead of the graph", 0},
    {0}};

struct arguments {
    const char *config;
    int dot, features;
    struct cli_overrides overrides;
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->overrides;
        break;
    case 'd':
        a->dot = 1;
        break;
    case 'f':
        a->features = 1;
        break;
    case ARGP_KEY_ARG:
        if (a->config)
            argp_error(state, "one configuration file, not two ('%s' and '%s')", a->config, arg);
        a->config = arg;
        break;
    case ARGP_KEY_END:
        if (!a->config)
            argp_error(state, "a configuration file is needed");
        if (a->dot && a->features)
            argp_error(state, "--dot draws the graph; give it or --features");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int cli_graph(int argc, char **argv) {
    static const struct argp argp = {options, parse, "CONFIG", doc, cli_plan_options, NULL, NULL};
    struct arguments a = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &a))
        return CLI_USAGE;
    fth_error err = {0};
    fth_config *config = NULL;
    fth_session *session = NULL;
    char *text = NULL;
    fth_status status = fth_config_read(a.config, (const char *const *)a.overrides.items,
                                        a.overrides.n, &config, &err);
    if (status == FTH_OK)
        status = fth_session_create(config, FTH_FOR_SHAPE, &session, &err);
    if (status == FTH_OK)
        status = a.features ? fth_session_features(session, &text, &err)
                            : fth_session_graph(session, a.dot, &text, &err);
    if (status == FTH_OK)
        fputs(text, stdout);
    int code = status == FTH_OK ? CLI_OK : cli_fail(&err);
    free(text);
    fth_session_destroy(session);
    fth_config_free(config);
    cli_overrides_free(&a.overrides);
    return code;
}
