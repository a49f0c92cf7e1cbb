/* A vector of an optimizer's step, for any vector width: what optimize_simd.h and the weight gradients that make the
 * step on their way (gemm_fp32_avx512.c) share. True square roots and divisions, no fused multiply-adds, the
 * scalar form's order: the results are the scalar ones to the bit. See kernels.def. */
#ifndef FTH_KERNELS_CPU_OPTIMIZE_LANES_SIMD_H
#define FTH_KERNELS_CPU_OPTIMIZE_LANES_SIMD_H

static FTH_INLINE vf gradient(int part, vt t, const float *g, vf w, const struct fth_opt_args *a) {
    return v_add(v_mul(v_get(g, part, t), v_set(a->grad_scale)), v_mul(v_set(a->l2), w));
}

static FTH_INLINE void sgd_lanes(int part, vt t, float *w, const float *g,
                                 const struct fth_opt_args *a) {
    vf x = v_get(w, part, t);
    v_put(w, part, t, v_sub(x, v_mul(v_set(a->lr), gradient(part, t, g, x, a))));
}

static FTH_INLINE void adagrad_lanes(int part, vt t, float *w, float *s, const float *g,
                                     const struct fth_opt_args *a) {
    vf x = v_get(w, part, t), d = gradient(part, t, g, x, a);
    vf squares = v_add(v_get(s, part, t), v_mul(d, d));
    v_put(s, part, t, squares);
    vf divisor = v_add(v_sqrt(squares), v_set(a->eps));
    v_put(w, part, t, v_sub(x, v_div(v_mul(v_set(a->lr), d), divisor)));
}

/* Adam's two averages, updated. */
static FTH_INLINE void averages(int part, vt t, vf d, float *m, float *v,
                                const struct fth_opt_args *a, vf *first, vf *second) {
    *first = v_add(v_mul(v_set(a->beta1), v_get(m, part, t)), v_mul(v_set(1.0f - a->beta1), d));
    *second = v_add(v_mul(v_set(a->beta2), v_get(v, part, t)),
                    v_mul(v_set(1.0f - a->beta2), v_mul(d, d)));
    v_put(m, part, t, *first);
    v_put(v, part, t, *second);
}

static FTH_INLINE void adam_lanes(int part, vt t, float *w, float *m, float *v, const float *g,
                                  const struct fth_opt_args *a, float rate, float root) {
    vf x = v_get(w, part, t), first, second;
    averages(part, t, gradient(part, t, g, x, a), m, v, a, &first, &second);
    vf divisor = v_add(v_div(v_sqrt(second), v_set(root)), v_set(a->eps));
    x = v_sub(x, v_mul(v_set(a->lr * a->weight_decay), x));
    v_put(w, part, t, v_sub(x, v_div(v_mul(v_set(rate), first), divisor)));
}

#endif
