/* fathom inspect: what is in a checkpoint or in data files. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

static const char doc[] =
    "Report what is in a checkpoint or in data files.\v"
    "A folder is a checkpoint (a step-* folder, or a checkpoint.dir whose newest is taken): tasks, where there "
    "are several labels, tensors, tables, rows, dimensions, bytes, norms; every checksum is verified. Two checkpoints "
    "with one digest go on training with the same bits.\n\n"
    "Files are data: columns, missing values, distinct values (estimated within about 1 %), ranges, malformed "
    "lines with the first messages. Their format is the configuration's (--config), or --format, or told by "
    "the name's ending (.csv, .tsv for criteo, .libsvm, .libffm, with .gz or .zst behind it). '-' is standard "
    "input.\n\n"
    "Examples:\n"
    "  fathom inspect checkpoints --top 5\n"
    "  fathom inspect checkpoints/step-000000001200 --digest\n"
    "  fathom inspect demo/criteo.train.tsv\n"
    "  fathom inspect --config examples/adult.yaml adult.data\n"
    "  fathom inspect --format csv --set data.csv.delimiter=';' clicks.txt";

static const struct argp_option options[] = {
    {"top", 'n', "N", 0, "checkpoint: also the N most frequent rows of each table (0 to 1000)", 0},
    {"digest", 'd', NULL, 0, "checkpoint: only the digest", 0},
    {"config", 'c', "CONFIG", 0, "data: read as this configuration says", 0},
    {"format", 'f', "FORMAT", 0, "data: criteo, csv, libsvm or libffm", 0},
    {"set", 's', "KEY=VALUE", 0, "data: override a configuration key", 0},
    {0}};

struct arguments {
    const char *paths[CLI_MOST_FILES], *config, *format;
    size_t n_paths;
    uint32_t top;
    int digest, for_checkpoint;
    struct cli_overrides overrides;
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct arguments *a = state->input;
    switch (key) {
    case 'n':
        a->top = (uint32_t)cli_number(state, "--top", arg, 0, 1000);
        a->for_checkpoint = 1;
        break;
    case 'd': a->digest = a->for_checkpoint = 1; break;
    case 'c': a->config = arg; break;
    case 'f': a->format = arg; break;
    case 's': cli_override(&a->overrides, "%s", arg); break;
    case ARGP_KEY_ARG:
        if (a->n_paths == CLI_MOST_FILES)
            argp_error(state, "more than %d files; a quoted glob names many at once", CLI_MOST_FILES);
        a->paths[a->n_paths++] = arg;
        break;
    case ARGP_KEY_END:
        if (!a->n_paths)
            argp_error(state, "a checkpoint or a data file is needed");
        if (a->config && a->format)
            argp_error(state, "--config and --format both say what the format is; leave one out");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int inspect_checkpoint(const struct arguments *a) {
    fth_error err = {0};
    char *text = NULL, digest[17];
    fth_status status = a->digest ? fth_inspect_digest(a->paths[0], digest, &err)
                                  : fth_inspect_checkpoint(a->paths[0], a->top, &text, &err);
    if (status != FTH_OK)
        return cli_fail(&err);
    if (a->digest)
        printf("%s\n", digest);
    else
        cli_put(stdout, text);
    free(text);
    return CLI_OK;
}

static int ends_with(const char *text, size_t length, const char *ending) {
    size_t n = strlen(ending);
    return length >= n && memcmp(text + length - n, ending, n) == 0;
}

/* NULL when the ending says nothing. */
static const char *format_of(const char *path) {
    size_t n = strlen(path);
    if (ends_with(path, n, ".gz"))
        n -= 3;
    else if (ends_with(path, n, ".zst"))
        n -= 4;
    return ends_with(path, n, ".csv")                                        ? "csv"
           : ends_with(path, n, ".tsv")                                      ? "criteo"
           : ends_with(path, n, ".libsvm") || ends_with(path, n, ".svm")     ? "libsvm"
           : ends_with(path, n, ".libffm") || ends_with(path, n, ".ffm")     ? "libffm"
                                                                             : NULL;
}

/* Only `data` of it matters; the rest is what a configuration must have. */
static const char *minimal(const char *format) {
    if (strcmp(format, "csv") == 0)
        return "data: {format: csv, train: x, label: label}\n"
               "features: {categorical: [{columns: [x]}]}\nmodel: {name: lr}\n";
    if (strcmp(format, "criteo") == 0)
        return "data: {format: criteo, train: x}\n"
               "features: {categorical: [{columns: [C1]}]}\nmodel: {name: lr}\n";
    if (strcmp(format, "libsvm") == 0)
        return "data: {format: libsvm, train: x}\nfeatures: {categorical: [{columns: [x]}]}\n"
               "model: {name: lr}\n";
    if (strcmp(format, "libffm") == 0)
        return "data: {format: libffm, train: x}\nfeatures: {categorical: [{columns: [x]}]}\n"
               "model: {name: lr}\n";
    return NULL;
}

static int read_config(const struct arguments *a, fth_config **out) {
    fth_error err = {0};
    struct stat there;
    const char *const *items = (const char *const *)a->overrides.items;
    if (a->config)
        return fth_config_read(a->config, items, a->overrides.n, out, &err) == FTH_OK ? CLI_OK
                                                                                      : cli_fail(&err);
    const char *format = a->format ? a->format : format_of(a->paths[0]);
    if (!format && strcmp(a->paths[0], "-") != 0 && !strpbrk(a->paths[0], "*?[") && stat(a->paths[0], &there) != 0) {
        fprintf(stderr, "fathom inspect: %s: %m\n", a->paths[0]);
        return CLI_FAILURE;
    }
    if (!format)
        return cli_usage("inspect", "the name '%s' does not say what format it has; add --format criteo, "
                                    "csv, libsvm or libffm, or --config CONFIG", a->paths[0]);
    const char *text = minimal(format);
    if (!text) {
        static const char *const names[] = {"criteo", "csv", "libsvm", "libffm"};
        const char *near = fth_suggest(format, names, 4);
        return cli_usage("inspect", "there is no format '%s'%s%s%s (there are: criteo, csv, libsvm, libffm)",
                         format, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    return fth_config_parse("--format", text, strlen(text), items, a->overrides.n, out, &err) == FTH_OK
               ? CLI_OK
               : cli_fail(&err);
}

static int inspect_data(const struct arguments *a) {
    fth_error err = {0};
    fth_config *config = NULL;
    char *text = NULL;
    int code = read_config(a, &config);
    if (code != CLI_OK)
        return code;
    if (fth_inspect_data(config, a->paths, a->n_paths, &text, &err) == FTH_OK)
        fputs(text, stdout);
    else
        code = cli_fail(&err);
    free(text);
    fth_config_free(config);
    return code;
}

static int inspect(const struct arguments *a) {
    struct stat there;
    int folder = stat(a->paths[0], &there) == 0 && S_ISDIR(there.st_mode);
    if (folder && a->n_paths > 1)
        return cli_usage("inspect", "one checkpoint at a time, not also '%s'", a->paths[1]);
    if (folder && (a->config || a->format || a->overrides.n))
        return cli_usage("inspect", "%s is a folder, so a checkpoint: --config, --format and --set are for "
                                    "data files", a->paths[0]);
    if (!folder && a->for_checkpoint)
        return cli_usage("inspect", "--top and --digest are for checkpoints, which are folders; %s is none",
                         a->paths[0]);
    return folder ? inspect_checkpoint(a) : inspect_data(a);
}

int cli_inspect(int argc, char **argv) {
    static const struct argp argp = {options, parse, "PATH...", doc, NULL, NULL, NULL};
    struct arguments a = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &a))
        return CLI_USAGE;
    int code = inspect(&a);
    cli_overrides_free(&a.overrides);
    return code;
}
