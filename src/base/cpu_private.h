/* Parts of cpu detection that tests feed with text. */
#ifndef FTH_BASE_CPU_PRIVATE_H
#define FTH_BASE_CPU_PRIVATE_H

#include "base/cpu.h"

/* Takes from the instruction sets that were found what is above `limit`, FATHOM_MAX_ISA's value or NULL; an unknown
 * value is ignored, with a warning to the log. */
void fth_cpu_clamp(struct fth_cpu *found, const char *limit);

#endif
