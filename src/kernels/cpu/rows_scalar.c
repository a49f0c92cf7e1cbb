/* Embedding rows, plain: the reference of rows_simd.h. See kernels.def. */
#include "base/random.h"
#include "kernels/cpu/cpu_kernels.h"

void fth_k_gather_scalar(size_t m, const uint32_t *rows, const float *base, size_t stride, size_t d,
                         float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < d; j++)
            out[i * ldo + j] = base[(size_t)rows[i] * stride + j];
}

/* The larger; NaN when either is. */
static float larger(float a, float b) {
    if (a != a)
        return a;
    return a > b ? a : b;
}

void fth_k_gather_pool_scalar(size_t m, const uint32_t *offsets, const uint32_t *rows,
                              const float *values, const float *base, size_t stride, size_t d,
                              fth_pooling pooling, float *out, size_t ldo, uint32_t *at) {
    for (size_t i = 0; i < m; i++) {
        size_t begin = offsets[i] - offsets[0], end = offsets[i + 1] - offsets[0];
        for (size_t j = 0; j < d; j++) {
            float pooled = 0.0f;
            size_t first = begin;
            for (size_t t = begin; t < end; t++) {
                float v = base[(size_t)rows[t] * stride + j];
                if (values)
                    v *= values[t];
                if (pooling != FTH_POOL_MAX) {
                    pooled += v;
                    continue;
                }
                if (t > begin && v > pooled)
                    first = t;
                pooled = t == begin ? v : larger(pooled, v);
            }
            if (pooling == FTH_POOL_MEAN && end > begin)
                pooled /= (float)(end - begin);
            out[i * ldo + j] = pooled;
            if (pooling == FTH_POOL_MAX)
                at[i * d + j] = offsets[0] + (uint32_t)first;
        }
    }
}

void fth_k_pick_scalar(size_t d, const uint32_t *at, uint32_t position, const float *x, float *out) {
    for (size_t j = 0; j < d; j++)
        out[j] = at[j] == position ? x[j] : 0;
}

void fth_k_gather_sum_scalar(size_t m, size_t n, const uint32_t *const *rows,
                             const float *const *base, size_t stride, size_t d, const float *from,
                             size_t ldf, float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < d; j++) {
            float sum = from ? from[i * ldf + j] : 0.0f;
            for (size_t f = 0; f < n; f++)
                sum += base[f][(size_t)rows[f][i] * stride + j];
            out[i * ldo + j] = sum;
        }
}

void fth_k_sum_lists_scalar(size_t m, const uint32_t *begin, const uint32_t *list,
                            const float *base, size_t stride, size_t d, float *out, size_t ldo) {
    for (size_t u = 0; u < m; u++)
        for (size_t j = 0; j < d; j++) {
            float sum = 0.0f;
            for (size_t t = begin[u]; t < begin[u + 1]; t++)
                sum += base[(size_t)list[t] * stride + j];
            out[u * ldo + j] = sum;
        }
}

void fth_k_sum_rows_scalar(size_t n, const float *const *src, const float *scale, size_t d,
                           float *out) {
    for (size_t j = 0; j < d; j++) {
        float sum = 0.0f;
        for (size_t i = 0; i < n; i++)
            sum += scale ? scale[i] * src[i][j] : src[i][j];
        out[j] = sum;
    }
}

void fth_k_add_to_rows_scalar(size_t m, const uint32_t *begin, const uint32_t *rows, const uint32_t *once,
                              const float *scale, const float *x, size_t ld, size_t d, float *sums, size_t stride) {
    for (size_t i = 0; i < m; i++)
        for (size_t t = begin[i]; t < begin[i + 1]; t++) {
            int set = once && once[rows[t]] == 1 && (!scale || scale[i] == 1);
            for (size_t j = 0; j < d; j++) {
                float v = scale ? scale[i] * x[i * ld + j] : x[i * ld + j], *sum = &sums[rows[t] * stride + j];
                *sum = set ? v : *sum + v;
            }
        }
}

void fth_k_draw_uniform_scalar(uint64_t seed, uint32_t stream, uint64_t a, size_t n, float low, float high,
                               float *out) {
    fth_random_uniform(seed, stream, a, (uint32_t)n, low, high, out);
}
