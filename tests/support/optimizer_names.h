/* The names in optimizers.def, NULL at the end. */
#ifndef FTH_TESTS_OPTIMIZER_NAMES_H
#define FTH_TESTS_OPTIMIZER_NAMES_H

#include <stddef.h>

static const char *const optimizer_names[] = {
#define FTH_OPTIMIZER(id, slots, slot0, slot1, by_row, for_dense, for_sparse, whole, first, from, on_the_way) #id,
#include "optim/optimizers.def"
#undef FTH_OPTIMIZER
    NULL,
};

#endif
