/* Products of bf16, of one part to three; kernels of AVX512-BF16 and AMX emulated: to the bit what a scalar model makes.
 * Where this machine has the instructions, its own kernel gives the same bits as the emulation. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/memory.h"
#include "bf16_model.h"

static void equals_the_model(void **state) {
    (void)state;
    static const uint32_t rows[] = {1, 7, 16, 33, 131, 300}, fixed[] = {1, 2, 31, 33, 64, 70},
                          widths[] = {2, 15, 16, 40, 64, 79, 81, 150};
    for (int form = 0; form < FTH_GEMM_FORMS; form++)
        for (int i = 0; i < 24; i++) {
            uint32_t row = bf16_draw(6), other = bf16_draw(6); /* one after the other, whatever the compiler's order */
            struct bf16_operands o =
                bf16_operands(form, FTH_BF16 + (i + i / 8) % 3, rows[row], fixed[other], widths[i % 8]);
            bf16_check(&o);
            fth_free(o.a);
            fth_free(o.b);
        }
    /* As many as a kernel takes at once: columns are told of panel by panel. */
    for (uint32_t row = 128; row <= 256; row *= 2) {
        struct bf16_operands o = bf16_operands(FTH_GEMM_NN, FTH_BF16, row, 33, 79);
        bf16_check(&o);
        fth_free(o.a);
        fth_free(o.b);
    }
    for (fth_precision precision = FTH_BF16X3; precision <= FTH_BF16X6; precision++) {
        struct bf16_operands o = bf16_operands(FTH_GEMM_TN, precision, 600, 20, 35);
        bf16_check(&o);
        fth_free(o.a);
        fth_free(o.b);
    }
}

static void panels_equal_the_model(void **state) {
    (void)state;
    static const uint32_t depths[] = {1, 2, 31, 64, 70, 300}, widths[] = {2, 15, 16, 40, 64, 79, 81, 150};
    for (int i = 0; i < 24; i++) {
        struct bf16_operands o = bf16_operands(FTH_GEMM_NN, FTH_BF16 + (i + i / 3) % 3, 1 + bf16_draw(70),
                                               depths[i % 6], widths[i / 3]);
        size_t bytes = fth_panels_room(o.shape.precision, o.shape.k, o.shape.n) * sizeof(float);
        o.b[bf16_draw(o.shape.n)] = 0x1p-130f; /* taken as 0, by the model, too */
        o.panels = bf16_panels(&o, 0);
        for (int way = 1; way < 4; way++) {
            float *same = bf16_panels(&o, way);
            if (memcmp(o.panels, same, bytes))
                fail_msg("k %u n %u precision %d: stored another way (%d) they are others", o.shape.k, o.shape.n,
                         (int)o.shape.precision, way);
            fth_free(same);
        }
        for (uint32_t j = 0; j < o.shape.n; j++)
            o.b[j] = o.b[j] == 0x1p-130f ? 0.0f : o.b[j];
        o.shape.panels = 1;
        bf16_check(&o);
        fth_free(o.panels);
        fth_free(o.a);
        fth_free(o.b);
    }
}

/* Root mean square over the elements of c, or of what fp32's sums of fused multiply-adds give (NULL), of the error as
 * a part of the sum of its products' sizes; and the largest. */
static double mean_error(const struct bf16_operands *o, const float *c, double *largest) {
    double squares = 0;
    *largest = 0;
    for (uint32_t i = 0; i < o->rows; i++)
        for (uint32_t j = 0; j < o->shape.n; j++) {
            double sum = 0, size = 0;
            float fp32 = 0;
            for (uint32_t p = 0; p < o->shape.k; p++) {
                double product = (double)bf16_a(o, i, p) * bf16_b(o, p, j);
                sum += product;
                size += fabs(product);
                fp32 = fmaf(bf16_a(o, i, p), bf16_b(o, p, j), fp32);
            }
            double error = ((c ? c[i * o->shape.ldc + j] : fp32) - sum) / size;
            squares += error * error;
            *largest = fmax(*largest, fabs(error));
        }
    return sqrt(squares / ((double)o->rows * o->shape.n));
}

/* What they are for: 17 bits of every operand; all of it, as well as fp32 sums it up. */
static void parts_are_near_fp32(void **state) {
    (void)state;
    for (int amx = 0; amx < 2; amx++)
        for (fth_precision precision = FTH_BF16X3; precision <= FTH_BF16X6; precision++)
            for (uint32_t k = 1; k <= 300; k = k * 3 + 2) {
                struct bf16_operands o = bf16_operands(FTH_GEMM_NN, precision, 20, k, 50);
                o.shape.accumulate = 0;
                float *before = bf16_numbers(21 * (size_t)o.shape.ldc);
                float *c = bf16_run(&o, amx ? &emulated_bf16_amx : &emulated_bf16_avx512, before, 21 * (size_t)o.shape.ldc);
                double largest, of_fp32;
                double error = mean_error(&o, c, &largest), fp32 = mean_error(&o, NULL, &of_fp32);
                if (error >= (precision == FTH_BF16X3 ? 0x1p-16 / sqrt(k) : 1.1 * fp32))
                    fail_msg("%s precision %d k %u: error %g, fp32's %g", amx ? "amx" : "avx512", (int)precision, k, error,
                             fp32);
                if (k > 100)
                    assert_true(largest < (precision == FTH_BF16X3 ? 0x1p-17 : 0x1p-20));
                fth_free(c);
                fth_free(before);
                fth_free(o.a);
                fth_free(o.b);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_model),
        cmocka_unit_test(panels_equal_the_model),
        cmocka_unit_test(parts_are_near_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
