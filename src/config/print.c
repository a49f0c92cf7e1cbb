/* Structs -> YAML that reads back as the same structs; by the schema. Keys that the chosen model,
 * format or optimizer does not use are left out, as they would be refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_private.h"

uint32_t fth_utf8_next(const char **text) {
    const unsigned char *at = (const unsigned char *)*text;
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    uint32_t more = at[0] < 0x80 ? 0 : at[0] < 0xc0 ? 9 : at[0] < 0xe0 ? 1 : at[0] < 0xf0 ? 2 : 3;
    if (more == 9 || at[0] >= 0xf8 || at[0] == 0)
        return 0;
    uint32_t value = more ? at[0] & (0x3fu >> more) : at[0];
    for (uint32_t i = 1; i <= more; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (at[i] & 0x3fu);
    }
    if (value < least[more] && more)
        return 0;
    if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 0;
    *text += more + 1;
    return value;
}

static void shortest(char text[32], double value) {
    double back;
    if (value > -1e15 && value < 1e15 && value == (double)(int64_t)value &&
        !(value == 0 && signbit(value))) {
        snprintf(text, 32, "%lld", (long long)value); /* 4096 rather than 4.096e+03 */
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        fth_format_f64(text, digits, value);
        if (fth_parse_f64(text, strlen(text), &back) && back == value)
            break;
    }
}

void fth_print_number(struct fth_text *out, double value) {
    char text[32];
    shortest(text, value);
    fth_text_printf(out, "%s", text);
}

/* 1.0e-05, which programs that know YAML 1.1 would take for a text without its point. */
static void print_real(struct fth_text *out, double value) {
    char text[32];
    shortest(text, value);
    size_t mantissa = strcspn(text, "e");
    int whole = text[mantissa] && !memchr(text, '.', mantissa);
    fth_text_printf(out, "%.*s%s%s", (int)mantissa, text, whole ? ".0" : "", text + mantissa);
}

/* As a double-quoted YAML text. */
static void print_string(struct fth_text *out, const char *text) {
    fth_text_append(out, "\"", 1);
    while (*text) {
        const char *start = text;
        uint32_t c = fth_utf8_next(&text);
        if (c == 0) { /* not UTF-8: cannot come from a parsed configuration */
            fth_text_append(out, "?", 1);
            text++;
        } else if (c == '"' || c == '\\') {
            fth_text_printf(out, "\\%c", (int)c);
        } else if (c == '\t') {
            fth_text_append(out, "\\t", 2);
        } else if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 ||
                   c == 0xfeff || c == 0xfffe || c == 0xffff) {
            fth_text_printf(out, "\\u%04x", c); /* control characters and YAML's line breaks */
        } else {
            fth_text_append(out, start, (size_t)(text - start));
        }
    }
    fth_text_append(out, "\"", 1);
}

static void print_list(struct fth_text *out, const struct fth_key *key, const char *field) {
    uint32_t n = key->type == FTH_KEY_INTS     ? ((const struct fth_ints *)field)->n
                 : key->type == FTH_KEY_FLOATS ? ((const struct fth_floats *)field)->n
                                               : ((const struct fth_strings *)field)->n;
    fth_text_append(out, "[", 1);
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            fth_text_append(out, ", ", 2);
        if (key->type == FTH_KEY_INTS)
            fth_text_printf(out, "%lld", (long long)((const struct fth_ints *)field)->items[i]);
        else if (key->type == FTH_KEY_FLOATS)
            print_real(out, ((const struct fth_floats *)field)->items[i]);
        else
            print_string(out, ((const struct fth_strings *)field)->items[i]);
    }
    fth_text_append(out, "]", 1);
}

static void print_numeric(struct fth_text *out, const struct fth_key *key,
                          const struct fth_numeric_config *numeric) {
    if (key->type == FTH_KEY_CLIP) {
        const double ends[] = {numeric->clip_low, numeric->clip_high};
        const struct fth_floats clip = {ends, numeric->clip ? 2 : 0};
        const struct fth_key floats = {.type = FTH_KEY_FLOATS};
        print_list(out, &floats, (const char *)&clip);
    } else if (numeric->standardise == FTH_STANDARDISE_GIVEN) {
        fth_text_printf(out, "{mean: ");
        print_real(out, numeric->mean);
        fth_text_printf(out, ", deviation: ");
        print_real(out, numeric->deviation);
        fth_text_printf(out, "}");
    } else {
        fth_text_printf(out, numeric->standardise == FTH_STANDARDISE_RUNNING ? "running" : "none");
    }
}

static void print_bad_line(struct fth_text *out, const struct fth_data_config *data) {
    if (data->on_bad_line == FTH_BAD_STOP)
        fth_text_printf(out, "stop");
    else if (data->bad_line_limit < 0)
        fth_text_printf(out, "skip");
    else
        fth_text_printf(out, "skip up to %lld", (long long)data->bad_line_limit);
}

void fth_print_value(struct fth_text *out, const struct fth_key *key, const void *base) {
    const char *field = (const char *)base + key->offset;
    switch (key->type) {
    case FTH_KEY_BOOL:
        fth_text_printf(out, *(const int *)field ? "true" : "false");
        break;
    case FTH_KEY_INT:
    case FTH_KEY_BYTES:
        fth_text_printf(out, "%lld", (long long)*(const int64_t *)field);
        break;
    case FTH_KEY_U64:
        fth_text_printf(out, "%llu", (unsigned long long)*(const uint64_t *)field);
        break;
    case FTH_KEY_FLOAT:
        print_real(out, *(const double *)field);
        break;
    case FTH_KEY_STRING:
        if (key->choices && **(const char *const *)field)
            fth_text_printf(out, "%s", *(const char *const *)field);
        else
            print_string(out, *(const char *const *)field);
        break;
    case FTH_KEY_ENUM:
        for (const struct fth_choice *choice = key->choices; choice->name; choice++)
            if (choice->value == *(const int *)field)
                fth_text_printf(out, "%s", choice->name);
        break;
    case FTH_KEY_DELIMITER:
    case FTH_KEY_ESCAPE:
        print_string(out, *(const char *const *)field);
        break;
    case FTH_KEY_STRINGS:
    case FTH_KEY_COLUMNS:
    case FTH_KEY_INTS:
    case FTH_KEY_FLOATS:
        print_list(out, key, field);
        break;
    case FTH_KEY_CLIP:
    case FTH_KEY_STANDARDISE:
        print_numeric(out, key, base);
        break;
    case FTH_KEY_BAD_LINE:
        print_bad_line(out, base);
        break;
    case FTH_KEY_SECTION:
    case FTH_KEY_SECTIONS:
        break; /* print_section's */
    }
}

/* Keys at `indent` spaces; in a list item the first follows the dash. */
static void print_section(struct fth_text *out, const struct fth_section *section, const void *base,
                          int indent, int item) {
    uint32_t selected = fth_section_selected(section, base);
    for (uint32_t i = 0; i < section->n_keys; i++) {
        const struct fth_key *key = &section->keys[i];
        if (!fth_key_used(key, selected))
            continue;
        if (item)
            fth_text_printf(out, "%*s- %s:", indent - 2, "", key->name);
        else
            fth_text_printf(out, "%*s%s:", indent, "", key->name);
        item = 0;
        const char *field = (const char *)base + key->offset;
        if (key->type == FTH_KEY_SECTION) {
            fth_text_append(out, "\n", 1);
            print_section(out, key->section, field, indent + 2, 0);
        } else if (key->type == FTH_KEY_SECTIONS) {
            const char *items;
            uint32_t n;
            memcpy(&items, field, sizeof items);
            memcpy(&n, (const char *)base + key->count_offset, sizeof n);
            fth_text_printf(out, n ? "\n" : " []\n");
            for (uint32_t j = 0; j < n; j++)
                print_section(out, key->section, items + j * key->section->size, indent + 4, 1);
        } else {
            fth_text_append(out, " ", 1);
            fth_print_value(out, key, base);
            fth_text_append(out, "\n", 1);
        }
    }
}

char *fth_config_print(const struct fth_config *config) {
    struct fth_text out = {0};
    if (!config)
        return NULL;
    print_section(&out, &fth_schema_root, config, 0, 0);
    if (out.failed) {
        fth_text_free(&out);
        return NULL;
    }
    return out.data;
}
