/* The stage from text to examples, timed alone: see inspect.h. One thread; nothing is read while the
 * clock runs. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sort.h"
#include "base/clock.h"
#include "data/inspect.h"
#include "data/lines.h"
#include "data/set_private.h"

#define STAGE_BLOCKS 64
#define STAGE_BYTES ((size_t)16 << 20)
#define STAGE_SAMPLES 4096

struct stage {
    fth_data_set *set;
    const struct fth_transform *transform;
    struct fth_block *blocks[STAGE_BLOCKS];
    char *text[STAGE_BLOCKS]; /* as read: parsing may rewrite a block's own */
    size_t length[STAGE_BLOCKS];
    uint32_t n;
    struct fth_batch *examples;
    uint32_t *scratch;
    double split[STAGE_SAMPLES], whole[STAGE_SAMPLES]; /* bytes a nanosecond */
    uint32_t n_samples;
};

static fth_status hold_blocks(struct stage *stage, fth_error *err) {
    int64_t asked = stage->set->config->block_bytes;
    fth_lines *lines = NULL;
    fth_status status = fth_lines_create(stage->set, -1, asked < 1 ? 1 : (size_t)asked, &lines, err);
    size_t bytes = 0;
    while (status == FTH_OK && stage->n < STAGE_BLOCKS && bytes < STAGE_BYTES) {
        int got = 0;
        struct fth_block **block = &stage->blocks[stage->n];
        if (!*block)
            FTH_TRY_GOTO(status, fth_block_create(block, err), done);
        FTH_TRY_GOTO(status, fth_lines_next(lines, *block, &got, err), done);
        if (!got)
            break;
        size_t length = (*block)->text_length;
        stage->text[stage->n] = fth_alloc(length, 1);
        if (!stage->text[stage->n]) {
            status = fth_fail(err, FTH_E_MEMORY, "no memory for %zu bytes of text", length);
            break;
        }
        memcpy(stage->text[stage->n], (*block)->text, length);
        stage->length[stage->n++] = length;
        bytes += length;
    }
done:
    fth_lines_destroy(lines);
    return status;
}

static fth_status time_block(struct stage *stage, uint32_t b, struct fth_stage_rate *out,
                             fth_error *err) {
    struct fth_block *block = stage->blocks[b];
    const struct fth_parser *parser = &stage->set->parser;
    memcpy(block->text, stage->text[b], stage->length[b]);
    fth_batch_clear(stage->examples);
    uint64_t start = fth_now_ns();
    FTH_TRY(parser->kind->parse(parser, block, stage->scratch, err));
    uint64_t split = fth_now_ns();
    FTH_TRY(stage->transform->examples(stage->transform->ctx, block, stage->examples, err));
    uint64_t end = fth_now_ns();
    double bytes = (double)stage->length[b];
    stage->split[stage->n_samples] = bytes / (double)(split - start + 1);
    stage->whole[stage->n_samples++] = bytes / (double)(end - start + 1);
    out->bytes += stage->length[b];
    out->lines += block->n_data;
    return FTH_OK;
}

static double median(double *values, uint32_t n) {
    fth_sort_doubles(values, n);
    return n ? values[n / 2] : 0;
}

static fth_status run(struct stage *stage, double seconds, struct fth_stage_rate *out,
                      fth_error *err) {
    FTH_TRY(hold_blocks(stage, err));
    FTH_TRY(fth_batch_create(stage->transform->schema, 1, &stage->examples, err));
    stage->scratch = fth_alloc(FTH_PARSE_SCRATCH, sizeof *stage->scratch);
    if (!stage->scratch)
        return fth_fail(err, FTH_E_MEMORY, "no memory to parse blocks");
    for (uint32_t b = 0; b < stage->n; b++) /* memory finds its size */
        FTH_TRY(time_block(stage, b, out, err));
    *out = (struct fth_stage_rate){0};
    stage->n_samples = 0;
    uint64_t end = fth_now_ns() + (uint64_t)(seconds * 1e9);
    while (stage->n && fth_now_ns() < end && stage->n_samples + stage->n <= STAGE_SAMPLES) {
        for (uint32_t b = 0; b < stage->n; b++)
            FTH_TRY(time_block(stage, b, out, err));
    }
    out->split = median(stage->split, stage->n_samples);
    out->whole = median(stage->whole, stage->n_samples);
    return FTH_OK;
}

fth_status fth_data_time_stage(fth_data_set *set, const struct fth_transform *transform,
                               double seconds, struct fth_stage_rate *out, fth_error *err) {
    struct stage *stage = fth_alloc(1, sizeof *stage);
    if (!stage)
        return fth_fail(err, FTH_E_MEMORY, "no memory to time the reading of text");
    stage->set = set;
    stage->transform = transform;
    *out = (struct fth_stage_rate){0};
    fth_status status = run(stage, seconds, out, err);
    for (uint32_t b = 0; b < STAGE_BLOCKS; b++) {
        fth_block_destroy(stage->blocks[b]);
        fth_free(stage->text[b]);
    }
    fth_batch_destroy(stage->examples);
    fth_free(stage->scratch);
    fth_free(stage);
    return status;
}
