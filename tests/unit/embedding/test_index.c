/* embedding/index.c: blocks of an index that the others of its space have not left yet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "embedding/index.h"

#define GROUPS (1u << 15) /* of 2 MiB */

/* Memory that was given back reads as 0. */
static void what_one_has_left_is_given_back(void **state) {
    struct fth_index_space space = {.n = 2};
    struct fth_index one, other;
    fth_error err = {0};
    (void)state;
    assert_int_equal(fth_index_create(&one, &space, 0, GROUPS, &err), FTH_OK);
    assert_int_equal(fth_index_create(&other, &space, 1, GROUPS, &err), FTH_OK);
    const struct fth_index_group *left = one.groups, *kept = other.groups;
    for (uint32_t i = 0; i < GROUPS; i += GROUPS - 1)
        one.groups[i].tags[0] = other.groups[i].tags[0] = 1;
    fth_index_destroy(&one);
    for (uint32_t i = 0; i < GROUPS; i += GROUPS - 1) {
        assert_int_equal(left[i].tags[0], 0);
        assert_int_equal(kept[i].tags[0], 1);
    }
    fth_index_destroy(&other);
    fth_index_space_free(&space);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_one_has_left_is_given_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
