/* What compiling a feature program is made of (compile*.c); only they include this. One thread; everything lives in
 * the program's arena. `key` is where the configuration has it, for messages. */
#ifndef FTH_FEATURE_COMPILE_H
#define FTH_FEATURE_COMPILE_H

#include "base/names.h"
#include "feature/program_private.h"

/* What names a program in the making has; numbers are positions in its arrays. */
struct fth_feature_names {
    struct fth_names columns, dense, fields, vocabularies;
    struct fth_names tables; /* the first field of each */
    uint32_t *twice;         /* [n_columns] the second column of the same name; 0 none */
};

fth_status fth_compile_no_memory(fth_error *err);
/* The position of column `name`, of the data or derived. */
fth_status fth_compile_find_column(const fth_feature_program *p, const char *key, const char *name,
                                   uint32_t *out, fth_error *err);
/* Adds a float named `name` (NULL: no memory) to names[]. */
fth_status fth_compile_dense(fth_feature_program *p, const char **names, const char *name,
                             const char *key, fth_error *err);
/* Adds a field; name (NULL: no memory) and table are given, the rest is the caller's. */
fth_status fth_compile_field(fth_feature_program *p, const char *key, const char *name,
                             const char *table, int64_t dim, int64_t min_count,
                             struct fth_feature_field **out, fth_error *err);
void fth_compile_emit(fth_feature_program *p, enum fth_feature_op op, uint32_t index,
                      uint32_t column);
/* "" and NULL: not a list. */
void fth_compile_separator(struct fth_separator *out, const char *bytes);

/* compile_derived.c: appends the derived columns to the program's names. */
fth_status fth_compile_derived(fth_feature_program *p, fth_error *err);
/* When all features are compiled: joins whose values are only hashed are made by the fields that hash them. */
fth_status fth_compile_joins(fth_feature_program *p, fth_error *err);
/* compile_numeric.c */
fth_status fth_compile_numeric(fth_feature_program *p, const char *key,
                               const struct fth_numeric_config *config, const char *column,
                               const char **dense_names, fth_error *err);
/* compile_indicator.c */
fth_status fth_compile_indicator(fth_feature_program *p, const char *key,
                                 const struct fth_indicator_config *config, const char *column,
                                 const char **dense_names, fth_error *err);
/* compile_categorical.c */
fth_status fth_compile_categorical(fth_feature_program *p, const char *key,
                                   const struct fth_categorical_config *config, const char *column,
                                   fth_error *err);
/* All columns of the item as one field. */
fth_status fth_compile_osrp(fth_feature_program *p, const char *key,
                            const struct fth_categorical_config *config, fth_error *err);
/* Groups' members in order of fields, one instruction each; entries: the number of field map. */
fth_status fth_compile_groups(fth_feature_program *p, fth_error *err);

#endif
