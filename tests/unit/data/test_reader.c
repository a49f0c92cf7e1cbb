/* data/reader: the same batches whatever threads, queues and blocks; shuffling, holdout, formats; nothing allocated. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "count_alloc.h"
#include "reader_files.h"

static void same_at_any_setting(void **state) {
    static const struct {
        int64_t threads, depth, block;
    } settings[] = {{0, 1, 1}, {0, 1, 100}, {-1, 4, 1 << 20}, {-1, 1, 37}, {-1, 3, 1000}, {1, 1, 37}, {1, 8, 1 << 20}, {2, 1, 300}, {5, 3, 64}};
    static const int64_t shuffles[] = {0, 1, 150, 5000};
    uint64_t seen[4], pieces = 0;
    for (int s = 0; s < 4; s++) {
        struct fth_data_config config = make_config();
        struct fth_reader_options options = train_options();
        config.shuffle = shuffles[s];
        struct read_result reference = read_all(&config, &train_set, &options);
        assert_int_equal(reference.status, FTH_OK);
        assert_int_equal(reference.examples, 2 * LINES);
        assert_int_equal(reference.epochs, 2);
        assert_int_equal(reference.batches, 2 * ((LINES + 63) / 64));
        assert_int_equal(reference.counts.lines, 2 * LINES);
        for (size_t k = 0; k < sizeof settings / sizeof settings[0]; k++) {
            set_threads(&config, &options, settings[k].threads);
            config.queue_depth = settings[k].depth;
            config.block_bytes = settings[k].block;
            struct read_result result = read_all(&config, &train_set, &options);
            assert_int_equal(result.status, FTH_OK);
            assert_true(result.digest == reference.digest);
            assert_int_equal(result.counts.bytes, reference.counts.bytes);
            pieces += result.pieces;
            assert_true(settings[k].threads < 0 || result.pieces == 0);
            read_result_free(&result);
        }
        seen[s] = reference.digest;
        read_result_free(&reference);
    }
    assert_true(pieces > 0); /* in all: a single run may have nothing ready in its pauses */
    /* A buffer of one example does not shuffle; larger ones do. */
    assert_true(seen[0] == seen[1]);
    assert_true(seen[0] != seen[2] && seen[2] != seen[3]);
}

/* Every `period`-th reading would have to wait; 0: none. */
static _Atomic uint32_t asked, period;

static int64_t pread_now(void *ctx, int file, void *bytes, size_t n, uint64_t offset) {
    uint32_t number = ++asked;
    if (period && number % period == 0)
        return -EAGAIN;
    return fth_io_posix()->pread(ctx, file, bytes, n > 70 ? n - n / 3 : n, offset);
}

/* Blocks read by the workers and by the thread, in turns: the same batches. */
static void same_whoever_reads(void **state) {
    static const uint32_t periods[] = {0, 1, 2, 3, 7, 50};
    static const int64_t blocks[] = {1, 300, 4000};
    struct fth_data_config config = make_config();
    struct fth_reader_options options = train_options();
    struct read_result reference = read_all(&config, &train_set, &options);
    struct fth_data_set_options from = train_set;
    struct fth_io io = *fth_io_posix();
    io.pread_now = pread_now;
    from.io = &io;
    set_threads(&config, &options, -1);
    for (int k = 0; k < 18; k++) {
        period = periods[k / 3];
        config.block_bytes = blocks[k % 3];
        asked = 0;
        struct read_result result = read_all(&config, &from, &options);
        assert_int_equal(result.status, FTH_OK);
        assert_true(result.digest == reference.digest);
        assert_int_equal(result.counts.bytes, reference.counts.bytes);
        assert_true(asked > 0 || k % 3 == 2); /* the last size leaves the workers nothing */
        read_result_free(&result);
    }
    read_result_free(&reference);
}

static void same_past_the_page_cache(void **state) {
    static const int64_t threads[] = {0, -1, 2}, blocks[] = {37, 4000, 1 << 20};
    struct fth_data_config config = make_config();
    struct fth_reader_options options = train_options();
    uint64_t direct_bytes = 0;
    struct read_result reference = read_all(&config, &train_set, &options);
    assert_int_equal(reference.counts.direct_bytes, 0);
    config.direct_reads = FTH_DIRECT_ON;
    for (int k = 0; k < 9; k++) {
        set_threads(&config, &options, threads[k / 3]);
        config.block_bytes = blocks[k % 3];
        struct read_result result = read_all(&config, &train_set, &options);
        assert_int_equal(result.status, FTH_OK);
        assert_true(result.digest == reference.digest);
        assert_int_equal(result.counts.bytes, reference.counts.bytes);
        direct_bytes += result.counts.direct_bytes;
        read_result_free(&result);
    }
    print_message("%llu bytes past the page cache\n", (unsigned long long)direct_bytes); /* none without O_DIRECT */
    read_result_free(&reference);
}

static void shuffle_is_a_permutation(void **state) {
    struct fth_data_config config = make_config();
    struct fth_reader_options options = train_options();
    static char once[2][LINES];
    config.shuffle = 300;
    struct read_result result = read_all(&config, &train_set, &options);
    uint64_t moved = 0, same = 0, alike = 0;
    memset(once, 0, sizeof once);
    for (uint64_t i = 0; i < 2 * LINES; i++) {
        uint64_t number = result.numbers[i];
        assert_true(number < LINES);
        assert_int_equal(once[i / LINES][number]++, 0);
        /* Within its own block of 300. */
        assert_int_equal(number / 300, i % LINES / 300);
        moved += number != i % LINES;
        same += i < LINES && result.numbers[i] == result.numbers[i + LINES];
        /* Nor have two blocks of an epoch one order. */
        alike += i % LINES >= 300 && result.numbers[i] == result.numbers[i - 300] + 300;
    }
    assert_true(moved > LINES);
    assert_true(same < LINES / 10);
    assert_true(alike < LINES / 10);
    options.seed = 6;
    struct read_result other = read_all(&config, &train_set, &options);
    assert_true(other.digest != result.digest);
    read_result_free(&result);
    read_result_free(&other);
}

static void holdout_is_disjoint_and_complete(void **state) {
    for (int kind = FTH_HOLDOUT_HASH; kind <= FTH_HOLDOUT_TAIL; kind++) {
        struct fth_data_config config = make_config();
        struct fth_reader_options options = train_options(), eval = train_options();
        static char in[LINES];
        uint64_t held = 0;
        config.holdout = kind;
        config.holdout_fraction = 0.25;
        config.block_bytes = 500;
        config.shuffle = 50;
        eval.train = 0;
        options.epochs = eval.epochs = 1;
        struct read_result train = read_all(&config, &train_set, &options);
        config.parse_threads = 1;
        config.block_bytes = 7000;
        struct read_result valid = read_all(&config, &valid_set, &eval);
        assert_int_equal(train.status, FTH_OK);
        assert_int_equal(valid.status, FTH_OK);
        assert_int_equal(train.examples + valid.examples, LINES);
        assert_true(valid.examples > LINES / 5 && valid.examples < LINES * 3 / 10);
        memset(in, 0, sizeof in);
        for (uint64_t i = 0; i < train.examples; i++)
            in[train.numbers[i]] |= 1;
        for (uint64_t i = 0; i < valid.examples; i++) {
            in[valid.numbers[i]] |= 2;
            held += valid.numbers[i] >= LINES - valid.examples;
            /* Not shuffled. */
            assert_true(i == 0 || valid.numbers[i] > valid.numbers[i - 1]);
        }
        for (int i = 0; i < LINES; i++)
            assert_true(in[i] == 1 || in[i] == 2);
        if (kind == FTH_HOLDOUT_TAIL)
            assert_int_equal(held, valid.examples);
        else
            assert_true(held < valid.examples / 2);
        read_result_free(&train);
        read_result_free(&valid);
    }
    struct fth_data_config config = make_config();
    struct fth_reader_options options = train_options();
    struct read_result none = read_all(&config, &valid_set, &options);
    assert_int_equal(none.status, FTH_E_CONFIG);
    assert_non_null(strstr(none.error.message, "nothing is held out"));
}

/* Lines with one text in the column are held out together, wherever they stand; others of a block need not be. */
static void held_out_by_a_column(void **state) {
    static char text[LINES * 16];
    const char *file = temp_path("users.csv");
    int parts[7] = {0}, all = 0;
    char *at = text;
    for (int i = 0; i < LINES; i++)
        at += sprintf(at, "%d,%d,%d\n", i & 1, i % 7, i);
    write_file(file, text, (size_t)(at - text));
    struct fth_data_config config = csv_config(&file, 1, columns, 3);
    struct fth_reader_options options = {.batch_size = 64, .epochs = 1};
    config.holdout = FTH_HOLDOUT_HASH;
    config.holdout_fraction = 0.5;
    config.holdout_column = columns[1];
    for (int part = 0; part < 2; part++) {
        struct read_result read = read_all(&config, part ? &valid_set : &train_set, &options);
        assert_int_equal(read.status, FTH_OK);
        for (uint64_t i = 0; i < read.examples; i++)
            parts[read.numbers[i] % 7] |= 1 << part;
        all += (int)read.examples;
        read_result_free(&read);
    }
    assert_int_equal(all, LINES);
    int held = 0;
    for (int user = 0; user < 7; user++) {
        assert_true(parts[user] == 1 || parts[user] == 2);
        held += parts[user] == 2;
    }
    assert_in_range(held, 1, 6);
}

/* Lines of one length, so that a line begins exactly where the tail does: whichever blocks, the two parts are all of them. */
static void a_cut_between_two_lines(void **state) {
    static const int64_t blocks[] = {1, 8, 64, 1000, 1 << 20};
    static char text[400 * 8 + 1];
    const char *file = temp_path("equal.csv");
    for (int i = 0; i < 400; i++)
        sprintf(text + 8 * i, "%d,%d,%03d\n", i & 1, i % 7, i);
    write_file(file, text, 400 * 8);
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) {
        struct fth_data_config config = csv_config(&file, 1, columns, 3);
        struct fth_reader_options options = {.batch_size = 64, .epochs = 1};
        config.holdout = FTH_HOLDOUT_TAIL;
        config.holdout_fraction = 0.25;
        config.block_bytes = blocks[k];
        struct read_result valid = read_all(&config, &valid_set, &options);
        options.train = 1;
        struct read_result train = read_all(&config, &train_set, &options);
        assert_int_equal(train.examples, 300);
        assert_int_equal(valid.examples, 100);
        read_result_free(&train);
        read_result_free(&valid);
    }
}

static void valid_files(void **state) {
    struct fth_data_config config = make_config();
    struct fth_reader_options options = {.batch_size = 10, .epochs = 1};
    config.valid = (struct fth_strings){files, 1};
    config.holdout = FTH_HOLDOUT_TAIL;
    config.holdout_fraction = 0.5;
    struct read_result valid = read_all(&config, &valid_set, &options);
    assert_int_equal(valid.examples, 400);
    struct read_result train = read_all(&config, &train_set, &options);
    assert_int_equal(train.examples, LINES);
    struct fth_data_set_options test = {.part = FTH_PART_TEST};
    struct read_result absent = read_all(&config, &test, &options);
    assert_string_equal(absent.error.message, "data.test: no file is given");
    read_result_free(&valid);
    read_result_free(&train);
}

static void missing_label_in_prediction(void **state) {
    static const char text[] = "1,x\n2,y\n", with[] = "0,1,x\n";
    struct fth_data_config config = csv_config(NULL, 0, columns, 3);
    struct fth_data_set_options options = {.part = FTH_PART_FILES,
                                           .labels_optional = 1,
                                           .memory = text,
                                           .memory_bytes = sizeof text - 1};
    fth_data_set *set;
    assert_int_equal(fth_data_set_create(&config, &options, &set, NULL), FTH_OK);
    assert_int_equal(fth_data_set_columns(set).n, 2);
    assert_string_equal(fth_data_set_columns(set).items[0], "x");
    fth_data_set_destroy(set);
    options.memory = with;
    options.memory_bytes = sizeof with - 1;
    assert_int_equal(fth_data_set_create(&config, &options, &set, NULL), FTH_OK);
    assert_int_equal(fth_data_set_columns(set).n, 3);
    fth_data_set_destroy(set);
}

/* Behind the first blocks and shuffle buffers, nothing is allocated until the end of the files. */
static void steady_reading_allocates_nothing(void **state) {
    static const char *file;
    struct fth_transform transform = hash_transform();
    size_t n;
    char *text = csv_text(0, 60000, &n);
    file = temp_path("long.csv");
    write_file(file, text, n);
    free(text);
    if (!count_alloc_works())
        skip();
    for (int64_t threads = 0; threads < 3; threads++) {
        struct fth_data_config config = csv_config(&file, 1, columns, 3);
        struct fth_reader_options options = {.batch_size = 100, .epochs = 1, .train = 1};
        fth_data_set *set;
        fth_reader *reader;
        struct fth_batch *batch;
        set_threads(&config, &options, threads);
        config.shuffle = 1000;
        config.block_bytes = 10000;
        assert_int_equal(fth_data_set_create(&config, &train_set, &set, NULL), FTH_OK);
        assert_int_equal(fth_reader_create(set, &transform, &options, &reader, NULL), FTH_OK);
        for (int k = 0; k < 550; k++) {
            if (k == 400)
                count_alloc_start();
            assert_int_equal(fth_reader_next(reader, &batch, NULL), FTH_OK);
            assert_non_null(batch);
            fth_reader_release(reader, batch);
        }
        assert_int_equal(count_alloc_stop().allocations, 0);
        fth_reader_destroy(reader);
        fth_data_set_destroy(set);
    }
}

/* In rounds, where a batch is more than they read ahead, the one that was given back is filled again, so that no other
 * one's memory is touched (at the file's end the last one is begun behind the one before). */
static void one_large_batch_does(void **state) {
    static const char *file;
    struct fth_transform transform = hash_transform();
    struct fth_reader_options options = {.batch_size = 2000, .epochs = 1, .train = 1};
    struct fth_batch *batch, *first = NULL;
    fth_data_set *set;
    fth_reader *reader;
    size_t n;
    char *text = csv_text(0, 20000, &n);
    file = temp_path("large.csv");
    write_file(file, text, n);
    free(text);
    struct fth_data_config config = csv_config(&file, 1, columns, 3);
    set_threads(&config, &options, -1);
    config.block_bytes = 1000;
    assert_int_equal(fth_data_set_create(&config, &train_set, &set, NULL), FTH_OK);
    assert_int_equal(fth_reader_create(set, &transform, &options, &reader, NULL), FTH_OK);
    for (int k = 0; k < 8; k++) {
        assert_int_equal(fth_reader_next(reader, &batch, NULL), FTH_OK);
        assert_non_null(batch);
        first = first ? first : batch;
        assert_ptr_equal(batch, first);
        fth_reader_release(reader, batch);
    }
    fth_reader_destroy(reader);
    fth_data_set_destroy(set);
}

static void other_formats(void **state) {
    static const char svm[] = "1 1:1 2:0.5\n0 3:1 # c\n", ffm[] = "1 0:1:1\n0 1:3:1 2:3:4\n";
    struct fth_data_config config = csv_config(NULL, 0, NULL, 0);
    struct fth_data_set_options options = {
        .part = FTH_PART_FILES, .memory = svm, .memory_bytes = sizeof svm - 1};
    struct fth_reader_options read = {.batch_size = 5, .epochs = 1};
    config.format = FTH_FORMAT_LIBSVM;
    struct read_result a = read_all(&config, &options, &read);
    assert_int_equal(a.examples, 2);
    options.memory = ffm;
    options.memory_bytes = sizeof ffm - 1;
    struct read_result b = read_all(&config, &options, &read);
    assert_int_equal(b.status, FTH_E_DATA);
    config.format = FTH_FORMAT_LIBFFM;
    struct read_result c = read_all(&config, &options, &read);
    assert_int_equal(c.status, FTH_OK);
    assert_int_equal(c.examples, 2);
    read_result_free(&a);
    read_result_free(&b);
    read_result_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_at_any_setting),
        cmocka_unit_test(same_whoever_reads),
        cmocka_unit_test(same_past_the_page_cache),
        cmocka_unit_test(shuffle_is_a_permutation),
        cmocka_unit_test(holdout_is_disjoint_and_complete),
        cmocka_unit_test(held_out_by_a_column),
        cmocka_unit_test(a_cut_between_two_lines),
        cmocka_unit_test(valid_files),
        cmocka_unit_test(missing_label_in_prediction),
        cmocka_unit_test(steady_reading_allocates_nothing),
        cmocka_unit_test(one_large_batch_does),
        cmocka_unit_test(other_formats),
    };
    return cmocka_run_group_tests(tests, make_files, free_pool);
}
