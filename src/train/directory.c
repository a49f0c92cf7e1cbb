/* checkpoint.dir, before anything is saved into it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "train/session_private.h"

/* By what the folders are, not by their names: one is seen at several places (bind mounts), by several spellings (file
 * systems that take K for k), or deeper than a path may be long. */
int fth_session_owns_directory(const struct fth_session *session, const char *dir) {
    struct stat there, own;
    char *above = NULL;
    if (!session->checkpoint_path || asprintf(&above, "%s/..", session->checkpoint_path) < 0)
        return 0;
    int same = stat(dir, &there) == 0 && stat(above, &own) == 0 && there.st_dev == own.st_dev && there.st_ino == own.st_ino;
    free(above);
    return same;
}

/* Before hours of training: the directory is there and can be written into. */
static fth_status make_directory(const char *dir, fth_error *err) {
    FTH_TRY(fth_io_make_dirs(fth_io_posix(), dir, err));
    if (access(dir, W_OK | X_OK) != 0)
        return fth_fail(err, FTH_E_IO, "checkpoint.dir: %s cannot be written into: %s", dir,
                        strerror(errno));
    return FTH_OK;
}

/* Two runs that save into one directory would remove each other's unfinished checkpoints. The lock ends with the process,
 * however that ends; a file system without locks has none. */
static fth_status lock_directory(const char *dir, int *lock, fth_error *err) {
    *lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0 || flock(*lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return FTH_OK;
    close(*lock);
    *lock = -1;
    return fth_fail(err, FTH_E_CHECKPOINT,
                    "checkpoint.dir: another run is saving into %s; wait for its end, or name another directory", dir);
}

/* It holds no other run's checkpoints, and no later ones of the same run before it was given other settings or data: the
 * newest would be neither's last. */
static fth_status check_directory(const struct fth_session *session, const char *dir, fth_error *err) {
    int own = fth_session_owns_directory(session, dir);
    uint64_t step;
    char *newest = NULL;
    const char *other = session->other.key;
    if (own && !*other && fth_resume_data_changed(session))
        other = "data.train, whose files have changed";
    if (own && !*other)
        return FTH_OK;
    FTH_TRY(fth_checkpoint_newest(fth_io_posix(), dir, &newest, &step, err));
    fth_status status = FTH_OK;
    if (newest && !own)
        status = fth_fail(err, FTH_E_CHECKPOINT,
                          "checkpoint.dir: %s already holds checkpoints (%s); --resume %s goes on from there, or "
                          "name another directory",
                          dir, newest, dir);
    else if (newest && step > session->step)
        status = fth_fail(err, FTH_E_CHECKPOINT,
                          "checkpoint.dir: %s holds %s, which is later than %s and was trained with another %s; name "
                          "another directory, or remove what is later",
                          dir, newest, session->checkpoint_path, other);
    free(newest);
    return status;
}

/* Nobody asked for another place: the path is seen from another working directory, or the checkpoint was moved. */
static void warn_directory(const struct fth_session *session, const char *dir) {
    const char *from = session->checkpoint_path, *slash = from ? strrchr(from, '/') : NULL;
    if (from && session->same_dir && !fth_session_owns_directory(session, dir))
        fth_log(FTH_LOG_WARN,
                "checkpoint.dir: checkpoints are saved into %s, not where %s lies; checkpoint.dir=%.*s would be there", dir,
                from, slash ? (int)(slash - from) : 1, slash ? from : ".");
}

int fth_session_saves_into(const struct fth_session *session, const char *dir) {
    const char *set = session->config->checkpoint.dir;
    struct stat there, own;
    return !*set || (stat(dir, &there) == 0 && stat(set, &own) == 0 && there.st_dev == own.st_dev &&
                     there.st_ino == own.st_ino);
}

/* The lock of a training that saves there now, from a callback of which this is called. */
static int has_lock(const struct fth_session *session, const char *dir) {
    return session->training && *session->config->checkpoint.dir && fth_session_saves_into(session, dir);
}

fth_status fth_session_lock_directory(const struct fth_session *session, const char *dir, int *lock, fth_error *err) {
    *lock = -1;
    FTH_TRY(fth_io_make_dirs(fth_io_posix(), dir, err));
    return has_lock(session, dir) ? FTH_OK : lock_directory(dir, lock, err);
}

fth_status fth_session_ask_directory(const struct fth_session *session, fth_error *err) {
    const char *dir = session->config->checkpoint.dir;
    fth_status status = *dir ? check_directory(session, dir, err) : FTH_OK;
    return status == FTH_E_CHECKPOINT ? status : FTH_OK; /* a directory that is none is told of when it is to be made */
}

fth_status fth_session_take_directory(struct fth_session *session, int *lock, fth_error *err) {
    const char *dir = session->config->checkpoint.dir;
    if (!*dir)
        return FTH_OK;
    FTH_TRY(make_directory(dir, err));
    FTH_TRY(lock_directory(dir, lock, err));
    FTH_TRY(check_directory(session, dir, err)); /* under the lock: another run may save at any moment before */
    warn_directory(session, dir);
    return FTH_OK;
}

/* Moved or removed while it trains, the directory would be made anew without a lock, and a second run could save there.
 * What is at its path now may hold another run's checkpoints: those are not mixed with these, nor removed as older. */
fth_status fth_session_keep_directory(const struct fth_session *session, int *lock, fth_error *err) {
    const char *dir = session->config->checkpoint.dir;
    struct stat own, there;
    int next = -1;
    if (*lock < 0 || (fstat(*lock, &own) == 0 && stat(dir, &there) == 0 && own.st_dev == there.st_dev &&
                      own.st_ino == there.st_ino))
        return FTH_OK;
    FTH_TRY(make_directory(dir, err));
    FTH_TRY(lock_directory(dir, &next, err));
    close(*lock);
    *lock = next;
    FTH_TRY(check_directory(session, dir, err));
    fth_log(FTH_LOG_WARN, "checkpoint.dir: %s was moved, removed or replaced while training: checkpoints are saved there anew",
            dir);
    return FTH_OK;
}
