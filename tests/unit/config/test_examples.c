/* config: every file of examples/ is accepted, and every model has one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "config/config.h"
#include "model/model.h"

static void every_example_is_accepted(void **state) {
    glob_t found;
    assert_int_equal(glob("examples/*.yaml", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct fth_config *config = NULL;
        fth_error err = {0};
        if (fth_config_read(found.gl_pathv[i], NULL, 0, &config, &err) != FTH_OK)
            fail_msg("%s", err.message);
        assert_true(config->data.train.n > 0);
        assert_true(config->data.test.n > 0);
        fth_config_free(config);
    }
    globfree(&found);
}

/* So the schema knows every model of the list, and the keys that each uses: what is printed is accepted. */
static void every_model_has_one(void **state) {
    for (const struct fth_model *const *model = fth_models(); *model; model++) {
        char path[64];
        struct fth_config *config = NULL, *again = NULL;
        fth_error err = {0};
        snprintf(path, sizeof path, "examples/%s.yaml", (*model)->name);
        if (fth_config_read(path, NULL, 0, &config, &err) != FTH_OK)
            fail_msg("%s", err.message);
        assert_string_equal(config->model.name, (*model)->name);
        char *first = fth_config_print(config);
        if (fth_config_parse(path, first, strlen(first), NULL, 0, &again, &err) != FTH_OK)
            fail_msg("%s", err.message);
        char *second = fth_config_print(again);
        assert_string_equal(first, second);
        free(first);
        free(second);
        fth_config_free(again);
        fth_config_free(config);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_example_is_accepted),
        cmocka_unit_test(every_model_has_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
