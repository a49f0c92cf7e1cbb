/* What padded rows and staggered buffers give: the figures of docs/layout.md.
 *
 *   cmake --build build --target bench_gemm_layout && build/bench/bench_gemm_layout
 *   FATHOM_MAX_ISA=avx2 OPENBLAS_CORETYPE=Zen build/bench/bench_gemm_layout
 *
 * One thread, operands in cache as far as they fit. The four layouts take turns; each figure is the
 * best of nine rounds of 6 ms of processor time. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "kernels/gemm.h"

#define ROUNDS 9
#define LAYOUTS 4 /* bit 0: staggered buffers, bit 1: padded rows */
#define BUFFER_BYTES ((size_t)64 << 20)
#define SCRATCH_BYTES ((size_t)4 << 20)

struct layout {
    fth_gemm *gemm;
    float *a, *b, *c;
    void *scratch; /* of fewer than SCRATCH_BYTES */
    double best;
};

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Weight gradients are blocks of matrices of at least 512 columns. */
static struct fth_gemm_shape laid_out(struct fth_gemm_shape s, int padded) {
    uint32_t a = s.form == FTH_GEMM_TN ? 512 : s.k;
    uint32_t b = s.form == FTH_GEMM_TN && s.n < 512 ? 512 : s.n;
    s.lda = padded ? fth_padded_columns(a) : a;
    s.ldb = s.ldc = padded ? fth_padded_columns(b) : b;
    return s;
}

static double rate(const struct layout *l, const struct fth_gemm_shape *s) {
    uint32_t rows = s->form == FTH_GEMM_TN ? s->k : s->m, runs = 0;
    double start = seconds(), took;
    do {
        fth_gemm_run(l->gemm, rows, l->a, l->b, l->c, l->scratch);
        runs++;
        took = seconds() - start;
    } while (took < 0.006);
    return 2e-9 * s->m * s->n * s->k * runs / took;
}

static int measure(const struct fth_gemm_shape *s, fth_gemm_provider provider, char *region) {
    struct layout layouts[LAYOUTS] = {0};
    fth_error err = {0};
    for (int i = 0; i < LAYOUTS; i++) {
        struct fth_gemm_shape shape = laid_out(*s, i & 2);
        size_t shift = i & 1 ? 21 * FTH_CACHE_LINE : 0;
        layouts[i].a = (float *)region;
        layouts[i].b = (float *)(region + BUFFER_BYTES + shift);
        layouts[i].c = (float *)(region + 2 * BUFFER_BYTES + 2 * shift);
        layouts[i].scratch = region + 3 * BUFFER_BYTES;
        if (fth_gemm_create(&shape, provider, NULL, &layouts[i].gemm, &err) != FTH_OK) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < LAYOUTS; i++) {
            double now = rate(&layouts[i], s);
            layouts[i].best = now > layouts[i].best ? now : layouts[i].best;
        }
    printf("  %s", fth_gemm_provider_name(provider));
    for (int i = 0; i < LAYOUTS; i++) {
        printf("%s%.0f", i ? " / " : " ", layouts[i].best);
        fth_gemm_destroy(layouts[i].gemm);
    }
    return 0;
}

int main(void) {
    static const struct fth_gemm_shape shapes[] = {
        {.form = FTH_GEMM_NN, .m = 64, .n = 256, .k = 512},
        {.form = FTH_GEMM_NN, .m = 64, .n = 512, .k = 1024},
        {.form = FTH_GEMM_NN, .m = 64, .n = 1024, .k = 1024},
        {.form = FTH_GEMM_TN, .m = 128, .n = 256, .k = 512},
        {.form = FTH_GEMM_TN, .m = 128, .n = 256, .k = 4096},
        {.form = FTH_GEMM_TN, .m = 64, .n = 1024, .k = 4096},
    };
    fth_gemm_thread_init();
    char *region = fth_region_alloc(3 * BUFFER_BYTES + SCRATCH_BYTES);
    if (!region)
        return 1;
    memset(region, 0, 3 * BUFFER_BYTES + SCRATCH_BYTES);
    printf("GFLOP/s, one core, %s, instruction set %s: plain / staggered / padded / both\n",
           fth_cpu_get()->name, fth_isa_name(fth_cpu_get()->isa));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct fth_gemm_shape *s = &shapes[i];
        printf("%s m %u n %u k %u:", s->form == FTH_GEMM_TN ? "TN" : "NN", s->m, s->n, s->k);
        for (int provider = FTH_GEMM_ONEDNN; provider < FTH_GEMM_FATHOM; provider++)
            if (measure(s, provider, region) != 0)
                return 1;
        printf("\n");
    }
    fth_region_free(region, 3 * BUFFER_BYTES + SCRATCH_BYTES);
    return 0;
}
