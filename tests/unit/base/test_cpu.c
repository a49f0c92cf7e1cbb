/* base/cpu: what was found is consistent, the clamp. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <stdlib.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/cpu_private.h"
#include "base/log.h"

static void found_cpu_is_consistent(void **state) {
    const struct fth_cpu *cpu = fth_cpu_get();
    assert_ptr_equal(cpu, fth_cpu_get());
    assert_in_range(cpu->cores, 1, sysconf(_SC_NPROCESSORS_CONF));
    assert_in_range(cpu->memory, 1, (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    assert_true(strlen(cpu->name) > 0 && strlen(cpu->name) < sizeof cpu->name);
    assert_true((unsigned)cpu->isa < FTH_ISA_COUNT);
    if (cpu->isa < FTH_ISA_AVX512)
        assert_false(cpu->avx512_bf16 || cpu->amx_bf16);
    /* The compiler's own detection as the second opinion; the environment may only lower it. */
    if (cpu->isa >= FTH_ISA_AVX2)
        assert_true(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    if (cpu->isa >= FTH_ISA_AVX512)
        assert_true(__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"));
    if (!getenv("FATHOM_MAX_ISA") && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        assert_int_equal(cpu->isa, FTH_ISA_AVX512);
}

static char warning[256];

static void keep_warning(void *ctx, int level, const char *line) {
    assert_int_equal(level, FTH_LOG_WARN);
    strncpy(warning, line, sizeof warning - 1);
}

static void clamped_is(const struct fth_cpu *found, const char *limit, const struct fth_cpu *want) {
    struct fth_cpu got = *found;
    fth_cpu_clamp(&got, limit);
    assert_int_equal(got.isa, want->isa);
    assert_int_equal(got.avx512_bf16, want->avx512_bf16);
    assert_int_equal(got.amx_bf16, want->amx_bf16);
}

static void clamp_lowers_only_and_warns(void **state) {
    fth_log_set(keep_warning, NULL);
    const struct fth_cpu amx = {.isa = FTH_ISA_AVX512, .avx512_bf16 = 1, .amx_bf16 = 1}, bf16 = {.isa = FTH_ISA_AVX512, .avx512_bf16 = 1};
    const struct fth_cpu avx512 = {.isa = FTH_ISA_AVX512}, avx2 = {.isa = FTH_ISA_AVX2}, scalar = {.isa = FTH_ISA_SCALAR};
    clamped_is(&amx, NULL, &amx);
    clamped_is(&amx, "", &amx);
    clamped_is(&amx, "amx-bf16", &amx);
    clamped_is(&amx, "avx512-bf16", &bf16);
    clamped_is(&amx, "avx512", &avx512);
    clamped_is(&amx, "avx2", &avx2);
    clamped_is(&amx, "scalar", &scalar);
    clamped_is(&bf16, "amx-bf16", &bf16);
    clamped_is(&scalar, "amx-bf16", &scalar);
    clamped_is(&scalar, "avx512", &scalar);
    assert_string_equal(warning, "");
    clamped_is(&avx2, "sse9", &avx2);
    assert_non_null(strstr(warning, "sse9"));
    fth_log_set(NULL, NULL);
}

static void full_width_is_told_by_family(void **state) {
    const char *amd = "AuthenticAMD", *intel = "GenuineIntel";
    assert_true(fth_cpu_has_two_fmas(intel, 0x806f8, 0));   /* Sapphire Rapids */
    assert_false(fth_cpu_has_two_fmas(amd, 0xa00f11, 1));   /* Zen 3 */
    assert_false(fth_cpu_has_two_fmas(amd, 0xa10f11, 1));   /* Zen 4 */
    assert_false(fth_cpu_has_two_fmas(amd, 0xa10f11, 0));   /* Zen 4, a hypervisor hiding the leaf */
    assert_true(fth_cpu_has_two_fmas(amd, 0xb00f21, 0));    /* Zen 5, a server */
    assert_false(fth_cpu_has_two_fmas(amd, 0xb20f40, 1));   /* Zen 5, a notebook */
    assert_false(fth_cpu_has_two_fmas("HygonGenuine", 0xb00f21, 0));
}

static void names_are_complete(void **state) {
    assert_string_equal(fth_isa_name(FTH_ISA_SCALAR), "scalar");
    assert_string_equal(fth_isa_name(FTH_ISA_AVX2), "avx2");
    assert_string_equal(fth_isa_name(FTH_ISA_AVX512), "avx512");
    assert_string_equal(fth_isa_name((fth_isa)77), "unknown");
    const struct fth_cpu *cpu = fth_cpu_get();
    assert_string_equal(fth_cpu_instructions(0), fth_isa_name(cpu->isa));
    assert_string_equal(fth_cpu_instructions(1), cpu->amx_bf16      ? "avx512, amx-bf16"
                                                 : cpu->avx512_bf16 ? "avx512, avx512-bf16"
                                                                    : fth_isa_name(cpu->isa));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_cpu_is_consistent),
        cmocka_unit_test(clamp_lowers_only_and_warns),
        cmocka_unit_test(full_width_is_told_by_family),
        cmocka_unit_test(names_are_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
