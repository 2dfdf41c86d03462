/* SPDX-License-Identifier: Apache-2.0 */
/* test_locker.c - host memory that is got ready in a thread */
#include "config.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "device/locker.h"

enum { COUNT = 3, PIECE = 64 << 20 };

/* Locks wait at a gate, and only so many buffers may be locked. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static void *locked[COUNT];
static size_t locked_count, unlocked_count, refused = COUNT;

static int lock(void *data, size_t bytes, struct dt_error *err)
{
    (void)bytes;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    if (locked_count == refused)
        return dt_error_set(err, EX_OSERR, "too many bytes");
    locked[locked_count++] = data;
    return 0;
}

static void unlock(void *data)
{
    assert_ptr_equal(data, locked[unlocked_count]);
    unlocked_count++;
}

/* Pages may wait, too, until somebody waits for the thread that gets them. */
static pthread_mutex_t page_gate = PTHREAD_MUTEX_INITIALIZER;
static bool until_join;

int __wrap_madvise(void *data, size_t bytes, int advice);
int __real_madvise(void *data, size_t bytes, int advice);

int __wrap_madvise(void *data, size_t bytes, int advice)
{
    pthread_mutex_lock(&page_gate);
    pthread_mutex_unlock(&page_gate);
    return __real_madvise(data, bytes, advice);
}

int __wrap_pthread_join(pthread_t thread, void **value);
int __real_pthread_join(pthread_t thread, void **value);

int __wrap_pthread_join(pthread_t thread, void **value)
{
    if (until_join)
        pthread_mutex_unlock(&page_gate);
    until_join = false;
    return __real_pthread_join(thread, value);
}

static const struct dt_device device = {.lock = lock, .unlock = unlock};
static struct dt_buffer buffers[COUNT], *all[COUNT];
static size_t page;

/* One byte more than a piece, a page, and none. */
static int make_buffers(void **state)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t sizes[COUNT] = {PIECE + 1, page, 0};
    (void)state;
    locked_count = unlocked_count = 0;
    refused = COUNT;
    for (size_t i = 0; i < COUNT; i++) {
        buffers[i] = (struct dt_buffer){.bytes = sizes[i]};
        buffers[i].data = mmap(NULL, PIECE + page, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (buffers[i].data == MAP_FAILED)
            return -1;
        all[i] = &buffers[i];
    }
    return 0;
}

static int drop_buffers(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++)
        munmap(buffers[i].data, PIECE + page);
    return 0;
}

/* Pages of a buffer that are there. */
static size_t present(const struct dt_buffer *buf)
{
    static unsigned char pages[PIECE / 4096 + 1];
    const size_t count = (buf->bytes + page - 1) / page;
    size_t there = 0;
    assert_int_equal(mincore(buf->data, buf->bytes, pages), 0);
    for (size_t i = 0; i < count; i++)
        there += pages[i] & 1;
    return there;
}

static void each_buffer_is_locked_and_keeps_its_content(void **state)
{
    struct dt_error err;
    (void)state;
    strcpy(buffers[0].data, "of an earlier process");
    struct dt_locker *l = dt_locker_open(&device, all, COUNT, &err);
    assert_non_null(l);
    assert_int_equal(dt_locker_done(l, true, &err), 1);
    assert_int_equal(dt_locker_done(l, false, &err), 1);
    assert_int_equal(locked_count, 2);
    assert_string_equal(buffers[0].data, "of an earlier process");
#ifdef MADV_POPULATE_WRITE
    assert_int_equal(present(&buffers[0]), PIECE / page + 1);
    assert_int_equal(present(&buffers[1]), 1);
#endif
    dt_locker_close(l);
    assert_int_equal(unlocked_count, 2);
}

static void nobody_waits_for_a_device_that_is_slow(void **state)
{
    struct dt_error err;
    (void)state;
    pthread_mutex_lock(&gate);
    struct dt_locker *l = dt_locker_open(&device, all, COUNT, &err);
    assert_non_null(l);
    assert_int_equal(dt_locker_done(l, false, &err), 0);
    pthread_mutex_unlock(&gate);
    assert_int_equal(dt_locker_done(l, true, &err), 1);
    dt_locker_close(l);
    assert_int_equal(unlocked_count, 2);
}

static void what_was_locked_before_a_refusal_is_unlocked(void **state)
{
    struct dt_error err;
    (void)state;
    refused = 1;
    struct dt_locker *l = dt_locker_open(&device, all, COUNT, &err);
    assert_non_null(l);
    assert_int_equal(dt_locker_done(l, true, &err), -1);
    assert_string_equal(err.text, "too many bytes");
    dt_locker_close(l);
    assert_int_equal(unlocked_count, 1);
}

/* Of a buffer of several pieces, and of its last piece. */
static void nothing_is_locked_after_the_end(void **state)
{
    struct dt_error err;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        pthread_mutex_lock(&page_gate);
        until_join = true;
        struct dt_locker *l = dt_locker_open(&device, all + i, COUNT - i, &err);
        assert_non_null(l);
        usleep(10000); /* it may have begun or not */
        dt_locker_close(l);
        assert_int_equal(locked_count, 0);
        assert_int_equal(unlocked_count, 0);
        assert_true(present(&buffers[i]) <= PIECE / page);
    }
}

static void a_device_without_locks_has_its_pages_all_the_same(void **state)
{
    static const struct dt_device host = {.is_host = true};
    struct dt_error err;
    (void)state;
    struct dt_locker *l = dt_locker_open(&host, all, COUNT, &err);
    assert_non_null(l);
    assert_int_equal(dt_locker_done(l, true, &err), 1);
#ifdef MADV_POPULATE_WRITE
    assert_int_equal(present(&buffers[1]), 1);
#endif
    dt_locker_close(l);
    dt_locker_close(NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_buffers, drop_buffers)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_buffer_is_locked_and_keeps_its_content),
        TEST(nobody_waits_for_a_device_that_is_slow),
        TEST(what_was_locked_before_a_refusal_is_unlocked),
        TEST(nothing_is_locked_after_the_end),
        TEST(a_device_without_locks_has_its_pages_all_the_same),
    };
    return cmocka_run_group_tests_name("locker", tests, NULL, NULL);
}
