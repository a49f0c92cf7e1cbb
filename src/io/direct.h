/* A file read in order past the operating system's page cache, ahead of who reads it: requests are always on their way
 * from the disk into memory of huge pages (Linux's O_DIRECT and asynchronous I/O), so that reading costs a copy, and the
 * file takes no memory that other pages would have.
 *
 * Threads: one at a time. Memory: FTH_DIRECT_REQUESTS requests of FTH_DIRECT_BYTES. */
#ifndef FTH_IO_DIRECT_H
#define FTH_IO_DIRECT_H

#include <stddef.h>
#include <stdint.h>

#define FTH_DIRECT_BYTES ((uint64_t)1 << 20)
#define FTH_DIRECT_REQUESTS 8

typedef struct fth_direct fth_direct;

/* Of the open regular file `file`, which stays the caller's. NULL: it cannot be read so, as its file system, the kernel's
 * limits or memory have it; nothing is wrong then. Owned: fth_direct_close. */
fth_direct *fth_direct_open(int file);

/* Up to n bytes at `offset`, which goes on where the last call ended; elsewhere the requests begin anew. 0: the end of the
 * file as it was when it was opened. -EAGAIN, only without `wait`: they are still on their way. Another -errno: the file
 * cannot be read on so; what is wrong with it, if anything is, an ordinary read says. */
int64_t fth_direct_read(fth_direct *direct, void *bytes, size_t n, uint64_t offset, int wait);

void fth_direct_close(fth_direct *direct); /* NULL-safe; waits for what is on its way */

#endif
