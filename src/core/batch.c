/* Allocation and copying of batches and blocks: see core/batch.h. Every array is zeroed beyond what was
 * written; growing one that fails leaves the batch as it was. */
#include "core/batch.h"

#include <string.h>

#include "base/memory.h"

#define FEW 256 /* examples whose lists tell little of the others' */

static fth_status no_memory(fth_error *err, uint64_t count, const char *what) {
    return fth_fail(err, FTH_E_MEMORY,
                    "no memory for a batch of %llu %s; train.batch_size, data.shuffle and data.queue_depth say how many are held",
                    (unsigned long long)count, what);
}

/* Replaces *array by one of `count` elements that starts with the `keep` first ones of the old. */
static int grow(void *array, size_t size, size_t keep, size_t count) {
    void *old;
    memcpy(&old, array, sizeof old);
    void *fresh = fth_alloc(count, size);
    if (!fresh)
        return 0;
    if (old && keep)
        memcpy(fresh, old, keep * size);
    fth_free(old);
    memcpy(array, &fresh, sizeof fresh);
    return 1;
}

/* At least `need`, and half as much again as there was, so that appending costs constant time each. */
static uint32_t next_capacity(uint32_t capacity, uint32_t need) {
    uint64_t larger = (uint64_t)capacity + capacity / 2;
    if (larger > UINT32_MAX)
        larger = UINT32_MAX;
    return larger > need ? (uint32_t)larger : need;
}

/* Whether an array is a piece of the block that was made for all lists. */
static int in_lists(const struct fth_batch *batch, const void *array) {
    return (uintptr_t)array - (uintptr_t)batch->lists < batch->lists_bytes;
}

static int has_numbers(const struct fth_schema *schema, uint32_t f) {
    return schema->field_buckets && schema->field_buckets[f];
}

/* Bytes of a key as the field keeps it. */
static size_t key_size(const struct fth_schema *schema, uint32_t f) {
    return has_numbers(schema, f) ? sizeof(uint32_t) : sizeof(uint64_t);
}

static void *keys_of(const struct fth_keys *field) {
    return field->numbers ? (void *)field->numbers : field->keys;
}

static void free_keys(const struct fth_batch *batch, struct fth_keys *field) {
    if (in_lists(batch, keys_of(field)))
        return;
    fth_free(keys_of(field));
    fth_free(field->values);
}

/* These arrays in place of those that a field had, if it had any, with what was in them. */
static void keep_keys(struct fth_batch *batch, uint32_t f, size_t used, size_t capacity, void *keys, float *values) {
    struct fth_keys *field = &batch->fields[f];
    if (keys_of(field) && used)
        memcpy(keys, keys_of(field), used * key_size(batch->schema, f));
    if (field->values && used)
        memcpy(values, field->values, used * sizeof *values);
    free_keys(batch, field);
    if (has_numbers(batch->schema, f))
        field->numbers = keys;
    else
        field->keys = keys;
    field->values = values;
    field->capacity = capacity;
}

static int grow_keys(struct fth_batch *batch, uint32_t f, size_t used, size_t capacity) {
    int weighted = batch->schema->field_weighted[f];
    if (batch->fields[f].capacity >= capacity)
        return 1;
    void *keys = fth_alloc(capacity, key_size(batch->schema, f));
    float *values = weighted ? fth_alloc(capacity, sizeof *values) : NULL;
    if (!keys || (weighted && !values)) {
        fth_free(keys);
        fth_free(values);
        return 0;
    }
    keep_keys(batch, f, used, capacity, keys, values);
    return 1;
}

fth_status fth_batch_create(const struct fth_schema *schema, uint32_t capacity, struct fth_batch **out,
                            fth_error *err) {
    struct fth_batch *batch = fth_alloc(1, sizeof *batch);
    if (!batch)
        return no_memory(err, capacity, "examples");
    batch->schema = schema;
    batch->dense_ld = schema->n_dense ? fth_padded_columns(schema->n_dense) : 0;
    batch->groups = fth_alloc(schema->n_groups, sizeof *batch->groups);
    batch->fields = fth_alloc(schema->n_fields, sizeof *batch->fields);
    fth_status status = FTH_OK;
    if (!batch->groups || !batch->fields)
        status = no_memory(err, capacity, "examples");
    else {
        for (uint32_t f = 0; f < schema->n_fields; f++) {
            batch->fields[f].group = schema->field_group[f];
            batch->fields[f].salt = schema->field_salt ? schema->field_salt[f] : 0;
        }
        status = fth_batch_reserve(batch, capacity ? capacity : 1, err);
    }
    if (status != FTH_OK) {
        fth_batch_destroy(batch);
        return status;
    }
    *out = batch;
    return FTH_OK;
}

void fth_batch_destroy(struct fth_batch *batch) {
    if (!batch)
        return;
    for (uint32_t g = 0; batch->groups && g < batch->schema->n_groups; g++)
        fth_free(batch->groups[g].offsets);
    for (uint32_t f = 0; batch->fields && f < batch->schema->n_fields; f++)
        free_keys(batch, &batch->fields[f]);
    fth_free(batch->lists);
    fth_free(batch->groups);
    fth_free(batch->fields);
    fth_free(batch->dense);
    fth_free(batch->label);
    fth_free(batch->weight);
    fth_free(batch->query);
    fth_free(batch->example_number);
    fth_free(batch->after.feature_state);
    fth_free(batch);
}

fth_status fth_batch_reserve(struct fth_batch *batch, uint32_t examples, fth_error *err) {
    const struct fth_schema *schema = batch->schema;
    if (examples <= batch->capacity)
        return FTH_OK;
    size_t count = next_capacity(batch->capacity, examples), n = batch->n;
    if (batch->most && count > batch->most)
        count = batch->most > examples ? batch->most : examples;
    size_t labels = fth_schema_tasks(schema) * sizeof(float);
    int ok = grow(&batch->label, labels, n, count) &&
             grow(&batch->example_number, sizeof *batch->example_number, n, count);
    if (schema->n_dense)
        ok = ok && grow(&batch->dense, sizeof(float) * batch->dense_ld, n, count);
    if (schema->has_weight)
        ok = ok && grow(&batch->weight, labels, n, count);
    if (schema->has_query)
        ok = ok && grow(&batch->query, sizeof *batch->query, n, count);
    for (uint32_t g = 0; ok && g < schema->n_groups; g++)
        ok = grow(&batch->groups[g].offsets, sizeof(uint32_t), batch->capacity ? n + 1 : 0, count + 1);
    for (uint32_t f = 0; ok && f < schema->n_fields; f++)
        if (schema->field_group[f] == FTH_NO_GROUP)
            ok = grow_keys(batch, f, n, count);
    if (!ok)
        return no_memory(err, count, "examples");
    batch->capacity = (uint32_t)count;
    return FTH_OK;
}

fth_status fth_batch_reserve_positions(struct fth_batch *batch, uint32_t group, uint32_t positions,
                                       fth_error *err) {
    const struct fth_schema *schema = batch->schema;
    for (uint32_t f = schema->n_fields; f-- > 0;) { /* the first, whose room is asked for, when all others have it */
        struct fth_keys *keys = &batch->fields[f];
        if (keys->group != (int32_t)group || keys->capacity >= positions)
            continue;
        size_t capacity = next_capacity((uint32_t)keys->capacity, positions);
        if (!grow_keys(batch, f, batch->groups[group].total, capacity))
            return no_memory(err, capacity, "ragged positions");
    }
    return FTH_OK;
}

/* Numbers of 4 or 8 bytes. */
static void append_column(void *to, const void *from, size_t size, const uint32_t *index,
                          uint32_t n, int run) {
    char *bytes = to;
    const char *source = from;
    if (run) {
        memcpy(bytes, source + index[0] * size, n * size);
        return;
    }
    for (uint32_t k = 0; size == 8 && k < n; k++)
        memcpy(bytes + k * (size_t)8, source + index[k] * (size_t)8, 8);
    for (uint32_t k = 0; size == 4 && k < n; k++)
        memcpy(bytes + k * (size_t)4, source + index[k] * (size_t)4, 4);
}

/* The tasks' numbers of each example. */
static void append_labels(float *to, const float *from, uint32_t tasks, const uint32_t *index, uint32_t n,
                          int run) {
    if (run || tasks == 1) {
        append_column(to, from, tasks * sizeof *to, index, n, run);
        return;
    }
    for (uint32_t k = 0; k < n; k++)
        memcpy(to + (size_t)k * tasks, from + (size_t)index[k] * tasks, tasks * sizeof *to);
}

/* The positions there is room for in every field of the group. */
static size_t group_capacity(const struct fth_batch *batch, uint32_t group) {
    size_t least = SIZE_MAX;
    for (uint32_t f = 0; f < batch->schema->n_fields; f++)
        if (batch->fields[f].group == (int32_t)group && batch->fields[f].capacity < least)
            least = batch->fields[f].capacity;
    return least;
}

/* Room for so many positions of so many examples, and for those that the others of a full batch will have if they are
 * like these: growing by halves would write the memory three times, and copy most of it twice. Few say little. */
static uint32_t expected_positions(const struct fth_batch *batch, uint32_t examples, uint64_t positions) {
    double all = 1.125 * (double)positions / examples * batch->capacity;
    if (examples < FEW && all > 4.0 * (double)positions)
        all = 4.0 * (double)positions;
    return all > (double)positions && all < UINT32_MAX ? (uint32_t)all : (uint32_t)positions;
}

/* The group's positions when these examples are appended. */
static uint64_t positions_with(const struct fth_batch *to, const struct fth_batch *from, uint32_t group,
                               const uint32_t *index, uint32_t n) {
    const uint32_t *offsets = from->groups[group].offsets;
    uint64_t total = to->groups[group].total;
    for (uint32_t k = 0; k < n; k++)
        total += offsets[index[k] + 1] - offsets[index[k]];
    return total;
}

/* Whole lines, an odd number of them, so that fields' arrays of one size begin in different places of the cache's sets. */
static size_t room_for(size_t count, size_t size) {
    size_t lines = (count * size + FTH_CACHE_LINE - 1) / FTH_CACHE_LINE;
    return (lines | 1) * FTH_CACHE_LINE;
}

/* One block for the lists of all fields, so that it lies on huge pages where single fields' would be too small for that:
 * expected[f] positions of field f. */
static int place_lists(struct fth_batch *batch, const uint32_t *expected) {
    const struct fth_schema *schema = batch->schema;
    size_t bytes = 0;
    for (uint32_t f = 0; f < schema->n_fields; f++) {
        bytes += expected[f] ? room_for(expected[f], key_size(schema, f)) : 0;
        bytes += expected[f] && schema->field_weighted[f] ? room_for(expected[f], sizeof(float)) : 0;
    }
    char *at = batch->lists = fth_alloc(bytes, 1);
    if (!at)
        return 0;
    for (uint32_t f = 0; f < schema->n_fields; f++) {
        if (!expected[f])
            continue;
        void *keys = at;
        float *values = NULL;
        at += room_for(expected[f], key_size(schema, f));
        if (schema->field_weighted[f]) {
            values = (float *)(void *)at;
            at += room_for(expected[f], sizeof *values);
        }
        keep_keys(batch, f, batch->groups[schema->field_group[f]].total, expected[f], keys, values);
    }
    batch->lists_bytes = bytes;
    return 1;
}

/* Room for all lists of `examples` examples, these appended. */
static fth_status reserve_lists(struct fth_batch *to, const struct fth_batch *from, const uint32_t *index, uint32_t n,
                                uint32_t examples, fth_error *err) {
    const struct fth_schema *schema = to->schema;
    uint32_t *expected = fth_alloc(schema->n_fields, sizeof *expected);
    if (!expected)
        return no_memory(err, schema->n_fields, "fields");
    for (uint32_t f = 0; f < schema->n_fields; f++) {
        const struct fth_keys *field = &to->fields[f];
        if (field->group == FTH_NO_GROUP)
            continue;
        uint64_t positions = positions_with(to, from, (uint32_t)field->group, index, n);
        expected[f] = expected_positions(to, examples, positions);
        if (field->capacity > expected[f])
            expected[f] = (uint32_t)field->capacity;
    }
    int placed = place_lists(to, expected);
    fth_free(expected);
    return placed ? FTH_OK : no_memory(err, examples, "examples' lists");
}

static fth_status reserve_for(struct fth_batch *to, const struct fth_batch *from,
                              const uint32_t *index, uint32_t n, fth_error *err) {
    uint32_t examples;
    if (__builtin_add_overflow(to->n, n, &examples))
        return fth_fail(err, FTH_E_LIMIT, "a batch cannot hold more than %u examples", UINT32_MAX);
    for (uint32_t k = 0; k < n; k++)
        if (index[k] >= from->n)
            return fth_fail(err, FTH_E_ARGUMENT, "example %u of a batch of %u", index[k], from->n);
    FTH_TRY(fth_batch_reserve(to, examples, err));
    int lacking = 0;
    for (uint32_t g = 0; g < to->schema->n_groups; g++) {
        uint64_t total = positions_with(to, from, g, index, n);
        if (total > UINT32_MAX)
            return fth_fail(err, FTH_E_LIMIT, "a batch cannot hold more than %u positions of one group",
                            UINT32_MAX);
        lacking |= total > group_capacity(to, g);
    }
    /* Once, when enough of them have been seen: where an estimate is too low the field gets arrays of its own. */
    if (lacking && !to->lists && examples >= FEW)
        return reserve_lists(to, from, index, n, examples, err);
    for (uint32_t g = 0; lacking && g < to->schema->n_groups; g++) {
        uint64_t total = positions_with(to, from, g, index, n);
        if (total > group_capacity(to, g))
            FTH_TRY(fth_batch_reserve_positions(to, g, expected_positions(to, examples, total), err));
    }
    return FTH_OK;
}

/* Whether the indices are consecutive, as they are where nothing is held out or shuffled. */
static int is_run(const uint32_t *index, uint32_t n) {
    uint32_t other = 0;
    for (uint32_t k = 0; k < n; k++)
        other |= index[k] ^ (index[0] + k);
    return n && !other;
}

/* A run of examples' lists lies in one piece. */
static void append_ragged_field(struct fth_keys *dst, const struct fth_keys *src, size_t size, uint32_t at,
                                const uint32_t *offsets, const uint32_t *index, uint32_t n, int run) {
    char *to = keys_of(dst);
    const char *source = keys_of(src);
    for (uint32_t k = 0, next; k < n; k = next) {
        next = run ? n : k + 1;
        uint32_t from = offsets[index[k]], count = offsets[index[next - 1] + 1] - from;
        if (!count)
            continue;
        memcpy(to + at * size, source + from * size, count * size);
        if (dst->values)
            memcpy(dst->values + at, src->values + from, count * sizeof *dst->values);
        at += count;
    }
}

/* Column by column, so that the reads of a column that miss the cache overlap. */
fth_status fth_batch_append(struct fth_batch *to, const struct fth_batch *from,
                            const uint32_t *index, uint32_t n, fth_error *err) {
    const struct fth_schema *schema = to->schema;
    FTH_TRY(reserve_for(to, from, index, n, err));
    uint32_t at = to->n;
    int run = is_run(index, n);
    uint32_t tasks = fth_schema_tasks(schema);
    append_labels(to->label + (size_t)at * tasks, from->label, tasks, index, n, run);
    append_column(to->example_number + at, from->example_number, sizeof *to->example_number, index,
                  n, run);
    for (uint32_t k = 0; schema->n_dense && k < n; k++)
        memcpy(to->dense + (size_t)(at + k) * to->dense_ld,
               from->dense + (size_t)index[k] * from->dense_ld, schema->n_dense * sizeof(float));
    if (schema->has_weight)
        append_labels(to->weight + (size_t)at * tasks, from->weight, tasks, index, n, run);
    if (schema->has_query)
        append_column(to->query + at, from->query, sizeof *to->query, index, n, run);
    for (uint32_t f = 0; f < schema->n_fields; f++) {
        struct fth_keys *dst = &to->fields[f];
        const struct fth_keys *src = &from->fields[f];
        size_t size = key_size(schema, f);
        int32_t group = dst->group;
        if (group == FTH_NO_GROUP) {
            append_column((char *)keys_of(dst) + at * size, keys_of(src), size, index, n, run);
            if (dst->values)
                append_column(dst->values + at, src->values, sizeof *dst->values, index, n, run);
        } else {
            append_ragged_field(dst, src, size, to->groups[group].total, from->groups[group].offsets, index, n, run);
        }
    }
    for (uint32_t g = 0; g < schema->n_groups; g++) {
        const uint32_t *offsets = from->groups[g].offsets;
        for (uint32_t k = 0; k < n; k++) {
            to->groups[g].total += offsets[index[k] + 1] - offsets[index[k]];
            to->groups[g].offsets[at + k + 1] = to->groups[g].total;
        }
    }
    to->n = at + n;
    return FTH_OK;
}

void fth_batch_clear(struct fth_batch *batch) {
    double *state = batch->after.feature_state;
    size_t n_state = batch->after.n_feature_state;
    batch->n = 0;
    for (uint32_t g = 0; g < batch->schema->n_groups; g++)
        batch->groups[g].total = 0;
    batch->after = (struct fth_position){.feature_state = state, .n_feature_state = n_state};
}

fth_status fth_block_create(struct fth_block **out, fth_error *err) {
    struct fth_block *block = fth_alloc(1, sizeof *block);
    if (!block)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a block of lines");
    *out = block;
    return FTH_OK;
}

void fth_block_destroy(struct fth_block *block) {
    if (!block)
        return;
    fth_free(block->text);
    fth_free(block->cells);
    fth_free(block->entry_start);
    fth_free(block->entries);
    fth_free(block->labels);
    fth_free(block->line_start);
    fth_free(block->line_end);
    fth_free(block->line_number);
    fth_free(block->drawn_by);
    fth_free(block->example_number);
    fth_free(block);
}
