/* What a feature program learns before training, from the head of the data or all of it: quantile boundaries,
 * vocabularies (vocabulary.c). Memory is bounded: a column keeps as many numbers as lines are asked for, or a uniform
 * sample of all. One thread, lines in order: what is learned follows from the data alone. */
#include <stdlib.h>
#include <string.h>

#include "feature/program_private.h"

uint64_t fth_feature_learn_wanted(const fth_feature_program *program) {
    if (program->n_learned == 0 || program->learning_done)
        return 0;
    return program->sample_wanted == UINT64_MAX ? UINT64_MAX : program->sample_wanted - program->sample_lines;
}

/* Each number met so far is in a full sample with the same probability (Vitter, "Random sampling with a reservoir",
 * 1985, algorithm R); the draws follow from how many were met. */
static inline void keep_number(struct fth_feature_numeric *numeric, uint64_t room, float x) {
    uint64_t met = ++numeric->n_met;
    if (numeric->n_sample < room) {
        numeric->sample[numeric->n_sample++] = x;
        return;
    }
    uint64_t place = (uint64_t)((unsigned __int128)fth_hash_mix(met) * met >> 64);
    if (place < room)
        numeric->sample[place] = x;
}

/* Adds the chunk's numbers to the column's sample. */
static fth_status sample_column(struct fth_feature_chunk *chunk, struct fth_feature_numeric *numeric) {
    const fth_feature_program *program = chunk->program;
    float x[FTH_FEATURE_CHUNK];
    uint32_t present[FTH_FEATURE_CHUNK];
    if (numeric->sample == NULL) /* pages of it are touched as the sample fills */
        numeric->sample = fth_region_alloc(program->sample_room * sizeof(float));
    if (numeric->sample == NULL)
        return fth_fail(chunk->err, FTH_E_MEMORY,
                        "no memory for a sample of %llu lines: lower features.learn_lines",
                        (unsigned long long)program->sample_room);
    memset(chunk->bad, 0, chunk->n);
    FTH_TRY(fth_feature_numbers(chunk, numeric, x, present));
    for (uint32_t i = 0; i < chunk->n; i++)
        if (present[i] && !chunk->bad[i])
            keep_number(numeric, program->sample_room, x[i]);
    return FTH_OK;
}

static fth_status learn_lines(fth_feature_program *program, struct fth_feature_scratch *scratch,
                              struct fth_block *block, const uint32_t *which, uint32_t lines,
                              fth_error *err) {
    uint32_t line[FTH_FEATURE_CHUNK];
    uint8_t bad[FTH_FEATURE_CHUNK] = {0};
    for (uint32_t first = 0; first < lines; first += FTH_FEATURE_CHUNK) {
        struct fth_feature_chunk chunk = {.program = program, .block = block, .lines = line,
                                          .bad = bad, .err = err};
        for (; chunk.n < FTH_FEATURE_CHUNK && first + chunk.n < lines; chunk.n++)
            line[chunk.n] = which ? which[first + chunk.n] : first + chunk.n;
        FTH_TRY(fth_feature_run_derived(&chunk, scratch, 1));
        for (uint32_t k = 0; k < program->n_numeric; k++)
            if (program->numeric[k].learned)
                FTH_TRY(sample_column(&chunk, &program->numeric[k]));
        FTH_TRY(fth_feature_count_texts(&chunk));
    }
    program->sample_lines += lines;
    return FTH_OK;
}

fth_status fth_feature_learn_block(fth_feature_program *program, struct fth_block *block,
                                   const uint32_t *which, uint32_t n, fth_error *err) {
    uint64_t wanted = fth_feature_learn_wanted(program);
    uint32_t lines = n < wanted ? n : (uint32_t)wanted;
    struct fth_feature_scratch *scratch = NULL;
    if (lines == 0)
        return FTH_OK;
    if (block->n_columns != program->n_columns)
        return fth_fail(err, FTH_E_DATA, "%s:%llu: %u columns where the features were set up for %u",
                        block->file, (unsigned long long)block->first_line, block->n_columns,
                        program->n_columns);
    FTH_TRY(fth_feature_check_side_tables(program, err));
    FTH_TRY(fth_feature_scratch_create(program, &scratch, err));
    fth_status status = learn_lines(program, scratch, block, which, lines, err);
    fth_feature_scratch_destroy(scratch);
    return status;
}

static int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void drop_sample(const fth_feature_program *program, struct fth_feature_numeric *numeric) {
    if (numeric->sample)
        fth_region_free(numeric->sample, program->sample_room * sizeof(float));
    numeric->sample = NULL;
    numeric->n_sample = numeric->n_met = 0;
}

void fth_feature_drop_samples(fth_feature_program *program) {
    for (uint32_t k = 0; k < program->n_numeric; k++)
        drop_sample(program, &program->numeric[k]);
}

/* The boundaries of `buckets` equal parts of the sorted numbers; how many. Numbers as large as a boundary are above it, so
 * the least is none, and a number that fills more than a part gets a second boundary behind it: else what is larger would
 * be in its bucket. */
static uint32_t choose_boundaries(const float *sorted, uint64_t n_sorted, uint64_t buckets, float *values) {
    uint32_t n = 0;
    float before = n_sorted ? sorted[0] : 0;
    for (uint64_t q = 1; q < buckets && n_sorted > 0; q++) {
        uint64_t at = q * n_sorted / buckets;
        float x = sorted[at];
        if (x == before) {
            while (at < n_sorted && sorted[at] == x)
                at++;
            if (at == n_sorted)
                break;
            x = sorted[at];
        } else {
            before = x;
        }
        if (n == 0 || x > values[n - 1])
            values[n++] = x;
    }
    return n;
}

fth_status fth_feature_learn_finish(fth_feature_program *program, fth_error *err) {
    for (uint32_t k = 0; k < program->n_numeric && !program->learning_done; k++) {
        struct fth_feature_numeric *numeric = &program->numeric[k];
        if (!numeric->learned)
            continue;
        uint64_t buckets = (uint64_t)numeric->config->quantiles;
        float *values = fth_alloc(buckets, sizeof(float));
        if (values == NULL)
            return fth_fail(err, FTH_E_MEMORY, "no memory for %llu quantiles",
                            (unsigned long long)buckets);
        if (numeric->n_sample > 0)
            qsort(numeric->sample, numeric->n_sample, sizeof(float), compare_floats);
        uint32_t n = choose_boundaries(numeric->sample, numeric->n_sample, buckets, values);
        fth_free(numeric->boundaries.values);
        numeric->boundaries = (struct fth_feature_boundaries){.values = values, .n = n};
        drop_sample(program, numeric);
    }
    for (uint32_t v = 0; v < program->n_vocabularies && !program->learning_done; v++)
        if (!*program->vocabularies[v].file)
            FTH_TRY(fth_feature_choose_texts(&program->vocabularies[v], err));
    program->learning_done = 1;
    return fth_feature_join_vocabularies(program, err);
}
