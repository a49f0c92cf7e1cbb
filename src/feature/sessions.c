/* Feature programs, a list of points in time to the numbers of the sessions they fall into: from 1 on, one more
 * where two neighbours lie further apart than the gap. Times are compared as whole seconds and a fraction of
 * 18 digits; a float has no room for the seconds since 1970. derive.c splits the list before and puts the numbers
 * together after. Any thread. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "feature/date.h"
#include "feature/program_private.h"

struct point {
    int64_t seconds;
    uint64_t fraction;
};

struct sessions {
    struct fth_feature_chunk *chunk;
    struct fth_feature_scratch *scratch;
    const struct fth_feature_derived *derived;
    uint32_t row;
    uint64_t number;              /* of the session */
    struct fth_feature_text name; /* the number as a text */
    struct fth_feature_text last; /* the last value that is a time; bytes NULL: there was none */
    struct point at;              /* that time */
};

static int before(const struct point *a, const struct point *b) {
    return a->seconds != b->seconds ? a->seconds < b->seconds : a->fraction < b->fraction;
}

/* b is not before a. Years have four digits: nothing overflows. */
static int apart(const struct point *a, const struct point *b, int64_t gap) {
    int64_t seconds = b->seconds - a->seconds;
    return seconds > gap || (seconds == gap && b->fraction > a->fraction);
}

/* The next number whose text does not mean missing: two sessions side by side would be one. */
static fth_status begin_session(struct sessions *s) {
    char text[FTH_WHOLE_TEXT];
    uint32_t length;
    do
        length = fth_format_i64(text, (int64_t)++s->number);
    while (fth_feature_is_missing(s->chunk->program, text, length));
    char *name = fth_feature_scratch_take(s->scratch, length);
    if (!name)
        return fth_fail(s->chunk->err, FTH_E_MEMORY, "no memory for column '%s'", s->derived->config->name);
    memcpy(name, text, length);
    s->name = (struct fth_feature_text){name, length};
    return FTH_OK;
}

/* A value that is no time, or too early a one. */
static void bad(const struct sessions *s, struct fth_feature_text value, const char *problem, const char *detail) {
    const struct fth_derived_config *config = s->derived->config;
    const char *column = config->from.items[0];
    char quoted[96];
    fth_text_quote(quoted, sizeof quoted, value.bytes, value.length);
    if (config->on_bad_value == FTH_BAD_VALUE_STOP)
        fth_feature_refuse(s->chunk, s->row, value.bytes, "column '%s': '%s' %s%s", column, quoted, problem, detail);
    else
        fth_feature_skip_value(s->chunk, s->row, value.bytes, "column '%s': '%s' %s%s", column, quoted, problem,
                               detail);
}

/* Takes the next value in; *good 0 when it is a bad one. */
static fth_status take_value(struct sessions *s, struct fth_feature_text value, int *good) {
    const struct fth_derived_config *config = s->derived->config;
    struct fth_date date;
    *good = 1;
    if (fth_feature_is_missing(s->chunk->program, value.bytes, value.length))
        return FTH_OK;
    if (!fth_date_parse(config->format, value.bytes, value.length, &date)) {
        bad(s, value, "is not a time of the format ", config->format);
        *good = 0;
        return FTH_OK;
    }
    struct point at = {fth_date_part(&date, FTH_DATE_SECONDS), date.fraction};
    if (s->last.bytes && before(&at, &s->at)) {
        char last[96];
        fth_text_quote(last, sizeof last, s->last.bytes, s->last.length);
        bad(s, value, "is before the time before it, ", last);
        *good = 0;
        return FTH_OK;
    }
    if (s->last.bytes && apart(&s->at, &at, config->gap))
        FTH_TRY(begin_session(s));
    s->last = value;
    s->at = at;
    return FTH_OK;
}

fth_status fth_feature_sessions(struct fth_feature_chunk *chunk, struct fth_feature_scratch *scratch,
                                const struct fth_feature_derived *derived, uint32_t row,
                                struct fth_feature_text *values, uint32_t n) {
    struct sessions s = {.chunk = chunk, .scratch = scratch, .derived = derived, .row = row};
    int missing = 0, good;
    FTH_TRY(begin_session(&s));
    for (uint32_t i = 0; i < n; i++) {
        FTH_TRY(take_value(&s, values[i], &good));
        missing |= !good && derived->config->on_bad_value == FTH_BAD_VALUE_MISSING;
        values[i] = s.name;
    }
    for (uint32_t i = 0; i < n && missing; i++)
        values[i].length = 0;
    return FTH_OK;
}
