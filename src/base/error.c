/* Errors: see fathom/status.h and base/error.h. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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

static int is_inside_letter(char c) { return ((unsigned char)c & 0xc0) == 0x80; } /* of UTF-8 */

/* A message begins with where and ends with why: of one that is too long, as of a path of thousands of bytes, the middle is
 * left out, between letters. */
static void keep_ends(char *out, size_t size, const char *text, size_t length) {
    size_t head = (size - 4) / 2, tail = size - 4 - head;
    const char *end = text + length - tail;
    while (head > 0 && is_inside_letter(text[head]))
        head--;
    while (is_inside_letter(*end))
        end++;
    snprintf(out, size, "%.*s...%s", (int)head, text, end);
}

fth_status fth_fail(fth_error *err, fth_status code, const char *format, ...) {
    if (err) {
        va_list args;
        va_start(args, format);
        err->code = code;
        int length = vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
        char *whole = NULL;
        va_start(args, format);
        if (length >= (int)sizeof err->message && vasprintf(&whole, format, args) == length) {
            keep_ends(err->message, sizeof err->message, whole, (size_t)length);
            free(whole);
        }
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
    fth_error inner = *err;
    char frame[sizeof err->message];
    va_list args;
    va_start(args, format);
    vsnprintf(frame, sizeof frame, format, args);
    va_end(args);
    fth_fail(err, inner.code, "%s: %s", frame, inner.message);
}

void fth_error_append(fth_error *err, const char *format, ...) {
    if (!err)
        return;
    fth_error inner = *err;
    char behind[sizeof err->message];
    va_list args;
    va_start(args, format);
    vsnprintf(behind, sizeof behind, format, args);
    va_end(args);
    fth_fail(err, inner.code, "%s%s", inner.message, behind);
}
