/* The losses that fathom train writes: line N is step N's. A file is left as it is until the first step of this run is
 * made: a start that is refused loses nothing, and a resumed run keeps the lines of the steps before it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

/* Standard output or error, where the path is that: as `-`, or as a name of the file that it goes to, whose end is the
 * stream's to know. Else -1. */
static int standard(const char *path) {
    struct stat there, stream;
    if (strcmp(path, "-") == 0)
        return STDOUT_FILENO;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (stat(path, &there) == 0 && fstat(fd, &stream) == 0 && S_ISREG(there.st_mode) &&
            there.st_dev == stream.st_dev && there.st_ino == stream.st_ino)
            return fd;
    return -1;
}

/* Locked for as long as it is open: of two runs the second is refused, and so is one that opened the file just before a
 * run without steps took it away again. */
static int lock_file(int file, const char *path) {
    struct stat own, there;
    return (flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) && fstat(file, &own) == 0 &&
           stat(path, &there) == 0 && own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

int cli_losses_open(struct cli_losses *losses, const char *path) {
    struct stat there, link;
    int stream = standard(path);
    *losses = (struct cli_losses){.path = path};
    if (stream < 0 && !cli_may_write("train", path))
        return 0;
    int regular = stream < 0 && (stat(path, &there) != 0 || S_ISREG(there.st_mode));
    int made = stream < 0 && lstat(path, &link) != 0;
    int file = stream < 0 ? open(path, (regular ? O_RDWR : O_WRONLY) | O_CREAT | O_CLOEXEC, 0666) : dup(stream);
    int own = file >= 0 && (!regular || lock_file(file, path));
    *losses = (struct cli_losses){.path = path, .keeps = regular, .made = made};
    losses->file = own ? fdopen(file, regular ? "r+" : "w") : NULL;
    if (losses->file)
        return 1;
    fprintf(stderr, "fathom train: cannot write %s: %s\n", path,
            file < 0 || own ? strerror(errno) : "another run is writing it; wait for its end, or name another file");
    if (file >= 0)
        close(file);
    return 0;
}

/* Keeps the first `steps` whole lines. Fewer are there after a crash, whose last losses were not written any more, and
 * in a file that another run did not begin: the others are 'nan'. */
static void keep_lines(struct cli_losses *losses, uint64_t steps) {
    uint64_t lines = 0;
    off_t bytes = 0, end = 0;
    for (int c; lines < steps && (c = getc(losses->file)) != EOF;) {
        bytes++;
        if (c == '\n') {
            lines++;
            end = bytes;
        }
    }
    if (fseeko(losses->file, end, SEEK_SET) != 0 || ftruncate(fileno(losses->file), end) != 0) {
        losses->error = errno;
        return;
    }
    if (lines < steps)
        fprintf(stderr, "fathom train: warning: %s has the losses of %" PRIu64 " of the %" PRIu64
                        " steps before: 'nan' stands for the others, so that line N is step N's\n",
                losses->path, lines, steps);
    for (; lines < steps; lines++)
        fputs("nan\n", losses->file);
}

void cli_losses_put(struct cli_losses *losses, uint64_t step, double loss) {
    if (!losses->begun && losses->keeps)
        keep_lines(losses, step - 1);
    losses->begun = 1;
    if (!losses->error && fprintf(losses->file, "%.9g\n", loss) < 0)
        losses->error = errno;
}

void cli_losses_flush(struct cli_losses *losses) {
    if (losses->file && losses->begun && fflush(losses->file) != 0 && !losses->error)
        losses->error = errno;
}

int cli_losses_close(struct cli_losses *losses) {
    if (!losses->file)
        return CLI_OK;
    cli_losses_flush(losses);
    if (!losses->begun && losses->made) /* under the lock: a run that opened it meanwhile is refused */
        unlink(losses->path);
    if (fclose(losses->file) != 0 && !losses->error)
        losses->error = errno;
    if (!losses->error)
        return CLI_OK;
    fprintf(stderr, "fathom train: cannot write %s: %s\n", losses->path, strerror(losses->error));
    return CLI_FAILURE;
}
