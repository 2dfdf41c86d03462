/* SPDX-License-Identifier: Apache-2.0 */
/* scene.c - ranks that act, and the memory in which they note what they see */
#include "config.h"

#include <setjmp.h>
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

int reduce(struct actor *a, size_t count)
{
    struct rank *r = &a->rank;
    struct dt_error *err = a->seen->rc < 0 ? &a->seen->later : &a->seen->first;
    struct dt_buffer *buf =
        dt_buffer_create(r->device, count * 4, "a test", err);
    double begun = dt_clock_now();
    dt_ticket_t ticket;
    int rc = dt_comm_all_reduce(r->comm, dt_view_of(buf, DT_F32), DT_SUM,
                                DT_F32, &ticket, err);
    if (rc == 0)
        rc = dt_comm_wait(r->comm, ticket, err);
    if (rc == 0)
        rc = rank_finish(r, err);
    if (rc < 0 && a->seen->rc == 0) {
        a->seen->rc = rc;
        a->seen->failed_after = dt_clock_now() - begun;
    }
    if (rc == 0 || r->device->is_host) /* a GPU may still be at work in it */
        dt_buffer_destroy(buf);
    return rc;
}

void act_hung(struct actor *a)
{
    reduce(a, 100);
    for (int i = 0; a->rank.rank == a->odd && i < a->rank.size; i++)
        while (i != a->odd && *(volatile int *)&a->all[i].rc == 0)
            dt_clock_sleep(0.05);
    reduce(a, 100);
}

void act_abandon(struct actor *a)
{
    if (reduce(a, 4) < 0)
        return;
    if (a->rank.rank == 0)
        dt_error_set(&a->seen->first, EX_IOERR, "disk full");
    else
        reduce(a, 4);
}

static int rank_main(const struct dt_comm_world *world, void *arg)
{
    const struct scene *scene = arg;
    struct seen *seen = &scene->seen[world->rank];
    struct actor a = {.seen = seen, .all = scene->seen, .odd = scene->odd};
    double begun = dt_clock_now();
    if (scene->prepare)
        scene->prepare(world->rank);
    seen->connected =
        rank_open(&a.rank, world, scene->timeout_ms, &seen->first) == 0;
    seen->failed_after = dt_clock_now() - begun;
    if (seen->connected && scene->act)
        scene->act(&a);
    begun = dt_clock_now();
    rank_close(&a.rank, seen->first.status == EX_IOERR && seen->rc == 0
                            ? &seen->first
                            : NULL);
    seen->destroy_took = dt_clock_now() - begun;
    dt_buffer_destroy(a.pending);
    return 0;
}

void play(struct scene *scene, int size, int killed)
{
    scene->seen = seen_create();
    ranks_run(size, rank_main, scene, killed);
}

void assert_text(const struct dt_error *err, const char *text)
{
    if (!strstr(err->text, text))
        fail_msg("expected \"%s\", got \"%s\"", text, err->text);
}

void assert_seen(const struct seen *seen, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof(whole), "comm/%s: %s", hardware()->backend, text);
    assert_int_equal(seen->rc, -1);
    assert_text(&seen->first, whole);
    assert_int_equal(seen->first.status, EX_UNAVAILABLE);
    assert_true(seen->failed_after < IN_TIME);
    assert_true(seen->destroy_took < IN_TIME);
}
