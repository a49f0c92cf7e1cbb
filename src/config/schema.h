/* How the rows of the schema are written; only schema*.c include this. */
#ifndef FTH_CONFIG_SCHEMA_H
#define FTH_CONFIG_SCHEMA_H

#include "config/config_private.h"

/* schema_features.c */
extern const struct fth_section fth_schema_features;

/* offsetof that does not compile when the field has another type than the row's. */
#define AT(type, owner, field)                                                                     \
    (offsetof(struct owner, field) + 0 * sizeof(_Generic(((struct owner *)0)->field, type : 1)))
#define BOOL(name_, owner, field, standard_)                                                       \
    .name = name_, .type = FTH_KEY_BOOL, .offset = AT(int, owner, field), .standard = standard_
#define INT(name_, owner, field, standard_, low_, high_)                                           \
    .name = name_, .type = FTH_KEY_INT, .offset = AT(int64_t, owner, field),                       \
    .standard = standard_, .low = low_, .high = high_
#define BYTES(name_, owner, field, standard_, low_)                                                \
    .name = name_, .type = FTH_KEY_BYTES, .offset = AT(int64_t, owner, field),                     \
    .standard = standard_, .low = low_, .high = FTH_INT_LIMIT
#define FLOAT(name_, owner, field, standard_, low_, high_, flags_)                                 \
    .name = name_, .type = FTH_KEY_FLOAT, .offset = AT(double, owner, field),                      \
    .standard = standard_, .low = low_, .high = high_, .flags = flags_
#define STRING(name_, owner, field)                                                                \
    .name = name_, .type = FTH_KEY_STRING, .offset = AT(const char *, owner, field)
#define ENUM(name_, owner, field, standard_, choices_)                                             \
    .name = name_, .type = FTH_KEY_ENUM, .offset = AT(int, owner, field), .standard = standard_,   \
    .choices = choices_
#define STRINGS(name_, owner, field)                                                               \
    .name = name_, .type = FTH_KEY_STRINGS, .offset = AT(struct fth_strings, owner, field)
#define COLUMNS(name_, owner, field)                                                               \
    .name = name_, .type = FTH_KEY_COLUMNS, .offset = AT(struct fth_strings, owner, field),        \
    .flags = FTH_REQUIRED
#define WIDTHS(name_, owner, field, standard_)                                                     \
    .name = name_, .type = FTH_KEY_INTS, .offset = AT(struct fth_ints, owner, field),              \
    .standard = standard_, .low = 1, .high = 65536
#define SECTION(name_, section_, offset_)                                                          \
    .name = name_, .type = FTH_KEY_SECTION, .section = section_, .offset = offset_
#define SECTIONS(name_, section_, owner, field, count)                                             \
    .name = name_, .type = FTH_KEY_SECTIONS, .section = section_,                                  \
    .offset = offsetof(struct owner, field), .count_offset = AT(uint32_t, owner, count)
#define KEYS(array) .keys = array, .n_keys = sizeof array / sizeof array[0]

#endif
