/* Checkpoints: the input's first byte says which file it is (modulo 3: manifest, dense tensors, a pack) and
 * whether the manifest's check value is made right (always for tensors: else no input would come past the
 * checksums); the rest is the file. The other files are those of a real checkpoint. Whatever comes is refused
 * with a message, or restores. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "check.h"
#include "checkpoint/checkpoint_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MANIFEST, DENSE, PACK, CONFIG, FILES };
static const char *const names[FILES] = {"manifest.json", "dense.safetensors", "pack-0.safetensors",
                                         "config.yaml"};

/* ---- files in memory, read only: "c/<name>" ---- */

static struct memory_file {
    char *bytes;
    size_t n, at; /* at: read so far; a file is open once at a time */
} files[FILES];

static int find(const char *path) {
    for (int i = 0; i < FILES; i++)
        if (strncmp(path, "c/", 2) == 0 && strcmp(path + 2, names[i]) == 0)
            return i;
    return -ENOENT;
}

static int memory_open(void *ctx, const char *path, enum fth_io_mode mode) {
    int file = mode == FTH_IO_READ ? find(path) : -EROFS;
    if (file >= 0)
        files[file].at = 0;
    return file;
}

static int64_t memory_pread(void *ctx, int file, void *bytes, size_t n, uint64_t offset) {
    if (offset >= files[file].n)
        return 0;
    if (n > files[file].n - offset)
        n = files[file].n - (size_t)offset;
    memcpy(bytes, files[file].bytes + offset, n);
    return (int64_t)n;
}

static int64_t memory_read(void *ctx, int file, void *bytes, size_t n) {
    int64_t got = memory_pread(ctx, file, bytes, n, files[file].at);
    files[file].at += (size_t)got;
    return got;
}

static int memory_close(void *ctx, int file) {
    return 0;
}

static int memory_stat(void *ctx, const char *path, struct fth_io_stat *out) {
    int file = find(path);
    if (file < 0)
        return file;
    *out = (struct fth_io_stat){.kind = FTH_IO_FILE, .size = files[file].n};
    return 0;
}

static int memory_list(void *ctx, const char *path, int (*each)(void *arg, const char *name), void *arg) {
    return 0;
}

static const struct fth_io memory = {.open = memory_open, .read = memory_read, .pread = memory_pread,
                                     .close = memory_close, .stat = memory_stat, .list = memory_list};

/* ---- a small model ---- */

struct model {
    fth_graph *graph;
    fth_parameters *parameters;
    fth_embedding *embedding;
};

static struct model model_create(void) {
    struct model m = {0};
    fth_id id;
    struct fth_optimizer_config optimizer = {.name = "adagrad", .lr = 0.1, .eps = 1e-8};
    struct fth_embedding_config config = {.dim = 2, .memory_limit = 16 << 20};
    struct fth_lookup lookups[] = {
        {.table = "user", .dim = 2, .group = -1, .min_count = 2},
        {.field = 1, .table = "item", .dim = 2, .group = -1},
    };
    struct fth_embedding_options options = {.lookups = lookups, .n_lookups = 2, .config = &config,
                                            .optimizer = &optimizer, .max_batch = 4, .packing = 1};
    CHECK(fth_graph_create(1, &m.graph, NULL) == FTH_OK);
    CHECK(fth_graph_parameter(m.graph, FTH_ROLE_PARAMETER, "w", 2, 3, FTH_PARAM_NORMAL, 1, &id, NULL) ==
          FTH_OK);
    CHECK(fth_parameters_create(m.graph, fth_optimizer_find("adagrad"), &optimizer, 1, &m.parameters,
                                NULL) == FTH_OK);
    CHECK(fth_embedding_create(&options, &m.embedding, NULL) == FTH_OK);
    return m;
}

static void model_destroy(struct model *m) {
    fth_embedding_destroy(m->embedding);
    fth_parameters_destroy(m->parameters);
    fth_graph_destroy(m->graph);
}

/* ---- a real checkpoint of it, made once ---- */

static struct memory_file good[FILES];
static fth_pool *pool;

static void make_good(void) {
    char dir[] = "/tmp/fathom-fuzz-XXXXXX", *path = NULL, name[600];
    struct model m = model_create();
    uint64_t keys[] = {5, 1ull << 63, 7}, counts[] = {3, 1, 9}, steps[] = {1, 2, 3};
    uint32_t tables[] = {0, 1, 1};
    float weights[6] = {1, 2, 3, 4, 5, 6}, slots[6] = {0.5f};
    struct fth_row_arrays rows = {keys, tables, weights, {slots}, counts, steps};
    const struct fth_embedding_table same[] = {{0, 0}, {0, 1}};
    CHECK(fth_embedding_import_shards(m.embedding, same, UINT64_MAX, 3, &rows, NULL) == FTH_OK);
    CHECK(fth_embedding_import_candidates(m.embedding, 0, 1, steps, tables, counts + 1, NULL) == FTH_OK);
    struct fth_checkpoint_state state = {.step = 4, .seed = 1, .config_yaml = "seed: 1\n", .isa = "avx2",
                                         .features = json_object()};
    CHECK(fth_pool_create(1, &pool, NULL) == FTH_OK);
    struct fth_checkpoint_source source = {m.parameters, m.embedding, pool};
    CHECK(mkdtemp(dir) && fth_checkpoint_save(fth_io_posix(), dir, 0, 0, 0, &source, &state, &path, NULL) == FTH_OK);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "%s/%s", path, names[i]);
        CHECK(fth_io_read_file(fth_io_posix(), name, 1 << 20, &good[i].bytes, &good[i].n, NULL) == FTH_OK);
    }
    CHECK(fth_io_remove(fth_io_posix(), dir, NULL) == FTH_OK);
    json_decref(state.features);
    free(path);
    model_destroy(&m);
}

/* The manifest with a right check value; owned: free. NULL when it is no JSON object. */
static char *checked(json_t *manifest) {
    char check[17], *text;
    json_object_del(manifest, "check");
    text = json_is_object(manifest) ? json_dumps(manifest, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    if (!text)
        return NULL;
    snprintf(check, sizeof check, "%016llx", (unsigned long long)fth_hash_bytes(text, strlen(text), 0));
    free(text);
    json_object_set_new(manifest, "check", json_string(check));
    return json_dumps(manifest, JSON_COMPACT);
}

/* A manifest in which file `which` has the size and checksum of what is there now. */
static char *manifest_for(int which) {
    json_t *manifest = json_loadb(good[MANIFEST].bytes, good[MANIFEST].n, 0, NULL), *entry;
    char hex[17];
    size_t i;
    snprintf(hex, sizeof hex, "%016llx",
             (unsigned long long)fth_hash_bytes(files[which].bytes, files[which].n, 0));
    json_array_foreach(json_object_get(manifest, "files"), i, entry)
        if (strcmp(json_string_value(json_object_get(entry, "name")), names[which]) == 0) {
            json_object_set_new(entry, "bytes", json_integer((json_int_t)files[which].n));
            json_object_set_new(entry, "xxh3", json_string(hex));
        }
    char *text = checked(manifest);
    json_decref(manifest);
    CHECK(text);
    return text;
}

static void use(fth_checkpoint *c) {
    fth_error err = {0};
    char *report = NULL;
    struct model m = model_create();
    fth_status status = fth_checkpoint_report(c, 3, &report, &err);
    CHECK(status == FTH_OK ? report != NULL : *err.message != 0);
    free(report);
    err = (fth_error){0};
    status = fth_checkpoint_restore(c, pool, m.parameters, m.embedding, 0, &err);
    CHECK(status == FTH_OK || (status == err.code && *err.message));
    model_destroy(&m);
    fth_checkpoint_close(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fth_checkpoint *c = NULL;
    fth_error err = {0};
    char *manifest = NULL;
    if (size == 0)
        return 0;
    if (!good[0].bytes)
        make_good();
    int which = data[0] % 3;
    memcpy(files, good, sizeof files);
    files[which] = (struct memory_file){(char *)data + 1, size - 1, 0};
    if (which != MANIFEST) {
        manifest = manifest_for(which);
    } else if (data[0] & 0x80) {
        json_t *json = json_loadb(files[which].bytes, files[which].n, 0, NULL);
        manifest = checked(json);
        json_decref(json);
    }
    if (manifest)
        files[MANIFEST] = (struct memory_file){manifest, strlen(manifest), 0};
    fth_status status = fth_checkpoint_open(&memory, "c", &c, &err);
    if (status == FTH_OK)
        use(c);
    else
        CHECK(!c && status == FTH_E_CHECKPOINT && err.code == status && *err.message);
    free(manifest);
    return 0;
}
