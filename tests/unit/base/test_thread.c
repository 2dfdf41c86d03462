/* SPDX-License-Identifier: Apache-2.0 */
/* test_thread.c - threads that take no signals */
#include "config.h"

#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/thread.h"

struct seen {
    sem_t named; /* the caller has given the thread its name */
    sigset_t mask;
    char name[16];
};

static void *look(void *arg)
{
    struct seen *seen = arg;
    sem_wait(&seen->named);
    pthread_sigmask(SIG_SETMASK, NULL, &seen->mask);
    pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
    return seen;
}

static struct seen start_and_join(const char *name)
{
    struct seen seen = {0};
    pthread_t thread;
    void *result;
    sem_init(&seen.named, 0, 0);
    assert_int_equal(dt_thread_start(&thread, name, look, &seen), 0);
    sem_post(&seen.named);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &seen);
    sem_destroy(&seen.named);
    return seen;
}

static void a_started_thread_takes_no_signals(void **state)
{
    const int numbers[] = {SIGHUP, SIGINT, SIGUSR1, SIGTERM, SIGCHLD, SIGALRM};
    struct seen seen = start_and_join(NULL);
    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        assert_int_equal(sigismember(&seen.mask, numbers[i]), 1);
}

static void the_caller_keeps_its_own_mask(void **state)
{
    sigset_t one;
    sigset_t before;
    sigset_t after;
    (void)state;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &one, &before);
    start_and_join(NULL);
    pthread_sigmask(SIG_SETMASK, &before, &after);
    assert_int_equal(sigismember(&after, SIGUSR2), 1);
    assert_int_equal(sigismember(&after, SIGUSR1), 0);
}

static void a_thread_bears_the_name_it_is_given(void **state)
{
    char own[16];
    (void)state;
    assert_string_equal(start_and_join("loader").name, "loader");
    pthread_getname_np(pthread_self(), own, sizeof(own));
    assert_string_equal(start_and_join(NULL).name, own);
}

static void *nothing(void *arg)
{
    return arg;
}

static void set_default_stack(size_t bytes)
{
    pthread_attr_t attr;
    assert_int_equal(pthread_getattr_default_np(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, bytes), 0);
    assert_int_equal(pthread_setattr_default_np(&attr), 0);
    pthread_attr_destroy(&attr);
}

static size_t default_stack(void)
{
    pthread_attr_t attr;
    size_t bytes = 0;
    assert_int_equal(pthread_getattr_default_np(&attr), 0);
    pthread_attr_getstacksize(&attr, &bytes);
    pthread_attr_destroy(&attr);
    return bytes;
}

static void a_failed_start_returns_errno_and_restores_the_mask(void **state)
{
    size_t bytes = default_stack();
    sigset_t mask;
    pthread_t thread;
    (void)state;
    set_default_stack((size_t)1 << 60); /* more than any address space has */
    int rc = dt_thread_start(&thread, "never", nothing, NULL);
    set_default_stack(bytes);
    assert_int_equal(rc, EAGAIN);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_int_equal(sigismember(&mask, SIGUSR1), 0);
}

static void a_library_is_left_with_all_signals_blocked(void **state)
{
    sigset_t before;
    sigset_t during;
    (void)state;
    dt_thread_block_signals(&before);
    pthread_sigmask(SIG_SETMASK, &before, &during);
    assert_int_equal(sigismember(&during, SIGTERM), 1);
    assert_int_equal(sigismember(&before, SIGTERM), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_start_returns_errno_and_restores_the_mask),
        cmocka_unit_test(a_started_thread_takes_no_signals),
        cmocka_unit_test(the_caller_keeps_its_own_mask),
        cmocka_unit_test(a_thread_bears_the_name_it_is_given),
        cmocka_unit_test(a_library_is_left_with_all_signals_blocked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
