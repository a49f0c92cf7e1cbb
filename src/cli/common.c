/* What several commands share: errors, overrides, numbers for people, signals. */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

void cli_put(FILE *to, const char *text) {
    for (const char *at = text; *at; at++)
        if (((unsigned char)*at < ' ' && *at != '\n' && *at != '\t') || *at == 0x7f)
            fprintf(to, "\\x%02x", (unsigned)*at);
        else
            fputc(*at, to);
}

void cli_tell(const char *kind, const char *text) {
    fprintf(stderr, "fathom: %s", kind);
    cli_put(stderr, text);
    fputc('\n', stderr);
}

int cli_fail(const fth_error *err) {
    cli_tell("", err->message);
    switch (err->code) {
    case FTH_OK:
        return CLI_OK;
    case FTH_E_ARGUMENT:
        return CLI_USAGE;
    case FTH_E_CONFIG:
        return CLI_CONFIG;
    case FTH_E_DATA:
        return CLI_DATA;
    case FTH_E_CHECKPOINT:
        return CLI_CHECKPOINT;
    case FTH_E_UNSUPPORTED:
        return CLI_UNSUPPORTED;
    case FTH_E_MEMORY:
    case FTH_E_IO:
    case FTH_E_LIMIT:
    case FTH_E_INTERRUPTED:
    case FTH_E_NUMERIC:
        break;
    }
    return CLI_FAILURE;
}

int cli_usage(const char *command, const char *format, ...) {
    va_list args;
    fprintf(stderr, "fathom %s: ", command);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n'fathom %s --help' says more\n", command);
    return CLI_USAGE;
}

static void *must(void *block) {
    if (!block) {
        fprintf(stderr, "fathom: out of memory\n");
        exit(CLI_FAILURE);
    }
    return block;
}

void cli_override(struct cli_overrides *overrides, const char *format, ...) {
    va_list args;
    char *text = NULL;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    must(length < 0 ? NULL : text);
    overrides->items =
        must(realloc(overrides->items, (overrides->n + 1) * sizeof *overrides->items));
    overrides->items[overrides->n++] = text;
}

/* Turns the names of --without into one override. */
static void override_without(struct cli_overrides *overrides) {
    size_t length = 0;
    for (size_t i = 0; i < overrides->n_without; i++)
        length += strlen(overrides->without[i]) + 2;
    char *list = must(calloc(length + 1, 1));
    for (size_t i = 0; i < overrides->n_without; i++) {
        strcat(list, i ? ", " : "");
        strcat(list, overrides->without[i]);
    }
    if (overrides->n_without)
        cli_override(overrides, "without+=[%s]", list);
    free(list);
}

static error_t parse_override(int key, char *arg, struct argp_state *state) {
    struct cli_overrides *overrides = state->input;
    switch (key) {
    case 's':
        cli_override(overrides, "%s", arg);
        break;
    case 't':
        cli_override(overrides, "threads=%s", arg);
        break;
    case 'w':
        if (overrides->n_without == sizeof overrides->without / sizeof *overrides->without)
            argp_error(state, "more than %zu --without", overrides->n_without);
        overrides->without[overrides->n_without++] = arg;
        break;
    case ARGP_KEY_SUCCESS:
        override_without(overrides);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

#define OPTION_SET                                                                                 \
    { "set", 's', "KEY=VALUE", 0, "override a configuration key; KEY+=VALUE adds to a list", 0 }
#define OPTION_THREADS                                                                             \
    { "threads", 't', "N", 0, "worker threads (default: all cores)", 0 }
static const struct argp_option use_options[] = {OPTION_SET, OPTION_THREADS, {0}};
static const struct argp_option plan_options[] = {
    OPTION_SET,
    OPTION_THREADS,
    {"without", 'w', "NAME", 0, "switch an optimisation off, besides those that the configuration does (may be repeated)", 0},
    {0}};
static const struct argp use_argp = {use_options, parse_override, NULL, NULL, NULL, NULL, NULL};
static const struct argp plan_argp = {plan_options, parse_override, NULL, NULL, NULL, NULL, NULL};
const struct argp_child cli_use_options[] = {{&use_argp, 0, NULL, 0}, {0}};
const struct argp_child cli_plan_options[] = {{&plan_argp, 0, NULL, 0}, {0}};

void cli_overrides_free(struct cli_overrides *overrides) {
    for (size_t i = 0; i < overrides->n; i++)
        free(overrides->items[i]);
    free(overrides->items);
    *overrides = (struct cli_overrides){0};
}

int64_t cli_number(const struct argp_state *state, const char *option, const char *text,
                   int64_t low, int64_t high) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < low || value > high)
        argp_error(state, "%s %s: expected a whole number from %lld to %lld", option, text,
                   (long long)low, (long long)high);
    return value;
}

double cli_real(const struct argp_state *state, const char *option, const char *text, double low,
                double high) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= low && value <= high))
        argp_error(state, "%s %s: expected a number from %g to %g", option, text, low, high);
    return value;
}

/* Whether the path is the very file that is read: `input`, or standard input where that is "-". */
static int is_input(const char *path, const char *input) {
    struct stat out, in;
    int known = strcmp(input, "-") != 0 ? stat(input, &in) == 0 : fstat(STDIN_FILENO, &in) == 0;
    return known && stat(path, &out) == 0 && S_ISREG(in.st_mode) && in.st_dev == out.st_dev &&
           in.st_ino == out.st_ino;
}

/* Whether it is that file, or one of those that the pattern names. */
static int is_one_of(const char *path, const char *pattern) {
    glob_t found;
    int is = is_input(path, pattern);
    if (is || glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
        return is;
    for (size_t i = 0; i < found.gl_pathc && !is; i++)
        is = is_input(path, found.gl_pathv[i]);
    globfree(&found);
    return is;
}

int cli_is_read(const char *command, const char *path, const fth_config *config, const char *file) {
    if (!fth_config_reads(config, path) && !(file && is_one_of(path, file)))
        return 0;
    fprintf(stderr, "fathom %s: %s is a file that is read; name another one to write to\n", command, path);
    return 1;
}

int cli_is_of_checkpoint(const char *command, const char *path, const char *checkpoint) {
    DIR *folder = opendir(checkpoint);
    char file[4096];
    int is = 0;
    for (struct dirent *entry; folder && !is && (entry = readdir(folder));) {
        int n = snprintf(file, sizeof file, "%s/%s", checkpoint, entry->d_name);
        is = n > 0 && (size_t)n < sizeof file && is_input(path, file);
    }
    if (folder)
        closedir(folder);
    if (is)
        fprintf(stderr, "fathom %s: %s is a file of the checkpoint; name another one to write to\n", command, path);
    return is;
}

static int output_failed(const char *command, const fth_error *err) {
    fprintf(stderr, "fathom %s: %s\n", command, err->message);
    return 0;
}

int cli_may_write(const char *command, const char *path) {
    fth_error err = {0};
    return fth_check_output(path, &err) == FTH_OK || output_failed(command, &err);
}

int cli_output_open(struct cli_output *out, const char *command, const char *path) {
    fth_error err = {0};
    *out = (struct cli_output){.command = command};
    if (fth_output_open(path, &out->to, &err) != FTH_OK)
        return output_failed(command, &err);
    out->file = stdout;
    if (out->to.standard)
        return 1;
    int copy = dup(out->to.file); /* the stream's own, which it closes */
    out->file = copy < 0 ? NULL : fdopen(copy, "w");
    if (out->file)
        return 1;
    fprintf(stderr, "fathom %s: cannot write %s: %s\n", command, path, strerror(errno));
    if (copy >= 0)
        close(copy);
    fth_output_close(&out->to, 0, NULL);
    return 0;
}

int cli_output_close(struct cli_output *out) {
    fth_error err = {0};
    if (out->to.standard)
        return CLI_OK; /* standard output is checked at the end of the program */
    int whole = !ferror(out->file);
    whole = fclose(out->file) == 0 && whole;
    if (!whole)
        fprintf(stderr, "fathom %s: cannot write %s: %s\n", out->command, out->to.path, strerror(errno));
    if (fth_output_close(&out->to, whole, &err) != FTH_OK)
        whole = output_failed(out->command, &err);
    return whole ? CLI_OK : CLI_FAILURE;
}

void cli_output_discard(struct cli_output *out) {
    if (out->to.standard) {
        if (ferror(stdout)) { /* told once, by who met it */
            __fpurge(stdout);
            clearerr(stdout);
        }
        return;
    }
    fclose(out->file);
    fth_output_close(&out->to, 0, NULL);
}

static void scaled(char out[32], double value, const char *const *units) {
    int unit = 0;
    while (fabs(value) >= 1000 && units[unit + 1]) {
        value /= 1000;
        unit++;
    }
    snprintf(out, 32, unit && fabs(value) < 100 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    size_t length = strlen(out);
    if (length && out[length - 1] == ' ')
        out[length - 1] = 0;
}

void cli_count(char out[32], double value) {
    static const char *const units[] = {"", "k", "M", "G", NULL};
    scaled(out, value, units);
}

void cli_bytes(char out[32], double bytes) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", NULL};
    scaled(out, bytes, units);
}

void cli_duration(char out[32], double seconds) {
    if (seconds < 0 || !isfinite(seconds))
        snprintf(out, 32, "-");
    else if (seconds < 60)
        snprintf(out, 32, "%.0f s", seconds);
    else if (seconds < 3600)
        snprintf(out, 32, "%d:%02d min", (int)seconds / 60, (int)seconds % 60);
    else
        snprintf(out, 32, "%d:%02d h", (int)(seconds / 3600), (int)(seconds / 60) % 60);
}

static void print_number(FILE *out, const char *name, double value, const char *format) {
    fprintf(out, "  %-20s ", name);
    if (isnan(value))
        fprintf(out, "not defined");
    else
        fprintf(out, format, value);
    fprintf(out, "\n");
}

static void print_metrics(FILE *out, const fth_evaluation *e) {
    fprintf(out, "  %-20s %llu\n", "examples", (unsigned long long)e->examples);
    print_number(out, "AUC", e->auc, "%.6f");
    print_number(out, "log loss", e->log_loss, "%.6f");
    print_number(out, "normalised entropy", e->normalised_entropy, "%.6f");
    print_number(out, "calibration", e->calibration, "%.6f");
    if (e->grouped)
        print_number(out, "grouped AUC", e->gauc, "%.6f");
    print_number(out, "base rate", e->base_rate, "%.6f");
}

void cli_print_evaluation(FILE *out, const char *title, const fth_evaluation *evaluation) {
    for (uint32_t t = 0; t <= evaluation->n_others; t++) {
        const fth_evaluation *e = t ? &evaluation->others[t - 1] : evaluation;
        fprintf(out, "%s%s%s\n", title, e->task ? ": " : "", e->task ? e->task : "");
        print_metrics(out, e);
    }
    if (evaluation->lines_bad)
        fprintf(out, "  %-20s %llu\n", "malformed lines",
                (unsigned long long)evaluation->lines_bad);
    print_number(out, "seconds", evaluation->seconds, "%.2f");
}

static fth_session *volatile watched;
static volatile sig_atomic_t signal_seen;
static volatile double signal_seconds; /* when */

/* One request may come as several signals: timeout(1) sends its own to the program and then to its group, a terminal that
 * goes one by its shell and one by the kernel. So a second one counts after a second. */
static void on_signal(int number) {
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    if (signal_seen && (number == SIGHUP || seconds < signal_seconds + 1))
        return;
    if (signal_seen) /* the user means it */
        _exit(CLI_SIGNAL + number);
    signal_seconds = seconds;
    signal_seen = number;
    if (watched)
        fth_session_interrupt(watched);
}

void cli_watch_signals(fth_session *session) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    watched = session;
    if (!session)
        return;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction before;
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* nohup means it, too */
        sigaction(SIGHUP, &action, NULL);
}

int cli_signal(void) {
    return signal_seen;
}
