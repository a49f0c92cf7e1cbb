/* bf16 and bf16x3 products, kernels of AVX512-BF16 and AMX emulated: to the bit what a scalar model makes. Where this
 * machine has the instructions, its own kernel gives the same bits as the emulation. */
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
            struct bf16_operands o = bf16_operands(form, i % 2 ? FTH_BF16 : FTH_BF16X3, rows[bf16_draw(6)],
                                                   fixed[bf16_draw(6)], widths[i % 8]);
            bf16_check(&o);
            fth_free(o.a);
            fth_free(o.b);
        }
    struct bf16_operands o = bf16_operands(FTH_GEMM_TN, FTH_BF16X3, 600, 20, 35);
    bf16_check(&o);
    fth_free(o.a);
    fth_free(o.b);
}

static void panels_equal_the_model(void **state) {
    (void)state;
    static const uint32_t depths[] = {1, 2, 31, 64, 70, 300}, widths[] = {2, 15, 16, 40, 64, 79, 81, 150};
    for (int i = 0; i < 24; i++) {
        struct bf16_operands o = bf16_operands(FTH_GEMM_NN, i % 2 ? FTH_BF16 : FTH_BF16X3, 1 + bf16_draw(70),
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

/* What bf16x3 is for: 17 bits of every operand. */
static void three_products_are_near_fp32(void **state) {
    (void)state;
    for (int amx = 0; amx < 2; amx++) {
        struct bf16_operands o = bf16_operands(FTH_GEMM_NN, FTH_BF16X3, 20, 300, 50);
        o.shape.accumulate = 0;
        float *before = bf16_numbers(21 * (size_t)o.shape.ldc);
        float *c = bf16_run(&o, amx ? &emulated_bf16_amx : &emulated_bf16_avx512, before, 21 * (size_t)o.shape.ldc);
        for (uint32_t i = 0; i < 20; i++)
            for (uint32_t j = 0; j < 50; j++) {
                double sum = 0, size = 0;
                for (uint32_t p = 0; p < 300; p++) {
                    double product = (double)bf16_a(&o, i, p) * bf16_b(&o, p, j);
                    sum += product;
                    size += fabs(product);
                }
                assert_true(fabs(c[i * o.shape.ldc + j] - sum) < 0x1p-17 * size);
            }
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
        cmocka_unit_test(three_products_are_near_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
