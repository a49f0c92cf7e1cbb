/* The tools around training: what this machine is, the fastest matrix products for a model, what is in a
 * file, how fast steps are. Results are text for people (and JSON); nothing is printed.
 *
 * Threads: each function is one call from one thread; they may run at the same time, but for timings. */
#ifndef FATHOM_TOOLS_H
#define FATHOM_TOOLS_H

#include <stddef.h>
#include <stdint.h>

#include "fathom/config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a result may be written to `path`: FTH_E_IO for an empty name, a directory, and a file without write
 * permission, which root could write and anybody could replace all the same. What is not there, a device or a pipe
 * may. */
FTH_API fth_status fth_check_output(const char *path, fth_error *err);

/* A file that a result is written to, by its descriptor. */
typedef struct fth_output {
    const char *path; /* borrowed; what to call it */
    char *beside;     /* owned: what is written until it is whole; NULL: path itself (devices, pipes, links) */
    int file;
    int standard;     /* standard output: not closed */
} fth_output;

/* `path` is borrowed until the output is closed; NULL or "-" is standard output. An existing file is replaced only by a
 * whole new one, which is written beside it ("<path>.part") and gets its permissions. Errors: those of
 * fth_check_output, another output that is open to it, in this process or another one, what the system says. */
FTH_API fth_status fth_output_open(const char *path, fth_output *out, fth_error *err);
/* whole: what was written gets its name, else it is removed (a device has got it). Once, after fth_output_open has
 * succeeded; whatever it returns, the output is closed. */
FTH_API fth_status fth_output_close(fth_output *out, int whole, fth_error *err);
/* Removes what the open outputs of this process (of up to 16) have written beside: for a signal handler, after which it
 * ends. */
FTH_API void fth_output_abandon(void);

/* Version, CPU, instruction set in use, memory, kernels, matrix product providers, libraries. Owned: free(). */
FTH_API fth_status fth_info(char **out, fth_error *err);

/* Times every provider on the matrix products of the configuration's model (NULL: on a grid of usual widths),
 * about 0.1 s each, and gives the text of a tuning file that `tuning:` names. `begun` (may be NULL) is told
 * beforehand how many there are. Owned: free(). */
FTH_API fth_status fth_tune(const fth_config *config, void (*begun)(void *ctx, size_t products), void *ctx,
                            char **out, fth_error *err);

/* A checkpoint (a step-* folder or a checkpoint.dir, whose newest is taken): tensors, tables, rows, dimensions,
 * bytes, norms, the `top` most frequent rows of each table. Every checksum is verified. Owned: free(). */
FTH_API fth_status fth_inspect_checkpoint(const char *path, uint32_t top, char **out, fth_error *err);
/* Its digest: 16 hexadecimal digits over everything that training depends on. */
FTH_API fth_status fth_inspect_digest(const char *path, char out[17], fth_error *err);
/* Data files, read as the configuration's `data` says: columns, missing values, distinct values (estimated),
 * ranges, malformed lines with the first messages. Owned: free(). */
FTH_API fth_status fth_inspect_data(const fth_config *config, const char *const *files, size_t n,
                                    char **out, fth_error *err);

/* Every operation of feature programs alone, fused and in separate steps: GB/s of text on one thread, a table.
 * About 2 * `seconds` (above 0) an operation. Owned: free(). */
FTH_API fth_status fth_bench_features(double seconds, char **text, fth_error *err);

typedef struct fth_bench_options {
    uint32_t batches; /* held in memory; at least 1 */
    double seconds;   /* of measuring, for each variant; above 0 */
    int ablate;       /* also with every optimisation left out alone */
    int from_text;    /* also steps on what is read from data.train, in turns with as many in memory: `seconds` each */
    int generated;    /* generated batches even where data.train has files */
    int perf;         /* also cycles, instructions and cache misses, where the kernel counts them */
    void (*begun)(void *ctx, const char *what); /* the next stage begins; may be NULL */
    void *ctx;
} fth_bench_options;

/* Steps of a new model on batches held in memory, of data.train or, where no file matches it, generated ones:
 * examples a second, time, rates and shares of this machine's peaks (measured, 1 to 2 s) by part of the step
 * and by node; and what short bursts between the steps say that other work leaves of the peak. from_text: what reading and
 * new rows cost. Owned: free() both; json may be NULL. FTH_E_CONFIG: from_text where the data are generated or can be read
 * only once, or with data.parse_threads. */
FTH_API fth_status fth_bench(const fth_config *config, const fth_bench_options *options, char **text,
                             char **json, fth_error *err);

#ifdef __cplusplus
}
#endif
#endif
