/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lost_bits.c - finds ranks whose bits differ from their replicas
 *
 * Ranks hash their replicas (parallel/replicas.h) and exchange one number for
 * each engine. Only if these differ do they exchange all hashes.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parallel/replicas.h"
#include "run/exchange.h"
#include "train/watch/watch_impl.h"

enum {
    ENGINES = 5, /* trained and frozen weights of two learners, a reference */
    NUMBERS = 3, /* of an engine: its set, and halves of a hash */
    NAMED = 3,   /* ranks in a message */
};

struct dt_replicas {
    struct engine {
        struct dt_parallel *parallel;
        const char *whose;
    } engines[ENGINES];
    size_t engine_count;
    size_t count;          /* hashes of all engines */
    struct dt_buffer *buf; /* (count) I64 */
    uint64_t *hashes;      /* (count) the same in host memory */
    struct dt_event *done; /* they were computed */
};

/* --- the hashes of this rank --- */

static void add_engine(struct dt_replicas *r, struct dt_parallel *parallel,
                       const char *whose)
{
    if (!parallel)
        return;
    r->engines[r->engine_count++] = (struct engine){parallel, whose};
    r->count += dt_parallel_replicas(parallel);
}

int dt_replicas_begin(struct dt_run *run, struct dt_error *err)
{
    const struct dt_device *device = run->spec.exec.device;
    if (run->spec.world == 1 || run->spec.conf.distributed.check_replicas == 0)
        return 0;
    struct dt_replicas *r = run->same = calloc(1, sizeof(*r));
    if (!r)
        return dt_error_set(err, EX_OSERR, "out of memory");
    add_engine(r, run->learner.parallel, "");
    add_engine(r, run->learner.frozen, "frozen ");
    add_engine(r, run->critic.parallel, "the critic's ");
    add_engine(r, run->critic.frozen, "the critic's frozen ");
    add_engine(r, run->reference.parallel, "the reference's ");
    r->hashes = calloc(r->count, sizeof(*r->hashes));
    if (!r->hashes)
        return dt_error_set(err, EX_OSERR, "out of memory");
    r->buf = dt_buffer_create(device, r->count * sizeof(*r->hashes),
                              "hashes of replicas", err);
    return r->buf ? device->event_create(&r->done, err) : -1;
}

void dt_replicas_end(struct dt_run *run)
{
    struct dt_replicas *r = run->same;
    if (!r)
        return;
    if (r->done)
        run->spec.exec.device->event_destroy(r->done);
    dt_buffer_destroy(r->buf);
    free(r->hashes);
    free(r);
}

/* Fills r->hashes. The wait for the device is one for peers, too. */
static int hash_here(struct dt_run *run, struct dt_error *err)
{
    struct dt_replicas *r = run->same;
    const struct dt_exec *exec = &run->spec.exec;
    const struct dt_view sums = dt_view_of(r->buf, DT_I64);
    size_t at = 0;
    exec->ops->zero(exec->stream, sums);
    for (size_t e = 0; e < r->engine_count; e++) {
        struct dt_parallel *parallel = r->engines[e].parallel;
        const size_t count = dt_parallel_replicas(parallel);
        if (dt_parallel_hash(parallel, dt_view_slice(sums, at, count), err) < 0)
            return -1;
        at += count;
    }
    if (exec->device->event_record(r->done, exec->stream, err) < 0 ||
        dt_comm_wait_event(run->comm, exec->device, r->done, err) < 0 ||
        exec->device->copy(exec->stream, r->hashes, dt_view_data(sums),
                           dt_view_bytes(sums), err) < 0)
        return -1;
    return exec->device->stream_wait(exec->stream, err);
}

/* --- who differs --- */

size_t dt_replicas_vote(const uint64_t *values, const int *sets, size_t world,
                        bool *odd)
{
    size_t count = 0;
    for (size_t r = 0; r < world; r++) {
        size_t members = 0, same = 0;
        for (size_t s = 0; s < world; s++) {
            members += sets[s] == sets[r];
            same += sets[s] == sets[r] && values[s] == values[r];
        }
        odd[r] = 2 * same <= members && members > 1;
        count += odd[r];
    }
    return count;
}

/* A 64-bit number as two that a double holds, and back. */
static void put_hash(double *to, uint64_t hash)
{
    to[0] = (double)(hash >> 32);
    to[1] = (double)(hash & UINT32_MAX);
}

static uint64_t get_hash(const double *from)
{
    return (uint64_t)from[0] << 32 | (uint64_t)from[1];
}

/* The numbers of all ranks, and the judgment. */
struct ballot {
    size_t world, count;  /* ranks; hashes of each */
    double *mine, *all;   /* (count) and (world, count) of NUMBERS */
    uint64_t *values;     /* (world) of one hash */
    int *sets;            /* (world) */
    bool *odd;            /* (world) */
    size_t *odds, *first; /* (world) hashes that differ; the first of them */
    bool undecided;       /* in some set no value has a majority */
};

static int ballot_init(struct ballot *b, size_t world, size_t count,
                       struct dt_error *err)
{
    *b = (struct ballot){
        .world = world,
        .count = count,
        .mine = calloc(count * NUMBERS, sizeof(*b->mine)),
        .all = calloc(world * count * NUMBERS, sizeof(*b->all)),
        .values = calloc(world, sizeof(*b->values)),
        .sets = calloc(world, sizeof(*b->sets)),
        .odd = calloc(world, sizeof(*b->odd)),
        .odds = calloc(world, sizeof(*b->odds)),
        .first = calloc(world, sizeof(*b->first)),
    };
    return b->mine && b->all && b->values && b->sets && b->odd && b->odds &&
                   b->first
               ? 0
               : dt_error_set(err, EX_OSERR, "out of memory");
}

static void ballot_fini(struct ballot *b)
{
    free(b->mine);
    free(b->all);
    free(b->values);
    free(b->sets);
    free(b->odd);
    free(b->odds);
    free(b->first);
}

static void set_mine(struct ballot *b, size_t i, int set, uint64_t hash)
{
    b->mine[i * NUMBERS] = set;
    put_hash(b->mine + i * NUMBERS + 1, hash);
}

/* Whether all members of the set of rank r are odd. */
static bool is_tie(const struct ballot *b, size_t r)
{
    for (size_t s = 0; s < b->world; s++)
        if (b->sets[s] == b->sets[r] && !b->odd[s])
            return false;
    return true;
}

/* Counts, for each rank, the hashes in which it differs. Returns whether any
 * rank does in any.
 */
static bool judge(struct ballot *b)
{
    bool any = false;
    for (size_t i = 0; i < b->count; i++) {
        for (size_t r = 0; r < b->world; r++) {
            const double *from = b->all + (r * b->count + i) * NUMBERS;
            b->sets[r] = (int)from[0];
            b->values[r] = get_hash(from + 1);
        }
        if (dt_replicas_vote(b->values, b->sets, b->world, b->odd) == 0)
            continue;
        any = true;
        for (size_t r = 0; r < b->world; r++) {
            if (!b->odd[r])
                continue;
            if (b->odds[r]++ == 0)
                b->first[r] = i;
            b->undecided |= is_tie(b, r);
        }
    }
    return any;
}

/* Fills the numbers of this rank: one of each engine, or all hashes. */
static void fill(const struct dt_replicas *r, struct ballot *b, bool all)
{
    size_t at = 0;
    for (size_t e = 0; e < r->engine_count; e++) {
        const struct dt_parallel *parallel = r->engines[e].parallel;
        const int set = dt_parallel_replica_set(parallel);
        uint64_t digest = 0;
        for (size_t n = dt_parallel_replicas(parallel); n > 0; n--, at++) {
            digest = digest * UINT64_C(0x9e3779b97f4a7c15) + r->hashes[at];
            if (all)
                set_mine(b, at, set, r->hashes[at]);
        }
        if (!all)
            set_mine(b, e, set, digest);
    }
}

/* --- the message --- */

/* "frozen weights from h.0.ln_1.weight on, and 2 more" */
static void name_hashes(const struct dt_replicas *r, const struct ballot *b,
                        size_t rank, char *text, size_t bytes)
{
    char name[192], more[40] = "";
    size_t e = 0, i = b->first[rank];
    while (i >= dt_parallel_replicas(r->engines[e].parallel))
        i -= dt_parallel_replicas(r->engines[e++].parallel);
    if (b->odds[rank] > 1)
        snprintf(more, sizeof(more), ", and %zu more", b->odds[rank] - 1);
    snprintf(
        text, bytes, "%s%s%s", r->engines[e].whose,
        dt_parallel_replica_name(r->engines[e].parallel, i, name, sizeof(name)),
        more);
}

/* Writes who differs to err; returns the lowest of these ranks. */
static int describe(const struct dt_run *run, const struct ballot *b, long step,
                    struct dt_error *err)
{
    int lowest = -1, named = 0;
    dt_error_set(err, EX_OSERR,
                 "step %ld: ranks hold different bits of what should be equal",
                 step);
    for (size_t r = 0; r < b->world; r++) {
        char text[256];
        if (b->odds[r] == 0)
            continue;
        if (lowest < 0)
            lowest = (int)r;
        name_hashes(run->same, b, r, text, sizeof(text));
        if (named++ < NAMED)
            dt_error_add(err, EX_OSERR, "rank %zu on %s: %s", r,
                         dt_comm_host(run->comm, (int)r), text);
    }
    if (named > NAMED)
        dt_error_add(err, EX_OSERR, "and %d more ranks", named - NAMED);
    dt_error_add(err, EX_OSERR, "%s",
                 b->undecided ? "too few replicas tell which of them is wrong"
                              : "most replicas agree with each other");
    dt_error_add(err, EX_OSERR,
                 "test that node's memory and processors, and leave it out "
                 "(srun --exclude); the newest checkpoint is good, as replicas "
                 "were equal when it was saved");
    return lowest;
}

static void note(const struct dt_run *run, int rank, const char *text)
{
    dt_report_event(run->report, &(struct dt_report_event){
                                     .kind = "fault",
                                     .step = run->progress.step,
                                     .seconds = NAN,
                                     .bytes = NAN,
                                     .rank = rank,
                                     .host = dt_comm_host(run->comm, rank),
                                     .text = text});
}

/* Exchanges numbers of this rank and judges them: 1: some differ. -1: a peer
 * failed.
 */
static int ask(struct dt_run *run, bool all, struct ballot *b,
               struct dt_error *err)
{
    const struct dt_replicas *r = run->same;
    if (ballot_init(b, (size_t)run->spec.world,
                    all ? r->count : r->engine_count, err) < 0)
        return -1;
    fill(r, b, all);
    if (dt_gather(run->comm, b->mine, b->count * NUMBERS, b->all, err) < 0)
        return -1;
    return judge(b);
}

int dt_replicas_compare(struct dt_run *run, long step, int *rank,
                        struct dt_error *err)
{
    struct ballot ballot;
    if (hash_here(run, err) < 0)
        return -1;
    int differ = ask(run, false, &ballot, err);
    ballot_fini(&ballot);
    if (differ <= 0)
        return differ;
    differ = ask(run, true, &ballot, err);
    if (differ > 0)
        *rank = describe(run, &ballot, step, err);
    ballot_fini(&ballot);
    return differ;
}

int dt_replicas_check(struct dt_run *run, long step, struct dt_error *err)
{
    struct dt_error other;
    int rank, differ;
    if (!run->same ||
        (differ = dt_replicas_compare(run, step, &rank, err)) == 0)
        return 0;
    if (differ < 0)
        return -1;
    if (run->report)
        note(run, rank, err->text);
    /* the others fail by the words of that rank */
    if (rank != run->spec.rank && dt_comm_barrier(run->comm, &other) < 0)
        *err = other;
    return -1;
}

bool dt_replicas_due(const struct dt_run *run, long step)
{
    const long every = run->spec.conf.distributed.check_replicas;
    return run->same && step % every == 0;
}

int dt_replicas_spoil(struct dt_run *run, struct dt_error *err)
{
    const struct dt_replicas *r = run->same;
    for (size_t e = 0; r && e < r->engine_count; e++)
        if (dt_parallel_spoil(r->engines[e].parallel, err) < 0)
            return -1;
    return 0;
}
