/* fathom tune: the fastest provider for every matrix product of a model on this machine. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const char doc[] =
    "Time every provider of matrix products on the shapes of a model's plan and write a tuning file.\v"
    "A configuration names the file with 'tuning: FILE', and checkpoints record it: another provider can "
    "change the last bits of a result. Without CONFIG a grid of usual widths is measured. The machine should "
    "be otherwise idle.\n\n"
    "Examples:\n"
    "  fathom tune examples/deepfm.yaml -o deepfm.tuning.json\n"
    "  fathom train examples/deepfm.yaml --set tuning=deepfm.tuning.json";

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "the tuning file to write; '-' is standard output", 0},
    {"set", 's', "KEY=VALUE", 0, "override a configuration key", 0},
    {0}};

struct arguments {
    const char *config, *output;
    struct cli_overrides overrides;
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct arguments *a = state->input;
    switch (key) {
    case 's': cli_override(&a->overrides, "%s", arg); break;
    case 'o': a->output = arg; break;
    case ARGP_KEY_ARG:
        if (a->config)
            argp_error(state, "one configuration file, not two ('%s' and '%s')", a->config, arg);
        a->config = arg;
        break;
    case ARGP_KEY_END:
        if (!a->output)
            argp_error(state, "-o FILE, the tuning file to write, is needed");
        if (!a->config && a->overrides.n)
            argp_error(state, "--set needs a configuration file to override");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void begun(void *ctx, size_t products) {
    (void)ctx;
    fprintf(stderr, "measuring %zu matrix products\n", products);
}

static int tune(const struct arguments *a, const fth_config *config) {
    fth_error err = {0};
    char *text = NULL;
    struct cli_output out;
    if (cli_is_read("tune", a->output, config, a->config))
        return CLI_USAGE;
    if (!cli_output_open(&out, "tune", a->output))
        return CLI_FAILURE;
    if (fth_tune(config, begun, NULL, &text, &err) != FTH_OK) {
        cli_output_discard(&out);
        return cli_fail(&err);
    }
    fputs(text, out.file);
    free(text);
    return cli_output_close(&out);
}

int cli_tune(int argc, char **argv) {
    static const struct argp argp = {options, parse, "[CONFIG]", doc, NULL, NULL, NULL};
    struct arguments a = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &a))
        return CLI_USAGE;
    fth_error err = {0};
    fth_config *config = NULL;
    fth_status status = FTH_OK;
    cli_override(&a.overrides, "tuning="); /* what was measured before is not read, and may be replaced */
    if (a.config)
        status = fth_config_read(a.config, (const char *const *)a.overrides.items, a.overrides.n,
                                 &config, &err);
    int code = status == FTH_OK ? tune(&a, config) : cli_fail(&err);
    fth_config_free(config);
    cli_overrides_free(&a.overrides);
    return code;
}
