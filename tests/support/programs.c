#include "programs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

void test_program_create(struct test_program *t, struct fth_config *config, const char *const *columns,
                         size_t n_columns, int plain) {
    static const char *const off[] = {"feature_fusion"};
    fth_error err = {0};
    *t = (struct test_program){0};
    config->without = (struct fth_strings){off, (uint32_t)plain};
    if (fth_feature_create(config, columns, n_columns, &t->program, &err) != FTH_OK)
        fail_msg("%s", err.message);
}

void test_program_run(struct test_program *t, struct fth_block *block) {
    fth_error err = {0};
    t->block = block;
    assert_int_equal(fth_feature_pass_create(t->program, NULL, 0, &t->pass, &err), FTH_OK);
    struct fth_transform transform = fth_feature_pass_transform(t->pass);
    assert_int_equal(fth_batch_create(transform.schema, block->n_lines, &t->batch, &err), FTH_OK);
    for (size_t i = 0; i < (size_t)block->n_lines * t->batch->dense_ld; i++)
        t->batch->dense[i] = 9;
    assert_int_equal(transform.examples(transform.ctx, block, t->batch, &err), FTH_OK);
}

void test_programs_same(const struct test_program *a, const struct test_program *b) {
    const struct fth_batch *x = a->batch, *y = b->batch;
    const struct fth_schema *schema = x->schema;
    assert_int_equal(x->n, y->n);
    assert_memory_equal(x->example_number, y->example_number, x->n * sizeof *x->example_number);
    for (uint32_t i = 0; i < x->n && schema->n_dense; i++)
        assert_memory_equal(x->dense + (size_t)i * x->dense_ld, y->dense + (size_t)i * y->dense_ld,
                            schema->n_dense * sizeof(float));
    for (uint32_t g = 0; g < schema->n_groups; g++) {
        assert_memory_equal(x->groups[g].offsets, y->groups[g].offsets, (x->n + 1) * sizeof(uint32_t));
        assert_int_equal(x->groups[g].total, x->groups[g].offsets[x->n]);
    }
    for (uint32_t f = 0; f < schema->n_fields; f++) {
        int32_t g = schema->field_group[f];
        uint32_t n = g == FTH_NO_GROUP ? x->n : x->groups[g].total;
        for (uint32_t i = 0; i < n; i++)
            assert_true(fth_key_at(&x->fields[f], i) == fth_key_at(&y->fields[f], i));
    }
    assert_int_equal(a->block->n_bad, b->block->n_bad);
    if (a->block->n_bad)
        assert_string_equal(a->block->first_bad.message, b->block->first_bad.message);
    assert_int_equal(a->block->n_bad_values, b->block->n_bad_values);
    if (a->block->n_bad_values)
        assert_string_equal(a->block->first_bad_value.message, b->block->first_bad_value.message);
}

void test_program_drop(struct test_program *t) {
    fth_block_destroy(t->block);
    fth_batch_destroy(t->batch);
    fth_feature_pass_destroy(t->pass);
    fth_feature_destroy(t->program);
}
