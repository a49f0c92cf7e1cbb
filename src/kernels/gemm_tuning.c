/* Tuning files: reading, checking, looking up (docs/tuning.md has the format).
 *
 * Read once at the start, before any product is created; never on a batch's way. Threads: read-only
 * after load. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "kernels/gemm_private.h"
#include "kernels/gemm_tuning_private.h"

#define MAX_ENTRIES 65536

/* Fixed-size fields in one order: its bytes are what the digest is made of. */
struct entry {
    uint32_t form, m, n, k, provider;
};

struct fth_tuning {
    size_t count;
    struct entry *entries;      /* sorted by form, m, n, k */
    fth_gemm_provider provider; /* of every shape that it does not refuse; FTH_GEMM_AUTO: by the entries */
};

static int compare(const void *x, const void *y) {
    const struct entry *a = x, *b = y;
    const uint32_t l[4] = {a->form, a->m, a->n, a->k}, r[4] = {b->form, b->m, b->n, b->k};
    for (int i = 0; i < 4; i++)
        if (l[i] != r[i])
            return l[i] < r[i] ? -1 : 1;
    return 0;
}

/* Refuses keys that are not among names[0..count). */
static fth_status check_keys(const char *path, const char *where, json_t *object,
                             const char *const *names, size_t count, fth_error *err) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        size_t i = 0;
        while (i < count && strcmp(names[i], key) != 0)
            i++;
        if (i < count)
            continue;
        char quoted[64];
        fth_text_quote(quoted, sizeof quoted, key, strlen(key));
        const char *near = fth_nearest(key, names, count);
        return fth_fail(err, FTH_E_DATA, "%s: %s: unknown key \"%s\"%s%s", path, where, quoted,
                        near ? "; nearest: " : "", near ? near : "");
    }
    return FTH_OK;
}

static fth_status read_text(const char *path, const char *where, json_t *object, const char *key,
                            const char **out, fth_error *err) {
    const char *text = json_string_value(json_object_get(object, key));
    if (!text)
        return fth_fail(err, FTH_E_DATA, "%s: %s: \"%s\" is missing or no string", path, where,
                        key);
    *out = text;
    return FTH_OK;
}

static fth_status read_size(const char *path, const char *where, json_t *object, const char *key,
                            uint32_t *out, fth_error *err) {
    json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 1 ||
        json_integer_value(value) > INT32_MAX)
        return fth_fail(err, FTH_E_DATA, "%s: %s: \"%s\" must be a whole number from 1 to %d", path,
                        where, key, INT32_MAX);
    *out = (uint32_t)json_integer_value(value);
    return FTH_OK;
}

static fth_status read_entry(const char *path, size_t index, json_t *object, struct entry *out,
                             fth_error *err) {
    static const char *const keys[] = {"form", "m", "n", "k", "provider", "gflops"};
    char where[32];
    snprintf(where, sizeof where, "entries[%zu]", index);
    if (!json_is_object(object))
        return fth_fail(err, FTH_E_DATA, "%s: %s is no object", path, where);
    FTH_TRY(check_keys(path, where, object, keys, 6, err));
    const char *form = "", *provider = "";
    struct entry e = {.form = FTH_GEMM_FORMS, .provider = FTH_GEMM_PROVIDERS};
    FTH_TRY(read_text(path, where, object, "form", &form, err));
    FTH_TRY(read_text(path, where, object, "provider", &provider, err));
    FTH_TRY(read_size(path, where, object, "m", &e.m, err));
    FTH_TRY(read_size(path, where, object, "n", &e.n, err));
    FTH_TRY(read_size(path, where, object, "k", &e.k, err));
    for (uint32_t f = 0; f < FTH_GEMM_FORMS; f++)
        if (strcmp(form, fth_gemm_form_name(f)) == 0)
            e.form = f;
    char quoted[64];
    if (e.form == FTH_GEMM_FORMS) {
        fth_text_quote(quoted, sizeof quoted, form, strlen(form));
        return fth_fail(err, FTH_E_DATA, "%s: %s: form \"%s\"; it must be nn, nt or tn", path,
                        where, quoted);
    }
    for (uint32_t p = 0; p < FTH_GEMM_PROVIDERS; p++)
        if (strcmp(provider, fth_gemm_provider_name(p)) == 0)
            e.provider = p;
    if (e.provider == FTH_GEMM_PROVIDERS) {
        fth_text_quote(quoted, sizeof quoted, provider, strlen(provider));
        return fth_fail(err, FTH_E_DATA,
                        "%s: %s: provider \"%s\"; it must be reference, onednn, openblas, "
                        "libxsmm or fathom",
                        path, where, quoted);
    }
    *out = e;
    return FTH_OK;
}

static fth_status read_entries(const char *path, json_t *array, fth_tuning *tuning,
                               fth_error *err) {
    size_t total = json_array_size(array);
    if (total > MAX_ENTRIES)
        return fth_fail(err, FTH_E_DATA, "%s: %zu entries; at most %d are read", path, total,
                        MAX_ENTRIES);
    tuning->entries = fth_alloc(total ? total : 1, sizeof *tuning->entries);
    if (!tuning->entries)
        return fth_fail(err, FTH_E_MEMORY, "%s: out of memory", path);
    for (size_t i = 0; i < total; i++)
        FTH_TRY(read_entry(path, i, json_array_get(array, i), &tuning->entries[i], err));
    qsort(tuning->entries, total, sizeof *tuning->entries, compare);
    size_t kept = 0;
    for (size_t i = 0; i < total; i++) {
        const struct entry *e = &tuning->entries[i];
        if (i > 0 && compare(e - 1, e) == 0)
            return fth_fail(err, FTH_E_DATA, "%s: two entries for %s of m %u, n %u, k %u", path,
                            fth_gemm_form_name(e->form), e->m, e->n, e->k);
    }
    for (size_t i = 0; i < total; i++) {
        struct entry e = tuning->entries[i];
        const char *refusal = fth_gemm_backend_get(e.provider)->refusal(e.form, FTH_FP32);
        if (refusal)
            fth_log(FTH_LOG_WARN, "%s: %s of m %u, n %u, k %u by %s is left out: %s", path,
                    fth_gemm_form_name(e.form), e.m, e.n, e.k, fth_gemm_provider_name(e.provider),
                    refusal);
        else
            tuning->entries[kept++] = e;
    }
    tuning->count = kept;
    return FTH_OK;
}

static fth_status read_root(const char *path, json_t *root, fth_tuning *tuning, fth_error *err) {
    static const char *const keys[] = {"format", "version", "cpu", "isa", "entries"};
    const char *format = json_string_value(json_object_get(root, "format"));
    if (!format || strcmp(format, FTH_TUNING_FORMAT) != 0)
        return fth_fail(err, FTH_E_DATA,
                        "%s is no tuning file (it has no \"format\": \"%s\"); "
                        "`fathom tune` writes one",
                        path, FTH_TUNING_FORMAT);
    json_t *version = json_object_get(root, "version");
    if (!json_is_integer(version) || json_integer_value(version) != FTH_TUNING_VERSION)
        return fth_fail(err, FTH_E_DATA,
                        "%s: tuning file of another version; this program reads "
                        "version %d",
                        path, FTH_TUNING_VERSION);
    FTH_TRY(check_keys(path, "tuning file", root, keys, 5, err));
    const char *cpu = "", *isa = "";
    FTH_TRY(read_text(path, "tuning file", root, "cpu", &cpu, err));
    FTH_TRY(read_text(path, "tuning file", root, "isa", &isa, err));
    int known = 0;
    for (int i = 0; i < FTH_ISA_COUNT; i++)
        known |= strcmp(isa, fth_isa_name(i)) == 0;
    if (!known)
        return fth_fail(err, FTH_E_DATA, "%s: \"isa\" must be scalar, avx2 or avx512", path);
    json_t *entries = json_object_get(root, "entries");
    if (!json_is_array(entries))
        return fth_fail(err, FTH_E_DATA, "%s: \"entries\" is missing or no array", path);
    if (strcmp(isa, fth_isa_name(fth_cpu_get()->isa)) != 0) {
        char quoted[80];
        fth_text_quote(quoted, sizeof quoted, cpu, strlen(cpu));
        fth_log(FTH_LOG_WARN,
                "%s was measured with %s on \"%s\"; here %s is in use, the choices may be "
                "poor: run `fathom tune`",
                path, isa, quoted, fth_isa_name(fth_cpu_get()->isa));
    }
    return read_entries(path, entries, tuning, err);
}

static fth_tuning *make(fth_gemm_provider provider) {
    fth_tuning *tuning = fth_alloc(1, sizeof *tuning);
    if (tuning)
        tuning->provider = provider;
    return tuning;
}

fth_status fth_tuning_one_provider(fth_gemm_provider provider, fth_tuning **out, fth_error *err) {
    fth_tuning *tuning = make(provider);
    if (!tuning)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a tuning table");
    *out = tuning;
    return FTH_OK;
}

fth_status fth_tuning_load(const char *path, fth_tuning **out, fth_error *err) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return fth_fail(err, FTH_E_IO, "%s: %s", path, strerror(errno));
    json_error_t at;
    errno = 0;
    json_t *root = json_loadf(file, JSON_REJECT_DUPLICATES, &at);
    int unread = ferror(file) ? errno : 0;
    fclose(file);
    if (!root && unread)
        return fth_fail(err, FTH_E_IO, "%s: %s", path, strerror(unread));
    if (!root)
        return fth_fail(err, FTH_E_DATA, "%s:%d:%d: not a tuning file: %s", path, at.line,
                        at.column, at.text);
    fth_tuning *tuning = make(FTH_GEMM_AUTO);
    fth_status status = tuning ? read_root(path, root, tuning, err) : fth_fail(err, FTH_E_MEMORY, "%s: out of memory", path);
    json_decref(root);
    if (status != FTH_OK) {
        fth_tuning_destroy(tuning);
        return status;
    }
    *out = tuning;
    return FTH_OK;
}

void fth_tuning_destroy(fth_tuning *tuning) {
    if (!tuning)
        return;
    fth_free(tuning->entries);
    fth_free(tuning);
}

size_t fth_tuning_entries(const fth_tuning *tuning) {
    return tuning ? tuning->count : 0;
}

uint64_t fth_tuning_digest(const fth_tuning *tuning) {
    if (tuning && tuning->provider != FTH_GEMM_AUTO)
        return 1 + (uint64_t)tuning->provider;
    if (!tuning || tuning->count == 0)
        return 0;
    uint64_t digest = fth_hash_bytes(tuning->entries, tuning->count * sizeof *tuning->entries, 0);
    return digest ? digest : 1;
}

fth_gemm_provider fth_tuning_choose(const fth_tuning *tuning, const struct fth_gemm_shape *s) {
    if (!tuning || s->precision != FTH_FP32)
        return FTH_GEMM_AUTO;
    if (tuning->provider != FTH_GEMM_AUTO)
        return fth_gemm_backend_get(tuning->provider)->refusal(s->form, s->precision) ? FTH_GEMM_AUTO : tuning->provider;
    struct entry key = {(uint32_t)s->form, s->m, s->n, s->k, 0};
    const struct entry *e = bsearch(&key, tuning->entries, tuning->count, sizeof key, compare);
    return e ? (fth_gemm_provider)e->provider : FTH_GEMM_AUTO;
}
