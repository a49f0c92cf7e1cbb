/* An attention unit's first layer, plain: the reference of attention_simd.h. See kernels.def. */
#include "kernels/cpu/cpu_kernels.h"

/* row[i] = W0[i][j] + q[i] W1[i][j] summed with k's row */
static float product(const struct fth_attention *a, size_t example, size_t t, size_t j) {
    const float *k = a->k + t * a->ldk, *q = a->q + example * a->ldq;
    float sum = 0.0f;
    for (size_t i = 0; i < a->d; i++)
        sum += k[i] * (a->w[i * a->ldw + j] + q[i] * a->w[(a->d + i) * a->ldw + j]);
    return sum;
}

void fth_k_attention_layer_scalar(const struct fth_attention *a, float *y, size_t ldy, float *scratch) {
    for (size_t e = 0; e < a->m; e++)
        for (size_t t = a->offsets[e] - a->offsets[0]; t < a->offsets[e + 1] - a->offsets[0]; t++) {
            for (size_t j = 0; j < a->n; j++)
                y[t * ldy + j] = product(a, e, t, j);
            fth_k_bias_act_scalar(1, a->n, y + t * ldy, ldy, a->r + e * a->ldr, a->act, y + t * ldy,
                                  ldy);
        }
}

static void keys_grad(const struct fth_attention *a, const struct fth_attention_grad *g, size_t example,
                      size_t t, const float *dz) {
    const float *q = a->q + example * a->ldq;
    for (size_t i = 0; i < a->d; i++) {
        float sum = 0.0f;
        for (size_t j = 0; j < a->n; j++)
            sum += dz[j] * (g->wt[j * g->ldwt + i] + q[i] * g->wt[j * g->ldwt + a->d + i]);
        if (g->dout)
            sum += g->weight[t * g->ld_weight] * g->dout[example * g->lddo + i];
        g->dk[t * g->lddk + i] = sum;
    }
}

static void weights_grad(const struct fth_attention *a, const struct fth_attention_grad *g,
                         size_t example, size_t begin, size_t rows, const float *dz) {
    const float *q = a->q + example * a->ldq, *k = a->k + begin * a->ldk;
    for (size_t i = 0; i < a->d; i++) {
        float dq = 0.0f;
        for (size_t j = 0; j < a->n; j++) {
            float sum = 0.0f;
            for (size_t t = 0; t < rows; t++)
                sum += k[t * a->ldk + i] * dz[t * a->n + j];
            g->dw[i * a->n + j] += sum;
            g->dw[(a->d + i) * a->n + j] += q[i] * sum;
            dq += sum * a->w[(a->d + i) * a->ldw + j];
        }
        g->dq[example * g->lddq + i] = dq;
    }
}

static void example_grad(const struct fth_attention *a, const struct fth_attention_grad *g, size_t e,
                         const float *dz) {
    size_t begin = a->offsets[e] - a->offsets[0], rows = a->offsets[e + 1] - a->offsets[e];
    fth_k_col_sum_scalar(rows, a->n, dz, a->n, g->dr + e * g->lddr);
    for (size_t t = 0; t < rows; t++)
        keys_grad(a, g, e, begin + t, dz + t * a->n);
    weights_grad(a, g, e, begin, rows, dz);
}

void fth_k_attention_layer_grad_scalar(const struct fth_attention *a, const struct fth_attention_grad *g,
                                       float *scratch) {
    for (size_t i = 0; i < 2 * a->d * a->n; i++)
        g->dw[i] = 0.0f;
    for (size_t e = 0; e < a->m; e++) {
        size_t begin = a->offsets[e] - a->offsets[0], rows = a->offsets[e + 1] - a->offsets[e];
        fth_k_act_grad_scalar(a->act, rows, a->n, g->y + begin * g->ldy, g->ldy,
                              g->dy + begin * g->lddy, g->lddy, scratch, a->n);
        example_grad(a, g, e, scratch);
    }
}

void fth_k_attention_unit_scalar(const struct fth_attention *a, float *y, size_t ldy,
                                 const struct fth_attention_unit *u, float *scratch) {
    size_t rows = a->offsets[a->m] - a->offsets[0];
    fth_k_attention_layer_scalar(a, y, ldy, scratch);
    for (size_t t = 0; t < rows; t++)
        for (size_t j = 0; j < u->n; j++) {
            float sum = 0.0f;
            for (size_t i = 0; i < a->n; i++)
                sum += y[t * ldy + i] * u->w[i * u->ldw + j];
            u->h[t * u->ldh + j] = sum;
        }
    fth_k_bias_act_scalar(rows, u->n, u->h, u->ldh, u->b, a->act, u->h, u->ldh);
    fth_k_row_dot_scalar(rows, u->n, u->h, u->ldh, u->v, u->bias, u->weight, u->ld_weight);
    fth_k_segment_sum_scalar(a->m, a->offsets, a->d, a->k, a->ldk, u->weight, u->ld_weight, u->out,
                             u->ldo);
}

/* One position: its part of the second layer's gradients, and dz, the gradient before the first's activation. */
static void position_grad(const struct fth_attention *a, const struct fth_attention_grad *g,
                          const struct fth_attention_unit_grad *u, size_t t, float dweight, float *dz) {
    const float *y = g->y + t * g->ldy, *h = u->h + t * u->ldh;
    *u->dbias += dweight;
    for (size_t i = 0; i < a->n; i++)
        dz[i] = 0.0f;
    for (size_t j = 0; j < u->n; j++) {
        float dh = dweight * u->v[j];
        fth_k_act_grad_scalar(a->act, 1, 1, h + j, 1, &dh, 1, &dh, 1);
        u->dv[j] += dweight * h[j];
        u->db[j] += dh;
        for (size_t i = 0; i < a->n; i++) {
            u->dw[i * u->n + j] += y[i] * dh;
            dz[i] += dh * u->wt[j * u->ldwt + i];
        }
    }
    fth_k_act_grad_scalar(a->act, 1, a->n, y, a->n, dz, a->n, dz, a->n);
}

void fth_k_attention_unit_grad_scalar(const struct fth_attention *a, const struct fth_attention_grad *g,
                                      const struct fth_attention_unit_grad *u, float *scratch) {
    for (size_t i = 0; i < 2 * a->d * a->n; i++)
        g->dw[i] = 0.0f;
    for (size_t i = 0; i < a->n * u->n; i++)
        u->dw[i] = 0.0f;
    for (size_t j = 0; j < u->n; j++)
        u->db[j] = u->dv[j] = 0.0f;
    *u->dbias = 0.0f;
    for (size_t e = 0; e < a->m; e++) {
        size_t begin = a->offsets[e] - a->offsets[0], rows = a->offsets[e + 1] - a->offsets[e];
        for (size_t t = begin; t < begin + rows; t++) {
            float dweight = 0.0f;
            for (size_t i = 0; i < a->d; i++)
                dweight += a->k[t * a->ldk + i] * g->dout[e * g->lddo + i];
            position_grad(a, g, u, t, dweight, scratch + (t - begin) * a->n);
        }
        example_grad(a, g, e, scratch);
    }
}
