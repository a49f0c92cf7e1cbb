/* Matrix products through one interface: oneDNN, OpenBLAS, libxsmm and our own for fp32, our own for bf16, called
 * single-threaded from our workers, chosen by shape from a table, never by timing.
 *
 * Threads: create from one thread; a created fth_gemm is read-only and may run on any number of
 * threads at once, each with its own scratch. fth_gemm_thread_init must be called once by every
 * thread that runs one (it tells the providers' own thread pools to stay out).
 *
 * FATHOM_MAX_ISA limits oneDNN and libxsmm, too; OpenBLAS chooses its kernels while it is loaded
 * and is limited by its own variable OPENBLAS_CORETYPE (Haswell, Zen, SkylakeX, ...) only. */
#ifndef FTH_KERNELS_GEMM_H
#define FTH_KERNELS_GEMM_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/text.h"
#include "kernels/kernels.h"
#include "kernels/panels.h"

/* All row-major.
 *   NN: C[m,n] = A[m,k] B[k,n]      forward X W; data gradient dY W^T by W's transposed copy
 *   NT: C[m,n] = A[m,k] B[n,k]^T
 *   TN: C[m,n] = A[k,m]^T B[k,n]    weight gradient X^T dY, k = examples */
typedef enum fth_gemm_form { FTH_GEMM_NN, FTH_GEMM_NT, FTH_GEMM_TN, FTH_GEMM_FORMS } fth_gemm_form;

/* BF16: A and B rounded to nearest even, products summed in fp32. BF16X3: A and B as sums of two bf16, of
 * the four products all but the smallest summed in fp32; BF16X6: as sums of three, of the nine the six largest, which leaves
 * less out than rounding to fp32 does (gemm_bf16.h). */
typedef enum fth_precision { FTH_FP32, FTH_BF16, FTH_BF16X3, FTH_BF16X6, FTH_PRECISIONS } fth_precision;
enum { FTH_GEMM_PARTS = 3 };

/* "fp32", "bf16", ... */
const char *fth_precision_name(fth_precision precision);

/* bf16 that stand for a number; 0: it is taken as it is. */
static inline uint32_t fth_gemm_parts(fth_precision precision) {
    return (uint32_t)precision;
}

typedef enum fth_gemm_provider {
    FTH_GEMM_AUTO = -1, /* by the table */
    FTH_GEMM_REFERENCE, /* plain loops, the oracle of the tests */
    FTH_GEMM_ONEDNN,
    FTH_GEMM_OPENBLAS,
    FTH_GEMM_XSMM,
    FTH_GEMM_FATHOM, /* our own: fp32 for AVX2 and AVX-512, but NT; bf16, of one part to three */
    FTH_GEMM_PROVIDERS
} fth_gemm_provider;

enum { FTH_ZEROS_A = 1, FTH_ZEROS_B = 2 };
enum { FTH_GEMM_PASSING = 80 }; /* from row to row of a panel of 64 columns: an odd number of lines (docs/layout.md) */

struct fth_gemm_shape {
    fth_gemm_form form;
    uint32_t m, n, k;       /* the usual size; the dimension of examples (m for NN and NT, k for TN)
                               may be any other number in a call */
    uint32_t lda, ldb, ldc; /* floats */
    int accumulate;         /* C += instead of C = */
    fth_precision precision;
    int panels;              /* NN: B lies in panels of the precision (panels.h); ldb is not looked at */
    int zeros;               /* FTH_ZEROS_A, _B (TN): it may be mostly zeros, which a run in fp32 may leave out (gemm_zeros.h) */
    int tiles;               /* of bf16: what has a row an example lies in tiles (tiles.h), A of NN, A and B of TN; lda, ldb
                                are theirs */
    int passing;             /* of tiles and panels, no more than a cut's `tile` rows: C has room for one panel alone, from
                                column 0 on, ldc at least FTH_GEMM_PASSING; `done` takes each (fth_gemm_run_finish) */
};

typedef struct fth_gemm fth_gemm;

/* How products of a precision on this CPU want matrices cut: the most examples of a tile, and the blocks of a weight
 * gradient, on which by AVX-512 its bits do not depend (how far an infinity or NaN spreads may: gemm_split_avx512.c); more
 * than two cores get smaller ones (ops/weight_blocks.h). Where products are fast the operands' way to the kernel decides:
 * AMX multiplies so fast that weights are to be read once for many examples, activations once for many weights. */
struct fth_gemm_cut {
    uint32_t tile, block_rows, block_columns;
    int tiles; /* they take what has a row an example in tiles (fth_gemm_shape) */
};
struct fth_gemm_cut fth_gemm_cut(fth_precision precision);

/* A tuning file's content: which provider for which shape (docs/tuning.md). NULL means the built-in
 * table. Read-only after load. */
typedef struct fth_tuning fth_tuning;
/* Refuses (FTH_E_DATA, with file, line or entry) what is damaged or no tuning file. A file of
 * another instruction set loads with a logged warning; entries whose provider cannot run here are
 * left out. */
fth_status fth_tuning_load(const char *path, fth_tuning **out, fth_error *err);
/* One provider for every fp32 shape that it does not refuse, for others the built-in table's: what choosing by shape is
 * compared with. Owned. */
fth_status fth_tuning_one_provider(fth_gemm_provider provider, fth_tuning **out, fth_error *err);
void fth_tuning_destroy(fth_tuning *tuning);         /* NULL-safe */
size_t fth_tuning_entries(const fth_tuning *tuning); /* entries in use; 0 for NULL */
/* Hash of the choices, recorded in checkpoints: 0 for the built-in table, 1 + the provider where there is one for all. */
uint64_t fth_tuning_digest(const fth_tuning *tuning);
/* Times every provider on the given fp32 shapes (about 0.1 s each; BF16 ones have one provider and
 * are left out) and appends the file's text to *text. The caller writes it. */
fth_status fth_tuning_measure(const struct fth_gemm_shape *shapes, size_t n, struct fth_text *text,
                              fth_error *err);

/* Refuses with FTH_E_ARGUMENT: a dimension of 0, n == 1 (a product of width 1 is no GEMM), a
 * leading dimension below its row's columns, panels for another form. Refuses with
 * FTH_E_UNSUPPORTED and the reason: bf16 where the CPU has no AVX512-BF16, a provider that
 * does not know the precision, or not its panels, XSMM for NT (libxsmm cannot transpose its first operand).
 * Owned: fth_gemm_destroy. */
fth_status fth_gemm_create(const struct fth_gemm_shape *shape, fth_gemm_provider provider,
                           const fth_tuning *tuning, fth_gemm **out, fth_error *err);
void fth_gemm_destroy(fth_gemm *gemm); /* NULL-safe */
fth_gemm_provider fth_gemm_chosen(const fth_gemm *gemm);
const char *fth_gemm_provider_name(fth_gemm_provider provider); /* "onednn", ...; "auto" */
/* "3.1 (what it runs on)": for `fathom info`. */
void fth_gemm_provider_version(fth_gemm_provider provider, char out[96]);

/* True when the provider may call malloc inside a run of this shape on this CPU (fth_gemm_run). */
int fth_gemm_allocates(fth_gemm_provider provider, const struct fth_gemm_shape *shape);

/* Bytes of scratch that a run over at most `rows` examples needs (0 for most of fp32); give it 64-byte
 * aligned. */
size_t fth_gemm_scratch(const fth_gemm *gemm, uint32_t rows);
fth_precision fth_gemm_precision(const fth_gemm *gemm);

void fth_gemm_thread_init(void);

/* Has the providers map, where a product of theirs was created, what so many threads at once need of them, so that
 * none is mapped in a run: OpenBLAS's buffers, 128 MB of address space a thread (backed where touched), once for the
 * process. FTH_E_MEMORY, with the amount, where the system does not give it. Any thread. */
fth_status fth_gemm_reserve(uint32_t threads, fth_error *err);

/* Runs the product; rows = number of examples (0 is allowed: TN without accumulate then writes
 * zeros). Columns n .. ldc of C are never written. Any alignment works; for pointers at multiples
 * of 64 bytes the result is a function of the operands, the shape and rows alone: not of the
 * thread, not of where the buffers lie.
 *
 * Allocation and system calls: none with the providers that the built-in table chooses, and none
 * that fth_tuning_measure chooses. Where fth_gemm_allocates says so (oneDNN nearly everywhere,
 * OpenBLAS in its AVX-512 small NN kernels; seen by counting malloc) the provider takes one block
 * from malloc a call. OpenBLAS has one working buffer per thread that is inside it at the same
 * time, and maps them when they are first needed: in a run, unless fth_gemm_reserve came before. */
void fth_gemm_run(const fth_gemm *gemm, uint32_t rows, const float *a, const float *b, float *c,
                  void *scratch);

/* The same; and `done` is told of columns [column, + columns) of C once they are final, all of them in increasing
 * order: where the provider goes panel by panel, while they are in the first cache.
 *
 * step, of a passing product in bf16x3 or bf16x6 by AMX, whose products leave the vector units idle: called between those
 * of the panels that follow, to do a part of what `done` put off. So every other panel lies `second` floats behind C, and
 * what is left when `done` is called again, or at the end, is the caller's to do. NULL: nothing is put off. */
struct fth_gemm_finish {
    void (*done)(void *ctx, uint32_t column, uint32_t columns);
    void *ctx;
    void (*step)(void *ctx);
    size_t second;
};
void fth_gemm_run_finish(const fth_gemm *gemm, uint32_t rows, const float *a, const float *b, float *c,
                         void *scratch, const struct fth_gemm_finish *finish);

/* The optimizer's step that follows a weight gradient. */
typedef enum fth_weight_step { FTH_STEP_NONE, FTH_STEP_SGD, FTH_STEP_ADAGRAD, FTH_STEP_ADAM } fth_weight_step;

/* What the step writes, C being the gradient of a block of W whose corner is W[row][column]. row and column are
 * multiples of 16. */
struct fth_gemm_step {
    fth_weight_step kind;
    const struct fth_opt_args *args;
    float *w, *slots[2]; /* at the corner; rows of ld floats; w NULL: W lies in its panels alone */
    size_t ld;
    uint32_t row, column;
    struct fth_panels_target panels, transposed; /* W's, and of its transposed copy, whose `panels` may be NULL */
    size_t transposed_ld; /* where the transposed copy lies in rows of so many floats, not in panels; else 0 */
};

/* A TN product and the step: 1 when it was made, the same bits as fth_gemm_run and the kernels opt_* on every row
 * of the block. 0 when the provider cannot, or zeros are to be left out; then nothing has been done. C is scratch here. */
int fth_gemm_run_step(const fth_gemm *gemm, uint32_t rows, const float *a, const float *b, float *c,
                      const struct fth_gemm_step *step);

/* The step alone on a block of m rows and n columns, its gradient[m][ld] being complete; panels.panels may be NULL, and
 * the block begin anywhere where no copy is in panels. 1: made, the same bits as above; 0: nothing done, no such step here. */
int fth_gemm_step(const struct fth_gemm_step *step, uint32_t m, uint32_t n, const float *gradient, size_t ld);

#endif
