/* SPDX-License-Identifier: Apache-2.0 */
/* rank.c - the kinds of hardware, and a rank on one of them */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rank.h"

static const struct hardware cpu = {
    .device = "cpu",
    .backend = "gloo",
#ifdef HAVE_GLOO
    .most_ranks = 4,
#else
    .most_ranks = 1,
#endif
    .large = true,
    .threads = true,
    .own_sums = true,
};

static const struct hardware cuda = {
    .device = "cuda",
    .backend = "nccl",
    .most_ranks = 4,
    .compares = true,
    .stages = true,
};

/* Asked for each element, so it is found only once. */
const struct hardware *hardware(void)
{
    static const struct hardware *_Atomic found;
    if (!found) {
        const char *name = getenv("DT_TEST_DEVICE");
        found = name && strcmp(name, "cuda") == 0 ? &cuda : &cpu;
    }
    return found;
}

void ranks_run(int size, world_rank_f f, void *arg, int killed)
{
    int statuses[WORLD_MAX];
    if (hardware()->threads && killed < 0) {
        world_threads(size, f, arg);
        return;
    }
    world_processes(size, f, arg, statuses);
    for (int r = 0; r < size; r++)
        assert_int_equal(statuses[r], r == killed ? SIGKILL : 0);
}

static void prepare_process(int rank)
{
    char host[16];
    signal(SIGPIPE, SIG_IGN); /* as disttrain train does */
    /* NCCL takes one GPU for several if they seem to be on several hosts */
    snprintf(host, sizeof(host), "h%d", rank);
    setenv("NCCL_HOSTID", host, 0);
}

int rank_open(struct rank *r, const struct dt_comm_world *world, int timeout_ms,
              struct dt_error *err)
{
    const struct dt_backend_options gpu = {.local_rank = world->rank};
    struct dt_comm_options options = {.interface = "lo",
                                      .timeout_ms = timeout_ms};
    if (!hardware()->threads)
        prepare_process(world->rank);
    const struct dt_backend *backend =
        dt_backend_open(hardware()->device, &gpu, NULL, 0, err);
    if (!backend)
        return -1;
    r->device = backend->device;
    r->rank = world->rank;
    r->size = world->size;
    if (r->device->stream_create(&r->stream, err) < 0 ||
        r->device->event_create(&r->event, err) < 0)
        return -1;
    options.stream = r->stream;
    r->comm = dt_backend_connect(backend, world, &options, err);
    return r->comm ? 0 : -1;
}

void rank_close(struct rank *r, const struct dt_error *why)
{
    if (why)
        dt_comm_abandon(r->comm, why);
    else
        dt_comm_destroy(r->comm);
    if (!r->device)
        return;
    r->device->event_destroy(r->event);
    r->device->stream_destroy(r->stream);
}

int rank_finish(struct rank *r, struct dt_error *err)
{
    if (r->device->event_record(r->event, r->stream, err) < 0)
        return -1;
    return dt_comm_wait_event(r->comm, r->device, r->event, err);
}
