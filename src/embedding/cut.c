/* Cutting the unique rows of a batch into update tasks: the last, short part of prepare. How many get
 * work, and where they begin, follows from the batch. Threads: the one that prepares. */
#include "embedding/embedding_private.h"

/* What one more unique row costs an update task, in occurrences. */
#define ROW_COST 4
#define TASK_COST 1024

/* Cost of the segment's unique keys before `unique`. */
static uint64_t cost_before(const struct fth_embedding *embedding,
                            const struct fth_segment *segment, uint32_t unique) {
    if (unique == 0)
        return 0;
    uint64_t one = embedding->unique_end[segment->start + unique - 1] - segment->list +
                   (uint64_t)unique * ROW_COST;
    return one * segment->pack->n_members;
}

static uint64_t whole_cost(const struct fth_embedding *embedding, uint32_t number) {
    struct fth_segment segment = fth_segment_of(embedding, number);
    if (fth_segment_is_whole(embedding, number))
        return (embedding->parts[number].n + (uint64_t)segment.n * ROW_COST) * segment.pack->n_members;
    return cost_before(embedding, &segment, segment.n);
}

/* The first unique key of the segment before which there is at least `cost`. */
static uint32_t unique_at(const struct fth_embedding *embedding, const struct fth_segment *segment,
                          uint64_t cost) {
    uint32_t low = 0, high = segment->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (cost_before(embedding, segment, middle) < cost)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void fth_embedding_cut_updates(struct fth_embedding *embedding) {
    uint32_t segments = fth_segments(embedding), s = 0;
    uint64_t total = 0, before = 0;
    for (uint32_t i = 0; i < segments; i++)
        total += whole_cost(embedding, i);
    uint64_t tasks = (total + TASK_COST - 1) / TASK_COST;
    embedding->n_tasks = tasks < FTH_UPDATE_TASKS ? (uint32_t)tasks : FTH_UPDATE_TASKS;
    for (uint32_t t = 0; t < embedding->n_tasks; t++) {
        uint64_t target = total * t / embedding->n_tasks, cost;
        for (; before + (cost = whole_cost(embedding, s)) <= target; s++)
            before += cost;
        struct fth_segment segment = fth_segment_of(embedding, s);
        struct fth_update_start *start = &embedding->task_start[t];
        /* Parts whose gradients are summed item by item go as a whole. */
        if (fth_segment_is_whole(embedding, s))
            *start = (struct fth_update_start){.segment = before < target ? s + 1 : s};
        else
            *start = (struct fth_update_start){
                .segment = s, .unique = unique_at(embedding, &segment, target - before)};
    }
    embedding->task_start[embedding->n_tasks] = (struct fth_update_start){.segment = segments};
}
