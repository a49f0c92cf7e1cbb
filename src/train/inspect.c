/* What is in a checkpoint, and what is in data files. */
#include <stdio.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "data/inspect.h"
#include "fathom/fathom.h"

struct report {
    uint32_t top;
    char **out;
};

static fth_status report(void *ctx, fth_checkpoint *checkpoint, fth_error *err) {
    const struct report *to = ctx;
    return fth_checkpoint_report(checkpoint, to->top, to->out, err);
}

fth_status fth_inspect_checkpoint(const char *path, uint32_t top, char **out, fth_error *err) {
    if (!path || !out)
        return fth_fail_null(err, "fth_inspect_checkpoint", "path, out");
    return fth_checkpoint_read(fth_io_posix(), path, report, &(struct report){top, out}, err);
}

fth_status fth_inspect_digest(const char *path, char out[17], fth_error *err) {
    if (!path || !out)
        return fth_fail_null(err, "fth_inspect_digest", "path, out");
    fth_checkpoint *checkpoint = NULL;
    FTH_TRY(fth_checkpoint_open(fth_io_posix(), path, &checkpoint, err));
    memcpy(out, fth_checkpoint_digest(checkpoint), 17);
    fth_checkpoint_close(checkpoint);
    return FTH_OK;
}

/* ---- data files ---- */

static void number_cell(struct fth_text *text, double value, int there) {
    char number[32] = "-";
    if (there)
        snprintf(number, sizeof number, "%.6g", value);
    fth_text_printf(text, " %12s", number);
}

static void print_columns(const struct fth_data_stats *stats, struct fth_text *text) {
    fth_text_printf(text, "%-24s %10s %12s %9s %12s %12s %12s\n", "column", "missing", "distinct", "numbers",
                    "min", "mean", "max");
    for (uint32_t i = 0; i < stats->n_columns; i++) {
        const struct fth_column_stats *c = &stats->columns[i];
        double cells = c->cells ? (double)c->cells : 1, there = (double)(c->cells - c->missing);
        struct fth_text name = {0}; /* of any file, so of any bytes */
        fth_text_names(&name, &c->name, 1);
        fth_text_printf(text, "%-24s %8.2f %% %12.0f %7.0f %%", fth_text_get(&name), 100 * (double)c->missing / cells,
                        c->distinct, there > 0 ? 100 * (double)c->numbers / there : 0);
        fth_text_free(&name);
        number_cell(text, c->min, c->numbers > 0);
        number_cell(text, c->mean, c->numbers > 0);
        number_cell(text, c->max, c->numbers > 0);
        fth_text_printf(text, "\n");
    }
}

static void print_data(const struct fth_data_stats *stats, struct fth_text *text) {
    char bytes[32];
    fth_format_bytes(bytes, (double)stats->bytes);
    fth_text_printf(text, "%u file%s, %s, %llu data lines, %llu malformed\n", stats->n_files,
                    stats->n_files == 1 ? "" : "s", bytes, (unsigned long long)stats->lines,
                    (unsigned long long)stats->bad);
    for (uint32_t i = 0; i < stats->n_messages; i++)
        fth_text_printf(text, "  %s\n", stats->messages[i]);
    if (stats->lines > stats->bad)
        print_columns(stats, text);
}

fth_status fth_inspect_data(const fth_config *config, const char *const *files, size_t n, char **out,
                            fth_error *err) {
    if (!config || !out || !fth_all_there(files, n))
        return fth_fail_null(err, "fth_inspect_data", "config, files, out");
    struct fth_data_set_options options = {.part = FTH_PART_FILES,
                                           .files = {files, (uint32_t)n},
                                           .files_key = "FILE",
                                           .labels_optional = 1};
    struct fth_data_stats *stats = NULL;
    fth_data_set *set = NULL;
    struct fth_text text = {0};
    FTH_TRY(fth_data_set_create(&config->data, &options, &set, err));
    fth_status status = fth_data_scan(set, &config->features.missing, &stats, err);
    if (status == FTH_OK)
        print_data(stats, &text);
    fth_data_stats_destroy(stats);
    fth_data_set_destroy(set);
    char *copy = status == FTH_OK && !text.failed ? strdup(fth_text_get(&text)) : NULL;
    fth_text_free(&text);
    if (status != FTH_OK)
        return status;
    if (!copy)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a report");
    *out = copy;
    return FTH_OK;
}
