/* Vocabularies: texts of a table that have rows of their own, from a file or learned by counting. Learning is on one
 * thread; reading on any. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "feature/program_private.h"

/* Texts met so far, by hash. Where a table has more of them than `most`, those that were rarest so far are forgotten
 * (lossy counting: Manku and Motwani, "Approximate frequency counts over data streams", VLDB 2002): when one of them
 * comes again, it is counted from 0. Counts are then too low by at most the sum of the counts up to which texts were
 * forgotten, and never too high. */
struct fth_feature_counts {
    struct count {
        uint64_t hash, count, first; /* first: how many other texts were met before; count 0: an empty slot */
    } *slots;
    size_t n, mask;
    uint64_t factor; /* base/hash.h */
    uint64_t met; /* texts that were new when they came */
};

/* In [0, size + oov), of the hash of a text that is not missing; size + oov: it counts as missing. */
static inline uint64_t number_of(const struct fth_feature_vocabulary *vocabulary, uint64_t hash) {
    uint32_t n = vocabulary->codes.n, place = fth_codes_find(&vocabulary->codes, hash);
    return place == n && vocabulary->oov ? n + hash % vocabulary->oov : place;
}

#define FIRST_TEXTS 100000u /* that are counted of a field */

static void count_found(const struct fth_feature_field *field, uint32_t texts, uint32_t found) {
    struct fth_feature_lookups *lookups = field->lookups;
    if (!field->joined && atomic_load_explicit(&lookups->values, memory_order_relaxed) >= FIRST_TEXTS)
        return;
    atomic_fetch_add_explicit(&lookups->values, texts, memory_order_relaxed);
    atomic_fetch_add_explicit(&lookups->found, found, memory_order_relaxed);
}

static inline uint64_t key_of(const struct fth_feature_field *field, uint64_t number) {
    const struct fth_feature_vocabulary *vocabulary = field->vocabulary;
    return number < (uint64_t)vocabulary->codes.n + vocabulary->oov ? fth_number_key(field->salt, number) : field->missing;
}

uint64_t fth_feature_vocabulary_key(const struct fth_feature_field *field, const char *bytes, size_t length) {
    uint64_t number = number_of(field->vocabulary, fth_hash_bytes(bytes, length, 0));
    count_found(field, 1, number < field->vocabulary->codes.n);
    return key_of(field, number);
}

#define STRETCH 64u /* texts whose slots are asked for before they are looked at */

void fth_feature_vocabulary_keys(const struct fth_feature_field *field, uint32_t n, const char *text,
                                 const uint32_t *begins, const uint32_t *ends, uint64_t *keys) {
    const struct fth_feature_vocabulary *vocabulary = field->vocabulary;
    const struct fth_text_hash plain = {0};
    uint32_t texts = 0, found = 0;
    for (uint32_t from = 0, count; from < n; from += count) {
        count = n - from < STRETCH ? n - from : STRETCH;
        uint64_t hashes[STRETCH];
        fth_kernels_get()->text_keys(count, text, begins + from, ends + from, &plain, hashes, NULL);
        for (uint32_t i = 0; i < count; i++)
            fth_codes_prefetch(&vocabulary->codes, hashes[i]);
        for (uint32_t i = 0; i < count; i++) {
            int empty = begins[from + i] == ends[from + i];
            uint64_t number = number_of(vocabulary, hashes[i]), key = key_of(field, number);
            keys[from + i] = empty ? field->missing : key;
            texts += !empty;
            found += !empty && number < vocabulary->codes.n;
        }
    }
    count_found(field, texts, found);
}

/* What a join's file has is as a rule looked up more or less often: there only nothing at all is a sign. */
static int hardly_found(const struct fth_feature_field *field, uint64_t texts, uint64_t found) {
    return texts >= 20 && (found == 0 || (!field->joined && found < texts / 1000));
}

int fth_feature_warn_vocabularies(const fth_feature_program *program) {
    int warned = 0;
    for (uint32_t f = 0; f < program->n_fields; f++) {
        const struct fth_feature_field *field = &program->fields[f];
        if (!field->vocabulary)
            continue;
        uint64_t texts = atomic_load(&field->lookups->values), found = atomic_load(&field->lookups->found);
        if (!hardly_found(field, texts, found))
            continue;
        int file = *field->vocabulary->file != 0;
        fth_log(FTH_LOG_WARN, "feature '%s': %llu of %llu texts%s%s are in its vocabulary%s%s (%u texts)%s",
                field->info.name, (unsigned long long)found, (unsigned long long)texts, field->joined ? " of " : "",
                field->joined ? field->joined->config->file : "", file ? " " : ", which was learned",
                field->vocabulary->file, field->vocabulary->codes.n,
                file ? ": is it the right file, and written as the data are?"
                     : ": see its vocabulary_min_count and features.learn_lines");
        warned = 1;
    }
    return warned;
}

static void drop_counts(struct fth_feature_vocabulary *vocabulary) {
    if (vocabulary->counts)
        fth_free(vocabulary->counts->slots);
    fth_free(vocabulary->counts);
    vocabulary->counts = NULL;
}

void fth_feature_vocabulary_free(struct fth_feature_vocabulary *vocabulary) {
    drop_counts(vocabulary);
    fth_codes_free(&vocabulary->codes);
}

fth_status fth_feature_vocabulary_set(struct fth_feature_vocabulary *vocabulary, const uint64_t *hashes,
                                      uint32_t n, uint32_t *twice, fth_error *err) {
    struct fth_codes codes = {0};
    FTH_TRY(fth_codes_build(hashes, n, &codes, twice, err));
    if (*twice < n)
        return FTH_OK;
    fth_codes_free(&vocabulary->codes);
    vocabulary->codes = codes;
    vocabulary->ready = 1;
    return FTH_OK;
}

const char *fth_feature_vocabulary_file(const fth_feature_program *program, uint32_t v) {
    return v < program->n_vocabularies ? program->vocabularies[v].file : NULL;
}

fth_status fth_feature_set_vocabulary(fth_feature_program *program, uint32_t v, const char *const *texts,
                                      const size_t *lengths, uint32_t n, uint32_t *twice, fth_error *err) {
    uint64_t *hashes = fth_alloc((size_t)n + 1, sizeof *hashes);
    if (!hashes)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a vocabulary of %u texts", n);
    for (uint32_t i = 0; i < n; i++)
        hashes[i] = fth_hash_bytes(texts[i], lengths[i], 0);
    fth_status status = fth_feature_vocabulary_set(&program->vocabularies[v], hashes, n, twice, err);
    fth_free(hashes);
    return status == FTH_OK ? fth_feature_join_vocabularies(program, err) : status;
}

/* ---- learning ---- */

static struct count *find(const struct fth_feature_counts *counts, uint64_t hash) {
    size_t at = fth_hash_place(hash, counts->factor, counts->mask);
    while (counts->slots[at].count && counts->slots[at].hash != hash)
        at = (at + 1) & counts->mask;
    return &counts->slots[at];
}

/* Counts above `above` move into `slots` new slots. */
static fth_status move(struct fth_feature_counts *counts, size_t slots, uint64_t above, fth_error *err) {
    size_t old = counts->slots ? counts->mask + 1 : 0;
    struct count *before = counts->slots, *after = fth_alloc(slots, sizeof *after);
    if (!after)
        return fth_fail(err, FTH_E_MEMORY,
                        "no memory to count %zu texts: learn from fewer lines (features.learn_lines; 0 is all)", slots / 2);
    counts->slots = after;
    counts->mask = slots - 1;
    counts->factor = fth_hash_factor();
    counts->n = 0;
    for (size_t i = 0; i < old; i++)
        if (before[i].count > above) {
            *find(counts, before[i].hash) = before[i];
            counts->n++;
        }
    fth_free(before);
    return FTH_OK;
}

/* Forgets the rarest texts, half of all or more. */
static fth_status forget(struct fth_feature_counts *counts, fth_error *err) {
    uint64_t above = 0;
    for (size_t rare = 0; 2 * rare < counts->n; ) {
        above = above < 16 ? above + 1 : 2 * above;
        rare = 0;
        for (size_t i = 0; i <= counts->mask; i++)
            rare += counts->slots[i].count > 0 && counts->slots[i].count <= above;
    }
    return move(counts, counts->mask + 1, above, err);
}

static fth_status count_text(struct fth_feature_chunk *chunk, const struct fth_feature_vocabulary *vocabulary,
                             const char *bytes, uint32_t length) {
    struct fth_feature_counts *counts = vocabulary->counts;
    if (fth_feature_is_missing(chunk->program, bytes, length))
        return FTH_OK;
    uint64_t hash = fth_hash_bytes(bytes, length, 0);
    struct count *count = counts->slots ? find(counts, hash) : NULL;
    if (!count || count->count == 0) {
        if (counts->n >= vocabulary->most)
            FTH_TRY(forget(counts, chunk->err));
        if (!counts->slots || counts->n > counts->mask / 2)
            FTH_TRY(move(counts, counts->slots ? 2 * (counts->mask + 1) : 1024, 0, chunk->err));
        count = find(counts, hash);
        *count = (struct count){.hash = hash, .first = counts->met++};
        counts->n++;
    }
    count->count++;
    return FTH_OK;
}

/* Only the elements that are inputs: those that max_length cuts off would take the places of others. */
static fth_status count_list(struct fth_feature_chunk *chunk, const struct fth_feature_field *field,
                             const struct fth_feature_vocabulary *vocabulary, struct fth_feature_text text) {
    const struct fth_feature_group *group = &chunk->program->groups[field->info.group];
    const struct fth_separator *separator = &field->separator;
    uint32_t counted = 0;
    struct fth_split split;
    if (fth_feature_no_list(chunk->program, text))
        return FTH_OK;
    fth_split_begin(&split, text.bytes,
                    group->keep_last ? fth_split_tail(text.bytes, text.length, separator, group->max) : 0, text.length);
    while (counted < group->max && fth_split_window(&split, separator))
        for (uint32_t i = 0; i < split.n && counted < group->max; i++, counted++) {
            FTH_TRY(count_text(chunk, vocabulary, text.bytes + split.start, split.ends[i] - split.start));
            split.start = split.ends[i] + separator->length;
        }
    return counted < group->max
               ? count_text(chunk, vocabulary, text.bytes + split.start, text.length - split.start)
               : FTH_OK;
}

/* The texts of one line's cell. */
static fth_status count_cell(struct fth_feature_chunk *chunk, const struct fth_feature_field *field, uint32_t row) {
    const fth_feature_program *program = chunk->program;
    struct fth_feature_vocabulary *vocabulary =
        &program->vocabularies[field->vocabulary - program->vocabularies];
    uint32_t column = field->joined ? program->n_columns + (uint32_t)(field->joined - program->derived)
                                    : field->column;
    if (!vocabulary->counts)
        vocabulary->counts = fth_alloc(1, sizeof *vocabulary->counts);
    if (!vocabulary->counts)
        return fth_fail(chunk->err, FTH_E_MEMORY, "no memory to count texts");
    struct fth_feature_text text = fth_feature_cell(chunk, row, column);
    return field->separator.length ? count_list(chunk, field, vocabulary, text)
                                   : count_text(chunk, vocabulary, text.bytes, text.length);
}

/* Line by line: which text was met first does not depend on where chunks begin. */
fth_status fth_feature_count_texts(struct fth_feature_chunk *chunk) {
    const fth_feature_program *program = chunk->program;
    for (uint32_t row = 0; row < chunk->n; row++)
        for (uint32_t f = 0; f < program->n_fields; f++) {
            const struct fth_feature_field *field = &program->fields[f];
            if (field->vocabulary && !*field->vocabulary->file)
                FTH_TRY(count_cell(chunk, field, row));
        }
    return FTH_OK;
}

/* Frequent ones first, then those met first. */
static int by_count(const void *a, const void *b) {
    const struct count *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

fth_status fth_feature_choose_texts(struct fth_feature_vocabulary *vocabulary, fth_error *err) {
    struct fth_feature_counts *counts = vocabulary->counts;
    uint32_t n = 0, twice;
    size_t slots = counts && counts->slots ? counts->mask + 1 : 0;
    if (slots)
        qsort(counts->slots, slots, sizeof *counts->slots, by_count);
    while (n < slots && n < vocabulary->size && counts->slots[n].count >= vocabulary->min_count &&
           counts->slots[n].count > 0)
        n++;
    uint64_t *hashes = fth_alloc((size_t)n + 1, sizeof *hashes);
    if (!hashes)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a vocabulary of %u texts", n);
    for (uint32_t i = 0; i < n; i++)
        hashes[i] = counts->slots[i].hash;
    fth_status status = fth_feature_vocabulary_set(vocabulary, hashes, n, &twice, err);
    fth_free(hashes);
    drop_counts(vocabulary);
    return status;
}
