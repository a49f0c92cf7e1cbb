/* feature/: the sessions of a list of times, against whole numbers of 128 bits, by hand, and on hostile lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/random.h"
#include "blocks.h"
#include "programs.h"

static uint64_t draws;

static uint32_t draw(uint32_t below) {
    uint32_t out[4];
    fth_random_draw(21, 0, draws++, 0, out);
    return (uint32_t)((uint64_t)out[0] * below >> 32);
}

/* Lines of a label, items and times; items and sessions are lists of one group. */
struct visits {
    struct fth_derived_config derived;
    struct fth_categorical_config categorical[2];
    struct fth_config config;
};

static const char *const columns[] = {"label", "items", "times"};
static const char *const of_items[] = {"items"}, *const of_times[] = {"times"}, *const of_sessions[] = {"session"};

static void visits_begin(struct visits *v, const char *format, int64_t gap, int policy, const char *separator) {
    *v = (struct visits){.config = {.data = {.format = FTH_FORMAT_CSV, .label = "label"}, .embedding = {.dim = 1}}};
    v->derived = (struct fth_derived_config){.as = FTH_DERIVE_SESSIONS, .name = "session", .from = {of_times, 1},
                                             .separator = separator, .format = format, .gap = gap,
                                             .on_bad_value = policy};
    for (int i = 0; i < 2; i++)
        v->categorical[i] = (struct fth_categorical_config){.columns = {i ? of_sessions : of_items, 1},
                                                            .separator = separator, .sequence = 1, .group = "g",
                                                            .max_length = 1000, .keep_last = 1};
    v->config.features.derived = &v->derived;
    v->config.features.categorical = v->categorical;
    v->config.features.n_derived = 1;
    v->config.features.n_categorical = 2;
}

static uint64_t key_of(const char *text) {
    uint64_t salt = fth_hash_bytes("session", 7, 0);
    return *text ? fth_hash_bytes(text, strlen(text), salt) : fth_hash_mix(salt ^ 0x9d1c5f0b6a3e8247ull);
}

/* ---- by hand ---- */

enum { STOP = FTH_BAD_VALUE_STOP, SKIP = FTH_BAD_VALUE_SKIP, MISSING = FTH_BAD_VALUE_MISSING };

static void by_hand(void **state) {
    static const char *const missing[] = {"?", "1", "3"};
    static const struct {
        const char *times, *format;
        int64_t gap;
        int policy;
        uint32_t n_missing;
        const char *sessions[6]; /* an item each; "-": the line is refused */
        const char *message;     /* of the refusal or the first bad value; NULL: none */
    } cases[] = {
        {"0;1800;3601", "unix", 1800, STOP, 0, {"1", "1", "2"}, NULL},
        /* Neighbours that one float cannot tell apart. */
        {"1413849600;1413849601;1413849601", "unix", 0, STOP, 0, {"1", "2", "2"}, NULL},
        {"1413849600;1413851400;1413853201", "unix", 1800, STOP, 0, {"1", "1", "2"}, NULL},
        {"1.5;1801.5;3601.50000000000000001", "unix", 1800, STOP, 0, {"1", "1", "2"}, NULL},
        {"1.9;1802.1;3602.0999", "unix", 1800, STOP, 0, {"1", "2", "2"}, NULL},
        {"-1800.5;-0.5;1799.6", "unix", 1800, STOP, 0, {"1", "1", "2"}, NULL},
        {"-0.0000000000000000001;0;1", "unix", 1, STOP, 0, {"1", "1", "1"}, NULL},
        {"-2500;-700;1101", "unix_ms", 1, STOP, 0, {"1", "2", "3"}, NULL},
        {"1413849600000;1413849601000;1413849602001", "unix_ms", 1, STOP, 0, {"1", "1", "2"}, NULL},
        {"2014-10-21 23:50:00;2014-10-22T00:20;2014-10-22 00:50:00.5Z", "iso", 1800, STOP, 0, {"1", "1", "2"}, NULL},
        {"14102123;14102123;14102200", "%y%m%d%H", 3599, STOP, 0, {"1", "1", "2"}, NULL},
        {"7", "unix", 1800, STOP, 0, {"1"}, NULL},
        {"", "unix", 1800, STOP, 0, {NULL}, NULL},
        /* A missing time stays in the session before it, or in the first one. */
        {";0;;9999;", "unix", 1800, STOP, 0, {"1", "1", "1", "2", "2"}, NULL},
        {"0;?;1800", "unix", 1800, STOP, 1, {"1", "1", "1"}, NULL},
        /* A session's number is no text that means missing. */
        {"0;2000;4000", "unix", 1800, STOP, 3, {"2", "4", "5"}, NULL},
        {"7", "unix", 1800, STOP, 3, {"2"}, NULL},
        {"10;9.5;11", "unix", 1800, STOP, 0, {"-"}, "t:1:12: column 'times': '9.5' is before the time before it, 10"},
        {"10;x;11", "unix", 1800, STOP, 0, {"-"}, "t:1:12: column 'times': 'x' is not a time of the format unix"},
        {"1e3", "unix", 1800, STOP, 0, {"-"}, "t:1:5: column 'times': '1e3' is not a time of the format unix"},
        {"nan", "unix", 1800, STOP, 0, {"-"}, "t:1:5: column 'times': 'nan' is not a time of the format unix"},
        {"1413849600000", "unix", 1800, STOP, 0, {"-"},
         "t:1:5: column 'times': '1413849600000' is not a time of the format unix"},
        {"9999;x;0;10000;99999", "unix", 1800, SKIP, 0, {"1", "1", "1", "1", "2"},
         "t:1:18: column 'times': 'x' is not a time of the format unix"},
        {"x;1", "unix", 1800, SKIP, 0, {"1", "1"}, "t:1:7: column 'times': 'x' is not a time of the format unix"},
        {"1;9999;x", "unix", 1800, MISSING, 0, {"", "", ""},
         "t:1:16: column 'times': 'x' is not a time of the format unix"},
        {"x;1;9999", "unix", 1800, MISSING, 0, {"", "", ""},
         "t:1:9: column 'times': 'x' is not a time of the format unix"},
        {"x", "unix", 1800, MISSING, 0, {""}, "t:1:5: column 'times': 'x' is not a time of the format unix"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct visits v;
        struct test_program t;
        char text[256], items[64];
        uint32_t n = 0;
        for (const char *p = cases[i].times; *p; p++)
            n += (n == 0) + (*p == ';');
        for (uint32_t k = 0; k < 2 * n; k++)
            items[k] = k & 1 ? ';' : 'i';
        items[n ? 2 * n - 1 : 0] = 0;
        sprintf(text, "0,%s,%s\n", items, cases[i].times);
        visits_begin(&v, cases[i].format, cases[i].gap, cases[i].policy, ";");
        v.config.features.missing = (struct fth_strings){missing, cases[i].n_missing};
        test_program_create(&t, &v.config, columns, 3, 0);
        struct fth_block *block = test_block_cells(text, ',');
        block->file = "t";
        test_program_run(&t, block);
        int refused = cases[i].sessions[0] && cases[i].sessions[0][0] == '-';
        if (t.batch->n != !refused)
            fail_msg("case %zu: %s", i, block->n_bad ? block->first_bad.message : "accepted");
        const char *message = refused ? block->first_bad.message : block->n_bad_values ? block->first_bad_value.message : NULL;
        if (cases[i].message)
            assert_string_equal(message, cases[i].message);
        else
            assert_null(message);
        uint32_t sessions = 0;
        while (!refused && sessions < 6 && cases[i].sessions[sessions])
            sessions++;
        if (!refused)
            assert_int_equal(t.batch->groups[0].total, sessions);
        for (uint32_t k = 0; k < sessions; k++)
            if (t.batch->fields[1].keys[k] != key_of(cases[i].sessions[k]))
                fail_msg("case %zu, position %u is not of session '%s'", i, k, cases[i].sessions[k]);
        test_program_drop(&t);
    }
}

/* ---- drawn ---- */

enum { LINES = 200, MOST = 40 };

/* Times in 1e-9 s around the gap; what the numbers are is worked out on whole numbers. */
static void as_whole_numbers(void **state) {
    int begun = 0, on = 0;
    for (int round = 0; round < 20; round++) {
        static char text[LINES * MOST * 64];
        static uint32_t numbers[LINES * MOST];
        const int64_t gap = (int64_t[]){1800, 0, 1, 1000000000}[draw(4)];
        struct fth_cell cells[3 * LINES];
        uint32_t at = 0, total = 0;
        for (uint32_t i = 0; i < LINES; i++) {
            uint32_t n = 1 + draw(MOST), number = 1;
            __int128 time = ((__int128)draw(UINT32_MAX) - (draw(2) ? 3000000000u : 0)) * 1000000000 + draw(1000000000);
            cells[3 * i] = (struct fth_cell){at, 1};
            text[at++] = '1';
            cells[3 * i + 1].offset = at;
            for (uint32_t k = 0; k < n; k++)
                at += (uint32_t)sprintf(text + at, "%si", k ? ";" : "");
            cells[3 * i + 1].length = at - cells[3 * i + 1].offset;
            cells[3 * i + 2].offset = at;
            for (uint32_t k = 0; k < n; k++) {
                __int128 step = (__int128)gap * 1000000000 + (int32_t)draw(5) - 2;
                step = step < 0 || draw(3) == 0 ? (__int128)draw(1000000000) : step;
                if (k) {
                    time += step;
                    number += step > (__int128)gap * 1000000000;
                    begun += step > (__int128)gap * 1000000000;
                    on += step <= (__int128)gap * 1000000000;
                }
                __int128 positive = time < 0 ? -time : time;
                at += (uint32_t)sprintf(text + at, "%s%s%lld.%09d%s", k ? ";" : "", time < 0 ? "-" : "",
                                        (long long)(positive / 1000000000), (int)(positive % 1000000000),
                                        draw(2) ? "000000000000" : "");
                numbers[total++] = number;
            }
            cells[3 * i + 2].length = at - cells[3 * i + 2].offset;
        }
        struct visits v;
        struct test_program t;
        visits_begin(&v, "unix", gap, FTH_BAD_VALUE_STOP, ";");
        test_program_create(&t, &v.config, columns, 3, round & 1);
        test_program_run(&t, test_block_raw(text, at, cells, LINES, 3));
        if (t.batch->n != LINES)
            fail_msg("%s", t.block->first_bad.message);
        assert_int_equal(t.batch->groups[0].total, total);
        for (uint32_t k = 0; k < total; k++) {
            char number[16];
            sprintf(number, "%u", numbers[k]);
            assert_true(t.batch->fields[1].keys[k] == key_of(number));
        }
        test_program_drop(&t);
    }
    assert_true(begun > 5000 && on > 5000);
}

/* Whatever bytes come: a session a position, as many as elements, or the line is refused; fused is plain. */
static void hostile_lists(void **state) {
    static const char *const odd[] = {"",      "-",     ".",       "inf",  "nan", "0x1p3", "1e5",  "-0", "1.", ".5", "+4",
                                      " 3",    "1.2.3", "--1",     "?",    "12",  "\xff",  "1-",   "99999999999999999999",
                                      "253402300799", "-9223372036854775808", "9223372036854775807", "1970-01-01", "0.0x"};
    static const char *const formats[] = {"unix", "unix_ms", "iso", "%Y%m%d"}, *const separators[] = {";", "||", "a", "-"};
    static const char *const missing[] = {"?", "12", "1", "2"};
    static char text[LINES * 2 * 60 * 60];
    uint64_t left_out = 0, refused = 0, kept = 0;
    for (int round = 0; round < 120; round++) {
        const char *separator = separators[draw(4)];
        struct fth_cell cells[3 * LINES];
        uint32_t at = 0;
        for (uint32_t i = 0; i < LINES; i++) {
            uint32_t n = draw(4) ? draw(6) : draw(60);
            uint64_t time = draw(1u << 30);
            cells[3 * i] = (struct fth_cell){at, 1};
            text[at++] = '1';
            cells[3 * i + 1].offset = at;
            for (uint32_t k = 0; k < n; k++)
                at += (uint32_t)sprintf(text + at, "%si", k ? separator : "");
            cells[3 * i + 1].length = at - cells[3 * i + 1].offset;
            cells[3 * i + 2].offset = at;
            for (uint32_t k = 0; k < n; k++) {
                at += (uint32_t)sprintf(text + at, "%s", k ? separator : "");
                if (draw(5)) {
                    at += (uint32_t)sprintf(text + at, "%llu", (unsigned long long)(time += draw(4000)));
                } else if (draw(3)) {
                    at += (uint32_t)sprintf(text + at, "%s", odd[draw(sizeof odd / sizeof *odd)]);
                } else {
                    for (uint32_t b = draw(50); b--;)
                        text[at++] = (char)draw(256);
                }
            }
            cells[3 * i + 2].length = at - cells[3 * i + 2].offset;
        }
        struct visits v;
        struct test_program t[2];
        visits_begin(&v, formats[draw(4)], 1800, round % 3, separator);
        v.config.features.missing = (struct fth_strings){missing, draw(5)};
        v.categorical[0].max_length = v.categorical[1].max_length = 1 + draw(50);
        for (int plain = 0; plain < 2; plain++) {
            test_program_create(&t[plain], &v.config, columns, 3, plain);
            test_program_run(&t[plain], test_block_raw(text, at, cells, LINES, 3));
            assert_int_equal(t[plain].batch->n + t[plain].block->n_bad, LINES);
        }
        test_programs_same(&t[0], &t[1]);
        left_out += t[0].block->n_bad_values;
        refused += t[0].block->n_bad;
        kept += t[0].batch->n;
        test_program_drop(&t[0]);
        test_program_drop(&t[1]);
    }
    assert_true(left_out > 1000 && refused > 1000 && kept > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(as_whole_numbers),
        cmocka_unit_test(hostile_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
