/* What both vector widths share: loads and stores that are whole or partial by a constant, and the
 * functions that libm has for single floats. Included after simd_avx2.h or simd_avx512.h.
 *
 * The polynomials are minimax fits of our own, of relative error under 1e-8, so that what is left
 * is the rounding of a few operations. The tests hold all of them within 2e-6 of libm, relative,
 * wherever the result is a normal number. NaN gives NaN; infinities give the limits. */
#ifndef FTH_KERNELS_CPU_SIMD_MATH_H
#define FTH_KERNELS_CPU_SIMD_MATH_H

/* `part` is a constant where these are called: 0 the whole vector, 1 the tail t of it. */
static FTH_INLINE vf v_get(const float *p, int part, vt t) {
    return part ? v_load_part(p, t) : v_load(p);
}
static FTH_INLINE void v_put(float *p, int part, vt t, vf v) {
    if (part)
        v_store_part(p, t, v);
    else
        v_store(p, v);
}

static FTH_INLINE vf v_abs(vf x) { return vi_as_floats(vi_and(v_as_ints(x), vi_set(0x7fffffff))); }
static FTH_INLINE vf v_neg(vf x) { return vi_as_floats(vi_xor(v_as_ints(x), vi_set(0x80000000))); }
/* |size| with the sign of `sign` */
static FTH_INLINE vf v_with_sign(vf size, vf sign) {
    return vi_as_floats(vi_or(v_as_ints(size), vi_and(v_as_ints(sign), vi_set(0x80000000))));
}

/* x = n ln 2 + r, exp(x) = 2^n (1 + r + r^2 p(r)). The scale is applied in two halves, so that
 * results down to the smallest subnormal and up to the largest number come out right. */
static FTH_INLINE vf v_exp(vf x) {
    x = v_max(v_set(-104.5f), v_min(v_set(89.0f), x)); /* NaN passes: it is the second operand */
    vf n = v_round(v_mul(x, v_set(1.4426950408889634f)));
    vf r = v_fnma(n, v_set(0.693359375f), x);
    r = v_fnma(n, v_set(-2.12194440e-4f), r);
    vf p = v_fma(r, v_set(0.0013814467f), v_set(0.00836878041f));
    p = v_fma(p, r, v_set(0.0416683942f));
    p = v_fma(p, r, v_set(0.1666652011f));
    p = v_fma(p, r, v_set(0.4999999341f));
    p = v_add(v_fma(v_mul(r, r), p, r), v_set(1.0f));
    vi whole = v_to_ints(n), first = vi_half(whole), second = vi_sub(whole, first);
    vi bias = vi_set(127);
    p = v_mul(p, vi_as_floats(vi_shl(vi_add(first, bias), 23)));
    return v_mul(p, vi_as_floats(vi_shl(vi_add(second, bias), 23)));
}

/* 1 / (1 + exp(-x)) from e = exp(-|x|) */
static FTH_INLINE vf v_sigmoid_from(vf x, vf e) {
    vf s = v_div(v_set(1.0f), v_add(v_set(1.0f), e));
    return v_select(v_lt(x, v_zero()), v_mul(e, s), s);
}

/* Vectors side by side are independent: a core looks about 100 instructions ahead, which is one function, and would wait
 * for each of its results alone. */
#define FTH_EACH(i, count) _Pragma("GCC unroll 8") for (int i = 0; i < (count); i++)

/* x = 1 + exp(-x), `count` vectors, exp as above with what this range allows: adding 1.5 * 2^23 + 127 rounds to a whole
 * number whose power of two stands in the low bits. From `least`, below 0, on; at -88.9 that power is infinity. */
static FTH_INLINE void v_one_and_exp(const int count, float least, vf *x) {
    vf magic = v_set(12583039.0f), shifted[8], n[8], p[8];
    FTH_EACH(i, count) x[i] = v_max(v_set(least), v_min(v_set(87.0f), x[i])); /* NaN passes: it is the second operand */
    FTH_EACH(i, count) shifted[i] = v_fma(x[i], v_set(-1.4426950408889634f), magic);
    FTH_EACH(i, count) n[i] = v_sub(shifted[i], magic);
    FTH_EACH(i, count) x[i] = v_fma(n[i], v_set(0.693359375f), x[i]);
    FTH_EACH(i, count) x[i] = v_fma(n[i], v_set(-2.12194440e-4f), x[i]);
    FTH_EACH(i, count) p[i] = v_fma(x[i], v_set(-0.0013814467f), v_set(0.00836878041f));
    FTH_EACH(i, count) p[i] = v_fma(p[i], x[i], v_set(-0.0416683942f));
    FTH_EACH(i, count) p[i] = v_fma(p[i], x[i], v_set(0.1666652011f));
    FTH_EACH(i, count) p[i] = v_fma(p[i], x[i], v_set(-0.4999999341f));
    FTH_EACH(i, count) p[i] = v_fma(p[i], x[i], v_set(1.0f));
    FTH_EACH(i, count) p[i] = v_fnma(p[i], x[i], v_set(1.0f));
    FTH_EACH(i, count) x[i] = v_fma(p[i], vi_as_floats(vi_shl(v_as_ints(shifted[i]), 23)), v_set(1.0f));
}

/* 1 / (1 + exp(-x)); results below 1e-38 are 0. */
static FTH_INLINE vf v_sigmoid(vf x) {
    v_one_and_exp(1, -88.9f, &x);
    return v_div(v_set(1.0f), x);
}

/* The sigmoid of x[0 .. count) and x[count .. 2 count); x[i] and x[count + i] share a division, so NaN in one is NaN in
 * both. Results below 2e-19 are 2e-19, so that the product of two divisors is a number. */
static FTH_INLINE void v_sigmoid_pairs(const int count, vf *x) {
    vf inverse[4];
    v_one_and_exp(2 * count, -43.0f, x);
    FTH_EACH(i, count) inverse[i] = v_div(v_set(1.0f), v_mul(x[i], x[count + i]));
    FTH_EACH(i, count) {
        vf first = v_mul(inverse[i], x[count + i]);
        x[count + i] = v_mul(inverse[i], x[i]);
        x[i] = first;
    }
}

/* tanh of `count` vectors: x P(x^2) / Q(x^2) up to a number, within 3e-7 of 1, where that is rounded to 1. */
static FTH_INLINE void v_tanh_each(const int count, vf *x) {
    vf z[8], p[8], q[8];
    FTH_EACH(i, count) x[i] = v_max(v_set(-7.97822285f), v_min(v_set(7.97822285f), x[i])); /* NaN passes */
    FTH_EACH(i, count) z[i] = v_mul(x[i], x[i]);
    FTH_EACH(i, count) p[i] = v_fma(z[i], v_set(1.525332749e-08f), v_set(2.191113708e-05f));
    FTH_EACH(i, count) q[i] = v_fma(z[i], v_set(8.53178733e-07f), v_set(3.412934311e-04f));
    FTH_EACH(i, count) p[i] = v_fma(p[i], z[i], v_set(3.572606482e-03f));
    FTH_EACH(i, count) q[i] = v_fma(q[i], z[i], v_set(2.616829239e-02f));
    FTH_EACH(i, count) p[i] = v_fma(p[i], z[i], v_set(0.1344535202f));
    FTH_EACH(i, count) q[i] = v_fma(q[i], z[i], v_set(0.4677867889f));
    FTH_EACH(i, count) p[i] = v_fma(p[i], z[i], v_set(1.0f));
    FTH_EACH(i, count) q[i] = v_fma(q[i], z[i], v_set(1.0f));
    FTH_EACH(i, count) x[i] = v_div(v_mul(x[i], p[i]), q[i]);
}

static FTH_INLINE vf v_tanh(vf x) {
    v_tanh_each(1, &x);
    return x;
}

/* log(1 + u) for u in [0, 1]: 2 artanh(s), s = u / (2 + u) */
static FTH_INLINE vf v_log1p_unit(vf u) {
    vf s = v_div(u, v_add(v_set(2.0f), u)), z = v_mul(s, s);
    vf p = v_fma(z, v_set(0.28024458809f), v_set(0.27999141086f));
    p = v_fma(p, z, v_set(0.40021699058f));
    p = v_fma(p, z, v_set(0.66666413133f));
    return v_fma(v_mul(p, z), s, v_add(s, s));
}

/* The normal distribution function, and exp(-x^2 / 2) with it. For u = |x|,
 * Phi(-u) = exp(-u^2 / 2) R(u), R(u) = G(q) / (u + 4), q = (u - 4) / (u + 4); the rounding error of
 * u^2 / 2 is put back into the exponential. */
static FTH_INLINE vf v_normal_cdf(vf x, vf *bell) {
    vf u = v_min(v_set(15.0f), v_abs(x)), half = v_mul(v_set(0.5f), u);
    vf h = v_mul(half, u), lost = v_fms(half, u, h);
    vf e = v_exp(v_neg(h));
    e = v_fnma(e, lost, e);
    vf t = v_div(v_set(1.0f), v_add(u, v_set(4.0f)));
    vf q = v_mul(v_sub(u, v_set(4.0f)), t);
    vf g = v_fma(q, v_set(-0.00013419624f), v_set(0.00017465944f));
    g = v_fma(g, q, v_set(0.00156840833f));
    g = v_fma(g, q, v_set(-0.00351021102f));
    g = v_fma(g, q, v_set(-0.007524004389f));
    g = v_fma(g, q, v_set(0.060403489486f));
    g = v_fma(g, q, v_set(-0.1865236563f));
    g = v_fma(g, q, v_set(0.38713691652f));
    g = v_fma(g, q, v_set(-0.60789657988f));
    g = v_fma(g, q, v_set(0.75528513525f));
    vf below = v_mul(e, v_mul(g, t));
    *bell = e;
    return v_select(v_lt(x, v_zero()), below, v_sub(v_set(1.0f), below));
}

/* The high and low words of the products of unsigned lanes. */
static FTH_INLINE void vi_mul_wide(vi a, uint32_t factor, vi *high, vi *low) {
    vi by = vi_set(factor), even = vi_mul_even(a, by), odd = vi_mul_even(vi_odd_to_even(a), by);
    *high = vi_even_odd(vi_odd_to_even(even), odd);
    *low = vi_even_odd(even, vi_even_to_odd(odd));
}

/* Philox 4x32-10 (Salmon et al., SC 2011) of VW counters side by side, in place. */
static FTH_INLINE void vi_philox(vi counter[4], uint64_t key) {
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        vi high0, low0, high1, low1;
        vi_mul_wide(counter[0], 0xD2511F53u, &high0, &low0);
        vi_mul_wide(counter[2], 0xCD9E8D57u, &high1, &low1);
        counter[0] = vi_xor(vi_xor(high1, counter[1]), vi_set(key0));
        counter[1] = low1;
        counter[2] = vi_xor(vi_xor(high0, counter[3]), vi_set(key1));
        counter[3] = low0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

/* Words 0 .. VW - 1 of the draws (a, b), (a, b + 1), ..: fewer at a time than above, but in their order. Even lanes of x
 * are a counter's words 0 and 2, of y 1 and 3; what is in odd lanes does not matter. */
static FTH_INLINE vi vi_philox_words(uint64_t key, uint64_t a, uint32_t b) {
    vi x = vi_add(vi_quads((uint32_t)a, 0, b, 0), vi_and(vi_quads(0, 0, ~0u, 0), vi_shr(vi_lanes(), 2)));
    vi y = vi_quads((uint32_t)(a >> 32), 0, 0, 0), keys = vi_quads((uint32_t)key, 0, (uint32_t)(key >> 32), 0);
    for (int round = 0; round < 10; round++) {
        vi products = vi_swap_pairs(vi_mul_even(x, vi_quads(0xD2511F53u, 0, 0xCD9E8D57u, 0)));
        x = vi_xor(vi_xor(vi_odd_to_even(products), y), keys);
        y = products;
        keys = vi_add(keys, vi_quads(0x9E3779B9u, 0, 0xBB67AE85u, 0));
    }
    return vi_even_odd(x, vi_even_to_odd(y));
}

#endif
