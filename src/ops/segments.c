/* What the operations on segments share (ops_private.h). Pure functions; any thread. */
#include "ops/ops_private.h"

fth_status fth_ops_need_segments(const fth_graph *graph, const struct fth_node *node, uint32_t i,
                                 int32_t sessions, fth_error *err) {
    FTH_TRY(fth_ops_need_positions(graph, node, i, err));
    if (sessions == FTH_NO_SESSIONS)
        return FTH_OK;
    if (sessions < FTH_SESSIONS || (uint32_t)(sessions - FTH_SESSIONS) >= graph->n_sessions ||
        fth_graph_sessions_of(graph, sessions)->group != fth_ops_input(graph, node, i).group)
        return fth_fail(err, FTH_E_ARGUMENT, "input %u has no sessions of number %d", i, (int)sessions);
    return FTH_OK;
}

struct fth_segments fth_ops_segments(const struct fth_run *run, const struct fth_view *positions,
                                     int32_t sessions) {
    if (sessions == FTH_NO_SESSIONS)
        return (struct fth_segments){positions->offsets, run->examples};
    const struct fth_session_rows *rows = &run->sessions[sessions - FTH_SESSIONS];
    uint32_t first = rows->offsets[run->example0], last = rows->offsets[run->example0 + run->examples];
    return (struct fth_segments){rows->starts + first, last - first};
}

void fth_ops_print_sessions(int32_t sessions, struct fth_text *out) {
    if (sessions != FTH_NO_SESSIONS)
        fth_text_printf(out, " sessions=S%d", (int)sessions - FTH_SESSIONS);
}
