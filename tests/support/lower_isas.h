/* Tests of what is chosen once in a process by the instruction set (kernels/, gemm providers). */
#ifndef FTH_TESTS_LOWER_ISAS_H
#define FTH_TESTS_LOWER_ISAS_H

/* Runs this program with the argument "child" once for each instruction set below this CPU's, as FATHOM_MAX_ISA; the
 * test fails where one of them does. A child must not call it. */
void run_at_lower_instruction_sets(void);

#endif
