/* SPDX-License-Identifier: Apache-2.0 */
/* test_relay.c - a worker prints, and srun takes it late or never */
#include "config.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
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

static bool gone; /* srun is */
static int questions;

static bool ask(const void *context)
{
    assert_non_null(context);
    questions++;
    return gone;
}

/* Ends a keeper with the number of the line that is not as it should be. */
#define CHECK(what) ((what) ? (void)0 : _exit(__LINE__ & 0x7f))

/* Runs a keeper whose stdout and stderr are pipes `out` and `err`, and which
 * ends by itself.
 */
static void run_keeper(void (*keep)(struct dt_relay *relay, const int out[2],
                                    const int err[2]),
                       const int out[2], const int err[2])
{
    static struct dt_relay relay;
    struct dt_error error;
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        CHECK(dt_relay_init(&relay, ask, &gone, &error) == 0);
        keep(&relay, out, err);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void open_pipes(int out[2], int err[2])
{
    assert_int_equal(pipe(out) | pipe(err), 0);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(err[0], F_SETFL, O_NONBLOCK);
}

static void close_pipes(const int out[2], const int err[2])
{
    for (int i = 0; i < 2; i++) {
        close(out[i]);
        close(err[i]);
    }
}

/* A worker that prints some lines. */
static void print_as_worker(const struct dt_relay *relay, const char *to_out,
                            const char *to_err)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        dt_relay_take(relay);
        CHECK((fcntl(STDOUT_FILENO, F_GETFL) & O_NONBLOCK) == 0);
        CHECK((fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK) == 0);
        print(STDOUT_FILENO, to_out);
        print(STDERR_FILENO, to_err);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void fill_srun(const struct dt_relay *relay, int i)
{
    fill(relay->streams[i].to);
}

/* --- workers --- */

static void relay_worker(struct dt_relay *relay, const int out[2],
                         const int err[2])
{
    struct pollfd fds[DT_RELAY_STREAMS];
    print_as_worker(relay, "straight\n", "to srun\n");
    CHECK(strcmp(read_all(out[0]), "straight\n") == 0);
    CHECK(strcmp(read_all(err[0]), "to srun\n") == 0);
    dt_relay_poll(relay, fds);
    CHECK(fds[0].fd < 0 && fds[1].fd < 0);

    CHECK(dt_relay_open(relay) == 0 && dt_relay_open(relay) == 0);
    const int to = relay->streams[0].end;
    print_as_worker(relay, "one\ntwo\nthr", "to stderr\n");
    dt_relay_poll(relay, fds);
    CHECK(poll(fds, DT_RELAY_STREAMS, 0) == 2);
    dt_relay_serve(relay);
    CHECK(strcmp(read_all(out[0]), "one\ntwo\n") == 0);
    CHECK(strcmp(read_all(err[0]), "to stderr\n") == 0);
    print(to, "ee\n");
    dt_relay_serve(relay);
    CHECK(strcmp(read_all(out[0]), "three\n") == 0);

    /* srun is slow for longer than we are patient: nothing is lost, and the
     * worker is not read on */
    fill_srun(relay, 0);
    print_lines(to, LINES);
    dt_relay_serve(relay);
    dt_relay_poll(relay, fds);
    CHECK(fds[0].fd == relay->streams[0].to && fds[0].events == POLLOUT);
    CHECK(dt_relay_due(relay) <= dt_clock_now() + DT_RELAY_PATIENCE_S);
    dt_clock_sleep(DT_RELAY_PATIENCE_S);
    dt_relay_serve(relay);
    dt_relay_serve(relay);
    CHECK(relay->lost == 0 && questions == 1);
    read_all(out[0]);
    dt_relay_serve(relay);
    dt_relay_poll(relay, fds);
    CHECK(count_lines(read_all(out[0])) == LINES && fds[0].events == POLLIN);

    /* srun is gone: lines are lost, and nobody waits */
    gone = true;
    fill_srun(relay, 0);
    print_lines(to, LINES);
    dt_relay_serve(relay);
    dt_clock_sleep(DT_RELAY_PATIENCE_S);
    dt_relay_serve(relay);
    CHECK(relay->lost == LINES && questions == 2);
    print_lines(to, LINES);
    dt_relay_serve(relay);
    CHECK(relay->lost == 2 * LINES && questions == 2);
    read_all(out[0]);
    print(to, "again\nno end");
    dt_relay_finish(relay, 3, "n2");
    CHECK(strcmp(read_all(out[0]), "again\nno end") == 0);
    dt_relay_finish(relay, 4, "n2");
    dt_relay_fini(relay, 60);
}

static void whole_lines_wait_for_srun_or_are_lost(void **state)
{
    int out[2], err[2];
    (void)state;
    open_pipes(out, err);
    run_keeper(relay_worker, out, err);
    char lost[96];
    snprintf(lost, sizeof(lost),
             "disttrain: rank 3 on n2: srun did not take %d lines, which are "
             "lost\n",
             2 * LINES);
    assert_string_equal(read_all(err[0]), lost);
    close_pipes(out, err);
}

/* --- the keeper itself --- */

/* No line of it is lost, however long srun takes nothing, and it never waits.
 */
static void speak(struct dt_relay *relay, const int out[2], const int err[2])
{
    (void)out;
    gone = true;
    fill_srun(relay, 1);
    fprintf(stderr, "first\n");
    dt_relay_serve(relay);
    dt_clock_sleep(DT_RELAY_PATIENCE_S + 0.1);
    dt_relay_serve(relay);
    fprintf(stderr, "second\n");
    dt_relay_serve(relay);
    CHECK(questions == 0 && relay->lost == 0);
    CHECK(!strstr(read_all(err[0]), "first"));
    dt_relay_serve(relay);
    CHECK(strcmp(read_all(err[0]), "first\nsecond\n") == 0);

    fill_srun(relay, 1);
    fprintf(stderr, "third\n");
    const double begin = dt_clock_now();
    dt_relay_fini(relay, 0.2);
    CHECK(dt_clock_now() - begin >= 0.2);
    read_all(err[0]);
    fprintf(stderr, "straight\n"); /* as before */
    CHECK(strcmp(read_all(err[0]), "straight\n") == 0);
}

static void what_a_keeper_says_waits_for_srun(void **state)
{
    int out[2], err[2];
    (void)state;
    open_pipes(out, err);
    run_keeper(speak, out, err);
    close_pipes(out, err);
}

/* What is never taken is waited for by nobody, also not by a loop that turns at
 * once.
 */
static void speak_to_nobody(struct dt_relay *relay, const int out[2],
                            const int err[2])
{
    (void)out;
    (void)err;
    signal(SIGPIPE, SIG_IGN);
    struct pollfd fds[DT_RELAY_STREAMS];
    CHECK(dt_relay_open(relay) == 0);
    print_as_worker(relay, "", "one\ntwo\n");
    fprintf(stderr, "first\n");
    dt_relay_serve(relay);
    dt_relay_poll(relay, fds);
    CHECK(poll(fds, DT_RELAY_STREAMS, 0) == 0 && isinf(dt_relay_due(relay)));
    CHECK(relay->lost == 2 && questions == 0);
    const double begin = dt_clock_now();
    dt_relay_fini(relay, 60);
    CHECK(dt_clock_now() - begin < 30);
}

/* srun is gone when a keeper ends: the lines that wait are counted, too. */
static void end_unheard(struct dt_relay *relay, const int out[2],
                        const int err[2])
{
    (void)out;
    CHECK(dt_relay_open(relay) == 0);
    fill_srun(relay, 0);
    print_lines(relay->streams[0].end, LINES);
    dt_relay_finish(relay, 3, "n2");
    CHECK(relay->lost == 0);
    dt_relay_fini(relay, 0.1);
    CHECK(strstr(read_all(err[0]), "rank 3 on n2: srun did not take"));
}

static void lines_that_wait_at_the_end_are_counted(void **state)
{
    int out[2], err[2];
    (void)state;
    open_pipes(out, err);
    run_keeper(end_unheard, out, err);
    close_pipes(out, err);
}

static void a_broken_pipe_keeps_nobody(void **state)
{
    int out[2], err[2];
    (void)state;
    open_pipes(out, err);
    close(err[0]);
    run_keeper(speak_to_nobody, out, err);
    close(out[0]);
    close(out[1]);
    close(err[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_lines_wait_for_srun_or_are_lost),
        cmocka_unit_test(what_a_keeper_says_waits_for_srun),
        cmocka_unit_test(a_broken_pipe_keeps_nobody),
        cmocka_unit_test(lines_that_wait_at_the_end_are_counted),
    };
    return cmocka_run_group_tests_name("relay", tests, NULL, NULL);
}
