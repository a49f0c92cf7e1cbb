/* feature/date: parts of dates against the C library's calendar, and what is no date. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/random.h"
#include "feature/date.h"

static void check_parts(const struct fth_date *date, const struct tm *tm, int64_t seconds) {
    assert_int_equal(fth_date_part(date, FTH_DATE_YEAR), tm->tm_year + 1900);
    assert_int_equal(fth_date_part(date, FTH_DATE_MONTH), tm->tm_mon + 1);
    assert_int_equal(fth_date_part(date, FTH_DATE_DAY), tm->tm_mday);
    assert_int_equal(fth_date_part(date, FTH_DATE_HOUR), tm->tm_hour);
    assert_int_equal(fth_date_part(date, FTH_DATE_MINUTE), tm->tm_min);
    assert_int_equal(fth_date_part(date, FTH_DATE_SECOND), tm->tm_sec);
    assert_int_equal(fth_date_part(date, FTH_DATE_WEEKDAY), tm->tm_wday ? tm->tm_wday : 7);
    assert_int_equal(fth_date_part(date, FTH_DATE_YEARDAY), tm->tm_yday + 1);
    assert_int_equal(fth_date_part(date, FTH_DATE_WEEKEND), tm->tm_wday == 0 || tm->tm_wday == 6);
    assert_int_equal(fth_date_part(date, FTH_DATE_SECONDS), seconds);
    assert_int_equal(fth_date_part(date, FTH_DATE_DAYS), seconds / 86400 - (seconds % 86400 < 0));
}

static void dates_are_the_calendars(void **state) {
    static const char *const formats[] = {"iso", "iso", "%d.%m.%Y %H:%M:%S", "%Y%m%d%H%M%S"};
    static const char *const printed[] = {"%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S", "%d.%m.%Y %H:%M:%S",
                                          "%Y%m%d%H%M%S"};
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t bits[4];
        fth_random_draw(3, 0, i, 0, bits);
        /* years 1000 to 9999 */
        int64_t seconds = -30610224000 + (int64_t)(((uint64_t)bits[0] << 32 | bits[1]) % 284012524800ull);
        time_t t = (time_t)seconds;
        struct tm tm;
        struct fth_date date;
        char text[64];
        gmtime_r(&t, &tm);
        int n = sprintf(text, "%lld", (long long)seconds);
        assert_int_equal(fth_date_parse("unix", text, (size_t)n, &date), 1);
        check_parts(&date, &tm, seconds);
        n = sprintf(text, "%lld", (long long)seconds * 1000 + bits[2] % 1000);
        assert_int_equal(fth_date_parse("unix_ms", text, (size_t)n, &date), 1);
        check_parts(&date, &tm, seconds);
        size_t length = strftime(text, sizeof text, printed[i % 4], &tm);
        assert_int_equal(fth_date_parse(formats[i % 4], text, length, &date), 1);
        check_parts(&date, &tm, seconds);
        for (size_t cut = 0; cut < length; cut++) /* no shorter text is the same date */
            if (fth_date_parse(formats[i % 4], text, cut, &date))
                assert_true(fth_date_part(&date, FTH_DATE_SECONDS) != seconds || i % 4 == 0 ||
                            tm.tm_sec == 0);
    }
}

/* 69 to 99 are of the last century, as POSIX strptime has it. */
static void years_of_two_digits(void **state) {
    static const int years[][2] = {{0, 2000}, {68, 2068}, {69, 1969}, {99, 1999}};
    for (size_t i = 0; i < sizeof years / sizeof *years; i++) {
        struct fth_date date;
        char text[16];
        int n = sprintf(text, "%02d0301", years[i][0]);
        assert_int_equal(fth_date_parse("%y%m%d", text, (size_t)n, &date), 1);
        assert_int_equal(fth_date_part(&date, FTH_DATE_YEAR), years[i][1]);
    }
}

static void what_is_no_date(void **state) {
    static const struct {
        const char *format, *text;
        int is;
    } cases[] = {
        {"iso", "2024-02-29", 1},       {"iso", "2023-02-29", 0},      {"iso", "1900-02-29", 0},
        {"iso", "2000-02-29", 1},       {"iso", "2024-13-01", 0},      {"iso", "2024-00-10", 0},
        {"iso", "2024-04-31", 0},       {"iso", "2024-4-1", 1},        {"iso", "2024-04-01T", 0},
        {"iso", "2024-04-01 24:00", 0}, {"iso", "2024-04-01 23:59", 1}, {"iso", "2024-04-01 23:59:61", 0},
        {"iso", "2024-04-01 23:59:60", 1}, {"iso", "2024-04-01 10:00:00.", 0}, {"iso", "2024-04-01 10:00:00.25+02:00", 1},
        {"iso", "2024-04-01 10:00:00+00", 1}, {"iso", "2024-04-01 10:00:00 UTC", 1}, {"iso", "2024-04-01 10:00:00+0", 0},
        {"iso", "2024-04-01 10:00:00+00:", 0}, {"iso", "2024-04-01 10:00:00 UT", 0}, {"iso", "2024-04-01 10:00:00 UTC+1", 0},
        {"iso", "2024-04-01 10:00:00-0730", 1}, {"iso", "2024-04-01 10:00 ", 0}, {"iso", "", 0},
        {"unix", "", 0},                {"unix", "12a", 0},            {"unix", "1.5", 1},
        {"unix", "1.5x", 0},            {"unix", "-1", 1},             {"unix", "99999999999999", 0}, {"unix", "-9223372036854775808.5", 0},
        {"%y%m%d%H", "14102100", 1},    {"%y%m%d%H", "1410210", 0},    {"%y%m%d%H", "141021000", 0},
        {"%y%m%d%H", "14102124", 0},    {"%d/%m/%Y", "21/10/2014", 1}, {"%d/%m/%Y", "21-10-2014", 0},
        {"%d-%b-%Y", "01-Jan-1995", 1}, {"%d-%b-%Y", "01-DEC-1995", 1}, {"%d-%b-%Y", "01-Foo-1995", 0},
        {"%d-%b-%Y", "30-Feb-1995", 0}, {"%Y%d%b", "199501Ja", 0},      {"%Y%d%b", "199501may", 1},
        {"%Y%m%d%H%M%S%f", "20131019234501500", 1}, {"%Y%m%d%H%M%S%f", "20131019234501", 0},
        {"iso", "2024-1-2 3:04", 1},    {"iso", "2024-1-2 3:4:05", 1}, {"iso", "2024--2", 0},         {"iso", "2024-001-2", 0},
        {"%m/%d/%Y", "3/7/2024", 1},    {"%m/%d/%Y", "13/7/2024", 0},  {"%m/%d/%Y", "/7/2024", 0},    {"%d-%b-%y", "5-Jan-20", 1},
        {"%d%b%Y", "5Jan2020", 1},      {"%m%d%Y", "1232024", 0},      {"%m/%d%Y", "3/72024", 0},
        {"%Y-%m-%d %H%%", "2024-1-2 3%", 1},
        {"%Y-%m-%d0", "2024-1-20", 0},  {"%Y-%m-%d0", "2024-1-200", 1},
        {"unix_ms", "1717243200000.0", 1}, {"unix_ms", "1.5", 1},      {"unix_ms", "1.5.", 0},         {"unix_ms", "-1.x", 0},
        {"%Y%m%d%f.", "201310191.", 1}, {"%Y%m%d%f.", "20131019.", 0},
    };
    struct fth_date date;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (fth_date_parse(cases[i].format, cases[i].text, strlen(cases[i].text), &date) != cases[i].is)
            fail_msg("%s by %s", cases[i].text, cases[i].format);
    assert_int_equal(fth_date_parse("unix", "-0.5", 4, &date), 1);
    assert_int_equal(fth_date_part(&date, FTH_DATE_SECONDS), -1);
    /* However little before 1970: more digits than a fraction keeps. */
    assert_int_equal(fth_date_parse("unix", "-0.0000000000000000001", 22, &date), 1);
    assert_int_equal(fth_date_part(&date, FTH_DATE_SECONDS), -1);
    assert_int_equal(fth_date_parse("unix_ms", "-0.5", 4, &date), 1);
    assert_int_equal(fth_date_part(&date, FTH_DATE_SECONDS), -1);
    assert_true(date.fraction == 999500000000000000u);
    assert_int_equal(fth_date_parse("unix_ms", "1234.25", 7, &date), 1);
    assert_true(date.second == 1 && date.fraction == 234250000000000000u);
    assert_int_equal(fth_date_parse("%m/%d/%Y %H:%M", "3/7/2024 9:05", 13, &date), 1);
    assert_true(date.year == 2024 && date.month == 3 && date.day == 7 && date.hour == 9 && date.minute == 5);
    assert_int_equal(fth_date_parse("%d-%b-%y %f", "31-Oct-14 25", 12, &date), 1);
    assert_int_equal(fth_date_part(&date, FTH_DATE_MONTH), 10);
    assert_true(date.fraction == 250000000000000000u);
    assert_null(fth_date_check_format("%y%m%d%H"));
    assert_null(fth_date_check_format("%d-%b-%Y"));
    assert_non_null(fth_date_check_format("%d-%b-%m-%Y"));
    assert_null(fth_date_check_format("%Y-%m-%d %S.%f Z"));
    assert_non_null(fth_date_check_format("%f%d.%m.%Y"));
    assert_non_null(fth_date_check_format("%Y%m%d%f0"));
    assert_null(fth_date_check_format("iso"));
    assert_non_null(fth_date_check_format(""));
    assert_null(fth_date_check_format("%Y-%m"));
    assert_null(fth_date_check_format("%Y"));
    assert_non_null(fth_date_check_format("%Y %d"));
    assert_non_null(fth_date_check_format("%m/%d"));
    assert_null(fth_date_check_format("%m/%d/%Y %I:%M %p"));
    assert_non_null(fth_date_check_format("%m/%d/%Y %I:%M"));
    assert_non_null(fth_date_check_format("%m/%d/%Y %H:%M %p"));
    assert_non_null(fth_date_check_format("%m/%d/%Y %I:%M %p %H"));
    assert_int_equal(fth_date_parse("%Y-%m", "2024-5", 6, &date), 1);
    assert_true(date.month == 5 && date.day == 1);
    assert_int_equal(fth_date_parse("%Y", "2024", 4, &date), 1);
    assert_true(date.month == 1 && date.day == 1);
    static const struct {
        const char *text;
        int hour; /* -1: no time */
    } halves[] = {{"12:05 AM", 0}, {"1:05 am", 1}, {"11:05AM", -1}, {"12:05 PM", 12}, {"1:05 pm", 13}, {"11:59 Pm", 23},
                  {"0:05 AM", -1}, {"13:05 PM", -1}, {"1:05 P", -1}, {"1:05 ", -1}, {"1:05 XM", -1}};
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        char text[32];
        int n = snprintf(text, sizeof text, "3/7/24 %s", halves[i].text);
        assert_int_equal(fth_date_parse("%m/%d/%y %I:%M %p", text, (size_t)n, &date), halves[i].hour >= 0);
        assert_true(halves[i].hour < 0 || date.hour == halves[i].hour);
    }
    assert_non_null(fth_date_check_format("%Y%m%d%"));
    assert_non_null(fth_date_check_format("%Y%m%d%j"));
    assert_non_null(fth_date_check_format("ISO"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_are_the_calendars),
        cmocka_unit_test(years_of_two_digits),
        cmocka_unit_test(what_is_no_date),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
