/* Feature programs, one-hot and multi-hot inputs. One-hot rows of a list's elements are never made: each element adds
 * to its input, which is counting. Short texts find their input without branches (words.h), and what counts nowhere
 * is added to a number that is thrown away: which elements are listed cannot be predicted. plain.c makes the rows
 * and sums them. Runs on the lines of one chunk, on any thread. */
#include "feature/plain.h"

#include <string.h>

/* Texts of more than eight bytes. */
static uint32_t long_text(const fth_feature_program *program,
                          const struct fth_feature_indicator *indicator, const char *bytes,
                          uint32_t length) {
    if (fth_feature_is_missing(program, bytes, length))
        return FTH_INDICATOR_NONE;
    const struct fth_strings *values = &indicator->config->values;
    uint32_t place = fth_codes_find(&indicator->codes, fth_hash_bytes(bytes, length, 0));
    int same = place < values->n && strlen(values->items[place]) == length &&
               memcmp(values->items[place], bytes, length) == 0;
    return same ? place : indicator->other;
}

/* The text's input, or none. */
static inline uint32_t input_of(const fth_feature_program *program,
                                const struct fth_feature_indicator *indicator, const char *bytes,
                                uint32_t length) {
    if (length > FTH_WORD_BYTES && indicator->long_texts)
        return long_text(program, indicator, bytes, length);
    return fth_words_find(&indicator->words, bytes, length, indicator->other);
}

static inline void add(const fth_feature_program *program,
                       const struct fth_feature_indicator *indicator, const char *bytes,
                       uint32_t length, float *out) {
    float thrown_away = 0;
    uint32_t at = input_of(program, indicator, bytes, length);
    float *to = at == FTH_INDICATOR_NONE ? &thrown_away : &out[at];
    *to = indicator->config->count ? *to + 1 : 1;
}

static void add_list(const fth_feature_program *program,
                     const struct fth_feature_indicator *indicator, struct fth_feature_text text,
                     float *out) {
    struct fth_split split;
    fth_split_begin(&split, text.bytes, 0, text.length);
    while (fth_split_window(&split, &indicator->separator))
        for (uint32_t i = 0; i < split.n; i++) {
            add(program, indicator, text.bytes + split.start, split.ends[i] - split.start, out);
            split.start = split.ends[i] + indicator->separator.length;
        }
    add(program, indicator, text.bytes + split.start, text.length - split.start, out);
}

fth_status fth_feature_run_indicator(struct fth_feature_chunk *chunk,
                                     const struct fth_feature_indicator *indicator) {
    const fth_feature_program *program = chunk->program;
    struct fth_batch *batch = chunk->out;
    for (uint32_t i = 0; i < chunk->n; i++) {
        float *out = batch->dense + (size_t)(chunk->base + i) * batch->dense_ld + indicator->dense;
        struct fth_feature_text text = fth_feature_cell(chunk, i, indicator->column);
        memset(out, 0, indicator->width * sizeof *out);
        if (program->plain & FTH_PLAIN_COUNTS)
            FTH_TRY(fth_feature_plain_indicator(chunk, indicator, text, out));
        else if (indicator->separator.length == 0)
            add(program, indicator, text.bytes, text.length, out);
        else if (!fth_feature_no_list(program, text))
            add_list(program, indicator, text, out);
    }
    return FTH_OK;
}
