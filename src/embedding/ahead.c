/* Memory of rows that coming batches will make, touched ahead.
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
#include "embedding/embedding_private.h"
#include "base/memory.h"

#define PAGE ((uint64_t)2 << 20)
#define MOST ((uint64_t)16 << 20) /* touched ahead of what is in use */

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
