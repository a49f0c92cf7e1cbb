/* See fault_io.h. One mutex around every call, as tests are not about speed. */
#include "fault_io.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 64, LOSSES = 256, PATH = 512 };

struct fault_state {
    const struct fth_io *under;
    pthread_mutex_t mutex;
    uint64_t interrupts;
    struct {
        int used, file;
        char path[PATH]; /* follows renames */
        uint64_t written, synced;
    } files[FILES];
    /* Closed files with bytes that were never fsynced. */
    struct {
        char path[PATH];
        uint64_t synced;
    } losses[LOSSES];
    unsigned n_losses;
};

static void lock(struct fault_io *fault) { pthread_mutex_lock(&fault->state->mutex); }

static int64_t unlock(struct fault_io *fault, int64_t result) {
    pthread_mutex_unlock(&fault->state->mutex);
    return result;
}

static void must(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "fault_io: %s\n", what);
        abort();
    }
}

static int find_file(struct fault_state *state, int file) {
    for (int i = 0; i < FILES; i++)
        if (state->files[i].used && state->files[i].file == file)
            return i;
    return -1;
}

static void lose(const char *path, uint64_t synced) {
    /* The name may be gone already; what is lost then is not there to lose. */
    if (truncate(path, (off_t)synced) != 0)
        must(errno == ENOENT, "truncate");
}

static void crash(struct fault_io *fault) {
    struct fault_state *state = fault->state;
    fault->crashed = 1;
    if (!fault->lose_unsynced)
        return;
    for (int i = 0; i < FILES; i++)
        if (state->files[i].used && state->files[i].written > state->files[i].synced)
            lose(state->files[i].path, state->files[i].synced);
    for (unsigned i = 0; i < state->n_losses; i++)
        lose(state->losses[i].path, state->losses[i].synced);
}

/* 1 when a change may go on; 0 when the crash comes before it. */
static int may_change(struct fault_io *fault) {
    if (fault->crash_after && fault->changes >= fault->crash_after && !fault->crashed)
        crash(fault);
    if (fault->crashed)
        return 0;
    fault->changes++;
    return 1;
}

static int interrupted(struct fault_io *fault) {
    return fault->interrupt_every && ++fault->state->interrupts % fault->interrupt_every == 0;
}

static int fails(const struct fault_io *fault, uint64_t count, uint64_t at) {
    return at && (fault->once ? count == at : count >= at);
}

static void forget_losses(struct fault_state *state, const char *path) {
    for (unsigned i = 0; i < state->n_losses;)
        if (!strcmp(state->losses[i].path, path))
            state->losses[i] = state->losses[--state->n_losses];
        else
            i++;
}

static int changes_files(enum fth_io_mode mode) { return mode != FTH_IO_READ && mode != FTH_IO_STREAM; }

static int fault_open(void *ctx, const char *path, enum fth_io_mode mode) {
    struct fault_io *fault = ctx;
    struct fault_state *state = fault->state;
    lock(fault);
    if (fault->crashed || (changes_files(mode) && !may_change(fault)))
        return (int)unlock(fault, -EIO);
    int file = state->under->open(state->under->ctx, path, mode);
    if (file >= 0) {
        int i = 0;
        while (i < FILES && state->files[i].used)
            i++;
        must(i < FILES && strlen(path) < PATH, "too many files or too long a path");
        state->files[i].used = 1;
        state->files[i].file = file;
        state->files[i].written = state->files[i].synced = 0;
        strcpy(state->files[i].path, path);
        if (changes_files(mode))
            forget_losses(state, path);
    }
    return (int)unlock(fault, file);
}

static int64_t before_read(struct fault_io *fault, size_t *n) {
    if (fault->crashed)
        return -EIO;
    if (interrupted(fault))
        return -EINTR;
    if (fails(fault, ++fault->reads, fault->read_at))
        return -fault->read_error;
    if (fault->short_reads && *n > fault->short_reads)
        *n = fault->short_reads;
    return 0;
}

static int64_t fault_read(void *ctx, int file, void *bytes, size_t n) {
    struct fault_io *fault = ctx;
    const struct fth_io *under = fault->state->under;
    lock(fault);
    int64_t result = before_read(fault, &n);
    return unlock(fault, result < 0 ? result : under->read(under->ctx, file, bytes, n));
}

static int64_t fault_pread(void *ctx, int file, void *bytes, size_t n, uint64_t offset) {
    struct fault_io *fault = ctx;
    const struct fth_io *under = fault->state->under;
    lock(fault);
    int64_t result = before_read(fault, &n);
    return unlock(fault, result < 0 ? result : under->pread(under->ctx, file, bytes, n, offset));
}

static int64_t write_part(struct fault_io *fault, int file, const void *bytes, size_t n) {
    struct fault_state *state = fault->state;
    int64_t result = state->under->write(state->under->ctx, file, bytes, n);
    int i = find_file(state, file);
    if (result > 0 && i >= 0)
        state->files[i].written += (uint64_t)result;
    return result;
}

static int64_t fault_write(void *ctx, int file, const void *bytes, size_t n) {
    struct fault_io *fault = ctx;
    lock(fault);
    if (fault->crashed)
        return unlock(fault, -EIO);
    if (interrupted(fault))
        return unlock(fault, -EINTR);
    if (fault->crash_after && fault->changes >= fault->crash_after) {
        write_part(fault, file, bytes, n / 2);
        crash(fault);
        return unlock(fault, -EIO);
    }
    fault->changes++;
    if (fails(fault, ++fault->writes, fault->write_at))
        return unlock(fault, -fault->write_error);
    if (fault->short_writes && n > fault->short_writes)
        n = fault->short_writes;
    return unlock(fault, write_part(fault, file, bytes, n));
}

static int fault_fsync(void *ctx, int file) {
    struct fault_io *fault = ctx;
    struct fault_state *state = fault->state;
    lock(fault);
    if (fault->crashed)
        return (int)unlock(fault, -EIO);
    if (interrupted(fault))
        return (int)unlock(fault, -EINTR);
    if (!may_change(fault))
        return (int)unlock(fault, -EIO);
    if (fails(fault, ++fault->fsyncs, fault->fsync_at))
        return (int)unlock(fault, -fault->fsync_error);
    int result = state->under->fsync(state->under->ctx, file);
    int i = find_file(state, file);
    if (result == 0 && i >= 0)
        state->files[i].synced = state->files[i].written;
    return (int)unlock(fault, result);
}

static int fault_close(void *ctx, int file) {
    struct fault_io *fault = ctx;
    struct fault_state *state = fault->state;
    lock(fault);
    int i = find_file(state, file);
    must(i >= 0, "close of a file that is not open");
    if (state->files[i].written > state->files[i].synced && !fault->crashed) {
        must(state->n_losses < LOSSES, "too many files that were not fsynced");
        strcpy(state->losses[state->n_losses].path, state->files[i].path);
        state->losses[state->n_losses++].synced = state->files[i].synced;
    }
    state->files[i].used = 0;
    return (int)unlock(fault, state->under->close(state->under->ctx, file));
}

/* `path` below `from` (or `from` itself) becomes the same below `to`. */
static void move_path(char *path, const char *from, const char *to) {
    size_t n = strlen(from);
    char moved[2 * PATH];
    if (strncmp(path, from, n) || (path[n] && path[n] != '/'))
        return;
    snprintf(moved, sizeof moved, "%s%s", to, path + n);
    must(strlen(moved) < PATH, "too long a path");
    strcpy(path, moved);
}

static int fault_rename(void *ctx, const char *from, const char *to) {
    struct fault_io *fault = ctx;
    struct fault_state *state = fault->state;
    lock(fault);
    if (!may_change(fault))
        return (int)unlock(fault, -EIO);
    int result = state->under->rename(state->under->ctx, from, to);
    if (result == 0) {
        forget_losses(state, to);
        for (int i = 0; i < FILES; i++)
            if (state->files[i].used)
                move_path(state->files[i].path, from, to);
        for (unsigned i = 0; i < state->n_losses; i++)
            move_path(state->losses[i].path, from, to);
    }
    return (int)unlock(fault, result);
}

static int fault_unlink(void *ctx, const char *path) {
    struct fault_io *fault = ctx;
    const struct fth_io *under = fault->state->under;
    lock(fault);
    return (int)unlock(fault, may_change(fault) ? under->unlink(under->ctx, path) : -EIO);
}

static int fault_mkdir(void *ctx, const char *path) {
    struct fault_io *fault = ctx;
    const struct fth_io *under = fault->state->under;
    lock(fault);
    return (int)unlock(fault, may_change(fault) ? under->mkdir(under->ctx, path) : -EIO);
}

static int fault_rmdir(void *ctx, const char *path) {
    struct fault_io *fault = ctx;
    const struct fth_io *under = fault->state->under;
    lock(fault);
    return (int)unlock(fault, may_change(fault) ? under->rmdir(under->ctx, path) : -EIO);
}

static int fault_stat(void *ctx, const char *path, struct fth_io_stat *out) {
    struct fault_io *fault = ctx;
    const struct fth_io *under = fault->state->under;
    lock(fault);
    return (int)unlock(fault, fault->crashed ? -EIO : under->stat(under->ctx, path, out));
}

static int fault_fstat(void *ctx, int file, struct fth_io_stat *out) {
    struct fault_io *fault = ctx;
    const struct fth_io *under = fault->state->under;
    lock(fault);
    return (int)unlock(fault, fault->crashed ? -EIO : under->fstat(under->ctx, file, out));
}

/* Not under the lock: `each` may use the table. */
static int fault_list(void *ctx, const char *path, int (*each)(void *arg, const char *name),
                      void *arg) {
    struct fault_io *fault = ctx;
    const struct fth_io *under = fault->state->under;
    lock(fault);
    if (unlock(fault, fault->crashed))
        return -EIO;
    return under->list(under->ctx, path, each, arg);
}

struct fault_io *fault_io_create(const struct fth_io *under) {
    struct fault_io *fault = calloc(1, sizeof *fault);
    must(fault && (fault->state = calloc(1, sizeof *fault->state)), "out of memory");
    fault->state->under = under;
    pthread_mutex_init(&fault->state->mutex, NULL);
    fault->io = (struct fth_io){
        .ctx = fault, .open = fault_open, .read = fault_read, .pread = fault_pread,
        .write = fault_write, .fsync = fault_fsync, .close = fault_close, .rename = fault_rename,
        .unlink = fault_unlink, .mkdir = fault_mkdir, .rmdir = fault_rmdir, .stat = fault_stat, .fstat = fault_fstat,
        .list = fault_list};
    return fault;
}

void fault_io_destroy(struct fault_io *fault) {
    struct fault_state *state = fault->state;
    for (int i = 0; i < FILES; i++)
        if (state->files[i].used)
            state->under->close(state->under->ctx, state->files[i].file);
    pthread_mutex_destroy(&state->mutex);
    free(state);
    free(fault);
}

unsigned fault_io_open_files(const struct fault_io *fault) {
    unsigned n = 0;
    for (int i = 0; i < FILES; i++)
        n += fault->state->files[i].used != 0;
    return n;
}

char *scratch_create(void) {
    const char *base = getenv("TMPDIR");
    char *path = malloc(PATH);
    must(path != NULL, "out of memory");
    snprintf(path, PATH, "%s/fathom-test-XXXXXX", base && *base ? base : "/tmp");
    must(mkdtemp(path) != NULL, "mkdtemp");
    return path;
}

void scratch_remove(char *path) {
    fth_error err = {0};
    if (fth_io_remove(fth_io_posix(), path, &err) != FTH_OK)
        fprintf(stderr, "%s\n", err.message);
    free(path);
}

const char *scratch_path(const char *directory, const char *name) {
    static char paths[8][PATH];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, PATH, "%s/%s", directory, name);
    return path;
}
