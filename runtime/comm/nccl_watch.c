/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_watch.c - waiting for NCCL, and finding out for whom it waits */
#include "config.h"

#include "base/clock.h"
#include "comm/nccl_lane.h"

enum {
    LOOK_MS = 50,   /* how often a waiting rank looks at all the others */
    SAY_MS = 1000,  /* after so long it says where it waits */
    HEAR_MS = 1000, /* for the watch to hear what NCCL knows already */
    ABORT_MS = 500, /* for NCCL to let go of the card */
    SPIN_US = 200,  /* most calls are through by then */
};

int dt_lane_cuda(cudaError_t rc, const char *call, struct dt_error *err)
{
    if (rc == cudaSuccess)
        return 0;
    return dt_error_set(err, EX_OSERR, "%s: %s", call, cudaGetErrorString(rc));
}

static struct dt_lane_slot *slot_of(struct dt_lane *l, uint64_t n)
{
    return &l->slots[n % DT_LANE_SLOTS];
}

int dt_lane_fail(struct dt_lane *l, struct dt_error *err)
{
    bool inside = l->finished < l->started || l->settling;
    /* before anybody hears of it: the caller may end the process at once */
    if (l->joined)
        dt_peers_leave(&l->peers, err);
    l->joined = false;
    if (inside)
        dt_error_prefix(err, "%s", slot_of(l, l->finished + 1)->what);
    dt_error_prefix(err, "comm/nccl");
    l->failed = true;
    l->failure = *err;
    l->stuck = !dt_nccl_destroy(l->nccl, false, ABORT_MS);
    l->nccl = NULL;
    return -1;
}

/* 1: the event has been passed, 0: not yet. */
static int passed(cudaEvent_t event, struct dt_error *err)
{
    cudaError_t rc = cudaEventQuery(event);
    if (rc == cudaErrorNotReady)
        return 0;
    return dt_lane_cuda(rc, "cudaEventQuery", err) < 0 ? -1 : 1;
}

/* Counts what has been done, and since when the next one could be. */
static int advance(struct dt_lane *l, struct dt_error *err)
{
    int rc;
    while (l->finished < l->started) {
        rc = passed(slot_of(l, l->finished + 1)->done, err);
        if (rc < 0)
            return -1;
        if (rc == 0)
            break;
        l->finished++;
        l->since = 0;
    }
    if (l->since > 0)
        return 0;
    rc = l->settling;
    if (l->finished < l->started)
        rc = passed(slot_of(l, l->finished + 1)->ready, err);
    if (rc == 1)
        l->since = dt_clock_now();
    return rc < 0 ? -1 : 0;
}

/* Has somebody left who would have to take part in operation `place`? */
static int look_for_left(struct dt_lane *l, uint64_t place,
                         struct dt_error *err)
{
    const struct dt_peers *p = &l->peers;
    for (int r = 0; r < p->size; r++)
        if (p->left[r] && p->others[r].started < place)
            return dt_peers_about(p, r, err,
                                  " has left in order: it started fewer "
                                  "operations than this rank");
    return 0;
}

/* Does the oldest unfinished operation take too long? */
static int look_at_clock(struct dt_lane *l, double now, struct dt_error *err)
{
    uint64_t place = l->finished + 1;
    const char *what = slot_of(l, place)->what;
    double waited_ms = (now - l->since) * 1000;
    int timeout_ms = l->peers.timeout_ms;
    int say_ms = timeout_ms / 4 < SAY_MS ? timeout_ms / 4 : SAY_MS;
    bool others = dt_roll_hear(&l->roll, place);
    if (l->since == 0)
        return 0;
    if (look_for_left(l, place, err) < 0)
        return -1;
    if (others || waited_ms >= say_ms)
        dt_roll_say(&l->roll, place, what);
    if (waited_ms >= timeout_ms)
        return dt_roll_missing(&l->roll, place, what, timeout_ms, err);
    return 0;
}

/* NCCL has failed, with the words in err: because a rank is lost, in most
 * cases. Then err becomes what the watch knows.
 */
static int blame(struct dt_lane *l, struct dt_error *err)
{
    double deadline = dt_clock_now() + HEAR_MS / 1000.0;
    struct dt_error better;
    do {
        if (dt_peers_look(&l->peers, &better) < 0) {
            *err = better;
            break;
        }
        dt_clock_sleep(LOOK_MS / 1000.0);
    } while (dt_clock_now() < deadline);
    return -1;
}

static int look(struct dt_lane *l, struct dt_error *err)
{
    double now = dt_clock_now();
    if (advance(l, err) < 0)
        return -1;
    /* who waits for nobody learns of losses in its next operation */
    if (now < l->next_look || (l->finished == l->started && !l->settling))
        return 0;
    l->next_look = now + LOOK_MS / 1000.0;
    if (dt_nccl_state(l->nccl, err) < 0)
        return blame(l, err);
    if (dt_peers_look(&l->peers, err) < 0)
        return -1;
    return look_at_clock(l, now, err);
}

int dt_lane_watch(struct dt_lane *l, struct dt_error *err)
{
    if (!l->failed && look(l, err) == 0)
        return 0;
    if (!l->failed)
        return dt_lane_fail(l, err);
    *err = l->failure;
    return -1;
}

int dt_lane_settle(struct dt_lane *l, int rc, struct dt_error *err)
{
    double begun = dt_clock_now();
    rc = rc < 0 ? -1 : dt_nccl_state(l->nccl, err);
    while (rc == 0) {
        if (dt_lane_watch(l, err) < 0)
            return -1;
        if (dt_clock_now() - begun > SPIN_US * 1e-6)
            dt_clock_sleep(DT_LANE_PAUSE_US * 1e-6);
        rc = dt_nccl_state(l->nccl, err);
    }
    if (rc == 1)
        return 0;
    blame(l, err);
    return dt_lane_fail(l, err);
}

int dt_lane_finish(struct dt_lane *l, uint64_t n, struct dt_error *err)
{
    while (l->finished < n) {
        if (dt_lane_watch(l, err) < 0)
            return -1;
        dt_clock_sleep(DT_LANE_PAUSE_US * 1e-6);
    }
    return 0;
}

bool dt_lane_drain(struct dt_lane *l, int timeout_ms)
{
    double deadline = dt_clock_now() + timeout_ms / 1000.0;
    struct dt_error why;
    while (advance(l, &why) == 0) {
        if (l->finished == l->started)
            return true;
        if (dt_clock_now() >= deadline)
            break;
        dt_clock_sleep(DT_LANE_PAUSE_US * 1e-6);
    }
    return false;
}
