/* docs/configuration.md, from the schema. */
#include <stdio.h>
#include <string.h>

#include "config/config_private.h"

static const char introduction[] =
    "# Configuration\n"
    "\n"
    "<!-- Made from src/config/schema.c; to renew it after a change there, run the "
    "unit.config.test_schema\n"
    "     test with FATHOM_UPDATE_GOLDEN=1. -->\n"
    "\n"
    "A run is described by one YAML file. Every key has a default but `model.name`, the features "
    "and, to\n"
    "train, `data.train`. Keys that do not exist, stand twice, have the wrong type or contradict "
    "each other\n"
    "are refused with file, line and column, and what would be accepted. `examples/` has a "
    "commented file\n"
    "for each model.\n"
    "\n"
    "On the command line `--set KEY=VALUE` replaces a key: `--set train.epochs=2`,\n"
    "`--set 'data.train=[a.csv, b.csv]'`. Items of a list are numbered from 0:\n"
    "`--set 'features.numeric.0.clip=[0, 100]'`. A value that begins with `[`, `{` or a quote is "
    "YAML, any\n"
    "other is taken as it stands; `KEY=` is the empty text.\n"
    "\n"
    "- A list of texts or numbers may be written as a single value when it has one item.\n"
    "- Sizes: `64k`, `64K` and `64KiB` are 65536 bytes, `64kB` and `64KB` are 64000; likewise M, "
    "G, T, of which fractions are taken, too (`2.5GB`).\n"
    "- `true`, `yes`, `on` and `false`, `no`, `off`; numbers and these stand without quotes.\n"
    "- A text that begins with `*`, `&`, `!`, `#`, `-` or another character with a meaning in YAML "
    "needs\n"
    "  quotes (`\"*.csv\"`). Anchors, aliases and tags are not supported.\n"
    "- A file has at most 1 MiB.\n";

static void print_standard(struct fth_text *out, const struct fth_section *section,
                           const struct fth_key *key) {
    if (key->standard_by) {
        const struct fth_choice *choices = section->keys[section->selector].choices;
        const char *comma = "";
        for (uint32_t i = 0; choices[i].name; i++)
            if (fth_key_used(key, i)) {
                fth_text_printf(out, "%s`%s` (%s)", comma, key->standard_by[i], choices[i].name);
                comma = ", ";
            }
    } else if (key->flags & FTH_REQUIRED) {
        fth_text_printf(out, "required");
    } else if (key->standard) {
        fth_text_printf(out, "`%s`", key->standard);
    } else {
        fth_text_printf(out, key->type == FTH_KEY_STRING || key->type == FTH_KEY_ESCAPE ? "`\"\"`" : "`[]`");
    }
}

static void print_section(struct fth_text *out, const struct fth_section *section,
                          const char *path) {
    uint32_t simple = 0;
    fth_text_printf(out, "\n## %s\n\n%s\n", *path ? path : "The file", section->help);
    for (uint32_t i = 0; i < section->n_keys; i++)
        simple += section->keys[i].type < FTH_KEY_SECTION;
    if (simple)
        fth_text_printf(out, "\n| key | what for | accepted | default |\n|---|---|---|---|\n");
    for (uint32_t i = 0; i < section->n_keys; i++) {
        const struct fth_key *key = &section->keys[i];
        if (key->type >= FTH_KEY_SECTION)
            continue;
        fth_text_printf(out, "| `%s` | %s", key->name, key->help);
        if (key->used_by) {
            fth_text_printf(out, " (used by: ");
            fth_key_users(section, key, out);
            fth_text_printf(out, ")");
        }
        fth_text_printf(out, " | ");
        fth_key_expected(key, out);
        fth_text_printf(out, " | ");
        print_standard(out, section, key);
        fth_text_printf(out, " |\n");
    }
    for (uint32_t i = 0; i < section->n_keys; i++) {
        const struct fth_key *key = &section->keys[i];
        char below[128];
        if (key->type < FTH_KEY_SECTION)
            continue;
        snprintf(below, sizeof below, "%s%s%s%s", path, *path ? "." : "", key->name,
                 key->type == FTH_KEY_SECTIONS ? " (a list)" : "");
        print_section(out, key->section, below);
    }
}

char *fth_config_reference(void) {
    struct fth_text out = {0};
    fth_text_append(&out, introduction, sizeof introduction - 1);
    print_section(&out, &fth_schema_root, "");
    if (out.failed) {
        fth_text_free(&out);
        return NULL;
    }
    return out.data;
}
