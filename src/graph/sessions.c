/* Sessions (graph.h): what is cut into them, and the cutting of a batch's positions. The first belongs to the
 * building of a graph, one thread; the second is a pure function that a run calls before its first phase. */
#include <string.h>

#include "core/batch.h"
#include "graph/graph.h"

#define MAX_SESSIONS 1024

fth_status fth_graph_sessions(fth_graph *graph, const struct fth_sessions *sessions, int32_t *group,
                              fth_error *err) {
    if (sessions->group < 0 || sessions->group >= FTH_SESSIONS || !sessions->length)
        return fth_fail(err, FTH_E_ARGUMENT,
                        "sessions of group %d, at most %u positions: a ragged group of the batch is cut "
                        "into sessions of at least one position",
                        (int)sessions->group, sessions->length);
    for (uint32_t i = 0; i < graph->n_sessions; i++)
        if (graph->sessions[i].group == sessions->group && graph->sessions[i].field == sessions->field &&
            graph->sessions[i].length == sessions->length) {
            *group = FTH_SESSIONS + (int32_t)i;
            return FTH_OK;
        }
    if (graph->n_sessions == graph->sessions_capacity) {
        uint32_t capacity = graph->sessions_capacity ? graph->sessions_capacity * 2 : 4;
        struct fth_sessions *more = capacity <= MAX_SESSIONS
                                        ? fth_arena_alloc(graph->arena, capacity, sizeof *more)
                                        : NULL;
        if (!more)
            return fth_fail(err, FTH_E_MEMORY, "sessions: out of memory");
        if (graph->n_sessions)
            memcpy(more, graph->sessions, graph->n_sessions * sizeof *more);
        graph->sessions = more;
        graph->sessions_capacity = capacity;
    }
    *group = FTH_SESSIONS + (int32_t)graph->n_sessions;
    graph->sessions[graph->n_sessions++] = *sessions;
    return FTH_OK;
}

void fth_sessions_cut(const struct fth_sessions *sessions, const uint32_t *offsets, uint32_t n,
                      const struct fth_keys *keys, const struct fth_session_rows *out) {
    uint32_t made = 0;
    for (uint32_t i = 0; i < n; i++) {
        out->offsets[i] = made;
        for (uint32_t at = offsets[i], end; at < offsets[i + 1]; at = end) {
            for (end = at + 1; end < offsets[i + 1] && (!keys || fth_same_key(keys, end, at));)
                end++;
            uint32_t first = (end - at) % sessions->length;
            if (first)
                out->starts[made++] = at;
            for (uint32_t start = at + first; start < end; start += sessions->length)
                out->starts[made++] = start;
        }
    }
    out->offsets[n] = made;
    out->starts[made] = offsets[n];
}
