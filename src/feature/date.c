/* Dates: see date.h. Days are counted as in Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms" (2013):
 * years begin in March, so that the day too many stands at the end. */
#include "feature/date.h"

#include <string.h>

#include "base/text.h"

static int64_t days_of(int year, int month, int day) {
    int64_t y = year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400;
    int64_t of_era = y - era * 400, of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void set_day(struct fth_date *date, int64_t days) {
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t of_era = z - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100), month = (5 * of_year + 2) / 153;
    date->days = days;
    date->day = (int)(of_year - (153 * month + 2) / 5 + 1);
    date->month = (int)(month < 10 ? month + 3 : month - 9);
    date->year = (int)(year + era * 400 + (date->month <= 2));
}

static int days_in(int year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

#define FRACTION_DIGITS 18
#define WHOLE_SECOND 1000000000000000000u /* 1e18 */

/* The digits behind a point, in 1e-18; *rest: those behind the 18th are not all 0. */
static uint64_t fraction_of(const char *digits, size_t n, int *rest) {
    uint64_t value = 0;
    *rest = 0;
    for (size_t i = 0; i < n || i < FRACTION_DIGITS; i++) {
        uint64_t digit = i < n ? (uint64_t)(digits[i] - '0') : 0;
        if (i < FRACTION_DIGITS)
            value = value * 10 + digit;
        else
            *rest |= digit != 0;
    }
    return value;
}

static int digit_at(const char *bytes, size_t length, size_t at) {
    return at < length && bytes[at] >= '0' && bytes[at] <= '9';
}

/* Exactly `n` digits at *at. */
static int digits(const char *bytes, size_t length, size_t *at, size_t n, int *out) {
    int value = 0;
    if (length - *at < n)
        return 0;
    for (size_t i = 0; i < n; i++, (*at)++) {
        if (bytes[*at] < '0' || bytes[*at] > '9')
            return 0;
        value = value * 10 + (bytes[*at] - '0');
    }
    *out = value;
    return 1;
}

static int is_date(struct fth_date *date) {
    if (date->month < 1 || date->month > 12 || date->day < 1 ||
        date->day > days_in(date->year, date->month) || date->hour > 23 || date->minute > 59 ||
        date->second > 60)
        return 0;
    date->days = days_of(date->year, date->month, date->day);
    return 1;
}

/* "Jan", and so on, in any case, as data bases and log files write them. */
static int month_name(const char *bytes, size_t length, size_t *at, int *month) {
    static const char names[12][4] = {"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"};
    const char *text = bytes + *at;
    if (length - *at < 3)
        return 0;
    for (int m = 0; m < 12; m++)
        if ((text[0] | 32) == names[m][0] && (text[1] | 32) == names[m][1] && (text[2] | 32) == names[m][2]) {
            *month = m + 1;
            *at += 3;
            return 1;
        }
    return 0;
}

/* "AM" or "PM", in any case. */
static int half_day(const char *bytes, size_t length, size_t *at, int *pm) {
    const char *text = bytes + *at;
    if (length - *at < 2 || (text[1] | 32) != 'm' || ((text[0] | 32) != 'a' && (text[0] | 32) != 'p'))
        return 0;
    *pm = (text[0] | 32) == 'p';
    *at += 2;
    return 1;
}

/* Digits of a second's fraction, all that stand there. */
static int fraction_digits(const char *bytes, size_t length, size_t *at, struct fth_date *date) {
    size_t first = *at;
    int unused;
    while (digit_at(bytes, length, *at))
        ++*at;
    date->fraction = fraction_of(bytes + first, *at - first, &unused);
    return *at > first;
}

/* What follows in a pattern. */
static int may_begin_with_digit(const char *pattern) {
    return pattern[0] == '%' ? strchr("bp%", pattern[1]) == NULL : pattern[0] >= '0' && pattern[0] <= '9';
}

/* Or one, where no other digit touches it: "3/7/2024". */
static int two_digits(const char *bytes, size_t length, size_t *at, const char *follows, int *out) {
    size_t first = *at;
    if (digits(bytes, length, at, 2, out))
        return 1;
    if (!digit_at(bytes, length, first) || may_begin_with_digit(follows) ||
        (first > 0 && digit_at(bytes, length, first - 1)))
        return 0;
    *at = first + 1;
    *out = bytes[first] - '0';
    return 1;
}

/* Patterns; from *at on. */
static int parse_pattern(const char *pattern, const char *bytes, size_t length, size_t *at,
                         struct fth_date *date) {
    int pm = -1;
    for (const char *p = pattern; *p; p++) {
        int ok = 1;
        if (*p != '%') {
            ok = *at < length && bytes[*at] == *p;
            ++*at;
        } else if (*++p == 'Y') {
            ok = digits(bytes, length, at, 4, &date->year);
        } else if (*p == 'y') {
            ok = digits(bytes, length, at, 2, &date->year);
            date->year += date->year < 69 ? 2000 : 1900; /* as POSIX strptime */
        } else if (*p == 'b') {
            ok = month_name(bytes, length, at, &date->month);
        } else if (*p == 'p') {
            ok = half_day(bytes, length, at, &pm);
        } else if (*p == 'f') {
            ok = fraction_digits(bytes, length, at, date);
        } else if (*p == '%') {
            ok = *at < length && bytes[*at] == '%';
            ++*at;
        } else {
            int *field = *p == 'm'   ? &date->month
                         : *p == 'd' ? &date->day
                         : *p == 'H' || *p == 'I' ? &date->hour
                         : *p == 'M' ? &date->minute
                                     : &date->second;
            ok = two_digits(bytes, length, at, p + 1, field);
        }
        if (!ok)
            return 0;
    }
    if (pm < 0)
        return 1;
    int twelve = date->hour >= 1 && date->hour <= 12;
    date->hour = date->hour % 12 + 12 * pm;
    return twelve;
}

/* 2014-10-21, perhaps with T or a space and 13:05 or 13:05:09 or 13:05:09.123, perhaps with Z, +02:00 or +0200. */
static int parse_iso(const char *bytes, size_t length, struct fth_date *date) {
    size_t at = 0;
    int unused;
    if (!parse_pattern("%Y-%m-%d", bytes, length, &at, date))
        return 0;
    if (at == length)
        return 1;
    if (bytes[at] != 'T' && bytes[at] != ' ')
        return 0;
    at++;
    if (!parse_pattern("%H:%M", bytes, length, &at, date))
        return 0;
    if (at < length && bytes[at] == ':') {
        at++;
        if (!digits(bytes, length, &at, 2, &date->second))
            return 0;
        if (at < length && bytes[at] == '.') {
            at++;
            if (!fraction_digits(bytes, length, &at, date))
                return 0;
        }
    }
    if (at < length && bytes[at] == 'Z')
        return at + 1 == length;
    if (length - at == 4 && memcmp(bytes + at, " UTC", 4) == 0)
        return 1;
    if (at < length && (bytes[at] == '+' || bytes[at] == '-')) {
        at++;
        if (!digits(bytes, length, &at, 2, &unused))
            return 0;
        if (at == length)
            return 1;
        at += bytes[at] == ':';
        if (!digits(bytes, length, &at, 2, &unused))
            return 0;
    }
    return at == length;
}

static int parse_unix(const char *bytes, size_t length, int64_t per_second, struct fth_date *date) {
    const char *point = memchr(bytes, '.', length);
    size_t whole = point ? (size_t)(point - bytes) : length;
    int64_t value;
    uint64_t fraction = 0;
    int more = 0;
    if (!fth_parse_i64(bytes, whole, &value) || value < INT64_MIN / 2) /* so that nothing overflows below */
        return 0;
    for (size_t i = whole + 1; i < length; i++)
        if (bytes[i] < '0' || bytes[i] > '9')
            return 0;
    if (point)
        fraction = fraction_of(point + 1, length - whole - 1, &more);
    /* The second (or millisecond) it lies in, before 1970 as well, and how far. */
    if (bytes[0] == '-' && (fraction || more)) {
        fraction = WHOLE_SECOND - fraction - (uint64_t)more;
        value--;
    }
    int64_t seconds = value / per_second - (value % per_second < 0);
    uint64_t part = (uint64_t)((value % per_second + per_second) % per_second);
    fraction = part * (WHOLE_SECOND / (uint64_t)per_second) + fraction / (uint64_t)per_second;
    int64_t days = seconds / 86400 - (seconds % 86400 < 0), rest = seconds - days * 86400;
    if (days < days_of(0, 1, 1) || days > days_of(9999, 12, 31))
        return 0;
    set_day(date, days);
    date->fraction = fraction;
    date->hour = (int)(rest / 3600);
    date->minute = (int)(rest / 60 % 60);
    date->second = (int)(rest % 60);
    return 1;
}

const char *fth_date_check_format(const char *format) {
    if (!*format)
        return "is empty";
    if (strcmp(format, "iso") == 0 || strcmp(format, "unix") == 0 || strcmp(format, "unix_ms") == 0)
        return NULL;
    int year = 0, month = 0, day = 0, hour = 0, twelve = 0, half = 0;
    for (const char *p = format; *p; p++) {
        if (*p != '%')
            continue;
        p++;
        if (!*p || !strchr("YymbdHIpMSf%", *p))
            return "has a '%' that none of Y y m b d H I p M S f % follows";
        if (*p == 'f' && ((p[1] >= '0' && p[1] <= '9') || (p[1] == '%' && p[2] && !strchr("bp%", p[2]))))
            return "has digits behind %f, which takes all that stand there";
        year += *p == 'Y' || *p == 'y';
        month += *p == 'm' || *p == 'b';
        day += *p == 'd';
        hour += *p == 'H';
        twelve += *p == 'I';
        half += *p == 'p';
    }
    if (half != twelve || half > 1 || (half && hour))
        return "has %I (hours to 12) without %p (AM or PM), or %p without %I, or %H beside them";
    return year == 1 && month <= 1 && day <= month
               ? NULL
               : "is neither iso, unix nor unix_ms and does not have %Y or %y once, %m or %b at most once, and %d only "
                 "beside them";
}

int fth_date_parse(const char *format, const char *bytes, size_t length, struct fth_date *out) {
    size_t at = 0;
    *out = (struct fth_date){0};
    if (strcmp(format, "unix") == 0)
        return parse_unix(bytes, length, 1, out);
    if (strcmp(format, "unix_ms") == 0)
        return parse_unix(bytes, length, 1000, out);
    if (strcmp(format, "iso") == 0)
        return parse_iso(bytes, length, out) && is_date(out);
    out->month = out->day = 1;
    return parse_pattern(format, bytes, length, &at, out) && at == length && is_date(out);
}

int64_t fth_date_part(const struct fth_date *date, enum fth_date_part part) {
    int64_t weekday = ((date->days + 3) % 7 + 7) % 7 + 1; /* 1970-01-01 was a Thursday, the 4th */
    switch (part) {
    case FTH_DATE_YEAR:
        return date->year;
    case FTH_DATE_MONTH:
        return date->month;
    case FTH_DATE_DAY:
        return date->day;
    case FTH_DATE_HOUR:
        return date->hour;
    case FTH_DATE_MINUTE:
        return date->minute;
    case FTH_DATE_SECOND:
        return date->second;
    case FTH_DATE_WEEKDAY:
        return weekday;
    case FTH_DATE_YEARDAY:
        return date->days - days_of(date->year, 1, 1) + 1;
    case FTH_DATE_WEEKEND:
        return weekday >= 6;
    case FTH_DATE_DAYS:
        return date->days;
    case FTH_DATE_SECONDS:
        return date->days * 86400 + date->hour * 3600 + date->minute * 60 + date->second;
    }
    return 0;
}
