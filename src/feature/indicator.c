/* Feature programs, one-hot and multi-hot inputs. One-hot rows of a list's elements are never made: each element adds
 * to its input, which is counting. plain.c makes the rows and sums them. Runs on the lines of one chunk, on
 * any thread. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "feature/plain.h"

#include <string.h>

uint32_t fth_feature_indicator_of(const struct fth_feature_indicator *indicator, const char *bytes,
                                  uint32_t length) {
    /* What is in no place has the place behind the last, which is that of others, if there is one. */
    return fth_codes_find(&indicator->codes, XXH3_64bits_withSeed(bytes, length, 0));
}

static inline void add(const fth_feature_program *program,
                       const struct fth_feature_indicator *indicator, const char *bytes,
                       uint32_t length, float *out) {
    if (fth_feature_is_missing(program, bytes, length))
        return;
    uint32_t at = fth_feature_indicator_of(indicator, bytes, length);
    if (at < indicator->width)
        out[at] = indicator->config->count ? out[at] + 1 : 1;
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
        if (indicator->separator.length == 0)
            add(program, indicator, text.bytes, text.length, out);
        else if (program->plain)
            FTH_TRY(fth_feature_plain_indicator(chunk, indicator, text, out));
        else if (!fth_feature_no_list(program, text))
            add_list(program, indicator, text, out);
    }
    return FTH_OK;
}
