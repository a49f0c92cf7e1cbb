/* Embeddings: which lookups share tables, which tables share packs; what is inside. Finding rows is
 * prepare.c, reading them gather.c, training them update.c, moving them export.c.
 *
 * Threads: create, destroy and the questions here belong to one thread, between steps. */
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "embedding/embedding_private.h"

static fth_status check_options(const struct fth_embedding_options *options, fth_error *err) {
    const struct fth_optimizer *optimizer = fth_optimizer_find(options->optimizer->name);
    if (!optimizer || !optimizer->sparse)
        return fth_fail(err, FTH_E_CONFIG,
                        "optimizer.sparse.name: %s is no optimizer for embeddings",
                        options->optimizer->name);
    if (options->config->memory_limit <= 0)
        return fth_fail(err, FTH_E_CONFIG, "embedding.memory_limit: must be above 0");
    if (options->max_batch == 0 || options->max_batch > (uint32_t)1 << 24)
        return fth_fail(err, FTH_E_ARGUMENT, "batch size %u: must be 1 to %u", options->max_batch,
                        (uint32_t)1 << 24);
    for (uint32_t i = 0; i < options->n_lookups; i++) {
        const struct fth_lookup *a = &options->lookups[i];
        for (uint32_t j = 0; j < i; j++) {
            const struct fth_lookup *b = &options->lookups[j];
            if (strcmp(a->table, b->table) == 0 &&
                (a->dim != b->dim || !a->zero_init != !b->zero_init))
                return fth_fail(
                    err, FTH_E_CONFIG,
                    "embedding table '%s' is looked up with dimension %u and %u%s: fields "
                    "that share a table must agree",
                    a->table, b->dim, a->dim, a->dim == b->dim ? ", once starting at zero" : "");
        }
    }
    return FTH_OK;
}

/* The pack that the lookup's table belongs to, among those there are; n_packs when it needs a new
 * one. */
static uint32_t find_pack(const struct fth_embedding *embedding, const struct fth_lookup *lookup,
                          int packing, uint32_t *table) {
    for (uint32_t p = 0; p < embedding->n_packs; p++) {
        const struct fth_pack *pack = &embedding->packs[p];
        for (*table = 0; *table < pack->n_tables; ++*table) {
            if (strcmp(pack->tables[*table].name, lookup->table) == 0)
                return p;
        }
        if (packing && pack->dim == lookup->dim)
            return p;
    }
    *table = 0;
    return embedding->n_packs;
}

static fth_status place_lookup(struct fth_embedding *embedding,
                               const struct fth_embedding_options *options, uint32_t i,
                               char **names, fth_error *err) {
    const struct fth_lookup *lookup = &options->lookups[i];
    uint32_t table;
    uint32_t number = find_pack(embedding, lookup, options->packing, &table);
    struct fth_pack *pack = &embedding->packs[number];
    if (number == embedding->n_packs) {
        pack->dim = lookup->dim;
        pack->tables = fth_alloc(options->n_lookups, sizeof *pack->tables);
        pack->table_names = fth_alloc(options->n_lookups, sizeof *pack->table_names);
        embedding->n_packs++;
        if (!pack->tables || !pack->table_names)
            return fth_fail(err, FTH_E_MEMORY, "no memory for embedding tables");
    }
    struct fth_table *to = &pack->tables[table];
    if (table == pack->n_tables) {
        size_t length = strlen(lookup->table);
        *to = (struct fth_table){.name = memcpy(*names, lookup->table, length + 1),
                                 .hash = fth_hash_bytes(lookup->table, length, 0),
                                 .zero_init = lookup->zero_init};
        *names += length + 1;
        pack->table_names[pack->n_tables++] = to->name;
    }
    if (to->min_count < lookup->min_count)
        to->min_count = lookup->min_count;
    embedding->lookups[i] =
        (struct fth_embedding_lookup){.is = *lookup, .pack = number, .table = table};
    embedding->lookups[i].is.table = to->name;
    if (lookup->dim > embedding->max_dim)
        embedding->max_dim = lookup->dim;
    if (fth_lookup_pooled(lookup) && lookup->pooling == FTH_POOL_MAX) {
        size_t entries;
        uint32_t *argmax = fth_mul_size(options->max_batch, lookup->dim, &entries)
                               ? fth_alloc(entries, sizeof *argmax)
                               : NULL;
        if (!argmax)
            return fth_fail(err, FTH_E_MEMORY, "no memory for max pooling over table '%s'",
                            to->name);
        embedding->lookups[i].argmax = argmax;
    }
    if (lookup->numbered)
        FTH_TRY(fth_embedding_unique_create(&embedding->lookups[i], options->max_batch, err));
    return FTH_OK;
}

static fth_status fill(struct fth_embedding *embedding, const struct fth_embedding_options *options,
                       fth_error *err) {
    uint32_t n = options->n_lookups;
    size_t name_bytes = 1;
    for (uint32_t i = 0; i < n; i++)
        name_bytes += strlen(options->lookups[i].table) + 1;
    embedding->packs = fth_alloc(n, sizeof *embedding->packs);
    embedding->lookups = fth_alloc(n, sizeof *embedding->lookups);
    embedding->names = fth_alloc(name_bytes, 1);
    embedding->identity = fth_alloc((size_t)options->max_batch + 1, sizeof *embedding->identity);
    if (!embedding->packs || !embedding->lookups || !embedding->names || !embedding->identity)
        return fth_fail(err, FTH_E_MEMORY, "no memory for %u embedding lookups", n);
    embedding->n_lookups = n;
    for (uint32_t i = 0; i <= options->max_batch; i++)
        embedding->identity[i] = i;
    /* A part is about a batch of one-key fields, not so large that few fields leave threads without
     * work. */
    embedding->part_shift = 8;
    while (embedding->part_shift < FTH_PART_SHIFT_MAX && (uint32_t)1 << embedding->part_shift < options->max_batch)
        embedding->part_shift++;
    embedding->max_batch = options->max_batch;
    embedding->kernels = fth_kernels_get();
    embedding->optimizer = fth_optimizer_find(options->optimizer->name);
    embedding->budget.limit = (uint64_t)options->config->memory_limit;
    char *names = embedding->names;
    for (uint32_t i = 0; i < n; i++)
        FTH_TRY(place_lookup(embedding, options, i, &names, err));
    for (uint32_t p = 0; p < embedding->n_packs; p++) {
        struct fth_pack *pack = &embedding->packs[p];
        pack->optimizer = embedding->optimizer;
        pack->config = *options->config;
        pack->seed = options->seed;
        pack->budget = &embedding->budget;
        pack->single = pack->dim == 1 && !embedding->optimizer->rowwise;
        FTH_TRY(fth_pack_create(pack, options->optimizer, err));
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct fth_embedding_lookup *lookup = &embedding->lookups[i];
        embedding->packs[lookup->pack].single &= !lookup->argmax && !lookup->is.numbered &&
                                                !lookup->is.counted;
    }
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
        fth_embedding_unique_free(&embedding->lookups[i], embedding->max_batch);
    }
    fth_free(embedding->packs);
    fth_free(embedding->lookups);
    fth_free(embedding->names);
    fth_free(embedding->identity);
    fth_embedding_free_batch(embedding);
    fth_free(embedding);
}

void fth_embedding_set_args(fth_embedding *embedding, const struct fth_opt_args *args) {
    embedding->args = *args;
}

const struct fth_rows *fth_embedding_rows(fth_embedding *embedding) {
    return &embedding->rows;
}

uint32_t fth_embedding_packs(const fth_embedding *embedding) {
    return embedding->n_packs;
}

void fth_embedding_pack_info(const fth_embedding *embedding, uint32_t pack,
                             struct fth_pack_info *out) {
    const struct fth_pack *from = &embedding->packs[pack];
    *out = (struct fth_pack_info){
        .dim = from->dim,
        .n_slots = from->optimizer->n_slots,
        .n_tables = from->n_tables,
        .table_names = from->table_names,
        .slot_names = from->optimizer->slot_names,
        .slot_columns = from->slot_columns,
        .rows = fth_pack_rows(from),
        .candidates = fth_pack_candidates(from),
        .bytes = fth_pack_bytes(from),
    };
}

void fth_embedding_last_batch(const fth_embedding *embedding, uint64_t *keys,
                              uint64_t *unique_rows) {
    *keys = embedding->n_keys;
    *unique_rows = embedding->n_unique;
}

fth_status fth_embedding_limit_error(const struct fth_embedding *embedding,
                                     const struct fth_pack *pack, uint32_t table, fth_error *err) {
    uint64_t rows = 0;
    for (uint32_t p = 0; p < embedding->n_packs; p++)
        rows += fth_pack_rows(&embedding->packs[p]);
    return fth_fail(
        err, FTH_E_LIMIT,
        "embedding table '%s' needs a new row, and the %llu rows of all tables use %llu bytes "
        "of the %llu that embedding.memory_limit allows: raise it, or admit fewer keys "
        "(min_count, buckets)",
        pack->tables[table].name, (unsigned long long)rows,
        (unsigned long long)embedding->budget.used, (unsigned long long)embedding->budget.limit);
}
