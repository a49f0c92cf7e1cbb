/* YAML text -> nodes with places, by libyaml's events; and the tree's own small tools.
 *
 * Refused here: syntax errors, anchors, aliases and tags, keys that are not plain texts, a NUL
 * character, a second document, nesting beyond FTH_CONFIG_MAX_DEPTH (so recursion is bounded). Work
 * is linear in the text: a node is appended to its parent's list, and duplicate keys are found by
 * the schema's reader, which knows the few names that may occur. */
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "config/config_private.h"

struct tree_parser {
    struct fth_loader *l;
    yaml_parser_t yaml;
    const char *text;
    size_t length;
};

fth_status fth_load_no_memory(struct fth_loader *l) {
    return fth_fail(l->err, FTH_E_MEMORY, "%s: out of memory while reading the configuration",
                    l->name);
}

/* ---- nodes ---- */
struct fth_node *fth_node_add(struct fth_loader *l, struct fth_node *parent,
                              enum fth_node_kind kind) {
    struct fth_node *node = fth_arena_alloc(l->tree, 1, sizeof *node);
    if (!node)
        return NULL;
    node->kind = kind;
    node->text = "";
    node->override = l->override;
    if (parent) {
        if (parent->last)
            parent->last->next = node;
        else
            parent->first = node;
        parent->last = node;
        parent->n++;
    }
    return node;
}

struct fth_node *fth_node_child(const struct fth_node *map, const char *key, size_t length) {
    for (struct fth_node *child = map->first; child; child = child->next)
        if (strlen(child->key) == length && memcmp(child->key, key, length) == 0)
            return child;
    return NULL;
}

struct fth_node *fth_node_item(const struct fth_node *list, uint64_t index) {
    struct fth_node *item = list->first;
    while (item && index--)
        item = item->next;
    return item;
}

const struct fth_node *fth_node_find(const struct fth_loader *l, const char *path) {
    const struct fth_node *node = l->root;
    while (node && *path) {
        size_t length = strcspn(path, ".");
        uint64_t index;
        if (node->kind == FTH_NODE_MAP)
            node = fth_node_child(node, path, length);
        else if (node->kind == FTH_NODE_LIST && fth_parse_u64(path, length, &index))
            node = fth_node_item(node, index);
        else
            node = NULL;
        path += length + (path[length] == '.');
    }
    return node;
}

/* ---- messages of the YAML level ---- */
static void place_of_byte(const struct tree_parser *t, size_t byte, unsigned *line,
                          unsigned *column) {
    size_t start = 0;
    *line = 1;
    for (size_t i = 0; i < byte && i < t->length; i++)
        if (t->text[i] == '\n') {
            ++*line;
            start = i + 1;
        }
    *column = (unsigned)(byte - start + 1);
}

static int line_is_indented_by_tab(const struct tree_parser *t, size_t line) {
    const char *at = t->text, *end = t->text + t->length;
    while (line-- && at) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    while (at && at < end && *at == ' ')
        at++;
    return at && at < end && *at == '\t';
}

static fth_status fail_at(struct tree_parser *t, size_t line, size_t column, const char *problem,
                          const char *hint) {
    struct fth_loader *l = t->l;
    if (l->override) {
        char quoted[100];
        fth_text_quote(quoted, sizeof quoted, l->override, strlen(l->override));
        return fth_fail(l->err, FTH_E_CONFIG, "--set %s: %s%s", quoted, problem, hint);
    }
    return fth_fail(l->err, FTH_E_CONFIG, "%s:%zu:%zu: %s%s", l->name, line, column, problem, hint);
}

static fth_status fail_mark(struct tree_parser *t, yaml_mark_t mark, const char *problem) {
    return fail_at(t, mark.line + 1, mark.column + 1, problem, "");
}

static fth_status syntax_error(struct tree_parser *t) {
    const yaml_parser_t *yaml = &t->yaml;
    char text[256];
    if (yaml->error == YAML_MEMORY_ERROR)
        return fth_load_no_memory(t->l);
    const char *problem = yaml->problem ? yaml->problem : "not YAML";
    if (yaml->error == YAML_READER_ERROR) {
        unsigned line, column;
        place_of_byte(t, yaml->problem_offset, &line, &column);
        snprintf(text, sizeof text, "not YAML: %s (byte 0x%02x)", problem,
                 (unsigned)yaml->problem_value & 0xffu);
        return fail_at(t, line, column, text, "; the file must be UTF-8 text");
    }
    if (yaml->context && yaml->context_mark.line != yaml->problem_mark.line && !t->l->override)
        snprintf(text, sizeof text, "not YAML: %s (%s that began in line %zu)", problem,
                 yaml->context, yaml->context_mark.line + 1);
    else
        snprintf(text, sizeof text, "not YAML: %s%s%s", problem, yaml->context ? " " : "",
                 yaml->context ? yaml->context : "");
    const char *hint = "";
    if (line_is_indented_by_tab(t, yaml->problem_mark.line))
        hint = "; a tab cannot indent, use spaces";
    else if (yaml->context && strstr(yaml->context, "alias"))
        hint = "; a text that begins with * needs quotes";
    return fail_at(t, yaml->problem_mark.line + 1, yaml->problem_mark.column + 1, text, hint);
}

/* ---- events ---- */
static fth_status next_event(struct tree_parser *t, yaml_event_t *event) {
    if (!yaml_parser_parse(&t->yaml, event))
        return syntax_error(t);
    return FTH_OK;
}

static fth_status copy_text(struct tree_parser *t, const yaml_event_t *event, const char **out) {
    const char *value = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    if (memchr(value, 0, length))
        return fail_mark(t, event->start_mark, "a text may not contain the character NUL");
    char *copy = fth_arena_alloc(t->l->tree, length + 1, 1);
    if (!copy)
        return fth_load_no_memory(t->l);
    memcpy(copy, value, length);
    *out = copy;
    return FTH_OK;
}

static fth_status refuse_properties(struct tree_parser *t, const yaml_event_t *event,
                                    const yaml_char_t *anchor, const yaml_char_t *tag) {
    if (anchor)
        return fail_mark(
            t, event->start_mark,
            "anchors (&name) are not supported; a text that begins with & needs quotes");
    if (tag)
        return fail_mark(t, event->start_mark,
                         "tags (!name) are not supported; a text that begins with ! needs quotes");
    return FTH_OK;
}

static fth_status build(struct tree_parser *t, const yaml_event_t *event, uint32_t depth,
                        struct fth_node *parent, struct fth_node **out);

static fth_status build_key(struct tree_parser *t, const yaml_event_t *event, const char **key) {
    if (event->type == YAML_ALIAS_EVENT)
        return fail_mark(t, event->start_mark, "aliases (*name) are not supported");
    if (event->type != YAML_SCALAR_EVENT)
        return fail_mark(t, event->start_mark, "a key must be a name, not a list or a section");
    FTH_TRY(refuse_properties(t, event, event->data.scalar.anchor, event->data.scalar.tag));
    return copy_text(t, event, key);
}

/* The children of a list or map whose start event has been read. */
static fth_status build_children(struct tree_parser *t, struct fth_node *node, uint32_t depth) {
    int map = node->kind == FTH_NODE_MAP;
    for (;;) {
        yaml_event_t event;
        struct fth_node *child;
        const char *key = NULL;
        yaml_mark_t key_mark = {0};
        FTH_TRY(next_event(t, &event));
        if (event.type == (map ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT)) {
            yaml_event_delete(&event);
            return FTH_OK;
        }
        if (map) {
            key_mark = event.start_mark;
            fth_status status = build_key(t, &event, &key);
            yaml_event_delete(&event);
            FTH_TRY(status);
            FTH_TRY(next_event(t, &event));
        }
        fth_status status = build(t, &event, depth, node, &child);
        yaml_event_delete(&event);
        FTH_TRY(status);
        child->key = key;
        child->key_line = (uint32_t)key_mark.line + 1;
        child->key_column = (uint32_t)key_mark.column + 1;
    }
}

static fth_status build(struct tree_parser *t, const yaml_event_t *event, uint32_t depth,
                        struct fth_node *parent, struct fth_node **out) {
    enum fth_node_kind kind = FTH_NODE_SCALAR;
    if (event->type == YAML_ALIAS_EVENT)
        return fail_mark(
            t, event->start_mark,
            "aliases (*name) are not supported; a text that begins with * needs quotes");
    if (event->type == YAML_SEQUENCE_START_EVENT)
        kind = FTH_NODE_LIST;
    else if (event->type == YAML_MAPPING_START_EVENT)
        kind = FTH_NODE_MAP;
    if (kind == FTH_NODE_SCALAR)
        FTH_TRY(refuse_properties(t, event, event->data.scalar.anchor, event->data.scalar.tag));
    else if (kind == FTH_NODE_LIST)
        FTH_TRY(refuse_properties(t, event, event->data.sequence_start.anchor,
                                  event->data.sequence_start.tag));
    else
        FTH_TRY(refuse_properties(t, event, event->data.mapping_start.anchor,
                                  event->data.mapping_start.tag));
    if (depth > FTH_CONFIG_MAX_DEPTH)
        return fail_mark(t, event->start_mark,
                         "nested too deeply; no key needs more than 16 levels");

    struct fth_node *node = fth_node_add(t->l, parent, kind);
    if (!node)
        return fth_load_no_memory(t->l);
    node->line = (uint32_t)event->start_mark.line + 1;
    node->column = (uint32_t)event->start_mark.column + 1;
    *out = node;
    if (kind != FTH_NODE_SCALAR)
        return build_children(t, node, depth + 1);
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return copy_text(t, event, &node->text);
}

/* Stream start, at most one document, stream end. */
static fth_status build_document(struct tree_parser *t, struct fth_node **out) {
    yaml_event_t event;
    struct fth_node *root = NULL;
    int documents = 0, done = 0;
    while (!done) {
        fth_status status = FTH_OK;
        FTH_TRY(next_event(t, &event));
        switch (event.type) {
        case YAML_STREAM_END_EVENT:
            done = 1;
            break;
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT:
            break;
        case YAML_DOCUMENT_START_EVENT:
            if (documents++)
                status = fail_mark(t, event.start_mark,
                                   "a second document begins; a configuration is one document");
            break;
        default:
            status = build(t, &event, 1, NULL, &root);
        }
        yaml_event_delete(&event);
        FTH_TRY(status);
    }
    *out = root;
    return FTH_OK;
}

fth_status fth_tree_parse(struct fth_loader *l, const char *text, size_t length,
                          struct fth_node **out) {
    struct tree_parser t = {.l = l, .text = text, .length = length};
    if (length > FTH_CONFIG_MAX_PRINTED)
        return fth_fail(l->err, FTH_E_CONFIG, "%s: larger than %zu bytes, which no configuration needs", l->name,
                        FTH_CONFIG_MAX_PRINTED);
    if (!yaml_parser_initialize(&t.yaml))
        return fth_load_no_memory(l);
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark, as some editors begin files */
        t.text = text += 3;
        t.length = length -= 3;
    }
    yaml_parser_set_encoding(&t.yaml, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&t.yaml, (const unsigned char *)text, length);
    fth_status status = build_document(&t, out);
    yaml_parser_delete(&t.yaml);
    return status;
}
