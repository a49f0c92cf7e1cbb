/* An open-addressing table over one run of text: see side_table.h. */
#include "feature/side_table.h"

#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "core/batch.h"
#include "feature/words.h"

struct slot {
    uint64_t hash;
    uint32_t key, value; /* where they begin in the text */
    uint32_t key_length, value_length;
    uint32_t number; /* of the pair, from 1 on; 0: an empty slot */
    uint32_t room;   /* of the value, where more were collected; what is there is free from value_length on */
};

struct fth_side_table {
    struct slot *slots;
    size_t n, mask; /* pairs; slots - 1, a power of two less one */
    uint64_t factor; /* base/hash.h */
    char *text;
    size_t length, capacity;
};

fth_status fth_side_table_create(fth_side_table **out, fth_error *err) {
    fth_side_table *table = fth_alloc(1, sizeof *table);
    if (table) {
        table->mask = 1023;
        table->factor = fth_hash_factor();
        table->slots = fth_alloc(table->mask + 1, sizeof *table->slots);
        table->text = fth_alloc(table->capacity = 1 << 14, 1);
    }
    if (!table || !table->slots || !table->text) {
        fth_side_table_destroy(table);
        return fth_fail(err, FTH_E_MEMORY, "no memory for a side table");
    }
    *out = table;
    return FTH_OK;
}

void fth_side_table_destroy(fth_side_table *table) {
    if (!table)
        return;
    fth_free(table->slots);
    fth_free(table->text);
    fth_free(table);
}

/* Keys are short: no call for those that two loads of eight bytes hold. FTH_TEXT_PADDING bytes may be read behind each. */
static inline int same_text(const char *a, const char *b, uint32_t length) {
    if (length > 2 * FTH_WORD_BYTES)
        return memcmp(a, b, length) == 0;
    uint32_t first = length < FTH_WORD_BYTES ? length : FTH_WORD_BYTES;
    uint64_t differ = fth_word_bytes(a, first) ^ fth_word_bytes(b, first);
    differ |= fth_word_bytes(a + first, length - first) ^ fth_word_bytes(b + first, length - first);
    return differ == 0;
}

/* The key's slot, or the empty one where it would be. padded: FTH_TEXT_PADDING bytes may be read behind the key. */
static inline struct slot *find(const fth_side_table *table, uint64_t hash, const char *key,
                                uint32_t length, int padded) {
    for (size_t at = fth_hash_place(hash, table->factor, table->mask);; at = (at + 1) & table->mask) {
        struct slot *slot = &table->slots[at];
        if (slot->number == 0 || (slot->hash == hash && slot->key_length == length &&
                            (padded ? same_text(table->text + slot->key, key, length)
                                    : memcmp(table->text + slot->key, key, length) == 0)))
            return slot;
    }
}

static fth_status grow_slots(fth_side_table *table, fth_error *err) {
    size_t larger = 2 * (table->mask + 1);
    struct slot *old = table->slots, *slots = fth_alloc(larger, sizeof *slots);
    if (!slots)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a side table of %zu keys", table->n);
    for (size_t i = 0; i <= table->mask; i++) {
        size_t at = fth_hash_place(old[i].hash, table->factor, larger - 1);
        while (old[i].number && slots[at].number)
            at = (at + 1) & (larger - 1);
        if (old[i].number)
            slots[at] = old[i];
    }
    table->slots = slots;
    table->mask = larger - 1;
    fth_free(old);
    return FTH_OK;
}

/* Room for `length` more bytes of text. */
static fth_status reserve(fth_side_table *table, size_t length, fth_error *err) {
    size_t need = table->length + length + FTH_TEXT_PADDING;
    if (need > UINT32_MAX)
        return fth_fail(err, FTH_E_LIMIT, "a side table holds at most 4 GiB of text");
    if (need <= table->capacity)
        return FTH_OK;
    size_t larger = need + need / 2;
    char *text = fth_alloc(larger, 1);
    if (!text)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a side table of %zu bytes", need);
    memcpy(text, table->text, table->length);
    fth_free(table->text);
    table->text = text;
    table->capacity = larger;
    return FTH_OK;
}

static fth_status put_text(fth_side_table *table, const char *bytes, uint32_t length, uint32_t *at,
                           fth_error *err) {
    FTH_TRY(reserve(table, length, err));
    *at = (uint32_t)table->length;
    memcpy(table->text + table->length, bytes, length);
    table->length += length;
    return FTH_OK;
}

fth_status fth_side_table_add(fth_side_table *table, const char *key, uint32_t key_length,
                              const char *value, uint32_t value_length, int *differs,
                              fth_error *err) {
    uint64_t hash = fth_hash_bytes(key, key_length, 0);
    struct slot *slot = find(table, hash, key, key_length, 0);
    *differs = 0;
    if (slot->number) {
        *differs = slot->value_length != value_length ||
                   memcmp(table->text + slot->value, value, value_length) != 0;
        return FTH_OK;
    }
    if (table->n >= table->mask / 2) {
        FTH_TRY(grow_slots(table, err));
        slot = find(table, hash, key, key_length, 0);
    }
    if (table->n >= UINT32_MAX - 1)
        return fth_fail(err, FTH_E_LIMIT, "a side table holds at most 2^32 - 2 keys");
    struct slot made = {.hash = hash, .key_length = key_length, .value_length = value_length,
                        .number = (uint32_t)table->n + 1};
    FTH_TRY(put_text(table, key, key_length, &made.key, err));
    FTH_TRY(put_text(table, value, value_length, &made.value, err));
    *slot = made;
    table->n++;
    return FTH_OK;
}

static int is_among(const char *values, size_t length, const char *between, const char *value, size_t n) {
    size_t gap = strlen(between);
    for (const char *at = values, *end = values + length, *stop;; at = stop + gap) {
        stop = memmem(at, (size_t)(end - at), between, gap);
        size_t here = (size_t)((stop ? stop : end) - at);
        if (here == n && memcmp(at, value, n) == 0)
            return 1;
        if (!stop)
            return 0;
    }
}

/* Room for a value of `need` bytes: it grows where it stands at the text's end, else it moves there, with as much again
 * free behind it, so that keys whose values come in turns take at most four times their text. */
static fth_status make_room(fth_side_table *table, struct slot *slot, uint32_t need, fth_error *err) {
    uint32_t has = slot->room > slot->value_length ? slot->room : slot->value_length;
    if (need <= has)
        return FTH_OK;
    if (slot->value + (size_t)has == table->length) {
        FTH_TRY(reserve(table, need - has, err));
        table->length += need - has;
        slot->room = need;
        return FTH_OK;
    }
    FTH_TRY(reserve(table, 2 * (size_t)need, err));
    memcpy(table->text + table->length, table->text + slot->value, slot->value_length);
    slot->value = (uint32_t)table->length;
    slot->room = 2 * need;
    table->length += slot->room;
    return FTH_OK;
}

fth_status fth_side_table_collect(fth_side_table *table, const char *key, uint32_t key_length, const char *value,
                                  uint32_t value_length, const char *between, fth_error *err) {
    struct slot *slot = find(table, fth_hash_bytes(key, key_length, 0), key, key_length, 0);
    uint32_t gap = (uint32_t)strlen(between), length = slot->value_length;
    int differs;
    if (slot->number == 0)
        return fth_side_table_add(table, key, key_length, value, value_length, &differs, err);
    if (value_length == 0 || is_among(table->text + slot->value, length, between, value, value_length))
        return FTH_OK;
    if (length > FTH_COLLECT_LIMIT || value_length > FTH_COLLECT_LIMIT)
        return fth_fail(err, FTH_E_LIMIT, "a key has at most %u KiB of values", FTH_COLLECT_LIMIT >> 10);
    gap = length ? gap : 0;
    FTH_TRY(make_room(table, slot, length + gap + value_length, err));
    char *end = table->text + slot->value + length;
    memcpy(end, between, gap);
    memcpy(end + gap, value, value_length);
    slot->value_length = length + gap + value_length;
    return FTH_OK;
}

int fth_side_table_find(const fth_side_table *table, const char *key, uint32_t length,
                        const char **value, uint32_t *value_length) {
    const struct slot *slot = find(table, fth_hash_bytes(key, length, 0), key, length, 0);
    if (slot->number == 0)
        return 0;
    *value = table->text + slot->value;
    *value_length = slot->value_length;
    return 1;
}

void fth_side_table_prefetch(const fth_side_table *table, uint64_t hash) {
    __builtin_prefetch(&table->slots[fth_hash_place(hash, table->factor, table->mask)]);
}

uint32_t fth_side_table_number(const fth_side_table *table, uint64_t hash, const char *key,
                               uint32_t length) {
    return find(table, hash, key, length, 1)->number;
}

uint32_t fth_side_table_size(const fth_side_table *table) { return (uint32_t)table->n; }

void fth_side_table_each(const fth_side_table *table, fth_side_table_visit visit, void *ctx) {
    for (size_t i = 0; i <= table->mask; i++) {
        const struct slot *slot = &table->slots[i];
        if (slot->number)
            visit(ctx, slot->number, table->text + slot->value, slot->value_length);
    }
}
