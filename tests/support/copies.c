#include "copies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/memory.h"
#include "kernels/panels.h"

float *weights_of(const struct fth_parameter *p) {
    float *rows = fth_alloc((size_t)p->rows * p->columns, sizeof *rows);
    assert_non_null(rows);
    fth_parameter_get(p, 0, p->rows, rows);
    return rows;
}

void weights_from(struct fth_parameter *p, struct interpret *it) {
    float *rows = fth_alloc((size_t)p->rows * p->columns, sizeof *rows);
    assert_non_null(rows);
    for (uint32_t r = 0; r < p->rows; r++)
        for (uint32_t c = 0; c < p->columns; c++)
            rows[(size_t)r * p->columns + c] = *interpret_at(it, p->value, r, c);
    fth_parameter_set(p, rows, p->columns);
    fth_free(rows);
}

void check_copies(const struct fth_parameter *p, int in_panels) {
    struct fth_parameter anew = *p;
    size_t straight = in_panels ? fth_panels_floats(p->rows, p->columns) : 0;
    size_t turned = in_panels ? fth_panels_floats(p->columns, p->rows)
                              : (size_t)p->columns * p->ld_transposed;
    float *rows = weights_of(p);
    assert_true((p->panels != NULL) == in_panels);
    anew.panels = p->panels ? fth_alloc(straight, sizeof(float)) : NULL;
    anew.transposed = p->transposed ? fth_alloc(turned, sizeof(float)) : NULL;
    anew.data = NULL;
    fth_parameter_set(&anew, rows, p->columns);
    if (p->panels)
        assert_memory_equal(p->panels, anew.panels, straight * sizeof(float));
    if (p->transposed)
        assert_memory_equal(p->transposed, anew.transposed, turned * sizeof(float));
    fth_free(rows);
    fth_free(anew.panels);
    fth_free(anew.transposed);
}
