/* What every user of files needs, over any table of functions: see io/io.h. Stateless; any thread. */
#include "io/io.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

fth_status fth_io_error(fth_error *err, const char *what, const char *path, int64_t result) {
    char buffer[128];
    const char *reason = strerror_r((int)-result, buffer, sizeof buffer);
    size_t n = strlen(path), most = 800; /* of a path as long as can be the reason must be left */
    return fth_fail(err, result == -ENOMEM ? FTH_E_MEMORY : FTH_E_IO, "cannot %s %s%s: %s", what, n > most ? "..." : "",
                    n > most ? path + n - most : path, reason);
}

static fth_status no_memory(fth_error *err, const char *path) {
    return fth_fail(err, FTH_E_MEMORY, "no memory for %s", path);
}

fth_status fth_io_read(const struct fth_io *io, int file, const char *path, void *bytes, size_t n,
                       size_t *got, fth_error *err) {
    size_t done = 0;
    while (done < n) {
        int64_t result = io->read(io->ctx, file, (char *)bytes + done, n - done);
        if (result == 0)
            break;
        if (result == -EINTR)
            continue;
        if (result < 0)
            return fth_io_error(err, "read", path, result);
        done += (size_t)result;
    }
    *got = done;
    return FTH_OK;
}

fth_status fth_io_pread(const struct fth_io *io, int file, const char *path, void *bytes, size_t n,
                        uint64_t offset, fth_error *err) {
    size_t done = 0;
    while (done < n) {
        int64_t result = io->pread(io->ctx, file, (char *)bytes + done, n - done, offset + done);
        if (result == -EINTR)
            continue;
        if (result < 0)
            return fth_io_error(err, "read", path, result);
        if (result == 0)
            return fth_fail(err, FTH_E_IO, "cannot read %s: it ends at byte %llu, %llu were expected",
                            path, (unsigned long long)(offset + done), (unsigned long long)(offset + n));
        done += (size_t)result;
    }
    return FTH_OK;
}

fth_status fth_io_write(const struct fth_io *io, int file, const char *path, const void *bytes,
                        size_t n, fth_error *err) {
    size_t done = 0;
    while (done < n) {
        int64_t result = io->write(io->ctx, file, (const char *)bytes + done, n - done);
        if (result == -EINTR)
            continue;
        /* Nothing written and no reason given: going on could last for ever. */
        if (result <= 0)
            return fth_io_error(err, "write", path, result ? result : -EIO);
        done += (size_t)result;
    }
    return FTH_OK;
}

static int sync_file(const struct fth_io *io, int file) {
    int result;
    do
        result = io->fsync(io->ctx, file);
    while (result == -EINTR);
    return result;
}

static int open_file(const struct fth_io *io, const char *path, enum fth_io_mode mode) {
    int result;
    do
        result = io->open(io->ctx, path, mode);
    while (result == -EINTR);
    return result;
}

fth_status fth_io_sync_close(const struct fth_io *io, int file, const char *path, fth_error *err) {
    int synced = sync_file(io, file);
    int closed = io->close(io->ctx, file);
    if (synced < 0)
        return fth_io_error(err, "write (fsync)", path, synced);
    if (closed < 0)
        return fth_io_error(err, "write (close)", path, closed);
    return FTH_OK;
}

/* Reads to the end into *bytes, at first of `capacity` bytes; grows by half, so that pipes and files whose
 * size is not known cost constant time a byte. */
static fth_status read_all(const struct fth_io *io, int file, const char *path, size_t limit,
                           size_t capacity, char **bytes, size_t *n, fth_error *err) {
    size_t used = 0, got;
    for (;;) {
        char *larger = fth_alloc(capacity + 1, 1);
        if (!larger)
            return no_memory(err, path);
        if (used)
            memcpy(larger, *bytes, used);
        fth_free(*bytes);
        *bytes = larger;
        FTH_TRY(fth_io_read(io, file, path, *bytes + used, capacity - used, &got, err));
        used += got;
        if (used > limit)
            return fth_fail(err, FTH_E_LIMIT, "%s is longer than the %llu bytes allowed here", path,
                            (unsigned long long)limit);
        if (used < capacity)
            break;
        size_t more = capacity / 2 + 4096;
        capacity = more < limit + 1 - capacity ? capacity + more : limit + 1;
    }
    (*bytes)[used] = 0;
    *n = used;
    return FTH_OK;
}

fth_status fth_io_read_file(const struct fth_io *io, const char *path, size_t limit, char **bytes,
                            size_t *n, fth_error *err) {
    struct fth_io_stat found;
    if (limit > SIZE_MAX / 4)
        limit = SIZE_MAX / 4;
    int result = io->stat(io->ctx, path, &found);
    if (result >= 0 && found.kind == FTH_IO_DIRECTORY)
        result = -EISDIR;
    int file = result < 0 ? result : open_file(io, path, FTH_IO_READ);
    if (file < 0)
        return fth_io_error(err, "open", path, file);
    /* One byte more than there should be: a read that does not fill it has seen the end. */
    uint64_t expected = found.kind == FTH_IO_FILE ? found.size : 4096;
    char *read = NULL;
    size_t length = 0;
    fth_status status = read_all(io, file, path, limit, expected < limit ? expected + 1 : limit + 1,
                                 &read, &length, err);
    io->close(io->ctx, file);
    if (status != FTH_OK) {
        fth_free(read);
        return status;
    }
    *bytes = read;
    *n = length;
    return FTH_OK;
}

fth_status fth_io_check_file(const struct fth_io *io, const char *path, fth_error *err) {
    struct fth_io_stat found;
    int result = io->stat(io->ctx, path, &found);
    if (result < 0)
        return fth_io_error(err, "open", path, result);
    if (found.kind == FTH_IO_FILE)
        return FTH_OK;
    return fth_fail(err, FTH_E_IO, "cannot read %s: it is a %s where a file should be", path,
                    found.kind == FTH_IO_DIRECTORY ? "directory" : "pipe or device");
}

fth_status fth_io_sync_dir(const struct fth_io *io, const char *path, fth_error *err) {
    int file = open_file(io, path, FTH_IO_READ);
    if (file == -EACCES) /* names may be made there, not read: its file system says when they last */
        return FTH_OK;
    if (file < 0)
        return fth_io_error(err, "open directory", path, file);
    int synced = sync_file(io, file), closed = io->close(io->ctx, file);
    if (synced == -EINVAL || synced == -ENOTSUP) /* a file system that has no such thing */
        synced = 0;
    if (synced < 0)
        return fth_io_error(err, "write (fsync)", path, synced);
    return closed < 0 ? fth_io_error(err, "write (close)", path, closed) : FTH_OK;
}

/* The directory that holds `path`: its bytes up to the last name, "." when there is only a name. */
static size_t parent_length(const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    while (n > 1 && path[n - 1] == '/')
        n--;
    return n;
}

fth_status fth_io_sync_parent(const struct fth_io *io, const char *path, fth_error *err) {
    struct fth_text parent = {0};
    size_t n = parent_length(path);
    fth_text_append(&parent, n ? path : ".", n ? n : 1);
    fth_status status = parent.failed ? no_memory(err, path)
                                      : fth_io_sync_dir(io, fth_text_get(&parent), err);
    fth_text_free(&parent);
    return status;
}

static fth_status write_partial(const struct fth_io *io, const char *partial, const char *path,
                                const void *bytes, size_t n, fth_error *err) {
    int file = open_file(io, partial, FTH_IO_WRITE);
    if (file < 0)
        return fth_io_error(err, "create", partial, file);
    fth_status status = fth_io_write(io, file, partial, bytes, n, err);
    if (status != FTH_OK) {
        io->close(io->ctx, file);
        return status;
    }
    FTH_TRY(fth_io_sync_close(io, file, partial, err));
    int result = io->rename(io->ctx, partial, path);
    return result < 0 ? fth_io_error(err, "rename the finished file to", path, result) : FTH_OK;
}

fth_status fth_io_write_file_atomic(const struct fth_io *io, const char *path, const void *bytes,
                                    size_t n, fth_error *err) {
    struct fth_text partial = {0};
    fth_text_printf(&partial, "%s.partial", path);
    if (partial.failed) {
        fth_text_free(&partial);
        return no_memory(err, path);
    }
    fth_status status = write_partial(io, fth_text_get(&partial), path, bytes, n, err);
    if (status != FTH_OK)
        io->unlink(io->ctx, fth_text_get(&partial));
    fth_text_free(&partial);
    return status == FTH_OK ? fth_io_sync_parent(io, path, err) : status;
}
