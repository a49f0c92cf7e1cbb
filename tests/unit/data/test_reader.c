/* data/reader: the same batches whatever threads, queues, blocks and restarts; holdout; malformed
 * lines; standard input; being destroyed at any time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log.h"
#include "count_alloc.h"
#include "data_support.h"

#define LINES 1000

static const char *const columns[] = {"label", "x", "text"};

/* Lines of different lengths, quoted LFs and delimiters among them; returns the text. Owned:
 * free(). */
static char *csv_text(uint32_t from, uint32_t to, size_t *n) {
    char *text = malloc((size_t)(to - from) * 80 + 1);
    *n = 0;
    for (uint32_t i = from; i < to; i++) {
        *n += (size_t)sprintf(text + *n, "%u,%u,", i & 1, i * 2654435761u % 1000);
        if (i % 7 == 3)
            *n += (size_t)sprintf(text + *n, "\"a\n,\"\"%u\"\"\n\"", i);
        else
            *n +=
                (size_t)sprintf(text + *n, "%.*s%u", (int)(i % 23), "xxxxxxxxxxxxxxxxxxxxxxxx", i);
        *n += (size_t)sprintf(text + *n, i % 5 ? "\n" : "\r\n");
    }
    return text;
}

/* Three files: plain without a last LF, gzip, zstd. */
static char paths[3][256];
static const char *files[3];

static fth_pool *pool;

/* -1: parsing and assembling on a pool */
static void set_threads(struct fth_data_config *config, struct fth_reader_options *options,
                        int64_t threads) {
    config->parse_threads = threads < 0 ? 0 : threads;
    options->pool = threads < 0 ? pool : NULL;
}

static int free_pool(void **state) {
    fth_pool_destroy(pool);
    return 0;
}

static int make_files(void **state) {
    if (fth_pool_create(3, &pool, NULL) != FTH_OK)
        return -1;
    static const uint32_t cut[] = {0, 400, 401, LINES};
    for (int f = 0; f < 3; f++) {
        size_t n;
        char name[16];
        char *text = csv_text(cut[f], cut[f + 1], &n);
        sprintf(name, "part-%d", f);
        strcpy(paths[f], temp_path(name));
        files[f] = paths[f];
        if (f == 0)
            write_file(paths[f], text, n - 1); /* without its LF */
        else
            (f == 1 ? write_gzip : write_zstd)(paths[f], text, n, 0);
        free(text);
    }
    return 0;
}

static struct fth_data_config make_config(void) {
    return csv_config(files, 3, columns, 3);
}

static const struct fth_data_set_options train_set = {.part = FTH_PART_TRAIN, .seed = 5};
static const struct fth_data_set_options valid_set = {.part = FTH_PART_VALID, .seed = 5};

static struct fth_reader_options train_options(void) {
    return (struct fth_reader_options){.batch_size = 64, .seed = 5, .epochs = 2, .train = 1};
}

static void same_at_any_setting(void **state) {
    static const struct {
        int64_t threads, depth, block;
    } settings[] = {{0, 1, 1}, {0, 1, 100}, {-1, 4, 1 << 20}, {-1, 1, 37}, {-1, 3, 1000}, {1, 1, 37}, {1, 8, 1 << 20}, {2, 1, 300}, {5, 3, 64}};
    static const int64_t shuffles[] = {0, 1, 150, 5000};
    uint64_t seen[4];
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
            read_result_free(&result);
        }
        seen[s] = reference.digest;
        read_result_free(&reference);
    }
    /* A buffer of one example does not shuffle; larger ones do. */
    assert_true(seen[0] == seen[1]);
    assert_true(seen[0] != seen[2] && seen[2] != seen[3]);
}

static void shuffle_is_a_permutation(void **state) {
    struct fth_data_config config = make_config();
    struct fth_reader_options options = train_options();
    static char once[2][LINES];
    config.shuffle = 300;
    struct read_result result = read_all(&config, &train_set, &options);
    uint64_t moved = 0, same = 0;
    memset(once, 0, sizeof once);
    for (uint64_t i = 0; i < 2 * LINES; i++) {
        uint64_t number = result.numbers[i];
        assert_true(number < LINES);
        assert_int_equal(once[i / LINES][number]++, 0);
        /* Within its own block of 300. */
        assert_int_equal(number / 300, i % LINES / 300);
        moved += number != i % LINES;
        same += i < LINES && result.numbers[i] == result.numbers[i + LINES];
    }
    assert_true(moved > LINES);
    assert_true(same < LINES / 10);
    options.seed = 6;
    struct read_result other = read_all(&config, &train_set, &options);
    assert_true(other.digest != result.digest);
    read_result_free(&result);
    read_result_free(&other);
}

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
    assert_non_null(strstr(result.error.message, "there are only 3"));
    position = (struct fth_position){.line = 1, .taken = 2000};
    config.shuffle = 100;
    result = read_all(&config, &train_set, &options);
    assert_int_equal(result.status, FTH_E_DATA);
    assert_non_null(strstr(result.error.message, "2000 examples of a shuffle block"));
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

static char logged[4][400];
static int n_logged;

static void keep_line(void *ctx, fth_log_level level, const char *line) {
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
            "%s:5:1: refused by the transform (more malformed lines than data.bad_line_limit, 1)",
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
    config.header = 0;
    result = read_all(&config, &train_set, &options);
    assert_int_equal(result.status, FTH_E_CONFIG);
    assert_non_null(strstr(result.error.message, "data.csv.columns: 0 names"));
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
        cmocka_unit_test(shuffle_is_a_permutation),
        cmocka_unit_test(restart_at_every_batch),
        cmocka_unit_test(restart_in_ugly_data),
        cmocka_unit_test(foreign_position_is_refused),
        cmocka_unit_test(holdout_is_disjoint_and_complete),
        cmocka_unit_test(valid_files),
        cmocka_unit_test(malformed_lines),
        cmocka_unit_test(all_before_a_malformed_line),
        cmocka_unit_test(truncated_file_ends_the_reader),
        cmocka_unit_test(headers),
        cmocka_unit_test(missing_label_in_prediction),
        cmocka_unit_test(standard_input),
        cmocka_unit_test(destroyed_early),
        cmocka_unit_test(steady_reading_allocates_nothing),
        cmocka_unit_test(other_formats),
    };
    return cmocka_run_group_tests(tests, make_files, free_pool);
}
