/* A time step of recurrent layers, plain: the reference of recurrent_simd.h. See kernels.h. */
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/scalar_math.h"

void fth_k_gru_scalar(const struct fth_recurrent *c) {
    size_t n = c->n;
    for (size_t i = 0; i < c->m; i++) {
        size_t at = c->rows[i];
        const float *x = c->x + (c->x_by_step ? i : at) * c->ldx, *r = c->r + i * c->ldr, *b = c->bias;
        float *h = c->h + i * c->ldh, *kept = c->kept + at * c->ldk, *state = c->states + at * c->lds;
        float score = c->score ? c->score[at] : 1.0f;
        for (size_t j = 0; j < n; j++) {
            float u = fth_scalar_sigmoid(x[n + j] + b[n + j] + r[j]);
            float v = fth_scalar_sigmoid(x[2 * n + j] + b[2 * n + j] + r[n + j]);
            float g = tanhf(x[j] + b[j] + v * r[2 * n + j]);
            kept[j] = g;
            kept[n + j] = u;
            kept[2 * n + j] = v;
            kept[3 * n + j] = r[2 * n + j];
            h[j] += score * u * (g - h[j]);
            state[j] = h[j];
        }
    }
}

void fth_k_gru_grad_scalar(const struct fth_recurrent_grad *c) {
    size_t n = c->n;
    for (size_t i = 0; i < c->m; i++) {
        size_t at = c->rows[i];
        const float *kept = c->kept + at * c->ldk, *dy = c->dy + at * c->lddy;
        const float *previous = c->previous ? c->states + c->previous[i] * c->lds : NULL;
        float *dh = c->dh + i * c->lddh, *dr = c->dr + i * c->lddr, *gates = c->gates + at * c->ldg;
        float *before = c->before + at * c->ldb, score = c->score ? c->score[at] : 1.0f, dscore = 0.0f;
        for (size_t j = 0; j < n; j++) {
            float g = kept[j], u = kept[n + j], v = kept[2 * n + j], q = kept[3 * n + j];
            float h = previous ? previous[j] : 0.0f, d = dy[j] + dh[j], w = score * u;
            float dw = d * (g - h), dg = d * w * (1.0f - g * g), du = dw * score * u * (1.0f - u);
            float dv = dg * q * v * (1.0f - v), dq = dg * v;
            dscore += dw * u;
            dh[j] = d - d * w;
            before[j] = h;
            gates[j] = dg;
            gates[n + j] = dr[j] = du;
            gates[2 * n + j] = dr[n + j] = dv;
            gates[3 * n + j] = dr[2 * n + j] = dq;
        }
        if (c->score)
            c->dscore[at] = dscore;
    }
}

void fth_k_lstm_scalar(const struct fth_recurrent *c) {
    size_t n = c->n;
    for (size_t i = 0; i < c->m; i++) {
        size_t at = c->rows[i];
        const float *x = c->x + (c->x_by_step ? i : at) * c->ldx, *r = c->r + i * c->ldr, *b = c->bias;
        float *h = c->h + i * c->ldh, *cell = c->c + i * c->ldc;
        float *kept = c->kept + at * c->ldk, *state = c->states + at * c->lds;
        for (size_t j = 0; j < n; j++) {
            float in = fth_scalar_sigmoid(x[j] + b[j] + r[j]), forget = fth_scalar_sigmoid(x[n + j] + b[n + j] + r[n + j]);
            float g = tanhf(x[2 * n + j] + b[2 * n + j] + r[2 * n + j]);
            float out = fth_scalar_sigmoid(x[3 * n + j] + b[3 * n + j] + r[3 * n + j]);
            cell[j] = forget * cell[j] + in * g;
            kept[j] = in;
            kept[n + j] = forget;
            kept[2 * n + j] = g;
            kept[3 * n + j] = out;
            kept[4 * n + j] = cell[j];
            h[j] = state[j] = out * tanhf(cell[j]);
        }
    }
}

void fth_k_lstm_grad_scalar(const struct fth_recurrent_grad *c) {
    size_t n = c->n;
    for (size_t i = 0; i < c->m; i++) {
        size_t at = c->rows[i];
        const float *kept = c->kept + at * c->ldk, *dy = c->dy + at * c->lddy;
        const float *state = c->previous ? c->states + c->previous[i] * c->lds : NULL;
        const float *cell = c->previous ? c->kept + c->previous[i] * c->ldk + 4 * n : NULL;
        float *dh = c->dh + i * c->lddh, *dc = c->dc + i * c->lddc, *dr = c->dr + i * c->lddr;
        float *gates = c->gates + at * c->ldg, *before = c->before + at * c->ldb;
        for (size_t j = 0; j < n; j++) {
            float in = kept[j], forget = kept[n + j], g = kept[2 * n + j], out = kept[3 * n + j];
            float t = tanhf(kept[4 * n + j]), d = dy[j] + dh[j];
            float inner = dc[j] + d * out * (1.0f - t * t);
            before[j] = state ? state[j] : 0.0f;
            gates[j] = dr[j] = inner * g * in * (1.0f - in);
            gates[n + j] = dr[n + j] = inner * (cell ? cell[j] : 0.0f) * forget * (1.0f - forget);
            gates[2 * n + j] = dr[2 * n + j] = inner * in * (1.0f - g * g);
            gates[3 * n + j] = dr[3 * n + j] = d * t * out * (1.0f - out);
            dc[j] = inner * forget;
            dh[j] = 0.0f; /* all of it goes through the weights */
        }
    }
}
