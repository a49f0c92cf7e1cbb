/* Globs: see paths.h. */
#include "data/paths.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct path_list {
    fth_arena *arena;
    const char **items;
    uint32_t n, capacity;
};

static fth_status add_path(struct path_list *list, const char *path, fth_error *err) {
    if (list->n == list->capacity) {
        uint32_t capacity = list->capacity ? list->capacity * 2 : 16;
        const char **items = fth_arena_alloc(list->arena, capacity, sizeof *items);
        if (!items)
            return fth_fail(err, FTH_E_MEMORY, "no memory for %u paths", capacity);
        if (list->n)
            memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    char *copy = fth_arena_strdup(list->arena, path);
    if (!copy)
        return fth_fail(err, FTH_E_MEMORY, "no memory for the path '%s'", path);
    list->items[list->n++] = copy;
    return FTH_OK;
}

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static fth_status add_glob(struct path_list *list, const char *pattern, const char *key,
                           fth_error *err) {
    glob_t found;
    int result = glob(pattern, GLOB_NOSORT | GLOB_MARK, NULL, &found);
    if (result == GLOB_NOMATCH)
        return fth_fail(err, FTH_E_CONFIG, "%s: '%s' matches no file", key, pattern);
    if (result != 0)
        return fth_fail(err, FTH_E_CONFIG, "%s: '%s' cannot be expanded: %s", key, pattern,
                        result == GLOB_NOSPACE ? "out of memory" : "a directory cannot be read");
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare);
    fth_status status = FTH_OK;
    uint32_t before = list->n;
    for (size_t i = 0; i < found.gl_pathc && status == FTH_OK; i++) {
        size_t length = strlen(found.gl_pathv[i]);
        if (length && found.gl_pathv[i][length - 1] == '/')
            continue; /* a directory */
        status = add_path(list, found.gl_pathv[i], err);
    }
    globfree(&found);
    if (status == FTH_OK && list->n == before)
        return fth_fail(err, FTH_E_CONFIG, "%s: '%s' matches only directories", key, pattern);
    return status;
}

fth_status fth_paths_expand(const struct fth_strings *patterns, const char *key, fth_arena *arena,
                            struct fth_strings *out, fth_error *err) {
    struct path_list list = {.arena = arena};
    int standard_input = 0;
    if (patterns->n == 0)
        return fth_fail(err, FTH_E_CONFIG, "%s: no file is given", key);
    for (uint32_t i = 0; i < patterns->n; i++) {
        const char *path = patterns->items[i];
        struct stat info;
        if (strcmp(path, "-") == 0) {
            if (standard_input++)
                return fth_fail(err, FTH_E_CONFIG,
                                "%s: '-' (standard input) can stand there only once", key);
            FTH_TRY(add_path(&list, path, err));
        } else if (stat(path, &info) == 0) {
            if (S_ISDIR(info.st_mode))
                return fth_fail(err, FTH_E_CONFIG,
                                "%s: '%s' is a directory; '%s/*' names the files in it", key, path,
                                path);
            FTH_TRY(add_path(&list, path, err));
        } else if (strpbrk(path, "*?[")) {
            FTH_TRY(add_glob(&list, path, key, err));
        } else {
            return fth_fail(err, FTH_E_IO, "%s: '%s': %s", key, path, strerror(errno));
        }
    }
    out->items = list.items;
    out->n = list.n;
    return FTH_OK;
}

struct identity {
    dev_t device;
    ino_t inode;
};

static int by_identity(const void *a, const void *b) {
    const struct identity *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return (x->inode > y->inode) - (x->inode < y->inode);
}

static int identify(const char *path, struct identity *out) {
    struct stat info;
    if (strcmp(path, "-") == 0 || stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return 0;
    *out = (struct identity){info.st_dev, info.st_ino};
    return 1;
}

const char *fth_paths_common(const struct fth_strings *a, const struct fth_strings *b) {
    struct identity *known = fth_alloc((size_t)a->n + 1, sizeof *known), one;
    const char *found = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; known && i < a->n; i++)
        n += (uint32_t)identify(a->items[i], &known[n]);
    if (known)
        qsort(known, n, sizeof *known, by_identity);
    for (uint32_t i = 0; known && i < b->n && !found; i++) {
        struct identity *at = identify(b->items[i], &one) ? bsearch(&one, known, n, sizeof one, by_identity) : NULL;
        int twice = at && ((at > known && by_identity(at, at - 1) == 0) ||
                           (at + 1 < known + n && by_identity(at, at + 1) == 0));
        if (at && (a != b || twice))
            found = b->items[i];
    }
    fth_free(known);
    return found;
}
