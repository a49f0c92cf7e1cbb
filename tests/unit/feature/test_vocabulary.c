/* feature/: vocabularies, learned and given, their rows, and their checkpointed form. */
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
#include "feature/codes.h"
#include "feature/program_private.h"

static const char *const columns[] = {"label", "c", "l"};
static const char *const c[] = {"c"}, *const l[] = {"l"};

/* c and the lists of l share the table t. */
struct made {
    struct fth_categorical_config categorical[2];
    struct fth_config config;
    fth_feature_program *program;
};

static void make_lines(struct made *made, int64_t lines, int64_t size, int64_t min_count, int64_t oov, const char *file) {
    struct fth_categorical_config one = {.table = "t", .vocabulary_size = size, .vocabulary_file = file,
                                         .vocabulary_min_count = min_count, .oov_buckets = oov,
                                         .max_length = 100};
    memset(made, 0, sizeof *made);
    made->categorical[0] = made->categorical[1] = one;
    made->categorical[0].columns = (struct fth_strings){c, 1};
    made->categorical[1].columns = (struct fth_strings){l, 1};
    made->categorical[1].separator = ";";
    made->config = (struct fth_config){.data = {.format = FTH_FORMAT_CSV, .label = "label"},
                                       .embedding = {.dim = 1}};
    made->config.features.categorical = made->categorical;
    made->config.features.n_categorical = 2;
    made->config.features.learn_lines = lines;
    assert_int_equal(fth_feature_create(&made->config, columns, 3, &made->program, NULL), FTH_OK);
}

static void make(struct made *made, int64_t size, int64_t min_count, int64_t oov, const char *file) {
    make_lines(made, 100, size, min_count, oov, file);
}

static uint64_t key_of(uint64_t number) {
    return fth_hash_mix(fth_hash_bytes("t", 1, 0) ^ fth_hash_mix(number));
}
static uint64_t missing(void) { return fth_hash_mix(fth_hash_bytes("t", 1, 0) ^ 0x9d1c5f0b6a3e8247ull); }

/* The keys of one line's cell of c, and of its list. */
static void keys(const fth_feature_program *program, const char *line, uint64_t *single, uint64_t *list,
                 uint32_t *n) {
    fth_feature_pass *pass = NULL;
    struct fth_batch *batch = NULL;
    assert_int_equal(fth_feature_pass_create(program, NULL, 0, &pass, NULL), FTH_OK);
    struct fth_transform transform = fth_feature_pass_transform(pass);
    assert_int_equal(fth_batch_create(transform.schema, 1, &batch, NULL), FTH_OK);
    struct fth_block *block = test_block_cells(line, ',');
    assert_int_equal(transform.examples(transform.ctx, block, batch, NULL), FTH_OK);
    assert_int_equal(batch->n, 1);
    *single = batch->fields[0].keys[0];
    *n = batch->groups[0].total;
    memcpy(list, batch->fields[1].keys, *n * sizeof *list);
    fth_block_destroy(block);
    fth_batch_destroy(batch);
    fth_feature_pass_destroy(pass);
}

static void learn(fth_feature_program *program) {
    /* a 5 times, b and d 3 (b first), e 2, z once; the missing ones do not count */
    struct fth_block *block = test_block_cells("1,a,b;a;d\n0,e,d;;a\n1,b,d;b;a\n0,,z;e\n1,a,\n", ',');
    assert_int_equal(fth_feature_learn_wanted(program), 100);
    assert_int_equal(fth_feature_learn_block(program, block, NULL, block->n_lines, NULL), FTH_OK);
    assert_int_equal(fth_feature_learn_finish(program, NULL), FTH_OK);
    assert_int_equal(fth_feature_learn_wanted(program), 0);
    fth_block_destroy(block);
}

static void learned(void **state) {
    struct made made;
    uint64_t single, list[8];
    uint32_t n;
    make(&made, 3, 1, 0, "");
    fth_feature_pass *pass = NULL;
    assert_int_equal(fth_feature_pass_create(made.program, NULL, 0, &pass, NULL), FTH_E_ARGUMENT);
    learn(made.program);
    keys(made.program, "1,d,a;b;e;;d\n", &single, list, &n);
    assert_true(single == key_of(2));
    assert_int_equal(n, 5);
    assert_true(list[0] == key_of(0) && list[1] == key_of(1) && list[4] == key_of(2));
    assert_true(list[2] == missing() && list[3] == missing());
    fth_feature_destroy(made.program);

    make(&made, 1000, 3, 7, "");
    learn(made.program);
    keys(made.program, "1,e,d;new;\n", &single, list, &n);
    assert_true(single == key_of(3 + fth_hash_bytes("e", 1, 0) % 7));
    assert_true(list[0] == key_of(2) && list[1] == key_of(3 + fth_hash_bytes("new", 3, 0) % 7));
    assert_true(list[2] == missing());
    fth_feature_destroy(made.program);
}

/* Of texts as frequent, those of earlier lines stand first, whichever column they are in and wherever blocks begin. */
static void learned_in_the_order_of_lines(void **state) {
    struct made made;
    uint64_t single, list[8];
    uint32_t n;
    make(&made, 1000, 1, 0, "");
    struct fth_block *block = test_block_cells("1,a,b\n0,c,d\n", ',');
    assert_int_equal(fth_feature_learn_block(made.program, block, NULL, block->n_lines, NULL), FTH_OK);
    assert_int_equal(fth_feature_learn_finish(made.program, NULL), FTH_OK);
    keys(made.program, "1,c,a;b;d\n", &single, list, &n);
    assert_true(single == key_of(2));
    assert_true(list[0] == key_of(0) && list[1] == key_of(1) && list[2] == key_of(3));
    fth_block_destroy(block);
    fth_feature_destroy(made.program);
}

/* What max_length cuts off a list is no input, and takes no place in the vocabulary. */
static void learned_from_what_is_kept(void **state) {
    for (int last = 0; last < 2; last++) {
        struct made made;
        uint64_t single, list[8];
        uint32_t n;
        make(&made, 1, 1, 0, "");
        made.program->groups[0].max = 2;
        made.program->groups[0].keep_last = last;
        struct fth_block *block = test_block_cells("1,,a;b;x;x;x;x;x;c;d\n0,,a;y;d\n1,,a;z\n0,,d\n1,,d\n", ',');
        assert_int_equal(fth_feature_learn_block(made.program, block, NULL, block->n_lines, NULL), FTH_OK);
        assert_int_equal(fth_feature_learn_finish(made.program, NULL), FTH_OK);
        keys(made.program, last ? "1,,x;d\n" : "1,,a;x\n", &single, list, &n);
        assert_int_equal(n, 2);
        assert_true(list[last] == key_of(0) && list[!last] == missing());
        fth_block_destroy(block);
        fth_feature_destroy(made.program);
    }
}

/* All of the lines, more texts than are counted at a time: the frequent ones are found all the same. */
static void learned_from_all(void **state) {
    struct made made;
    uint64_t single, list[8];
    uint32_t n;
    make_lines(&made, 0, 50, 1, 0, "");
    made.program->vocabularies[0].most = 400;
    assert_true(fth_feature_learn_wanted(made.program) == UINT64_MAX);
    for (uint32_t b = 0; b < 40; b++) {
        char text[50 * 40], *at = text;
        for (uint32_t i = 0; i < 50; i++) /* "often" 0 to 49 once a block, 100 texts a block that come once */
            at += sprintf(at, "1,often%u,once%u;once%ux\n", (i * 7 + b) % 50, b * 50 + i, b * 50 + i);
        struct fth_block *block = test_block_cells(text, ',');
        assert_int_equal(fth_feature_learn_block(made.program, block, NULL, block->n_lines, NULL), FTH_OK);
        fth_block_destroy(block);
    }
    assert_int_equal(fth_feature_learn_finish(made.program, NULL), FTH_OK);
    assert_int_equal(fth_feature_learn_wanted(made.program), 0);
    assert_int_equal(made.program->vocabularies[0].codes.n, 50);
    for (uint32_t i = 0; i < 50; i++) {
        char line[40];
        sprintf(line, "1,often%u,once1\n", i);
        keys(made.program, line, &single, list, &n);
        assert_true(single != missing() && list[0] == missing());
    }
    fth_feature_destroy(made.program);
}

/* What is counted at a time has a limit, and of texts as frequent those met first stand first behind it, too. */
static void forgotten_texts_make_room(void **state) {
    struct made made;
    uint64_t single, list[8];
    uint32_t n;
    make_lines(&made, 0, 200, 1, 0, "");
    made.program->vocabularies[0].most = 100;
    for (uint32_t b = 0; b < 30; b++) {
        char text[64 * 40], *at = text;
        /* "often" is first met where 90 others are, "late" where few are: room has been made in between. */
        for (uint32_t i = 0; i < 10 && b >= 3 && b < 13; i++)
            at += sprintf(at, "1,often%u,often%u;often%u\n", i, i, i);
        for (uint32_t i = 0; i < 10 && b >= 20; i++)
            at += sprintf(at, "1,late%u,late%u;late%u\n", i, i, i);
        for (uint32_t i = 0; i < 30; i++)
            at += sprintf(at, "1,once%u,\n", b * 30 + i);
        struct fth_block *block = test_block_cells(text, ',');
        assert_int_equal(fth_feature_learn_block(made.program, block, NULL, block->n_lines, NULL), FTH_OK);
        fth_block_destroy(block);
    }
    assert_int_equal(fth_feature_learn_finish(made.program, NULL), FTH_OK);
    assert_in_range(made.program->vocabularies[0].codes.n, 20, 100);
    for (uint32_t i = 0; i < 10; i++) {
        char line[40];
        sprintf(line, "1,often%u,late%u\n", i, i);
        keys(made.program, line, &single, list, &n);
        assert_true(single == key_of(i) && list[0] == key_of(10 + i));
    }
    fth_feature_destroy(made.program);
}

static void given(void **state) {
    static const char *const texts[] = {"x", "y", "x"};
    static const size_t lengths[] = {1, 1, 1};
    struct made made;
    uint64_t single, list[8];
    uint32_t n, twice;
    make(&made, 0, 1, 0, "words.txt");
    assert_string_equal(fth_feature_vocabulary_file(made.program, 0), "words.txt");
    assert_null(fth_feature_vocabulary_file(made.program, 1));
    assert_int_equal(fth_feature_learn_wanted(made.program), 0);
    assert_int_equal(fth_feature_set_vocabulary(made.program, 0, texts, lengths, 3, &twice, NULL), FTH_OK);
    assert_int_equal(twice, 2);
    assert_int_equal(fth_feature_set_vocabulary(made.program, 0, texts, lengths, 2, &twice, NULL), FTH_OK);
    assert_int_equal(twice, 2);
    keys(made.program, "1,y,x;q\n", &single, list, &n);
    assert_true(single == key_of(1) && list[0] == key_of(0) && list[1] == missing());
    fth_feature_destroy(made.program);
}

/* A text of up to twelve bytes that is in the vocabulary of fifty, or is not, or is empty. */
static void put_text(char *text, uint64_t draw) {
    static const char letters[] = "abcdefghijkl";
    uint64_t i = draw % 60;
    *text = 0;
    if (i < 58)
        snprintf(text, 16, "%llu%.*s", (unsigned long long)i, (int)(i % 11), letters);
}

/* Keys of several texts at a time are those of one by one, as they are made where more than the empty text is missing. */
static void several_at_a_time(void **state) {
    static const char *const missing_texts[] = {"?"};
    const char *texts[50];
    char room[50][16];
    size_t lengths[50];
    uint32_t twice, hits = 0, other = 0;
    for (uint32_t i = 0; i < 50; i++) {
        put_text(room[i], i);
        texts[i] = room[i];
        lengths[i] = strlen(room[i]);
    }
    for (uint64_t oov = 0; oov < 8; oov += 7) {
        char lines[130 * 100 * 16], *at = lines;
        uint64_t draws = oov;
        for (uint32_t i = 0; i < 130; i++) {
            at += snprintf(at, 4, "1,");
            for (uint64_t k = 0, n = i % 7 ? draws % 20 : 99; k <= n + 1; k++) {
                draws = fth_hash_mix(draws + 1);
                put_text(at, draws);
                at += strlen(at);
                *at++ = k == 0 ? ',' : k <= n ? ';' : '\n';
            }
        }
        *at = 0;
        struct made made[2];
        struct fth_batch *batches[2];
        fth_feature_pass *passes[2];
        struct fth_block *block = test_block_cells(lines, ',');
        assert_int_equal(block->n_lines, 130);
        for (int p = 0; p < 2; p++) {
            make(&made[p], 0, 1, (int64_t)oov, "words.txt");
            fth_feature_destroy(made[p].program);
            made[p].config.features.missing = (struct fth_strings){missing_texts, (uint32_t)p};
            assert_int_equal(fth_feature_create(&made[p].config, columns, 3, &made[p].program, NULL), FTH_OK);
            assert_int_equal(fth_feature_set_vocabulary(made[p].program, 0, texts, lengths, 50, &twice, NULL), FTH_OK);
            assert_int_equal(fth_feature_pass_create(made[p].program, NULL, 0, &passes[p], NULL), FTH_OK);
            struct fth_transform transform = fth_feature_pass_transform(passes[p]);
            assert_int_equal(fth_batch_create(transform.schema, 1, &batches[p], NULL), FTH_OK);
            assert_int_equal(transform.examples(transform.ctx, block, batches[p], NULL), FTH_OK);
            assert_int_equal(batches[p]->n, 130);
        }
        uint32_t n = batches[0]->groups[0].total;
        assert_int_equal(n, batches[1]->groups[0].total);
        assert_memory_equal(batches[0]->fields[0].keys, batches[1]->fields[0].keys, 130 * sizeof(uint64_t));
        assert_memory_equal(batches[0]->fields[1].keys, batches[1]->fields[1].keys, n * sizeof(uint64_t));
        for (uint32_t i = 0; i < n; i++) {
            hits += batches[0]->fields[1].keys[i] == key_of(3);
            other += batches[0]->fields[1].keys[i] == (oov ? key_of(50 + fth_hash_bytes("55", 2, 0) % 7) : missing());
        }
        for (int p = 0; p < 2; p++) {
            fth_batch_destroy(batches[p]);
            fth_feature_pass_destroy(passes[p]);
            fth_feature_destroy(made[p].program);
        }
        fth_block_destroy(block);
    }
    assert_true(hits > 20 && other > 20);
}

/* One table's vocabulary is learned, and the next one's given. */
static void learned_beside_given(void **state) {
    struct made made;
    make(&made, 3, 1, 0, "");
    fth_feature_destroy(made.program);
    made.categorical[1].table = "u";
    made.categorical[1].vocabulary_size = 0;
    made.categorical[1].vocabulary_file = "words.txt";
    assert_int_equal(fth_feature_create(&made.config, columns, 3, &made.program, NULL), FTH_OK);
    assert_int_equal(fth_feature_learn_wanted(made.program), 100);
    assert_string_equal(fth_feature_vocabulary_file(made.program, 0), "");
    assert_string_equal(fth_feature_vocabulary_file(made.program, 1), "words.txt");
    fth_feature_destroy(made.program);
}

static void saved_and_loaded(void **state) {
    struct made a, b;
    uint64_t single, list[8], other, others[8];
    uint32_t n, m;
    double none[1];
    json_t *json = NULL;
    make(&a, 3, 1, 2, "");
    learn(a.program);
    assert_int_equal(fth_feature_state_save(a.program, NULL, 0, &json, NULL), FTH_OK);
    make(&b, 3, 1, 2, "");
    assert_int_equal(fth_feature_state_load(b.program, json, none, 0, NULL), FTH_OK);
    assert_int_equal(fth_feature_learn_wanted(b.program), 0);
    keys(a.program, "1,d,a;q;b;e\n", &single, list, &n);
    keys(b.program, "1,d,a;q;b;e\n", &other, others, &m);
    assert_true(single == other && n == m);
    assert_memory_equal(list, others, n * sizeof *list);
    fth_feature_destroy(b.program);
    static const char *const damaged[] = {
        "{\"boundaries\": {}, \"running\": {}}",
        "{\"boundaries\": {}, \"running\": {}, \"vocabularies\": {\"u\": []}}",
        "{\"boundaries\": {}, \"running\": {}, \"vocabularies\": {\"t\": [\"12\"]}}",
        "{\"boundaries\": {}, \"running\": {}, \"vocabularies\": {\"t\": [7]}}",
        "{\"boundaries\": {}, \"running\": {}, \"vocabularies\": {\"t\": [\"00000000000000aa\", \"00000000000000aa\"]}}",
    };
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        json_t *bad = json_loads(damaged[i], 0, NULL);
        assert_non_null(bad);
        make(&b, 3, 1, 2, "");
        assert_int_equal(fth_feature_state_load(b.program, bad, none, 0, NULL), FTH_E_CHECKPOINT);
        fth_feature_destroy(b.program);
        json_decref(bad);
    }
    json_decref(json);
    fth_feature_destroy(a.program);
}

static void codes(void **state) {
    struct fth_codes set = {0};
    uint32_t twice;
    uint64_t hashes[1000] = {0};
    assert_int_equal(fth_codes_build(hashes, 0, &set, &twice, NULL), FTH_OK);
    assert_int_equal(fth_codes_find(&set, 5), 0);
    fth_codes_free(&set);
    for (uint32_t i = 0; i < 1000; i++)
        hashes[i] = (uint64_t)(i % 7) << 40 | (uint64_t)i << 20; /* the low bits are all alike */
    assert_int_equal(fth_codes_build(hashes, 1000, &set, &twice, NULL), FTH_OK);
    assert_int_equal(twice, 1000);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(fth_codes_find(&set, hashes[i]), i);
    assert_int_equal(fth_codes_find(&set, 1), 1000);
    fth_codes_free(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learned),
        cmocka_unit_test(learned_in_the_order_of_lines),
        cmocka_unit_test(learned_from_what_is_kept),
        cmocka_unit_test(learned_from_all),
        cmocka_unit_test(forgotten_texts_make_room),
        cmocka_unit_test(given),
        cmocka_unit_test(several_at_a_time),
        cmocka_unit_test(learned_beside_given),
        cmocka_unit_test(saved_and_loaded),
        cmocka_unit_test(codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
