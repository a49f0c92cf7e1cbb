/* A feature program with a pass, run over one block. */
#ifndef FTH_TEST_PROGRAMS_H
#define FTH_TEST_PROGRAMS_H

#include "config/config.h"
#include "feature/program.h"

struct test_program {
    fth_feature_program *program;
    fth_feature_pass *pass;
    struct fth_batch *batch;
    struct fth_block *block;
};

/* The configuration's `without` is set: plain 1 takes fusion out. It must live as long as the program. */
void test_program_create(struct test_program *t, struct fth_config *config, const char *const *columns,
                         size_t n_columns, int plain);
/* Runs over the block, which is owned from now on, into floats that were 9 before. */
void test_program_run(struct test_program *t, struct fth_block *block);
/* Everything that two runs over the same lines gave, bit by bit, messages too. */
void test_programs_same(const struct test_program *a, const struct test_program *b);
void test_program_drop(struct test_program *t);

#endif
