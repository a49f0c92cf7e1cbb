/* Names and their numbers: which number a name has, in one look. Belongs to one thread. */
#ifndef FTH_BASE_NAMES_H
#define FTH_BASE_NAMES_H

#include <stdint.h>

#define FTH_NO_NAME UINT32_MAX

/* Zero-initialise; give to fth_names_free. The names themselves are borrowed. */
struct fth_names {
    struct fth_name_place *places; /* [mask + 1], a power of two; NULL while empty */
    uint32_t n, mask;
};

/* *there: the number that the name has already, which it keeps; FTH_NO_NAME: it has `number` from now on. 0: no memory. */
int fth_names_add(struct fth_names *names, const char *name, uint32_t number, uint32_t *there);
/* FTH_NO_NAME: not there. */
uint32_t fth_names_find(const struct fth_names *names, const char *name);
/* Whether one of the names is a number: as a rule a line of data was taken for the line of names. */
int fth_names_like_data(const char *const *names, uint32_t n);
void fth_names_free(struct fth_names *names);

#endif
