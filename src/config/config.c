/* Reading a configuration: bytes -> tree -> overrides -> structs -> checks. See config_private.h
 * for which file does what. Nothing is shared between calls: any thread. */
#include "config/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_private.h"

static fth_status load(struct fth_loader *l, const char *text, size_t length,
                       const char *const *overrides, size_t n_overrides) {
    FTH_TRY(fth_tree_parse(l, text, length, &l->root));
    if (!l->root || (l->root->kind == FTH_NODE_SCALAR && l->root->plain && !*l->root->text))
        l->root = fth_node_add(l, NULL, FTH_NODE_MAP); /* an empty file */
    if (!l->root)
        return fth_load_no_memory(l);
    if (l->root->kind != FTH_NODE_MAP)
        return fth_fail(l->err, FTH_E_CONFIG,
                        "%s:%u:%u: found a %s, expected sections such as \"model:\" and \"data:\"",
                        l->name, l->root->line, l->root->column,
                        l->root->kind == FTH_NODE_LIST ? "list" : "single value");
    for (size_t i = 0; i < n_overrides; i++)
        FTH_TRY(fth_tree_override(l, overrides[i]));
    FTH_TRY(fth_section_read(l, &fth_schema_root, l->root, l->config));
    return fth_config_check(l);
}

fth_status fth_config_parse(const char *name, const char *text, size_t length,
                            const char *const *overrides, size_t n_overrides,
                            struct fth_config **out, fth_error *err) {
    if (!name || !text || !out || !fth_all_there(overrides, n_overrides))
        return fth_fail_null(err, "fth_config_parse", "name, text, overrides, out");
    struct fth_loader l = {.name = name, .err = err};
    struct fth_config *config = NULL;
    fth_arena *arena = fth_arena_create(1 << 14);
    l.tree = fth_arena_create(1 << 14);
    if (arena)
        config = fth_arena_alloc(arena, 1, sizeof *config);
    fth_status status;
    if (!config || !l.tree) {
        status = fth_load_no_memory(&l);
    } else {
        config->arena = arena;
        l.config = config;
        status = load(&l, text, length, overrides, n_overrides);
    }
    fth_arena_destroy(l.tree);
    if (status != FTH_OK)
        fth_arena_destroy(arena);
    else
        *out = config;
    return status;
}

void fth_config_free(struct fth_config *config) {
    if (config)
        fth_arena_destroy(config->arena);
}

fth_status fth_config_read(const char *path, const char *const *overrides, size_t n_overrides,
                           struct fth_config **out, fth_error *err) {
    if (!path || !out || !fth_all_there(overrides, n_overrides))
        return fth_fail_null(err, "fth_config_read", "path, overrides, out");
    int standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    size_t capacity = FTH_CONFIG_MAX_BYTES + 1, length = 0; /* one more than accepted */
    char *text = malloc(capacity);
    if (!text)
        return fth_fail(err, FTH_E_MEMORY, "%s: out of memory while reading the configuration",
                        name);
    FILE *file = standard ? stdin : fopen(path, "rbe");
    fth_status status;
    errno = file ? 0 : errno;
    if (file)
        length = fread(text, 1, capacity, file);
    if (!file || ferror(file))
        status =
            fth_fail(err, FTH_E_IO, "%s: cannot read the configuration: %s", name, strerror(errno));
    else if (length > FTH_CONFIG_MAX_BYTES)
        status = fth_fail(err, FTH_E_CONFIG, "%s: larger than %d bytes, which no configuration needs", name,
                          FTH_CONFIG_MAX_BYTES);
    else
        status = fth_config_parse(name, text, length, overrides, n_overrides, out, err);
    if (status == FTH_OK && standard && fth_config_standard_inputs(&(*out)->data)) {
        fth_config_free(*out);
        *out = NULL;
        status = fth_fail(err, FTH_E_CONFIG,
                          "standard input is the configuration and cannot be data (\"-\"), too; put one of them into a file");
    }
    if (file && !standard)
        fclose(file);
    free(text);
    return status;
}
