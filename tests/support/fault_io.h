/* Files that fail on request, over the real ones: full disks, I/O errors, short reads and writes,
 * interrupted calls, and a process (or machine) that stops after n operations.
 *
 *   struct fault_io *fault = fault_io_create(fth_io_posix());
 *   fault->write_at = 3; fault->write_error = ENOSPC;      the third write and all later ones fail
 *   code_under_test(&fault->io);
 *
 * Set the plan before use and read the counters after; in between any thread may use `io`. */
#ifndef FAULT_IO_H
#define FAULT_IO_H

#include "io/io.h"

struct fault_io {
    struct fth_io io; /* what to hand to the code under test */

    /* The plan; 0 is off everywhere, and operations count from 1. */
    uint64_t write_at, fsync_at, read_at; /* the first operation of its kind to fail */
    int write_error, fsync_error, read_error; /* errno */
    int once;            /* only that one fails; else every one from there on (a disk stays full) */
    size_t short_writes; /* at most so many bytes a write */
    size_t short_reads;
    uint64_t interrupt_every; /* every n-th read, write and fsync gives EINTR, then works */
    /* After so many operations that change something (open for writing, write, fsync, rename, unlink, mkdir,
     * rmdir) nothing happens any more: every call gives EIO, as to a process that is dead. A write that is
     * cut off so leaves half of its bytes. */
    uint64_t crash_after;
    /* At the crash bytes that were not fsynced are lost, as in a power failure. */
    int lose_unsynced;

    /* What happened. */
    uint64_t reads, writes, fsyncs, changes;
    int crashed;

    struct fault_state *state;
};

struct fault_io *fault_io_create(const struct fth_io *under);
/* Closes what the code under test left open after a crash. */
void fault_io_destroy(struct fault_io *fault);
/* Files the code under test has open now: 0 when it cleans up. */
unsigned fault_io_open_files(const struct fault_io *fault);

/* A fresh directory for a test, and its removal with everything in it. */
char *scratch_create(void); /* owned: give to scratch_remove */
void scratch_remove(char *path);
/* directory/name, in one of a few static buffers (good for some four uses at a time). */
const char *scratch_path(const char *directory, const char *name);

#endif
