/* The program: one command a file (cmd_<name>.c), listed once in commands.def. It only calls the public API;
 * errors go to standard error, data to standard output. */
#ifndef FTH_CLI_CLI_H
#define FTH_CLI_CLI_H

#include <argp.h>
#include <stdint.h>
#include <stdio.h>

#include "fathom/fathom.h"

/* Exit codes, as `fathom --help` and fathom(1) list them. */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILURE = 1,     /* input/output, memory, a limit, a loss that is not finite */
    CLI_USAGE = 2,       /* the command line is wrong */
    CLI_CONFIG = 3,      /* the configuration is wrong */
    CLI_DATA = 4,        /* input data is malformed */
    CLI_CHECKPOINT = 5,  /* a checkpoint is damaged, foreign or does not fit */
    CLI_UNSUPPORTED = 6, /* this machine or build cannot do it */
    CLI_SIGNAL = 128     /* + signal number: stopped by it, after saving */
};

struct cli_command {
    const char *name, *summary;
    int (*run)(int argc, char **argv); /* argv[0] is "fathom <name>"; returns an exit code */
};

#define CLI_COMMAND(name, summary) int cli_##name(int argc, char **argv);
#include "cli/commands.def"
#undef CLI_COMMAND

/* Control characters as \xNN: what they are of is a file's or a name's. */
void cli_put(FILE *to, const char *text);
/* Prints "fathom: <kind><text>" to standard error in that way. */
void cli_tell(const char *kind, const char *text);
/* Prints "fathom: <message>" and gives the exit code of the status. */
int cli_fail(const fth_error *err);
/* Prints "fathom <command>: <message>" with the hint to --help; CLI_USAGE. */
int cli_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define CLI_MOST_FILES 1024 /* named on a command line */

/* Overrides collected from --set, --without, --threads, in order. */
struct cli_overrides {
    char **items;
    size_t n;
    const char *without[64];
    size_t n_without;
};
void cli_override(struct cli_overrides *overrides, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void cli_overrides_free(struct cli_overrides *overrides);
/* Option parsers for argp's children, whose input is a struct cli_overrides: for commands that plan training
 * (--set, --without, --threads) and for those that only use a model (--set, --threads). */
extern const struct argp_child cli_plan_options[], cli_use_options[];

/* A whole number from low to high, else a usage error that names the option. */
int64_t cli_number(const struct argp_state *state, const char *option, const char *text, int64_t low,
                   int64_t high);
double cli_real(const struct argp_state *state, const char *option, const char *text, double low,
                double high);

/* A file that a command writes: an output (fathom/tools.h) as a stream. */
struct cli_output {
    const char *command;
    fth_output to;
    FILE *file;
};
/* Whether the path may be written to; 0: it may not, as has been told. */
int cli_may_write(const char *command, const char *path);
/* 0: it cannot be written, as has been told. */
int cli_output_open(struct cli_output *out, const char *command, const char *path);
/* Whether the path is that file (the configuration's own or what is read besides, "-" where it is standard input, or a
 * pattern of files; NULL: none) or data that the configuration names, as has been told. */
int cli_is_read(const char *command, const char *path, const fth_config *config, const char *file);
/* Whether the path is a file of the checkpoint, as has been told. */
int cli_is_of_checkpoint(const char *command, const char *path, const char *checkpoint);
int cli_output_close(struct cli_output *out); /* exit code, the failure having been told */
void cli_output_discard(struct cli_output *out);

/* losses.c: the file of fathom train --losses, which is touched when its first loss comes. A device, a
 * pipe, or standard output ("-") gets the losses of this run alone. */
struct cli_losses {
    const char *path;
    FILE *file;      /* NULL: none */
    int keeps, made; /* it is a regular file; it was not there before */
    int begun, error; /* errno of the first failure */
};
int cli_losses_open(struct cli_losses *losses, const char *path); /* 0: it cannot be written, as has been told */
void cli_losses_put(struct cli_losses *losses, uint64_t step, double loss);
void cli_losses_flush(struct cli_losses *losses);
int cli_losses_close(struct cli_losses *losses); /* exit code, the failure having been told */

/* "12.3 k", "4.5 M" with unit; for people. */
void cli_count(char out[32], double value);
void cli_bytes(char out[32], double bytes);
void cli_duration(char out[32], double seconds);

void cli_print_evaluation(FILE *out, const char *title, const fth_evaluation *evaluation);

/* From now on SIGINT, SIGTERM and SIGHUP (unless it is ignored) stop the session's training after its step (a second
 * one but SIGHUP, a second later or more, ends the program at once). NULL: there is no session any more. cli_signal: the
 * signal that came, 0 none. */
void cli_watch_signals(fth_session *session);
int cli_signal(void);

#endif
