/* fathom train: trains a model from a configuration, or goes on from a checkpoint. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"

static const char doc[] =
    "Train a model from a configuration file ('-' is standard input).\v"
    "With --resume DIR training goes on from a checkpoint (a step-* folder, or a checkpoint.dir "
    "whose "
    "newest is taken) with the configuration saved in it; CONFIG is then left out and --set still "
    "applies. SIGINT, SIGTERM and SIGHUP save a checkpoint after the step in progress (where "
    "checkpoint.dir is set) and "
    "stop with exit code 130, 143 or 129; a further SIGINT or SIGTERM, a second later or more, stops at once. "
    "An evaluation that they end is made when training goes on.\n\n"
    "Line N of the file that --losses names is step N's loss. A run that goes on keeps the lines of the steps before its "
    "checkpoint ('nan' stands for those that are not there) and writes the others anew; one that makes no step leaves the "
    "file as it is.\n\n"
    "Examples:\n"
    "  fathom train examples/deepfm.yaml\n"
    "  fathom train examples/dlrm.yaml --set checkpoint.dir=checkpoints --set train.epochs=2\n"
    "  fathom train --resume checkpoints --threads 8";

enum { KEY_NEXT_EPOCH = 256 };

static const struct argp_option options[] = {
    {"resume", 'r', "DIR", 0, "go on from a checkpoint", 0},
    {"next-epoch", KEY_NEXT_EPOCH, NULL, 0, "with --resume: give up what is left of the epoch that was interrupted", 0},
    {"losses", 'l', "FILE", 0, "write every step's loss to FILE, one a line; '-' is standard output", 0},
    {"quiet", 'q', NULL, 0, "no progress, only the result", 0},
    {0}};

struct arguments {
    const char *config, *resume, *losses;
    int quiet, next_epoch;
    struct cli_overrides overrides;
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->overrides;
        break;
    case 'r':
        a->resume = arg;
        break;
    case KEY_NEXT_EPOCH:
        a->next_epoch = 1;
        break;
    case 'l':
        a->losses = arg;
        break;
    case 'q':
        a->quiet = 1;
        break;
    case ARGP_KEY_ARG:
        if (a->config)
            argp_error(state, "one configuration file, not two ('%s' and '%s')", a->config, arg);
        a->config = arg;
        break;
    case ARGP_KEY_END:
        if (!a->config && !a->resume)
            argp_error(state, "a configuration file is needed (or --resume DIR)");
        if (a->next_epoch && !a->resume)
            argp_error(state, "--next-epoch is for --resume");
        if (a->config && a->resume)
            argp_error(state,
                       "with --resume the configuration is the checkpoint's own: leave out '%s' "
                       "and change keys with --set",
                       a->config);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* ---- progress ---- */

static void only_warnings(void *ctx, int level, const char *line) {
    (void)ctx;
    if (level == 0)
        cli_tell("warning: ", line);
}

struct display {
    int terminal, quiet;
    uint64_t log_every, last_step;
    double last_line; /* seconds */
    double first_done, first_seconds; /* of the bar that was drawn first: a resumed training begins anywhere */
    int drawn;
    struct cli_losses losses;
};

/* Of the whole training, also of sessions before. */
static double share_done(const fth_progress *p) {
    double done = p->epoch_fraction;
    double all = ((double)p->epoch + (done > 0 ? done : 0)) / (double)(p->epochs ? p->epochs : 1);
    if (p->max_steps && (double)p->step / (double)p->max_steps > all)
        all = (double)p->step / (double)p->max_steps;
    return all;
}

static void draw_bar(struct display *display, const fth_progress *p) {
    char rate[32], left[32], memory[32], bar[31];
    cli_count(rate, p->seconds > 0 ? (double)p->examples / p->seconds : 0);
    cli_bytes(memory, (double)p->memory_bytes);
    double all = share_done(p);
    if (!display->drawn) {
        display->drawn = 1;
        display->first_done = all;
        display->first_seconds = p->seconds;
    }
    double here = all - display->first_done;
    cli_duration(left, p->epoch_fraction < 0 || here <= 0 ? -1 : (p->seconds - display->first_seconds) * (1 - all) / here);
    char text[160];
    int length = snprintf(text, sizeof text, " %3.0f%%  step %llu  loss %.5f  %s ex/s  model %s  left %s", all * 100,
                          (unsigned long long)p->step, p->loss, rate, memory, left);
    /* A line that is longer than the terminal is wide would go on in the next one, and be left there by every redraw. */
    struct winsize window;
    int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col ? window.ws_col : 80;
    int width = columns - 3 - length < 30 ? columns - 3 - length : 30;
    if (width < 0)
        width = 0;
    int filled = (int)(all * width);
    for (int i = 0; i < width; i++)
        bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    bar[width] = 0;
    fprintf(stderr, width ? "\r[%s]%.*s\033[K" : "\r%s%.*s\033[K", bar, columns - 1, text);
    fflush(stderr);
}

static void on_progress(void *ctx, const fth_progress *p) {
    struct display *display = ctx;
    if (display->quiet)
        return;
    if (display->terminal) {
        draw_bar(display, p);
        return;
    }
    if (p->step < display->last_step + display->log_every || p->seconds < display->last_line + 1)
        return;
    display->last_step = p->step;
    display->last_line = p->seconds;
    fprintf(stderr, "step %llu epoch %llu loss %.6f examples/s %.0f lr %.6g\n",
            (unsigned long long)p->step, (unsigned long long)p->epoch, p->loss,
            p->seconds > 0 ? (double)p->examples / p->seconds : 0, p->learning_rate);
}

static const char *metric(char room[32], int digits, double value) {
    if (isnan(value))
        return "not defined";
    snprintf(room, 32, "%.*f", digits, value);
    return room;
}

static void on_evaluated(void *ctx, uint64_t step, const fth_evaluation *evaluation, int best) {
    struct display *display = ctx;
    if (display->quiet)
        return;
    for (uint32_t t = 0; t <= evaluation->n_others; t++) {
        const fth_evaluation *e = t ? &evaluation->others[t - 1] : evaluation;
        char rooms[4][32];
        fprintf(stderr, "%sstep %llu held out%s%s: AUC %s log loss %s NE %s calibration %s%s\n",
                display->terminal ? "\r\033[K" : "", (unsigned long long)step, e->task ? " " : "",
                e->task ? e->task : "", metric(rooms[0], 6, e->auc), metric(rooms[1], 6, e->log_loss),
                metric(rooms[2], 6, e->normalised_entropy), metric(rooms[3], 4, e->calibration),
                best && t == evaluation->n_others ? " (best)" : "");
    }
}

static void on_saving(void *ctx, uint64_t step) {
    struct display *display = ctx;
    (void)step;
    cli_losses_flush(&display->losses); /* a resumed run finds those of the steps before */
}

static void on_saved(void *ctx, uint64_t step, const char *path) {
    struct display *display = ctx;
    (void)step;
    if (!display->quiet)
        fprintf(stderr, "%ssaved %s\n", display->terminal ? "\r\033[K" : "", path);
}

static void on_loss(void *ctx, uint64_t step, double loss) {
    struct display *display = ctx;
    cli_losses_put(&display->losses, step, loss);
}

/* ---- result ---- */

/* The best evaluation's checkpoint, where it is kept and is not the last. */
static void print_best(const fth_training *result, const char *last) {
    const char *slash = last ? strrchr(last, '/') : NULL;
    char best[4096];
    int n = slash ? snprintf(best, sizeof best, "%.*s/step-%012llu", (int)(slash - last), last,
                             (unsigned long long)result->best_step)
                  : 0;
    int kept = n > 0 && (size_t)n < sizeof best && strcmp(best, last) != 0 && access(best, F_OK) == 0;
    if (result->stopped_early || kept)
        printf("best evaluation at step %llu%s%s\n", (unsigned long long)result->best_step, kept ? ", checkpoint " : "",
               kept ? best : "");
    else if (result->best.auc > result->last.auc) /* neither is nan */
        printf("best evaluation at step %llu: AUC %.6f; the model is the last one's (train.early_stopping.metric and "
               "checkpoint.dir keep the best)\n",
               (unsigned long long)result->best_step, result->best.auc);
}

static void print_result(const fth_training *result, const fth_session *session) {
    if (result->evaluated)
        cli_print_evaluation(stdout, "held-out data", &result->last);
    printf("trained %llu steps, %llu examples%s%s\n", (unsigned long long)result->steps,
           (unsigned long long)result->examples, result->stopped_early ? ", stopped early" : "",
           result->interrupted ? ", interrupted" : "");
    if (result->lines_bad)
        printf("malformed lines left out: %llu\n", (unsigned long long)result->lines_bad);
    if (result->evaluated)
        print_best(result, fth_session_checkpoint(session));
    if (fth_session_checkpoint(session))
        printf("checkpoint %s\n", fth_session_checkpoint(session));
}

static int train(struct arguments *a, fth_session *session) {
    fth_error err = {0};
    fth_training result;
    struct display display = {.terminal = isatty(STDERR_FILENO),
                              .quiet = a->quiet,
                              .log_every = fth_session_log_every(session)};
    /* Opened before it is looked for: made now, it may be one that a pattern of data.train matches. */
    if (a->losses && !cli_losses_open(&display.losses, a->losses))
        return CLI_FAILURE;
    if (a->losses && cli_is_read("train", a->losses, fth_session_config(session), a->config)) {
        cli_losses_close(&display.losses);
        return CLI_USAGE;
    }
    fth_callbacks callbacks = {.ctx = &display,
                               .progress = on_progress,
                               .evaluated = on_evaluated,
                               .saving = on_saving,
                               .saved = on_saved,
                               .loss = a->losses ? on_loss : NULL};
    cli_watch_signals(session);
    /* A log that nobody reads any more is no reason to lose a model. */
    signal(SIGPIPE, SIG_IGN);
    fth_status status = fth_session_train(session, &callbacks, &result, &err);
    cli_watch_signals(NULL);
    if (display.terminal && !display.quiet)
        fprintf(stderr, "\r\033[K");
    int code = status == FTH_OK ? CLI_OK : cli_fail(&err), lost = cli_losses_close(&display.losses);
    code = code ? code : lost;
    if (status != FTH_OK) {
        const char *last = fth_session_checkpoint(session);
        if (last && access(last, F_OK) == 0 && !strstr(err.message, "last whole checkpoint")) /* a save that fails names it */
            fprintf(stderr, "fathom: the last whole checkpoint is %s\n", last);
        return code;
    }
    if (result.already_finished) {
        fprintf(
            stderr,
            "fathom train: %s is of a finished run%s: nothing is left to do; --set %s goes on\n",
            fth_session_checkpoint(session), result.stopped_early ? " (stopped early)" : "",
            result.stopped_early
                ? "train.early_stopping.patience=N with more than it had, or train.early_stopping.metric= for none,"
                : "train.epochs=N or train.max_steps=N with more than it had");
        return CLI_OK;
    }
    print_result(&result, session);
    if (result.interrupted && !fth_session_checkpoint(session))
        fprintf(stderr, "fathom train: nothing is saved, as checkpoint.dir is not set\n");
    char *report = NULL;
    if (!a->quiet && fth_session_report(session, &report, &err) == FTH_OK) {
        fputs(report, stdout);
        free(report);
    }
    return result.interrupted && cli_signal() ? CLI_SIGNAL + cli_signal() : code;
}

int cli_train(int argc, char **argv) {
    static const struct argp argp = {options, parse, "CONFIG\n--resume DIR", doc, cli_plan_options,
                                     NULL,    NULL};
    struct arguments a = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &a))
        return CLI_USAGE;
    if (a.quiet)
        fth_log_to(only_warnings, NULL);
    fth_error err = {0};
    fth_config *config = NULL;
    fth_session *session = NULL;
    const char *const *items = (const char *const *)a.overrides.items;
    fth_status status;
    if (a.resume) {
        status = fth_session_open(a.resume, items, a.overrides.n, &session, &err);
        if (status == FTH_OK && a.next_epoch)
            status = fth_session_next_epoch(session, &err);
    } else {
        status = fth_config_read(a.config, items, a.overrides.n, &config, &err);
        if (status == FTH_OK)
            status = fth_session_create(config, FTH_FOR_TRAINING, &session, &err);
    }
    int code = status == FTH_OK ? train(&a, session) : cli_fail(&err);
    fth_session_destroy(session);
    fth_config_free(config);
    cli_overrides_free(&a.overrides);
    return code;
}
