/* fth_gemm_reserve: whatever threads do at once afterwards, no product maps memory; what cannot be mapped is told. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/memory.h"
#include "count_alloc.h"
#include "kernels/gemm.h"

enum { THREADS = 6, RUNS = 40, SIDE = 192 };

static pthread_barrier_t together;
static fth_gemm *product;

/* All begin each run at once: they are inside together. */
static void *work(void *arg) {
    float *blocks = arg;
    fth_gemm_thread_init();
    for (int i = 0; i < RUNS; i++) {
        pthread_barrier_wait(&together);
        fth_gemm_run(product, SIDE, blocks, blocks + SIDE * SIDE, blocks + 2 * SIDE * SIDE, NULL);
    }
    return NULL;
}

static void create_product(void) {
    struct fth_gemm_shape shape = {.form = FTH_GEMM_NT, .m = SIDE, .n = SIDE, .k = SIDE, .lda = SIDE, .ldb = SIDE,
                                   .ldc = SIDE};
    fth_error err = {0};
    if (fth_gemm_create(&shape, FTH_GEMM_OPENBLAS, NULL, &product, &err) != FTH_OK)
        fail_msg("%s", err.message);
}

static size_t mapped_now(void) {
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* In a child, which alone is limited: 0 all is as it should be. */
static int too_little(void) {
    struct rlimit limit;
    fth_error err = {0};
    create_product();
    if (getrlimit(RLIMIT_AS, &limit) != 0)
        return 1;
    limit.rlim_cur = mapped_now() + ((size_t)400 << 20);
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        return 2;
    if (fth_gemm_reserve(8, &err) != FTH_E_MEMORY)
        return 3;
    if (!strstr(err.message, "needs 1024 MB of address space, 128 a thread") || !strstr(err.message, "ulimit -v"))
        return 4;
    return fth_gemm_reserve(2, &err) == FTH_OK ? 0 : 5;
}

static void what_cannot_be_mapped_is_told(void **state) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(20); /* OpenBLAS itself would ask for ever */
        _exit(too_little());
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void nothing_is_mapped_in_a_run(void **state) {
    pthread_t threads[THREADS];
    float *blocks[THREADS];
    fth_error err = {0};
    if (!count_alloc_works())
        skip();
    size_t before = mapped_now();
    assert_int_equal(fth_gemm_reserve(THREADS, &err), FTH_OK);
    assert_int_equal(mapped_now(), before); /* nobody asked for OpenBLAS yet */
    create_product();
    assert_int_equal(fth_gemm_reserve(THREADS, &err), FTH_OK);
    /* Not more than was tried beforehand. */
    assert_true(mapped_now() > before && mapped_now() - before <= THREADS * ((size_t)129 << 20));
    assert_int_equal(pthread_barrier_init(&together, NULL, THREADS), 0);
    for (int t = 0; t < THREADS; t++) {
        blocks[t] = fth_alloc(3 * SIDE * SIDE, sizeof *blocks[t]);
        assert_non_null(blocks[t]);
    }
    count_alloc_start();
    for (int t = 1; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, work, blocks[t]), 0);
    work(blocks[0]);
    for (int t = 1; t < THREADS; t++)
        assert_int_equal(pthread_join(threads[t], NULL), 0);
    assert_int_equal(count_alloc_stop().mappings, 0);
    for (int t = 0; t < THREADS; t++)
        fth_free(blocks[t]);
    pthread_barrier_destroy(&together);
    fth_gemm_destroy(product);
}

/* On many cores OpenBLAS starts threads of its own, which products do not use (fth_gemm_thread_init) and which map their
 * buffers some time after the start: without them. */
static void without_its_threads(char **argv) {
    if (!getenv("OPENBLAS_NUM_THREADS") && setenv("OPENBLAS_NUM_THREADS", "1", 1) == 0)
        execv("/proc/self/exe", argv);
}

int main(int argc, char **argv) {
    (void)argc;
    without_its_threads(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_mapped_is_told),
        cmocka_unit_test(nothing_is_mapped_in_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
