/* Elementwise arithmetic for any vector width: elementwise_avx2.c and elementwise_avx512.c include
 * it. No fused multiply-adds: the results are the scalar ones to the bit. See kernels.def. */
#ifndef FTH_KERNELS_CPU_ELEMENTWISE_SIMD_H
#define FTH_KERNELS_CPU_ELEMENTWISE_SIMD_H

/* Rows without gaps are one long row: a single column is then as quick as any. */
static FTH_INLINE void join_rows(int gapless, size_t *m, size_t *n) {
    if (gapless) {
        *n *= *m;
        *m = 1;
    }
}

enum map_kind { MAP_ADD, MAP_SUB, MAP_MUL };

static FTH_INLINE void map_lanes(int part, vt t, enum map_kind kind, const float *a, const float *b,
                                 float *out) {
    vf u = v_get(a, part, t), v = v_get(b, part, t);
    v_put(out, part, t,
          kind == MAP_ADD   ? v_add(u, v)
          : kind == MAP_SUB ? v_sub(u, v)
                            : v_mul(u, v));
}

/* `kind` is a constant at every call. */
static FTH_INLINE void map_rows(enum map_kind kind, size_t m, size_t n, const float *a, size_t lda,
                                const float *b, size_t ldb, float *out, size_t ldo) {
    join_rows(lda == n && ldb == n && ldo == n, &m, &n);
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++, a += lda, b += ldb, out += ldo) {
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            map_lanes(0, t, kind, a + j, b + j, out + j);
        if (j < n)
            map_lanes(1, t, kind, a + j, b + j, out + j);
    }
}

void FTH_K(add)(size_t m, size_t n, const float *a, size_t lda, const float *b, size_t ldb,
                float *out, size_t ldo) {
    map_rows(MAP_ADD, m, n, a, lda, b, ldb, out, ldo);
}

void FTH_K(sub)(size_t m, size_t n, const float *a, size_t lda, const float *b, size_t ldb,
                float *out, size_t ldo) {
    map_rows(MAP_SUB, m, n, a, lda, b, ldb, out, ldo);
}

void FTH_K(mul)(size_t m, size_t n, const float *a, size_t lda, const float *b, size_t ldb,
                float *out, size_t ldo) {
    map_rows(MAP_MUL, m, n, a, lda, b, ldb, out, ldo);
}

void FTH_K(copy)(size_t m, size_t n, const float *a, size_t lda, float *out, size_t ldo) {
    join_rows(lda == n && ldo == n, &m, &n);
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++, a += lda, out += ldo) {
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            v_store(out + j, v_load(a + j));
        if (j < n)
            v_store_part(out + j, t, v_load_part(a + j, t));
    }
}

/* Eight rows and columns through 256-bit registers, at either width: wider shuffles would save no
 * stores. */
static FTH_INLINE void transpose_8(const float *a, size_t lda, float *out, size_t ldo) {
    __m256 r[8], s[8];
    for (int i = 0; i < 8; i += 2) {
        __m256 first = _mm256_loadu_ps(a + (size_t)i * lda);
        __m256 second = _mm256_loadu_ps(a + (size_t)(i + 1) * lda);
        r[i] = _mm256_unpacklo_ps(first, second);
        r[i + 1] = _mm256_unpackhi_ps(first, second);
    }
    for (int i = 0; i < 8; i += 4)
        for (int half = 0; half < 2; half++) {
            s[i + 2 * half] = _mm256_shuffle_ps(r[i + half], r[i + half + 2], 0x44);
            s[i + 2 * half + 1] = _mm256_shuffle_ps(r[i + half], r[i + half + 2], 0xee);
        }
    for (int j = 0; j < 4; j++) {
        _mm256_storeu_ps(out + (size_t)j * ldo, _mm256_permute2f128_ps(s[j], s[j + 4], 0x20));
        _mm256_storeu_ps(out + (size_t)(j + 4) * ldo, _mm256_permute2f128_ps(s[j], s[j + 4], 0x31));
    }
}

void FTH_K(transpose)(size_t m, size_t n, const float *a, size_t lda, float *out, size_t ldo) {
    size_t i = 0;
    for (; i + 8 <= m; i += 8) {
        size_t j = 0;
        for (; j + 8 <= n; j += 8)
            transpose_8(a + i * lda + j, lda, out + j * ldo + i, ldo);
        for (; j < n; j++)
            for (size_t k = i; k < i + 8; k++)
                out[j * ldo + k] = a[k * lda + j];
    }
    for (; i < m; i++)
        for (size_t j = 0; j < n; j++)
            out[j * ldo + i] = a[i * lda + j];
}

void FTH_K(scale)(size_t m, size_t n, const float *x, size_t ldx, float factor, float *out,
                  size_t ldo) {
    join_rows(ldx == n && ldo == n, &m, &n);
    vt t = v_tail(n % VW);
    vf by = v_set(factor);
    for (size_t i = 0; i < m; i++, x += ldx, out += ldo) {
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            v_store(out + j, v_mul(v_load(x + j), by));
        if (j < n)
            v_store_part(out + j, t, v_mul(v_load_part(x + j, t), by));
    }
}

static FTH_INLINE void mul_add_lanes(int part, vt t, const float *a, const float *b, const float *c,
                                     float *out) {
    v_put(out, part, t, v_add(v_mul(v_get(a, part, t), v_get(b, part, t)), v_get(c, part, t)));
}

void FTH_K(mul_add)(size_t m, size_t n, const float *a, size_t lda, const float *b, size_t ldb,
                    const float *c, size_t ldc, float *out, size_t ldo) {
    join_rows(lda == n && ldb == n && ldc == n && ldo == n, &m, &n);
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++, a += lda, b += ldb, c += ldc, out += ldo) {
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            mul_add_lanes(0, t, a + j, b + j, c + j, out + j);
        if (j < n)
            mul_add_lanes(1, t, a + j, b + j, c + j, out + j);
    }
}

static FTH_INLINE void cross_lanes(int part, vt t, const float *a, const float *b, const float *bias,
                                   const float *c, float *out) {
    vf x = v_get(b, part, t);
    if (bias)
        x = v_add(x, v_get(bias, part, t));
    v_put(out, part, t, v_add(v_mul(v_get(a, part, t), x), v_get(c, part, t)));
}

void FTH_K(cross)(size_t m, size_t n, const float *a, size_t lda, const float *b, size_t ldb,
                  const float *bias, const float *c, size_t ldc, float *out, size_t ldo) {
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++, a += lda, b += ldb, c += ldc, out += ldo) {
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            cross_lanes(0, t, a + j, b + j, bias ? bias + j : NULL, c + j, out + j);
        if (j < n)
            cross_lanes(1, t, a + j, b + j, bias ? bias + j : NULL, c + j, out + j);
    }
}

/* sum, bias: NULL or not is the same in all rows; with_dy likewise. */
static FTH_INLINE void cross_grad_lanes(int part, vt t, const float *dy, const float *a, const float *b,
                                        const float *bias, const float *sum, int with_dy, float *da,
                                        float *db) {
    vf d = v_get(dy, part, t), x = v_get(b, part, t);
    if (bias)
        x = v_add(x, v_get(bias, part, t));
    vf out = v_mul(d, x);
    if (sum)
        out = v_add(v_get(sum, part, t), out);
    if (with_dy)
        out = v_add(out, d);
    v_put(da, part, t, out);
    v_put(db, part, t, v_mul(d, v_get(a, part, t)));
}

void FTH_K(cross_grad)(size_t m, size_t n, const float *dy, size_t lddy, const float *a, size_t lda,
                       const float *b, size_t ldb, const float *bias, const float *sum, size_t lds,
                       int with_dy, float *da, size_t ldda, float *db, size_t lddb) {
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++, dy += lddy, a += lda, b += ldb, da += ldda, db += lddb) {
        const float *row = sum ? sum + i * lds : NULL;
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            cross_grad_lanes(0, t, dy + j, a + j, b + j, bias ? bias + j : NULL, row ? row + j : NULL, with_dy,
                             da + j, db + j);
        if (j < n)
            cross_grad_lanes(1, t, dy + j, a + j, b + j, bias ? bias + j : NULL, row ? row + j : NULL, with_dy,
                             da + j, db + j);
    }
}

void FTH_K(affine_cols)(size_t m, size_t n, const float *x, size_t ldx, const float *scale,
                        const float *shift, float *y, size_t ldy) {
    FTH_K(mul_add)(m, n, x, ldx, scale, 0, shift, 0, y, ldy);
}

static FTH_INLINE void standardise_lanes(int part, vt t, const float *x, const float *scale, const float *mean,
                                         float *y) {
    v_put(y, part, t, v_mul(v_sub(v_get(x, part, t), v_get(mean, part, t)), v_get(scale, part, t)));
}

void FTH_K(standardise_cols)(size_t m, size_t n, const float *x, size_t ldx, const float *scale,
                             const float *mean, float *y, size_t ldy) {
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++, x += ldx, y += ldy) {
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            standardise_lanes(0, t, x + j, scale + j, mean + j, y + j);
        if (j < n)
            standardise_lanes(1, t, x + j, scale + j, mean + j, y + j);
    }
}

static FTH_INLINE void affine2_lanes(int part, vt t, const float *x, const float *y, const float *a,
                                     const float *b, const float *c, float *out) {
    vf first = v_mul(v_get(a, part, t), v_get(x, part, t));
    vf second = v_mul(v_get(b, part, t), v_get(y, part, t));
    v_put(out, part, t, v_add(v_add(first, second), v_get(c, part, t)));
}

void FTH_K(affine2_cols)(size_t m, size_t n, const float *x, size_t ldx, const float *y, size_t ldy,
                         const float *a, const float *b, const float *c, float *out, size_t ldo) {
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++, x += ldx, y += ldy, out += ldo) {
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            affine2_lanes(0, t, x + j, y + j, a + j, b + j, c + j, out + j);
        if (j < n)
            affine2_lanes(1, t, x + j, y + j, a + j, b + j, c + j, out + j);
    }
}

#endif
