/* The generator's text: an example as a line of each format. Pure; any thread. */
#include <stdio.h>
#include <string.h>

#include "data/gen_private.h"

#define ATTRIBUTE_BYTES 16 /* at most, with a separator */
#define TIME_BYTES 12      /* likewise: the longest list ends before second 10^11 */

/* Times of entries, in seconds: within a session 20 s to 10 minutes lie between two, an hour to two days before the
 * next session, which begins at each fifth entry or so. */
#define TIMES_BEGIN 1400000000u
#define TIMES_SPAN (90u * 86400)
#define SESSION_SHARE 0.2

static char *put_u64(char *p, uint64_t value) {
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    while (n > 0)
        *p++ = digits[--n];
    return p;
}

/* value / 10^decimals, with all decimals. */
static char *put_number(char *p, int32_t value, int decimals) {
    uint32_t magnitude = value < 0 ? 0u - (uint32_t)value : (uint32_t)value, power = 1;
    if (value < 0)
        *p++ = '-';
    for (int d = 0; d < decimals; d++)
        power *= 10;
    p = put_u64(p, magnitude / power);
    if (decimals > 0) {
        *p++ = '.';
        for (uint32_t rest = magnitude % power; decimals > 0; decimals--) {
            power /= 10;
            *p++ = (char)('0' + rest / power % 10);
        }
    }
    return p;
}

/* An id's text: a bijection of its 32 bits (the finaliser of MurmurHash3, every step invertible). */
static char *put_id(char *p, const struct fth_gen_field *field, uint64_t id) {
    static const char hex[] = "0123456789abcdef";
    uint32_t x = (uint32_t)id ^ field->scramble[0];
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    x ^= x >> 16;
    x ^= field->scramble[1];
    for (int i = 7; i >= 0; i--, x >>= 4)
        p[i] = hex[x & 15];
    return p + 8;
}

static char *put_cells(const struct fth_gen_model *model, const struct fth_gen_example *e, char *p,
                       char delimiter) {
    for (uint32_t j = 0; j < model->options.n_numbers; j++) {
        const struct fth_gen_numeric *numeric = &model->numeric[j];
        *p++ = delimiter;
        if (e->quantile[j] != UINT32_MAX)
            p = put_number(p, numeric->value[e->quantile[j]], numeric->decimals);
    }
    for (uint32_t f = 0; f < model->n_fields; f++) {
        *p++ = delimiter;
        if (e->ids[f] != FTH_GEN_MISSING)
            p = put_id(p, &model->fields[f], e->ids[f]);
    }
    return p;
}

static char *put_attribute(const struct fth_gen_model *model, uint32_t a, uint64_t value, char *p) {
    const fth_gen_attribute *attribute = &model->options.sequence.attributes[a];
    if (attribute->words[0] != 0)
        return p + strlen(strcpy(p, model->words[a][value]));
    if (attribute->decimals >= 0)
        return put_number(p, (int32_t)value, attribute->decimals);
    return put_id(p, &model->attributes[a], value);
}

/* The second label, which is there only for positive ones, and the domain. */
static char *put_task_cells(const struct fth_gen_model *model, const struct fth_gen_example *e, char *p) {
    if (model->options.conversions) {
        *p++ = ',';
        if (e->label)
            *p++ = (char)('0' + e->converted);
    }
    if (model->options.domains) {
        *p++ = ',';
        *p++ = 'd';
        p = put_u64(p, e->domain);
    }
    return p;
}

static char *put_times(const struct fth_gen_example *e, char *p) {
    struct fth_gen_draws draws = {e->context};
    uint64_t time = TIMES_BEGIN + fth_gen_draw(&draws) % TIMES_SPAN;
    for (uint32_t t = 0; t < e->length; t++) {
        if (t > 0) {
            uint64_t draw = fth_gen_draw(&draws);
            int session = (uint32_t)draw < fth_gen_threshold(SESSION_SHARE);
            time += session ? 3600 + (draw >> 32) % 172800 : 20 + (draw >> 32) % 580;
            *p++ = ';';
        }
        p = put_u64(p, time);
    }
    return p;
}

/* The target's further columns; then the lists, with ';': items, categories, further ones, times. */
static char *put_history(const struct fth_gen_model *model, const struct fth_gen_example *e, char *p) {
    const struct fth_gen_field *item = &model->fields[model->options.n_columns];
    const fth_gen_sequence *sequence = &model->options.sequence;
    for (uint32_t a = 0; a < sequence->n_attributes; a++) {
        if (sequence->attributes[a].name[0] == 0)
            continue;
        *p++ = ',';
        p = put_attribute(model, a, fth_gen_attribute_value(model, e, a, 0), p);
    }
    for (int categories = 0; categories < 2; categories++) {
        *p++ = ',';
        for (uint32_t t = 0; t < e->length; t++) {
            if (t > 0)
                *p++ = ';';
            p = put_id(p, item + categories,
                       categories ? fth_gen_item_category(model, e->history[t]) : e->history[t]);
        }
    }
    for (uint32_t a = 0; a < sequence->n_attributes; a++) {
        if (sequence->attributes[a].list[0] == 0)
            continue;
        *p++ = ',';
        for (uint32_t t = 0; t < e->length; t++) {
            if (t > 0)
                *p++ = ';';
            p = put_attribute(model, a, fth_gen_attribute_value(model, e, a, t + 1), p);
        }
    }
    if (sequence->times[0] != 0) {
        *p++ = ',';
        p = put_times(e, p);
    }
    return p;
}

static char *put_entries(const struct fth_gen_model *model, const struct fth_gen_example *e, char *p) {
    const fth_gen_options *options = &model->options;
    int fields = options->format == FTH_GEN_LIBFFM;
    uint64_t index = fields ? 0 : 1; /* libsvm counts from 1 */
    for (uint32_t j = 0; j < options->n_numbers; j++, index++) {
        if (e->quantile[j] == UINT32_MAX)
            continue;
        *p++ = ' ';
        if (fields) {
            p = put_u64(p, j);
            *p++ = ':';
        }
        p = put_u64(p, index);
        *p++ = ':';
        p = put_number(p, model->numeric[j].value[e->quantile[j]], model->numeric[j].decimals);
    }
    for (uint32_t f = 0; f < options->n_columns; f++) {
        if (e->ids[f] != FTH_GEN_MISSING) {
            *p++ = ' ';
            if (fields) {
                p = put_u64(p, options->n_numbers + f);
                *p++ = ':';
            }
            p = put_u64(p, index + e->ids[f]);
            *p++ = ':';
            *p++ = '1';
        }
        index += options->columns[f].cardinality;
    }
    return p;
}

size_t fth_gen_line_bound(const struct fth_gen_model *model) {
    const fth_gen_sequence *sequence = &model->options.sequence;
    return 16 + 48 * ((size_t)model->options.n_numbers + model->n_fields) +
           (18 + TIME_BYTES + ATTRIBUTE_BYTES * (size_t)sequence->n_attributes) * ((size_t)sequence->max_length + 2);
}

/* Of the target's columns, or of the lists. */
static size_t put_names(const fth_gen_sequence *s, int lists, char *out, size_t size) {
    size_t n = (size_t)snprintf(out, size, ",%s,%s", s->names[2 * lists], s->names[2 * lists + 1]);
    for (uint32_t a = 0; a < s->n_attributes; a++) {
        const char *name = lists ? s->attributes[a].list : s->attributes[a].name;
        if (*name)
            n += (size_t)snprintf(out + n, size - n, ",%s", name);
    }
    if (lists && s->times[0] != 0)
        n += (size_t)snprintf(out + n, size - n, ",%s", s->times);
    return n;
}

size_t fth_gen_header(const struct fth_gen_model *model, char *out, size_t size) {
    const fth_gen_options *options = &model->options;
    size_t n = 0;
    if (options->format != FTH_GEN_CSV)
        return 0;
    n += (size_t)snprintf(out, size, "label%s%s", options->conversions ? ",converted" : "",
                          options->domains ? ",domain" : "");
    for (uint32_t j = 0; j < options->n_numbers; j++)
        n += (size_t)snprintf(out + n, size - n, ",%s", options->numbers[j].name);
    for (uint32_t f = 0; f < options->n_columns; f++)
        n += (size_t)snprintf(out + n, size - n, ",%s", options->columns[f].name);
    if (options->sequence.items > 0)
        for (int lists = 0; lists < 2; lists++)
            n += put_names(&options->sequence, lists, out + n, size - n);
    n += (size_t)snprintf(out + n, size - n, "\n");
    return n;
}

char *fth_gen_line(const struct fth_gen_model *model, const struct fth_gen_example *e, char *p) {
    *p++ = (char)('0' + e->label);
    switch (model->options.format) {
    case FTH_GEN_CRITEO:
        p = put_cells(model, e, p, '\t');
        break;
    case FTH_GEN_CSV:
        p = put_task_cells(model, e, p);
        p = put_cells(model, e, p, ',');
        if (model->options.sequence.items > 0)
            p = put_history(model, e, p);
        break;
    case FTH_GEN_LIBSVM:
    case FTH_GEN_LIBFFM:
        p = put_entries(model, e, p);
        break;
    }
    *p++ = '\n';
    return p;
}
