/* Writing errors, and the three macros that pass them on. */
#ifndef FTH_BASE_ERROR_H
#define FTH_BASE_ERROR_H

#include <stddef.h>

#include "fathom/status.h"

/* Writes code and message; returns code, so that `return fth_fail(err, FTH_E_DATA, ...)` reads well. A message that is too
 * long keeps its beginning and its end. err may be NULL; its message is no argument. */
fth_status fth_fail(fth_error *err, fth_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For public functions. `arguments` names those that must not be NULL. */
fth_status fth_fail_null(fth_error *err, const char *function, const char *arguments);

/* Whether there are n texts, none of them NULL. */
int fth_all_there(const char *const *texts, size_t n);

/* Puts "frame: " in front of the message that is there. What failed has the status: err may be NULL. */
void fth_error_frame(fth_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts a text behind it. */
void fth_error_append(fth_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns from the calling function when the expression fails. */
#define FTH_TRY(expr)                       \
    do {                                    \
        fth_status fth_try_status = (expr); \
        if (fth_try_status != FTH_OK)       \
            return fth_try_status;          \
    } while (0)

/* Sets `status` and jumps to `label` when the expression fails. */
#define FTH_TRY_GOTO(status, expr, label) \
    do {                                  \
        (status) = (expr);                \
        if ((status) != FTH_OK)           \
            goto label;                   \
    } while (0)

/* Runs the expression; keeps the first failure in `status` (for cleanup that can fail). */
#define FTH_KEEP_FIRST(status, expr)         \
    do {                                     \
        fth_status fth_keep_status = (expr); \
        if ((status) == FTH_OK)              \
            (status) = fth_keep_status;      \
    } while (0)

#endif
