/* data/reader: a reader made from any batch's position gives the rest of the straight run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "reader_files.h"

/* A reader made from any batch's position gives the rest of the straight run, positions included.
 */
static void restarts(const struct fth_data_config *config, uint32_t batch_size, uint64_t expected) {
    struct fth_transform transform = hash_transform();
    struct fth_reader_options options = {
        .batch_size = batch_size, .seed = 5, .epochs = 2, .train = 1};
    struct fth_position positions[200];
    uint64_t digests[200];
    uint32_t n = 0;
    fth_data_set *set;
    fth_reader *reader;
    struct fth_batch *batch;
    fth_error err = {0};
    assert_int_equal(fth_data_set_create(config, &train_set, &set, &err), FTH_OK);
    assert_int_equal(fth_reader_create(set, &transform, &options, &reader, &err), FTH_OK);
    for (int epochs = 0; epochs < 2; n++) {
        assert_true(n < 200);
        assert_int_equal(fth_reader_next(reader, &batch, &err), FTH_OK);
        digests[n] = batch ? batch_digest(1, batch) : 0;
        fth_reader_get_position(reader, &positions[n]);
        if (batch)
            assert_memory_equal(&positions[n], &batch->after,
                                offsetof(struct fth_position, feature_state));
        else
            epochs++;
        fth_reader_release(reader, batch);
    }
    fth_reader_destroy(reader);
    assert_int_equal(positions[n - 1].examples_seen, expected);
    assert_int_equal(positions[n - 1].epoch, 2);
    for (uint32_t from = 0; from < n; from++) {
        options.start = &positions[from];
        assert_int_equal(fth_reader_create(set, &transform, &options, &reader, &err), FTH_OK);
        for (uint32_t k = from + 1; k <= n; k++) {
            struct fth_position position;
            fth_status status = fth_reader_next(reader, &batch, &err);
            assert_string_equal(err.message, "");
            assert_int_equal(status, FTH_OK);
            if (k == n) {
                assert_null(batch);
                break;
            }
            assert_true(digests[k] == (batch ? batch_digest(1, batch) : 0));
            fth_reader_get_position(reader, &position);
            assert_memory_equal(&position, &positions[k], sizeof position);
            fth_reader_release(reader, batch);
        }
        fth_reader_destroy(reader);
    }
    fth_data_set_destroy(set);
}

static void restart_at_every_batch(void **state) {
    struct fth_data_config config = make_config();
    config.block_bytes = 1000;
    restarts(&config, 100, 2 * LINES);
    config.shuffle = 130;
    restarts(&config, 64, 2 * LINES);
    config.parse_threads = 2;
    config.shuffle = 64;
    restarts(&config, 64, 2 * LINES);
    config.shuffle = 20;
    restarts(&config, 100, 2 * LINES);
}

/* One malformed line too many, the epoch's last: it is that for a reader that begins in the middle, too. */
static void limit_goes_on(const struct fth_data_config *given, int64_t limit) {
    struct fth_data_config config = *given;
    struct fth_transform transform = hash_transform();
    struct fth_reader_options options = {.batch_size = 32, .epochs = 1, .train = 1};
    struct fth_position position;
    fth_data_set *set;
    config.bad_line_limit = limit;
    assert_int_equal(fth_data_set_create(&config, &train_set, &set, NULL), FTH_OK);
    for (int round = 0; round < 2; round++) {
        fth_reader *reader;
        struct fth_batch *batch;
        fth_error err = {0};
        int batches = 0;
        assert_int_equal(fth_reader_create(set, &transform, &options, &reader, &err), FTH_OK);
        while (fth_reader_next(reader, &batch, &err) == FTH_OK) {
            assert_non_null(batch);
            fth_reader_get_position(reader, &position);
            fth_reader_release(reader, batch);
            batches++;
            if (round == 0 && batches == 8)
                break;
        }
        assert_true(round == 0 || (batches > 0 && strstr(err.message, "more malformed lines than")));
        fth_reader_destroy(reader);
        options.start = &position;
    }
    fth_data_set_destroy(set);
}

/* With malformed and refused lines, a header, comments and a byte order mark. */
static void restart_in_ugly_data(void **state) {
    static char ugly[40000];
    static const char *file;
    size_t n = (size_t)sprintf(ugly, "\xef\xbb\xbf# first\nlabel,x,text\n");
    uint64_t good = 0, bad = 0, drawn = 0;
    for (int i = 0; i < 600; i++) {
        if (i % 10 == 4)
            n += (size_t)sprintf(ugly + n, "# no data\n\n");
        if (i % 11 == 5)
            n += (size_t)sprintf(ugly + n, "only,two\n"), bad++;
        else if (i % 13 == 6)
            n += (size_t)sprintf(ugly + n, "refuse,%d,\"\n\n\"\n", i), bad++;
        else
            n += (size_t)sprintf(ugly + n, "%d,%d,\"\"\"\n\"\n", i & 1, i), good++;
    }
    n += (size_t)sprintf(ugly + n, "only,two\n# end"), bad++;
    file = temp_path("ugly");
    write_file(file, ugly, n);
    struct fth_data_config config = csv_config(&file, 1, NULL, 0);
    struct fth_reader_options options = train_options();
    config.header = 1;
    config.comment = "#";
    config.on_bad_line = FTH_BAD_SKIP;
    config.block_bytes = 200;
    struct read_result all = read_all(&config, &train_set, &options);
    assert_int_equal(all.status, FTH_OK);
    assert_int_equal(all.examples, 2 * good);
    assert_int_equal(all.counts.bad, 2 * bad);
    assert_int_equal(all.counts.lines, 2 * (good + bad));
    read_result_free(&all);
    restarts(&config, 32, 2 * good);
    limit_goes_on(&config, (int64_t)bad - 1);
    config.shuffle = 70;
    restarts(&config, 32, 2 * good);
    limit_goes_on(&config, (int64_t)bad - 1);
    config.holdout = FTH_HOLDOUT_HASH;
    config.holdout_fraction = 0.3;
    all = read_all(&config, &train_set, &options);
    drawn = all.examples;
    assert_true(drawn < 2 * good && drawn > good);
    read_result_free(&all);
    restarts(&config, 32, drawn);
    config.holdout = FTH_HOLDOUT_TAIL;
    all = read_all(&config, &train_set, &options);
    drawn = all.examples;
    read_result_free(&all);
    restarts(&config, 32, drawn);
}

static void foreign_position_is_refused(void **state) {
    struct fth_data_config config = make_config();
    struct fth_reader_options options = train_options();
    struct fth_position position = {.byte_offset = 5, .line = 2};
    options.start = &position;
    struct read_result result = read_all(&config, &train_set, &options);
    assert_int_equal(result.status, FTH_E_DATA);
    assert_non_null(strstr(result.error.message, "no line starts at byte 5"));
    position.byte_offset = 1 << 30;
    result = read_all(&config, &train_set, &options);
    assert_int_equal(result.status, FTH_E_DATA);
    assert_non_null(strstr(result.error.message, "not the one that was read before"));
    position.file_index = 3;
    result = read_all(&config, &train_set, &options);
    assert_non_null(strstr(result.error.message, "there are 3 now"));
    position = (struct fth_position){.line = 1, .taken = 2000};
    config.shuffle = 100;
    result = read_all(&config, &train_set, &options);
    assert_int_equal(result.status, FTH_E_DATA);
    assert_non_null(strstr(result.error.message, "2000 examples of a shuffle block"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restart_at_every_batch),
        cmocka_unit_test(restart_in_ugly_data),
        cmocka_unit_test(foreign_position_is_refused),
    };
    return cmocka_run_group_tests(tests, make_files, free_pool);
}
