/* fathom gen: data sets of any size with a planted truth. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const char doc[] =
    "Generate data with a planted truth, and print how well the best possible model would do on it.\v"
    "A preset says the format and the columns: %s.\n\n"
    "The bytes depend on the options alone, not on the threads. Files of one seed share one truth: a test file "
    "begins (--first) where the training file ends. --column NAME:KEY=VALUE,... changes a categorical "
    "column: cardinality, zipf (exponent), top (SHARE_OF_IDS/SHARE_OF_DRAWS instead of an exponent), missing "
    "(rate); for number columns: missing, mean, deviation.\n\n"
    "Examples:\n"
    "  fathom gen --examples 1000000 -o train.tsv\n"
    "  fathom gen --first 1000000 --examples 200000 -o test.tsv\n"
    "  fathom gen --preset csv --examples 1000 --column C3:cardinality=5000,zipf=1.2 > clicks.csv\n"
    "  fathom gen --preset criteo-kaggle --drift-weights 0.3 | zstd > kaggle.tsv.zst";

enum {
    KEY_FIRST = 256, KEY_DRIFT_OVER, KEY_TRUTH, KEY_BASE_RATE, KEY_SIGNAL, KEY_ZIPF, KEY_CAP, KEY_COLUMN,
    KEY_DRIFT_POPULARITY, KEY_DRIFT_WEIGHTS, KEY_HISTORY, KEY_SEED, KEY_HEAD, KEY_SHARES
};

static const struct argp_option options[] = {
    {"preset", 'p', "NAME", 0, "format and columns (default: the first below)", 0},
    {"examples", 'n', "N", 0, "how many examples to write (default: the preset's number)", 0},
    {"first", KEY_FIRST, "N", 0, "begin with example N (default 0)", 0},
    {"seed", KEY_SEED, "N", 0, "another data set (default 1)", 0},
    {"output", 'o', "FILE", 0, "write there, uncompressed, instead of standard output; a read-only file is kept", 0},
    {"truth", KEY_TRUTH, "FILE", 0, "write every example's true probability to FILE", 0},
    {"threads", 't', "N", 0, "threads (default: all cores)", 0},
    {"base-rate", KEY_BASE_RATE, "P", 0, "share of positive labels", 1},
    {"signal", KEY_SIGNAL, "S", 0, "standard deviation of the logit; 0: labels are noise", 1},
    {"head", KEY_HEAD, "N", 0, "ids beyond the N most popular of a column matter less and less", 1},
    {"shares", KEY_SHARES, "LIN,NUM,INT,NON,SEQ", 0,
     "shares of the linear, numeric, interaction, nonlinear and sequence parts of the truth", 1},
    {"zipf", KEY_ZIPF, "A", 0, "exponent of every categorical column, 0 to 5", 1},
    {"cap", KEY_CAP, "N", 0, "at most N ids a column", 1},
    {"column", KEY_COLUMN, "NAME:KEY=VALUE,...", 0, "change one column (may be repeated)", 1},
    {"history", KEY_HISTORY, "MEAN,MAX", 0, "lengths of the histories of presets with sequences", 1},
    {"drift-popularity", KEY_DRIFT_POPULARITY, "P", 0, "share of ids by which popularity moves", 1},
    {"drift-over", KEY_DRIFT_OVER, "N", 0, "the drift's length in examples (default: those of the file)", 1},
    {"drift-weights", KEY_DRIFT_WEIGHTS, "P", 0, "how far weights turn into others", 1},
    {0}};

#define MOST_CHANGES 512
struct change {
    int key;
    const char *text;
};

struct arguments {
    const char *preset, *output, *truth;
    struct change changes[MOST_CHANGES]; /* applied after the preset, in order */
    size_t n_changes;
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct arguments *a = state->input;
    switch (key) {
    case 'p': a->preset = arg; break;
    case 'o': a->output = arg; break;
    case KEY_TRUTH: a->truth = arg; break;
    case ARGP_KEY_ARG: argp_error(state, "no arguments are taken ('%s'); -o names the file", arg); break;
    case 'n':
    case 't':
    case KEY_FIRST:
    case KEY_DRIFT_OVER:
    case KEY_SEED:
    case KEY_BASE_RATE:
    case KEY_SIGNAL:
    case KEY_HEAD:
    case KEY_SHARES:
    case KEY_ZIPF:
    case KEY_CAP:
    case KEY_COLUMN:
    case KEY_HISTORY:
    case KEY_DRIFT_POPULARITY:
    case KEY_DRIFT_WEIGHTS:
        if (a->n_changes == MOST_CHANGES)
            argp_error(state, "more than %d options", MOST_CHANGES);
        a->changes[a->n_changes++] = (struct change){key, arg};
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* The names of the presets in the text behind the options. */
static char *filter(int key, const char *text, void *input) {
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC || !text)
        return (char *)text;
    char names[1024] = "", *out = NULL;
    const char *description, *name;
    for (size_t i = 0; (name = fth_gen_preset_name(i, &description)); i++) {
        size_t at = strlen(names);
        snprintf(names + at, sizeof names - at, "%s%s (%s)", i ? ", " : "", name, description);
    }
    const char *mark = strstr(text, "%s");
    if (!mark || asprintf(&out, "%.*s%s%s", (int)(mark - text), text, names, mark + 2) < 0)
        return (char *)text;
    return out;
}

/* ---- options onto the preset ---- */

static int bad_value(const char *option, const char *text, const char *accepted) {
    return cli_usage("gen", "%s %s: expected %s", option, text, accepted);
}

static int whole(const char *option, const char *text, uint64_t *out) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end)
        return bad_value(option, text, "a whole number");
    if (errno == ERANGE)
        return bad_value(option, text, "a whole number below 2^64");
    *out = value;
    return CLI_OK;
}

static int real(const char *option, const char *text, double *out) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end)
        return bad_value(option, text, "a number");
    *out = value;
    return CLI_OK;
}

static int change_categorical(fth_gen_column *column, const char *key, const char *value) {
    if (strcmp(key, "cardinality") == 0)
        return whole("--column ... cardinality", value, &column->cardinality);
    if (strcmp(key, "missing") == 0)
        return real("--column ... missing", value, &column->missing);
    if (strcmp(key, "zipf") == 0) {
        column->top_ids = 0;
        return real("--column ... zipf", value, &column->zipf);
    }
    if (strcmp(key, "top") == 0) {
        char end;
        if (sscanf(value, "%lf/%lf%c", &column->top_ids, &column->top_draws, &end) != 2)
            return bad_value("--column ... top", value, "SHARE_OF_IDS/SHARE_OF_DRAWS, such as 0.01/0.8");
        return CLI_OK;
    }
    return bad_value("--column", key, "cardinality, zipf, top or missing");
}

static int change_number(fth_gen_number *number, const char *key, const char *value) {
    if (strcmp(key, "missing") == 0)
        return real("--column ... missing", value, &number->missing);
    if (strcmp(key, "mean") == 0)
        return real("--column ... mean", value, &number->mean);
    if (strcmp(key, "deviation") == 0)
        return real("--column ... deviation", value, &number->deviation);
    return bad_value("--column", key, "missing, mean or deviation");
}

/* NAME:KEY=VALUE,KEY=VALUE */
static int change_column(fth_gen_options *o, const char *text) {
    char copy[256], *rest = copy, *item;
    if (strlen(text) >= sizeof copy || !strchr(text, ':'))
        return bad_value("--column", text, "NAME:KEY=VALUE,...");
    strcpy(copy, text);
    const char *name = strsep(&rest, ":");
    fth_gen_number *number = NULL;
    fth_gen_column *column = NULL;
    for (uint32_t i = 0; i < o->n_numbers; i++)
        if (strcmp(o->numbers[i].name, name) == 0)
            number = &o->numbers[i];
    for (uint32_t i = 0; i < o->n_columns; i++)
        if (strcmp(o->columns[i].name, name) == 0)
            column = &o->columns[i];
    if (!number && !column)
        return cli_usage("gen", "--column: the preset has no column '%s'", name);
    while ((item = strsep(&rest, ","))) {
        char *value = item;
        const char *key = strsep(&value, "=");
        if (!value)
            return bad_value("--column", text, "NAME:KEY=VALUE,...");
        int code = column ? change_categorical(column, key, value) : change_number(number, key, value);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

static int change_history(fth_gen_sequence *sequence, const char *text) {
    char end, most[24]; /* as text: scanf does not tell of what is too large */
    uint64_t max_length;
    if (sscanf(text, "%lf,%23[0-9]%c", &sequence->mean_length, most, &end) != 2)
        return bad_value("--history", text, "MEAN,MAX, such as 20,100");
    int code = whole("--history", most, &max_length);
    if (code == CLI_OK)
        sequence->max_length = max_length > UINT32_MAX ? UINT32_MAX : (uint32_t)max_length;
    return code;
}

static int change_shares(fth_gen_shares *s, const char *text) {
    char end;
    if (sscanf(text, "%lf,%lf,%lf,%lf,%lf%c", &s->linear, &s->numeric, &s->interaction, &s->nonlinear,
               &s->sequence, &end) != 5)
        return bad_value("--shares", text, "five numbers, such as 0.5,0.15,0.15,0.2,0");
    return CLI_OK;
}

static int apply(fth_gen_options *o, const struct change *change) {
    const char *text = change->text;
    uint64_t value = 0;
    int code = CLI_OK;
    switch (change->key) {
    case 'n': return whole("--examples", text, &o->examples);
    case 't':
        code = whole("--threads", text, &value);
        o->threads = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
        return code;
    case KEY_FIRST: return whole("--first", text, &o->first);
    case KEY_DRIFT_OVER: return whole("--drift-over", text, &o->drift_over);
    case KEY_SEED: return whole("--seed", text, &o->seed);
    case KEY_BASE_RATE: return real("--base-rate", text, &o->base_rate);
    case KEY_SIGNAL: return real("--signal", text, &o->signal);
    case KEY_HEAD: return real("--head", text, &o->head);
    case KEY_SHARES: return change_shares(&o->shares, text);
    case KEY_DRIFT_POPULARITY: return real("--drift-popularity", text, &o->drift_popularity);
    case KEY_DRIFT_WEIGHTS: return real("--drift-weights", text, &o->drift_weights);
    case KEY_COLUMN: return change_column(o, text);
    case KEY_HISTORY: return change_history(&o->sequence, text);
    case KEY_ZIPF:
        for (uint32_t i = 0; i < o->n_columns && code == CLI_OK; i++) {
            o->columns[i].top_ids = 0;
            code = real("--zipf", text, &o->columns[i].zipf);
        }
        return code;
    case KEY_CAP: break;
    }
    code = whole("--cap", text, &value);
    for (uint32_t i = 0; i < o->n_columns && code == CLI_OK; i++)
        if (o->columns[i].cardinality > value)
            o->columns[i].cardinality = value;
    return code;
}

static int unknown_preset(const char *name) {
    const char *names[64];
    size_t n = 0;
    while (n < 64 && (names[n] = fth_gen_preset_name(n, NULL)))
        n++;
    const char *near = fth_suggest(name, names, n);
    return cli_usage("gen", "there is no preset '%s'%s%s%s", name, near ? "; did you mean '" : "",
                     near ? near : "", near ? "'?" : "");
}

/* A name that promises what the file would not be. */
static int refuse_compressed(const char *option, const char *path) {
    const char *end = path ? strrchr(path, '.') : NULL;
    int gzip = end && strcmp(end, ".gz") == 0;
    if (!gzip && !(end && strcmp(end, ".zst") == 0))
        return CLI_OK;
    return cli_usage("gen", "%s %s: files are written uncompressed; name it without %s, or write to '-' and through a "
                            "pipe: %s - | %s > %s", option, path, end, option, gzip ? "gzip" : "zstd", path);
}

static void print_result(FILE *out, const fth_gen_result *r) {
    char bytes[32];
    cli_bytes(bytes, (double)r->bytes);
    fprintf(out, "  %-20s %llu\n", "examples", (unsigned long long)r->examples);
    fprintf(out, "  %-20s %s\n", "size", bytes);
    if (!r->examples)
        return;
    fprintf(out, "  %-20s %.6f\n", "base rate", r->base_rate);
    if (isnan(r->bayes_auc))
        fprintf(out, "  %-20s not defined, as there is one class only\n", "Bayes-optimal AUC");
    else
        fprintf(out, "  %-20s %.6f\n", "Bayes-optimal AUC", r->bayes_auc);
    fprintf(out, "  %-20s %.6f\n", "Bayes log loss", r->bayes_log_loss);
}

int cli_gen(int argc, char **argv) {
    static const struct argp argp = {options, parse, NULL, doc, NULL, filter, NULL};
    static struct arguments a;
    static fth_gen_options gen;
    fth_error err = {0};
    fth_gen_result result;
    if (argp_parse(&argp, argc, argv, 0, NULL, &a))
        return CLI_USAGE;
    const char *preset = a.preset ? a.preset : fth_gen_preset_name(0, NULL);
    if (!fth_gen_preset(preset, &gen))
        return unknown_preset(preset);
    gen.threads = 0;
    for (size_t i = 0; i < a.n_changes; i++) {
        int code = apply(&gen, &a.changes[i]);
        if (code != CLI_OK)
            return code;
    }
    if (refuse_compressed("--output", a.output) != CLI_OK || refuse_compressed("--truth", a.truth) != CLI_OK)
        return CLI_USAGE;
    int to_output = !a.output || strcmp(a.output, "-") == 0;
    if (fth_gen_file(&gen, to_output ? "-" : a.output, a.truth, &result, &err) != FTH_OK)
        return cli_fail(&err);
    FILE *out = to_output ? stderr : stdout;
    fprintf(out, "%s, seed %llu%s%s\n", preset, (unsigned long long)gen.seed, to_output ? "" : ": ",
            to_output ? "" : a.output);
    print_result(out, &result);
    return CLI_OK;
}
