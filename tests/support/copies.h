/* A parameter's weights, wherever they lie, and the copies (transposed, panels) that updates keep. */
#ifndef FTH_TESTS_COPIES_H
#define FTH_TESTS_COPIES_H

#include "interpret.h"
#include "runtime/parameters.h"

/* [rows][columns]; owned: fth_free. */
float *weights_of(const struct fth_parameter *parameter);
/* The weights become those of the interpreter's value. */
void weights_from(struct fth_parameter *parameter, struct interpret *it);

/* Fails the test unless they are what making them anew gives. in_panels: the graph's value says so. */
void check_copies(const struct fth_parameter *parameter, int in_panels);

#endif
