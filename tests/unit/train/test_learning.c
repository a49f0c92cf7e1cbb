/* train/read.c: vocabularies are learned from the lines that are trained on, not from those that are held out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/text.h"
#include "data_support.h"
#include "feature/program_private.h"
#include "train/session_private.h"

enum { LINES = 2000, BAD = 7 }; /* every seventh line has a cell too few */

static void write_lines(const char *path) {
    struct fth_text text = {0};
    fth_text_printf(&text, "label,word\n");
    for (uint32_t i = 0; i < LINES; i++)
        fth_text_printf(&text, i % BAD == BAD - 1 ? "w%u\n" : "1,w%u\n", i);
    assert_false(text.failed);
    write_file(path, text.data, text.length);
    fth_text_free(&text);
}

static fth_session *session_of(const char *path, const char *kind, int lines) {
    char text[1000];
    fth_config *config = NULL;
    fth_session *session = NULL;
    fth_error err = {0};
    snprintf(text, sizeof text,
             "seed: 3\n"
             "data: {format: csv, label: label, train: '%s', on_bad_line: skip, block_bytes: 1024,\n"
             "       holdout: {by: %s, fraction: 0.3}}\n"
             "features: {learn_lines: %d, categorical: [{columns: [word], vocabulary_size: %d}]}\n"
             "model: {name: lr}\n",
             path, kind, lines, LINES);
    if (fth_config_parse("test", text, strlen(text), NULL, 0, &config, &err) != FTH_OK ||
        fth_session_create(config, FTH_FOR_ALL, &session, &err) != FTH_OK)
        fail_msg("%s", err.message);
    fth_config_free(config);
    return session;
}

/* Which lines are trained on, as a reader of the training data says. */
static uint64_t trained_on(const fth_session *session, uint8_t *trained) {
    struct fth_data_set_options set = {.part = FTH_PART_TRAIN, .seed = (uint64_t)session->config->seed};
    struct fth_reader_options options = {.batch_size = 50, .seed = 1, .epochs = 1, .train = 1};
    struct read_result read = read_all(&session->config->data, &set, &options);
    assert_int_equal(read.status, FTH_OK);
    for (uint64_t i = 0; i < read.examples; i++)
        trained[read.numbers[i]] = 1;
    uint64_t n = read.examples;
    read_result_free(&read);
    return n;
}

static int knows(const fth_session *session, uint32_t line) {
    char word[16];
    int length = snprintf(word, sizeof word, "w%u", line);
    const struct fth_codes *codes = &session->program->vocabularies[0].codes;
    return fth_codes_find(codes, fth_hash_bytes(word, (size_t)length, 0)) < codes->n;
}

static void held_out_words_are_not_learned(void **state) {
    static const char *const kinds[] = {"hash", "tail"};
    const char *path = temp_path("words.csv");
    write_lines(path);
    for (int kind = 0; kind < 2; kind++) {
        static uint8_t trained[LINES];
        memset(trained, 0, sizeof trained);
        fth_session *session = session_of(path, kinds[kind], 0);
        uint64_t n = trained_on(session, trained);
        assert_true(n > LINES / 2 && n < LINES * 3 / 4);
        for (uint32_t i = 0; i < LINES; i++)
            assert_int_equal(knows(session, i), trained[i]);
        fth_session_destroy(session);
    }
}

/* learn_lines are lines that are trained on. */
static void so_many_lines_are_learned_from(void **state) {
    static uint8_t trained[LINES];
    const char *path = temp_path("words.csv");
    write_lines(path);
    fth_session *session = session_of(path, "hash", 300);
    (void)trained_on(session, trained);
    uint32_t learned = 0;
    for (uint32_t i = 0; i < LINES; i++) {
        assert_int_equal(knows(session, i), trained[i] && learned < 300);
        learned += knows(session, i) != 0;
    }
    assert_int_equal(learned, 300);
    fth_session_destroy(session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held_out_words_are_not_learned),
        cmocka_unit_test(so_many_lines_are_learned_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
