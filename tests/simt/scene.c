/* SPDX-License-Identifier: Apache-2.0 */
/* scene.c - ranks in processes, with the backend of the emulation */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "base/clock.h"
#include "scene.h"

static struct seen *seen_create(void)
{
    struct seen *seen =
        mmap(NULL, WORLD_MAX * sizeof(*seen), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(seen != MAP_FAILED);
    return seen;
}

int reduce(struct rank *r, size_t count)
{
    struct dt_error *err = r->seen->rc < 0 ? &r->seen->later : &r->seen->first;
    struct dt_buffer *buf =
        dt_buffer_create(r->device, count * 4, "a test", err);
    double begun = dt_clock_now();
    dt_ticket_t ticket;
    int rc = dt_comm_all_reduce(r->comm, dt_view_of(buf, DT_F32), DT_SUM,
                                DT_F32, &ticket, err);
    if (rc == 0)
        rc = dt_comm_wait(r->comm, ticket, err);
    if (rc == 0)
        rc = r->device->event_record(r->event, r->stream, err);
    if (rc == 0)
        rc = dt_comm_wait_event(r->comm, r->device, r->event, err);
    if (rc == 0)
        dt_buffer_destroy(buf);
    else if (r->seen->rc == 0) {
        r->seen->rc = rc;
        r->seen->failed_after = dt_clock_now() - begun;
    }
    return rc;
}

static int rank_main(const struct dt_comm_world *world, void *arg)
{
    const struct scene *scene = arg;
    const struct dt_backend_options backend_options = {.local_rank = 0};
    struct dt_comm_options options = {.interface = "lo",
                                      .timeout_ms = scene->timeout_ms};
    struct seen *seen = &scene->seen[world->rank];
    struct rank r = {.seen = seen, .all = scene->seen, .odd = scene->odd};
    const struct dt_backend *backend;
    double begun;
    signal(SIGPIPE, SIG_IGN); /* as disttrain train does */
    if (scene->prepare)
        scene->prepare(world->rank);
    backend = dt_backend_open("cuda", &backend_options, NULL, 0, &seen->first);
    if (!backend) {
        fprintf(stderr, "# %s\n", seen->first.text);
        return EX_SOFTWARE;
    }
    r.device = backend->device;
    if (r.device->stream_create(&r.stream, &seen->first) < 0 ||
        r.device->event_create(&r.event, &seen->first) < 0)
        return EX_SOFTWARE;
    options.stream = r.stream;
    begun = dt_clock_now();
    r.comm = dt_backend_connect(backend, world, &options, &seen->first);
    seen->connected = r.comm;
    seen->failed_after = dt_clock_now() - begun;
    if (!r.comm)
        return 0;
    if (scene->act)
        scene->act(&r);
    begun = dt_clock_now();
    if (seen->first.status == EX_IOERR && seen->rc == 0)
        dt_comm_abandon(r.comm, &seen->first);
    else
        dt_comm_destroy(r.comm);
    seen->destroy_took = dt_clock_now() - begun;
    return 0;
}

void play(struct scene *scene, int size, int killed)
{
    int statuses[WORLD_MAX];
    scene->seen = seen_create();
    world_processes(size, rank_main, scene, statuses);
    for (int r = 0; r < size; r++)
        assert_int_equal(statuses[r], r == killed ? SIGKILL : 0);
}

void assert_text(const struct dt_error *err, const char *text)
{
    if (!strstr(err->text, text))
        fail_msg("expected \"%s\", got \"%s\"", text, err->text);
}

void assert_seen(const struct seen *seen, const char *text)
{
    assert_int_equal(seen->rc, -1);
    assert_text(&seen->first, text);
    assert_int_equal(seen->first.status, EX_UNAVAILABLE);
    assert_true(seen->failed_after < IN_TIME);
    assert_true(seen->destroy_took < IN_TIME);
}
