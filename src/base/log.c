/* Log lines to the program's callback: see base/log.h. A line is formatted on the stack of the caller
 * and handed over under one mutex, so lines of several threads never mix. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static void (*log_callback)(void *ctx, int level, const char *line);
static void *log_ctx;

void fth_log_set(void (*callback)(void *ctx, int level, const char *line), void *ctx) {
    pthread_mutex_lock(&log_mutex);
    log_callback = callback;
    log_ctx = ctx;
    pthread_mutex_unlock(&log_mutex);
}

void fth_log(fth_log_level level, const char *format, ...) {
    char line[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    pthread_mutex_lock(&log_mutex);
    if (log_callback)
        log_callback(log_ctx, level, line);
    pthread_mutex_unlock(&log_mutex);
}
