/* By which key two configurations differ; by the schema, which says what each key decides (FTH_FIXED, FTH_NEUTRAL). */
#include <stdio.h>
#include <string.h>

#include "config/config_private.h"

#define WHAT_IT_DECIDES (FTH_FIXED | FTH_NEUTRAL | FTH_FREE)

struct comparison {
    enum fth_difference_of of;
    struct fth_difference *out;
    int failed; /* memory */
};

static int counts(const struct comparison *c, unsigned decides) {
    return c->of == FTH_DIFFERENCE_OF_MEANING ? decides & FTH_FIXED : !(decides & FTH_NEUTRAL);
}

static uint32_t items_of(const struct fth_key *key, const void *base, const char **items) {
    uint32_t n;
    memcpy(items, (const char *)base + key->offset, sizeof *items);
    memcpy(&n, (const char *)base + key->count_offset, sizeof n);
    return n;
}

static void found(struct comparison *c, const char *path, const char *was) {
    snprintf(c->out->key, sizeof c->out->key, "%s", path);
    fth_text_quote(c->out->was, sizeof c->out->was, was, strlen(was));
}

static void compare_value(struct comparison *c, const struct fth_key *key, const void *a, const void *b,
                          const char *path) {
    struct fth_text was = {0}, is = {0};
    if (a)
        fth_print_value(&was, key, a);
    if (b)
        fth_print_value(&is, key, b);
    if (strcmp(fth_text_get(&was), fth_text_get(&is)) != 0)
        found(c, path, a ? fth_text_get(&was) : "none");
    c->failed |= was.failed || is.failed;
    fth_text_free(&was);
    fth_text_free(&is);
}

/* a, b: structs of the section; stops at the first difference. */
static void compare(struct comparison *c, const struct fth_section *section, const void *a, const void *b,
                    unsigned inherited, const char *prefix) {
    uint32_t selected_a = fth_section_selected(section, a), selected_b = fth_section_selected(section, b);
    for (uint32_t i = 0; i < section->n_keys && !*c->out->key; i++) {
        const struct fth_key *key = &section->keys[i];
        unsigned own = key->flags & WHAT_IT_DECIDES, decides = own ? own : inherited;
        char path[sizeof c->out->key];
        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", key->name);
        int in_a = fth_key_used(key, selected_a), in_b = fth_key_used(key, selected_b);
        if (key->type == FTH_KEY_SECTION) {
            if (in_a && in_b)
                compare(c, key->section, (const char *)a + key->offset, (const char *)b + key->offset, decides, path);
        } else if (key->type == FTH_KEY_SECTIONS) {
            const char *of_a, *of_b;
            uint32_t n_a = items_of(key, a, &of_a), n_b = items_of(key, b, &of_b);
            if (n_a != n_b && counts(c, decides)) {
                char items[32];
                snprintf(items, sizeof items, "%u items", n_a);
                found(c, path, items);
                return;
            }
            for (uint32_t j = 0; j < n_a && j < n_b && !*c->out->key; j++) {
                char item[sizeof path + 16];
                snprintf(item, sizeof item, "%s.%u", path, j);
                compare(c, key->section, of_a + j * key->section->size, of_b + j * key->section->size, decides, item);
            }
        } else if ((in_a || in_b) && counts(c, decides)) {
            compare_value(c, key, in_a ? a : NULL, in_b ? b : NULL, path);
        }
    }
}

fth_status fth_config_difference(const struct fth_config *a, const struct fth_config *b, enum fth_difference_of of,
                                 struct fth_difference *out, fth_error *err) {
    struct comparison c = {.of = of, .out = out};
    *out = (struct fth_difference){{0}, {0}};
    compare(&c, &fth_schema_root, a, b, 0, "");
    return c.failed ? fth_fail(err, FTH_E_MEMORY, "no memory to compare configurations") : FTH_OK;
}
