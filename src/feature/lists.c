/* Feature programs, ragged fields: lists with a separator, and the entries of libsvm and libffm. Runs
 * on the lines of one chunk, on any thread; appends positions to the chunk's batch. The offsets of a
 * chunk's rows are final when its last line is done; a refused line appends nothing. */
#include "feature/plain.h"
#include "feature/program_private.h"

#include <string.h>

/* Brackets around lists, as Python prints them, become part of the first and the last value, which trains without an
 * error. Looked at until a list has none, or so many have. */
#define IN_BRACKETS 100u

static int is_in_brackets(struct fth_feature_text text) {
    static const char brackets[] = "[](){}";
    const char *begin = text.length > 1 ? strchr(brackets, text.bytes[0]) : NULL;
    return begin && *begin && (begin - brackets) % 2 == 0 && text.bytes[text.length - 1] == begin[1] &&
           !memchr(text.bytes + 1, *begin, text.length - 1); /* else its values may be, each by itself */
}

static void look_for_brackets(const struct fth_feature_chunk *chunk, const struct fth_feature_field *field) {
    uint32_t before = atomic_load_explicit(field->in_brackets, memory_order_relaxed), found = before;
    for (uint32_t i = 0; i < chunk->n && found < IN_BRACKETS; i++) {
        struct fth_feature_text text = fth_feature_cell(chunk, i, field->column);
        if (!fth_feature_no_list(chunk->program, text))
            found = is_in_brackets(text) ? found + 1 : FTH_FEATURE_BARE;
    }
    if (found == FTH_FEATURE_BARE)
        atomic_store_explicit(field->in_brackets, found, memory_order_relaxed);
    else if (found != before) /* of two threads one counts, and a bare list stays known */
        atomic_compare_exchange_strong(field->in_brackets, &before, found);
}

const char *fth_feature_bracketed(const fth_feature_program *program, uint32_t field) {
    const struct fth_feature_field *of = &program->fields[field];
    uint32_t found = of->in_brackets ? atomic_load(of->in_brackets) : 0;
    if (found < IN_BRACKETS || found == FTH_FEATURE_BARE)
        return NULL;
    return of->joined ? of->joined->config->from.items[0] : of->info.column;
}

/* Elements of a cell: none in an empty or missing one, else one more than separators. */
static uint32_t count_tokens(const fth_feature_program *program,
                             const struct fth_feature_field *field, struct fth_feature_text text) {
    return fth_feature_no_list(program, text)
               ? 0
               : fth_split_count(text.bytes, text.length, &field->separator);
}

/* Elements of lists in `text` whose keys are yet to be made. */
struct hashed {
    const struct fth_feature_field *field;
    const char *text;
    const struct fth_keys *to;
    uint32_t at; /* where the keys go */
    struct fth_elements elements;
};

static void make_keys(void *ctx) {
    struct hashed *hashed = ctx;
    struct fth_elements *elements = &hashed->elements;
    fth_elements_begin(elements, &hashed->field->separator);
    fth_feature_hash_texts(hashed->field, elements->n, hashed->text, elements->begins, elements->ends, hashed->to,
                           hashed->at);
    hashed->at += elements->n;
    fth_elements_clear(elements);
}

static void begin_hashed(struct hashed *hashed, const struct fth_feature_field *field, const char *text,
                         const struct fth_keys *to, uint32_t at) {
    hashed->field = field;
    hashed->text = text;
    hashed->to = to;
    hashed->at = at;
    fth_elements_clear(&hashed->elements);
}

/* Writes the keys of the first `keep` elements from `start` on, split and hashed in one pass; how many. */
static uint32_t write_tokens(const fth_feature_program *program,
                             const struct fth_feature_field *field, const char *text,
                             uint32_t start, uint32_t length, uint32_t keep, const struct fth_keys *to, uint32_t at) {
    uint32_t written = 0;
    if (fth_feature_only_empty_missing(program)) {
        struct hashed hashed;
        begin_hashed(&hashed, field, text, to, at);
        written = fth_split_add(text, start, length, &field->separator, keep, 0, &hashed.elements, make_keys, &hashed);
        make_keys(&hashed);
        return written;
    }
    struct fth_split split;
    fth_split_begin(&split, text, start, length);
    while (written < keep && fth_split_window(&split, &field->separator)) {
        uint32_t n = split.n < keep - written ? split.n : keep - written;
        for (uint32_t t = 0; t < n; t++) {
            uint64_t code = fth_feature_text_code(program, field, text + split.start, split.ends[t] - split.start);
            fth_feature_put(to, at + written++, code);
            split.start = split.ends[t] + field->separator.length;
        }
    }
    if (written < keep)
        fth_feature_put(to, at + written++, fth_feature_text_code(program, field, text + split.start, length - split.start));
    return written;
}

fth_status fth_feature_reserve(struct fth_feature_chunk *chunk, uint32_t group, uint32_t used,
                               uint64_t more) {
    const struct fth_feature_group *g = &chunk->program->groups[group];
    size_t capacity = chunk->out->fields[chunk->program->group_fields[g->first]].capacity;
    uint64_t need = (uint64_t)used + more;
    if (need <= capacity)
        return FTH_OK;
    if (need > UINT32_MAX)
        return fth_fail(chunk->err, FTH_E_LIMIT,
                        "%s: more than 2^32 list positions in one block: lower data.block_bytes",
                        chunk->block->file);
    return fth_batch_reserve_positions(chunk->out, group, (uint32_t)need, chunk->err);
}

/* How many elements every list of the line has: all as many, or the line is refused and it is none. Beside lists of one
 * element an empty cell is one, which is missing. */
static uint32_t common_count(struct fth_feature_chunk *chunk, const struct fth_feature_group *group,
                             uint32_t i) {
    const fth_feature_program *program = chunk->program;
    const uint32_t *members = program->group_fields + group->first;
    uint32_t first_count = 0, count = 0;
    for (uint32_t m = 0; m < group->n; m++) {
        const struct fth_feature_field *field = &program->fields[members[m]];
        struct fth_feature_text text = fth_feature_cell(chunk, i, field->column);
        uint32_t n = count_tokens(program, field, text);
        if (m == 0)
            first_count = n;
        else if (n != first_count && (n > 1 || first_count > 1)) {
            const struct fth_feature_field *first = &program->fields[members[0]];
            fth_feature_refuse(chunk, i, field->joined ? NULL : text.bytes,
                               "column '%s' has %u elements where '%s' has %u; lists of one group "
                               "('%s') must be equally long",
                               field->info.column, n, first->info.column, first_count, group->name);
            return 0;
        }
        count = n > count ? n : count;
    }
    return count;
}

/* The keys of one cell's list, at most `max`, from `at` on; how many. one: an empty cell is one element. */
static fth_status run_cell(struct fth_feature_chunk *chunk, const struct fth_feature_group *group,
                           uint32_t f, uint32_t i, int one, uint32_t at, uint32_t *n) {
    const fth_feature_program *program = chunk->program;
    const struct fth_feature_field *field = &program->fields[f];
    const struct fth_keys *to = &chunk->out->fields[f];
    struct fth_feature_text text = fth_feature_cell(chunk, i, field->column);
    if (fth_feature_no_list(program, text)) {
        fth_feature_put(to, at, field->missing);
        *n = one != 0;
        return FTH_OK;
    }
    if (program->plain & FTH_PLAIN_SPLITS)
        return fth_feature_plain_keys(chunk, group, field, text, to, at, n);
    uint32_t start = group->keep_last
                         ? fth_split_tail(text.bytes, text.length, &field->separator, group->max)
                         : 0;
    *n = field->joined
             ? fth_feature_join_list(program, field, text.bytes, start, text.length, group->max, to, at)
             : write_tokens(program, field, text.bytes, start, text.length, group->max, to, at);
    return FTH_OK;
}

/* Whether more was there is only asked of the first list that is as long as the standard max_length lets it be. */
static void tell_if_cut(struct fth_feature_chunk *chunk, const struct fth_feature_group *group, uint32_t f, uint32_t i) {
    const struct fth_feature_field *field = &chunk->program->fields[f];
    struct fth_feature_text text = fth_feature_cell(chunk, i, field->column);
    char room[320];
    if (fth_split_tail(text.bytes, text.length, &field->separator, group->max) > 0)
        fth_feature_tell_cut(chunk, i, field->joined ? NULL : text.bytes,
                             "a list of column '%s' has more than %u values: only its %s %u are used (max_length of the "
                             "feature says how many)",
                             fth_feature_name_told(chunk->program, field->column, room), group->max,
                             group->keep_last ? "last" : "first", group->max);
}

static inline void note_length(struct fth_feature_chunk *chunk, const struct fth_feature_group *group, uint32_t f,
                               uint32_t i, uint32_t kept) {
    if (kept == group->max && group->unasked && chunk->cut.code == FTH_OK)
        tell_if_cut(chunk, group, f, i);
}

/* As fth_feature_run_lists, of one list that is hashed and lies in the block. */
static fth_status run_hashed(struct fth_feature_chunk *chunk, const struct fth_feature_group *group, uint32_t f) {
    const struct fth_feature_field *field = &chunk->program->fields[f];
    struct fth_ragged *ragged = &chunk->out->groups[field->info.group];
    const char *block = chunk->block->text;
    struct fth_feature_text texts[FTH_FEATURE_CHUNK];
    struct hashed hashed;
    begin_hashed(&hashed, field, block, &chunk->out->fields[f], ragged->offsets[chunk->base]);
    fth_feature_column(chunk, field->column, texts);
    for (uint32_t i = 0; i < chunk->n; i++) {
        uint32_t row = chunk->base + i, used = ragged->offsets[row], kept = 0;
        struct fth_feature_text text = texts[i];
        fth_feature_fetch_list(texts, i, chunk->n);
        uint32_t most = text.length + 1, start = (uint32_t)(text.bytes - block);
        FTH_TRY(fth_feature_reserve(chunk, (uint32_t)field->info.group, used, most < group->max ? most : group->max));
        if (!fth_feature_no_list(chunk->program, text)) {
            kept = fth_split_add(block, start, start + text.length, &field->separator, group->max, group->keep_last,
                                 &hashed.elements, make_keys, &hashed);
            note_length(chunk, group, f, i, kept);
        }
        ragged->offsets[row + 1] = used + kept;
        ragged->total = used + kept;
    }
    make_keys(&hashed);
    return FTH_OK;
}

fth_status fth_feature_run_lists(struct fth_feature_chunk *chunk,
                                 const struct fth_feature_group *group) {
    const fth_feature_program *program = chunk->program;
    const struct fth_feature_field *first = &program->fields[program->group_fields[group->first]];
    for (uint32_t m = 0; m < group->n && !program->unlabelled; m++)
        look_for_brackets(chunk, &program->fields[program->group_fields[group->first + m]]);
    if (group->n == 1 && !(program->plain & FTH_PLAIN_SPLITS) && !first->joined && first->column < chunk->block->n_columns &&
        fth_feature_only_empty_missing(program))
        return run_hashed(chunk, group, program->group_fields[group->first]);
    const uint32_t *members = program->group_fields + group->first;
    uint32_t g = (uint32_t)program->fields[members[0]].info.group;
    struct fth_ragged *ragged = &chunk->out->groups[g];
    for (uint32_t i = 0; i < chunk->n; i++) {
        uint32_t row = chunk->base + i, used = ragged->offsets[row], kept = 0;
        /* One list alone is not counted first: what is cut off at its end is never read. */
        uint32_t column = program->fields[members[0]].column;
        uint32_t most = group->n > 1 ? common_count(chunk, group, i)
                                     : fth_feature_cell(chunk, i, column).length + 1;
        FTH_TRY(fth_feature_reserve(chunk, g, used, most < group->max ? most : group->max));
        for (uint32_t m = 0; m < group->n && most; m++)
            FTH_TRY(run_cell(chunk, group, members[m], i, group->n > 1 && most == 1, used, &kept));
        note_length(chunk, group, members[0], i, kept);
        ragged->offsets[row + 1] = used + kept;
        ragged->total = used + kept;
    }
    return FTH_OK;
}

/* The field an entry belongs to; -1 when the configuration leaves it out. */
static int32_t entry_field(const fth_feature_program *program, const struct fth_entry *entry) {
    if (program->ffm_map == NULL)
        return 0;
    return entry->field < program->n_ffm_map ? program->ffm_map[entry->field] : -1;
}

/* Counts the line's entries of every field into offsets[row + 1]. */
static void count_entries(struct fth_feature_chunk *chunk, uint32_t i, uint32_t row,
                          const struct fth_entry *begin, const struct fth_entry *end) {
    const fth_feature_program *program = chunk->program;
    struct fth_ragged *groups = chunk->out->groups;
    for (uint32_t g = 0; g < program->n_groups; g++)
        groups[g].offsets[row + 1] = 0;
    for (const struct fth_entry *e = begin; e < end; e++) {
        int32_t f = entry_field(program, e);
        if (f >= 0) {
            groups[program->fields[f].info.group].offsets[row + 1]++;
        } else if (program->ffm_by_order) {
            fth_feature_refuse(chunk, i, fth_feature_entry_label(chunk, i).bytes,
                               "field %u is not among the %u configured ones, numbered from 0 in their "
                               "order (features.categorical: field chooses by number)",
                               e->field, program->n_fields);
            return;
        }
    }
}

fth_status fth_feature_run_entries(struct fth_feature_chunk *chunk) {
    const fth_feature_program *program = chunk->program;
    const struct fth_block *block = chunk->block;
    struct fth_batch *out = chunk->out;
    for (uint32_t i = 0; i < chunk->n; i++) {
        uint32_t line = chunk->lines[i], row = chunk->base + i;
        uint32_t n_entries = block->entry_start[line + 1] - block->entry_start[line];
        /* A block whose lines all have none may have no array of them. */
        const struct fth_entry *begin = n_entries ? block->entries + block->entry_start[line] : block->entries;
        const struct fth_entry *end = n_entries ? begin + n_entries : begin;
        count_entries(chunk, i, row, begin, end);
        if (chunk->bad[i])
            end = begin;
        /* From here offsets[row + 1] is where the field's next entry goes; entries to be skipped in
         * front of the kept ones fall below the row's first position (modulo 2^32). */
        for (uint32_t g = 0; g < program->n_groups; g++) {
            const struct fth_feature_group *group = &program->groups[g];
            uint32_t *offsets = out->groups[g].offsets;
            uint32_t used = offsets[row], count = chunk->bad[i] ? 0 : offsets[row + 1];
            uint32_t kept = count < group->max ? count : group->max;
            if (kept < count && group->unasked && chunk->cut.code == FTH_OK)
                fth_feature_tell_cut(chunk, i, fth_feature_entry_label(chunk, i).bytes,
                                     "feature '%s' has %u entries on a line: only the %s %u are used",
                                     program->fields[program->group_fields[group->first]].info.name,
                                     count, group->keep_last ? "last" : "first", group->max);
            FTH_TRY(fth_feature_reserve(chunk, g, used, kept));
            out->groups[g].total = used + kept;
            offsets[row + 1] = group->keep_last ? used - (count - kept) : used;
        }
        for (const struct fth_entry *e = begin; e < end; e++) {
            int32_t f = entry_field(program, e);
            if (f < 0)
                continue;
            const struct fth_feature_field *field = &program->fields[f];
            struct fth_ragged *ragged = &out->groups[field->info.group];
            uint32_t at = ragged->offsets[row + 1]++;
            if (at - ragged->offsets[row] >= ragged->total - ragged->offsets[row])
                continue;
            fth_feature_put(&out->fields[f], at, field->buckets ? fth_hash_mix(e->index) % field->buckets
                                                                : fth_number_key(field->salt, e->index));
            out->fields[f].values[at] = e->value;
        }
        for (uint32_t g = 0; g < program->n_groups; g++)
            out->groups[g].offsets[row + 1] = out->groups[g].total;
    }
    return FTH_OK;
}
