/* Running a feature program: blocks of cells to examples (any thread, no allocation but the growth of
 * the batch), and what depends on the order of examples (running standardisation; one thread).
 *
 * Lines are taken in chunks; every instruction runs over a chunk's lines, column by column. When a chunk
 * had refused lines, it runs again without them over the same rows: rare, and it leaves no holes. Between
 * `examples` and `finish` a missing number that is standardised by running statistics is a NaN: the text
 * can never give one. */
#include "feature/program_private.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "base/text.h"

int fth_feature_is_missing(const fth_feature_program *program, const char *bytes, size_t length) {
    if (length == 0)
        return 1;
    const struct fth_strings *missing = &program->config->features.missing;
    for (uint32_t i = 0; i < missing->n; i++)
        if (strlen(missing->items[i]) == length && memcmp(missing->items[i], bytes, length) == 0)
            return 1;
    return 0;
}

/* "file:line:byte: reason" */
static void tell(const struct fth_feature_chunk *chunk, uint32_t i, const char *where,
                 fth_error *error, const char *format, va_list args) {
    const struct fth_block *block = chunk->block;
    /* The byte in its line, 1-based: the text before it, back to the line's start. */
    size_t column = 1;
    if (where && where >= block->text && where <= block->text + block->text_length) {
        const char *start = block->n_columns ? fth_feature_cell(chunk, i, 0).bytes : where;
        while (start > block->text && start[-1] != '\n')
            start--;
        if (where >= start)
            column += (size_t)(where - start);
    }
    char reason[512];
    vsnprintf(reason, sizeof reason, format, args);
    fth_fail(error, FTH_E_DATA, "%s:%llu:%llu: %s", block->file,
             (unsigned long long)block->line_number[chunk->lines[i]],
             (unsigned long long)column, reason);
}

void fth_feature_refuse(struct fth_feature_chunk *chunk, uint32_t i, const char *where,
                        const char *format, ...) {
    uint64_t line = chunk->block->line_number[chunk->lines[i]];
    if (chunk->bad[i])
        return;
    chunk->bad[i] = 1;
    if (chunk->bad_line != 0 && chunk->bad_line <= line)
        return;
    chunk->bad_line = line;
    va_list args;
    va_start(args, format);
    tell(chunk, i, where, &chunk->bad_error, format, args);
    va_end(args);
}

void fth_feature_skip_value(struct fth_feature_chunk *chunk, uint32_t i, const char *where,
                            const char *format, ...) {
    uint64_t line = chunk->block->line_number[chunk->lines[i]];
    chunk->skipped++;
    if (chunk->skipped_line != 0 && chunk->skipped_line <= line)
        return;
    chunk->skipped_line = line;
    va_list args;
    va_start(args, format);
    tell(chunk, i, where, &chunk->skipped_error, format, args);
    va_end(args);
}

void fth_feature_tell_cut(struct fth_feature_chunk *chunk, uint32_t i, const char *where, const char *format, ...) {
    va_list args;
    va_start(args, format);
    tell(chunk, i, where, &chunk->cut, format, args);
    va_end(args);
}

/* What to do about spaces around a text that should be something else, in a column of the files or a derived one. */
static const char *about_spaces(struct fth_feature_text text, int derived) {
    if (!text.length || (text.bytes[0] != ' ' && text.bytes[text.length - 1] != ' '))
        return "";
    return derived ? "; the spaces around it come from what the column is made from"
                   : "; data.csv.strip drops spaces around cells";
}

static const char *about_signs(const char *bytes, uint32_t length) {
    int digits = 0, signs = 0;
    for (uint32_t i = 0; i < length && i < 64; i++) {
        digits |= bytes[i] >= '0' && bytes[i] <= '9';
        signs |= bytes[i] && strchr("[](){}'\"$%,", bytes[i]) != NULL;
    }
    return digits && signs ? "; {as: replace} in features.derived leaves signs out or puts others in their place" : "";
}

/* What tables hold where a value is not there. */
const char *fth_feature_about_missing(const char *bytes, uint32_t length) {
    static const char *const texts[] = {"na", "n/a", "nan", "nat", "none", "null", "nil", "missing", "?", "-", "."};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        if (strlen(texts[t]) == length && strncasecmp(texts[t], bytes, length) == 0)
            return "; features.missing names texts that stand for a value that is not there";
    return "";
}

const char *fth_feature_about_text(const char *bytes, uint32_t length) {
    const char *missing = fth_feature_about_missing(bytes, length);
    return *missing ? missing : about_signs(bytes, length);
}

const char *fth_feature_name_told(const fth_feature_program *program, uint32_t column, char room[320]) {
    if (column < program->n_columns || program->derived[column - program->n_columns].config->as != FTH_DERIVE_JOIN)
        return program->columns[column];
    snprintf(room, 320, "%s' from '%s", program->columns[column], program->derived[column - program->n_columns].config->file);
    return room;
}

int fth_feature_number(struct fth_feature_chunk *chunk, uint32_t i, struct fth_feature_text text,
                       uint32_t column, float *out) {
    enum fth_number result = fth_number_parse(text.bytes, text.length, out);
    if (result == FTH_NUMBER_OK)
        return 1;
    char quoted[96], room[320];
    fth_text_quote(quoted, sizeof quoted, text.bytes, text.length);
    fth_feature_refuse(chunk, i, text.bytes,
                       result == FTH_NUMBER_MALFORMED
                           ? "column '%s': '%s' is not a number%s%s"
                           : "column '%s': '%s' is too large for a 32-bit float%s%s",
                       fth_feature_name_told(chunk->program, column, room), quoted,
                       about_spaces(text, column >= chunk->program->n_columns),
                       result == FTH_NUMBER_MALFORMED ? fth_feature_about_text(text.bytes, text.length) : "");
    return 0;
}

/* What a label's text says. A text that is a label is one, whatever features.missing says of it: with "0" there, a 0
 * among the features is missing and one among the labels is not. */
enum label { LABEL_IS_0, LABEL_IS_1, LABEL_MISSING, LABEL_BAD };

static enum label read_any_label(const fth_feature_program *program, struct fth_feature_text text,
                                 const struct fth_strings *positive) {
    float x;
    double value = 0, bound;
    int above, is_number = -1; /* not looked at */
    for (uint32_t p = 0; p < positive->n; p++) {
        if (strlen(positive->items[p]) == text.length && memcmp(positive->items[p], text.bytes, text.length) == 0)
            return LABEL_IS_1;
        if (!fth_config_label_bound(positive->items[p], &bound, &above))
            continue;
        if (is_number < 0)
            is_number = fth_parse_f64(text.bytes, text.length, &value); /* as the bound: 4.1 is >= 4.1 */
        if (is_number && (above ? value > bound : value >= bound))
            return LABEL_IS_1;
    }
    if (positive->n == 0 && fth_number_parse(text.bytes, text.length, &x) == FTH_NUMBER_OK &&
        (x == 0 || x == 1 || x == -1))
        return x == 1 ? LABEL_IS_1 : LABEL_IS_0;
    if (fth_feature_is_missing(program, text.bytes, text.length))
        return LABEL_MISSING;
    return positive->n && is_number != 0 ? LABEL_IS_0 : LABEL_BAD;
}

static inline enum label read_label(const fth_feature_program *program, struct fth_feature_text text,
                                    const struct fth_strings *positive) {
    if (positive->n == 0 && text.length == 1 && (text.bytes[0] == '0' || text.bytes[0] == '1'))
        return text.bytes[0] == '1' ? LABEL_IS_1 : LABEL_IS_0;
    return read_any_label(program, text, positive);
}

static void refuse_label(struct fth_feature_chunk *chunk, uint32_t i, struct fth_feature_text text, const char *name,
                         const char *key, const struct fth_strings *positive) {
    char quoted[96];
    fth_text_quote(quoted, sizeof quoted, text.bytes, text.length);
    if (positive->n)
        fth_feature_refuse(chunk, i, text.bytes, "column '%s': label '%s' is not a number, which %s (%s) asks for%s", name,
                           quoted, key, positive->items[0], about_spaces(text, 0));
    else
        fth_feature_refuse(chunk, i, text.bytes,
                           "column '%s': label '%s' is neither 0 nor 1 (nor -1); %s names texts that mean 1, or a bound "
                           "(\">= 4\")%s", name, quoted, key, about_spaces(text, 0));
}

static void run_label(struct fth_feature_chunk *chunk, uint32_t column) {
    const fth_feature_program *program = chunk->program;
    const char *name = program->entries ? "label" : program->columns[column];
    for (uint32_t i = 0; i < chunk->n; i++) {
        struct fth_feature_text text = program->entries ? fth_feature_entry_label(chunk, i)
                                                        : fth_feature_cell(chunk, i, column);
        enum label label = read_label(program, text, &program->config->data.positive);
        chunk->out->label[chunk->base + i] = label == LABEL_IS_1 ? 1 : 0;
        if (label == LABEL_MISSING)
            fth_feature_refuse(chunk, i, text.bytes, "column '%s': the label is missing", name);
        else if (label == LABEL_BAD)
            refuse_label(chunk, i, text, name, "data.positive", &program->config->data.positive);
    }
}

/* One of several labels; where it is missing it was not observed, and the example does not count. */
static void run_task(struct fth_feature_chunk *chunk, uint32_t task, uint32_t column) {
    const fth_feature_program *program = chunk->program;
    uint32_t tasks = program->schema.n_tasks;
    for (uint32_t i = 0; i < chunk->n; i++) {
        struct fth_feature_text text = fth_feature_cell(chunk, i, column);
        size_t at = ((size_t)chunk->base + i) * tasks + task;
        enum label label = read_label(program, text, &program->config->tasks[task].positive);
        chunk->out->weight[at] = label == LABEL_MISSING ? 0 : 1;
        chunk->out->label[at] = label == LABEL_IS_1 ? 1 : 0;
        if (label == LABEL_BAD)
            refuse_label(chunk, i, text, program->columns[column], "its positive", &program->config->tasks[task].positive);
    }
}

static float weight_of(struct fth_feature_chunk *chunk, uint32_t i, uint32_t column) {
    const char *name = chunk->program->columns[column];
    struct fth_feature_text text = fth_feature_cell(chunk, i, column);
    float x = 1;
    if (text.length == 0)
        fth_feature_refuse(chunk, i, text.bytes, "column '%s': the sample weight is missing", name);
    else if (fth_feature_number(chunk, i, text, column, &x) && x < 0)
        fth_feature_refuse(chunk, i, text.bytes, "column '%s': sample weight %g is below 0", name,
                           (double)x);
    return x;
}

static void run_weight(struct fth_feature_chunk *chunk, uint32_t column) {
    for (uint32_t i = 0; i < chunk->n; i++)
        chunk->out->weight[chunk->base + i] = weight_of(chunk, i, column);
}

/* A task's weight is only looked at where the task's label is there. */
static void run_task_weight(struct fth_feature_chunk *chunk, uint32_t task, uint32_t column) {
    uint32_t tasks = chunk->program->schema.n_tasks;
    for (uint32_t i = 0; i < chunk->n; i++) {
        float *weights = &chunk->out->weight[((size_t)chunk->base + i) * tasks];
        float x = task == FTH_ALL_TASKS || weights[task] > 0 ? weight_of(chunk, i, column) : 0;
        for (uint32_t t = 0; t < tasks; t++)
            if (task == FTH_ALL_TASKS || task == t)
                weights[t] *= x;
    }
}

static void run_query(struct fth_feature_chunk *chunk, uint32_t column) {
    for (uint32_t i = 0; i < chunk->n; i++) {
        struct fth_feature_text text = fth_feature_cell(chunk, i, column);
        chunk->out->query[chunk->base + i] =
            fth_hash_bytes(text.bytes, text.length, 0);
    }
}

static fth_status run_chunk(struct fth_feature_chunk *chunk, struct fth_feature_scratch *scratch) {
    const fth_feature_program *program = chunk->program;
    memset(chunk->bad, 0, chunk->n);
    chunk->skipped = chunk->skipped_line = 0;
    if (program->n_derived)
        FTH_TRY(fth_feature_run_derived(chunk, scratch, 0));
    for (uint32_t i = 0; i < chunk->n; i++)
        chunk->out->example_number[chunk->base + i] =
            chunk->block->example_number[chunk->lines[i]];
    for (uint32_t k = 0; k < program->n_instructions; k++) {
        const struct fth_feature_instruction *instruction = &program->instructions[k];
        switch (instruction->op) {
        case FTH_FEATURE_NUMERIC:
            if (instruction->column > 1)
                fth_feature_run_number_rows(chunk, &program->numeric[instruction->index], instruction->column);
            else
                FTH_TRY(fth_feature_run_numeric(chunk, &program->numeric[instruction->index]));
            break;
        case FTH_FEATURE_INDICATOR:
            FTH_TRY(fth_feature_run_indicator(chunk, &program->indicators[instruction->index]));
            break;
        case FTH_FEATURE_SINGLE:
            fth_feature_run_single(chunk, instruction->index);
            break;
        case FTH_FEATURE_LISTS:
            FTH_TRY(fth_feature_run_lists(chunk, &program->groups[instruction->index]));
            break;
        case FTH_FEATURE_OSRP:
            FTH_TRY(fth_feature_run_osrp(chunk, instruction->index));
            break;
        case FTH_FEATURE_LABEL:
            run_label(chunk, instruction->column);
            break;
        case FTH_FEATURE_WEIGHT:
            run_weight(chunk, instruction->column);
            break;
        case FTH_FEATURE_TASK:
            run_task(chunk, instruction->index, instruction->column);
            break;
        case FTH_FEATURE_TASK_WEIGHT:
            run_task_weight(chunk, instruction->index, instruction->column);
            break;
        case FTH_FEATURE_QUERY:
            run_query(chunk, instruction->column);
            break;
        case FTH_FEATURE_ENTRIES:
            FTH_TRY(fth_feature_run_entries(chunk));
            break;
        }
    }
    return FTH_OK;
}

/* Scratch that another block left, or a new one; NULL where none is needed. */
static fth_status borrow_scratch(fth_feature_pass *pass, struct fth_feature_scratch **out,
                                 fth_error *err) {
    *out = NULL;
    if (pass->program->n_derived == 0)
        return FTH_OK;
    pthread_mutex_lock(&pass->mutex);
    struct fth_feature_scratch *scratch = pass->scratch_list;
    if (scratch)
        pass->scratch_list = scratch->next;
    pthread_mutex_unlock(&pass->mutex);
    *out = scratch;
    return scratch ? FTH_OK : fth_feature_scratch_create(pass->program, out, err);
}

static void give_back_scratch(fth_feature_pass *pass, struct fth_feature_scratch *scratch) {
    if (!scratch)
        return;
    pthread_mutex_lock(&pass->mutex);
    scratch->next = pass->scratch_list;
    pass->scratch_list = scratch;
    pthread_mutex_unlock(&pass->mutex);
}

static fth_status run_block(const fth_feature_pass *pass, struct fth_feature_scratch *scratch,
                            struct fth_block *block, struct fth_batch *out, fth_error *err) {
    uint32_t lines[FTH_FEATURE_CHUNK];
    uint8_t bad[FTH_FEATURE_CHUNK];
    struct fth_feature_chunk chunk = {.program = pass->program, .block = block, .out = out,
                                      .lines = lines, .bad = bad, .err = err};
    if (!chunk.program->entries && block->n_lines > 0 &&
        block->n_columns != chunk.program->n_columns)
        return fth_fail(err, FTH_E_DATA, "%s:%llu: %u columns where the features were set up for %u",
                        block->file, (unsigned long long)block->first_line, block->n_columns,
                        chunk.program->n_columns);
    fth_batch_clear(out);
    block->n_bad_values = 0;
    block->first_cut.code = FTH_OK;
    FTH_TRY(fth_batch_reserve(out, block->n_lines, err));
    uint64_t refused = 0;
    for (uint32_t first = 0; first < block->n_lines; first += FTH_FEATURE_CHUNK) {
        chunk.n = block->n_lines - first;
        if (chunk.n > FTH_FEATURE_CHUNK)
            chunk.n = FTH_FEATURE_CHUNK;
        for (uint32_t i = 0; i < chunk.n; i++)
            lines[i] = first + i;
        chunk.base = out->n;
        FTH_TRY(run_chunk(&chunk, scratch));
        uint32_t good = 0;
        for (uint32_t i = 0; i < chunk.n; i++)
            if (!bad[i])
                lines[good++] = lines[i];
        if (good < chunk.n) {
            refused += chunk.n - good;
            chunk.n = good;
            FTH_TRY(run_chunk(&chunk, scratch));
        }
        out->n += good;
        if (chunk.skipped && block->n_bad_values == 0)
            block->first_bad_value = chunk.skipped_error;
        block->n_bad_values += chunk.skipped;
    }
    /* An empty chunk leaves the totals of the refused run behind. */
    for (uint32_t g = 0; g < chunk.program->n_groups; g++)
        out->groups[g].total = out->groups[g].offsets[out->n];
    if (chunk.cut.code != FTH_OK)
        block->first_cut = chunk.cut;
    block->n_bad += refused;
    if (refused && (block->first_bad.code == FTH_OK || chunk.bad_line < block->first_bad_line)) {
        block->first_bad = chunk.bad_error;
        block->first_bad_line = chunk.bad_line;
    }
    return FTH_OK;
}

fth_status fth_feature_examples(void *ctx, struct fth_block *block, struct fth_batch *out,
                                fth_error *err) {
    fth_feature_pass *pass = ctx;
    struct fth_feature_scratch *scratch;
    FTH_TRY(borrow_scratch(pass, &scratch, err));
    fth_status status = run_block(pass, scratch, block, out, err);
    give_back_scratch(pass, scratch);
    return status;
}

/* Mean and squared deviations of the batch's present values, by two passes in the order of rows. */
static void batch_statistics(const fth_feature_program *program, const struct fth_batch *batch,
                             double *count, double *mean, double *m2) {
    uint32_t r, running = program->n_running;
    memset(count, 0, running * sizeof *count);
    memset(mean, 0, running * sizeof *mean);
    memset(m2, 0, running * sizeof *m2);
    for (uint32_t i = 0; i < batch->n; i++)
        for (r = 0; r < running; r++) {
            float x = batch->dense[(size_t)i * batch->dense_ld + program->running_dense[r]];
            if (!isnan(x)) {
                count[r] += 1;
                mean[r] += (double)x;
            }
        }
    for (r = 0; r < running; r++)
        mean[r] = count[r] > 0 ? mean[r] / count[r] : 0;
    for (uint32_t i = 0; i < batch->n; i++)
        for (r = 0; r < running; r++) {
            float x = batch->dense[(size_t)i * batch->dense_ld + program->running_dense[r]];
            if (!isnan(x))
                m2[r] += ((double)x - mean[r]) * ((double)x - mean[r]);
        }
}

/* Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances"
 * (1979), formula 2.1: two sets of values merged. */
static void merge_statistics(double *state, double count, double mean, double m2) {
    if (count == 0)
        return;
    double total = state[0] + count, delta = mean - state[1];
    state[1] += delta * (count / total);
    state[2] += m2 + delta * delta * (state[0] * count / total);
    state[0] = total;
}

fth_status fth_feature_finish(void *ctx, struct fth_batch *batch, int train, fth_error *err) {
    fth_feature_pass *pass = ctx;
    const fth_feature_program *program = pass->program;
    uint32_t running = program->n_running;
    if (running == 0)
        return FTH_OK;
    double *mean = pass->scratch, *deviation = mean + running, *missing = mean + 2 * running;
    if (train) {
        double *count = mean + 3 * running, *m2 = mean + 4 * running;
        batch_statistics(program, batch, count, mean, m2);
        for (uint32_t r = 0; r < running; r++)
            merge_statistics(pass->state + 3 * r, count[r], mean[r], m2[r]);
        if (batch->after.n_feature_state != 3 * running) {
            fth_free(batch->after.feature_state);
            batch->after.n_feature_state = 0;
            batch->after.feature_state = fth_alloc(3 * (size_t)running, sizeof(double));
            if (batch->after.feature_state == NULL)
                return fth_fail(err, FTH_E_MEMORY, "no memory for running statistics");
            batch->after.n_feature_state = 3 * running;
        }
        memcpy(batch->after.feature_state, pass->state, 3 * running * sizeof(double));
    }
    for (uint32_t k = 0; k < program->n_numeric; k++) {
        int32_t r = program->numeric[k].running;
        if (r < 0)
            continue;
        const double *state = pass->state + 3 * r;
        double variance = state[0] > 0 ? state[2] / state[0] : 0;
        mean[r] = state[1];
        deviation[r] = variance > 0 ? sqrt(variance) : 1; /* a constant column becomes 0 */
        missing[r] = (double)program->numeric[k].missing_value;
    }
    for (uint32_t i = 0; i < batch->n; i++) {
        float *row = batch->dense + (size_t)i * batch->dense_ld;
        for (uint32_t r = 0; r < running; r++) {
            float *x = &row[program->running_dense[r]];
            *x = isnan(*x) ? (float)missing[r] : (float)(((double)*x - mean[r]) / deviation[r]);
        }
    }
    return FTH_OK;
}
