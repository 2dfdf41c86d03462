/* SPDX-License-Identifier: Apache-2.0 */
/* test_background.c - work that is done by a thread */
#include "config.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/background.h"
#include "base/clock.h"

enum { LONG_MS = 60000 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stuck;
    intptr_t last; /* the item that was done */
} work = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0};

/* Items are numbers, in order. */
static void do_work(void *ctx, void *item)
{
    assert_ptr_equal(ctx, &work);
    pthread_mutex_lock(&work.lock);
    while (work.stuck)
        pthread_cond_wait(&work.changed, &work.lock);
    if ((intptr_t)item == work.last + 1)
        work.last++;
    pthread_mutex_unlock(&work.lock);
}

static void set_stuck(bool stuck)
{
    pthread_mutex_lock(&work.lock);
    work.stuck = stuck;
    pthread_cond_broadcast(&work.changed);
    pthread_mutex_unlock(&work.lock);
}

static struct dt_background *begin(void)
{
    struct dt_error err;
    struct dt_background *b =
        dt_background_create("work", do_work, &work, &err);
    assert_non_null(b);
    work.last = 0;
    return b;
}

static void it_is_done_when_it_was_given(void **state)
{
    struct dt_background *b = begin();
    (void)state;
    for (intptr_t i = 1; i <= 100; i++) {
        assert_int_equal(dt_background_give(b, (void *)i, LONG_MS), 0);
        assert_int_equal(work.last, i);
    }
    assert_true(dt_background_wait(b, 0));
    assert_true(dt_background_destroy(b, 0));
    assert_true(dt_background_destroy(NULL, 0));
}

static void what_takes_long_is_waited_for_once_and_none_is_lost(void **state)
{
    struct dt_background *b = begin();
    intptr_t given = 1;
    (void)state;
    set_stuck(true);
    const double begin = dt_clock_now();
    assert_int_equal(dt_background_give(b, (void *)given, 20), 1);
    assert_true(dt_clock_now() - begin >= 0.02);
    while (dt_background_give(b, (void *)(given + 1), LONG_MS) == 1)
        given++;
    assert_true(given > 1000); /* then they are too many */
    assert_false(dt_background_wait(b, 1));
    set_stuck(false);
    assert_true(dt_background_wait(b, LONG_MS));
    assert_int_equal(work.last, given);
    assert_int_equal(dt_background_give(b, (void *)(given + 1), LONG_MS), 0);
    assert_true(dt_background_destroy(b, LONG_MS));
}

static void who_hangs_at_the_end_is_left_alone_and_does_no_more(void **state)
{
    struct dt_background *b = begin();
    (void)state;
    set_stuck(true);
    assert_int_equal(dt_background_give(b, (void *)1, 1), 1);
    assert_int_equal(dt_background_give(b, (void *)2, 1), 1);
    assert_false(dt_background_destroy(b, 1));
    set_stuck(false);
    dt_clock_sleep(0.05);
    pthread_mutex_lock(&work.lock);
    assert_true(work.last <= 1);
    pthread_mutex_unlock(&work.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_done_when_it_was_given),
        cmocka_unit_test(what_takes_long_is_waited_for_once_and_none_is_lost),
        cmocka_unit_test(who_hangs_at_the_end_is_left_alone_and_does_no_more),
    };
    return cmocka_run_group_tests_name("background", tests, NULL, NULL);
}
