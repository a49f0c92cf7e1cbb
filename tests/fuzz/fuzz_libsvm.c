/* libsvm files through lines.c and the parser: see data_target.h. */
#include "data_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return data_target(FTH_FORMAT_LIBSVM, data, size);
}
