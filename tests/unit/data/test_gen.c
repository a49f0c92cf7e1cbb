/* data/gen: same bytes at any thread count, in files too; formats and the promised statistics; refusals. */
#include <errno.h>
#include <math.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/text.h"
#include "data/gen_private.h"
#include "fault_io.h"
#include "gen_test.h"

static void bytes_do_not_depend_on_threads(void **state) {
    const char *name;
    for (size_t i = 0; (name = fth_gen_preset_name(i, NULL)) != NULL; i++) {
        struct bytes data[4], truth[4];
        fth_gen_result results[4];
        const uint32_t threads[] = {1, 2, 8, 0};
        for (int t = 0; t < 4; t++) {
            preset(name, strcmp(name, "elm-long") == 0 ? 500 : 5000);
            o.threads = threads[t];
            o.drift_popularity = 0.1;
            o.drift_weights = 0.5;
            generate(&data[t], &truth[t]);
            results[t] = result;
        }
        for (int t = 1; t < 4; t++) {
            assert_int_equal(data[t].n, data[0].n);
            assert_memory_equal(data[t].data, data[0].data, data[0].n);
            assert_int_equal(truth[t].n, truth[0].n);
            assert_memory_equal(truth[t].data, truth[0].data, truth[0].n);
            assert_memory_equal(&results[t], &results[0], sizeof results[0]);
        }
        /* Another seed is another data set. */
        struct bytes other;
        o.seed = 2;
        generate(&other, NULL);
        assert_true(other.n != data[0].n || memcmp(other.data, data[0].data, other.n) != 0);
        free(other.data);
        for (int t = 0; t < 4; t++) {
            free(data[t].data);
            free(truth[t].data);
        }
    }
}

/* Every draw against the law, for exponents on both sides of 1. */
static void zipf_follows_its_law(void **state) {
    const double exponents[] = {0, 0.5, 1, 1.3, 3};
    const uint64_t sizes[] = {1, 2, 1000, 4000000000ull};
    for (int s = 0; s < 5; s++)
        for (int k = 0; k < 4; k++) {
            struct fth_zipf zipf;
            struct fth_gen_draws draws = {(uint64_t)(7 + s * 10 + k)};
            fth_zipf_init(&zipf, sizes[k], exponents[s]);
            enum { N = 100000 };
            double first = 0, ten = 0, p_first = fth_zipf_share(sizes[k], exponents[s], 1),
                   p_ten = fth_zipf_share(sizes[k], exponents[s], 10);
            for (int i = 0; i < N; i++) {
                uint64_t id = fth_zipf_draw(&zipf, &draws);
                assert_true(id < sizes[k]);
                first += id == 0;
                ten += id < 10;
            }
            assert_true(fabs(first / N - p_first) < 5 * sqrt(p_first * (1 - p_first) / N) + 1e-9);
            if (sizes[k] > 10)
                assert_true(fabs(ten / N - p_ten) < 5 * sqrt(p_ten * (1 - p_ten) / N) + 1e-9);
        }
    /* The share by its definition, term by term. */
    double sum[2] = {0, 0};
    for (int i = 1; i <= 50000; i++) {
        sum[0] += i <= 5000 ? pow(i, -0.8) : 0;
        sum[1] += pow(i, -0.8);
    }
    assert_true(fabs(fth_zipf_share(50000, 0.8, 5000) - sum[0] / sum[1]) < 1e-8);
    double solved = fth_zipf_solve(50000, 0.1, sum[0] / sum[1]);
    assert_true(fabs(solved - 0.8) < 1e-6);
}

static void columns_have_the_promised_skew(void **state) {
    preset("criteo-small", 60000);
    o.columns[9].zipf = 0;
    o.columns[9].cardinality = 500;
    o.columns[10] = (fth_gen_column){.name = "C11", .cardinality = 1000, .top_ids = 0.05,
                                     .top_draws = 0.8};
    o.columns[11].missing = 0.3;
    o.columns[12].cardinality = 1;
    struct bytes data;
    generate(&data, NULL);
    assert_true(result.zipf[9] == 0 && result.zipf[10] > 0.5);
    /* Counts of the texts of three columns, by hashing into a table far larger than the number of ids. */
    static uint32_t counts[3][1 << 16];
    memset(counts, 0, sizeof counts);
    size_t missing[40] = {0}, lines = 0, positives = 0;
    for (char *line = data.data, *end; *line; line = end + 1, lines++) {
        end = strchr(line, '\n');
        *end = 0;
        char *cells[41];
        assert_int_equal(split(line, '\t', cells, 41), 40);
        assert_true(strcmp(cells[0], "0") == 0 || strcmp(cells[0], "1") == 0);
        positives += cells[0][0] == '1';
        for (int c = 1; c < 40; c++) {
            size_t n = strlen(cells[c]);
            missing[c] += n == 0;
            int64_t number;
            if (n > 0 && c <= 13)
                assert_true(fth_parse_i64(cells[c], n, &number));
            if (n > 0 && c > 13)
                assert_true(n == 8 && strspn(cells[c], "0123456789abcdef") == 8);
        }
        for (int k = 0; k < 3; k++)
            counts[k][fth_hash_bytes(cells[14 + 9 + (k == 2 ? 3 : k)], 8, 1) & 0xffff]++;
    }
    assert_int_equal(lines, 60000);
    assert_int_equal(positives, result.positives);
    assert_true(missing[14 + 9] == 0 && missing[14] == 0);
    assert_true(fabs((double)missing[14 + 11] / 60000 - 0.3) < 0.01);
    assert_true(fabs((double)missing[1] / 60000 - 0.45) < 0.01);
    uint32_t distinct[3] = {0}, most[3] = {0};
    double top = 0;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 1 << 16; i++) {
            distinct[k] += counts[k][i] > 0;
            most[k] = counts[k][i] > most[k] ? counts[k][i] : most[k];
        }
    assert_true(distinct[0] >= 495 && distinct[0] <= 500 && most[0] < 320); /* uniform over 500 */
    assert_int_equal(distinct[2], 1);
    for (int pass = 0; pass < 50; pass++) { /* the 50 most frequent texts of 1000 */
        int best = 0;
        for (int i = 0; i < 1 << 16; i++)
            best = counts[1][i] > counts[1][best] ? i : best;
        top += counts[1][best];
        counts[1][best] = 0;
    }
    assert_true(fabs(top / 60000 - 0.8) < 0.02);
    free(data.data);
}

/* Two runs that meet give the bytes of one, with drift measured over the whole. */
static void parts_make_the_whole(void **state) {
    struct bytes whole, part[2];
    for (int k = 0; k < 3; k++) {
        preset("criteo-small", k < 2 ? 1500 : 3000);
        o.first = k == 1 ? 1500 : 0;
        o.drift_over = 3000;
        o.drift_popularity = 0.3;
        o.drift_weights = 1;
        generate(k < 2 ? &part[k] : &whole, NULL);
    }
    assert_int_equal(whole.n, part[0].n + part[1].n);
    assert_memory_equal(whole.data, part[0].data, part[0].n);
    assert_memory_equal(whole.data + part[0].n, part[1].data, part[1].n);
    free(whole.data);
    free(part[0].data);
    free(part[1].data);
}

static void sequences_hold_together(void **state) {
    preset("sequence", 8000);
    struct bytes data, truth;
    generate(&data, &truth);
    assert_memory_equal(data.data, "label,user,item,category,hist_item,hist_category\n", 49);
    double lengths = 0, matched[2] = {0}, total[2] = {0};
    char *p = truth.data;
    size_t lines = 0;
    for (char *line = strchr(data.data, '\n') + 1, *end; *line; line = end + 1, lines++) {
        end = strchr(line, '\n');
        *end = 0;
        char *cells[7], *items[200], *categories[200];
        assert_int_equal(split(line, ',', cells, 7), 6);
        size_t n = *cells[4] ? split(cells[4], ';', items, 200) : 0;
        assert_int_equal(*cells[5] ? split(cells[5], ';', categories, 200) : 0, n);
        assert_true(n <= 100);
        lengths += (double)n;
        int match = 0;
        for (size_t t = 0; t < n; t++) {
            /* An item has one category, in the history as in the target. */
            if (strcmp(items[t], cells[2]) == 0)
                assert_string_equal(categories[t], cells[3]);
            match |= t + 3 >= n && strcmp(categories[t], cells[3]) == 0;
        }
        matched[match] += strtod(p, &p);
        total[match]++;
    }
    assert_int_equal(lines, 8000);
    assert_true(fabs(lengths / 8000 - 20) < 1);
    /* A recent match raises the probability. */
    assert_true(total[1] > 800 && matched[1] / total[1] > 0.15 + matched[0] / total[0]);
    free(data.data);
    free(truth.data);

    preset("sequence", 4000);
    o.sequence.mean_length = 9;
    o.sequence.max_length = 10; /* a mean near the maximum */
    generate(&data, NULL);
    double bars = 0;
    for (char *c = data.data; *c; c++)
        bars += *c == ';';
    assert_true(fabs(bars / 2 / 4000 - 8) < 0.2); /* lengths less one, for almost all */
    free(data.data);
}

static void entries_parse_back(void **state) {
    const char *names[] = {"libsvm", "libffm"};
    for (int ffm = 0; ffm < 2; ffm++) {
        preset(names[ffm], 3000);
        struct bytes data;
        generate(&data, NULL);
        size_t lines = 0, entries = 0;
        for (char *p = data.data; *p; lines++) {
            assert_true(*p == '0' || *p == '1');
            p++;
            long last_index = -1, last_field = -1;
            while (*p == ' ') {
                long field = ffm ? strtol(p + 1, &p, 10) : 0;
                long index = strtol(p + 1, &p, 10);
                assert_int_equal(*p, ':');
                double value = strtod(p + 1, &p);
                if (ffm) {
                    assert_true(field > last_field && field < 12);
                    last_field = field;
                }
                assert_true(index > last_index && index + ffm >= 1);
                assert_true(index - !ffm < 4 || value == 1);
                last_index = index;
                entries++;
            }
            assert_int_equal(*p++, '\n');
        }
        assert_int_equal(lines, 3000);
        assert_true(entries > 3000 * 11 && entries < 3000 * 12);
        free(data.data);
    }
}

static void refuse(const char *message) {
    struct bytes data = {0};
    fth_gen_sink sink = {collect, &data};
    fth_error err = {0};
    assert_int_equal(fth_gen_run(&o, &sink, NULL, &result, &err), FTH_E_ARGUMENT);
    assert_string_equal(err.message, message);
    assert_int_equal(data.n, 0);
}

static void wrong_options_are_refused(void **state) {
    assert_false(fth_gen_preset("no such", &o));
    preset("criteo-small", 10);
    o.n_columns = 25;
    refuse("generator: criteo: must be of 13 integer and 26 categorical columns");
    preset("csv", 10);
    o.base_rate = 1;
    refuse("generator: base_rate: must be above 0 and below 1");
    preset("csv", 10);
    o.columns[3].cardinality = 0;
    refuse("generator: categorical column 4: must be of 1 to 2^32 ids");
    preset("csv", 10);
    o.columns[1].zipf = NAN;
    refuse("generator: categorical column 2: must be of a Zipf exponent from 0 to 5");
    preset("csv", 10);
    strcpy(o.columns[1].name, "a,b");
    refuse("generator: a column's name: must be 1 to 31 letters, digits, '_', '.' or '-'");
    preset("csv", 10);
    strcpy(o.columns[1].name, "C1");
    refuse("generator: two columns are named 'C1'");
    preset("sequence", 10);
    o.sequence.mean_length = 100;
    refuse("generator: sequence.mean_length: must be above 0 and below max_length");
    preset("sequence", 10);
    o.format = FTH_GEN_LIBSVM;
    refuse("generator: sequences: must be in csv format");
    preset("csv", 10);
    o.threads = 1025;
    refuse("generator: threads: must be 0 to 1024");
}

static void failing_sinks_stop_the_run(void **state) {
    preset("csv", 100000);
    struct bytes data = {.limit = 100000};
    fth_gen_sink sink = {collect, &data};
    fth_error err = {0};
    assert_int_equal(fth_gen_run(&o, &sink, NULL, &result, &err), FTH_E_IO);
    assert_string_equal(err.message, "full");
    free(data.data);

    char path[] = "/tmp/fathom-gen-XXXXXX", beside[64];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "old", 3), 3);
    close(fd);
    snprintf(beside, sizeof beside, "%s.part", path);
    struct fault_io *fault = fault_io_create(fth_io_posix());
    fault->write_at = 2;
    fault->write_error = ENOSPC;
    o.examples = 20000;
    assert_int_equal(fth_gen_file_io(&fault->io, &o, path, "", &result, &err), FTH_E_IO);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.message, strerror(ENOSPC)));
    assert_int_equal(access(beside, F_OK), -1); /* half a file is removed */
    assert_int_equal(fault_io_open_files(fault), 0);
    fault_io_destroy(fault);
    assert_int_equal(fth_gen_file(&o, path, "/no/such/dir/x", &result, &err), FTH_E_IO);
    assert_non_null(strstr(err.message, "/no/such/dir/x"));
    assert_int_equal(access(beside, F_OK), -1);
    assert_int_equal(fth_gen_file(&o, "/no/such/dir/x", NULL, &result, &err), FTH_E_IO);
    o.threads = 1025;
    assert_int_equal(fth_gen_file(&o, path, NULL, &result, &err), FTH_E_ARGUMENT);
    char kept[8] = ""; /* nothing of all that touched what was there */
    FILE *file = fopen(path, "r");
    assert_int_equal(fread(kept, 1, sizeof kept, file), 3);
    assert_string_equal(kept, "old");
    fclose(file);
    unlink(path);
}

static void files_hold_the_same_bytes(void **state) {
    char path[] = "/tmp/fathom-gen-XXXXXX", truth_path[] = "/tmp/fathom-gen-XXXXXX";
    close(mkstemp(path));
    close(mkstemp(truth_path));
    preset("criteo-small", 2000);
    fth_error err = {0};
    struct bytes data, truth;
    generate(&data, &truth);
    assert_int_equal(fth_gen_file(&o, path, truth_path, &result, &err), FTH_OK);
    const struct bytes *expected[] = {&data, &truth};
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(i ? truth_path : path, "r");
        char *read = malloc(expected[i]->n + 2);
        assert_int_equal(fread(read, 1, expected[i]->n + 2, file), expected[i]->n);
        assert_memory_equal(read, expected[i]->data, expected[i]->n);
        fclose(file);
        free(read);
    }
    assert_int_equal(fth_gen_file(&o, path, path, &result, &err), FTH_E_ARGUMENT);
    char other[64], link[] = "/tmp/fathom-gen-XXXXXX"; /* the same file, said otherwise */
    snprintf(other, sizeof other, "/tmp/.%s", path + 4);
    assert_int_equal(fth_gen_file(&o, path, other, &result, &err), FTH_E_ARGUMENT);
    assert_non_null(strstr(err.message, "cannot both go to"));
    close(mkstemp(link)); /* a link is written into */
    unlink(link);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(fth_gen_file(&o, link, NULL, &result, &err), FTH_OK);
    char target[64];
    assert_int_equal(readlink(link, target, sizeof target), (int)strlen(path));
    unlink(link);
    unlink(path);
    unlink(truth_path);
    free(data.data);
    free(truth.data);

    preset("csv", 0); /* no examples: a header, and scores that are no numbers */
    generate(&data, NULL);
    assert_memory_equal(data.data, "label,I1,", 9);
    assert_true(isnan(result.bayes_auc) && isnan(result.base_rate));
    free(data.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_do_not_depend_on_threads),
        cmocka_unit_test(zipf_follows_its_law),
        cmocka_unit_test(columns_have_the_promised_skew),
        cmocka_unit_test(parts_make_the_whole),
        cmocka_unit_test(sequences_hold_together),
        cmocka_unit_test(entries_parse_back),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(failing_sinks_stop_the_run),
        cmocka_unit_test(files_hold_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
