/* Where the time of training went: a table for people. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/session_private.h"

static void line(struct fth_text *text, const char *what, uint64_t ns, uint64_t total, const char *note) {
    fth_text_printf(text, "  %-34s %9.2f s %5.1f %%%s%s\n", what, (double)ns * 1e-9,
                    total ? 100.0 * (double)ns / (double)total : 0, *note ? "  " : "", note);
}

fth_status fth_session_report(const fth_session *session, char **out, fth_error *err) {
    if (!session || !out)
        return fth_fail_null(err, "fth_session_report", "session, out");
    const struct fth_session_times *t = &session->times;
    uint64_t activations = 0, weights = 0;
    struct fth_text text = {0};
    char note[96];
    if (session->train_plan)
        fth_plan_times(session->train_plan, &activations, &weights);
    uint64_t known = t->room + t->wait + t->parse + t->lookup + t->step + t->evaluate + t->checkpoint;
    uint64_t aside = t->room + t->evaluate + t->checkpoint; /* one that runs now is in neither */
    double seconds = t->total > aside ? (double)(t->total - aside) * 1e-9 : 0;
    fth_text_printf(&text, "where the time went\n");
    if (t->room)
        line(&text, "memory of expected rows", t->room, t->total, "");
    line(&text, "waiting for data", t->wait, t->total, "");
    line(&text, "parsing", t->parse, t->total, "");
    snprintf(note, sizeof note, "%.1f keys a unique row",
             session->unique_rows ? (double)session->keys / (double)session->unique_rows : 0);
    line(&text, "finding rows", t->lookup, t->total, session->embedding ? note : "");
    line(&text, "forward and data gradients", activations, t->total, "");
    line(&text, "weight gradients and updates", weights, t->total, "");
    line(&text, "evaluation", t->evaluate, t->total, "");
    line(&text, "checkpoints", t->checkpoint, t->total, "");
    line(&text, "the rest", t->total > known ? t->total - known + t->step - activations - weights : 0, t->total,
         "");
    line(&text, "in all", t->total, t->total, "");
    fth_text_printf(&text, "  added up over threads: reading %.2f s", (double)session->read_ns * 1e-9);
    if (session->direct_bytes)
        fth_text_printf(&text, " (%.0f MB past the page cache)", (double)session->direct_bytes * 1e-6);
    fth_text_printf(&text, ", parsing %.2f s", (double)session->parse_ns * 1e-9);
    if (session->bytes_read && session->parse_ns)
        fth_text_printf(&text, " (%.0f MB at %.0f MB/s a thread)", (double)session->bytes_read * 1e-6,
                        (double)session->bytes_read * 1e3 / (double)session->parse_ns);
    fth_text_printf(&text, "\n  %.0f examples/s%s%s\n", seconds > 0 ? (double)session->examples / seconds : 0,
                    t->room ? ", expected rows' memory" : "", aside ? ", evaluation and checkpoints left out" : "");
    char bytes[32];
    fth_format_bytes(bytes, (double)fth_session_model_bytes(session));
    fth_text_printf(&text, "  model %s (%llu bytes)\n", bytes,
                    (unsigned long long)fth_session_model_bytes(session));
    char *copy = text.failed ? NULL : strdup(fth_text_get(&text));
    fth_text_free(&text);
    if (!copy)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a report");
    *out = copy;
    return FTH_OK;
}
