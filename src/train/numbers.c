/* Numbers of a size that models learn little from, told before the first step: beside 2,359 nothing else that a layer reads
 * counts for anything, and its steps are as large. */
#include <math.h>

#include "base/log.h"
#include "train/session_private.h"

#define LARGE 100 /* on average; what is standardised, or a logarithm, is far below */

static double mean_size(const struct fth_batch *batch, uint32_t column) {
    double sum = 0;
    for (uint32_t i = 0; i < batch->n; i++)
        sum += fabs((double)batch->dense[(size_t)i * batch->dense_ld + column]);
    return sum / batch->n;
}

void fth_session_warn_numbers(const struct fth_batch *batch) {
    const struct fth_schema *schema = batch->schema;
    uint32_t large = 0, largest = 0;
    double most = LARGE;
    for (uint32_t c = 0; c < schema->n_dense; c++) {
        double size = mean_size(batch, c);
        large += size > LARGE;
        if (size > most) {
            most = size;
            largest = c;
        }
    }
    if (large)
        fth_log(FTH_LOG_WARN,
                "features.numeric: %s is %g on average%s: models learn little from numbers of this size; set standardise: "
                "running (and log1p: true for counts)",
                schema->dense_names[largest], most, large > 1 ? ", and others are large, too" : "");
}
