/* Laying out a table of short texts: see words.h. Groups are placed the largest first, each by the first move that
 * puts all of its texts on free slots; should one find none, all is begun again with another seed and, in the end,
 * more room. One thread. */
#include "feature/words.h"

#include <stdlib.h>

#define SEEDS 64
#define SEEDS_A_SIZE 8

/* A text's place in the order of placing. */
struct placed {
    const struct fth_word *item;
    uint64_t hash;
    uint32_t group, group_size;
};

static int large_groups_first(const void *a, const void *b) {
    const struct placed *x = a, *y = b;
    if (x->group_size != y->group_size)
        return x->group_size < y->group_size ? 1 : -1;
    if (x->group != y->group)
        return (x->group > y->group) - (x->group < y->group);
    return (x->item > y->item) - (x->item < y->item);
}

/* Puts n texts of one group into their slots, moved; 0 and nothing done when one of them is taken. */
static int place_group(struct fth_words *words, const struct placed *group, uint32_t n, uint32_t move) {
    for (uint32_t i = 0; i < n; i++) {
        struct fth_word *slot = &words->slots[fth_word_slot(words, group[i].hash, move)];
        if (slot->length != UINT32_MAX) {
            while (i > 0)
                words->slots[fth_word_slot(words, group[--i].hash, move)].length = UINT32_MAX;
            return 0;
        }
        *slot = *group[i].item;
    }
    words->moves[group[0].group] = move;
    return 1;
}

static int place_all(struct fth_words *words, const struct fth_word *items, uint32_t n,
                     struct placed *placed) {
    for (uint32_t s = 0; s <= words->mask; s++)
        words->slots[s] = (struct fth_word){.length = UINT32_MAX};
    memset(words->moves, 0, ((size_t)words->move_mask + 1) * sizeof *words->moves);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t hash = fth_word_hash(words, items[i].bytes, items[i].length);
        uint32_t group = (uint32_t)hash & words->move_mask;
        placed[i] = (struct placed){.item = &items[i], .hash = hash, .group = group};
        words->moves[group]++;
    }
    for (uint32_t i = 0; i < n; i++)
        placed[i].group_size = words->moves[placed[i].group];
    qsort(placed, n, sizeof *placed, large_groups_first);
    for (uint32_t first = 0, size; first < n; first += size) {
        uint32_t move = 0;
        size = placed[first].group_size;
        while (move <= words->mask && !place_group(words, placed + first, size, move))
            move++;
        if (move > words->mask)
            return 0;
    }
    return 1;
}

fth_status fth_words_build(const struct fth_word *items, uint32_t n, fth_arena *arena,
                           struct fth_words *out, fth_error *err) {
    struct fth_words words = {.mask = 1};
    while (words.mask < UINT32_MAX / 4 && words.mask + 1 < 2 * (uint64_t)n)
        words.mask = 2 * words.mask + 1;
    words.move_mask = words.mask >> 2;
    struct placed *placed = fth_alloc((size_t)n + 1, sizeof *placed);
    int done = 0;
    for (uint32_t seed = 0; placed && seed < SEEDS && !done; seed++) {
        if (seed % SEEDS_A_SIZE == 0) {
            words.mask = seed ? 2 * words.mask + 1 : words.mask;
            words.slots = fth_arena_alloc(arena, (size_t)words.mask + 1, sizeof *words.slots);
            words.moves = fth_arena_alloc(arena, (size_t)words.move_mask + 1, sizeof *words.moves);
        }
        if (!words.slots || !words.moves)
            break;
        words.seed = fth_hash_mix(seed + 1);
        done = place_all(&words, items, n, placed);
    }
    int memory = placed && words.slots && words.moves;
    fth_free(placed);
    if (!memory)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a table of %u texts", n);
    if (!done)
        return fth_fail(err, FTH_E_LIMIT, "no table for these %u texts was found", n);
    *out = words;
    return FTH_OK;
}
