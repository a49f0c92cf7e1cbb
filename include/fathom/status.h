/* Status codes and error messages: what every function that can fail returns and fills.
 *
 * Threads: a fth_error belongs to one caller at a time; nothing here has global state. */
#ifndef FATHOM_STATUS_H
#define FATHOM_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(FTH_BUILDING)
#define FTH_API __attribute__((visibility("default")))
#else
#define FTH_API
#endif

/* 0 is success; every failure is negative and must be checked. */
typedef enum fth_status {
    FTH_OK = 0,
    FTH_E_ARGUMENT = -1,    /* a caller's argument is out of its documented range, or NULL where it must not be */
    FTH_E_MEMORY = -2,      /* an allocation failed, or a thread could not be started */
    FTH_E_IO = -3,          /* the operating system refused a file operation */
    FTH_E_CONFIG = -4,      /* the configuration is wrong: unknown key, type, combination */
    FTH_E_DATA = -5,        /* input data is malformed */
    FTH_E_CHECKPOINT = -6,  /* a checkpoint is damaged, foreign or does not fit */
    FTH_E_UNSUPPORTED = -7, /* this machine or build cannot do it */
    FTH_E_LIMIT = -8,       /* a configured byte cap would be exceeded */
    FTH_E_INTERRUPTED = -9, /* stopped by request (fth_session_interrupt) */
    FTH_E_NUMERIC = -10,    /* the loss became infinite or not a number */
} fth_status;

/* The first detector of a failure writes code, value and place; a caller adds at most one frame in
 * front. Owned by the caller; no cleanup needed. A NULL fth_error * is accepted everywhere. */
typedef struct fth_error {
    fth_status code;
    char message[1024]; /* always NUL-terminated, no newline at the end */
} fth_error;

/* A short name such as "data error", never NULL. */
FTH_API const char *fth_status_name(fth_status status);

#ifdef __cplusplus
}
#endif
#endif
