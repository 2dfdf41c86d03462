/* SPDX-License-Identifier: Apache-2.0 */
/* reach.c - which addresses of another host answer */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "comm/reach.h"

struct dt_door {
    int listener;
    pthread_t thread;
};

static void *door_main(void *arg)
{
    const struct dt_door *door = arg;
    for (;;) {
        struct pollfd wait = {.fd = door->listener, .events = POLLIN};
        int fd = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            close(fd);
        else if (errno == EINVAL) /* it is shut down */
            return NULL;
        else if (errno == EAGAIN)
            poll(&wait, 1, -1);
        else
            dt_clock_sleep(0.01);
    }
}

struct dt_door *dt_door_open(unsigned *port, struct dt_error *err)
{
    struct dt_door *door = calloc(1, sizeof(*door));
    if (!door) {
        dt_error_set(err, EX_OSERR, "no memory");
        return NULL;
    }
    door->listener = dt_net_listen(NULL, port, err);
    int rc = door->listener < 0
                 ? -1
                 : dt_thread_start(&door->thread, NULL, door_main, door);
    if (rc == 0)
        return door;
    if (rc > 0)
        dt_error_set(err, EX_OSERR, "cannot start a thread: %s", strerror(rc));
    if (door->listener >= 0)
        close(door->listener);
    free(door);
    return NULL;
}

void dt_door_close(struct dt_door *door)
{
    if (!door)
        return;
    shutdown(door->listener, SHUT_RDWR);
    pthread_join(door->thread, NULL);
    close(door->listener);
    free(door);
}

/* A connection to one door. */
struct knock {
    int fd; /* -1: no longer waited for */
    int error;
    bool answered;
};

static void knock_end(struct knock *k, int error)
{
    k->error = error;
    if (k->fd >= 0)
        close(k->fd);
    k->fd = -1;
}

static void knock_begin(struct knock *k, const union dt_net_address *at)
{
    socklen_t bytes =
        at->any.sa_family == AF_INET6 ? sizeof(at->v6) : sizeof(at->v4);
    *k = (struct knock){.fd = socket(at->any.sa_family,
                                     SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                                     0)};
    if (k->fd < 0 ||
        (connect(k->fd, &at->any, bytes) != 0 && errno != EINPROGRESS))
        knock_end(k, errno);
}

static void knock_event(struct knock *k)
{
    int error = 0;
    socklen_t bytes = sizeof(error);
    getsockopt(k->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error)
        knock_end(k, error);
    else
        k->answered = true;
}

/* Waits for events of those that are before `end` and have none yet. */
static void await_knocks(struct knock *knocks, int end, int ms)
{
    struct pollfd polls[DT_REACH_DOORS];
    for (int i = 0; i < end; i++)
        polls[i] = (struct pollfd){.fd = knocks[i].answered ? -1 : knocks[i].fd,
                                   .events = POLLOUT};
    if (poll(polls, (nfds_t)end, ms) <= 0)
        return;
    for (int i = 0; i < end; i++)
        if (polls[i].revents)
            knock_event(&knocks[i]);
}

/* Returns the first that has answered, or `count`; *waits: may one before that
 * still answer?
 */
static int first_answer(const struct knock *knocks, int count, bool *waits)
{
    int i = 0;
    *waits = false;
    for (; i < count && !knocks[i].answered; i++)
        *waits |= knocks[i].fd >= 0;
    return i;
}

static int describe(const union dt_net_address *doors,
                    const struct knock *knocks, int count, int answer_ms,
                    struct dt_error *err)
{
    struct dt_error all = {.text = ""};
    char at[DT_NET_ADDRESS_BYTES];
    for (int i = 0; i < count; i++) {
        dt_net_print(&doors[i], at);
        if (knocks[i].fd >= 0)
            dt_error_add(&all, EX_UNAVAILABLE, "%s: no answer within %d ms", at,
                         answer_ms);
        else
            dt_error_add(&all, EX_UNAVAILABLE, "%s: %s", at,
                         strerror(knocks[i].error));
    }
    return dt_error_set(err, EX_UNAVAILABLE, "%s", all.text);
}

int dt_reach_first(const union dt_net_address *doors, int count,
                   const struct dt_reach_times *times,
                   union dt_net_address *source, struct dt_error *err)
{
    double deadline = dt_clock_now() + times->answer_ms / 1e3;
    struct knock knocks[DT_REACH_DOORS];
    socklen_t bytes = sizeof(*source);
    int found = count;
    bool waits;
    for (int i = 0; i < count; i++)
        knock_begin(&knocks[i], &doors[i]);
    for (;;) {
        int answer = first_answer(knocks, count, &waits);
        double left = deadline - dt_clock_now();
        if (answer < found) {
            found = answer;
            left =
                times->prefer_ms / 1e3 < left ? times->prefer_ms / 1e3 : left;
            deadline = dt_clock_now() + left;
        }
        if (!waits || left <= 0)
            break;
        await_knocks(knocks, found, (int)(left * 1e3) + 1);
    }
    int rc = found;
    if (found == count)
        rc = describe(doors, knocks, count, times->answer_ms, err);
    else if (getsockname(knocks[found].fd, &source->any, &bytes) != 0)
        rc = dt_error_set(err, EX_OSERR, "getsockname: %s", strerror(errno));
    for (int i = 0; i < count; i++)
        knock_end(&knocks[i], 0);
    return rc;
}
