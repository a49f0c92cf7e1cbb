/* Feature programs, one permutation and one sign random projection (OP+OSRP): Zhao et al., "Distributed Hierarchical
 * GPU Parameter Server for Massive Scale Deep Learning Ads Systems", MLSys 2020, section 2. A line's features, each
 * text of each column, are ones among very many columns. The columns are permuted (here: a 2-universal hash gives
 * a column's place) and cut into k bins; in each bin the sum of random signs is taken, and its sign says which of
 * the bin's two new features is there. A sum of 0 gives none.
 *
 * Runs on the lines of one chunk, on any thread. The numbers of the hashes follow from the table's name: keys are
 * stable. */
#include <stdlib.h>

#include "feature/program_private.h"

#define PRIME (((uint64_t)1 << 61) - 1)

/* (a x + b) mod 2^61 - 1: Carter, Wegman, "Universal classes of hash functions" (1979). */
static uint64_t universal(uint64_t a, uint64_t b, uint64_t x) {
    unsigned __int128 y = (unsigned __int128)a * (x % PRIME) + b;
    uint64_t folded = (uint64_t)(y & PRIME) + (uint64_t)(y >> 61);
    folded = (folded & PRIME) + (folded >> 61);
    return folded == PRIME ? 0 : folded;
}

void fth_feature_osrp_begin(struct fth_feature_osrp *osrp, uint64_t salt) {
    for (int i = 0; i < 4; i++)
        osrp->hash[i] = fth_hash_mix(salt + 0x9e3779b97f4a7c15ull * (uint64_t)(i + 1)) % PRIME;
    osrp->hash[0] |= 1; /* the factors are not 0 */
    osrp->hash[2] |= 1;
}

/* bin * 2 + (1: the sign is plus). */
static uint64_t project(const struct fth_feature_osrp *osrp, uint64_t feature) {
    uint64_t place = universal(osrp->hash[0], osrp->hash[1], feature);
    uint64_t sign = universal(osrp->hash[2], osrp->hash[3], feature) >> 60;
    uint64_t bin = (uint64_t)((unsigned __int128)place * osrp->bins / PRIME);
    return bin * 2 + sign;
}

/* The features of one text: none when it is missing. */
static uint32_t put(const struct fth_feature_chunk *chunk, const struct fth_feature_osrp *osrp,
                    uint32_t column, const char *bytes, uint32_t length, uint64_t *out) {
    if (fth_feature_is_missing(chunk->program, bytes, length))
        return 0;
    *out = project(osrp, fth_hash_bytes(bytes, length, osrp->salts[column]));
    return 1;
}

static uint32_t put_list(const struct fth_feature_chunk *chunk, const struct fth_feature_osrp *osrp,
                         const struct fth_separator *separator, uint32_t column,
                         struct fth_feature_text text, uint64_t *out) {
    struct fth_split split;
    uint32_t n = 0;
    if (fth_feature_no_list(chunk->program, text))
        return 0;
    fth_split_begin(&split, text.bytes, 0, text.length);
    while (fth_split_window(&split, separator))
        for (uint32_t i = 0; i < split.n; i++) {
            n += put(chunk, osrp, column, text.bytes + split.start, split.ends[i] - split.start, out + n);
            split.start = split.ends[i] + separator->length;
        }
    return n + put(chunk, osrp, column, text.bytes + split.start, text.length - split.start, out + n);
}

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

uint32_t fth_feature_osrp_reduce(uint64_t salt, uint64_t *items, uint32_t n) {
    uint32_t kept = 0;
    qsort(items, n, sizeof *items, by_number);
    for (uint32_t i = 0, end; i < n; i = end) {
        int64_t sum = 0;
        for (end = i; end < n && items[end] >> 1 == items[i] >> 1; end++)
            sum += items[end] & 1 ? 1 : -1;
        if (sum)
            items[kept++] = fth_number_key(salt, (items[i] & ~(uint64_t)1) + (sum > 0));
    }
    return kept;
}

fth_status fth_feature_run_osrp(struct fth_feature_chunk *chunk, uint32_t f) {
    const struct fth_feature_field *field = &chunk->program->fields[f];
    const struct fth_feature_osrp *osrp = field->osrp;
    uint32_t g = (uint32_t)field->info.group;
    struct fth_ragged *ragged = &chunk->out->groups[g];
    for (uint32_t i = 0; i < chunk->n; i++) {
        uint32_t row = chunk->base + i, used = ragged->offsets[row], n = 0;
        uint64_t most = 0;
        for (uint32_t c = 0; c < osrp->n_columns; c++) {
            struct fth_feature_text text = fth_feature_cell(chunk, i, osrp->columns[c]);
            most += field->separator.length
                        ? fth_split_count(text.bytes, text.length, &field->separator) : 1;
        }
        FTH_TRY(fth_feature_reserve(chunk, g, used, most));
        uint64_t *keys = chunk->out->fields[f].keys + used;
        for (uint32_t c = 0; c < osrp->n_columns; c++) {
            struct fth_feature_text text = fth_feature_cell(chunk, i, osrp->columns[c]);
            n += field->separator.length
                     ? put_list(chunk, osrp, &field->separator, c, text, keys + n)
                     : put(chunk, osrp, c, text.bytes, text.length, keys + n);
        }
        n = fth_feature_osrp_reduce(field->salt, keys, n);
        if (n > chunk->program->groups[g].max) {
            fth_feature_refuse(chunk, i, NULL, "the columns of '%s' have texts in %u bins; a line may have them in %u",
                               field->info.name, n, chunk->program->groups[g].max);
            n = 0;
        }
        ragged->offsets[row + 1] = used + n;
        ragged->total = used + n;
    }
    return FTH_OK;
}
