/* What this CPU can run, found once by cpuid and XCR0 and clamped by the environment variable
 * FATHOM_MAX_ISA (scalar | avx2 | avx512 | avx512-bf16 | amx-bf16). Thread-safe. */
#ifndef FTH_BASE_CPU_H
#define FTH_BASE_CPU_H

#include <stdint.h>

typedef enum fth_isa { FTH_ISA_SCALAR = 0, FTH_ISA_AVX2 = 1, FTH_ISA_AVX512 = 2, FTH_ISA_COUNT = 3 } fth_isa;

struct fth_cpu {
    fth_isa isa;         /* the best set kernels may use: AVX2 means avx2+fma+bmi2+f16c,
                            AVX512 means f+cd+bw+dq+vl on top */
    int avx512_bf16;     /* both 0 when isa < FTH_ISA_AVX512 */
    int amx_bf16;        /* includes the kernel's permission to use the tile registers */
    int two_fmas;        /* a core begins two multiply-adds of 512 bits a cycle, not one: which of two kernels with the
                            same bits is the faster one */
    uint32_t cores;      /* CPUs this process may run on (affinity and control groups) */
    uint64_t memory;     /* bytes it may use (the machine's, control groups) */
    char name[64];       /* "AMD EPYC ..." */
};

const struct fth_cpu *fth_cpu_get(void);
const char *fth_isa_name(fth_isa isa); /* "scalar", "avx2", "avx512" */
/* What this process computes with, as bits depend on it: isa's name and, `bf16`, what multiplies bf16 where there is
 * something that does: "avx512, avx512-bf16", "avx512, amx-bf16". */
const char *fth_cpu_instructions(int bf16);

#endif
