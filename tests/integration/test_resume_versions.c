/* Checkpoints of other versions of Fathom, and of other machines: what cannot be read is refused with who wrote it, what
 * goes on otherwise is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cpu.h"
#include "base/hash.h"
#include "base/text.h"
#include "data_support.h"
#include "fathom/fathom.h"
#include "runs.h"

/* Of the run's checkpoint of step 5; static until the next call. */
static const char *file_of(const struct run *run, const char *name) {
    static char path[600];
    snprintf(path, sizeof path, "%s/step-000000000005/%s", run->dir, name);
    return path;
}

static void set_in_manifest(const struct run *run, const char *key, const char *value) {
    const char *path = file_of(run, "manifest.json");
    json_t *manifest = json_load_file(path, 0, NULL);
    assert_non_null(manifest);
    json_object_set_new(manifest, key, json_string(value));
    run_write_manifest(path, manifest);
}

/* One more key in the checkpoint's configuration, as if it had always been there. */
static void add_to_config(const struct run *run, const char *line) {
    size_t n = 0;
    char *old = read_whole(file_of(run, "config.yaml"), &n), *text = malloc(n + strlen(line) + 1), check[17];
    assert_non_null(text);
    memcpy(text, old, n);
    strcpy(text + n, line);
    n += strlen(line);
    write_file(file_of(run, "config.yaml"), text, n);
    snprintf(check, sizeof check, "%016llx", (unsigned long long)fth_hash_bytes(text, n, 0));
    json_t *manifest = json_load_file(file_of(run, "manifest.json"), 0, NULL), *file;
    size_t i;
    json_array_foreach(json_object_get(manifest, "files"), i, file)
        if (strcmp(json_string_value(json_object_get(file, "name")), "config.yaml") == 0) {
            json_object_set_new(file, "bytes", json_integer((json_int_t)n));
            json_object_set_new(file, "xxh3", json_string(check));
        }
    run_write_manifest(file_of(run, "manifest.json"), manifest);
    free(old);
    free(text);
}

/* A configuration that has keys this program does not know is not the user's mistake: who wrote it is told, be the
 * version another one or not. What the user asks for is refused as ever. */
static void test_unknown_configuration(void **state) {
    struct run run = run_stopped(run_new_dir(), 5);
    run.overrides[0] = "foresight=3";
    run_refused(&run, FTH_E_CONFIG, "foresight: unknown key");
    assert_null(strstr(run.error.message, "was saved by"));
    run.overrides[0] = NULL;
    add_to_config(&run, "foresight: 3\n");
    run_refused(&run, FTH_E_CONFIG, "was saved by another build of Fathom ");
    run_refused(&run, FTH_E_CONFIG, "foresight: unknown key");
    set_in_manifest(&run, "program", "9.0.0");
    run_refused(&run, FTH_E_CONFIG, "was saved by Fathom 9.0.0, whose configuration this one, ");
    run_refused(&run, FTH_E_CONFIG, "foresight: unknown key");
}

static void keep_version(void *ctx, int level, const char *line) {
    if (level == 0 && strstr(line, "was made by"))
        snprintf(ctx, 512, "%s", line);
}

/* Told where training goes on behind another version's checkpoint, and once: what is saved then is this one's. */
static void test_other_version(void **state) {
    static const char *const told[] = {"made by Fathom 0.1.0, this is ", ""};
    struct run run = run_stopped(run_new_dir(), 5);
    set_in_manifest(&run, "program", "0.1.0");
    for (size_t i = 0; i < 2; i++) {
        char line[512] = "";
        run.stop_after = 6 + i;
        fth_log_to(keep_version, line);
        run_resume_ok(&run);
        fth_log_to(NULL, NULL);
        assert_non_null(strstr(line, told[i]));
        assert_int_equal(*line != 0, *told[i] != 0);
    }
}

/* ---- another instruction set ---- */

static void keep_instructions(void *ctx, int level, const char *line) {
    if (level == 0 && strstr(line, "instruction set"))
        snprintf(ctx, 512, "%s", line);
}

/* Told where training goes on with another one than this CPU's, and only then; what multiplied bf16 does not matter in fp32. */
static void test_other_instructions(void **state) {
    const char *mine = fth_isa_name(fth_cpu_get()->isa), *other = strcmp(mine, "avx2") == 0 ? "scalar" : "avx2";
    char with_bf16[64], told[200];
    snprintf(with_bf16, sizeof with_bf16, "%s, amx-bf16", mine);
    snprintf(told, sizeof told, "was trained on the instruction set %s, here it is %s; ", other, mine);
    const struct {
        const char *isa, *told;
    } cases[] = {{mine, ""}, {with_bf16, ""}, {other, told}};
    struct run run = run_stopped(run_new_dir(), 5);
    for (size_t i = 0; i < 3; i++)
        for (int training = 0; training < 2; training++) {
            fth_session *session = NULL;
            fth_error err = {0};
            char line[512] = "";
            set_in_manifest(&run, "isa", cases[i].isa);
            fth_log_to(keep_instructions, line);
            assert_int_equal((training ? fth_session_open : fth_session_open_to_predict)(run.dir, NULL, 0, &session, &err),
                             FTH_OK);
            fth_log_to(NULL, NULL);
            fth_session_destroy(session);
            if (training && *cases[i].told)
                assert_non_null(strstr(line, cases[i].told));
            else
                assert_string_equal(line, "");
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_configuration),
        cmocka_unit_test(test_other_version),
        cmocka_unit_test(test_other_instructions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
