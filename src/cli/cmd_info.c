/* fathom info: this build and this machine. */
#include <stdlib.h>

#include "cli/cli.h"

static const char doc[] =
    "Print the version, the CPU, the instruction set in use, the providers of matrix products, library "
    "versions and the kernel chosen for every operation.\v"
    "The environment variable FATHOM_MAX_ISA (scalar, avx2, avx512, avx512-bf16, amx-bf16) limits the instruction set.\n\n"
    "Examples:\n"
    "  fathom info\n"
    "  FATHOM_MAX_ISA=avx2 fathom info";

static error_t parse(int key, char *arg, struct argp_state *state) {
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    argp_error(state, "no arguments are taken ('%s')", arg);
    return 0;
}

int cli_info(int argc, char **argv) {
    static const struct argp argp = {NULL, parse, NULL, doc, NULL, NULL, NULL};
    if (argp_parse(&argp, argc, argv, 0, NULL, NULL))
        return CLI_USAGE;
    fth_error err = {0};
    char *text = NULL;
    if (fth_info(&text, &err) != FTH_OK)
        return cli_fail(&err);
    fputs(text, stdout);
    free(text);
    return CLI_OK;
}
