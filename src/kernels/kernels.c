/* The kernel tables, one per instruction set, all made from kernels.def. Immutable, so any thread may
 * ask at any time. */
#include "kernels/kernels.h"

#include <stdatomic.h>

#include "kernels/cpu/cpu_kernels.h"

static const struct fth_kernels tables[FTH_ISA_COUNT] = {
    [FTH_ISA_SCALAR] = {
#define FTH_KERNEL(name, returns, args) .name = fth_k_##name##_scalar,
#include "kernels/kernels.def"
#undef FTH_KERNEL
    },
    [FTH_ISA_AVX2] = {
#define FTH_KERNEL(name, returns, args) .name = fth_k_##name##_avx2,
#include "kernels/kernels.def"
#undef FTH_KERNEL
    },
    [FTH_ISA_AVX512] = {
#define FTH_KERNEL(name, returns, args) .name = fth_k_##name##_avx512,
#include "kernels/kernels.def"
#undef FTH_KERNEL
    },
};

static const char *const names[] = {
#define FTH_KERNEL(name, returns, args) #name,
#include "kernels/kernels.def"
#undef FTH_KERNEL
};

const struct fth_kernels *fth_kernels_for(fth_isa isa) {
    return isa <= fth_cpu_get()->isa ? &tables[isa] : NULL;
}

/* Asked for often, also for a few bytes of text: what was found is kept. */
const struct fth_kernels *fth_kernels_get(void) {
    static _Atomic(const struct fth_kernels *) found;
    const struct fth_kernels *kernels = atomic_load_explicit(&found, memory_order_acquire);
    if (!kernels) {
        kernels = &tables[fth_cpu_get()->isa];
        atomic_store_explicit(&found, kernels, memory_order_release);
    }
    return kernels;
}

size_t fth_kernels_count(void) {
    return sizeof names / sizeof names[0];
}

const char *fth_kernel_name(size_t index) {
    return index < fth_kernels_count() ? names[index] : NULL;
}

/* The lowest set whose table has the same function there: kernels are told apart by address. */
fth_isa fth_kernel_isa(const struct fth_kernels *table, size_t index) {
    fth_isa isa = FTH_ISA_SCALAR;
    for (; isa < FTH_ISA_COUNT - 1; isa++) {
        int same = 0;
        size_t at = 0;
#define FTH_KERNEL(name, returns, args) same |= at++ == index && table->name == tables[isa].name;
#include "kernels/kernels.def"
#undef FTH_KERNEL
        if (same)
            break;
    }
    return isa;
}
