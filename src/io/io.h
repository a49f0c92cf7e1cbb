/* Files through a table of functions, so that tests can put failures beneath everything that reads or
 * writes: data/ reads its input with it, checkpoint/ and the tiers of store/ write with it.
 *
 * The table's functions are thin: they return >= 0, or -errno, and may do less than asked (short reads and
 * writes, -EINTR). The helpers below do the whole job, and say which path and why when they fail.
 *
 * Threads: every function may be called from any thread; one file belongs to one thread at a time, other
 * than for pread. */
#ifndef FTH_IO_IO_H
#define FTH_IO_IO_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory.h"

enum fth_io_mode {
    FTH_IO_READ,   /* an existing file or directory */
    FTH_IO_STREAM, /* an existing file; opening and reading never wait: a pipe gives -EAGAIN while there is nothing and,
                    * before a writer has come, 0 as at its end: poll first */
    FTH_IO_WRITE,  /* created when it is not there, emptied when it is */
    FTH_IO_NEW     /* created; -EEXIST when it is there */
};

enum fth_io_kind { FTH_IO_FILE, FTH_IO_DIRECTORY, FTH_IO_OTHER /* pipe, device, socket */ };

struct fth_io_stat {
    enum fth_io_kind kind;
    uint64_t size; /* bytes, of a file */
    int64_t modified; /* in seconds: some file systems forget the rest of them */
};

/* `file` is what open returned (>= 0), to be given to close once. Paths are borrowed for the call. */
struct fth_io {
    void *ctx;
    int (*open)(void *ctx, const char *path, enum fth_io_mode mode);
    int64_t (*read)(void *ctx, int file, void *bytes, size_t n); /* 0: the end */
    int64_t (*pread)(void *ctx, int file, void *bytes, size_t n, uint64_t offset);
    /* As pread, of what is in memory: -EAGAIN where it would have to wait. NULL: nothing is known to be. */
    int64_t (*pread_now)(void *ctx, int file, void *bytes, size_t n, uint64_t offset);
    int64_t (*write)(void *ctx, int file, const void *bytes, size_t n);
    int (*fsync)(void *ctx, int file); /* of a directory too: makes its names durable */
    /* Asks for these bytes to be on their way to the disk, without waiting for them: a hint, so that a later fsync has less
     * to wait for. NULL: none is given. */
    void (*start_sync)(void *ctx, int file, uint64_t offset, uint64_t n);
    int (*close)(void *ctx, int file); /* the file is closed even when this fails */
    int (*rename)(void *ctx, const char *from, const char *to); /* replaces a file at `to` */
    int (*unlink)(void *ctx, const char *path);
    int (*mkdir)(void *ctx, const char *path);
    int (*rmdir)(void *ctx, const char *path);
    int (*stat)(void *ctx, const char *path, struct fth_io_stat *out);
    int (*fstat)(void *ctx, int file, struct fth_io_stat *out);
    /* Calls `each` with every name in the directory but . and .., in no order; stops with its first
     * result that is not 0 and returns it. */
    int (*list)(void *ctx, const char *path, int (*each)(void *arg, const char *name), void *arg);
};

/* The operating system's files; `file` is the descriptor, so that standard input is file 0. */
const struct fth_io *fth_io_posix(void);

/* FTH_E_IO (FTH_E_MEMORY for -ENOMEM) with "cannot <what> <path>: <reason>". */
fth_status fth_io_error(fth_error *err, const char *what, const char *path, int64_t result);

/* `path` in the following only names the file in messages where `file` is given. */

/* Reads until `n` bytes are there or the file ends; *got < n means the end. */
fth_status fth_io_read(const struct fth_io *io, int file, const char *path, void *bytes, size_t n,
                       size_t *got, fth_error *err);
/* Exactly n bytes at `offset`; FTH_E_IO when the file ends before. */
fth_status fth_io_pread(const struct fth_io *io, int file, const char *path, void *bytes, size_t n,
                        uint64_t offset, fth_error *err);
fth_status fth_io_write(const struct fth_io *io, int file, const char *path, const void *bytes,
                        size_t n, fth_error *err);
/* fsync, then close; closes in any case. */
fth_status fth_io_sync_close(const struct fth_io *io, int file, const char *path, fth_error *err);

/* The whole file, with a NUL behind it that *n does not count. FTH_E_LIMIT when it is longer than `limit`
 * bytes. *bytes owned: fth_free. */
fth_status fth_io_read_file(const struct fth_io *io, const char *path, size_t limit, char **bytes,
                            size_t *n, fth_error *err);

/* FTH_E_IO unless it is a regular file (or a link to one): a pipe in the place of a file would be waited for, a device
 * might never end. */
fth_status fth_io_check_file(const struct fth_io *io, const char *path, fth_error *err);

/* Writes "<path>.partial" beside, fsyncs it, renames it to `path` and fsyncs the directory: whatever
 * fails or stops in between, `path` is either the old file or the whole new one. A failure removes the
 * partial file when it can. */
fth_status fth_io_write_file_atomic(const struct fth_io *io, const char *path, const void *bytes,
                                    size_t n, fth_error *err);

/* Makes the names in directory `path` durable; sync_parent: in the directory that holds `path`. */
fth_status fth_io_sync_dir(const struct fth_io *io, const char *path, fth_error *err);
fth_status fth_io_sync_parent(const struct fth_io *io, const char *path, fth_error *err);

/* mkdir, with the directories above it that are missing, all durable; one that is there is fine. */
fth_status fth_io_make_dirs(const struct fth_io *io, const char *path, fth_error *err);
/* Removes a file, or a directory with everything in it (links are removed, not followed); what is not
 * there is fine. */
fth_status fth_io_remove(const struct fth_io *io, const char *path, fth_error *err);
/* The names in a directory, sorted bytewise, borrowed from the arena. */
fth_status fth_io_list(const struct fth_io *io, const char *path, fth_arena *arena, char ***names,
                       size_t *n, fth_error *err);

#endif
