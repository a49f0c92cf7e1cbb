/* Names and their numbers: see base/names.h. Open addressing, half full at most. */
#include "base/names.h"

#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/number.h"

struct fth_name_place {
    const char *name; /* NULL: free */
    uint64_t hash;
    uint32_t number;
};

/* Where the name is, or would be. */
static struct fth_name_place *place_of(const struct fth_names *names, const char *name, uint64_t hash) {
    uint64_t at = fth_hash_place(hash, fth_hash_factor(), names->mask);
    while (names->places[at].name && (names->places[at].hash != hash || strcmp(names->places[at].name, name) != 0))
        at = (at + 1) & names->mask;
    return &names->places[at];
}

static int grow(struct fth_names *names) {
    struct fth_names bigger = {.n = names->n, .mask = names->places ? 2 * names->mask + 1 : 63};
    bigger.places = fth_alloc((size_t)bigger.mask + 1, sizeof *bigger.places);
    if (!bigger.places)
        return 0;
    for (uint32_t i = 0; names->places && i <= names->mask; i++)
        if (names->places[i].name)
            *place_of(&bigger, names->places[i].name, names->places[i].hash) = names->places[i];
    fth_free(names->places);
    *names = bigger;
    return 1;
}

int fth_names_add(struct fth_names *names, const char *name, uint32_t number, uint32_t *there) {
    if (2 * (uint64_t)names->n >= (uint64_t)names->mask && !grow(names))
        return 0;
    uint64_t hash = fth_hash_bytes(name, strlen(name), 0);
    struct fth_name_place *place = place_of(names, name, hash);
    *there = place->name ? place->number : FTH_NO_NAME;
    if (!place->name) {
        *place = (struct fth_name_place){.name = name, .hash = hash, .number = number};
        names->n++;
    }
    return 1;
}

uint32_t fth_names_find(const struct fth_names *names, const char *name) {
    if (!names->places)
        return FTH_NO_NAME;
    const struct fth_name_place *place = place_of(names, name, fth_hash_bytes(name, strlen(name), 0));
    return place->name ? place->number : FTH_NO_NAME;
}

void fth_names_free(struct fth_names *names) {
    fth_free(names->places);
    *names = (struct fth_names){0};
}

int fth_names_like_data(const char *const *names, uint32_t n) {
    float x;
    for (uint32_t i = 0; i < n; i++)
        if (fth_number_parse(names[i], strlen(names[i]), &x) == FTH_NUMBER_OK)
            return 1;
    return 0;
}
