/* Whether a file's bytes come through the page cache or past it (io/direct.h): see data.direct_reads.
 *
 * Whose cached bytes are copied fast, as on most machines, is read through it; virtual machines may copy them at a tenth of
 * that speed. So both ways are measured, by the time that reading costs, never by what they should cost. A file that is
 * not in memory, but could be, is read through it, too: the next epoch finds it there. */
#include <errno.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "data/source_private.h"

#define CACHED_WINDOW ((uint64_t)16 << 20)  /* bytes that are read before they are judged */
#define DIRECT_WINDOW ((uint64_t)64 << 20)
#define LEAST_LEFT ((uint64_t)32 << 20)     /* of the file, that reading past it begins at all */
#define SLOW_NS .5                          /* a byte */
#define MARGIN 1.25                         /* so much slower than before it may be */

/* Bytes that this process had the kernel read from disks, ahead of it, too. */
static uint64_t from_disks(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_inblock * 512 : 0;
}

static int64_t read_cached(struct fth_source *source, void *buffer, size_t size) {
    const struct fth_io *io = source->io;
    return (source->now ? io->pread_now : io->pread)(io->ctx, source->file, buffer, size, source->raw_offset);
}

static void give_up(struct fth_source_direct *direct) {
    fth_direct_close(direct->reads);
    direct->reads = NULL;
    direct->mode = FTH_DIRECT_OFF;
}

/* Of the operating system's own files: another table of functions stands for files that are not there. */
static void begin(struct fth_source *source) {
    struct fth_source_direct *direct = &source->direct;
    if (source->io == fth_io_posix())
        direct->reads = fth_direct_open(source->file);
    if (!direct->reads)
        give_up(direct);
}

enum fth_direct_verdict fth_source_judge(const struct fth_source_direct *direct, uint64_t from_disk, uint64_t left,
                                         uint64_t memory) {
    double cost = (double)direct->ns / (double)direct->bytes;
    int in_memory = from_disk < direct->bytes / 4;
    if (direct->reads)
        return cost > MARGIN * direct->cached_cost ? FTH_DIRECT_GIVE_UP : FTH_DIRECT_GO_ON;
    return cost > SLOW_NS && left >= LEAST_LEFT && (in_memory || direct->all_bytes > memory / 2) ? FTH_DIRECT_BEGIN
                                                                                               : FTH_DIRECT_GO_ON;
}

static void judge(struct fth_source *source) {
    struct fth_source_direct *direct = &source->direct;
    uint64_t left = source->raw_offset < source->size ? source->size - source->raw_offset : 0;
    if (direct->mode != FTH_DIRECT_AUTO || direct->bytes < (direct->reads ? DIRECT_WINDOW : CACHED_WINDOW))
        return;
    uint64_t now = from_disks();
    enum fth_direct_verdict verdict =
        fth_source_judge(direct, now - direct->from_disk_before, left, fth_cpu_get()->memory);
    if (verdict == FTH_DIRECT_GIVE_UP)
        give_up(direct);
    if (verdict == FTH_DIRECT_BEGIN) {
        direct->cached_cost = (double)direct->ns / (double)direct->bytes;
        begin(source);
    }
    direct->bytes = direct->ns = 0;
    direct->from_disk_before = now;
}

int64_t fth_source_pread(struct fth_source *source, void *buffer, size_t size) {
    struct fth_source_direct *direct = &source->direct;
    int64_t n = 0;
    /* What is looked at of a file's first bytes is not worth requests. */
    if (direct->mode == FTH_DIRECT_ON && !direct->reads && size > FTH_SOURCE_FIRST_BYTES)
        begin(source);
    uint64_t since = fth_now_ns();
    if (direct->reads) {
        n = fth_direct_read(direct->reads, buffer, size, source->raw_offset, !source->now);
        if (n <= 0 && n != -EAGAIN)
            give_up(direct);
    }
    if (n <= 0 && !direct->reads)
        n = read_cached(source, buffer, size);
    direct->ns += fth_now_ns() - since;
    if (n > 0)
        direct->bytes += (uint64_t)n;
    judge(source);
    return n;
}

int fth_source_is_direct(const struct fth_source *source) {
    return source->direct.reads != NULL;
}

void fth_source_set_direct(struct fth_source *source, int mode, uint64_t all_bytes) {
    source->direct.mode = mode;
    source->direct.all_bytes = all_bytes;
    source->direct.from_disk_before = from_disks();
}
