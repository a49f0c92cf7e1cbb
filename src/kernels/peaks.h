/* What this machine can do at most, measured: what `fathom bench` sets a step's figures against.
 *
 * Not on a batch's way. Every function starts `threads` plain threads, which work at the same time,
 * each on its own part; takes about 0.3 s; gives the best of several rounds. The instruction set is
 * fth_cpu_get's. Errors: FTH_E_ARGUMENT for 0 or more than FTH_PEAKS_THREADS threads, FTH_E_MEMORY
 * when a thread or the memory (512 MiB, 8 MiB more a thread for gather) is not to be had. */
#ifndef FTH_KERNELS_PEAKS_H
#define FTH_KERNELS_PEAKS_H

#include <stdint.h>

#include "base/error.h"

#define FTH_PEAKS_THREADS 1024u
#define FTH_PEAKS_MAX_DIM 1024u

/* fp32 multiply and add in registers only: 1e9 operations a second, all threads together. */
fth_status fth_peak_fma(uint32_t threads, double *gflops, fth_error *err);

/* The same operations done by the caller alone, about that many, untimed: for short bursts between other work. Any
 * thread; no errors. */
void fth_peak_fma_burst(double operations);

/* Streaming from memory: 1e9 bytes a second read, all threads together. */
fth_status fth_peak_read(uint32_t threads, double *gigabytes, fth_error *err);

/* Streaming copy with non-temporal stores: 1e9 bytes a second, read and written counted. */
fth_status fth_peak_copy(uint32_t threads, double *gigabytes, fth_error *err);

/* Rows of dim floats (1 to FTH_PEAKS_MAX_DIM) at random places of 512 MiB on huge pages, summed,
 * prefetched 16 rows ahead: 1e6 rows a second. */
fth_status fth_peak_gather(uint32_t threads, uint32_t dim, double *megarows, fth_error *err);

#endif
