/* The order of a phase's tasks: long ones first, shared out evenly; short ones as they are numbered; told again after
 * some hundred runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "must.h"
#include "runtime/order.h"

static void run(struct fth_order *order, const uint64_t *ns) {
    fth_order_begin(order);
    for (uint32_t i = 0; i < order->tasks && order->measured; i++)
        fth_order_took(order, order->task[i], ns[order->task[i]]);
    fth_order_end(order);
}

static void runs(struct fth_order *order, const uint64_t *ns, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        run(order, ns);
}

static void check(const struct fth_order *order, const uint32_t *expected) {
    for (uint32_t i = 0; i < order->tasks; i++)
        assert_int_equal(order->task[i], expected[i]);
}

static struct fth_order make(uint32_t tasks, uint32_t workers) {
    struct fth_order order;
    fth_error err = {0};
    must(fth_order_make(tasks, workers, &order, &err), &err);
    return order;
}

static void long_tasks_come_first(void **state) {
    (void)state;
    static const uint64_t ns[] = {2, 100, 2, 60, 50, 2};
    struct fth_order order = make(6, 2);
    runs(&order, ns, 4);
    check(&order, (const uint32_t[]){0, 1, 2, 3, 4, 5});
    run(&order, ns);
    check(&order, (const uint32_t[]){1, 0, 2, 3, 4, 5});
    fth_order_free(&order);
}

/* 90 + 40 + 30 and 80 + 70, where each has three places. */
static void shares_are_even(void **state) {
    (void)state;
    static const uint64_t ns[] = {30, 40, 70, 80, 90, 1};
    struct fth_order order = make(6, 2);
    runs(&order, ns, 5);
    check(&order, (const uint32_t[]){4, 1, 0, 3, 2, 5});
    fth_order_free(&order);
}

/* The second worker has two of the three places, the third worker of four tasks none to spare. */
static void places_are_as_the_pool_has_them(void **state) {
    (void)state;
    static const uint64_t three[] = {10, 20, 40}, four[] = {10, 20, 30, 40};
    struct fth_order order = make(3, 2);
    runs(&order, three, 5);
    check(&order, (const uint32_t[]){2, 1, 0});
    fth_order_free(&order);
    order = make(4, 3);
    runs(&order, four, 5);
    check(&order, (const uint32_t[]){3, 2, 1, 0});
    fth_order_free(&order);
    order = make(2, 4);
    runs(&order, four, 5);
    check(&order, (const uint32_t[]){1, 0});
    fth_order_free(&order);
    order = make(0, 2);
    runs(&order, NULL, 5);
    fth_order_free(&order);
}

static void equal_tasks_stay(void **state) {
    (void)state;
    uint64_t ns[64];
    struct fth_order order = make(64, 2);
    for (uint32_t i = 0; i < 64; i++)
        ns[i] = 7 + i % 2;
    runs(&order, ns, 5);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(order.task[i], i);
    fth_order_free(&order);
}

/* A run that something disturbed does not count; what changes is seen in time. */
static void the_least_counts(void **state) {
    (void)state;
    static const uint64_t disturbed[] = {90, 10, 20, 30}, ns[] = {10, 10, 20, 30}, later[] = {50, 10, 20, 30};
    struct fth_order order = make(4, 2);
    runs(&order, disturbed, 3);
    runs(&order, ns, 2);
    check(&order, (const uint32_t[]){3, 1, 2, 0});
    runs(&order, later, 255);
    check(&order, (const uint32_t[]){3, 1, 2, 0});
    run(&order, later);
    check(&order, (const uint32_t[]){0, 1, 3, 2});
    fth_order_free(&order);
}

static void one_worker_measures_nothing(void **state) {
    (void)state;
    static const uint64_t ns[] = {1, 100, 50};
    struct fth_order order = make(3, 1);
    for (uint32_t i = 0; i < 10; i++) {
        run(&order, ns);
        assert_false(order.measured);
    }
    check(&order, (const uint32_t[]){0, 1, 2});
    fth_order_free(&order);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_tasks_come_first),  cmocka_unit_test(shares_are_even),
        cmocka_unit_test(places_are_as_the_pool_has_them), cmocka_unit_test(equal_tasks_stay),
        cmocka_unit_test(the_least_counts),       cmocka_unit_test(one_worker_measures_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
