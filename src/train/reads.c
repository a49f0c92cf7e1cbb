/* Which files a configuration reads: what nobody wants to write over. */
#include <sys/stat.h>

#include "data/paths.h"
#include "train/session_private.h"

static int is_one(const char *name, const struct stat *file) {
    struct stat there;
    return *name && stat(name, &there) == 0 && there.st_dev == file->st_dev && there.st_ino == file->st_ino;
}

static int is_of(const struct fth_strings *patterns, const struct stat *file, fth_arena *arena) {
    struct fth_strings files = {0};
    int same = 0;
    if (!patterns->n || fth_paths_expand(patterns, "", arena, &files, NULL) != FTH_OK)
        return 0;
    for (uint32_t i = 0; !same && i < files.n; i++)
        same = is_one(files.items[i], file);
    return same;
}

int fth_config_reads(const fth_config *config, const char *path) {
    struct stat file;
    if (!config || !path || stat(path, &file) != 0 || !S_ISREG(file.st_mode))
        return 0;
    fth_arena *arena = fth_arena_create(4096);
    const struct fth_data_config *data = &config->data;
    const struct fth_features_config *features = &config->features;
    int reads = arena && (is_of(&data->train, &file, arena) || is_of(&data->valid, &file, arena) ||
                          is_of(&data->test, &file, arena));
    for (uint32_t k = 0; k < features->n_derived; k++)
        reads |= features->derived[k].as == FTH_DERIVE_JOIN && is_one(features->derived[k].file, &file);
    for (uint32_t k = 0; k < features->n_categorical; k++)
        reads |= is_one(features->categorical[k].vocabulary_file, &file);
    reads |= is_one(config->tuning, &file);
    fth_arena_destroy(arena);
    return reads;
}
