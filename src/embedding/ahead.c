/* Memory of rows that coming batches will make, touched ahead; of those that are expected, before the first.
 *
 * The first touch of a page makes the kernel clear it: a quarter of a millisecond for one of two megabytes,
 * several milliseconds where a hypervisor has to find the memory as well. New rows are made between two
 * phases of prepare, so all other workers would wait for the one that met the page. While tiles run they take
 * more of these instead. So each training batch plans how far rows may get, by how many it made itself, and
 * the plan's first tiles touch the pages (rows.h, beside): a page a worker, all at once, as a step of short tiles would
 * wait for a worker that touches alone.
 *
 * Threads: planned by the one that prepares; touched by any worker, each page by the one that takes its number. Nothing
 * but where pages are depends on it. */
#include "base/cpu.h"
#include "base/memory.h"
#include "embedding/embedding_private.h"

#define PAGE ((uint64_t)2 << 20)
#define MOST ((uint64_t)16 << 20) /* touched ahead of what is in use */
#define INDEX_BYTES (2 * sizeof(struct fth_index_group) / FTH_INDEX_LOAD) /* of a row, at most */

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

void fth_pack_plan_ahead(struct fth_pack *pack, uint32_t workers) {
    uint64_t row = pack->stride * sizeof(float), chunk = FTH_ROW_CHUNK * row;
    uint64_t chunks = atomic_load_explicit(&pack->next_chunk, memory_order_relaxed), used = chunks * chunk;
    uint64_t made = pack->chunks_seen ? smaller((chunks - pack->chunks_seen) * chunk, MOST / 2) : 0;
    uint64_t touched = smaller(atomic_load_explicit(&pack->touch_next, memory_order_relaxed), pack->touch_to);
    pack->chunks_seen = (uint32_t)chunks;
    if (touched < used / PAGE)
        touched = used / PAGE;
    /* Small tables are not worth a page. */
    if (made == 0 || used < PAGE || touched * PAGE >= used + made)
        return;
    uint64_t at_once = smaller(workers, smaller(used, MOST) / PAGE), last = pack->max_rows * row / PAGE;
    uint64_t wanted = (used + 2 * made) / PAGE + 1 - touched;
    pack->touch_to = smaller(touched + (wanted + at_once - 1) / at_once * at_once, last);
    atomic_store_explicit(&pack->touch_next, touched, memory_order_relaxed);
}

static void touch_page(const struct fth_pack *pack, uint64_t page) {
    uint64_t row = pack->stride * sizeof(float), first = page * PAGE / row, end = (page + 1) * PAGE / row;
    fth_region_touch((char *)pack->rows + page * PAGE, PAGE);
    if (pack->metas)
        fth_region_touch(pack->metas + first, (end - first) * sizeof *pack->metas);
}

struct expected {
    const struct fth_pack *pack;
    const atomic_int *stop;
};

static void touch_expected(void *arg, uint32_t task, uint32_t worker) {
    const struct expected *expected = arg;
    (void)worker;
    if (!expected->stop || !atomic_load(expected->stop))
        touch_page(expected->pack, task);
}

static void expect(struct fth_pack *pack, fth_pool *pool, uint64_t rows, const atomic_int *stop) {
    struct expected expected = {pack, stop};
    /* A shard's last chunk is half full; shards are as unlike as chance has it. */
    uint64_t all = smaller(rows + FTH_SHARDS * FTH_ROW_CHUNK, pack->max_rows), row = pack->stride * sizeof(float);
    uint64_t pages = all * row / PAGE;
    fth_pack_reserve(pack, rows);
    for (uint32_t i = 0; i < FTH_SHARDS; i++)
        fth_region_touch(pack->shards[i].index.groups, fth_index_bytes(&pack->shards[i].index));
    fth_pool_for(pool, (uint32_t)pages, touch_expected, &expected);
    atomic_store_explicit(&pack->touch_next, pages, memory_order_relaxed);
    pack->touch_to = pages;
}

fth_status fth_embedding_expect(fth_embedding *embedding, fth_pool *pool, uint64_t rows, const atomic_int *stop,
                                fth_error *err) {
    uint64_t tables = 0, bytes = 0, allowed = smaller(embedding->budget.limit, fth_cpu_get()->memory);
    for (uint32_t p = 0; p < embedding->n_packs; p++)
        tables += embedding->packs[p].n_tables;
    for (uint32_t p = 0; p < embedding->n_packs; p++)
        bytes += rows * embedding->packs[p].n_tables / tables * (fth_pack_row_bytes(&embedding->packs[p]) + INDEX_BYTES);
    if (bytes > allowed)
        return fth_fail(err, FTH_E_CONFIG,
                        "embedding.expected_rows: %llu rows take up to %llu bytes, and embedding.memory_limit and the memory "
                        "that there is allow %llu: expect fewer, or raise the limit",
                        (unsigned long long)rows, (unsigned long long)bytes, (unsigned long long)allowed);
    for (uint32_t p = 0; p < embedding->n_packs; p++)
        expect(&embedding->packs[p], pool, rows * embedding->packs[p].n_tables / tables, stop);
    return FTH_OK;
}

void fth_embedding_beside(void *ctx) {
    struct fth_embedding *embedding = ctx;
    for (uint32_t p = 0; p < embedding->n_packs; p++) {
        struct fth_pack *pack = &embedding->packs[p];
        uint64_t page;
        while (atomic_load_explicit(&pack->touch_next, memory_order_relaxed) < pack->touch_to &&
               (page = atomic_fetch_add_explicit(&pack->touch_next, 1, memory_order_relaxed)) < pack->touch_to)
            touch_page(pack, page);
    }
}
