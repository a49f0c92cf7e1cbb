/* What a key accepts, in words: for refusals and for the reference. Constant; any thread. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/config_private.h"

static void describe_range(const struct fth_key *key, struct fth_text *out) {
    if (key->low == -FLT_MAX)
        fth_text_printf(out, " that a 32-bit float can hold");
    int low = isfinite(key->low) && key->low > -FTH_INT_LIMIT;
    int high = isfinite(key->high) && key->high < FTH_INT_LIMIT;
    if (low && high && !(key->flags & (FTH_LOW_OPEN | FTH_HIGH_OPEN))) {
        fth_text_printf(out, " from ");
        fth_print_number(out, key->low);
        fth_text_printf(out, " to ");
        fth_print_number(out, key->high);
        return;
    }
    if (low) {
        fth_text_printf(out, key->flags & FTH_LOW_OPEN ? " above " : ", at least ");
        fth_print_number(out, key->low);
    }
    if (high) {
        fth_text_printf(out, low ? " and" : "");
        fth_text_printf(out, key->flags & FTH_HIGH_OPEN ? " below " : " up to ");
        fth_print_number(out, key->high);
    }
}

void fth_key_expected(const struct fth_key *key, struct fth_text *out) {
    static const char *const names[] = {
        [FTH_KEY_BOOL] = "true or false",
        [FTH_KEY_INT] = "a whole number",
        [FTH_KEY_U64] = "a whole number from 0 to 18446744073709551615",
        [FTH_KEY_FLOAT] = "a number",
        [FTH_KEY_BYTES] = "a size such as 64k, 1MiB or 2GB",
        [FTH_KEY_STRING] = "a text",
        [FTH_KEY_DELIMITER] = "one character, or up to eight bytes without letters and digits; no quote, no line break",
        [FTH_KEY_ESCAPE] =
            "one ASCII sign that is no letter, digit, double quote or space, such as one backslash, or \"\" for none",
        [FTH_KEY_STRINGS] = "a list of texts",
        [FTH_KEY_COLUMNS] = "a list of one or more column names",
        [FTH_KEY_INTS] = "a list of whole numbers",
        [FTH_KEY_FLOATS] = "a list of numbers",
        [FTH_KEY_CLIP] = "a list of two numbers, the first below the second, or [] for none",
        [FTH_KEY_STANDARDISE] = "none, running, or {mean: NUMBER, deviation: NUMBER of 1e-37 or more}",
        [FTH_KEY_BAD_LINE] = "stop, skip, or \"skip up to N\"",
        [FTH_KEY_SECTION] = "a section",
        [FTH_KEY_SECTIONS] = "a list of sections",
    };
    if (key->choices) {
        fth_text_printf(out, "one of ");
        for (uint32_t i = 0; key->choices[i].name; i++)
            fth_text_printf(out, "%s%s", i ? ", " : "",
                            *key->choices[i].name ? key->choices[i].name : "\"\"");
        return;
    }
    fth_text_printf(out, "%s", names[key->type]);
    if (key->type == FTH_KEY_INT || key->type == FTH_KEY_FLOAT || key->type == FTH_KEY_BYTES ||
        key->type == FTH_KEY_INTS || key->type == FTH_KEY_FLOATS)
        describe_range(key, out);
}

/* "found 'many', expected ..." */
fth_status fth_value_refuse(struct fth_loader *l, const struct fth_key *key,
                            const struct fth_node *node) {
    struct fth_text expected = {0};
    char quoted[80], found[100];
    fth_key_expected(key, &expected);
    fth_text_quote(quoted, sizeof quoted, node->text, strlen(node->text));
    if (node->kind != FTH_NODE_SCALAR)
        snprintf(found, sizeof found, "%s",
                 node->kind == FTH_NODE_MAP ? "a section"
                 : node->n                  ? "a list"
                                            : "an empty list");
    else if (node->plain && !*node->text)
        snprintf(found, sizeof found, "no value");
    else
        snprintf(found, sizeof found, node->plain ? "%s" : "the text '%s'", quoted);
    const char *names[64], *near = NULL;
    size_t n = 0;
    while (key->choices && n < 64 && key->choices[n].name) {
        names[n] = key->choices[n].name;
        n++;
    }
    if (n && node->kind == FTH_NODE_SCALAR)
        near = fth_nearest(node->text, names, n);
    fth_status status = fth_load_fail(
        l, node, "found %s, expected %s%s%s%s", found, fth_text_get(&expected),
        near && *near ? "; did you mean " : "", near ? near : "", near && *near ? "?" : "");
    fth_text_free(&expected);
    return status;
}
