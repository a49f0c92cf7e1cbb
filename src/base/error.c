/* Errors: see fathom/status.h and base/error.h. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *fth_status_name(fth_status status) {
    switch (status) {
    case FTH_OK: return "ok";
    case FTH_E_ARGUMENT: return "argument error";
    case FTH_E_MEMORY: return "out of memory";
    case FTH_E_IO: return "input/output error";
    case FTH_E_CONFIG: return "configuration error";
    case FTH_E_DATA: return "data error";
    case FTH_E_CHECKPOINT: return "checkpoint error";
    case FTH_E_UNSUPPORTED: return "unsupported";
    case FTH_E_LIMIT: return "limit reached";
    case FTH_E_INTERRUPTED: return "interrupted";
    case FTH_E_NUMERIC: return "numeric error";
    }
    return "unknown status";
}

fth_status fth_fail(fth_error *err, fth_status code, const char *format, ...) {
    if (err) {
        va_list args;
        va_start(args, format);
        err->code = code;
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
    }
    return code;
}

fth_status fth_fail_null(fth_error *err, const char *function, const char *arguments) {
    return fth_fail(err, FTH_E_ARGUMENT, "%s: NULL where there must be: %s", function, arguments);
}

int fth_all_there(const char *const *texts, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!texts || !texts[i])
            return 0;
    return 1;
}

void fth_error_frame(fth_error *err, const char *format, ...) {
    if (!err)
        return;
    char message[sizeof err->message];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length + 2 < sizeof message)
        snprintf(message + length, sizeof message - (size_t)length, ": %.*s",
                 (int)(sizeof message - (size_t)length - 3), err->message);
    memcpy(err->message, message, sizeof message);
}
