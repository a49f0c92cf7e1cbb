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

fth_status fth_ops_output_segments(fth_graph *graph, struct fth_node *node, int32_t sessions, fth_error *err) {
    FTH_TRY(fth_ops_need_segments(graph, node, 0, sessions, err));
    return fth_graph_output(graph, node, 0, sessions < 0 ? FTH_EXAMPLES : FTH_POSITIONS, sessions, 0,
                            fth_ops_input(graph, node, 0).columns, err);
}

fth_status fth_ops_output_positions(fth_graph *graph, struct fth_node *node, int32_t sessions, int32_t group,
                                    fth_error *err) {
    FTH_TRY(fth_ops_need(graph, node, 0, err));
    struct fth_value x = fth_ops_input(graph, node, 0);
    if (x.extent != (sessions < 0 ? FTH_EXAMPLES : FTH_POSITIONS) || x.group != sessions || group < 0)
        return fth_fail(err, FTH_E_ARGUMENT, "takes one row %s and a ragged group",
                        sessions < 0 ? "an example" : "a session");
    return fth_graph_output(graph, node, 0, FTH_POSITIONS, group, 0, x.columns, err);
}

void fth_ops_print_sessions(int32_t sessions, struct fth_text *out) {
    if (sessions != FTH_NO_SESSIONS)
        fth_text_printf(out, " sessions=S%d", (int)sessions - FTH_SESSIONS);
}
