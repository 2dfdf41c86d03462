/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire.c - messages over a socket, whole, in pieces, and broken */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "launch/wire.h"

enum { HEADER = 24, PIECE = 64 * 1024 };

/* Two ends of a connection. */
struct ends {
    struct dt_wire a, b;
};

static struct ends connect_ends(void)
{
    struct ends e;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair),
                     0);
    dt_wire_init(&e.a, pair[0]);
    dt_wire_init(&e.b, pair[1]);
    return e;
}

static void close_ends(struct ends *e)
{
    dt_wire_close(&e->a);
    dt_wire_close(&e->b);
}

static uint8_t *make_body(size_t bytes)
{
    uint8_t *body = malloc(bytes + 1);
    assert_non_null(body);
    for (size_t i = 0; i < bytes; i++)
        body[i] = (uint8_t)(i * 7 + i / 251);
    return body;
}

/* Takes the next message, for which it waits. */
static struct dt_wire_message await(struct dt_wire *wire)
{
    struct dt_wire_message message;
    int found;
    while ((found = dt_wire_next(wire, &message)) == 0) {
        assert_int_equal(dt_wire_wait(wire, 10000), 1);
        assert_int_equal(dt_wire_receive(wire), 0);
    }
    assert_int_equal(found, 1);
    return message;
}

static void a_body_of_any_size_arrives(void **state)
{
    static const size_t sizes[] = {0,
                                   1,
                                   PIECE - HEADER - 1,
                                   PIECE - HEADER,
                                   PIECE - HEADER + 1,
                                   2 * PIECE,
                                   5000000};
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct ends e = connect_ends();
        const size_t bytes = sizes[i], head = bytes / 3;
        uint8_t *body = make_body(bytes);
        assert_int_equal(dt_wire_send(&e.a, DT_WIRE_FENCE, 9, body, head,
                                      body + head, bytes - head),
                         0);
        do /* both ends are here: send a part, receive it */
            assert_true(dt_wire_flush(&e.a) == 0 && dt_wire_receive(&e.b) == 0);
        while (dt_wire_pending(&e.a));
        assert_int_equal(dt_wire_receive(&e.b), 0);
        struct dt_wire_message m = await(&e.b);
        assert_int_equal(m.type, DT_WIRE_FENCE);
        assert_int_equal(m.life, 9);
        assert_int_equal(m.bytes, bytes);
        assert_memory_equal(m.body, body, bytes);
        assert_int_equal(dt_wire_next(&e.b, &m), 0);
        free(body);
        close_ends(&e);
    }
}

/* The bytes of two messages, as they are on the wire. */
static size_t record_two(uint8_t *bytes, size_t size)
{
    struct ends e = connect_ends();
    dt_wire_send(&e.a, DT_WIRE_NOTE, 1, "first", 5, NULL, 0);
    dt_wire_send(&e.a, DT_WIRE_WHO, 2, NULL, 0, NULL, 0);
    ssize_t n = read(e.b.fd, bytes, size);
    close_ends(&e);
    assert_int_equal(n, 2 * HEADER + 5);
    return (size_t)n;
}

static void pieces_of_one_byte_make_messages(void **state)
{
    uint8_t bytes[256];
    const size_t count = record_two(bytes, sizeof(bytes));
    struct ends e = connect_ends();
    (void)state;
    for (size_t i = 0; i < count; i++) {
        struct dt_wire_message m;
        assert_int_equal(write(e.a.fd, bytes + i, 1), 1);
        assert_int_equal(dt_wire_receive(&e.b), 0);
        const bool whole = i == HEADER + 4 || i == count - 1;
        assert_int_equal(dt_wire_next(&e.b, &m), whole);
        if (whole)
            assert_int_equal(m.type,
                             i < count - 1 ? DT_WIRE_NOTE : DT_WIRE_WHO);
    }
    close_ends(&e);
}

static void a_header_that_makes_no_sense_is_refused(void **state)
{
    static const struct {
        uint32_t magic, type;
        uint64_t bytes;
        int found;
    } cases[] = {
        {0x31776474, DT_WIRE_BEAT, (uint64_t)1 << 30, 0}, /* still to come */
        {0x31776474, DT_WIRE_BEAT, ((uint64_t)1 << 30) + 1, -1},
        {0x31776474, DT_WIRE_BEAT, UINT64_MAX, -1},
        {0x31776474, 0, 0, -1},
        {0x31776474, DT_WIRE_TYPES, 0, -1},
        {0x31776474, DT_WIRE_TYPES - 1, 0, 1},
        {0x31776475, DT_WIRE_BEAT, 0, -1},
        {0x74647731, DT_WIRE_BEAT, 0, -1}, /* of a big-endian machine */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct ends e = connect_ends();
        struct dt_wire_message m;
        uint32_t words[6] = {htole32(cases[i].magic), htole32(cases[i].type)};
        const uint64_t bytes = htole64(cases[i].bytes);
        memcpy(words + 4, &bytes, sizeof(bytes));
        assert_int_equal(write(e.a.fd, words, HEADER), HEADER);
        assert_int_equal(dt_wire_receive(&e.b), 0);
        assert_int_equal(dt_wire_next(&e.b, &m), cases[i].found);
        if (cases[i].found < 0)
            assert_int_equal(errno, EPROTO);
        close_ends(&e);
    }
}

/* Nobody waits for a peer that does not read, and the order stays. */
static void messages_queue_while_the_peer_does_not_read(void **state)
{
    enum { COUNT = 100, BYTES = 50000 };
    struct ends e = connect_ends();
    uint8_t *body = make_body(BYTES);
    (void)state;
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(
            dt_wire_send(&e.a, DT_WIRE_FENCE, i, body, BYTES, NULL, 0), 0);
    assert_true(dt_wire_pending(&e.a));
    /* whoever waits for an answer sends meanwhile */
    assert_int_equal(dt_wire_receive(&e.b), 0);
    dt_wire_send(&e.b, DT_WIRE_BEAT, 0, NULL, 0, NULL, 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        struct dt_wire_message m;
        while (dt_wire_next(&e.b, &m) == 0) {
            assert_int_equal(dt_wire_wait(&e.a, 10000), 1);
            assert_int_equal(dt_wire_flush(&e.a), 0);
            assert_int_equal(dt_wire_receive(&e.b), 0);
        }
        assert_int_equal(m.life, i);
        assert_int_equal(m.bytes, BYTES);
        assert_memory_equal(m.body, body, BYTES);
    }
    assert_false(dt_wire_pending(&e.a));
    free(body);
    close_ends(&e);
}

static void an_end_is_told_after_all_that_came_before(void **state)
{
    struct ends e = connect_ends();
    (void)state;
    dt_wire_send(&e.a, DT_WIRE_NOTE, 1, "one", 3, NULL, 0);
    dt_wire_send(&e.a, DT_WIRE_DOWN, 1, "two", 3, NULL, 0);
    dt_wire_close(&e.a);
    dt_wire_close(&e.a);
    assert_int_equal(dt_wire_wait(&e.b, 10000), 1);
    assert_int_equal(dt_wire_receive(&e.b), -1);
    assert_int_equal(errno, ECONNRESET);
    assert_memory_equal(await(&e.b).body, "one", 3);
    assert_memory_equal(await(&e.b).body, "two", 3);
    /* no signal ends who sends to it */
    assert_int_equal(dt_wire_send(&e.b, DT_WIRE_BEAT, 0, NULL, 0, NULL, 0), -1);
    assert_int_equal(errno, EPIPE);
    dt_wire_close(&e.b);
    assert_int_equal(dt_wire_send(&e.b, DT_WIRE_BEAT, 0, NULL, 0, NULL, 0), -1);
    assert_int_equal(errno, ECONNRESET);
}

static void a_wait_ends_at_its_deadline(void **state)
{
    struct ends e = connect_ends();
    (void)state;
    assert_int_equal(dt_wire_wait(&e.a, 0), 0);
    assert_int_equal(dt_wire_wait(&e.a, 5), 0);
    dt_wire_send(&e.b, DT_WIRE_BEAT, 0, NULL, 0, NULL, 0);
    assert_int_equal(dt_wire_wait(&e.a, 0), 1);
    close_ends(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_of_any_size_arrives),
        cmocka_unit_test(pieces_of_one_byte_make_messages),
        cmocka_unit_test(a_header_that_makes_no_sense_is_refused),
        cmocka_unit_test(messages_queue_while_the_peer_does_not_read),
        cmocka_unit_test(an_end_is_told_after_all_that_came_before),
        cmocka_unit_test(a_wait_ends_at_its_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
