/* The library never prints: it hands lines to a callback (set by the program). */
#ifndef FTH_BASE_LOG_H
#define FTH_BASE_LOG_H

typedef enum fth_log_level { FTH_LOG_WARN = 0, FTH_LOG_INFO = 1 } fth_log_level;

/* NULL silences. The callback may be called from any thread, one call at a time; level: an fth_log_level. */
void fth_log_set(void (*callback)(void *ctx, int level, const char *line), void *ctx);
void fth_log(fth_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
