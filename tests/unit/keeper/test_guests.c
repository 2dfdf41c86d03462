/* SPDX-License-Identifier: Apache-2.0 */
/* test_guests.c - keepers and strangers at the port of the leader */
#include "config.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/answer.h"
#include "base/clock.h"
#include "base/net.h"
#include "base/proc.h"
#include "keeper/guests.h"
#include "keeper/reach.h"
#include "tests/unit/turned_clock.h"

#define HOST "127.0.0.77" /* an address of this host that nobody else uses */

enum { SIZE = 4, QUEUED = 8 };

static const struct dt_keeper_options options = {.timeout_ms = 60000,
                                                 .secret = "5ec7e7"};

struct door {
    struct dt_token token;
    struct dt_guests guests;
    unsigned port;
};

static unsigned free_port(void)
{
    unsigned port = 0;
    int fd = dt_net_listen(NULL, &port, NULL);
    assert_true(fd >= 0);
    close(fd);
    return port;
}

/* A child looks at MASTER_PORT for a leader and tells its errors. */
static pid_t start_seeker(const struct dt_keeper_options *seeker, int rank,
                          int signals)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct dt_error err;
        if (dt_reach_leader(seeker, rank, SIZE, signals, &err) >= 0)
            _exit(0);
        fprintf(stderr, "# %s\n", err.text);
        _exit(err.status);
    }
    assert_true(pid > 0);
    return pid;
}

static int end_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void open_door(struct door *door)
{
    struct dt_error err;
    char text[16];
    door->port = free_port();
    dt_keeper_token(options.secret, &door->token);
    int listener = dt_guests_listen(&door->port, &err);
    assert_true(listener >= 0);
    dt_guests_open(&door->guests, &door->token, 0, SIZE, listener);
    snprintf(text, sizeof(text), "%u", door->port);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", text, 1);
}

/* One turn of the leader's loop. Returns the rank of a keeper, or -1. */
static int turn(struct door *door, int ms)
{
    struct pollfd fds[DT_GUESTS_FDS];
    int fd = -1;
    dt_guests_poll(&door->guests, fds);
    assert_true(poll(fds, DT_GUESTS_FDS, ms) >= 0);
    int rank = dt_guests_serve(&door->guests, fds, &fd);
    if (rank >= 0)
        close(fd);
    return rank;
}

/* The rank of the keeper that comes next. */
static int await_keeper(struct door *door)
{
    const double end = dt_clock_now() + 30;
    while (dt_clock_now() < end) {
        int rank = turn(door, 100);
        if (rank >= 0)
            return rank;
    }
    fail_msg("no keeper has come");
    return -1;
}

static int connect_stranger(const struct door *door)
{
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)door->port),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

static int count_guests(const struct door *door)
{
    int count = 0;
    for (int i = 0; i < DT_GUESTS; i++)
        count += door->guests.all[i].fd >= 0;
    return count;
}

/* Whether the other side has closed it. */
static bool is_closed(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
}

static void keepers_come_in_any_order(void **state)
{
    struct door door;
    (void)state;
    open_door(&door);
    pid_t last = start_seeker(&options, SIZE - 1, -1);
    assert_int_equal(await_keeper(&door), SIZE - 1);
    pid_t first = start_seeker(&options, 1, -1);
    assert_int_equal(await_keeper(&door), 1);
    assert_int_equal(end_of(last), 0);
    assert_int_equal(end_of(first), 0);
    assert_int_equal(count_guests(&door), 0);
    dt_guests_close(&door.guests);
}

static void who_does_not_know_the_secret_is_no_keeper(void **state)
{
    const struct dt_keeper_options wrong = {.timeout_ms = 50,
                                            .secret = "5ec7e8"};
    struct door door;
    (void)state;
    open_door(&door);
    pid_t seeker = start_seeker(&wrong, 1, -1);
    int status, rc;
    while ((rc = waitpid(seeker, &status, WNOHANG)) == 0)
        assert_int_equal(turn(&door, 10), -1);
    assert_int_equal(rc, seeker);
    assert_int_equal(WEXITSTATUS(status), EX_UNAVAILABLE);
    for (int i = 0; count_guests(&door) > 0 && i < 1000; i++)
        assert_int_equal(turn(&door, 10), -1);
    assert_int_equal(count_guests(&door), 0);
    dt_guests_close(&door.guests);
}

static void a_stranger_is_closed_by_garbage_or_by_time(void **state)
{
    struct door door;
    (void)state;
    open_door(&door);
    int loud = connect_stranger(&door), silent = connect_stranger(&door);
    char garbage[4096];
    memset(garbage, 'x', sizeof(garbage));
    assert_true(write(loud, garbage, sizeof(garbage)) > 0);
    while (!is_closed(loud))
        assert_int_equal(turn(&door, 10), -1);
    while (count_guests(&door) < 1)
        assert_int_equal(turn(&door, 10), -1);
    assert_false(is_closed(silent));
    turned_s = 4;
    assert_int_equal(turn(&door, 0), -1);
    assert_int_equal(count_guests(&door), 1);
    turned_s = 6;
    assert_int_equal(turn(&door, 0), -1);
    turned_s = 0;
    assert_int_equal(count_guests(&door), 0);
    assert_true(is_closed(silent));
    close(loud);
    close(silent);
    dt_guests_close(&door.guests);
}

static void a_flood_of_strangers_keeps_no_keeper_away(void **state)
{
    static int strangers[DT_GUESTS + 20];
    const int count = (int)(sizeof(strangers) / sizeof(*strangers));
    struct door door;
    struct dt_error err;
    (void)state;
    assert_int_equal(dt_limits_open_files(3 * DT_GUESTS, &err), 0);
    open_door(&door);
    for (int i = 0; i < count; i++) {
        strangers[i] = connect_stranger(&door);
        for (int k = 0; count_guests(&door) < i + 1 && k < 20; k++)
            assert_int_equal(turn(&door, 1), -1);
    }
    assert_int_equal(count_guests(&door), DT_GUESTS);
    assert_true(is_closed(strangers[0]) && is_closed(strangers[19]));
    assert_false(is_closed(strangers[20]) || is_closed(strangers[count - 1]));
    pid_t seeker = start_seeker(&options, 2, -1);
    assert_int_equal(await_keeper(&door), 2);
    assert_int_equal(end_of(seeker), 0);
    for (int i = 0; i < count; i++)
        close(strangers[i]);
    dt_guests_close(&door.guests);
}

static void a_leader_that_is_late_is_reached(void **state)
{
    struct door door;
    struct dt_error err;
    (void)state;
    open_door(&door);
    dt_guests_close(&door.guests);
    pid_t seeker = start_seeker(&options, 3, -1);
    dt_clock_sleep(0.1); /* refused meanwhile */
    int listener = dt_guests_listen(&door.port, &err);
    assert_true(listener >= 0);
    dt_guests_open(&door.guests, &door.token, 0, SIZE, listener);
    assert_int_equal(await_keeper(&door), 3);
    assert_int_equal(end_of(seeker), 0);
    /* the port has one leader */
    assert_int_equal(dt_guests_listen(&door.port, &err), -1);
    char want[256];
    snprintf(want, sizeof(want),
             "keeper: cannot listen at MASTER_PORT %u: Address already in use; "
             "set launch.master_port, or launch.keeper: off",
             door.port);
    assert_string_equal(err.text, want);
    dt_guests_close(&door.guests);
}

static void who_seeks_ends_at_its_deadline_or_by_a_signal(void **state)
{
    const struct dt_keeper_options hasty = {.timeout_ms = 20, .secret = "s"};
    struct dt_error err;
    char port[16], want[256];
    sigset_t set, before;
    (void)state;
    snprintf(port, sizeof(port), "%u", free_port());
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", port, 1);
    assert_int_equal(dt_reach_leader(&hasty, 1, SIZE, -1, &err), -1);
    assert_int_equal(err.status, EX_UNAVAILABLE);
    snprintf(want, sizeof(want),
             "keeper: task 1 cannot reach that of task 0 at 127.0.0.1:%s "
             "within 20 ms: Connection refused",
             port);
    assert_string_equal(err.text, want);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, &before);
    int signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(dt_reach_leader(&options, 1, SIZE, signals, &err), -1);
    assert_int_equal(err.status, EX_TEMPFAIL);
    assert_string_equal(err.text, "stopped by a signal before the first step");
    struct signalfd_siginfo info;
    assert_int_equal(read(signals, &info, sizeof(info)), sizeof(info));
    close(signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* Whether nothing answers at that port of this host, nor at any other. */
static bool is_silent(unsigned port)
{
    struct dt_wire_row row = {.hello = {.port = port}};
    snprintf(row.address, sizeof(row.address), "%s", HOST);
    return dt_host_is_silent(&row);
}

/* A queue that is full, as that of a stopped process. */
struct queue {
    int listener, waiting[QUEUED];
};

static void fill(struct queue *queue, unsigned *port)
{
    union dt_net_address at;
    enum dt_answer answer;
    dt_net_parse(&at, HOST, *port);
    queue->listener = dt_net_listen(&at, port, NULL);
    assert_true(queue->listener >= 0);
    assert_int_equal(listen(queue->listener, 0), 0);
    for (int i = 0; i < QUEUED; i++)
        queue->waiting[i] = dt_answer_ask(&at, *port, &answer);
}

static void empty(struct queue *queue)
{
    for (int i = 0; i < QUEUED; i++)
        if (queue->waiting[i] >= 0)
            close(queue->waiting[i]);
    close(queue->listener);
}

static void a_host_is_lost_when_its_kernel_does_not_answer(void **state)
{
    union dt_net_address at;
    unsigned port = 0, discard = DT_ANSWER_PORT;
    struct queue stopped, nobody;
    (void)state;
    dt_net_parse(&at, HOST, 0);
    int listener = dt_net_listen(&at, &port, NULL);
    assert_true(listener >= 0);
    assert_false(is_silent(port)); /* a keeper is there */
    close(listener);
    assert_false(is_silent(port)); /* or was */
    fill(&stopped, &port);
    assert_false(is_silent(port)); /* or is stopped */
    if (geteuid() == 0) {
        fill(&nobody, &discard);
        assert_true(is_silent(port));
        empty(&nobody);
    }
    empty(&stopped);
    /* one whose address nobody knows is left to Slurm */
    const struct dt_wire_row none = {.address = ""};
    assert_false(dt_host_is_silent(&none));
    /* a broadcast is refused before a packet is sent, which says nothing */
    const struct dt_wire_row all = {.hello = {.port = 1},
                                    .address = "255.255.255.255"};
    assert_false(dt_host_is_silent(&all));
}

static void a_port_is_open_refused_or_silent(void **state)
{
    union dt_net_address at;
    unsigned port = 0;
    struct queue stopped;
    (void)state;
    dt_net_parse(&at, HOST, 0);
    int listener = dt_net_listen(&at, &port, NULL);
    assert_true(listener >= 0);
    assert_int_equal(dt_host_ask(HOST, port), DT_ANSWER_OPEN);
    close(listener);
    assert_int_equal(dt_host_ask(HOST, port), DT_ANSWER_REFUSED);
    fill(&stopped, &port);
    assert_int_equal(dt_host_ask(HOST, port), DT_ANSWER_SILENCE);
    empty(&stopped);
    assert_int_equal(dt_host_ask("", port), DT_ANSWER_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keepers_come_in_any_order),
        cmocka_unit_test(who_does_not_know_the_secret_is_no_keeper),
        cmocka_unit_test(a_stranger_is_closed_by_garbage_or_by_time),
        cmocka_unit_test(a_flood_of_strangers_keeps_no_keeper_away),
        cmocka_unit_test(a_leader_that_is_late_is_reached),
        cmocka_unit_test(who_seeks_ends_at_its_deadline_or_by_a_signal),
        cmocka_unit_test(a_host_is_lost_when_its_kernel_does_not_answer),
        cmocka_unit_test(a_port_is_open_refused_or_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
