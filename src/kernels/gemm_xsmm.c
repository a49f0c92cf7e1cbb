/* libxsmm: kernels generated when the product is created, for fixed pieces of it; a run only calls
 * them.
 *
 * libxsmm is column-major, so our row-major C[m,n] is its C^T: its A is our B, its N our rows.
 *
 *   NN    C is cut into tiles of columns, K into pieces, so that a piece of B (depth x columns)
 *         stays in L1 while the examples go past it in chunks:
 *             for tile of n:  for piece of k:  for chunk of examples:  C[chunk, tile] += A B
 *         Panels (panels.h) are these tiles; then the kernels fetch the next piece of B into L2
 *         while they multiply by the present one, unless all of B stays in L1.
 *   TN    the examples are the sum: chunks of them, largest first, each added to all of C:
 *             for chunk of examples:  for tile of n:  C[:, tile] += A[chunk, :]^T B[chunk, tile]
 *         and the kernels fetch the next tile of B into L2.
 *
 * Any number of examples is a sum of chunk sizes (main, 64, 16, 4, 1), up to 16 are one piece (a step of a recurrent
 * layer). Every element of C is summed in increasing k. Threads: kernels are code, the state is read-only.
 *
 * The sizes are measured on Zen 4 (AVX-512, and limited to AVX2) over the shapes of gemm_table.c:
 * AVX2 reaches 111-115 of 118 GFLOP/s with NN tiles of 64 x 64 (whole products: 71-112). */
#include <libxsmm.h>
#include <pthread.h>
#include <stdio.h>

#include "base/memory.h"
#include "kernels/gemm_private.h"
#include "kernels/panels.h"

#define MAX_SIZES 16
#define FEW 16u            /* examples; up to as many are one piece */
#define FIRST_CACHE 8192u  /* numbers: all of Zen 4's; a B of more does not stay there while examples go past */

/* A dimension cut into `count` pieces of `size`, the last one of `last`. */
struct cut {
    uint32_t size, count, last;
};

struct state {
    struct cut tile, depth;
    uint32_t ld_last; /* of the last panel */
    uint32_t sizes[MAX_SIZES], size_count;
    /* [chunk size][last tile][last depth][C is added to] */
    libxsmm_smmfunction kernel[MAX_SIZES][2][2][2];
};

static pthread_once_t init_once = PTHREAD_ONCE_INIT;

/* Named in any case: its own choice heeds LIBXSMM_TARGET, and another one's sums are other bits. */
static void init(void) {
    static const int targets[FTH_ISA_COUNT] = {LIBXSMM_X86_SSE3, LIBXSMM_X86_AVX2, LIBXSMM_X86_AVX512_CORE};
    libxsmm_init();
    libxsmm_set_target_archid(targets[fth_cpu_get()->isa]);
}

static void version(char out[96]) {
    pthread_once(&init_once, init);
    snprintf(out, 96, "%s (generating for %s)", LIBXSMM_CONFIG_VERSION, libxsmm_get_target_arch());
}

static const char *refusal(fth_gemm_form form, fth_precision precision) {
    pthread_once(&init_once, init);
    if (precision != FTH_FP32)
        return "bf16 is done by fathom only";
    if (form == FTH_GEMM_NT)
        return "libxsmm has no product with the second matrix transposed; use onednn or openblas, "
               "or a "
               "transposed copy and nn";
    return NULL;
}

static int allocates(const struct fth_gemm_shape *shape) {
    return 0;
}

/* A rest shorter than `least` is added to the piece before it: kernels of a few columns are slow.
 */
static struct cut cut(uint32_t total, uint32_t size, uint32_t least) {
    if (total <= size)
        return (struct cut){total, 1, total};
    uint32_t count = total / size, rest = total % size;
    if (rest >= least)
        return (struct cut){size, count + 1, rest};
    return (struct cut){size, count, size + rest};
}

static void choose_pieces(const struct fth_gemm_shape *s, struct state *state) {
    int avx512 = fth_cpu_get()->isa == FTH_ISA_AVX512;
    uint32_t chunk;
    if (s->form == FTH_GEMM_NN) {
        chunk = s->m < 64 ? s->m : 64;
        struct fth_panels tiles = fth_panels_cut(s->n, s->panels ? fth_panel_width() : FTH_PANEL);
        state->tile = (struct cut){tiles.count > 1 ? tiles.width : tiles.last, tiles.count, tiles.last};
        state->ld_last = tiles.ld_last;
        state->depth = avx512 ? cut(s->k, 512, 128) : cut(s->k, 256, 64);
    } else {
        uint32_t usual = avx512 ? 256 : 64;
        chunk = s->k < usual ? s->k : usual;
        state->tile = avx512 ? cut(s->n, 32, 16) : cut(s->n, 64, 16);
        state->depth = (struct cut){0, 1, 0};
    }
    static const uint32_t rest_sizes[] = {64, 16, 4, 1};
    state->sizes[state->size_count++] = chunk;
    if (s->form == FTH_GEMM_NN && chunk <= FEW) {
        while (--chunk > 0)
            state->sizes[state->size_count++] = chunk;
        return;
    }
    for (size_t i = 0; i < sizeof rest_sizes / sizeof *rest_sizes; i++)
        if (rest_sizes[i] < chunk)
            state->sizes[state->size_count++] = rest_sizes[i];
}

static libxsmm_smmfunction make(const struct fth_gemm_shape *s, uint32_t columns, uint32_t rows,
                                uint32_t depth, uint32_t ld, int add) {
    libxsmm_blasint lda = (int)ld, ldb = (int)s->lda, ldc = (int)s->ldc;
    float alpha = 1.0f, beta = add ? 1.0f : 0.0f;
    int flags = s->form == FTH_GEMM_TN ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
    int fetch = s->form == FTH_GEMM_TN || (s->panels && (uint64_t)s->n * s->k > FIRST_CACHE);
    int prefetch = fetch ? LIBXSMM_GEMM_PREFETCH_AL2 : LIBXSMM_GEMM_PREFETCH_NONE;
    return libxsmm_smmdispatch((int)columns, (int)rows, (int)depth, &lda, &ldb, &ldc, &alpha, &beta,
                               &flags, &prefetch);
}

static uint32_t row_of_b(const struct fth_gemm_shape *s, const struct state *state, int last_tile) {
    if (!s->panels)
        return s->ldb;
    return last_tile || state->tile.count == 1 ? state->ld_last : state->tile.size;
}

/* All kernels that a run over any number of examples can need; 0 when libxsmm refuses one. */
static int make_kernels(const struct fth_gemm_shape *s, struct state *state) {
    for (uint32_t size = 0; size < state->size_count; size++)
        for (int last_tile = 0; last_tile < 2; last_tile++)
            for (int last_depth = 0; last_depth < 2; last_depth++)
                for (int add = 0; add < 2; add++) {
                    uint32_t columns = last_tile ? state->tile.last : state->tile.size;
                    uint32_t depth = last_depth ? state->depth.last : state->depth.size;
                    uint32_t ld = row_of_b(s, state, last_tile);
                    libxsmm_smmfunction kernel =
                        s->form == FTH_GEMM_TN
                            ? make(s, columns, s->m, state->sizes[size], ld, add)
                            : make(s, columns, state->sizes[size], depth, ld, add);
                    if (!kernel)
                        return 0;
                    state->kernel[size][last_tile][last_depth][add] = kernel;
                }
    return 1;
}

static fth_status create(const struct fth_gemm_shape *s, void **out, fth_error *err) {
    struct state *state = fth_alloc(1, sizeof *state);
    if (!state)
        return fth_fail(err, FTH_E_MEMORY, "matrix product: out of memory");
    choose_pieces(s, state);
    if (!make_kernels(s, state)) {
        fth_free(state);
        return fth_fail(err, FTH_E_UNSUPPORTED,
                        "libxsmm generates no kernel for the product %s of m %u, "
                        "n %u, k %u (is executable memory forbidden here?)",
                        fth_gemm_form_name(s->form), s->m, s->n, s->k);
    }
    *out = state;
    return FTH_OK;
}

/* C's next columns, where they are added to: a column's rows lie apart, the hardware does not fetch them. */
static void fetch_columns(const struct fth_gemm_shape *s, uint32_t rows, const float *c, uint32_t columns) {
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t j = 0; j < columns; j += FTH_CACHE_LINE / sizeof(float))
            __builtin_prefetch(c + (size_t)i * s->ldc + j, 1, 2);
}

/* finish: or NULL. */
static void run_nn(const struct fth_gemm_shape *s, const struct state *state, uint32_t rows,
                   const float *a, const float *b, float *c, const struct fth_gemm_finish *finish) {
    for (uint32_t t = 0; t < state->tile.count; t++) {
        size_t j = (size_t)t * state->tile.size;
        int last_tile = t + 1 == state->tile.count;
        size_t ld = row_of_b(s, state, last_tile);
        const float *strip = s->panels ? b + j * s->k : b + j;
        if (s->accumulate && !last_tile)
            fetch_columns(s, rows, c + j + state->tile.size,
                          t + 2 == state->tile.count ? state->tile.last : state->tile.size);
        for (uint32_t d = 0; d < state->depth.count; d++) {
            size_t p = (size_t)d * state->depth.size;
            int last_depth = d + 1 == state->depth.count, add = s->accumulate || d > 0;
            const float *piece = strip + p * ld;
            /* Fetched by kernels over panels that do not stay in L1 (make); beyond the end it is harmless. */
            const float *next = strip + (last_depth ? s->k : p + state->depth.size) * ld;
            uint32_t i = 0;
            for (uint32_t size = 0; size < state->size_count; size++) {
                uint32_t chunk = state->sizes[size];
                for (; rows - i >= chunk; i += chunk)
                    state->kernel[size][last_tile][last_depth][add](
                        piece, a + (size_t)i * s->lda + p, c + (size_t)i * s->ldc + j, next, NULL,
                        NULL);
            }
        }
        if (finish)
            finish->done(finish->ctx, (uint32_t)j, last_tile ? state->tile.last : state->tile.size);
    }
}

static void run_tn(const struct fth_gemm_shape *s, const struct state *state, uint32_t rows,
                   const float *a, const float *b, float *c) {
    uint32_t p = 0;
    for (uint32_t size = 0; size < state->size_count; size++) {
        uint32_t chunk = state->sizes[size];
        for (; rows - p >= chunk; p += chunk) {
            int add = s->accumulate || p > 0;
            for (uint32_t t = 0; t < state->tile.count; t++) {
                size_t j = (size_t)t * state->tile.size;
                int last_tile = t + 1 == state->tile.count;
                const float *piece = b + (size_t)p * s->ldb + j;
                const float *next = last_tile ? b + (size_t)(p + chunk) * s->ldb : piece + state->tile.size;
                state->kernel[size][last_tile][0][add](piece, a + (size_t)p * s->lda, c + j, next, NULL,
                                                       NULL);
            }
        }
    }
}

static void run(const struct fth_gemm_shape *s, const void *state, uint32_t rows, const float *a,
                const float *b, float *c, void *scratch) {
    if (s->form == FTH_GEMM_TN)
        run_tn(s, state, rows, a, b, c);
    else
        run_nn(s, state, rows, a, b, c, NULL);
}

static void run_finish(const struct fth_gemm_shape *s, const void *state, uint32_t rows, const float *a,
                       const float *b, float *c, void *scratch, const struct fth_gemm_finish *finish) {
    run_nn(s, state, rows, a, b, c, finish);
}

const struct fth_gemm_backend fth_gemm_backend_xsmm = {
    .name = "libxsmm",
    .panels = 1,
    .version = version,
    .refusal = refusal,
    .allocates = allocates,
    .create = create,
    .destroy = fth_free, /* libxsmm keeps generated code for the process's life */
    .run = run,
    .run_finish = run_finish,
};
