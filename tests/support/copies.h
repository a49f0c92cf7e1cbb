/* The copies of a parameter (transposed, panels) that updates keep. */
#ifndef FTH_TESTS_COPIES_H
#define FTH_TESTS_COPIES_H

#include "runtime/parameters.h"

/* Fails the test unless they are what making them anew gives. in_panels: the graph's value says so. */
void check_copies(const struct fth_parameter *parameter, int in_panels);

#endif
