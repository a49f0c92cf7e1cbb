/* Memory of rows that coming batches will make, touched ahead.
 *
 * The first touch of a page makes the kernel clear it: a quarter of a millisecond for one of two megabytes,
 * several milliseconds where a hypervisor has to find the memory as well. New rows are made between two
 * phases of prepare, so all other workers would wait for the one that met the page. While tiles run they take
 * more of these instead. So each training batch plans how far rows may get, by how many it made itself, and
 * the plan's first tile touches the pages (rows.h, beside).
 *
 * Threads: planned by the one that prepares; touched by any one worker, the first that asks. Nothing but
 * where pages are depends on it. */
#include "embedding/embedding_private.h"
#include "base/memory.h"

#define PAGE ((uint64_t)2 << 20)
#define MOST ((uint64_t)16 << 20) /* touched ahead of what is in use */

static uint64_t chunk_bytes(const struct fth_pack *pack) {
    return FTH_ROW_CHUNK * (uint64_t)pack->stride * sizeof(float);
}

void fth_pack_plan_ahead(struct fth_pack *pack) {
    uint64_t next = atomic_load_explicit(&pack->next_chunk, memory_order_relaxed);
    uint64_t made = pack->chunks_seen ? next - pack->chunks_seen : 0;
    uint64_t page = PAGE / chunk_bytes(pack) + 1, most = MOST / chunk_bytes(pack) + 1;
    pack->chunks_seen = (uint32_t)next;
    pack->touch_from = pack->touch_to;
    if (made > most / 2)
        made = most / 2;
    /* Small tables are not worth a page. */
    if (made == 0 || next < page || pack->touch_to >= next + made)
        return;
    uint64_t to = next + 2 * made + page, last = pack->max_rows / FTH_ROW_CHUNK;
    if (pack->touch_from < next)
        pack->touch_from = next;
    pack->touch_to = to < last ? to : last;
    if (pack->touch_to > pack->touch_from)
        atomic_store_explicit(&pack->touch_wanted, 1, memory_order_relaxed);
    else
        pack->touch_to = pack->touch_from;
}

static void touch(struct fth_pack *pack) {
    if (!atomic_load_explicit(&pack->touch_wanted, memory_order_relaxed) ||
        !atomic_exchange_explicit(&pack->touch_wanted, 0, memory_order_relaxed))
        return;
    size_t row = (size_t)pack->touch_from * FTH_ROW_CHUNK;
    size_t rows = (size_t)(pack->touch_to - pack->touch_from) * FTH_ROW_CHUNK;
    fth_region_touch(fth_pack_row(pack, (uint32_t)row), rows * pack->stride * sizeof(float));
    if (pack->metas)
        fth_region_touch(pack->metas + row, rows * sizeof *pack->metas);
}

void fth_embedding_beside(void *ctx) {
    struct fth_embedding *embedding = ctx;
    for (uint32_t p = 0; p < embedding->n_packs; p++)
        touch(&embedding->packs[p]);
}
