/* Embeddings: making them; what is inside. Which tables share rows and packs is place.c, finding rows
 * prepare.c, reading them gather.c, training them update.c, moving them export.c.
 *
 * Threads: create, destroy and the questions here belong to one thread, between steps. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "embedding/embedding_private.h"

static const struct fth_optimizer_config *linear_config(const struct fth_embedding_options *options) {
    return options->linear ? options->linear : options->optimizer;
}

static fth_status check_options(const struct fth_embedding_options *options, fth_error *err) {
    for (int linear = 0; linear < 2; linear++) {
        const struct fth_optimizer_config *config = linear ? linear_config(options) : options->optimizer;
        const struct fth_optimizer *optimizer = fth_optimizer_find(config->name);
        if (!optimizer || !optimizer->sparse)
            return fth_fail(err, FTH_E_CONFIG, "optimizer.%s.name: %s is no optimizer for embeddings",
                            linear ? "linear" : "sparse", config->name);
    }
    if (options->config->memory_limit <= 0)
        return fth_fail(err, FTH_E_CONFIG, "embedding.memory_limit: must be above 0");
    if (options->max_batch == 0 || options->max_batch > (uint32_t)1 << 24)
        return fth_fail(err, FTH_E_ARGUMENT, "batch size %u: must be 1 to %u", options->max_batch,
                        (uint32_t)1 << 24);
    return FTH_OK;
}

/* What a lookup has of its own, beside rows. */
static fth_status make_lookup(struct fth_embedding *embedding, struct fth_embedding_lookup *lookup,
                              int norms, fth_error *err) {
    if (lookup->is.dim > embedding->max_dim)
        embedding->max_dim = lookup->is.dim;
    if (fth_lookup_pooled(&lookup->is) && lookup->is.pooling == FTH_POOL_MAX) {
        size_t entries;
        lookup->argmax = fth_mul_size(embedding->max_batch, lookup->is.dim, &entries)
                             ? fth_alloc(entries, sizeof *lookup->argmax)
                             : NULL;
        if (!lookup->argmax)
            return fth_fail(err, FTH_E_MEMORY, "no memory for max pooling over table '%s'",
                            lookup->is.table);
    }
    if (fth_lookup_pooled(&lookup->is) && lookup->is.pooling == FTH_POOL_MEAN) {
        lookup->share = fth_alloc(embedding->max_batch, sizeof *lookup->share);
        if (!lookup->share)
            return fth_fail(err, FTH_E_MEMORY, "no memory for mean pooling over table '%s'",
                            lookup->is.table);
    }
    if (lookup->is.numbered)
        FTH_TRY(fth_embedding_unique_create(embedding, lookup, err));
    struct fth_pack *pack = &embedding->packs[lookup->pack];
    embedding->lookups[lookup->leading].firsts |= norms;
    pack->firsts |= norms;
    pack->single &= !lookup->argmax && !lookup->is.numbered && !lookup->is.counted;
    pack->counted |= lookup->is.counted;
    return FTH_OK;
}

static fth_status fill(struct fth_embedding *embedding, const struct fth_embedding_options *options,
                       fth_error *err) {
    uint32_t n = options->n_lookups;
    size_t name_bytes = 1;
    for (uint32_t i = 0; i < n; i++)
        name_bytes += strlen(options->lookups[i].table) + 1;
    embedding->packs = fth_alloc(n, sizeof *embedding->packs);
    embedding->views = fth_alloc(n, sizeof *embedding->views);
    embedding->by_member = fth_alloc(n, sizeof *embedding->by_member);
    embedding->lookups = fth_alloc(n, sizeof *embedding->lookups);
    embedding->names = fth_alloc(name_bytes, 1);
    embedding->by_cost = fth_alloc(n, sizeof *embedding->by_cost);
    embedding->runs = fth_alloc(n, FTH_SHARDS * sizeof *embedding->runs);
    embedding->identity = fth_alloc((size_t)options->max_batch + 1, sizeof *embedding->identity);
    if (!embedding->packs || !embedding->views || !embedding->by_member || !embedding->lookups || !embedding->names ||
        !embedding->by_cost || !embedding->runs || !embedding->identity)
        return fth_fail(err, FTH_E_MEMORY, "no memory for %u embedding lookups", n);
    embedding->n_lookups = n;
    for (uint32_t i = 0; i < n; i++)
        embedding->by_cost[i] = i;
    for (uint32_t i = 0; i <= options->max_batch; i++)
        embedding->identity[i] = i;
    /* A part is about a batch of one-key fields, not so large that few fields leave threads without
     * work. */
    embedding->factor = fth_hash_factor();
    embedding->part_shift = 8;
    while (embedding->part_shift < FTH_PART_SHIFT_MAX && (uint32_t)1 << embedding->part_shift < options->max_batch)
        embedding->part_shift++;
    embedding->max_batch = options->max_batch;
    embedding->kernels = fth_kernels_get();
    for (int linear = 0; linear < 2; linear++) {
        struct fth_row_optimizer *optimizer = &embedding->optimizer[linear];
        optimizer->config = linear ? *linear_config(options) : *options->optimizer;
        optimizer->is = fth_optimizer_find(optimizer->config.name);
    }
    embedding->budget.limit = (uint64_t)options->config->memory_limit;
    FTH_TRY(fth_embedding_place(embedding, options, err));
    for (uint32_t p = 0; p < embedding->n_packs; p++) {
        struct fth_pack *pack = &embedding->packs[p];
        pack->config = *options->config;
        pack->seed = options->seed;
        pack->kernels = embedding->kernels;
        pack->budget = &embedding->budget;
        pack->single = pack->n_members == 1 && pack->one_number == 0 && !pack->members[0].optimizer->is->rowwise;
        FTH_TRY(fth_pack_create(pack, err));
    }
    for (uint32_t i = 0; i < n; i++)
        FTH_TRY(make_lookup(embedding, &embedding->lookups[i], options->norms, err));
    embedding->rows = (struct fth_rows){
        .ctx = embedding,
        .gather = fth_embedding_gather,
        .gather_many = fth_embedding_gather_many,
        .unique = fth_embedding_unique,
        .frequencies = fth_embedding_frequencies,
        .update_tasks = fth_embedding_update_tasks,
        .update = fth_embedding_update,
        .gradient_squares = fth_embedding_gradient_squares,
        .update_scratch = fth_embedding_update_scratch,
        .beside = fth_embedding_beside,
    };
    return FTH_OK;
}

fth_status fth_embedding_create(const struct fth_embedding_options *options, fth_embedding **out,
                                fth_error *err) {
    FTH_TRY(check_options(options, err));
    struct fth_embedding *embedding = fth_alloc(1, sizeof *embedding);
    if (!embedding)
        return fth_fail(err, FTH_E_MEMORY, "no memory for embeddings");
    fth_status status = fill(embedding, options, err);
    if (status != FTH_OK) {
        fth_embedding_destroy(embedding);
        return status;
    }
    *out = embedding;
    return FTH_OK;
}

void fth_embedding_destroy(fth_embedding *embedding) {
    if (!embedding)
        return;
    for (uint32_t p = 0; p < embedding->n_packs; p++)
        fth_pack_destroy(&embedding->packs[p]);
    for (uint32_t i = 0; embedding->lookups && i < embedding->n_lookups; i++) {
        fth_free(embedding->lookups[i].argmax);
        fth_free(embedding->lookups[i].share);
        fth_embedding_unique_free(&embedding->lookups[i], embedding->max_batch);
    }
    fth_embedding_free_views(embedding);
    fth_free(embedding->packs);
    fth_free(embedding->by_member);
    fth_free(embedding->lookups);
    fth_free(embedding->names);
    fth_free(embedding->by_cost);
    fth_free(embedding->runs);
    fth_free(embedding->identity);
    fth_embedding_free_batch(embedding);
    fth_free(embedding);
}

void fth_embedding_set_args(fth_embedding *embedding, const struct fth_opt_args *args,
                            const struct fth_opt_args *linear) {
    embedding->args[0] = *args;
    embedding->args[1] = linear ? *linear : *args;
}

const struct fth_rows *fth_embedding_rows(fth_embedding *embedding) {
    return &embedding->rows;
}

uint32_t fth_embedding_packs(const fth_embedding *embedding) {
    return embedding->n_views;
}

/* A member's share of its pack's bytes: its own floats; the leading one's is what is left. */
static uint64_t member_bytes(const struct fth_pack *pack, uint32_t member) {
    uint64_t rows = fth_pack_chunks(pack) * FTH_ROW_CHUNK;
    if (member > 0)
        return rows * pack->members[member].floats * sizeof(float);
    uint64_t bytes = fth_pack_bytes(pack);
    for (uint32_t m = 1; m < pack->n_members; m++)
        bytes -= member_bytes(pack, m);
    return bytes;
}

void fth_embedding_pack_info(const fth_embedding *embedding, uint32_t number,
                             struct fth_pack_info *out) {
    const struct fth_view *view = &embedding->views[number];
    const struct fth_member *first = &embedding->packs[view->sources[0].pack].members[view->sources[0].member];
    *out = (struct fth_pack_info){
        .dim = view->dim,
        .n_slots = first->optimizer->is->n_slots,
        .n_tables = view->n_tables,
        .table_names = view->names,
        .slot_names = first->optimizer->is->slot_names,
        .slot_columns = first->slot_columns,
    };
    for (uint32_t s = 0; s < view->n_sources; s++) {
        const struct fth_pack *pack = &embedding->packs[view->sources[s].pack];
        out->rows += fth_pack_rows(pack);
        out->candidates += fth_pack_candidates(pack);
        out->bytes += member_bytes(pack, view->sources[s].member);
    }
}

void fth_embedding_last_batch(const fth_embedding *embedding, uint64_t *keys,
                              uint64_t *unique_rows) {
    *keys = embedding->n_keys;
    *unique_rows = embedding->n_unique;
}

fth_status fth_embedding_limit_error(const struct fth_embedding *embedding,
                                     const struct fth_pack *pack, uint32_t table, fth_error *err) {
    uint64_t rows = 0, waiting = 0;
    char candidates[64] = "";
    for (uint32_t p = 0; p < embedding->n_packs; p++) {
        rows += fth_pack_rows(&embedding->packs[p]) * embedding->packs[p].n_members;
        waiting += fth_pack_candidates(&embedding->packs[p]);
    }
    if (waiting)
        snprintf(candidates, sizeof candidates, " and %llu keys below their min_count", (unsigned long long)waiting);
    return fth_fail(
        err, FTH_E_LIMIT,
        "embedding table '%s' needs room for a new key, and the %llu rows%s of all tables use %llu bytes "
        "of the %llu that embedding.memory_limit allows (tables grow %d rows at a time, here %llu bytes): raise it, or "
        "admit fewer keys (%sbuckets)",
        pack->tables[table].name, (unsigned long long)rows, candidates, (unsigned long long)embedding->budget.used,
        (unsigned long long)embedding->budget.limit, FTH_ROW_CHUNK,
        (unsigned long long)(FTH_ROW_CHUNK * pack->stride * sizeof(float)), waiting ? "" : "min_count, ");
}
