/* One node -> one field, by the schema's row: type, range, choices. Every refusal says what was
 * found and what would be accepted. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "config/config_private.h"

#define MAX_COLUMNS 65536 /* of all features together, ranges expanded */

/* ---- scalars ---- */
static int is_plain(const struct fth_node *node) {
    return node->kind == FTH_NODE_SCALAR && node->plain && *node->text;
}

static int in_range(const struct fth_key *key, double value) {
    return (key->flags & FTH_LOW_OPEN ? value > key->low : value >= key->low) &&
           (key->flags & FTH_HIGH_OPEN ? value < key->high : value <= key->high);
}

static fth_status read_bool(struct fth_loader *l, const struct fth_key *key,
                            const struct fth_node *node, int *out) {
    static const char *const names[] = {"false", "no", "off", "true", "yes", "on"};
    for (int i = 0; i < 6; i++)
        if (is_plain(node) && strcmp(node->text, names[i]) == 0) {
            *out = i >= 3;
            return FTH_OK;
        }
    return fth_value_refuse(l, key, node);
}

static fth_status read_int(struct fth_loader *l, const struct fth_key *key,
                           const struct fth_node *node, int64_t *out) {
    int64_t value;
    if (!is_plain(node) || !fth_parse_i64(node->text, strlen(node->text), &value) ||
        !in_range(key, (double)value))
        return fth_value_refuse(l, key, node);
    *out = value;
    return FTH_OK;
}

static fth_status read_float(struct fth_loader *l, const struct fth_key *key,
                             const struct fth_node *node, double *out) {
    double value;
    if (!is_plain(node) || !fth_parse_f64(node->text, strlen(node->text), &value) ||
        !isfinite(value) || !in_range(key, value) || (key->flags & FTH_HIGH_OPEN && !in_range(key, (float)value)))
        return fth_value_refuse(l, key, node);
    *out = value;
    return FTH_OK;
}

/* Of a fraction ("2.5GB") the nearest whole number of bytes. */
static int read_size(const char *text, size_t length, int64_t unit, int64_t *out) {
    double fraction;
    if (fth_parse_i64(text, length, out))
        return !__builtin_mul_overflow(*out, unit, out);
    if (unit == 1 || !fth_parse_f64(text, length, &fraction) || fraction * (double)unit >= FTH_INT_LIMIT)
        return 0;
    *out = llround(fraction * (double)unit);
    return 1;
}

/* k, M, G and KiB, MiB, GiB are powers of 1024; kB, MB, GB powers of 1000. */
static fth_status read_bytes(struct fth_loader *l, const struct fth_key *key,
                             const struct fth_node *node, int64_t *out) {
    static const struct {
        const char *name;
        int64_t bytes;
    } units[] = {
        {"", 1},          {"B", 1},           {"k", 1 << 10},
        {"K", 1 << 10},   {"M", 1 << 20},     {"G", 1 << 30},
        {"T", 1LL << 40}, {"kB", 1000},       {"KB", 1000},
        {"MB", 1000000},  {"GB", 1000000000}, {"TB", 1000000000000},
        {"kiB", 1 << 10}, {"KiB", 1 << 10},   {"MiB", 1 << 20},
        {"GiB", 1 << 30}, {"TiB", 1LL << 40},
    };
    if (!is_plain(node))
        return fth_value_refuse(l, key, node);
    size_t digits = strspn(node->text, "0123456789.");
    const char *unit = node->text + digits;
    unit += *unit == ' ';
    int64_t value;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(unit, units[i].name) == 0 && read_size(node->text, digits, units[i].bytes, &value) &&
            in_range(key, (double)value)) {
            *out = value;
            return FTH_OK;
        }
    return fth_value_refuse(l, key, node);
}

static fth_status read_string(struct fth_loader *l, const struct fth_key *key,
                              const struct fth_node *node, const char **out) {
    if (node->kind != FTH_NODE_SCALAR || (node->plain && !*node->text))
        return fth_value_refuse(l, key, node);
    *out = fth_arena_strdup(l->config->arena, node->text);
    return *out ? FTH_OK : fth_load_no_memory(l);
}

static fth_status read_choice(struct fth_loader *l, const struct fth_key *key,
                              const struct fth_node *node, char *field) {
    if (node->kind == FTH_NODE_SCALAR && !(node->plain && !*node->text))
        for (const struct fth_choice *choice = key->choices; choice->name; choice++)
            if (strcmp(choice->name, node->text) == 0) {
                if (key->type == FTH_KEY_ENUM)
                    memcpy(field, &choice->value, sizeof choice->value);
                else
                    memcpy(field, &choice->name, sizeof choice->name);
                return FTH_OK;
            }
    return fth_value_refuse(l, key, node);
}

static int is_letter_or_digit(char c) {
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* Longer ones without letters and digits, so that the word "tab" is told at once. */
static fth_status read_delimiter(struct fth_loader *l, const struct fth_key *key, const struct fth_node *node,
                                 const char **out) {
    if (node->kind != FTH_NODE_SCALAR)
        return fth_value_refuse(l, key, node);
    const char *text = strcmp(node->text, "\\t") == 0 ? "\t" : node->text; /* unquoted */
    size_t n = strlen(text);
    if (n < 1 || n > 8 || strpbrk(text, "\"\r\n"))
        return fth_value_refuse(l, key, node);
    for (size_t i = 0; n > 1 && i < n; i++)
        if (is_letter_or_digit(text[i]))
            return fth_value_refuse(l, key, node);
    *out = fth_arena_strdup(l->config->arena, text);
    return *out ? FTH_OK : fth_load_no_memory(l);
}

static fth_status read_escape(struct fth_loader *l, const struct fth_key *key, const struct fth_node *node,
                              const char **out) {
    char c = node->kind == FTH_NODE_SCALAR ? *node->text : 0;
    if (c && (c <= ' ' || c > '~' || c == '"' || is_letter_or_digit(c) || node->text[1]))
        return fth_value_refuse(l, key, node);
    return read_string(l, key, node, out);
}

/* ---- lists ---- */
/* A list's first item and length; a single value is a list of one. */
static int list_items(const struct fth_node *node, const struct fth_node **first, uint32_t *n) {
    if (node->kind == FTH_NODE_MAP ||
        (node->kind == FTH_NODE_SCALAR && node->plain && !*node->text))
        return 0;
    *first = node->kind == FTH_NODE_LIST ? node->first : node;
    *n = node->kind == FTH_NODE_LIST ? node->n : 1;
    return 1;
}

static fth_status read_strings(struct fth_loader *l, const struct fth_key *key,
                               const struct fth_node *node, struct fth_strings *out) {
    const struct fth_node *item;
    uint32_t n;
    if (!list_items(node, &item, &n))
        return fth_value_refuse(l, key, node);
    const char **items = fth_arena_alloc(l->config->arena, n + 1u, sizeof *items);
    if (!items)
        return fth_load_no_memory(l);
    for (uint32_t i = 0; i < n; i++, item = item->next)
        FTH_TRY(read_string(l, key, item, &items[i]));
    *out = (struct fth_strings){items, n};
    return FTH_OK;
}

/* "I1..I13": a prefix and two numbers without leading zeros, the second not below the first (and
 * above 0). */
static int is_range(const char *text, size_t *prefix, uint64_t *first, uint64_t *last) {
    const char *dots = strstr(text, "..");
    if (!dots)
        return 0;
    size_t length = (size_t)(dots - text), digits = 0;
    while (digits < length && text[length - digits - 1] >= '0' && text[length - digits - 1] <= '9')
        digits++;
    *prefix = length - digits;
    const char *end = dots + 2;
    return digits && strncmp(text, end, *prefix) == 0 &&
           fth_parse_u64(text + *prefix, digits, first) &&
           fth_parse_u64(end + *prefix, strlen(end + *prefix), last) && *first <= *last &&
           (text[*prefix] != '0' || digits == 1) && end[*prefix] != '0' && end[*prefix] != '+';
}

static fth_status read_columns(struct fth_loader *l, const struct fth_key *key,
                               const struct fth_node *node, struct fth_strings *out) {
    struct fth_strings raw;
    uint64_t first, last, total = 0;
    size_t prefix;
    FTH_TRY(read_strings(l, key, node, &raw));
    for (uint32_t i = 0; i < raw.n && total <= MAX_COLUMNS; i++) {
        if (!*raw.items[i])
            return fth_load_fail(l, node, "found the text '', expected a column's name");
        uint64_t count = is_range(raw.items[i], &prefix, &first, &last) ? last - first : 0;
        total += count < MAX_COLUMNS ? count + 1 : MAX_COLUMNS + 1;
    }
    if (total == 0)
        return fth_value_refuse(l, key, node);
    if (total + l->n_columns > MAX_COLUMNS)
        return fth_load_fail(l, node, "more than %d columns in all", MAX_COLUMNS);
    l->n_columns += (uint32_t)total;
    const char **items = fth_arena_alloc(l->config->arena, total, sizeof *items);
    if (!items)
        return fth_load_no_memory(l);
    uint32_t n = 0;
    for (uint32_t i = 0; i < raw.n; i++) {
        if (!is_range(raw.items[i], &prefix, &first, &last)) {
            items[n++] = raw.items[i];
            continue;
        }
        for (uint64_t number = first; number <= last; number++, n++) {
            items[n] = fth_arena_printf(l->config->arena, "%.*s%llu", (int)prefix, raw.items[i],
                                        (unsigned long long)number);
            if (!items[n])
                return fth_load_no_memory(l);
        }
    }
    *out = (struct fth_strings){items, n};
    return FTH_OK;
}

static fth_status read_numbers(struct fth_loader *l, const struct fth_key *key,
                               const struct fth_node *node, char *field) {
    const struct fth_node *item;
    uint32_t n;
    if (!list_items(node, &item, &n))
        return fth_value_refuse(l, key, node);
    if (n == 0)
        return FTH_OK;
    void *items = fth_arena_alloc(l->config->arena, n, 8);
    if (!items)
        return fth_load_no_memory(l);
    for (uint32_t i = 0; i < n; i++, item = item->next)
        FTH_TRY(key->type == FTH_KEY_INTS ? read_int(l, key, item, (int64_t *)items + i)
                                          : read_float(l, key, item, (double *)items + i));
    if (key->type == FTH_KEY_INTS)
        memcpy(field, &(struct fth_ints){items, n}, sizeof(struct fth_ints));
    else
        memcpy(field, &(struct fth_floats){items, n}, sizeof(struct fth_floats));
    return FTH_OK;
}

/* ---- values of several fields ---- */
static const struct fth_key any_number = {
    .type = FTH_KEY_FLOAT, .low = -INFINITY, .high = INFINITY};

static fth_status read_clip(struct fth_loader *l, const struct fth_key *key,
                            const struct fth_node *node, struct fth_numeric_config *out) {
    if (node->kind != FTH_NODE_LIST || (node->n != 0 && node->n != 2))
        return fth_value_refuse(l, key, node);
    if (node->n == 0)
        return FTH_OK;
    FTH_TRY(read_float(l, &any_number, node->first, &out->clip_low));
    FTH_TRY(read_float(l, &any_number, node->last, &out->clip_high));
    /* a number of the data, a float, can lie within */
    if (out->clip_low >= out->clip_high || out->clip_low > (double)FLT_MAX || out->clip_high < -(double)FLT_MAX)
        return fth_value_refuse(l, key, node);
    out->clip = 1;
    return FTH_OK;
}

static fth_status read_standardise(struct fth_loader *l, const struct fth_key *key,
                                   const struct fth_node *node, struct fth_numeric_config *out) {
    static const struct fth_key given[] = {
        {.name = "mean",
         .type = FTH_KEY_FLOAT,
         .offset = offsetof(struct fth_numeric_config, mean),
         .standard = "0",
         .low = -FLT_MAX,
         .high = FLT_MAX},
        {.name = "deviation",
         .type = FTH_KEY_FLOAT,
         .offset = offsetof(struct fth_numeric_config, deviation),
         .standard = "1",
         .low = 1e-37, /* a 32-bit float cannot hold what lies below, nor what it divides */
         .high = FLT_MAX},
    };
    static const struct fth_section section = {.keys = given, .n_keys = 2, .selector = -1};
    out->deviation = 1;
    if (node->kind == FTH_NODE_MAP) {
        out->standardise = FTH_STANDARDISE_GIVEN;
        return fth_section_read(l, &section, node, out);
    }
    if (node->kind != FTH_NODE_SCALAR ||
        (strcmp(node->text, "none") != 0 && strcmp(node->text, "running") != 0))
        return fth_value_refuse(l, key, node);
    out->standardise = *node->text == 'r' ? FTH_STANDARDISE_RUNNING : FTH_STANDARDISE_NONE;
    return FTH_OK;
}

static fth_status read_bad_line(struct fth_loader *l, const struct fth_key *key,
                                const struct fth_node *node, struct fth_data_config *out) {
    static const char limited[] = "skip up to ";
    const char *text = node->text;
    int64_t limit = -1;
    int stop = strcmp(text, "stop") == 0;
    if (strncmp(text, limited, sizeof limited - 1) == 0) {
        text += sizeof limited - 1;
        if (!fth_parse_i64(text, strlen(text), &limit) || limit < 0)
            return fth_value_refuse(l, key, node);
    } else if (!stop && strcmp(text, "skip") != 0) {
        return fth_value_refuse(l, key, node);
    }
    out->on_bad_line = stop ? FTH_BAD_STOP : FTH_BAD_SKIP;
    out->bad_line_limit = stop ? 0 : limit;
    return FTH_OK;
}

/* ---- by type ---- */
fth_status fth_value_read(struct fth_loader *l, const struct fth_key *key,
                          const struct fth_node *node, void *base) {
    char *field = (char *)base + key->offset;
    switch (key->type) {
    case FTH_KEY_BOOL:
        return read_bool(l, key, node, (int *)field);
    case FTH_KEY_INT:
        return read_int(l, key, node, (int64_t *)field);
    case FTH_KEY_U64:
        if (!is_plain(node) || !fth_parse_u64(node->text, strlen(node->text), (uint64_t *)field))
            return fth_value_refuse(l, key, node);
        return FTH_OK;
    case FTH_KEY_FLOAT:
        return read_float(l, key, node, (double *)field);
    case FTH_KEY_BYTES:
        return read_bytes(l, key, node, (int64_t *)field);
    case FTH_KEY_ENUM:
        return read_choice(l, key, node, field);
    case FTH_KEY_STRING:
        return key->choices ? read_choice(l, key, node, field)
                            : read_string(l, key, node, (const char **)field);
    case FTH_KEY_DELIMITER:
        return read_delimiter(l, key, node, (const char **)field);
    case FTH_KEY_ESCAPE:
        return read_escape(l, key, node, (const char **)field);
    case FTH_KEY_STRINGS:
        return read_strings(l, key, node, (struct fth_strings *)field);
    case FTH_KEY_COLUMNS:
        return read_columns(l, key, node, (struct fth_strings *)field);
    case FTH_KEY_INTS:
    case FTH_KEY_FLOATS:
        return read_numbers(l, key, node, field);
    case FTH_KEY_CLIP:
        return read_clip(l, key, node, base);
    case FTH_KEY_STANDARDISE:
        return read_standardise(l, key, node, base);
    case FTH_KEY_BAD_LINE:
        return read_bad_line(l, key, node, base);
    case FTH_KEY_SECTION:
    case FTH_KEY_SECTIONS:
        break; /* read by section.c */
    }
    return fth_value_refuse(l, key, node);
}

fth_status fth_value_standard(struct fth_loader *l, const struct fth_key *key, uint32_t selected,
                              void *base) {
    const char *text = key->standard_by ? key->standard_by[selected] : key->standard;
    if (key->flags & FTH_REQUIRED) {
        struct fth_text expected = {0};
        fth_key_expected(key, &expected);
        fth_status status =
            fth_load_fail_path(l, l->path, "missing; expected %s", fth_text_get(&expected));
        fth_text_free(&expected);
        return status;
    }
    if (!text) {
        if (key->type == FTH_KEY_STRING || key->type == FTH_KEY_ESCAPE)
            *(const char **)((char *)base + key->offset) = "";
        return FTH_OK;
    }
    struct fth_node scalar = {.kind = FTH_NODE_SCALAR, .text = text, .plain = 1}, *node = &scalar;
    if (*text == '[')
        FTH_TRY(fth_tree_parse(l, text, strlen(text), &node));
    return fth_value_read(l, key, node, base);
}
