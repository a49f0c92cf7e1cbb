/* manifest.json: made and read. Its own content is guarded by "check", the XXH3 of the rest. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "checkpoint/checkpoint_private.h"

static json_t *hex(uint64_t value) {
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)value);
    return json_string(text);
}

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

/* NULL when something could not be appended: json_pack then gives NULL too. */
static json_t *whole_list(json_t *array, uint32_t n) {
    if (array && json_array_size(array) == n)
        return array;
    json_decref(array);
    return NULL;
}

static json_t *strings(const char *const *items, uint32_t n) {
    json_t *array = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(array, json_string(items[i]));
    return whole_list(array, n);
}

/* 0: no memory. */
static int check_value(json_t *manifest, uint64_t *out) {
    char *text = json_dumps(manifest, JSON_COMPACT | JSON_SORT_KEYS);
    if (text)
        *out = fth_hash_bytes(text, strlen(text), 0);
    free(text);
    return text != NULL;
}

static json_t *position_json(const struct fth_position *at) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "epoch",
                     (json_int_t)at->epoch, "file", (json_int_t)at->file_index, "byte",
                     (json_int_t)at->byte_offset, "line", (json_int_t)at->line, "example",
                     (json_int_t)at->example, "block", (json_int_t)at->block, "taken",
                     (json_int_t)at->taken, "examples_seen", (json_int_t)at->examples_seen,
                     "lines_read", (json_int_t)at->lines_read, "lines_bad",
                     (json_int_t)at->lines_bad, "epoch_lines_bad", (json_int_t)at->epoch_lines_bad);
}

/* A name that is no UTF-8 is left out: JSON has no way to write it. */
static json_t *data_json(const struct fth_checkpoint_state *state) {
    json_t *array = json_array();
    for (uint32_t i = 0; i < state->n_data; i++) {
        const struct fth_data_file *file = &state->data[i];
        json_t *entry = json_object(), *name = file->name ? json_string(file->name) : NULL;
        int failed = name && json_object_set_new(entry, "name", name) != 0;
        if (file->known)
            failed |= json_object_set_new(entry, "bytes", json_integer((json_int_t)file->bytes)) != 0 ||
                      json_object_set_new(entry, "modified", json_integer(file->modified)) != 0;
        if (failed)
            json_decref(entry);
        else
            json_array_append_new(array, entry);
    }
    return whole_list(array, state->n_data);
}

static json_t *pack_json(const struct fth_saved_pack *pack) {
    return json_pack("{s:I, s:o, s:o, s:I, s:I, s:o}", "dim", (json_int_t)pack->dim, "tables",
                     strings(pack->tables, pack->n_tables), "slots",
                     strings(pack->slots, pack->n_slots), "rows", (json_int_t)pack->rows,
                     "candidates", (json_int_t)pack->candidates, "files",
                     strings(pack->files, pack->n_files));
}

static const char *const due_names[] = {
    [FTH_DUE_NOTHING] = "nothing", [FTH_DUE_RESULT] = "result", [FTH_DUE_DECISION] = "decision"};

static json_t *make(const struct fth_checkpoint_state *state, uint64_t digest, const struct fth_listed_file *files,
                    uint32_t n_files, const struct fth_saved_pack *packs, uint32_t n_packs) {
    json_t *list = json_array(), *pack_list = json_array();
    for (uint32_t i = 0; i < n_files; i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:o}", "name", files[i].name, "bytes",
                                              (json_int_t)files[i].bytes, "xxh3",
                                              hex(files[i].checksum)));
    for (uint32_t i = 0; i < n_packs; i++)
        json_array_append_new(pack_list, pack_json(&packs[i]));
    json_t *stopping = json_pack("{s:o, s:I, s:I, s:b}", "best", number(state->best_metric),
                                 "best_step", (json_int_t)state->best_step, "without_better",
                                 (json_int_t)state->evaluations_without_better, "stopped",
                                 state->stopped_early);
    if (state->evaluation_due &&
        json_object_set_new(stopping, "due", json_string(due_names[state->evaluation_due])) != 0) {
        json_decref(stopping);
        stopping = NULL; /* and so is the manifest */
    }
    json_t *manifest = json_pack(
        "{s:s, s:i, s:s, s:o, s:I, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:s, s:I, s:o, s:o, s:O}", "format",
        "fathom-checkpoint", "version", FTH_CHECKPOINT_VERSION, "program", FTH_VERSION, "digest",
        hex(digest), "step", (json_int_t)state->step, "seed", hex(state->seed), "finished",
        state->finished, "position", position_json(&state->position), "data", data_json(state),
        "early_stopping", stopping,
        "train_seconds", number(state->train_seconds), "tuning", hex(state->tuning_digest), "isa",
        state->isa, "cores", (json_int_t)state->cores, "files", whole_list(list, n_files), "packs",
        whole_list(pack_list, n_packs), "features", state->features);
    uint64_t check;
    if (manifest && check_value(manifest, &check) &&
        json_object_set_new(manifest, "check", hex(check)) == 0)
        return manifest;
    json_decref(manifest);
    return NULL;
}

/* ---- reading: every getter notes in *bad the first thing that is wrong ---- */

static uint64_t get_count(const json_t *object, const char *key, const char **bad) {
    const json_t *value = json_object_get(object, key);
    if (json_is_integer(value) && json_integer_value(value) >= 0)
        return (uint64_t)json_integer_value(value);
    if (!*bad)
        *bad = key;
    return 0;
}

static uint64_t get_hex(const json_t *object, const char *key, const char **bad) {
    const char *text = json_string_value(json_object_get(object, key));
    if (text && strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16)
        return strtoull(text, NULL, 16);
    if (!*bad)
        *bad = key;
    return 0;
}

static const char *get_text(const json_t *object, const char *key, const char **bad) {
    const char *text = json_string_value(json_object_get(object, key));
    if (!text && !*bad)
        *bad = key;
    return text ? text : "";
}

static double get_number(const json_t *object, const char *key, const char **bad) {
    const json_t *value = json_object_get(object, key);
    if (json_is_number(value))
        return json_number_value(value);
    if (!json_is_null(value) && !*bad)
        *bad = key;
    return NAN;
}

/* In the place of the key that is bad. */
static const char no_memory[] = "";

static const char **get_strings(fth_arena *arena, const json_t *object, const char *key, uint32_t *n,
                                const char **bad) {
    const json_t *array = json_object_get(object, key);
    *n = (uint32_t)json_array_size(array);
    const char **items = fth_arena_alloc(arena, *n + 1, sizeof *items);
    if ((!items || !json_is_array(array)) && !*bad)
        *bad = items ? key : no_memory;
    for (uint32_t i = 0; items && i < *n; i++) {
        items[i] = json_string_value(json_array_get(array, i));
        if (!items[i]) {
            items[i] = "";
            if (!*bad)
                *bad = key;
        }
    }
    if (!items)
        *n = 0;
    return items;
}

static void read_position(const json_t *json, struct fth_position *at, const char **bad) {
    at->epoch = get_count(json, "epoch", bad);
    at->file_index = get_count(json, "file", bad);
    at->byte_offset = get_count(json, "byte", bad);
    at->line = get_count(json, "line", bad);
    at->example = get_count(json, "example", bad);
    at->block = get_count(json, "block", bad);
    at->taken = get_count(json, "taken", bad);
    at->examples_seen = get_count(json, "examples_seen", bad);
    at->lines_read = get_count(json, "lines_read", bad);
    at->lines_bad = get_count(json, "lines_bad", bad);
    if (json_object_get(json, "epoch_lines_bad")) /* older checkpoints have none: counting begins again */
        at->epoch_lines_bad = get_count(json, "epoch_lines_bad", bad);
}

static enum fth_evaluation_due get_due(const json_t *stopping, const char **bad) {
    if (!json_object_get(stopping, "due")) /* nothing is, or an older checkpoint */
        return FTH_DUE_NOTHING;
    const char *name = get_text(stopping, "due", bad);
    for (int due = FTH_DUE_NOTHING; due <= FTH_DUE_DECISION; due++)
        if (strcmp(name, due_names[due]) == 0)
            return (enum fth_evaluation_due)due;
    if (!*bad)
        *bad = "due";
    return FTH_DUE_NOTHING;
}

static void read_state(const json_t *json, struct fth_checkpoint_state *state, const char **bad) {
    state->step = get_count(json, "step", bad);
    state->seed = get_hex(json, "seed", bad);
    state->finished = json_is_true(json_object_get(json, "finished"));
    read_position(json_object_get(json, "position"), &state->position, bad);
    const json_t *stopping = json_object_get(json, "early_stopping");
    state->best_metric = get_number(stopping, "best", bad);
    state->best_step = get_count(stopping, "best_step", bad);
    state->evaluations_without_better = get_count(stopping, "without_better", bad);
    state->stopped_early = json_is_true(json_object_get(stopping, "stopped"));
    state->evaluation_due = get_due(stopping, bad);
    state->train_seconds = get_number(json, "train_seconds", bad);
    state->tuning_digest = get_hex(json, "tuning", bad);
    state->isa = get_text(json, "isa", bad);
    if (json_object_get(json, "cores"))
        state->cores = (uint32_t)get_count(json, "cores", bad);
    state->program = get_text(json, "program", bad);
    state->features = json_object_get(json, "features");
    if (!state->features && !*bad)
        *bad = "features";
}

static fth_status read_data(fth_checkpoint *c, const char **bad, fth_error *err) {
    const json_t *list = json_object_get(c->manifest, "data");
    if (!list) /* an older checkpoint */
        return FTH_OK;
    if (!json_is_array(list) && !*bad)
        *bad = "data";
    uint32_t n = (uint32_t)json_array_size(list);
    c->state.data = fth_arena_alloc(c->arena, (size_t)n + 1, sizeof *c->state.data);
    if (!c->state.data)
        return fth_fail(err, FTH_E_MEMORY, "no memory to read a checkpoint");
    c->state.n_data = n;
    for (uint32_t i = 0; i < n; i++) {
        const json_t *entry = json_array_get(list, i), *modified = json_object_get(entry, "modified");
        struct fth_data_file *file = &c->state.data[i];
        file->name = json_string_value(json_object_get(entry, "name"));
        file->known = json_is_integer(modified);
        file->modified = json_integer_value(modified);
        file->bytes = file->known ? get_count(entry, "bytes", bad) : 0;
    }
    return FTH_OK;
}

/* A file's name must stay inside the checkpoint. */
static int plain_name(const char *name) {
    return *name && !strchr(name, '/') && name[0] != '.';
}

static void read_lists(fth_checkpoint *c, const char **bad) {
    const json_t *files = json_object_get(c->manifest, "files");
    const json_t *packs = json_object_get(c->manifest, "packs");
    c->n_files = (uint32_t)json_array_size(files);
    c->n_packs = (uint32_t)json_array_size(packs);
    c->files = fth_arena_alloc(c->arena, c->n_files + 1, sizeof *c->files);
    c->packs = fth_arena_alloc(c->arena, c->n_packs + 1, sizeof *c->packs);
    if (!c->files || !c->packs) {
        *bad = no_memory;
        c->n_files = c->n_packs = 0;
    }
    for (uint32_t i = 0; i < c->n_files; i++) {
        const json_t *entry = json_array_get(files, i);
        c->files[i] = (struct fth_listed_file){.name = get_text(entry, "name", bad),
                                               .bytes = get_count(entry, "bytes", bad),
                                               .checksum = get_hex(entry, "xxh3", bad)};
        if (!plain_name(c->files[i].name) && !*bad)
            *bad = "files";
    }
    for (uint32_t i = 0; i < c->n_packs; i++) {
        const json_t *entry = json_array_get(packs, i);
        struct fth_saved_pack *pack = &c->packs[i];
        pack->dim = (uint32_t)get_count(entry, "dim", bad);
        pack->rows = get_count(entry, "rows", bad);
        pack->candidates = get_count(entry, "candidates", bad);
        pack->tables = get_strings(c->arena, entry, "tables", &pack->n_tables, bad);
        pack->slots = get_strings(c->arena, entry, "slots", &pack->n_slots, bad);
        pack->files = get_strings(c->arena, entry, "files", &pack->n_files, bad);
    }
}

/* Takes the check value off. 0: there is none, or another than the content's. *failed: for lack of memory. */
static int take_check(json_t *manifest, int *failed) {
    const char *bad = NULL;
    uint64_t check = get_hex(manifest, "check", &bad), found = 0;
    json_object_del(manifest, "check");
    *failed = !check_value(manifest, &found);
    return !bad && !*failed && check == found;
}

/* Read once more as it will be: an allocation that failed inside the JSON library may have left a text without an end or
 * a member. */
char *fth_manifest_make(const struct fth_checkpoint_state *state, uint64_t digest, const struct fth_listed_file *files,
                        uint32_t n_files, const struct fth_saved_pack *packs, uint32_t n_packs) {
    json_t *manifest = make(state, digest, files, n_files, packs, n_packs);
    char *text = manifest ? json_dumps(manifest, JSON_INDENT(1)) : NULL;
    json_t *back = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    int failed, whole = back && json_equal(back, manifest) && take_check(back, &failed);
    json_decref(back);
    json_decref(manifest);
    if (whole)
        return text;
    free(text);
    return NULL;
}

fth_status fth_manifest_read(fth_checkpoint *c, fth_error *err) {
    const char *path = fth_arena_printf(c->arena, "%s/manifest.json", c->path);
    char *text = NULL;
    size_t n = 0;
    if (!path)
        return fth_fail(err, FTH_E_MEMORY, "no memory to read a checkpoint");
    fth_status status = fth_io_check_file(c->io, path, err);
    if (status == FTH_OK)
        status = fth_io_read_file(c->io, path, SIZE_MAX / 4, &text, &n, err);
    if (status == FTH_E_MEMORY)
        return status;
    if (status != FTH_OK)
        return err ? (err->code = FTH_E_CHECKPOINT) : FTH_E_CHECKPOINT;
    status = fth_json_load(text, n, path, &c->manifest, err);
    fth_free(text);
    FTH_TRY(status);
    if (!c->manifest)
        return fth_fail(err, FTH_E_CHECKPOINT, "%s: damaged or cut off: it is not JSON", path);
    const char *format = json_string_value(json_object_get(c->manifest, "format"));
    if (!format || strcmp(format, "fathom-checkpoint") != 0)
        return fth_fail(err, FTH_E_CHECKPOINT, "%s: this is not a Fathom checkpoint's manifest", path);
    const char *bad = NULL;
    uint64_t version = get_count(c->manifest, "version", &bad);
    if (version != FTH_CHECKPOINT_VERSION)
        return fth_fail(err, FTH_E_CHECKPOINT,
                        "%s: format version %llu; this program (%s) reads version %d", path,
                        (unsigned long long)version, FTH_VERSION, FTH_CHECKPOINT_VERSION);
    uint64_t digest = get_hex(c->manifest, "digest", &bad);
    int failed, whole = take_check(c->manifest, &failed);
    if (failed)
        return fth_fail(err, FTH_E_MEMORY, "no memory to read a checkpoint");
    if (bad || !whole)
        return fth_fail(err, FTH_E_CHECKPOINT, "%s: damaged: its content does not match its check value",
                        path);
    read_state(c->manifest, &c->state, &bad);
    read_lists(c, &bad);
    FTH_TRY(read_data(c, &bad, err));
    if (bad == no_memory)
        return fth_fail(err, FTH_E_MEMORY, "no memory to read a checkpoint");
    if (bad)
        return fth_fail(err, FTH_E_CHECKPOINT, "%s: '%s' is missing or of the wrong type", path, bad);
    snprintf(c->digest, sizeof c->digest, "%016llx", (unsigned long long)digest);
    return FTH_OK;
}
