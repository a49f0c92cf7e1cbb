/* For the tests of checkpoint/: parameters, tables and a state, made by hand and different by `seed`, so that
 * what was saved can be told from what was there. */
#ifndef FTH_TEST_CHECKPOINT_WORLD_H
#define FTH_TEST_CHECKPOINT_WORLD_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"
#include "checkpoint/checkpoint_private.h"
#include "fault_io.h"
#include "import_rows.h"

#define OK(expr)                                              \
    do {                                                      \
        fth_error ok_error = {0}, *err = &ok_error;           \
        if ((expr) != FTH_OK)                                 \
            fail_msg("%s: %s", #expr, ok_error.message);      \
    } while (0)

/* The expression is refused with this code, and the message has all these parts. */
#define REFUSED(code_wanted, expr, ...)                                                               \
    do {                                                                                              \
        fth_error refused_error = {0}, *err = &refused_error;                                         \
        const char *const parts[] = {__VA_ARGS__};                                                    \
        fth_status answer = (expr);                                                                  \
        if (answer != (code_wanted) || err->code != answer)                                           \
            fail_msg("%s: status %d, code %d: %s", #expr, answer, err->code, err->message);           \
        for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)                            \
            if (!strstr(err->message, parts[part]))                                                   \
                fail_msg("%s: '%s' is not in '%s'", #expr, parts[part], err->message);                \
    } while (0)

struct world_options {
    uint64_t seed;
    uint32_t weight_columns;       /* of "deep.weight"; 0: 7 */
    const char *dense, *sparse;    /* optimizers; NULL: adam, adagrad */
    int unpacked;
    int without_item, with_brand;  /* tables */
    uint32_t user_dim;             /* 0: 4 */
    int without_bias, later_bias; /* "deep.bias"; as one that older checkpoints lack */
    int in_panels; /* "deep.weight" */
    int64_t memory_limit; /* 0: 64 MiB */
};

struct world {
    fth_graph *graph;
    fth_parameters *parameters;
    fth_embedding *embedding;
    fth_pool *pool;
    struct fth_checkpoint_state state;
    uint64_t best; /* step that saves keep besides */
};

enum { WORLD_ROWS = 40, WORLD_CANDIDATES = 9 };

static const struct fth_optimizer_config world_optimizer = {
    .lr = 0.1, .eps = 1e-8, .beta1 = 0.9, .beta2 = 0.999, .initial_accumulator = 0.1};

static inline float world_number(uint64_t seed, uint64_t a, uint64_t b) {
    return (float)(fth_hash_mix(seed * 1000003 + a * 1009 + b) >> 40) / (1 << 24) - 0.5f;
}

static inline void world_graph(struct world *w, const struct world_options *o) {
    fth_id id;
    OK(fth_graph_create(3, &w->graph, err));
    OK(fth_graph_parameter(w->graph, FTH_ROLE_PARAMETER, "deep.weight", 5,
                           o->weight_columns ? o->weight_columns : 7, FTH_PARAM_ZERO, 0, &id, err));
    w->graph->values[id].panels = o->in_panels;
    if (!o->without_bias) {
        OK(fth_graph_parameter(w->graph, FTH_ROLE_PARAMETER, "deep.bias", 1, 7, FTH_PARAM_ZERO, 0, &id,
                               err));
        w->graph->values[id].later = o->later_bias;
    }
    OK(fth_graph_parameter(w->graph, FTH_ROLE_STATE, "norm.mean", 1, 7, FTH_PARAM_ZERO, 0, &id, err));
}

static inline void world_tables(struct world *w, const struct world_options *o) {
    struct fth_lookup lookups[4] = {
        {.field = 0, .table = "user", .dim = o->user_dim ? o->user_dim : 4, .group = FTH_NO_GROUP},
        {.field = 1, .table = "category", .dim = 8, .group = FTH_NO_GROUP, .min_count = 5}};
    uint32_t n = 2;
    if (!o->without_item)
        lookups[n++] = (struct fth_lookup){.field = 2, .table = "item", .dim = 4, .group = FTH_NO_GROUP};
    if (o->with_brand)
        lookups[n++] = (struct fth_lookup){.field = 3, .table = "brand", .dim = 4, .group = FTH_NO_GROUP};
    struct fth_embedding_config config = {.dim = 4, .memory_limit = o->memory_limit ? o->memory_limit : 64 << 20};
    struct fth_optimizer_config sparse = world_optimizer;
    sparse.name = o->sparse ? o->sparse : "adagrad";
    struct fth_embedding_options options = {.lookups = lookups, .n_lookups = n, .config = &config,
                                            .optimizer = &sparse, .seed = 3, .max_batch = 16,
                                            .packing = !o->unpacked};
    OK(fth_embedding_create(&options, &w->embedding, err));
}

/* Rows whose values are a function of (seed, table, key). */
static inline void world_rows(struct world *w, uint64_t seed) {
    for (uint32_t p = 0; p < fth_embedding_packs(w->embedding); p++) {
        struct fth_pack_info info;
        fth_embedding_pack_info(w->embedding, p, &info);
        for (uint32_t t = 0; t < info.n_tables; t++)
            for (uint64_t key = 1; key <= WORLD_ROWS + seed % 7; key++) {
                uint64_t salt = seed + fth_hash_bytes(info.table_names[t], strlen(info.table_names[t]), 0);
                uint64_t count = key + seed, step = key % 5;
                float weights[64], slots[2][64];
                for (uint32_t d = 0; d < info.dim; d++) {
                    weights[d] = world_number(salt, key, d);
                    slots[0][d] = world_number(salt, key, d + 100);
                    slots[1][d] = world_number(salt, key, d + 200);
                }
                struct fth_row_arrays row = {.keys = &key, .tables = &t, .weights = weights,
                                             .slots = {slots[0], slots[1]}, .frequency = &count,
                                             .last_step = &step};
                OK(import_rows(w->embedding, p, 1, &row, err));
            }
        for (uint32_t t = 0; t < info.n_tables; t++)
            for (uint64_t key = 1000; !strcmp(info.table_names[t], "category") &&
                                      key < 1000 + WORLD_CANDIDATES; key++) {
                uint64_t count = 1 + (key + seed) % 4;
                OK(fth_embedding_import_candidates(w->embedding, p, 1, &key, &t, &count, err));
            }
    }
}

static inline void world_dense(struct world *w, uint64_t seed) {
    for (uint32_t i = 0; i < w->parameters->n; i++) {
        struct fth_parameter *p = &w->parameters->items[i];
        float rows[5 * 64];
        assert_true(p->rows <= 5 && p->columns <= 64);
        for (uint32_t r = 0; r < p->rows; r++)
            for (uint32_t c = 0; c < p->columns; c++) {
                rows[r * 64 + c] = world_number(seed, i, r * 64 + c);
                for (uint32_t s = 0; s < p->n_slots; s++)
                    p->slots[s][r * p->ld + c] = world_number(seed, i + 100 + s, r * 64 + c);
            }
        fth_parameter_set(p, rows, 64);
    }
}

/* Another seed is another state of the same model. Owned: world_destroy. */
static inline struct world world_create(const struct world_options *o) {
    struct world w = {0};
    world_graph(&w, o);
    world_tables(&w, o);
    struct fth_optimizer_config config = world_optimizer;
    config.name = o->dense ? o->dense : "adam";
    OK(fth_pool_create(3, &w.pool, err));
    OK(fth_parameters_create(w.graph, fth_optimizer_find(config.name), &config, 3, &w.parameters, err));
    if (o->seed) {
        world_dense(&w, o->seed);
        world_rows(&w, o->seed);
    }
    w.state = (struct fth_checkpoint_state){
        .step = 100 + o->seed, .seed = 0xfedcba9876543210u, .config_yaml = "model: {name: lr}\n",
        .position = {.epoch = 2, .file_index = 1, .byte_offset = 12345, .line = 77, .example = 76,
                     .block = 3, .taken = 2, .examples_seen = 999 + o->seed, .lines_read = 1000,
                     .lines_bad = 3,
                     .epoch_lines_bad = 1},
        .features = json_pack("{s:{}, s:{s:[f, f, f]}}", "boundaries", "running", "age", 10.0,
                              0.1 + (double)o->seed, 1e-300),
        .best_metric = 0.7, .best_step = 90, .evaluations_without_better = 1, .train_seconds = 1.5,
        .tuning_digest = 5, .isa = "avx2", .cores = 16};
    return w;
}

static inline void world_destroy(struct world *w) {
    json_decref(w->state.features);
    fth_parameters_destroy(w->parameters);
    fth_embedding_destroy(w->embedding);
    fth_pool_destroy(w->pool);
    fth_graph_destroy(w->graph);
}

static inline struct fth_checkpoint_source world_source(const struct world *w) {
    return (struct fth_checkpoint_source){w->parameters, w->embedding, w->pool};
}

static inline fth_status world_save(const struct world *w, const struct fth_io *io, const char *dir,
                                    int64_t keep, char **path, fth_error *err) {
    struct fth_checkpoint_source source = world_source(w);
    return fth_checkpoint_save(io, dir, keep, w->best, 0, &source, &w->state, path, err);
}

static inline void world_digest(const struct world *w, char out[17]) {
    struct fth_checkpoint_source source = world_source(w);
    OK(fth_checkpoint_digest_of(&source, &w->state, out, err));
}

/* Opens `path`, restores into `w` and takes over the state, as a session does. */
static inline fth_status world_restore(struct world *w, const char *path, fth_error *err) {
    fth_checkpoint *c = NULL;
    fth_status status = fth_checkpoint_open(fth_io_posix(), path, &c, err);
    if (status == FTH_OK)
        status = fth_checkpoint_restore(c, w->pool, w->parameters, w->embedding, 0, err);
    if (status == FTH_OK) {
        json_t *features = json_incref(fth_checkpoint_state(c)->features);
        json_decref(w->state.features);
        w->state = *fth_checkpoint_state(c);
        w->state.features = features;
        w->state.config_yaml = w->state.isa = "";
    }
    fth_checkpoint_close(c);
    return status;
}

/* The digest of the checkpoint at `path`, "" when it does not open. */
static inline void digest_at(const char *path, char out[17]) {
    fth_checkpoint *c = NULL;
    out[0] = 0;
    if (fth_checkpoint_open(fth_io_posix(), path, &c, NULL) == FTH_OK)
        snprintf(out, 17, "%s", fth_checkpoint_digest(c));
    fth_checkpoint_close(c);
}

static inline int exists(const char *path) {
    struct fth_io_stat stat;
    return fth_io_posix()->stat(NULL, path, &stat) >= 0;
}

/* Files of a folder whose name has this part. */
static inline unsigned count_names(const char *dir, const char *part) {
    unsigned count = 0;
    size_t n = 0;
    char **names = NULL;
    fth_arena *arena = fth_arena_create(4096);
    OK(fth_io_list(fth_io_posix(), dir, arena, &names, &n, err));
    for (size_t i = 0; i < n; i++)
        count += strstr(names[i], part) != NULL;
    fth_arena_destroy(arena);
    return count;
}

static inline char *read_bytes(const char *path, size_t *n) {
    char *bytes = NULL;
    OK(fth_io_read_file(fth_io_posix(), path, 1 << 26, &bytes, n, err));
    return bytes; /* owned: fth_free */
}

static inline void write_bytes(const char *path, const void *bytes, size_t n) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

#endif
