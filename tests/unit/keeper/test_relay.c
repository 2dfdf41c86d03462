/* SPDX-License-Identifier: Apache-2.0 */
/* test_relay.c - a worker prints, and srun takes it late or never */
#include "config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "keeper/relay.h"

enum { LINES = 2000 /* fewer than a pipe holds */ };

/* What has come out of a pipe that does not wait. */
static const char *read_all(int fd)
{
    static char text[1 << 17];
    size_t used = 0;
    for (ssize_t n; (n = read(fd, text + used, sizeof(text) - 1 - used)) > 0;)
        used += (size_t)n;
    text[used] = '\0';
    return text;
}

static void print(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void print_lines(int fd, int count)
{
    char word[64];
    for (int i = 0; i < count; i++) {
        snprintf(word, sizeof(word), "line %10d\n", i);
        print(fd, word);
    }
}

static int count_lines(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

/* Fills a pipe that does not wait. */
static void fill(int fd)
{
    static const char zeros[1 << 12];
    while (write(fd, zeros, sizeof(zeros)) > 0)
        ;
}

/* A keeper whose stdout and stderr are these pipes. Ends with the number of the
 * first line that is not as it should be.
 */
static void keep(int out, int out_end, int err)
{
    struct dt_relay relay = {.on = false};
    struct pollfd fds[DT_RELAY_STREAMS];
    dup2(out_end, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    dt_relay_poll(&relay, fds);
    if (fds[0].fd >= 0 || dt_relay_open(&relay) < 0 ||
        dt_relay_open(&relay) < 0)
        _exit(__LINE__ & 0x7f);
    dt_relay_poll(&relay, fds);
    const int to = relay.streams[0].to;
    print(to, "one\ntwo\nthr");
    print(relay.streams[1].to, "to stderr\n");
    if (poll(fds, DT_RELAY_STREAMS, 0) != 2)
        _exit(__LINE__ & 0x7f);
    dt_relay_serve(&relay);
    if (strcmp(read_all(out), "one\ntwo\n") != 0)
        _exit(__LINE__ & 0x7f);
    print(to, "ee\n");
    dt_relay_serve(&relay);
    if (strcmp(read_all(out), "three\n") != 0)
        _exit(__LINE__ & 0x7f);
    /* srun is slow: nothing is lost, and the worker is not read on */
    fill(out_end);
    print_lines(to, LINES);
    dt_relay_serve(&relay);
    dt_relay_poll(&relay, fds);
    if (relay.lost > 0 || fds[0].fd != STDOUT_FILENO ||
        fds[0].events != POLLOUT)
        _exit(__LINE__ & 0x7f);
    read_all(out);
    dt_relay_serve(&relay);
    dt_relay_poll(&relay, fds);
    if (count_lines(read_all(out)) != LINES || fds[0].events != POLLIN)
        _exit(__LINE__ & 0x7f);
    /* srun is gone: lines are lost, and nobody waits */
    fill(out_end);
    print_lines(to, LINES);
    dt_relay_serve(&relay);
    dt_clock_sleep(DT_RELAY_PATIENCE_S);
    dt_relay_serve(&relay);
    if (relay.lost != LINES)
        _exit(__LINE__ & 0x7f);
    print_lines(to, LINES);
    dt_relay_serve(&relay);
    if (relay.lost != 2 * LINES)
        _exit(__LINE__ & 0x7f);
    read_all(out);
    print(to, "again\nno end");
    dt_relay_finish(&relay, 3, "n2");
    if (strcmp(read_all(out), "again\nno end") != 0)
        _exit(__LINE__ & 0x7f);
    dt_relay_finish(&relay, 4, "n2");
    dt_relay_close(&relay);
    _exit(0);
}

static void whole_lines_wait_for_srun_or_are_lost(void **state)
{
    int out[2], err[2], status;
    long lost = 0;
    (void)state;
    assert_int_equal(pipe2(out, O_NONBLOCK) | pipe2(err, O_NONBLOCK), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        keep(out[0], out[1], err[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    const char *said = read_all(err[0]);
    assert_int_equal(sscanf(said,
                            "to stderr\ndisttrain: rank 3 on n2: srun did not "
                            "take %ld lines, which are lost\n",
                            &lost),
                     1);
    assert_int_equal(lost, 2 * LINES);
    assert_null(strstr(said, "rank 4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_lines_wait_for_srun_or_are_lost),
    };
    return cmocka_run_group_tests_name("relay", tests, NULL, NULL);
}
