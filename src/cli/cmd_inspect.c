/* fathom inspect: what is in a checkpoint. */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

static const char doc[] =
    "Report what is in a checkpoint.\v"
    "PATH is a step-* folder, or a checkpoint.dir whose newest is taken: tensors, tables, rows, dimensions, "
    "bytes, norms; every checksum is verified. Two checkpoints with one digest go on training with the same "
    "bits.\n\n"
    "Examples:\n"
    "  fathom inspect checkpoints --top 5\n"
    "  fathom inspect checkpoints/step-000000001200 --digest";

static const struct argp_option options[] = {
    {"top", 'n', "N", 0, "checkpoint: also the N most frequent rows of each table (0 to 1000)", 0},
    {"digest", 'd', NULL, 0, "checkpoint: only the digest", 0},
    {0}};

struct arguments {
    const char *path;
    uint32_t top;
    int digest;
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct arguments *a = state->input;
    switch (key) {
    case 'n': a->top = (uint32_t)cli_number(state, "--top", arg, 0, 1000); break;
    case 'd': a->digest = 1; break;
    case ARGP_KEY_ARG:
        if (a->path)
            argp_error(state, "one path, not two ('%s' and '%s')", a->path, arg);
        a->path = arg;
        break;
    case ARGP_KEY_END:
        if (!a->path)
            argp_error(state, "a checkpoint is needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int inspect_checkpoint(const struct arguments *a) {
    fth_error err = {0};
    char *text = NULL, digest[17];
    fth_status status = a->digest ? fth_inspect_digest(a->path, digest, &err)
                                  : fth_inspect_checkpoint(a->path, a->top, &text, &err);
    if (status != FTH_OK)
        return cli_fail(&err);
    if (a->digest)
        printf("%s\n", digest);
    else
        fputs(text, stdout);
    free(text);
    return CLI_OK;
}

int cli_inspect(int argc, char **argv) {
    static const struct argp argp = {options, parse, "PATH", doc, NULL, NULL, NULL};
    struct arguments a = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &a))
        return CLI_USAGE;
    return inspect_checkpoint(&a);
}
