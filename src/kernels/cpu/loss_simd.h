/* Binary cross-entropy and blocks of a softmax for any vector width: loss_avx2.c and loss_avx512.c include it. See
 * kernels.def. */
#ifndef FTH_KERNELS_CPU_LOSS_SIMD_H
#define FTH_KERNELS_CPU_LOSS_SIMD_H

static FTH_INLINE void bce_lanes(int part, vt t, const float *z, const float *y,
                                 const float *weights, float smoothing, float scale, float *loss,
                                 float *dz) {
    vf v = v_get(z, part, t), w = weights ? v_get(weights, part, t) : v_set(1.0f);
    vf target = v_add(v_mul(v_get(y, part, t), v_set(1.0f - smoothing)), v_set(smoothing * 0.5f));
    vf e = v_exp(v_neg(v_abs(v)));
    vf value = v_add(v_sub(v_max(v_zero(), v), v_mul(v, target)), v_log1p_unit(e));
    v_put(loss, part, t, v_mul(w, value));
    v_put(dz, part, t, v_mul(v_mul(w, v_set(scale)), v_sub(v_sigmoid_from(v, e), target)));
}

/* Strided logits and gradients go through small blocks on the stack. */
void FTH_K(bce)(size_t m, const float *z, size_t ldz, const float *y, const float *weights,
                float smoothing, float scale, float *loss, float *dz, size_t lddz) {
    for (size_t i = 0; i < m; i += VW) {
        size_t count = m - i < VW ? m - i : VW;
        vt t = v_tail(count);
        float logits[VW] = {0}, gradients[VW];
        for (size_t j = 0; j < count; j++)
            logits[j] = z[(i + j) * ldz];
        if (count == VW)
            bce_lanes(0, t, logits, y + i, weights ? weights + i : NULL, smoothing, scale, loss + i,
                      gradients);
        else
            bce_lanes(1, t, logits, y + i, weights ? weights + i : NULL, smoothing, scale, loss + i,
                      gradients);
        for (size_t j = 0; j < count; j++)
            dz[(i + j) * lddz] = gradients[j];
    }
}

static void softmax_block_row(size_t n, float *x, const float *shift, float *most, float *sum,
                              float *factor) {
    vt t = v_tail(n % VW);
    size_t whole = n - n % VW;
    vf largest = v_set(*most), total = v_zero(), before = v_set(*most);
    float lanes[VW];
    for (size_t j = 0; j < n; j += VW) {
        int part = j == whole;
        vf s = v_sub(v_get(x + j, part, t), v_get(shift + j, part, t));
        v_put(x + j, part, t, s);
        if (part) { /* the lanes outside hold zeros */
            v_store(lanes, s);
            for (size_t l = n - whole; l < VW; l++)
                lanes[l] = *most;
            s = v_load(lanes);
        }
        largest = v_max(largest, s);
    }
    float now = v_largest(largest);
    vf m = v_set(now);
    for (size_t j = 0; j < n; j += VW) {
        int part = j == whole;
        vf e = v_exp(v_sub(v_get(x + j, part, t), m));
        v_put(x + j, part, t, e);
        total = v_add(total, part ? v_keep_part(t, e) : e);
    }
    v_store(lanes, v_exp(v_sub(before, m)));
    *factor = lanes[0];
    *sum = *sum * *factor + v_sum(total);
    *most = now;
}

void FTH_K(softmax_block)(size_t m, size_t n, float *x, size_t ldx, const float *shift, float *most,
                          float *sum, float *factor) {
    for (size_t i = 0; i < m; i++)
        softmax_block_row(n, x + i * ldx, shift, most + i, sum + i, factor + i);
}

#endif
