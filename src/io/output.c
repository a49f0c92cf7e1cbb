/* What may be written over: see fathom/tools.h. Stateless. access() alone would allow root what nobody may write. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fathom/tools.h"
#include "io/io.h"

#define ANYBODY_WRITES (S_IWUSR | S_IWGRP | S_IWOTH)

fth_status fth_check_output(const char *path, fth_error *err) {
    struct stat there;
    if (!path)
        return fth_fail_null(err, "fth_check_output", "path");
    if (stat(path, &there) != 0)
        return FTH_OK;
    if (S_ISDIR(there.st_mode))
        return fth_io_error(err, "write", path, -EISDIR);
    if (!S_ISREG(there.st_mode) || ((there.st_mode & ANYBODY_WRITES) && access(path, W_OK) == 0))
        return FTH_OK;
    if ((there.st_mode & ANYBODY_WRITES) && errno != EACCES)
        return fth_io_error(err, "write", path, -errno);
    return fth_fail(err, FTH_E_IO,
                    "cannot write %.800s: it is there and read-only; allow it (chmod u+w), remove it, or name another file", path);
}
