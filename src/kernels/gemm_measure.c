/* Measuring: times every provider on the shapes of a model and writes the text of a tuning file.
 *
 * Only `fathom tune` comes here, never a run that trains: a choice by timing would change bits from
 * run to run. The providers are timed in turns, so that a disturbance of the machine meets all of
 * them, and the median counts. Threads: one. */
#include <jansson.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "base/sort.h"
#include "kernels/gemm_private.h"
#include "kernels/gemm_tuning_private.h"

#define ROUNDS 7
#define ROUND_SECONDS 0.004
/* The built-in table's choice stays unless another one is faster by more than the noise. */
#define MARGIN 1.02

struct operands {
    float *a, *b, *c;
    void *scratch;
};

struct candidate {
    fth_gemm *gemm; /* NULL: cannot do this form */
    uint32_t repeats;
    double gflops[ROUNDS];
    double median;
};

/* Processor time: what others run meanwhile does not count. */
static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint32_t examples(const struct fth_gemm_shape *s) {
    return s->form == FTH_GEMM_TN ? s->k : s->m;
}

static double time_once(const struct candidate *c, const struct fth_gemm_shape *s,
                        const struct operands *x) {
    double start = seconds();
    for (uint32_t i = 0; i < c->repeats; i++)
        fth_gemm_run(c->gemm, examples(s), x->a, x->b, x->c, x->scratch);
    return seconds() - start;
}

/* NULL when memory is out. Values that neither grow nor vanish in a product. */
static float *filled(uint32_t rows, uint32_t ld) {
    float *x = fth_alloc(rows, ld * sizeof *x);
    for (size_t i = 0; x && i < (size_t)rows * ld; i++)
        x[i] = (float)(i % 17) * 0.0625f - 0.5f;
    return x;
}

static void time_candidates(struct candidate *candidates, const struct fth_gemm_shape *s,
                            const struct operands *x) {
    double flop = 2.0 * s->m * s->n * s->k;
    for (int p = 0; p < FTH_GEMM_PROVIDERS; p++) {
        struct candidate *c = &candidates[p];
        if (!c->gemm)
            continue;
        /* The first call generates code and maps buffers; then double until a round is long enough.
         */
        c->repeats = 1;
        time_once(c, s, x);
        while (time_once(c, s, x) < ROUND_SECONDS && c->repeats < 1u << 24)
            c->repeats *= 2;
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int p = 0; p < FTH_GEMM_PROVIDERS; p++)
            if (candidates[p].gemm)
                candidates[p].gflops[round] =
                    1e-9 * flop * candidates[p].repeats / time_once(&candidates[p], s, x);
    for (int p = 0; p < FTH_GEMM_PROVIDERS; p++) {
        fth_sort_doubles(candidates[p].gflops, ROUNDS);
        candidates[p].median = candidates[p].gflops[ROUNDS / 2];
    }
}

/* The fastest that allocates nothing in a step. */
static fth_gemm_provider fastest(const struct candidate *candidates,
                                 const struct fth_gemm_shape *s) {
    fth_gemm_provider best = fth_gemm_table_choose(s, fth_cpu_get());
    double limit = candidates[best].median * MARGIN;
    for (int p = 0; p < FTH_GEMM_PROVIDERS; p++) {
        if (candidates[p].gemm && !fth_gemm_allocates(p, s) && candidates[p].median > limit) {
            best = p;
            limit = candidates[p].median;
        }
    }
    return best;
}

static json_t *entry(const struct fth_gemm_shape *s, const struct candidate *candidates) {
    json_t *gflops = json_object();
    for (int p = 0; p < FTH_GEMM_PROVIDERS; p++)
        if (candidates[p].gemm)
            json_object_set_new(gflops, fth_gemm_provider_name(p),
                                json_real((double)(long)(candidates[p].median * 10 + 0.5) / 10));
    return json_pack("{s:s, s:I, s:I, s:I, s:s, s:o}", "form", fth_gemm_form_name(s->form), "m",
                     (json_int_t)s->m, "n", (json_int_t)s->n, "k", (json_int_t)s->k, "provider",
                     fth_gemm_provider_name(fastest(candidates, s)), "gflops", gflops);
}

static fth_status measure_shape(const struct fth_gemm_shape *shape, json_t *entries,
                                fth_error *err) {
    struct fth_gemm_shape s = *shape;
    s.accumulate = 0; /* sums over thousands of calls would overflow */
    struct candidate candidates[FTH_GEMM_PROVIDERS] = {0};
    struct operands x = {0};
    fth_status status = FTH_OK;
    /* The reference is far slower than the rest; timing it would only take time. */
    for (int p = FTH_GEMM_REFERENCE + 1; p < FTH_GEMM_PROVIDERS && status == FTH_OK; p++) {
        if (!fth_gemm_backend_get(p)->refusal(s.form, s.precision))
            status = fth_gemm_create(&s, p, NULL, &candidates[p].gemm, err);
    }
    size_t scratch = 1;
    for (int p = 0; p < FTH_GEMM_PROVIDERS; p++)
        if (candidates[p].gemm && fth_gemm_scratch(candidates[p].gemm, examples(&s)) > scratch)
            scratch = fth_gemm_scratch(candidates[p].gemm, examples(&s));
    if (status == FTH_OK) {
        x.scratch = fth_alloc(scratch, 1);
        x.a = filled(s.form == FTH_GEMM_TN ? s.k : s.m, s.lda);
        x.b = filled(s.form == FTH_GEMM_NT ? s.n : s.k, s.panels ? (s.n + 15) / 16 * 16 : s.ldb);
        x.c = filled(s.m, s.ldc);
        if (!x.a || !x.b || !x.c || !x.scratch)
            status = fth_fail(err, FTH_E_MEMORY,
                              "measuring a product %s of m %u, n %u, k %u: out of "
                              "memory",
                              fth_gemm_form_name(s.form), s.m, s.n, s.k);
    }
    if (status == FTH_OK) {
        time_candidates(candidates, &s, &x);
        if (json_array_append_new(entries, entry(&s, candidates)) != 0)
            status = fth_fail(err, FTH_E_MEMORY, "tuning file: out of memory");
    }
    for (int p = 0; p < FTH_GEMM_PROVIDERS; p++)
        fth_gemm_destroy(candidates[p].gemm);
    fth_free(x.a);
    fth_free(x.b);
    fth_free(x.c);
    fth_free(x.scratch);
    return status;
}

static int same_product(const struct fth_gemm_shape *x, const struct fth_gemm_shape *y) {
    return x->precision == y->precision && x->form == y->form && x->m == y->m && x->n == y->n &&
           x->k == y->k;
}

fth_status fth_tuning_measure(const struct fth_gemm_shape *shapes, size_t n, struct fth_text *text,
                              fth_error *err) {
    fth_gemm_thread_init();
    json_t *entries = json_array();
    fth_status status = FTH_OK;
    for (size_t i = 0; i < n && status == FTH_OK; i++) {
        size_t seen = 0;
        while (seen < i && !same_product(&shapes[seen], &shapes[i]))
            seen++;
        if (seen == i && shapes[i].precision == FTH_FP32)
            status = measure_shape(&shapes[i], entries, err);
    }
    if (status != FTH_OK) {
        json_decref(entries);
        return status;
    }
    json_t *root = json_pack("{s:s, s:i, s:s, s:s, s:o}", "format", FTH_TUNING_FORMAT, "version",
                             FTH_TUNING_VERSION, "cpu", fth_cpu_get()->name, "isa",
                             fth_isa_name(fth_cpu_get()->isa), "entries", entries);
    char *dump = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(root);
    if (dump)
        fth_text_printf(text, "%s\n", dump);
    if (!dump || text->failed)
        status = fth_fail(err, FTH_E_MEMORY, "tuning file: out of memory");
    free(dump);
    return status;
}
