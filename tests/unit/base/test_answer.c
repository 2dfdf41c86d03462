/* SPDX-License-Identifier: Apache-2.0 */
/* test_answer.c - what a connection says of the kernel of a host */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/answer.h"

enum { QUEUED = 8 };

static void each_error_says_what_it_says(void **state)
{
    static const struct {
        int error;
        enum dt_answer before, after; /* a packet was sent */
    } cases[] = {
        {0, DT_ANSWER_OPEN, DT_ANSWER_OPEN},
        {ECONNREFUSED, DT_ANSWER_REFUSED, DT_ANSWER_REFUSED},
        {ECONNRESET, DT_ANSWER_OPEN, DT_ANSWER_OPEN},
        {ETIMEDOUT, DT_ANSWER_SILENCE, DT_ANSWER_SILENCE},
        {EHOSTUNREACH, DT_ANSWER_SILENCE, DT_ANSWER_SILENCE},
        {EHOSTDOWN, DT_ANSWER_SILENCE, DT_ANSWER_SILENCE},
        {ENETUNREACH, DT_ANSWER_UNKNOWN, DT_ANSWER_SILENCE},
        {ENETDOWN, DT_ANSWER_UNKNOWN, DT_ANSWER_UNKNOWN},
        {EACCES, DT_ANSWER_UNKNOWN, DT_ANSWER_UNKNOWN},
        {EPERM, DT_ANSWER_UNKNOWN, DT_ANSWER_UNKNOWN},
        {EINVAL, DT_ANSWER_UNKNOWN, DT_ANSWER_UNKNOWN},
        {EMFILE, DT_ANSWER_UNKNOWN, DT_ANSWER_UNKNOWN},
        {ENOBUFS, DT_ANSWER_UNKNOWN, DT_ANSWER_UNKNOWN},
        {EADDRNOTAVAIL, DT_ANSWER_UNKNOWN, DT_ANSWER_UNKNOWN},
        {EAFNOSUPPORT, DT_ANSWER_UNKNOWN, DT_ANSWER_UNKNOWN},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(dt_answer_of(cases[i].error, false), cases[i].before);
        assert_int_equal(dt_answer_of(cases[i].error, true), cases[i].after);
    }
}

/* A full queue drops what comes, as a host does that is lost. */
static void a_kernel_answers_but_not_for_a_full_queue(void **state)
{
    union dt_net_address host;
    enum dt_answer answer;
    unsigned port = 0;
    int fds[QUEUED];
    (void)state;
    assert_true(dt_net_parse(&host, "127.0.0.1", 0) > 0);
    int listener = dt_net_listen(&host, &port, NULL);
    assert_true(listener >= 0);
    assert_int_equal(dt_answer_get("127.0.0.1", port, 60000), DT_ANSWER_OPEN);
    assert_int_equal(listen(listener, 0), 0);
    for (int i = 0; i < QUEUED; i++)
        fds[i] = dt_answer_ask(&host, port, &answer);
    assert_int_equal(dt_answer_get("127.0.0.1", port, 200), DT_ANSWER_SILENCE);
    assert_int_equal(dt_answer_get("127.0.0.1", DT_ANSWER_PORT, 60000),
                     DT_ANSWER_REFUSED);
    for (int i = 0; i < QUEUED; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    close(listener);
    assert_int_equal(dt_answer_get("127.0.0.1", port, 60000),
                     DT_ANSWER_REFUSED);
}

/* A broadcast is refused before a packet is sent. */
static void a_failure_of_our_own_says_nothing(void **state)
{
    (void)state;
    assert_int_equal(dt_answer_get("255.255.255.255", DT_ANSWER_PORT, 0),
                     DT_ANSWER_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_error_says_what_it_says),
        cmocka_unit_test(a_kernel_answers_but_not_for_a_full_queue),
        cmocka_unit_test(a_failure_of_our_own_says_nothing),
    };
    return cmocka_run_group_tests_name("answer", tests, NULL, NULL);
}
