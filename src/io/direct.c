/* Reading past the page cache: see direct.h. Request number i of a file has place i mod FTH_DIRECT_REQUESTS. */
#include "io/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"

#define MEMORY_BYTES (FTH_DIRECT_REQUESTS * FTH_DIRECT_BYTES)
#define NO_REQUEST UINT64_MAX

struct request {
    uint64_t number; /* NO_REQUEST: none */
    int64_t result;  /* bytes, or -errno; once it is no longer on its way */
    int on_its_way;
};

struct fth_direct {
    aio_context_t context;
    int file;
    uint64_t size; /* of the file */
    char *memory;
    struct request requests[FTH_DIRECT_REQUESTS];
    int n_on_their_way;
};

static void ask(fth_direct *direct, uint64_t number) {
    uint64_t place = number % FTH_DIRECT_REQUESTS;
    struct request *request = &direct->requests[place];
    *request = (struct request){.number = NO_REQUEST};
    if (number * FTH_DIRECT_BYTES >= direct->size)
        return;
    struct iocb control = {.aio_data = place,
                           .aio_lio_opcode = IOCB_CMD_PREAD,
                           .aio_fildes = (uint32_t)direct->file,
                           .aio_buf = (uintptr_t)(direct->memory + place * FTH_DIRECT_BYTES),
                           .aio_nbytes = FTH_DIRECT_BYTES,
                           .aio_offset = (int64_t)(number * FTH_DIRECT_BYTES)},
                *controls[] = {&control};
    long submitted = syscall(SYS_io_submit, direct->context, 1, controls);
    request->number = number;
    request->on_its_way = submitted == 1;
    request->result = submitted == 1 ? 0 : submitted < 0 ? -errno : -EIO;
    direct->n_on_their_way += request->on_its_way;
}

/* Takes note of those that have come, at least of `least`. */
static int take_note(fth_direct *direct, long least) {
    struct io_event events[FTH_DIRECT_REQUESTS];
    struct timespec none = {0};
    long n;
    do
        n = syscall(SYS_io_getevents, direct->context, least, (long)FTH_DIRECT_REQUESTS, events, least ? NULL : &none);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    for (long e = 0; e < n; e++) {
        direct->requests[events[e].data].on_its_way = 0;
        direct->requests[events[e].data].result = events[e].res;
    }
    direct->n_on_their_way -= (int)n;
    return 0;
}

static int begin(fth_direct *direct, uint64_t number) {
    while (direct->n_on_their_way > 0) {
        int result = take_note(direct, direct->n_on_their_way);
        if (result < 0)
            return result;
    }
    for (uint64_t i = 0; i < FTH_DIRECT_REQUESTS; i++)
        ask(direct, number + i);
    return 0;
}

fth_direct *fth_direct_open(int file) {
    char path[64];
    struct stat found;
    fth_direct *direct = fth_alloc(1, sizeof *direct);
    if (!direct)
        return NULL;
    for (int i = 0; i < FTH_DIRECT_REQUESTS; i++)
        direct->requests[i].number = NO_REQUEST;
    /* The same file, even where another one has its name by now. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    direct->file = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK);
    direct->memory = fth_region_alloc(MEMORY_BYTES);
    if (direct->file < 0 || fstat(direct->file, &found) < 0 || !S_ISREG(found.st_mode) || !direct->memory ||
        syscall(SYS_io_setup, FTH_DIRECT_REQUESTS, &direct->context) < 0) {
        fth_direct_close(direct);
        return NULL;
    }
    direct->size = (uint64_t)found.st_size;
    return direct;
}

int64_t fth_direct_read(fth_direct *direct, void *bytes, size_t n, uint64_t offset, int wait) {
    uint64_t number = offset / FTH_DIRECT_BYTES, from = offset % FTH_DIRECT_BYTES;
    struct request *request = &direct->requests[number % FTH_DIRECT_REQUESTS];
    int result = 0;
    if (offset >= direct->size)
        return 0;
    if (request->number != number)
        result = begin(direct, number);
    if (result == 0 && request->on_its_way)
        result = take_note(direct, 0);
    while (result == 0 && request->on_its_way && wait)
        result = take_note(direct, 1);
    if (result < 0)
        return result;
    if (request->on_its_way)
        return -EAGAIN;
    if (request->result < 0)
        return request->result;
    if ((uint64_t)request->result <= from)
        return -EIO; /* it has become shorter */
    uint64_t left = (uint64_t)request->result - from;
    n = n < left ? n : (size_t)left;
    memcpy(bytes, direct->memory + (number % FTH_DIRECT_REQUESTS) * FTH_DIRECT_BYTES + from, n);
    if (from + n == FTH_DIRECT_BYTES)
        ask(direct, number + FTH_DIRECT_REQUESTS);
    return (int64_t)n;
}

void fth_direct_close(fth_direct *direct) {
    if (!direct)
        return;
    if (direct->context)
        syscall(SYS_io_destroy, direct->context); /* returns when nothing is on its way */
    fth_region_free(direct->memory, MEMORY_BYTES);
    if (direct->file >= 0)
        close(direct->file);
    fth_free(direct);
}
