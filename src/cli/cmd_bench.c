/* fathom bench: how fast steps are and where their time goes. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static const char doc[] =
    "Measure training steps on batches held in memory.\v"
    "Batches come from data.train, or are generated where no file matches it. Prints examples/s, and for every part "
    "of the step and every node time, GFLOP/s, GB/s and the share of this machine's peaks, which are measured, too; "
    "between steps also what other work on the machine leaves of them. With --from-text also what reading and new "
    "rows cost: 16 steps on what is read, 16 on the batches in memory, and so on. With --ablate every optimisation is left "
    "out alone and the ratio printed. The machine should be otherwise idle.\n\n"
    "'features' in the place of CONFIG measures the operations of feature programs, on one thread.\n\n"
    "Examples:\n"
    "  fathom bench examples/dlrm.yaml\n"
    "  fathom bench examples/deepfm.yaml --threads 1 --ablate --json deepfm.json\n"
    "  fathom bench examples/din.yaml --generated --set train.batch_size=4096\n"
    "  fathom bench features";

enum { KEY_GENERATED = 256, KEY_FROM_TEXT, KEY_SECONDS, KEY_JSON, KEY_PERF };

static const struct argp_option options[] = {
    {"batches", 'b', "N", 0, "batches held in memory (default 16)", 0},
    {"seconds", KEY_SECONDS, "S", 0, "measure for about S seconds (default 4)", 0},
    {"generated", KEY_GENERATED, NULL, 0, "use generated batches even where there is data", 0},
    {"from-text", KEY_FROM_TEXT, NULL, 0, "also steps on what is read meanwhile, in turns with steps in memory", 0},
    {"ablate", 'a', NULL, 0, "also leave out every optimisation alone", 0},
    {"perf", KEY_PERF, NULL, 0, "also cycles, instructions and cache misses, where the kernel counts them", 0},
    {"json", KEY_JSON, "FILE", 0, "write everything to FILE, too; '-' is standard output, in the place of the text", 0},
    {0}};

struct arguments {
    const char *config, *json;
    fth_bench_options bench;
    struct cli_overrides overrides;
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->overrides;
        break;
    case 'b':
        a->bench.batches = (uint32_t)cli_number(state, "--batches", arg, 1, 4096);
        break;
    case KEY_SECONDS:
        a->bench.seconds = cli_real(state, "--seconds", arg, 0.001, 3600);
        break;
    case KEY_GENERATED:
        a->bench.generated = 1;
        break;
    case KEY_FROM_TEXT:
        a->bench.from_text = 1;
        break;
    case 'a':
        a->bench.ablate = 1;
        break;
    case KEY_PERF:
        a->bench.perf = 1;
        break;
    case KEY_JSON:
        a->json = arg;
        break;
    case ARGP_KEY_ARG:
        if (a->config)
            argp_error(state, "one configuration file, not two ('%s' and '%s')", a->config, arg);
        a->config = arg;
        break;
    case ARGP_KEY_END:
        if (!a->config)
            argp_error(state, "a configuration file is needed");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void begun(void *ctx, const char *what) {
    (void)ctx;
    fprintf(stderr, "measuring: %s\n", what);
}

static int bench(const struct arguments *a, const fth_config *config) {
    fth_error err = {0};
    char *text = NULL, *json = NULL;
    struct cli_output out;
    int code = CLI_OK;
    if (a->json && cli_is_read("bench", a->json, config, a->config))
        return CLI_USAGE;
    if (a->json && !cli_output_open(&out, "bench", a->json))
        return CLI_FAILURE;
    if (fth_bench(config, &a->bench, &text, a->json ? &json : NULL, &err) != FTH_OK) {
        if (a->json)
            cli_output_discard(&out);
        return cli_fail(&err);
    }
    if (!a->json || !out.to.standard)
        fputs(text, stdout);
    if (a->json) {
        fprintf(out.file, "%s\n", json);
        code = cli_output_close(&out);
    }
    free(text);
    free(json);
    return code;
}

static int bench_features(double seconds) {
    fth_error err = {0};
    char *text = NULL;
    if (fth_bench_features(seconds / 8, &text, &err) != FTH_OK)
        return cli_fail(&err);
    fputs(text, stdout);
    free(text);
    return CLI_OK;
}

int cli_bench(int argc, char **argv) {
    static const struct argp argp = {options, parse, "CONFIG\nfeatures", doc, cli_plan_options, NULL, NULL};
    struct arguments a = {.bench = {.seconds = 4, .begun = begun}};
    if (argp_parse(&argp, argc, argv, 0, NULL, &a))
        return CLI_USAGE;
    if (strcmp(a.config, "features") == 0) {
        int more = a.json || a.bench.ablate || a.bench.from_text || a.bench.generated || a.bench.perf || a.overrides.n ||
                   a.bench.batches;
        cli_overrides_free(&a.overrides);
        if (!more)
            return bench_features(a.bench.seconds);
        fprintf(stderr, "fathom bench: 'features' measures the operations alone; of the options it takes only --seconds\n");
        return CLI_USAGE;
    }
    a.bench.batches = a.bench.batches ? a.bench.batches : 16;
    fth_error err = {0};
    fth_config *config = NULL;
    fth_status status = fth_config_read(a.config, (const char *const *)a.overrides.items,
                                        a.overrides.n, &config, &err);
    int code = status == FTH_OK ? bench(&a, config) : cli_fail(&err);
    fth_config_free(config);
    cli_overrides_free(&a.overrides);
    return code;
}
