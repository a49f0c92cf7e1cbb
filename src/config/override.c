/* --set key.path=value: puts a value into the tree before it is read, so that what the file says
 * and what the command line says are checked by the same code. key.path+=value adds to a list. A
 * value that begins with [ { " or ' is YAML; any other is taken as it stands (so that *.csv and ,
 * need no quotes inside the shell's). */
#include <string.h>

#include "config/config_private.h"

/* "--set OVERRIDE: WORD reason" */
static fth_status refuse(struct fth_loader *l, const char *word, size_t length,
                         const char *reason) {
    char override[100], quoted[64];
    fth_text_quote(override, sizeof override, l->override, strlen(l->override));
    fth_text_quote(quoted, sizeof quoted, word, length);
    return fth_fail(l->err, FTH_E_CONFIG, "--set %s: %s %s", override, quoted, reason);
}

static fth_status parse_value(struct fth_loader *l, const char *text, struct fth_node **out) {
    if (*text && strchr("[{\"'", *text))
        return fth_tree_parse(l, text, strlen(text), out);
    struct fth_node *node = fth_node_add(l, NULL, FTH_NODE_SCALAR);
    char *copy = fth_arena_strdup(l->tree, text);
    if (!node || !copy)
        return fth_load_no_memory(l);
    node->text = copy;
    node->plain = *text != 0; /* KEY= is the empty text, not a forgotten value */
    *out = node;
    return FTH_OK;
}

/* The child of `node` that a path component names, made when a map has none. */
static fth_status descend(struct fth_loader *l, struct fth_node *node, const char *path,
                          const char *name, size_t length, struct fth_node **out) {
    uint64_t index;
    size_t before = (size_t)(name - path) - (name > path); /* the path up to this component */
    if (node->kind == FTH_NODE_LIST) {
        if (!fth_parse_u64(name, length, &index))
            return refuse(l, path, before, "is a list, its items have numbers from 0");
        *out = fth_node_item(node, index);
        return *out ? FTH_OK
                    : refuse(l, path, before, "has no item of that number (they count from 0)");
    }
    if (node->kind == FTH_NODE_SCALAR) {
        if (*node->text || !node->plain)
            return refuse(l, path, before, "is a single value, nothing stands below it");
        node->kind = FTH_NODE_MAP; /* "train:" with nothing after it */
    }
    *out = fth_node_child(node, name, length);
    if (*out)
        return FTH_OK;
    if (name[0] >= '0' && name[0] <= '9')
        return refuse(l, path, before, "has no items in the file");
    struct fth_node *child = fth_node_add(l, node, FTH_NODE_MAP);
    char *key = fth_arena_alloc(l->tree, length + 1, 1);
    if (!child || !key)
        return fth_load_no_memory(l);
    memcpy(key, name, length);
    child->key = key;
    *out = child;
    return FTH_OK;
}

/* KEY+=VALUE: the items of `more`, or it as one, behind those that are there. */
static fth_status append(struct fth_loader *l, const char *path, size_t length, struct fth_node *node,
                         struct fth_node *more) {
    struct fth_node *item = NULL;
    if (node->kind == FTH_NODE_MAP && node->first)
        return refuse(l, path, length, "is no list that += could add to");
    if (node->kind == FTH_NODE_SCALAR && (*node->text || !node->plain)) {
        if (!(item = fth_node_add(l, NULL, FTH_NODE_SCALAR)))
            return fth_load_no_memory(l);
        *item = *node;
        item->key = NULL;
        item->next = NULL;
    }
    if (node->kind != FTH_NODE_LIST) {
        node->kind = FTH_NODE_LIST;
        node->first = node->last = item;
        node->n = item != NULL;
    }
    item = more->kind == FTH_NODE_LIST ? more->first : more;
    if (!item)
        return FTH_OK;
    if (node->last)
        node->last->next = item;
    else
        node->first = item;
    node->last = more->kind == FTH_NODE_LIST ? more->last : more;
    node->n += more->kind == FTH_NODE_LIST ? more->n : 1;
    return FTH_OK;
}

static fth_status set(struct fth_loader *l, const char *text) {
    const char *equals = strchr(text, '=');
    int adds = equals && equals > text + 1 && equals[-1] == '+';
    if (!equals || equals == text)
        return refuse(l, text, strlen(text), "is not KEY=VALUE, such as train.epochs=2");
    struct fth_node *node = l->root, *value;
    uint32_t depth = 0;
    for (const char *name = text; name < equals;) {
        size_t length = strcspn(name, ".=") - (size_t)(adds && name + strcspn(name, ".=") == equals);
        if (length == 0 || (name[length] == '.' && name + length + 1 == equals))
            return refuse(l, text, (size_t)(equals - text),
                          "is not a path of keys, such as train.epochs");
        if (++depth > FTH_CONFIG_MAX_DEPTH)
            return refuse(l, text, (size_t)(equals - text), "is nested too deeply");
        FTH_TRY(descend(l, node, text, name, length, &node));
        name += length + 1;
    }
    FTH_TRY(parse_value(l, equals + 1, &value));
    if (adds)
        return append(l, text, (size_t)(equals - 1 - text), node, value);
    /* The value takes the old one's place among its siblings. */
    value->key = node->key;
    value->key_line = node->key_line;
    value->key_column = node->key_column;
    value->next = node->next;
    *node = *value;
    return FTH_OK;
}

fth_status fth_tree_override(struct fth_loader *l, const char *override) {
    for (const char *at = override; *at;)
        if (!fth_utf8_next(&at)) {
            l->override = override;
            fth_status status = refuse(l, override, strlen(override), "is not UTF-8 text");
            l->override = NULL;
            return status;
        }
    l->override = override;
    fth_status status = set(l, override);
    l->override = NULL;
    return status;
}
