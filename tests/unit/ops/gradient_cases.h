/* Tables of gradient checks (gradcheck.h), each case at several shapes. */
#ifndef FTH_TESTS_GRADIENT_CASES_H
#define FTH_TESTS_GRADIENT_CASES_H

#include "gradcheck.h"

#define X(check) gradcheck_input(check, (check)->group, (check)->columns)
#define CASE(name, extents)                                                                        \
    { #name, name, extents }
/* MANY: rows without a single one, whose batch statistics stand still. */
enum extents { ROWS, EXAMPLES, MANY };

struct gradient_case {
    const char *name;
    fth_id (*build)(struct gradcheck *check);
    enum extents extents;
};

static void gradient_cases_run(const struct gradient_case *cases, size_t n) {
    static const struct gradcheck_shape shapes[] = {
        {.examples = 1, .tile = 4, .columns = 1, .group = -1},
        {.examples = 1, .tile = 1, .columns = 17, .group = 0},
        {.examples = 8, .tile = 3, .columns = 5, .group = -1},
        {.examples = 8, .tile = 3, .columns = 17, .group = 0},
        {.examples = 8, .tile = 1, .columns = 1, .group = 0}, /* tiles without a position */
    };
    for (size_t i = 0; i < n; i++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            if ((shapes[s].group < 0 || cases[i].extents != EXAMPLES) &&
                (shapes[s].examples > 1 || cases[i].extents != MANY))
                gradcheck_run(cases[i].name, cases[i].build, &shapes[s]);
}

#endif
