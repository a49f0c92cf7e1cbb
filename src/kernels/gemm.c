/* Matrix products: checks a shape, chooses a provider, hands every run to it.
 *
 * On a batch's way: a tile's forward and data-gradient products and the blocks of the weight
 * gradients come through fth_gemm_run. Threads: see gemm.h. Invariant: the provider is fixed at
 * creation, so the bits of a product never depend on when or where it runs. */
#include "kernels/gemm.h"

#include <limits.h>
#include <omp.h>
#include <pthread.h>

#include <cblas.h>

#include "base/memory.h"
#include "kernels/gemm_fp32.h"
#include "kernels/gemm_private.h"
#include "kernels/gemm_zeros.h"
#include "kernels/panels.h"
#include "kernels/tiles.h"

struct fth_gemm {
    struct fth_gemm_shape shape;
    fth_gemm_provider provider;
    const struct fth_gemm_backend *backend;
    void *state;
    /* Panels by a provider that does not know them: `shape` and `state` are a panel's, these the last
     * one's, of which there may be no other. */
    int by_panel;
    uint32_t panels;
    struct fth_gemm_shape last_shape;
    void *last_state;
    struct fth_gemm_shape whole; /* as it was asked for */
    int zeros;                   /* whose are left out where they are many */
};

const struct fth_gemm_backend *fth_gemm_backend_get(fth_gemm_provider provider) {
    static const struct fth_gemm_backend *const backends[FTH_GEMM_PROVIDERS] = {
        [FTH_GEMM_REFERENCE] = &fth_gemm_backend_reference,
        [FTH_GEMM_ONEDNN] = &fth_gemm_backend_onednn,
        [FTH_GEMM_OPENBLAS] = &fth_gemm_backend_openblas,
        [FTH_GEMM_XSMM] = &fth_gemm_backend_xsmm,
        [FTH_GEMM_FATHOM] = &fth_gemm_backend_fathom,
    };
    return provider >= 0 && provider < FTH_GEMM_PROVIDERS ? backends[provider] : NULL;
}

const char *fth_gemm_provider_name(fth_gemm_provider provider) {
    const struct fth_gemm_backend *backend = fth_gemm_backend_get(provider);
    return backend ? backend->name : "auto";
}

void fth_gemm_provider_version(fth_gemm_provider provider, char out[96]) {
    const struct fth_gemm_backend *backend = fth_gemm_backend_get(provider);
    out[0] = 0;
    if (backend)
        backend->version(out);
}

int fth_gemm_allocates(fth_gemm_provider provider, const struct fth_gemm_shape *shape) {
    const struct fth_gemm_backend *backend = fth_gemm_backend_get(provider);
    return backend && backend->allocates(shape);
}

const char *fth_gemm_form_name(fth_gemm_form form) {
    static const char *const names[FTH_GEMM_FORMS] = {"nn", "nt", "tn"};
    return names[form];
}

const char *fth_precision_name(fth_precision precision) {
    static const char *const names[FTH_PRECISIONS] = {"fp32", "bf16", "bf16x3", "bf16x6"};
    return names[precision];
}

static fth_status check_shape(const struct fth_gemm_shape *s, fth_error *err) {
    if ((unsigned)s->form >= FTH_GEMM_FORMS)
        return fth_fail(err, FTH_E_ARGUMENT, "matrix product: unknown form %d", (int)s->form);
    if ((unsigned)s->precision >= FTH_PRECISIONS)
        return fth_fail(err, FTH_E_ARGUMENT, "matrix product: unknown precision %d",
                        (int)s->precision);
    const char *form = fth_gemm_form_name(s->form);
    if (s->m == 0 || s->n == 0 || s->k == 0)
        return fth_fail(err, FTH_E_ARGUMENT,
                        "matrix product %s of m %u, n %u, k %u: all must be at "
                        "least 1",
                        form, s->m, s->n, s->k);
    if (s->n == 1)
        return fth_fail(err, FTH_E_ARGUMENT,
                        "matrix product %s of m %u, k %u: width n = 1 is no matrix "
                        "product; use the matrix-vector kernels",
                        form, s->m, s->k);
    uint32_t columns_a = s->form == FTH_GEMM_TN ? s->m : s->k;
    uint32_t columns_b = s->form == FTH_GEMM_NT ? s->k : s->n;
    if (s->panels && s->form != FTH_GEMM_NN)
        return fth_fail(err, FTH_E_ARGUMENT,
                        "matrix product %s of m %u, n %u, k %u: only products nn take panels", form,
                        s->m, s->n, s->k);
    if (s->tiles && (s->precision == FTH_FP32 || s->form == FTH_GEMM_NT))
        return fth_fail(err, FTH_E_ARGUMENT, "matrix product %s: tiles are for bf16, of one part to three, of the forms nn and tn", form);
    if (s->tiles) {
        columns_a = fth_tiles_ld(s->precision, columns_a);
        columns_b = s->form == FTH_GEMM_TN ? fth_tiles_ld(s->precision, columns_b) : columns_b;
    }
    if (s->passing && (!s->tiles || !s->panels || s->accumulate || s->m > fth_gemm_cut(s->precision).tile))
        return fth_fail(err, FTH_E_ARGUMENT,
                        "matrix product %s of m %u: C passes in panels only where A is in tiles, B in panels and "
                        "m at most %u",
                        form, s->m, fth_gemm_cut(s->precision).tile);
    uint32_t columns_c = s->passing ? FTH_GEMM_PASSING : s->n;
    if (s->lda < columns_a || (!s->panels && s->ldb < columns_b) || s->ldc < columns_c)
        return fth_fail(err, FTH_E_ARGUMENT,
                        "matrix product %s of m %u, n %u, k %u: leading dimensions "
                        "%u, %u, %u must be at least %u, %u, %u",
                        form, s->m, s->n, s->k, s->lda, s->ldb, s->ldc, columns_a, columns_b, columns_c);
    /* The providers count in int. */
    if (s->m > INT_MAX || s->lda > INT_MAX || s->ldb > INT_MAX || s->ldc > INT_MAX)
        return fth_fail(err, FTH_E_ARGUMENT, "matrix product %s: dimensions must be below 2^31",
                        form);
    return FTH_OK;
}

struct fth_gemm_cut fth_gemm_cut(fth_precision precision) {
    const struct fth_cpu *cpu = fth_cpu_get();
    struct fth_gemm_cut usual = {64, 128, 256, 0}, simd = {64, 512, 512, 0}, amx = {256, 256, 512, 1};
    if (precision != FTH_FP32)
        return cpu->amx_bf16 ? amx : usual;
    return cpu->isa == FTH_ISA_SCALAR ? usual : simd;
}

static void cut_into_panels(struct fth_gemm *gemm) {
    struct fth_panels panels = fth_panels_of(gemm->shape.n);
    gemm->by_panel = 1;
    gemm->panels = panels.count;
    gemm->last_shape = gemm->shape;
    gemm->last_shape.n = panels.last;
    gemm->last_shape.ldb = panels.ld_last;
    gemm->shape.n = gemm->shape.ldb = panels.width;
    gemm->shape.panels = gemm->last_shape.panels = 0;
}

fth_status fth_gemm_create(const struct fth_gemm_shape *shape, fth_gemm_provider provider,
                           const fth_tuning *tuning, fth_gemm **out, fth_error *err) {
    FTH_TRY(check_shape(shape, err));
    if (shape->precision != FTH_FP32 && !fth_cpu_get()->avx512_bf16)
        return fth_fail(err, FTH_E_UNSUPPORTED,
                        "precision %s needs a CPU with AVX512-BF16, which %s "
                        "(instruction set in use: %s) does not offer; use fp32",
                        fth_precision_name(shape->precision), fth_cpu_get()->name,
                        fth_isa_name(fth_cpu_get()->isa));
    if (shape->tiles && !fth_gemm_cut(shape->precision).tiles)
        return fth_fail(err, FTH_E_UNSUPPORTED, "matrix product: tiles need a CPU with AMX");
    if (provider == FTH_GEMM_AUTO)
        provider = fth_tuning_choose(tuning, shape);
    if (provider == FTH_GEMM_AUTO)
        provider = fth_gemm_table_choose(shape, fth_cpu_get());
    const struct fth_gemm_backend *backend = fth_gemm_backend_get(provider);
    if (!backend)
        return fth_fail(err, FTH_E_ARGUMENT, "matrix product: unknown provider %d", (int)provider);
    const char *refusal = backend->refusal(shape->form, shape->precision);
    if (refusal)
        return fth_fail(err, FTH_E_UNSUPPORTED, "matrix product %s by %s: %s",
                        fth_gemm_form_name(shape->form), backend->name, refusal);
    if ((shape->panels || shape->tiles) && shape->precision != FTH_FP32 && provider != FTH_GEMM_FATHOM)
        return fth_fail(err, FTH_E_UNSUPPORTED, "matrix product by %s: it cannot read panels or tiles of bf16",
                        backend->name);
    fth_gemm *gemm = fth_alloc(1, sizeof *gemm);
    if (!gemm)
        return fth_fail(err, FTH_E_MEMORY, "matrix product: out of memory");
    *gemm = (fth_gemm){.shape = *shape, .provider = provider, .backend = backend, .whole = *shape};
    gemm->zeros = fth_gemm_zeros_of(shape);
    if (shape->panels && !backend->panels)
        cut_into_panels(gemm);
    fth_status status = backend->create ? backend->create(&gemm->shape, &gemm->state, err) : FTH_OK;
    if (status == FTH_OK && gemm->by_panel && backend->create)
        status = backend->create(&gemm->last_shape, &gemm->last_state, err);
    if (status != FTH_OK) {
        fth_gemm_destroy(gemm);
        return status;
    }
    *out = gemm;
    return FTH_OK;
}

void fth_gemm_destroy(fth_gemm *gemm) {
    if (!gemm)
        return;
    if (gemm->backend->destroy) {
        if (gemm->state)
            gemm->backend->destroy(gemm->state);
        if (gemm->last_state)
            gemm->backend->destroy(gemm->last_state);
    }
    fth_free(gemm);
}

fth_gemm_provider fth_gemm_chosen(const fth_gemm *gemm) {
    return gemm->provider;
}

fth_precision fth_gemm_precision(const fth_gemm *gemm) {
    return gemm->shape.precision;
}

size_t fth_gemm_scratch(const fth_gemm *gemm, uint32_t rows) {
    size_t most = rows > 0 && gemm->zeros && gemm->whole.form == FTH_GEMM_TN ? fth_zeros_tn_scratch(&gemm->whole) : 0;
    if (rows == 0 || !gemm->backend->scratch)
        return most;
    size_t own = gemm->backend->scratch(&gemm->shape, gemm->state);
    size_t last = gemm->by_panel ? gemm->backend->scratch(&gemm->last_shape, gemm->last_state) : 0;
    own = own > last ? own : last;
    return most > own ? most : own;
}

/* Exported, but in no header. */
extern int blas_thread_shutdown_(void) __attribute__((weak));

static pthread_once_t openblas_once = PTHREAD_ONCE_INIT;
static void openblas_single(void) {
    openblas_set_num_threads(1);
    /* Its own threads look for work for their first tenth of a second, each on one of our workers' processors. */
    if (blas_thread_shutdown_)
        blas_thread_shutdown_();
}

void fth_gemm_thread_init(void) {
    /* OpenBLAS keeps one number for the process, OpenMP (oneDNN) one for each thread. */
    pthread_once(&openblas_once, openblas_single);
    omp_set_num_threads(1);
}

fth_status fth_gemm_reserve(uint32_t threads, fth_error *err) {
    return fth_openblas_reserve(threads, err);
}

/* Zeros are left out of a run where they are many: the operands' elements decide, and nothing else. */
static int run_without_zeros(const fth_gemm *gemm, uint32_t rows, const float *a, const float *b, float *c, void *scratch,
                             const struct fth_gemm_finish *finish) {
    int of = fth_gemm_zeros_many(&gemm->whole, gemm->zeros, rows, a, b);
    if (of && gemm->whole.form == FTH_GEMM_NN)
        fth_gemm_zeros_nn(&gemm->whole, rows, a, b, c, finish);
    else if (of)
        fth_gemm_zeros_tn(&gemm->whole, of == FTH_ZEROS_B, rows, a, b, c, scratch);
    return of != 0;
}

void fth_gemm_run(const fth_gemm *gemm, uint32_t rows, const float *a, const float *b, float *c,
                  void *scratch) {
    const struct fth_gemm_shape *s = &gemm->shape;
    if (run_without_zeros(gemm, rows, a, b, c, scratch, NULL))
        return;
    if (rows > 0 && gemm->by_panel) {
        for (uint32_t p = 0; p + 1 < gemm->panels; p++)
            gemm->backend->run(s, gemm->state, rows, a, b + (size_t)p * s->n * s->k, c + (size_t)p * s->n,
                               scratch);
        size_t before = (size_t)(gemm->panels - 1) * s->n;
        gemm->backend->run(&gemm->last_shape, gemm->last_state, rows, a, b + before * s->k, c + before,
                           scratch);
    } else if (rows > 0) {
        gemm->backend->run(s, gemm->state, rows, a, b, c, scratch);
    } else if (s->form == FTH_GEMM_TN && !s->accumulate) {
        for (uint32_t i = 0; i < s->m; i++)
            memset(c + (size_t)i * s->ldc, 0, s->n * sizeof *c);
    }
}

void fth_gemm_run_finish(const fth_gemm *gemm, uint32_t rows, const float *a, const float *b, float *c,
                         void *scratch, const struct fth_gemm_finish *finish) {
    const struct fth_gemm_shape *s = &gemm->shape;
    if (s->form == FTH_GEMM_NN && run_without_zeros(gemm, rows, a, b, c, scratch, finish))
        return;
    if (rows > 0 && !gemm->by_panel && s->form == FTH_GEMM_NN && gemm->backend->run_finish) {
        gemm->backend->run_finish(s, gemm->state, rows, a, b, c, scratch, finish);
        return;
    }
    fth_gemm_run(gemm, rows, a, b, c, scratch);
    finish->done(finish->ctx, 0, gemm->by_panel ? (gemm->panels - 1) * s->n + gemm->last_shape.n : s->n);
}

int fth_gemm_run_step(const fth_gemm *gemm, uint32_t rows, const float *a, const float *b, float *c,
                      const struct fth_gemm_step *step) {
    if (fth_gemm_zeros_many(&gemm->whole, gemm->zeros, rows, a, b))
        return 0;
    return rows > 0 && step->kind != FTH_STEP_NONE && step->panels.panels && gemm->backend->run_step &&
           gemm->backend->run_step(&gemm->shape, rows, a, b, c, step);
}

int fth_gemm_step(const struct fth_gemm_step *step, uint32_t m, uint32_t n, const float *gradient, size_t ld) {
    fth_isa isa = fth_cpu_get()->isa;
    if (isa == FTH_ISA_SCALAR || step->kind == FTH_STEP_NONE)
        return 0;
    (isa == FTH_ISA_AVX2 ? fth_step_avx2_run : fth_step_avx512_run)(step, m, n, gradient, ld);
    return 1;
}
