/* data/reader: malformed lines, truncated files, headers, standard input; being destroyed at any time. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log.h"
#include "reader_files.h"

static char logged[4][400];
static int n_logged;

static void keep_line(void *ctx, int level, const char *line) {
    assert_int_equal(level, FTH_LOG_WARN);
    assert_true(n_logged < 4);
    snprintf(logged[n_logged++], sizeof logged[0], "%s", line);
}

/* What comes before the line that stops everything does not depend on where blocks are cut. */
static void all_before_a_malformed_line(void **state) {
    static char text[4000];
    size_t n = 0;
    for (int i = 0; i < 300; i++)
        n += (size_t)sprintf(text + n, i == 101 ? "7,8\n" : i == 99 ? "\n" : "%d,2,3\n", i & 1);
    static const char *file;
    file = temp_path("stop.csv");
    write_file(file, text, n);
    struct fth_data_config config = csv_config(&file, 1, columns, 3);
    struct fth_reader_options options = {.batch_size = 10, .epochs = 1};
    config.on_bad_line = FTH_BAD_STOP;
    config.skip_blank = 1;
    for (int64_t bytes = 1; bytes < 10000; bytes *= 7) {
        config.block_bytes = bytes;
        struct read_result result = read_all(&config, &train_set, &options);
        assert_int_equal(result.status, FTH_E_DATA);
        assert_non_null(strstr(result.error.message, "stop.csv:102:4: 2 cells"));
        assert_int_equal(result.examples, 100);
        read_result_free(&result);
    }
}

static void malformed_lines(void **state) {
    static const char text[] = "1,2,3\n4,5,6\n7,8\n9,10,11\nrefuse,0,0\n12,13,14\n";
    static const char *file;
    file = temp_path("bad.csv");
    write_file(file, text, sizeof text - 1);
    struct fth_data_config config = csv_config(&file, 1, columns, 3);
    struct fth_reader_options options = {.batch_size = 1, .epochs = 1};
    char expected[400];
    for (int64_t threads = -1; threads < 3; threads++) {
        set_threads(&config, &options, threads);
        config.block_bytes = 1;
        config.on_bad_line = FTH_BAD_STOP;
        struct read_result result = read_all(&config, &train_set, &options);
        assert_int_equal(result.status, FTH_E_DATA);
        snprintf(expected, sizeof expected, "%s:3:4: 2 cells; a line has 3", file);
        assert_string_equal(result.error.message, expected);
        assert_int_equal(result.examples, 2);
        read_result_free(&result);
        config.on_bad_line = FTH_BAD_SKIP;
        n_logged = 0;
        fth_log_set(keep_line, NULL);
        result = read_all(&config, &train_set, &options);
        fth_log_set(NULL, NULL);
        assert_int_equal(n_logged, 2);
        snprintf(expected, sizeof expected,
                 "skipped 1 malformed line: %s:3:4: 2 cells; a line has 3", file);
        assert_string_equal(logged[0], expected);
        assert_int_equal(result.status, FTH_OK);
        assert_int_equal(result.examples, 4);
        assert_int_equal(result.counts.bad, 2);
        assert_int_equal(result.counts.lines, 6);
        assert_int_equal(result.numbers[2], 3);
        assert_int_equal(result.numbers[3], 5);
        read_result_free(&result);
        config.bad_line_limit = 1;
        result = read_all(&config, &train_set, &options);
        snprintf(
            expected, sizeof expected,
            "%s:5:1: refused by the transform (more malformed lines than the 1 that data.on_bad_line allows)",
            file);
        assert_string_equal(result.error.message, expected);
        read_result_free(&result);
        config.bad_line_limit = 2;
        options.epochs = 3; /* the limit counts an epoch's lines */
        result = read_all(&config, &train_set, &options);
        assert_int_equal(result.status, FTH_OK);
        read_result_free(&result);
        options.epochs = 1;
        config.bad_line_limit = -1;
    }
}

static void truncated_file_ends_the_reader(void **state) {
    static const char *file;
    size_t n, packed;
    file = temp_path("cut.gz");
    char *text = csv_text(0, 5000, &n);
    write_gzip(file, text, n, 0);
    char *bytes = read_whole(file, &packed);
    write_file(file, bytes, packed / 2);
    for (int64_t threads = -1; threads < 3; threads++) {
        struct fth_data_config config = csv_config(&file, 1, columns, 3);
        struct fth_reader_options options = train_options();
        set_threads(&config, &options, threads);
        config.block_bytes = 4096;
        struct read_result result = read_all(&config, &train_set, &options);
        assert_int_equal(result.status, FTH_E_DATA);
        assert_non_null(strstr(result.error.message, file));
        assert_non_null(strstr(result.error.message, "truncated"));
        assert_true(result.examples > 0 && result.examples % 64 == 0);
        read_result_free(&result);
    }
    free(bytes);
    free(text);
}

static void headers(void **state) {
    static const char *two[2];
    struct fth_reader_options options = {.batch_size = 2, .epochs = 1};
    two[0] = temp_path("h0.csv");
    two[1] = temp_path("h1.csv");
    write_file(two[0], "label,x\n1,2\n3,4\n", 16);
    write_file(two[1], "label,x\n5,6", 11);
    struct fth_data_config config = csv_config(two, 2, NULL, 0);
    config.header = 1;
    struct read_result result = read_all(&config, &train_set, &options);
    assert_int_equal(result.status, FTH_OK);
    assert_int_equal(result.examples, 3);
    read_result_free(&result);
    write_file(two[1], "\nlabel,y\n5,6", 12);
    result = read_all(&config, &train_set, &options);
    assert_int_equal(result.status, FTH_E_DATA);
    assert_non_null(strstr(result.error.message, "h1.csv:2: column 2 of the header is 'y', in"));
    read_result_free(&result);
    write_file(two[1], "label\n5\n", 8);
    result = read_all(&config, &train_set, &options);
    assert_non_null(strstr(result.error.message, "h1.csv:1: the header has 1 columns"));
    read_result_free(&result);
    write_file(two[1], "label,x\0\n5,6", 12);
    result = read_all(&config, &train_set, &options);
    assert_int_equal(result.status, FTH_E_DATA);
    assert_non_null(strstr(result.error.message, "h1.csv:1:8: a NUL byte in the header"));
    read_result_free(&result);
    write_file(two[1], "label,x\r5,6\r", 12);
    result = read_all(&config, &train_set, &options);
    assert_int_equal(result.status, FTH_E_DATA);
    assert_non_null(strstr(result.error.message, "h1.csv:1: its lines end in a carriage return alone"));
    read_result_free(&result);
    write_file(two[1], "label,x\r", 8); /* a file that ends there has no line alone */
    result = read_all(&config, &train_set, &options);
    assert_null(strstr(result.error.message, "carriage return"));
    read_result_free(&result);
    static const char *const given[] = {"x", "label"};
    config = csv_config(two, 1, given, 2); /* names beside a header that has others */
    config.header = 1;
    result = read_all(&config, &train_set, &options);
    assert_int_equal(result.status, FTH_E_DATA);
    assert_non_null(strstr(result.error.message, "h0.csv:1: data.csv.columns and the header differ from column 1 on; "
                                                 "it has: label, x"));
    read_result_free(&result);
    config.columns = (struct fth_strings){NULL, 0};
    config.header = 0;
    result = read_all(&config, &train_set, &options);
    assert_int_equal(result.status, FTH_E_CONFIG);
    assert_non_null(strstr(result.error.message, "data.csv.columns: 0 names"));
}

/* Standard input through a pipe that a child fills. */
static void standard_input(void **state) {
    static const char *const dash[] = {"-"};
    size_t n;
    char *text = csv_text(0, LINES, &n);
    struct fth_data_config config = csv_config(dash, 1, NULL, 0);
    struct fth_reader_options options = train_options();
    config.header = 1;
    config.parse_threads = 1;
    config.block_bytes = 777;
    int before = dup(STDIN_FILENO);
    for (int epochs = 1; epochs <= 2; epochs++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        if (child == 0) {
            close(ends[0]);
            FILE *out = fdopen(ends[1], "w");
            fputs("label,x,text\n", out);
            fwrite(text, 1, n, out);
            fclose(out);
            _exit(0);
        }
        close(ends[1]);
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        options.epochs = (uint64_t)epochs;
        struct read_result result = read_all(&config, &train_set, &options);
        if (epochs == 1) {
            assert_string_equal(result.error.message, "");
            assert_int_equal(result.examples, LINES);
        } else {
            assert_int_equal(result.status, FTH_E_CONFIG);
            assert_non_null(strstr(result.error.message, "2 epochs over standard input"));
        }
        read_result_free(&result);
    }
    config.holdout = FTH_HOLDOUT_HASH;
    options.epochs = 1;
    struct read_result held = read_all(&config, &train_set, &options);
    assert_int_equal(held.status, FTH_E_CONFIG);
    assert_non_null(strstr(held.error.message, "cannot be held out from"));
    config.holdout = FTH_HOLDOUT_NONE;
    config.header = 0;
    config.columns = (struct fth_strings){columns, 3};
    struct fth_position position = {.line = 3, .byte_offset = 20, .example = 2};
    options.start = &position;
    held = read_all(&config, &train_set, &options);
    assert_int_equal(held.status, FTH_E_CONFIG);
    assert_non_null(strstr(held.error.message, "cannot go on within standard input"));
    dup2(before, STDIN_FILENO);
    close(before);
    free(text);
}

/* At any moment, with batches in hand and a pipe that never says anything. */
static void destroyed_early(void **state) {
    struct fth_transform transform = hash_transform();
    struct fth_data_config config = make_config();
    config.block_bytes = 50;
    config.shuffle = 100;
    for (uint32_t after = 0; after < 24; after++) {
        struct fth_reader_options options = {.batch_size = 8, .epochs = 100, .train = 1, .held = 3};
        fth_data_set *set;
        fth_reader *reader;
        struct fth_batch *batch = NULL;
        set_threads(&config, &options, (int64_t)(after % 5) - 1);
        assert_int_equal(fth_data_set_create(&config, &train_set, &set, NULL), FTH_OK);
        assert_int_equal(fth_reader_create(set, &transform, &options, &reader, NULL), FTH_OK);
        for (uint32_t k = 0; k < after * 7; k++) {
            if (batch && k % 3)
                fth_reader_release(reader, batch);
            fth_status status = fth_reader_next(reader, &batch, NULL);
            if (status == FTH_E_ARGUMENT) /* all three are in hand */
                break;
            assert_int_equal(status, FTH_OK);
        }
        fth_reader_destroy(reader);
        fth_data_set_destroy(set);
    }
    static const char *const dash[] = {"-"};
    int before = dup(STDIN_FILENO), ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "1,2,3\n4,5,", 10), 10);
    dup2(ends[0], STDIN_FILENO);
    config = csv_config(dash, 1, columns, 3);
    config.parse_threads = 2;
    struct fth_reader_options options = {.batch_size = 8, .epochs = 1};
    fth_data_set *set;
    fth_reader *reader;
    assert_int_equal(fth_data_set_create(&config, &train_set, &set, NULL), FTH_OK);
    assert_int_equal(fth_reader_create(set, &transform, &options, &reader, NULL), FTH_OK);
    usleep(20000);
    fth_reader_destroy(reader);
    fth_data_set_destroy(set);
    dup2(before, STDIN_FILENO);
    close(before);
    close(ends[0]);
    close(ends[1]);
}

/* Reads the file once, lets `change` do something to it, and reads on: the second epoch's first answer. */
static fth_status second_epoch(const char *file, void (*change)(const char *file), fth_error *err) {
    struct fth_transform transform = hash_transform();
    struct fth_data_config config = csv_config(&file, 1, columns, 3);
    struct fth_reader_options options = {.batch_size = 2, .epochs = 2};
    fth_data_set *set;
    fth_reader *reader;
    struct fth_batch *batch;
    write_file(file, "1,2,3\n4,5,6\n", 12);
    assert_int_equal(fth_data_set_create(&config, &train_set, &set, NULL), FTH_OK);
    assert_int_equal(fth_reader_create(set, &transform, &options, &reader, NULL), FTH_OK);
    do {
        assert_int_equal(fth_reader_next(reader, &batch, NULL), FTH_OK);
        if (batch)
            fth_reader_release(reader, batch);
    } while (batch);
    change(file);
    fth_status status = fth_reader_next(reader, &batch, err);
    fth_reader_destroy(reader);
    fth_data_set_destroy(set);
    return status;
}

static void leave(const char *file) { assert_int_equal(access(file, R_OK), 0); }
static void append(const char *file) { write_file(file, "1,2,3\n4,5,6\n7,8,9\n", 18); }
static void write_again(const char *file) {
    const struct timespec later[] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = 2000000000}};
    write_file(file, "1,2,3\n7,5,6\n", 12);
    assert_int_equal(utimensat(AT_FDCWD, file, later, 0), 0);
}
/* The same bytes and time under another name: a network file system may say no more of a file that it has forgotten. */
static void copy(const char *file) {
    char other[300];
    struct stat was;
    assert_int_equal(stat(file, &was), 0);
    snprintf(other, sizeof other, "%s.other", file);
    write_file(other, "1,2,3\n4,5,6\n", 12);
    const struct timespec times[] = {{was.st_atim.tv_sec, 0}, {was.st_mtim.tv_sec, 0}};
    assert_int_equal(utimensat(AT_FDCWD, other, times, 0), 0);
    assert_int_equal(rename(other, file), 0);
}

/* An epoch over other data would be another run's. */
static void file_changed_between_epochs(void **state) {
    static const struct {
        void (*change)(const char *file);
        const char *message;
    } cases[] = {
        {append, "changes.csv: is not the file that was read before: it had 12 bytes, now 18"},
        {write_again, "changes.csv: was written to since it was read before"},
    };
    char file[300];
    fth_error err = {0};
    snprintf(file, sizeof file, "%s", temp_path("changes.csv"));
    assert_int_equal(second_epoch(file, leave, &err), FTH_OK);
    assert_int_equal(second_epoch(file, copy, &err), FTH_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(second_epoch(file, cases[i].change, &err), FTH_E_DATA);
        assert_non_null(strstr(err.message, cases[i].message));
    }
}

/* What is appended before the data is read is read with it. */
static void file_that_grows_before_it_is_read(void **state) {
    struct fth_transform transform = hash_transform();
    const char *file = temp_path("grows.csv");
    struct fth_data_config config = csv_config(&file, 1, columns, 3);
    struct fth_reader_options options = {.batch_size = 8, .epochs = 1};
    fth_data_set *set;
    fth_reader *reader;
    struct fth_batch *batch;
    write_file(file, "1,2,3\n4,5,6\n", 12);
    assert_int_equal(fth_data_set_create(&config, &train_set, &set, NULL), FTH_OK);
    append(file);
    assert_int_equal(fth_reader_create(set, &transform, &options, &reader, NULL), FTH_OK);
    assert_int_equal(fth_reader_next(reader, &batch, NULL), FTH_OK);
    assert_int_equal(batch->n, 3);
    fth_reader_destroy(reader);
    fth_data_set_destroy(set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_lines),
        cmocka_unit_test(all_before_a_malformed_line),
        cmocka_unit_test(truncated_file_ends_the_reader),
        cmocka_unit_test(headers),
        cmocka_unit_test(standard_input),
        cmocka_unit_test(file_changed_between_epochs),
        cmocka_unit_test(file_that_grows_before_it_is_read),
        cmocka_unit_test(destroyed_early),
    };
    return cmocka_run_group_tests(tests, make_files, free_pool);
}
