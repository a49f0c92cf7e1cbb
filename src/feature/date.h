/* Points in time as texts: parsed by a format, and their parts. The proleptic Gregorian calendar; no time zones
 * but what the text says as local time. Pure; any thread. */
#ifndef FTH_FEATURE_DATE_H
#define FTH_FEATURE_DATE_H

#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

struct fth_date {
    int64_t days; /* since 1970-01-01 */
    int year, month, day, hour, minute, second; /* month and day from 1 */
    uint64_t fraction; /* of the second, in 1e-18 of it; what is behind the 18th digit is cut off */
};

/* NULL, or what is wrong with a pattern ("iso", "unix" and "unix_ms" are right). */
const char *fth_date_check_format(const char *format);

/* 1 and *out; 0 when the text is not such a date or there is no such day. Years 0 to 9999. */
int fth_date_parse(const char *format, const char *bytes, size_t length, struct fth_date *out);

int64_t fth_date_part(const struct fth_date *date, enum fth_date_part part);

#endif
