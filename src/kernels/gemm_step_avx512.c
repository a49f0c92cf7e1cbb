/* The optimizer's step of a block of W whose gradient is complete, by AVX-512: tiles of 16 x 16, of which each is stepped,
 * stored in the copies and turned at once, while the lines of the next one are on their way. The step, the straight and the
 * transposed copy one after the other would go through the block three times, and wait for every line.
 *
 * Threads: pure function. */
#include "kernels/gemm_fp32.h"
#include "kernels/gemm_step_avx512.h"

void fth_step_avx512_run(const struct fth_gemm_step *s, uint32_t m, uint32_t n, const float *gradient, size_t ld) {
    struct jobs jobs = jobs_of(s, ld);
    for (uint32_t row = 0; row < m; row += TILE)
        for (uint32_t column = 0; column < n; column += TILE) {
            jobs.next = place_of(s, row, least(TILE, m - row), column, least(TILE, n - column));
            jobs.next.gradient = gradient + row * ld + column;
            finish(&jobs);
            jobs.now = jobs.next;
        }
    jobs.next.rows = 0;
    finish(&jobs);
}
