#include "copies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/memory.h"
#include "kernels/panels.h"

void check_copies(const struct fth_parameter *p, int in_panels) {
    struct fth_parameter anew = *p;
    size_t straight = in_panels ? fth_panels_floats(p->rows, p->columns) : 0;
    size_t turned = in_panels ? fth_panels_floats(p->columns, p->rows)
                              : (size_t)p->columns * p->ld_transposed;
    assert_true((p->panels != NULL) == in_panels);
    anew.panels = p->panels ? fth_alloc(straight, sizeof(float)) : NULL;
    anew.transposed = p->transposed ? fth_alloc(turned, sizeof(float)) : NULL;
    fth_parameter_refresh(&anew);
    if (p->panels)
        assert_memory_equal(p->panels, anew.panels, straight * sizeof(float));
    if (p->transposed)
        assert_memory_equal(p->transposed, anew.transposed, turned * sizeof(float));
    fth_free(anew.panels);
    fth_free(anew.transposed);
}
