/* Parts of cpu detection that tests feed with text. */
#ifndef FTH_BASE_CPU_PRIVATE_H
#define FTH_BASE_CPU_PRIVATE_H

#include "base/cpu.h"

/* Takes from the instruction sets that were found what is above `limit`, FATHOM_MAX_ISA's value or NULL; an unknown
 * value is ignored, with a warning to the log. */
void fth_cpu_clamp(struct fth_cpu *found, const char *limit);

/* fth_cpu.two_fmas by cpuid: vendor, the name in the order ebx, edx, ecx; signature, leaf 1's eax; halves, bit 2 of leaf
 * 0x8000001a's eax (AMD's FP256: 512 bits go through in two halves). Intel's servers do, AMD's from Zen 5 (family 1a hex)
 * on where the halves are not named; Zen 4 is not asked, as a hypervisor may hide that leaf. */
int fth_cpu_has_two_fmas(const char vendor[12], uint32_t signature, int halves);

#endif
