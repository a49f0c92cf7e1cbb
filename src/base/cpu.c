/* CPU detection: see base/cpu.h. Runs once (pthread_once); what it found never changes. */
#include "base/cpu.h"

#include <cpuid.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/cpu_private.h"
#include "base/log.h"

/* Linux's <asm/prctl.h> names these only since 5.16. */
#define REQUEST_TILE_PERMISSION 0x1023
#define TILE_DATA_COMPONENT 18

static struct fth_cpu cpu;
static pthread_once_t cpu_once = PTHREAD_ONCE_INIT;

const char *fth_isa_name(fth_isa isa) {
    static const char *const names[FTH_ISA_COUNT] = {"scalar", "avx2", "avx512"};
    return (unsigned)isa < FTH_ISA_COUNT ? names[isa] : "unknown";
}

const char *fth_cpu_instructions(int bf16) {
    const struct fth_cpu *found = fth_cpu_get();
    if (bf16 && found->amx_bf16)
        return "avx512, amx-bf16";
    return bf16 && found->avx512_bf16 ? "avx512, avx512-bf16" : fth_isa_name(found->isa);
}

void fth_cpu_clamp(struct fth_cpu *found, const char *limit) {
    static const struct {
        const char *name;
        fth_isa isa;
        int avx512_bf16, amx_bf16;
    } limits[] = {{"scalar", FTH_ISA_SCALAR, 0, 0},
                  {"avx2", FTH_ISA_AVX2, 0, 0},
                  {"avx512", FTH_ISA_AVX512, 0, 0},
                  {"avx512-bf16", FTH_ISA_AVX512, 1, 0},
                  {"amx-bf16", FTH_ISA_AVX512, 1, 1}};
    if (!limit || !*limit)
        return;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (!strcmp(limit, limits[i].name)) {
            found->isa = limits[i].isa < found->isa ? limits[i].isa : found->isa;
            found->avx512_bf16 &= limits[i].avx512_bf16;
            found->amx_bf16 &= limits[i].amx_bf16;
            return;
        }
    fth_log(FTH_LOG_WARN, "FATHOM_MAX_ISA=%s is not known and ignored; scalar, avx2, avx512, avx512-bf16 or amx-bf16 would be",
            limit);
}

static uint64_t read_xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static int has(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

static void find_isa(struct fth_cpu *out) {
    uint32_t a, b, c, d, b7, c7, d7, unused, extended = 0;
    out->isa = FTH_ISA_SCALAR;
    /* AVX, OSXSAVE, FMA, F16C, POPCNT: without OSXSAVE xgetbv would trap. */
    uint32_t leaf1 = 1u << 28 | 1u << 27 | 1u << 12 | 1u << 29 | 1u << 23;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, leaf1) ||
        !__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) ||
        !__get_cpuid(0x80000001u, &a, &b, &extended, &unused))
        return;
    uint64_t xcr0 = read_xcr0();
    uint32_t avx2 = 1u << 5 | 1u << 3 | 1u << 8;                                    /* AVX2 BMI BMI2 */
    uint32_t avx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;         /* F DQ CD BW VL */
    if ((xcr0 & 0x6) != 0x6 || !has(b7, avx2) || !has(extended, 1u << 5 /* LZCNT */))
        return;
    out->isa = FTH_ISA_AVX2;
    if ((xcr0 & 0xe6) != 0xe6 || !has(b7, avx512))
        return;
    out->isa = FTH_ISA_AVX512;
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d))
        out->avx512_bf16 = has(a, 1u << 5);
    /* AMX-TILE and AMX-BF16; the tile state is large, so Linux wants to be asked for it. */
    if ((xcr0 & 0x60000) == 0x60000 && has(d7, 1u << 24 | 1u << 22))
        out->amx_bf16 = !syscall(SYS_arch_prctl, REQUEST_TILE_PERMISSION, TILE_DATA_COMPONENT);
}

int fth_cpu_has_two_fmas(const char vendor[12], uint32_t signature, int halves) {
    uint32_t family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
    return !memcmp(vendor, "GenuineIntel", 12) || (!memcmp(vendor, "AuthenticAMD", 12) && family >= 0x1a && !halves);
}

static int find_two_fmas(void) {
    uint32_t a, b, c, d, name[3], signature, more = 0;
    if (!__get_cpuid(0, &a, &name[0], &name[2], &name[1]) || !__get_cpuid(1, &signature, &b, &c, &d))
        return 0;
    if (!__get_cpuid(0x8000001au, &more, &b, &c, &d))
        more = 0;
    return fth_cpu_has_two_fmas((const char *)name, signature, has(more, 1u << 2));
}

static void find_name(char out[64]) {
    uint32_t words[12], a, b, c, d;
    snprintf(out, 64, "unknown");
    if (!__get_cpuid(0x80000000u, &a, &b, &c, &d) || a < 0x80000004u)
        return;
    for (uint32_t i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                    &words[4 * i + 3]);
    char text[sizeof words + 1] = {0};
    memcpy(text, words, sizeof words);
    char *start = text + strspn(text, " ");
    for (size_t length = strlen(start); length > 0 && start[length - 1] == ' '; length--)
        start[length - 1] = 0;
    snprintf(out, 64, "%s", start);
}

static uint32_t find_cores(uint32_t quota) {
    cpu_set_t set;
    uint32_t cores;
    /* With more CPUs than a cpu_set_t holds the call is refused: the count of all will have to do. */
    if (!sched_getaffinity(0, sizeof set, &set)) {
        cores = (uint32_t)CPU_COUNT(&set);
    } else {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        cores = online > 0 ? (uint32_t)online : 1;
    }
    return quota < cores ? quota : cores;
}

static uint64_t find_memory(uint64_t limit) {
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    uint64_t bytes = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_MAX;
    return limit < bytes ? limit : bytes;
}

static void find(void) {
    struct fth_cgroup group;
    fth_cgroup_find("", &group);
    find_isa(&cpu);
    fth_cpu_clamp(&cpu, getenv("FATHOM_MAX_ISA"));
    cpu.two_fmas = find_two_fmas();
    cpu.cores = find_cores(group.cores);
    cpu.memory = find_memory(group.memory);
    find_name(cpu.name);
}

const struct fth_cpu *fth_cpu_get(void) {
    pthread_once(&cpu_once, find);
    return &cpu;
}
