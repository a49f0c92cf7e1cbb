/* Files of the operating system: see io/io.h. Stateless. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "io/io.h"

/* -errno for a failed call, else its result. */
static int64_t result_of(int64_t result) { return result < 0 ? -(int64_t)errno : result; }

static int posix_open(void *ctx, const char *path, enum fth_io_mode mode) {
    int flags = O_CLOEXEC | (mode == FTH_IO_READ     ? O_RDONLY
                             : mode == FTH_IO_STREAM ? O_RDONLY | O_NONBLOCK
                             : mode == FTH_IO_WRITE  ? O_WRONLY | O_CREAT | O_TRUNC
                                                     : O_WRONLY | O_CREAT | O_EXCL);
    return (int)result_of(open(path, flags, 0666));
}

static int64_t posix_read(void *ctx, int file, void *bytes, size_t n) {
    return result_of(read(file, bytes, n));
}

static int64_t posix_pread(void *ctx, int file, void *bytes, size_t n, uint64_t offset) {
    if (offset > INT64_MAX)
        return -EINVAL;
    return result_of(pread(file, bytes, n, (off_t)offset));
}

static int64_t posix_pread_now(void *ctx, int file, void *bytes, size_t n, uint64_t offset) {
    if (offset > INT64_MAX)
        return -EINVAL;
    struct iovec into = {bytes, n};
    int64_t result = result_of(preadv2(file, &into, 1, (off_t)offset, RWF_NOWAIT));
    return result == -EOPNOTSUPP || result == -ENOSYS ? -EAGAIN : result;
}

static int64_t posix_write(void *ctx, int file, const void *bytes, size_t n) {
    int64_t result = result_of(write(file, bytes, n));
    if (result != -EAGAIN)
        return result;
    /* A pipe that another program has told not to wait: its reader is slow. */
    struct pollfd room = {.fd = file, .events = POLLOUT};
    (void)poll(&room, 1, -1);
    return -EINTR;
}

static int posix_fsync(void *ctx, int file) { return (int)result_of(fsync(file)); }

static void posix_start_sync(void *ctx, int file, uint64_t offset, uint64_t n) {
    if (offset <= INT64_MAX && n <= INT64_MAX - offset)
        (void)sync_file_range(file, (off_t)offset, (off_t)n, SYNC_FILE_RANGE_WRITE); /* only a hint */
}

static int posix_close(void *ctx, int file) {
    int result = (int)result_of(close(file));
    /* Linux has closed it all the same. */
    return result == -EINTR ? 0 : result;
}

static int posix_rename(void *ctx, const char *from, const char *to) {
    return (int)result_of(rename(from, to));
}

static int posix_unlink(void *ctx, const char *path) { return (int)result_of(unlink(path)); }

static int posix_mkdir(void *ctx, const char *path) { return (int)result_of(mkdir(path, 0777)); }

static int posix_rmdir(void *ctx, const char *path) { return (int)result_of(rmdir(path)); }

static struct fth_io_stat described(const struct stat *found) {
    return (struct fth_io_stat){.kind = S_ISREG(found->st_mode)   ? FTH_IO_FILE
                                        : S_ISDIR(found->st_mode) ? FTH_IO_DIRECTORY
                                                                  : FTH_IO_OTHER,
                                .size = S_ISREG(found->st_mode) ? (uint64_t)found->st_size : 0,
                                .modified = found->st_mtim.tv_sec};
}

static int posix_stat(void *ctx, const char *path, struct fth_io_stat *out) {
    struct stat found;
    if (stat(path, &found) < 0)
        return -errno;
    *out = described(&found);
    return 0;
}

static int posix_fstat(void *ctx, int file, struct fth_io_stat *out) {
    struct stat found;
    if (fstat(file, &found) < 0)
        return -errno;
    *out = described(&found);
    return 0;
}

static int posix_list(void *ctx, const char *path, int (*each)(void *arg, const char *name),
                      void *arg) {
    DIR *directory = opendir(path);
    if (!directory)
        return -errno;
    int result = 0;
    while (result == 0) {
        errno = 0;
        struct dirent *entry = readdir(directory);
        if (!entry) {
            result = -errno;
            break;
        }
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            result = each(arg, entry->d_name);
    }
    closedir(directory);
    return result;
}

const struct fth_io *fth_io_posix(void) {
    static const struct fth_io posix = {
        .open = posix_open, .read = posix_read, .pread = posix_pread, .pread_now = posix_pread_now,
        .write = posix_write,
        .fsync = posix_fsync, .start_sync = posix_start_sync, .close = posix_close, .rename = posix_rename,
        .unlink = posix_unlink, .mkdir = posix_mkdir, .rmdir = posix_rmdir, .stat = posix_stat, .fstat = posix_fstat,
        .list = posix_list};
    return &posix;
}
