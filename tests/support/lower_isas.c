/* Children with lower instruction sets: see lower_isas.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cpu.h"
#include "lower_isas.h"

void run_at_lower_instruction_sets(void) {
    for (int isa = FTH_ISA_SCALAR; isa < (int)fth_cpu_get()->isa; isa++) {
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            setenv("FATHOM_MAX_ISA", fth_isa_name(isa), 1);
            execl("/proc/self/exe", "test", "child", (char *)NULL);
            _exit(99);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("with FATHOM_MAX_ISA=%s the tests fail", fth_isa_name(isa));
    }
}
