/* What this machine and this build are: for people, and for whoever reads their reports. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <yaml.h>
#include <zlib.h>
#include <zstd.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/text.h"
#include "fathom/fathom.h"
#include "kernels/gemm.h"
#include "kernels/kernels.h"

static void row(struct fth_text *text, const char *name, const char *value) {
    fth_text_printf(text, "  %-24s %s\n", name, value);
}

/* The choice in brackets of /sys/kernel/mm/transparent_hugepage/enabled. */
static void huge_pages(char out[64]) {
    char line[128] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    char *from = file && fgets(line, sizeof line, file) ? strchr(line, '[') : NULL;
    char *to = from ? strchr(from, ']') : NULL;
    if (file)
        fclose(file);
    if (!to) {
        snprintf(out, 64, "not known");
        return;
    }
    *to = 0;
    const char *meaning = strcmp(from + 1, "never") == 0 ? " (tables will be slower: try madvise)"
                                                         : "";
    snprintf(out, 64, "%.16s%s", from + 1, meaning);
}

static void machine(struct fth_text *text) {
    const struct fth_cpu *cpu = fth_cpu_get();
    const char *limit = getenv("FATHOM_MAX_ISA");
    char value[128], bytes[32];
    fth_text_printf(text, "machine\n");
    row(text, "CPU", cpu->name);
    snprintf(value, sizeof value, "%u", cpu->cores);
    row(text, "cores", value);
    row(text, "instruction set in use", fth_cpu_instructions(1));
    if (limit && *limit) {
        snprintf(value, sizeof value, "%.64s", limit);
        row(text, "FATHOM_MAX_ISA", value);
    } else {
        row(text, "FATHOM_MAX_ISA", "not set (scalar, avx2, avx512, avx512-bf16 or amx-bf16 limits the instruction set)");
    }
    row(text, "precisions", cpu->avx512_bf16 ? "fp32, bf16, bf16x3, bf16x6" : "fp32 (those of bf16 need AVX512-BF16)");
    fth_format_bytes(bytes, (double)cpu->memory);
    row(text, "memory", bytes);
    huge_pages(value);
    row(text, "huge pages", value);
}

static void libraries(struct fth_text *text) {
    char value[64];
    fth_text_printf(text, "libraries\n");
    row(text, "libyaml", yaml_get_version_string());
    row(text, "jansson", jansson_version_str());
    unsigned version = XXH_versionNumber();
    snprintf(value, sizeof value, "%u.%u.%u", version / 10000, version / 100 % 100, version % 100);
    row(text, "xxHash", value);
    row(text, "zstd", ZSTD_versionString());
    row(text, "zlib", zlibVersion());
}

fth_status fth_info(char **out, fth_error *err) {
    if (!out)
        return fth_fail_null(err, "fth_info", "out");
    struct fth_text text = {0};
    fth_text_printf(&text, "fathom %s\n", fth_version());
    machine(&text);
    fth_text_printf(&text, "matrix products\n");
    for (int p = 0; p < FTH_GEMM_PROVIDERS; p++) {
        char version[96];
        fth_gemm_provider_version((fth_gemm_provider)p, version);
        row(&text, fth_gemm_provider_name((fth_gemm_provider)p), version);
    }
    libraries(&text);
    fth_text_printf(&text, "kernels\n");
    for (size_t i = 0; i < fth_kernels_count(); i++)
        row(&text, fth_kernel_name(i), fth_isa_name(fth_kernel_isa(fth_kernels_get(), i)));
    char *copy = text.failed ? NULL : strdup(fth_text_get(&text));
    fth_text_free(&text);
    if (!copy)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a report");
    *out = copy;
    return FTH_OK;
}
