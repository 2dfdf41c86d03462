/* SPDX-License-Identifier: Apache-2.0 */
/* test_strangers.c - ranks connect while others connect to their ports, too */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "comm/peers.h"
#include "comm/rendezvous.h"
#include "../unit/world.h"

enum {
    RANKS = 3,
    STALLED = 400, /* more than may be half open at once */
    NOBODY = 65534,
};

/* Between the ranks, and the strangers in a process of another user. */
static struct shared {
    union dt_net_address ports[RANKS]; /* as the ranks offer them */
    atomic_int places, offered, came, tell_end;
} * shared;

static int connect_to(const union dt_net_address *at)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, &at->any, sizeof(at->v4)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void say(int fd, const void *words, size_t bytes)
{
    if (fd >= 0 && send(fd, words, bytes, MSG_NOSIGNAL) < 0)
        return; /* it was closed */
}

/* Comes first to each port, says nothing or half of something, says what gloo
 * would take for a rank, and floods them until the end.
 */
static void be_strangers(void)
{
    uint8_t words[4096] = "dtrank1";
    static const size_t kinds[] = {0, 20, 32};
    int fd[STALLED];
    memset(words + 8, 0xff, sizeof(words) - 8);
    if (getuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
        return;
    while (shared->offered < RANKS)
        dt_clock_sleep(0.001);
    for (int i = 0; i < STALLED; i++) {
        fd[i] = connect_to(&shared->ports[i % RANKS]);
        say(fd[i], words, kinds[i / RANKS % 3]);
    }
    shared->came = 1;
    while (!shared->tell_end)
        for (int r = 0; r < RANKS; r++) {
            int more = connect_to(&shared->ports[r]);
            say(more, words, sizeof(words));
            if (more >= 0)
                close(more);
        }
}

static int (*world_put)(void *ctx, const char *key, const void *data,
                        size_t bytes, struct dt_error *err);
static int (*world_fence)(void *ctx, int timeout_ms, struct dt_error *err);

static int put_and_tell(void *ctx, const char *key, const void *data,
                        size_t bytes, struct dt_error *err)
{
    if (!strcmp(key, "dt.comm.address")) {
        memcpy(&shared->ports[shared->places++], data, bytes);
        shared->offered++;
    }
    return world_put(ctx, key, data, bytes, err);
}

static int fence_behind_strangers(void *ctx, int timeout_ms,
                                  struct dt_error *err)
{
    int rc = world_fence(ctx, timeout_ms, err);
    while (!shared->came)
        dt_clock_sleep(0.001);
    return rc;
}

static atomic_int lines;

static void count_line(const char *line)
{
    if (strstr(line, "closed a connection from 127.0.0.1 port ") == line ||
        strstr(line, " more connections of strangers until all ranks were "
                     "connected"))
        lines++;
}

static int add_up(const struct dt_comm_world *world, void *arg)
{
    const struct dt_comm_options options = {
        .interface = "lo", .timeout_ms = 60000, .warn = count_line};
    struct dt_comm_world own = *world;
    struct dt_error *err = &((struct dt_error *)arg)[world->rank];
    double sum = world->rank;
    own.put = put_and_tell;
    own.fence = fence_behind_strangers;
    struct dt_comm *comm = dt_comm_create("gloo", &own, &options, err);
    int rc = comm ? dt_comm_reduce_scalars(comm, &sum, 1, DT_SUM, err) : -1;
    dt_comm_destroy(comm);
    return rc == 0 && sum == RANKS * (RANKS - 1) / 2. ? 0 : -1;
}

static int learn_functions(const struct dt_comm_world *world, void *arg)
{
    (void)arg;
    world_put = world->put;
    world_fence = world->fence;
    return 0;
}

static void strangers_neither_take_the_place_of_ranks_nor_delay_them(
    void **state)
{
    struct dt_error errs[RANKS] = {{.text = ""}};
    (void)state;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    world_threads(1, learn_functions, NULL);
    pid_t strangers = fork();
    if (strangers == 0) {
        be_strangers();
        _exit(0);
    }
    lines = 0;
    world_threads(RANKS, add_up, errs);
    shared->tell_end = 1;
    waitpid(strangers, NULL, 0);
    assert_int_equal(lines, 2 * RANKS);
    munmap(shared, sizeof(*shared));
}

/* A rank connects while so many are half open that the oldest have to go. */
static void a_rank_gets_through_a_full_house(void **state)
{
    const struct dt_token token = {{1}};
    const struct dt_reach who = {.token = &token, .size = 2, .peer = 1};
    const struct dt_rendezvous_options options = {.token = &token,
                                                  .rank = 1,
                                                  .size = 2,
                                                  .keep = true,
                                                  .warn = count_line};
    union dt_net_address at;
    struct dt_error err;
    int fd[STALLED];
    (void)state;
    lines = 0;
    dt_net_parse(&at, "127.0.0.1", 0);
    struct dt_rendezvous *r = dt_rendezvous_listen(&at, &err);
    assert_non_null(r);
    at.v4.sin_port = htons((in_port_t)dt_rendezvous_port(r));
    assert_int_equal(dt_rendezvous_start(r, &options, &err), 0);
    for (int i = 0; i < STALLED; i++)
        fd[i] = connect_to(&at);
    int own = dt_reach_peer(&who, &at, 60000, &err);
    assert_true(own >= 0);
    int theirs = dt_rendezvous_take(r, 0, 60000, &err);
    assert_true(theirs >= 0);
    assert_int_equal(dt_rendezvous_take(r, 0, 1, &err), -1);
    assert_string_equal(err.text, "it has not connected within 1 ms");
    for (int i = 0; i < STALLED; i++)
        close(fd[i]);
    close(own);
    close(theirs);
    dt_rendezvous_close(r);
    assert_int_equal(lines, 2); /* the first, and how many more */
}

/* It does where it is made, but nobody has been heard there. */
static void gloo_itself_listens_to_nobody(void **state)
{
    struct dt_error err;
    int listening = 0;
    (void)state;
    struct dt_transport *transport = dt_transport_create(0, 2, 15000, &err);
    assert_non_null(transport);
    for (int fd = 0; fd < 1024; fd++) {
        union dt_net_address own;
        socklen_t bytes = sizeof(own), flag_bytes = sizeof(int);
        int listens = 0;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag_bytes) ==
                0 &&
            listens && getsockname(fd, &own.any, &bytes) == 0)
            listening += own.any.sa_family != AF_UNIX;
    }
    assert_int_equal(listening, 0);
    dt_transport_close(transport);
    dt_transport_destroy(transport);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            strangers_neither_take_the_place_of_ranks_nor_delay_them),
        cmocka_unit_test(a_rank_gets_through_a_full_house),
        cmocka_unit_test(gloo_itself_listens_to_nobody),
    };
    return cmocka_run_group_tests_name("strangers", tests, NULL, NULL);
}
