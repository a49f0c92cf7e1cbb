/* A few short texts with numbers, found without branches: texts of up to eight bytes, held in a register with their
 * length, in a table without collisions that is laid out when a program is compiled (hash and displace: a small table
 * says for each group of texts by how much their slots are moved, so that no two fall on one). Exact, whatever bytes
 * come. Read-only once built; any thread. */
#ifndef FTH_FEATURE_WORDS_H
#define FTH_FEATURE_WORDS_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"

#define FTH_WORD_BYTES 8

struct fth_word {
    uint64_t bytes;  /* the text's, zeros behind them */
    uint32_t length; /* UINT32_MAX: an empty slot */
    uint32_t number;
};

struct fth_words {
    struct fth_word *slots; /* [mask + 1] */
    uint32_t *moves;        /* [move_mask + 1] */
    uint32_t mask, move_mask;
    uint64_t seed;
};

/* The first bytes of a text as a number; eight bytes may be read, whatever its length. */
static inline uint64_t fth_word_bytes(const char *text, uint32_t length) {
    uint64_t bytes;
    uint32_t half = 4 * (FTH_WORD_BYTES - (length < FTH_WORD_BYTES ? length : FTH_WORD_BYTES));
    memcpy(&bytes, text, sizeof bytes);
    /* In two halves, as a shift by all 64 bits is not defined. */
    return le64toh(bytes) << half << half >> half >> half;
}

static inline uint64_t fth_word_hash(const struct fth_words *words, uint64_t bytes, uint32_t length) {
    return fth_hash_mix(bytes ^ length * words->seed);
}

static inline uint32_t fth_word_slot(const struct fth_words *words, uint64_t hash, uint32_t move) {
    return ((uint32_t)(hash >> 32) + move) & words->mask;
}

/* Lays the n different words out (slots and moves live in the arena). */
fth_status fth_words_build(const struct fth_word *items, uint32_t n, fth_arena *arena,
                           struct fth_words *out, fth_error *err);

/* The text's number, or `other`; always that for one of more than eight bytes. */
static inline uint32_t fth_words_find(const struct fth_words *words, const char *text,
                                      uint32_t length, uint32_t other) {
    uint64_t bytes = fth_word_bytes(text, length), hash = fth_word_hash(words, bytes, length);
    uint32_t move = words->moves[(uint32_t)hash & words->move_mask];
    const struct fth_word *slot = &words->slots[fth_word_slot(words, hash, move)];
    uint32_t differs = (slot->bytes != bytes) | (slot->length != length);
    return differs ? other : slot->number;
}

#endif
