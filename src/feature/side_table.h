/* Side tables: a text for a text, from a file beside the data (an item's category). Filled on one thread, then
 * read by any number. */
#ifndef FTH_FEATURE_SIDE_TABLE_H
#define FTH_FEATURE_SIDE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct fth_side_table fth_side_table;

/* Between the texts of a cross, and so of a key of several columns: a byte that texts do not have. */
#define FTH_CROSS "\x1f"

/* Owned: fth_side_table_destroy (NULL-safe). */
fth_status fth_side_table_create(fth_side_table **out, fth_error *err);
void fth_side_table_destroy(fth_side_table *table);

/* Takes a pair in. A key that is there with another value stays as it is, and *differs is set. At most 4 GiB of
 * text (FTH_E_LIMIT). */
fth_status fth_side_table_add(fth_side_table *table, const char *key, uint32_t key_length,
                              const char *value, uint32_t value_length, int *differs, fth_error *err);

/* The same, but a key's values are collected: the new one stands behind `between`, if it is none that is there already;
 * empty ones are passed over. FTH_E_LIMIT also where a key has more than FTH_COLLECT_LIMIT bytes of them. */
#define FTH_COLLECT_LIMIT (256u << 10)
fth_status fth_side_table_collect(fth_side_table *table, const char *key, uint32_t key_length, const char *value,
                                  uint32_t value_length, const char *between, fth_error *err);

/* The key's value: 1 and *value (borrowed, FTH_TEXT_PADDING bytes may be read behind it), or 0. */
int fth_side_table_find(const fth_side_table *table, const char *key, uint32_t length,
                        const char **value, uint32_t *value_length);

/* Pairs are numbered from 1 on, as they came. hash: fth_hash_bytes(key, length, 0); FTH_TEXT_PADDING bytes may be
 * read behind the key. Its number, or 0. */
uint32_t fth_side_table_number(const fth_side_table *table, uint64_t hash, const char *key,
                               uint32_t length);
/* Told before the number is asked for: the key's place comes into the cache. */
void fth_side_table_prefetch(const fth_side_table *table, uint64_t hash);
/* How many pairs there are, and each of them, in no order. */
uint32_t fth_side_table_size(const fth_side_table *table);
typedef void (*fth_side_table_visit)(void *ctx, uint32_t number, const char *value, uint32_t value_length);
void fth_side_table_each(const fth_side_table *table, fth_side_table_visit visit, void *ctx);

#endif
