/* What the files of config/ share: the tree of YAML nodes, the schema's rows, the loader.
 *
 *   text --tree.c--> nodes (+ --set, override.c) --section.c, value.c, by schema.c--> structs
 *        --check.c--> fth_config            print.c, reference.c: schema and structs -> text
 *
 * Threads: a loader belongs to one thread; the schema is constant. */
#ifndef FTH_CONFIG_PRIVATE_H
#define FTH_CONFIG_PRIVATE_H

#include "base/text.h"
#include "config/config.h"

/* ---- nodes: what YAML said and where ---- */
enum fth_node_kind { FTH_NODE_SCALAR, FTH_NODE_LIST, FTH_NODE_MAP };

struct fth_node {
    enum fth_node_kind kind;
    const char *key;               /* NULL outside a map */
    uint32_t key_line, key_column; /* 1-based */
    const char *text;              /* scalar; valid UTF-8 without NUL */
    int plain;                     /* scalar: written without quotes */
    uint32_t line, column;
    const char *override;                 /* the --set argument it came from, or NULL: the file */
    struct fth_node *first, *last, *next; /* children, in order */
    uint32_t n;
};

/* ---- the schema ---- */
enum fth_key_type {
    FTH_KEY_BOOL,        /* int */
    FTH_KEY_INT,         /* int64_t */
    FTH_KEY_U64,         /* uint64_t */
    FTH_KEY_FLOAT,       /* double */
    FTH_KEY_BYTES,       /* int64_t, "64k" */
    FTH_KEY_STRING,      /* const char *; with choices: one of them */
    FTH_KEY_ENUM,        /* int, from choices */
    FTH_KEY_DELIMITER,   /* const char *, 1 to 8 bytes */
    FTH_KEY_ESCAPE,      /* const char *, 1 byte or "" */
    FTH_KEY_STRINGS,     /* struct fth_strings; a single text is a list of one */
    FTH_KEY_COLUMNS,     /* the same, with I1..I13 expanded, at least one */
    FTH_KEY_INTS,        /* struct fth_ints */
    FTH_KEY_FLOATS,      /* struct fth_floats */
    FTH_KEY_CLIP,        /* clip, clip_low, clip_high of a numeric_config (offset unused) */
    FTH_KEY_STANDARDISE, /* standardise, mean, deviation of a numeric_config */
    FTH_KEY_BAD_LINE,    /* on_bad_line, bad_line_limit of a data_config */
    FTH_KEY_SECTION,     /* a struct at offset, keys in `section` */
    FTH_KEY_SECTIONS,    /* a pointer to an array of structs, its length at count_offset */
};

struct fth_choice {
    const char *name; /* NULL ends the list */
    int value;
};

#define FTH_LOW_OPEN 1u /* low itself is outside the range */
#define FTH_HIGH_OPEN 2u
#define FTH_REQUIRED 4u
/* What a key decides; in a section all keys that say nothing else. None: what is trained from here on. */
#define FTH_FIXED 8u    /* what trained weights mean: a checkpoint's value stays */
#define FTH_NEUTRAL 16u /* nothing of what is trained */
#define FTH_FREE 32u    /* in a fixed section: what is trained from here on */

#define FTH_INT_LIMIT 9007199254740992.0 /* 2^53: the range of whole numbers "without limit" */

struct fth_key {
    const char *name;
    enum fth_key_type type;
    size_t offset;
    const char *standard; /* the default as YAML; NULL: "", none or empty */
    double low, high;     /* of the number, or of each number of a list */
    unsigned flags;
    const struct fth_choice *choices;
    const struct fth_section *section;
    size_t count_offset;
    uint32_t used_by;               /* bits by the section's selector; 0: always used */
    const char *const *standard_by; /* defaults by the section's selector, instead of `standard` */
    const char *help;
};

struct fth_section {
    const struct fth_key *keys;
    uint32_t n_keys;
    size_t size;  /* of the struct, for FTH_KEY_SECTIONS */
    int selector; /* the key whose choice decides which others are used; -1 none */
    const char *help;
};

#define FTH_SECTION_MAX_KEYS 64

extern const struct fth_section fth_schema_root;

/* The selector's choice number in a filled struct; 0 without a selector. */
uint32_t fth_section_selected(const struct fth_section *section, const void *base);
static inline int fth_key_used(const struct fth_key *key, uint32_t selected) {
    return !key->used_by || (key->used_by >> selected & 1);
}
/* "a whole number from 1 to 8", "one of a, b", ... */
void fth_key_expected(const struct fth_key *key, struct fth_text *out);
/* "dcn, dcnv2": the choices of `section`'s selector that use `key`. */
void fth_key_users(const struct fth_section *section, const struct fth_key *key,
                   struct fth_text *out);

/* ---- loading ---- */
struct fth_loader {
    const char *name; /* of the file, for messages */
    fth_arena *tree;  /* nodes and other memory of the loading itself */
    struct fth_config *config;
    struct fth_node *root;
    const char *override; /* the one being parsed, or NULL */
    char path[256];       /* of the key being read, for messages */
    uint32_t n_columns;   /* expanded so far */
    fth_error *err;
};

/* YAML text (one document) -> nodes; NULL in *out for an empty document. */
fth_status fth_tree_parse(struct fth_loader *l, const char *text, size_t length,
                          struct fth_node **out);
/* Puts the value of "key.path=value" into the tree. */
fth_status fth_tree_override(struct fth_loader *l, const char *override);
/* A new child of `parent`, or a free node when that is NULL. NULL: memory. */
struct fth_node *fth_node_add(struct fth_loader *l, struct fth_node *parent,
                              enum fth_node_kind kind);
struct fth_node *fth_node_child(const struct fth_node *map, const char *key, size_t length);
struct fth_node *fth_node_item(const struct fth_node *list, uint64_t index);
/* The node at a dotted path, or NULL. */
const struct fth_node *fth_node_find(const struct fth_loader *l, const char *path);

/* "[file:line:column|--set k=v]: PATH: message"; the path is l->path. */
fth_status fth_load_fail(struct fth_loader *l, const struct fth_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for any path; the place is the key's or that of the section it is missing from. */
fth_status fth_load_fail_path(struct fth_loader *l, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
fth_status fth_load_no_memory(struct fth_loader *l);

/* How often "-" is among the files. */
uint32_t fth_config_standard_inputs(const struct fth_data_config *data);

fth_status fth_section_read(struct fth_loader *l, const struct fth_section *section,
                            const struct fth_node *node, void *base);
fth_status fth_value_read(struct fth_loader *l, const struct fth_key *key,
                          const struct fth_node *node, void *base);
/* "found 'many', expected ..." */
fth_status fth_value_refuse(struct fth_loader *l, const struct fth_key *key,
                            const struct fth_node *node);
/* The key's default. */
fth_status fth_value_standard(struct fth_loader *l, const struct fth_key *key, uint32_t selected,
                              void *base);
/* Combinations that no single key can judge. */
fth_status fth_config_check(struct fth_loader *l);
fth_status fth_config_check_features(struct fth_loader *l);

/* ---- text ---- */
/* Valid UTF-8: decodes one character; 0 when the bytes are not UTF-8 (or a NUL). */
uint32_t fth_utf8_next(const char **text);
/* The shortest decimal text that reads back as the same double. */
void fth_print_number(struct fth_text *out, double value);
/* The key's value in the struct, as YAML. */
void fth_print_value(struct fth_text *out, const struct fth_key *key, const void *base);

#endif
