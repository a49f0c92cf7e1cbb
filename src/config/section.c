/* Nodes -> structs, section by section: which keys may stand here, which are unknown, given twice
 * or not used by the chosen model, format or optimizer; nearest names. Values are value.c's. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/config_private.h"

#define MAX_ITEMS 4096 /* of a list of sections */

/* ---- messages ---- */
static void place(struct fth_loader *l, const struct fth_node *node, int key,
                  struct fth_text *out) {
    if (node && node->override) {
        char quoted[100];
        fth_text_quote(quoted, sizeof quoted, node->override, strlen(node->override));
        fth_text_printf(out, "--set %s: ", quoted);
    } else if (node && node != l->root) {
        fth_text_printf(out, "%s:%u:%u: ", l->name, key ? node->key_line : node->line,
                        key ? node->key_column : node->column);
    } else {
        fth_text_printf(out, "%s: ", l->name);
    }
}

static fth_status fail_text(struct fth_loader *l, struct fth_text *text, const char *path,
                            const char *format, va_list args) {
    char message[900];
    vsnprintf(message, sizeof message, format, args);
    fth_text_printf(text, "%s%s%s", path, *path ? ": " : "", message);
    fth_status status = text->failed ? fth_load_no_memory(l)
                                     : fth_fail(l->err, FTH_E_CONFIG, "%s", fth_text_get(text));
    fth_text_free(text);
    return status;
}

fth_status fth_load_fail(struct fth_loader *l, const struct fth_node *node, const char *format,
                         ...) {
    struct fth_text text = {0};
    va_list args;
    place(l, node, 0, &text);
    va_start(args, format);
    fth_status status = fail_text(l, &text, l->path, format, args);
    va_end(args);
    return status;
}

fth_status fth_load_fail_path(struct fth_loader *l, const char *path, const char *format, ...) {
    struct fth_text text = {0};
    char at[sizeof l->path];
    snprintf(at, sizeof at, "%s", path);
    const struct fth_node *node = fth_node_find(l, at);
    while (!node) {
        char *dot = strrchr(at, '.');
        if (!dot)
            break;
        *dot = 0;
        node = fth_node_find(l, at);
    }
    place(l, node, node && node->key, &text);
    va_list args;
    va_start(args, format);
    fth_status status = fail_text(l, &text, path, format, args);
    va_end(args);
    return status;
}

/* Appends ".name" to l->path; returns the length to hand to pop_path. */
static size_t push_path(struct fth_loader *l, const char *name) {
    size_t length = strlen(l->path);
    snprintf(l->path + length, sizeof l->path - length, "%s%s", length ? "." : "", name);
    return length;
}

static void pop_path(struct fth_loader *l, size_t length) {
    l->path[length] = 0;
}

/* ---- unknown keys ---- */

/* The path of the first key anywhere with this name, or NULL in *out. */
static void find_elsewhere(const struct fth_section *section, const char *name, const char *prefix,
                           struct fth_text *out) {
    for (uint32_t i = 0; i < section->n_keys && !out->length; i++) {
        const struct fth_key *key = &section->keys[i];
        char path[128];
        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", key->name);
        if (strcmp(key->name, name) == 0)
            fth_text_printf(out, "%s", path);
        else if (key->type == FTH_KEY_SECTION)
            find_elsewhere(key->section, name, path, out);
    }
}

static fth_status unknown_key(struct fth_loader *l, const struct fth_section *section,
                              const struct fth_node *node) {
    const char *names[FTH_SECTION_MAX_KEYS];
    struct fth_text text = {0}, elsewhere = {0};
    char quoted[80];
    for (uint32_t i = 0; i < section->n_keys; i++)
        names[i] = section->keys[i].name;
    fth_text_quote(quoted, sizeof quoted, node->key, strlen(node->key));
    place(l, node, 1, &text);
    fth_text_printf(&text, "%s%s%s: unknown key", l->path, *l->path ? "." : "",
                    *quoted ? quoted : "''");
    const char *near = fth_nearest(node->key, names, section->n_keys);
    if (!near)
        find_elsewhere(&fth_schema_root, node->key, "", &elsewhere);
    if (near)
        fth_text_printf(&text, "; did you mean %s?", near);
    else if (elsewhere.length)
        fth_text_printf(&text, "; did you mean %s?", fth_text_get(&elsewhere));
    for (uint32_t i = 0; i < section->n_keys; i++)
        fth_text_printf(&text, "%s%s", i ? ", " : " (accepted here: ", names[i]);
    fth_text_printf(&text, ")");
    int failed = text.failed || elsewhere.failed;
    fth_status status =
        failed ? fth_load_no_memory(l) : fth_fail(l->err, FTH_E_CONFIG, "%s", fth_text_get(&text));
    fth_text_free(&text);
    fth_text_free(&elsewhere);
    return status;
}

/* ---- selectors ---- */
uint32_t fth_section_selected(const struct fth_section *section, const void *base) {
    if (section->selector < 0)
        return 0;
    const struct fth_key *key = &section->keys[section->selector];
    const char *field = (const char *)base + key->offset;
    for (uint32_t i = 0; key->choices[i].name; i++)
        if (key->type == FTH_KEY_ENUM
                ? key->choices[i].value == *(const int *)field
                : strcmp(key->choices[i].name, *(const char *const *)field) == 0)
            return i;
    return 0;
}

void fth_key_users(const struct fth_section *section, const struct fth_key *key,
                   struct fth_text *out) {
    const struct fth_choice *choices = section->keys[section->selector].choices;
    const char *comma = "";
    for (uint32_t i = 0; choices[i].name; i++)
        if (fth_key_used(key, i)) {
            fth_text_printf(out, "%s%s", comma, choices[i].name);
            comma = ", ";
        }
}

static fth_status refuse_unused(struct fth_loader *l, const struct fth_section *section,
                                const struct fth_key *key, uint32_t selected,
                                const struct fth_node *node) {
    const struct fth_key *selector = &section->keys[section->selector];
    struct fth_text users = {0};
    const char *dot = strrchr(l->path, '.');
    fth_key_users(section, key, &users);
    fth_status status = fth_load_fail(
        l, node, "%s does not use this key (used by: %s); remove it, or change %.*s%s",
        selector->choices[selected].name, fth_text_get(&users), dot ? (int)(dot - l->path) + 1 : 0,
        l->path, selector->name);
    fth_text_free(&users);
    return status;
}

/* ---- reading ---- */
static fth_status find_keys(struct fth_loader *l, const struct fth_section *section,
                            const struct fth_node *node, const struct fth_node **found) {
    if (!node)
        return FTH_OK;
    if (node->kind == FTH_NODE_SCALAR && node->plain && !*node->text)
        return FTH_OK; /* "train:" with nothing after it: all defaults */
    if (node->kind != FTH_NODE_MAP)
        return fth_load_fail(l, node, "found a %s, expected a section of keys such as %s",
                             node->kind == FTH_NODE_LIST ? "list" : "single value",
                             section->keys[0].name);
    for (const struct fth_node *child = node->first; child; child = child->next) {
        uint32_t i = 0;
        while (i < section->n_keys && strcmp(section->keys[i].name, child->key) != 0)
            i++;
        if (i == section->n_keys)
            return unknown_key(l, section, child);
        if (found[i]) {
            size_t length = push_path(l, child->key);
            fth_status status = fth_load_fail(l, child, "given a second time (first in line %u)",
                                              found[i]->key_line);
            pop_path(l, length);
            return status;
        }
        found[i] = child;
    }
    return FTH_OK;
}

static fth_status read_items(struct fth_loader *l, const struct fth_key *key,
                             const struct fth_node *node, char *base) {
    if (!node || (node->kind == FTH_NODE_SCALAR && node->plain && !*node->text))
        return FTH_OK;
    if (node->kind != FTH_NODE_LIST)
        return fth_load_fail(l, node,
                             "found a %s, expected a list of sections, each begun by \"- \"",
                             node->kind == FTH_NODE_MAP ? "section" : "single value");
    if (node->n > MAX_ITEMS)
        return fth_load_fail(l, node, "found %u items, expected at most %d", node->n, MAX_ITEMS);
    if (node->n == 0)
        return FTH_OK;
    char *items = fth_arena_alloc(l->config->arena, node->n, key->section->size);
    if (!items)
        return fth_load_no_memory(l);
    uint32_t n = 0;
    for (const struct fth_node *item = node->first; item; item = item->next, n++) {
        char number[16];
        snprintf(number, sizeof number, "%u", n);
        size_t length = push_path(l, number);
        FTH_TRY(fth_section_read(l, key->section, item, items + (size_t)n * key->section->size));
        pop_path(l, length);
    }
    memcpy(base + key->offset, &items, sizeof items);
    memcpy(base + key->count_offset, &n, sizeof n);
    return FTH_OK;
}

static fth_status read_key(struct fth_loader *l, const struct fth_section *section,
                           const struct fth_key *key, uint32_t selected,
                           const struct fth_node *node, char *base) {
    if (node && !fth_key_used(key, selected))
        return refuse_unused(l, section, key, selected, node);
    if (key->type == FTH_KEY_SECTION)
        return fth_section_read(l, key->section, node, base + key->offset);
    if (key->type == FTH_KEY_SECTIONS)
        return read_items(l, key, node, base);
    return node ? fth_value_read(l, key, node, base) : fth_value_standard(l, key, selected, base);
}

fth_status fth_section_read(struct fth_loader *l, const struct fth_section *section,
                            const struct fth_node *node, void *base) {
    const struct fth_node *found[FTH_SECTION_MAX_KEYS] = {0};
    FTH_TRY(find_keys(l, section, node, found));
    uint32_t selected = 0;
    /* The selector first: which other keys may be there, and their defaults, follow from it. */
    for (int pass = section->selector < 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < section->n_keys; i++) {
            if (((int)i == section->selector) == (pass == 1))
                continue;
            /* What the file says for another choice than the one that --set makes means nothing any more. */
            int of_another = pass == 1 && section->selector >= 0 && found[i] && !found[i]->override &&
                             found[section->selector] && found[section->selector]->override &&
                             !fth_key_used(&section->keys[i], selected);
            size_t length = push_path(l, section->keys[i].name);
            FTH_TRY(read_key(l, section, &section->keys[i], selected, of_another ? NULL : found[i], base));
            pop_path(l, length);
        }
        selected = fth_section_selected(section, base);
    }
    return FTH_OK;
}
