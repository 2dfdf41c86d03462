/* SPDX-License-Identifier: Apache-2.0 */
/* test_segment.c - buffers that another process finds again, or does not */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "segment/segment.h"

enum { BYTES = 5000, ALIGN = 2 << 20, HASH = 7 };

struct scene {
    int fd;
    struct dt_segment *segment;
    struct dt_buffer *a, *b;
};

/* Opens the segment, as each worker does. */
static void open_with(struct scene *s, uint64_t hash, size_t bytes)
{
    struct dt_error err;
    s->segment = dt_segment_open(s->fd, hash, &err);
    assert_non_null(s->segment);
    s->a = dt_segment_buffer(s->segment, "a", BYTES, &err);
    s->b = dt_segment_buffer(s->segment, "b", bytes, &err);
    assert_non_null(s->a);
    assert_non_null(s->b);
    assert_int_equal(s->b->bytes, bytes);
}

static void leave(struct scene *s)
{
    dt_buffer_destroy(s->a);
    dt_buffer_destroy(s->b);
    dt_segment_close(s->segment);
}

static int enter(void **state)
{
    static struct scene s;
    s.fd = memfd_create("state", MFD_CLOEXEC);
    *state = &s;
    open_with(&s, HASH, BYTES);
    assert_false(dt_segment_found(s.segment));
    memset(s.a->data, 1, BYTES);
    memset(s.b->data, 2, BYTES);
    leave(&s);
    return 0;
}

static int finish(void **state)
{
    return close(((struct scene *)*state)->fd);
}

static void assert_bytes(const struct dt_buffer *buf, char value)
{
    const char *data = buf->data;
    for (size_t i = 0; i < buf->bytes; i++)
        assert_int_equal(data[i], value);
}

static void the_next_worker_finds_what_was_there(void **state)
{
    struct scene *s = *state;
    open_with(s, HASH, BYTES);
    assert_true(dt_segment_found(s->segment));
    assert_bytes(s->a, 1);
    assert_bytes(s->b, 2);
    assert_int_equal((uintptr_t)s->a->data % ALIGN, 0);
    leave(s);
}

static void a_worker_of_another_run_finds_nothing(void **state)
{
    struct scene *s = *state;
    open_with(s, HASH + 1, BYTES);
    assert_false(dt_segment_found(s->segment));
    assert_bytes(s->a, 0);
    assert_bytes(s->b, 0);
    leave(s);
}

static void a_buffer_of_another_size_is_new(void **state)
{
    struct scene *s = *state;
    open_with(s, HASH, ALIGN + 1);
    assert_false(dt_segment_found(s->segment));
    assert_bytes(s->b, 0);
    leave(s);
    open_with(s, HASH, ALIGN + 1);
    assert_true(dt_segment_found(s->segment));
    leave(s);
}

static void a_file_that_was_cut_is_not_believed(void **state)
{
    struct scene *s = *state;
    assert_int_equal(ftruncate(s->fd, 2 * ALIGN + BYTES - 1), 0);
    open_with(s, HASH, BYTES);
    assert_false(dt_segment_found(s->segment));
    assert_bytes(s->b, 0);
    leave(s);
    assert_int_equal(ftruncate(s->fd, 1), 0);
    open_with(s, HASH, BYTES);
    assert_false(dt_segment_found(s->segment));
    leave(s);
}

static void a_table_of_nonsense_is_not_believed(void **state)
{
    struct scene *s = *state;
    const uint64_t count = UINT64_MAX;
    assert_int_equal(pwrite(s->fd, &count, sizeof(count), 16), sizeof(count));
    open_with(s, HASH, BYTES);
    assert_false(dt_segment_found(s->segment));
    assert_bytes(s->a, 0);
    leave(s);
}

static void clearing_reaches_buffers_that_are_mapped(void **state)
{
    struct scene *s = *state;
    struct dt_error err;
    open_with(s, HASH, BYTES);
    assert_int_equal(dt_segment_clear(s->segment, &err), 0);
    assert_false(dt_segment_found(s->segment));
    assert_bytes(s->a, 0);
    assert_bytes(s->b, 0);
    memset(s->b->data, 3, BYTES);
    leave(s);
    open_with(s, HASH, BYTES);
    assert_true(dt_segment_found(s->segment));
    assert_bytes(s->b, 3);
    leave(s);
}

static void memory_that_is_held_is_counted(void **state)
{
    struct scene *s = *state;
    open_with(s, HASH, 4 * (size_t)ALIGN);
    memset(s->b->data, 1, s->b->bytes);
    assert_true(dt_segment_held(s->fd) >= 4 * (size_t)ALIGN);
    leave(s);
    open_with(s, HASH + 1, BYTES);
    assert_true(dt_segment_held(s->fd) < ALIGN);
    leave(s);
    assert_int_equal(dt_segment_held(-1), 0);
}

static void room_takes_memory_where_it_is_written(void **state)
{
    struct scene *s = *state;
    struct dt_error err;
    open_with(s, HASH, BYTES);
    const size_t before = dt_segment_held(s->fd);
    struct dt_buffer *room =
        dt_segment_room(s->segment, "room", 4 * (size_t)ALIGN, &err);
    assert_non_null(room);
    assert_int_equal(dt_segment_held(s->fd), before);
    memset(room->data, 3, BYTES);
    assert_true(dt_segment_held(s->fd) > before);
    assert_true(dt_segment_held(s->fd) < before + ALIGN);
    dt_buffer_destroy(room);
    leave(s);
}

static void a_descriptor_of_something_else_is_refused(void **state)
{
    struct dt_error err;
    (void)state;
    assert_null(dt_segment_open(-1, HASH, &err));
    assert_string_equal(err.text, "segment: fstat: Bad file descriptor");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_next_worker_finds_what_was_there),
        TEST(a_worker_of_another_run_finds_nothing),
        TEST(a_buffer_of_another_size_is_new),
        TEST(a_file_that_was_cut_is_not_believed),
        TEST(a_table_of_nonsense_is_not_believed),
        TEST(clearing_reaches_buffers_that_are_mapped),
        TEST(memory_that_is_held_is_counted),
        TEST(room_takes_memory_where_it_is_written),
        cmocka_unit_test(a_descriptor_of_something_else_is_refused),
    };
    return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}
