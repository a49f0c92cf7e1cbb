/* kernels/kernels: the tables, and that they obey FATHOM_MAX_ISA (ctest runs this with each of its
 * values). */
#include "kernel_test.h"

static void the_table_is_the_cpus(void **state) {
    assert_ptr_equal(fth_kernels_get(), fth_kernels_for(fth_cpu_get()->isa));
    assert_non_null(fth_kernels_for(FTH_ISA_SCALAR));
    for (int isa = fth_cpu_get()->isa + 1; isa < FTH_ISA_COUNT; isa++)
        assert_null(fth_kernels_for((fth_isa)isa));
}

static void the_environment_lowers_it(void **state) {
    const char *most = getenv("FATHOM_MAX_ISA");
    for (int isa = 0; most && isa < FTH_ISA_COUNT; isa++)
        if (strcmp(most, fth_isa_name((fth_isa)isa)) == 0)
            assert_true((int)fth_cpu_get()->isa <= isa);
    if (most && strcmp(most, "scalar") == 0)
        assert_ptr_equal(fth_kernels_get(), fth_kernels_for(FTH_ISA_SCALAR));
}

static void every_kernel_knows_its_set(void **state) {
    assert_true(fth_kernels_count() > 40);
    assert_string_equal(fth_kernel_name(0), "bias_act");
    assert_null(fth_kernel_name(fth_kernels_count()));
    for (fth_isa isa = FTH_ISA_SCALAR; isa <= fth_cpu_get()->isa; isa++)
        for (size_t i = 0; i < fth_kernels_count(); i++) {
            assert_non_null(fth_kernel_name(i));
            assert_int_equal(fth_kernel_isa(fth_kernels_for(isa), i), isa);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_the_cpus),
        cmocka_unit_test(the_environment_lowers_it),
        cmocka_unit_test(every_kernel_knows_its_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
