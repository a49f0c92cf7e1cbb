/* What the tests of feature/program share: a program, a pass over it and a batch. */
#ifndef FTH_TESTS_PROGRAM_TEST_H
#define FTH_TESTS_PROGRAM_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"
#include "blocks.h"
#include "feature/program.h"

#define STRINGS(...) \
    {(const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)}

struct fixture {
    fth_feature_program *program;
    fth_feature_pass *pass;
    struct fth_transform transform;
    struct fth_batch *batch;
    fth_error err;
};

static inline void base_config(struct fth_config *config) {
    memset(config, 0, sizeof *config);
    config->data.format = FTH_FORMAT_CSV;
    config->data.label = "label";
    config->embedding.dim = 8;
    config->features.learn_lines = 1000;
}

static inline void open_program(struct fixture *f, const struct fth_config *config,
                                const char *const *columns, size_t n) {
    memset(f, 0, sizeof *f);
    if (fth_feature_create(config, columns, n, &f->program, &f->err) != FTH_OK)
        fail_msg("%s", f->err.message);
}

static inline void open_pass(struct fixture *f) {
    assert_int_equal(fth_feature_pass_create(f->program, NULL, 0, &f->pass, &f->err), FTH_OK);
    f->transform = fth_feature_pass_transform(f->pass);
    assert_int_equal(fth_batch_create(f->transform.schema, 1, &f->batch, &f->err), FTH_OK);
}

static inline void close_fixture(struct fixture *f) {
    fth_batch_destroy(f->batch);
    fth_feature_pass_destroy(f->pass);
    fth_feature_destroy(f->program);
}

static inline void run(struct fixture *f, struct fth_block *block) {
    if (f->transform.examples(f->transform.ctx, block, f->batch, &f->err) != FTH_OK)
        fail_msg("%s", f->err.message);
}

static inline float dense(const struct fixture *f, uint32_t row, uint32_t column) {
    return f->batch->dense[(size_t)row * f->batch->dense_ld + column];
}

static inline uint64_t salt_of(const char *table) { return fth_hash_bytes(table, strlen(table), 0); }

static inline uint64_t key_of(const char *table, const char *text) {
    return fth_hash_bytes(text, strlen(text), salt_of(table));
}

static inline void refuse_config(const struct fth_config *config, const char *const *columns, size_t n,
                                 const char *message) {
    fth_feature_program *program = NULL;
    fth_error err = {0};
    assert_int_equal(fth_feature_create(config, columns, n, &program, &err), FTH_E_CONFIG);
    assert_null(program);
    if (strcmp(err.message, message) != 0)
        fail_msg("got: %s\nexpected: %s", err.message, message);
}

#endif
