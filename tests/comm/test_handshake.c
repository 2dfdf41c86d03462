/* SPDX-License-Identifier: Apache-2.0 */
/* test_handshake.c - who knows the token, and who only says so */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "comm/rendezvous.h"

enum {
    SIZE = 8,
    LISTENER = 3,
    CALLER = 5,
    MOST = 256, /* bytes that one side says */
};

static const struct dt_token token = {{1, 2, 3}}, other_token = {{1, 2, 4}};

/* One side, with the far end of its connection in the hands of the test. */
struct side {
    struct dt_handshake handshake;
    int fd, far;
};

static void side_open(struct side *s, const struct dt_token *own, bool listens)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    s->fd = fds[0];
    s->far = fds[1];
    dt_handshake_begin(&s->handshake, own, listens ? LISTENER : CALLER, SIZE,
                       listens ? -1 : LISTENER);
}

static void side_close(struct side *s)
{
    close(s->fd);
    close(s->far);
}

static int go_on(struct side *s)
{
    return dt_handshake_continue(&s->handshake, s->fd);
}

/* What a side has said. */
static size_t hear(struct side *s, uint8_t *said)
{
    ssize_t n = recv(s->far, said, MOST, MSG_DONTWAIT);
    return n > 0 ? (size_t)n : 0;
}

static void say(struct side *s, const void *words, size_t bytes)
{
    assert_int_equal(send(s->far, words, bytes, 0), (ssize_t)bytes);
}

static void assert_refuses(struct side *s, int error)
{
    assert_int_equal(go_on(s), -1);
    assert_int_equal(errno, error);
}

/* Passes on what both say, at most `step` bytes at a time, until neither goes
 * on. Returns what the two results add up to.
 */
static int converse(struct side *a, struct side *b, size_t step)
{
    struct side *sides[] = {a, b};
    int results[2] = {0, 0}, idle = 0;
    uint8_t said[2][MOST];
    size_t count[2] = {0, 0};
    for (int i = 0; idle < 4; i = !i) {
        if (results[i] == 0)
            results[i] = go_on(sides[i]);
        count[i] += hear(sides[i], said[i] + count[i]);
        idle = count[i] > 0 ? 0 : idle + 1;
        size_t n = count[i] < step ? count[i] : step;
        if (n > 0)
            say(sides[!i], said[i], n);
        count[i] -= n;
        memmove(said[i], said[i] + n, count[i]);
    }
    return results[0] + results[1];
}

static void two_ranks_with_the_token_know_each_other(void **state)
{
    const size_t steps[] = {MOST, 7, 1};
    (void)state;
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        struct side a, b;
        side_open(&a, &token, false);
        side_open(&b, &token, true);
        assert_int_equal(converse(&a, &b, steps[i]), 2);
        assert_int_equal(b.handshake.peer, CALLER);
        assert_int_equal(a.handshake.peer, LISTENER);
        side_close(&a);
        side_close(&b);
    }
}

/* It is not there to be read by whoever comes first. */
static void what_follows_the_handshake_is_not_read(void **state)
{
    struct side a, b;
    uint8_t said[MOST];
    (void)state;
    side_open(&a, &token, false);
    side_open(&b, &token, true);
    assert_int_equal(go_on(&a), 0);
    say(&b, said, hear(&a, said));
    assert_int_equal(go_on(&b), 0);
    say(&a, said, hear(&b, said));
    assert_int_equal(go_on(&a), 0);
    size_t n = hear(&a, said);
    memcpy(said + n, "data", 4);
    say(&b, said, n + 4);
    assert_int_equal(go_on(&b), 1);
    assert_int_equal(recv(b.fd, said, MOST, MSG_DONTWAIT), 4);
    assert_memory_equal(said, "data", 4);
    side_close(&a);
    side_close(&b);
}

static void another_token_is_refused_by_both_sides(void **state)
{
    struct side a, b;
    uint8_t said[MOST];
    (void)state;
    side_open(&a, &other_token, false);
    side_open(&b, &token, true);
    assert_int_equal(go_on(&a), 0);
    say(&b, said, hear(&a, said));
    assert_int_equal(go_on(&b), 0);
    say(&a, said, hear(&b, said));
    assert_refuses(&a, EPROTO);
    assert_int_equal(hear(&a, said), 0); /* a proved nothing either */
    memset(said, 0, sizeof(said));
    say(&b, said, DT_SIPHASH_BYTES);
    assert_refuses(&b, EPROTO);
    assert_int_equal(hear(&b, said), 0);
    assert_string_equal(dt_handshake_error(EPROTO),
                        "it does not know the token of this run");
    side_close(&a);
    side_close(&b);
}

/* Who has no token sends back what it hears. */
static void a_reflection_is_refused_by_both_sides(void **state)
{
    struct side a, b, c;
    uint8_t said[MOST];
    (void)state;
    side_open(&a, &token, false); /* finds itself */
    assert_int_equal(go_on(&a), 0);
    say(&a, said, hear(&a, said));
    assert_refuses(&a, EPROTO);
    side_close(&a);
    side_open(&b, &token, true); /* hears its own proof */
    side_open(&c, &token, false);
    assert_int_equal(go_on(&c), 0);
    say(&b, said, hear(&c, said));
    assert_int_equal(go_on(&b), 0);
    assert_int_equal(hear(&b, said), 32);
    say(&b, said + 16, DT_SIPHASH_BYTES);
    assert_refuses(&b, EPROTO);
    side_close(&b);
    side_close(&c);
}

/* Records a conversation, and plays each part to a new one. */
static void a_replay_is_refused_by_both_sides(void **state)
{
    struct side a, b;
    uint8_t hello[MOST], challenge[MOST], answer[MOST];
    (void)state;
    side_open(&a, &token, false);
    side_open(&b, &token, true);
    assert_int_equal(go_on(&a), 0);
    say(&b, hello, hear(&a, hello));
    assert_int_equal(go_on(&b), 0);
    say(&a, challenge, hear(&b, challenge));
    assert_int_equal(go_on(&a), 0);
    size_t answer_bytes = hear(&a, answer);
    side_close(&a);
    side_close(&b);
    side_open(&a, &token, false);
    assert_int_equal(go_on(&a), 0);
    say(&a, challenge, 32);
    assert_refuses(&a, EPROTO);
    side_close(&a);
    side_open(&b, &token, true);
    say(&b, hello, DT_HANDSHAKE_HELLO_BYTES);
    say(&b, answer, answer_bytes);
    assert_refuses(&b, EPROTO);
    side_close(&b);
}

static void an_end_in_the_middle_is_told(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < DT_HANDSHAKE_HELLO_BYTES; bytes += 31) {
        struct side a, b;
        uint8_t said[MOST];
        side_open(&a, &token, false);
        side_open(&b, &token, true);
        assert_int_equal(go_on(&a), 0);
        hear(&a, said);
        if (bytes > 0)
            say(&b, said, bytes);
        assert_int_equal(go_on(&b), 0);
        shutdown(b.far, SHUT_WR);
        assert_refuses(&b, ECONNRESET);
        shutdown(a.far, SHUT_RDWR);
        assert_refuses(&a, ECONNRESET);
        side_close(&a);
        side_close(&b);
    }
}

/* At the first wrong byte, and before anything is said to it. */
static void who_says_something_else_is_refused_at_once(void **state)
{
    const struct {
        size_t at;
        uint8_t byte;
    } cases[] = {
        {0, 'G'},     /* another protocol */
        {8, SIZE},    /* a rank that there is not */
        {11, 0x80},   /* a negative one */
        {12, CALLER}, /* looks for another rank */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct side a, b;
        uint8_t said[MOST];
        side_open(&a, &token, false);
        side_open(&b, &token, true);
        assert_int_equal(go_on(&a), 0);
        assert_int_equal(hear(&a, said), DT_HANDSHAKE_HELLO_BYTES);
        said[cases[i].at] = cases[i].byte;
        say(&b, said, DT_HANDSHAKE_HELLO_BYTES);
        assert_refuses(&b, EPROTO);
        assert_int_equal(hear(&b, said), 0);
        side_close(&a);
        side_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_with_the_token_know_each_other),
        cmocka_unit_test(what_follows_the_handshake_is_not_read),
        cmocka_unit_test(another_token_is_refused_by_both_sides),
        cmocka_unit_test(a_reflection_is_refused_by_both_sides),
        cmocka_unit_test(a_replay_is_refused_by_both_sides),
        cmocka_unit_test(an_end_in_the_middle_is_told),
        cmocka_unit_test(who_says_something_else_is_refused_at_once),
    };
    return cmocka_run_group_tests_name("handshake", tests, NULL, NULL);
}
