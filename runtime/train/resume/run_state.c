/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_state.c - ends the step in which processes of a run were killed
 *
 * Fault points: state.prepare, state.commit, state.settle, each after the
 * record is there; state.unsettled, before that; state.copy, where a rank has
 * the memory of another one without its record; state.forget, where memory is
 * marked as wrong; state.clear, where the ranks are about to clear it.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/inherited.h"
#include "base/log.h"
#include "parallel/replicas.h"
#include "run/exchange.h"
#include "run/reference/reference.h"
#include "sampling/sampling.h"
#include "segment/segment.h"
#include "train/resume/resume.h"
#include "train/resume/run_state.h"
#include "train/resume/settled.h"

/* What this memory is worth. */
enum content { EMPTY, WHOLE, WRONG };

struct record {
    uint64_t content;
    struct {
        uint64_t mark; /* 1 + its step; 0: not whole */
        struct dt_settled run;
    } settled[2]; /* step s is in s % 2 */

    uint64_t prepared; /* the step of the following; 0: not whole */
    struct dt_in_flight step;
    struct dt_samples_point samples; /* with its generation */
    uint64_t committed;              /* the same */
    double scalars[DT_SETTLED_LEARNERS][DT_STEP_COUNT];
};

struct dt_state {
    struct dt_segment *segment;
    struct dt_buffer *buf;
    struct record *record;
    bool is_empty; /* it was so at the start */
    /* of dt_state_agree: */
    uint64_t base;  /* the last step that all have settled */
    bool committed; /* so is the next one */
    int root;       /* a rank that has its scalars */
    int newcomers;  /* ranks whose memory is empty */
    int source;     /* a rank whose memory is whole */
};

static struct record *record_of(const struct dt_run *run)
{
    return run->state ? run->state->record : NULL;
}

void dt_state_settle(struct dt_run *run)
{
    struct record *record = record_of(run);
    const uint64_t step = (uint64_t)run->progress.step;
    if (!record)
        return;
    dt_fault("state.unsettled");
    dt_settled_begin(&record->settled[step % 2].mark);
    dt_settled_note(run, &record->settled[step % 2].run);
    dt_settled_end(&record->settled[step % 2].mark, step + 1);
    record->content = WHOLE;
    dt_fault("state.settle");
}

void dt_state_prepare(struct dt_run *run, const struct dt_in_flight *step)
{
    struct record *record = record_of(run);
    if (!record)
        return;
    dt_settled_begin(&record->prepared);
    record->step = *step;
    dt_samples_note(run, &record->samples);
    dt_settled_end(&record->prepared, (uint64_t)run->queued + 1);
    dt_fault("state.prepare");
}

void dt_state_commit(struct dt_run *run)
{
    struct record *record = record_of(run);
    struct dt_learner *learner;
    if (!record)
        return;
    dt_settled_begin(&record->committed);
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++)
        memcpy(record->scalars[i], dt_view_data(learner->step),
               sizeof(record->scalars[i]));
    dt_settled_end(&record->committed, (uint64_t)run->queued + 1);
    dt_fault("state.commit");
}

void dt_state_forget(struct dt_run *run)
{
    struct record *record = record_of(run);
    if (!record)
        return;
    record->content = WRONG;
    dt_fault("state.forget");
}

/* --- the memory --- */

size_t dt_state_held(void)
{
    struct dt_inherited inherited;
    return dt_inherited_find(&inherited) && inherited.state >= 0
               ? dt_segment_held(inherited.state)
               : 0;
}

/* Whether all that a step changes can be in this memory. */
static bool can_keep(const struct dt_spec *spec,
                     const struct dt_parallel_options *options)
{
    return spec->exec.device->is_host && !spec->conf.training.eval_only &&
           options->offload.state == DT_TIER_DEVICE;
}

int dt_state_open(struct dt_run *run, struct dt_parallel_options *options,
                  struct dt_error *err)
{
    struct dt_inherited inherited;
    uint64_t hash = 0;
    if (!dt_inherited_find(&inherited) || inherited.state < 0 ||
        !can_keep(&run->spec, options))
        return 0;
    if (dt_settled_hash(run, options, sizeof(struct record), &hash, err) < 0)
        return -1;
    if (!(run->state = calloc(1, sizeof(*run->state))))
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (!(run->state->segment = dt_segment_open(inherited.state, hash, err)) ||
        !(run->state->buf = dt_segment_buffer(run->state->segment, "record",
                                              sizeof(struct record), err)))
        return -1;
    run->state->record = run->state->buf->data;
    options->segment = run->state->segment;
    return dt_samples_keep(run, run->state->segment, err);
}

void dt_state_close(struct dt_run *run)
{
    if (!run->state)
        return;
    dt_samples_keep_end(run);
    dt_buffer_destroy(run->state->buf);
    dt_segment_close(run->state->segment);
    free(run->state);
    run->state = NULL;
}

/* --- after a start --- */

/* The record of a rank, in numbers that ranks exchange. */
enum { CONTENT, NEWEST, OLDER, PREPARED, COMMITTED, TOLD };

static void describe(struct dt_state *state, double told[TOLD])
{
    const struct record *record = state->record;
    const uint64_t a = record->settled[0].mark, b = record->settled[1].mark;
    state->is_empty =
        !dt_segment_found(state->segment) || record->content == EMPTY;
    told[CONTENT] = state->is_empty ? EMPTY : (double)record->content;
    told[NEWEST] = (double)(a > b ? a : b) - 1;
    told[OLDER] = (double)(a > b ? b : a) - 1;
    told[PREPARED] = (double)record->prepared;
    told[COMMITTED] = (double)record->committed;
}

/* Whether a rank can go on after step `base`, and with `next` end the step
 * after it.
 */
static bool can_continue(const double told[TOLD], double base, bool next)
{
    return (told[NEWEST] == base || told[OLDER] == base) &&
           (!next || told[PREPARED] == base + 1);
}

/* Finds the ranks whose memory is empty, and one whose is whole. Sets *bad to a
 * rank whose is wrong; -1: no one's is.
 */
static void find_contents(struct dt_state *state, const double *all, int world,
                          int *bad)
{
    state->newcomers = 0;
    state->source = *bad = -1;
    for (int r = world; r-- > 0;) {
        const double content = all[r * TOLD + CONTENT];
        if (content == WHOLE)
            state->source = r;
        else if (content == WRONG)
            *bad = r;
        else
            state->newcomers++;
    }
}

/* Finds the step after which all ranks whose memory is whole can continue. */
static bool find_common(struct dt_state *state, const double *all, int world)
{
    double base = all[state->source * TOLD + NEWEST], last = base;
    state->root = -1;
    for (int r = 0; r < world; r++) {
        const double *told = all + r * TOLD;
        if (told[CONTENT] != WHOLE)
            continue;
        base = told[NEWEST] < base ? told[NEWEST] : base;
        last = told[NEWEST] > last ? told[NEWEST] : last;
        last = told[COMMITTED] > last ? told[COMMITTED] : last;
    }
    state->base = (uint64_t)base;
    state->committed = last > base;
    for (int r = world; r-- > 0;) {
        const double *told = all + r * TOLD;
        if (told[CONTENT] != WHOLE)
            continue;
        if (!can_continue(told, base, state->committed))
            return false;
        if (told[COMMITTED] == base + 1)
            state->root = r;
    }
    return !state->committed || (last == base + 1 && state->root >= 0);
}

/* Whether every rank holds all that is in this memory. */
static bool is_replicated(struct dt_run *run)
{
    struct dt_learner *learner;
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++)
        if (!dt_parallel_is_replicated(learner->parallel))
            return false;
    return !dt_run_reference_follows(run); /* each rank moves its part of it */
}

/* Whether ranks can continue, by the records of all; else says why not, and
 * marks the memory of this rank as wrong, unless no rank has a record.
 */
static bool judge(struct dt_run *run, const double *all)
{
    struct dt_state *state = run->state;
    const int world = run->spec.world;
    char why[128];
    int bad;
    find_contents(state, all, world, &bad);
    if (state->source < 0 && bad < 0)
        return false;
    if (bad >= 0)
        snprintf(why, sizeof(why), "the state of rank %d is wrong", bad);
    else if (state->newcomers > 0 && !is_replicated(run))
        snprintf(why, sizeof(why),
                 "%d rank%s lost memory of which no other rank has a copy",
                 state->newcomers, state->newcomers == 1 ? " has" : "s have");
    else if (!find_common(state, all, world))
        snprintf(why, sizeof(why), "ranks were lost at steps too far apart");
    else
        return true;
    dt_log(run->spec.rank == 0 ? DT_LOG_NEWS : DT_LOG_DEBUG, "algo",
           "the run cannot continue where it was: %s", why);
    state->record->content = WRONG;
    return false;
}

/* Clears the memory of this rank, once all ranks have marked theirs: if some
 * had cleared it when one is killed that has not, the next start would take the
 * memory of that one for all.
 */
static int clear(struct dt_run *run, struct dt_error *err)
{
    dt_fault("state.clear");
    if (run->spec.world > 1 && dt_comm_barrier(run->comm, err) < 0)
        return -1;
    return dt_segment_clear(run->state->segment, err);
}

int dt_state_agree(struct dt_run *run, struct dt_error *err)
{
    struct dt_state *state = run->state;
    double told[TOLD];
    if (!state)
        return 0;
    double *all = calloc((size_t)run->spec.world * TOLD, sizeof(*all));
    if (!all)
        return dt_error_set(err, EX_OSERR, "out of memory");
    describe(state, told);
    int result = dt_gather(run->comm, told, TOLD, all, err);
    if (result == 0)
        result = judge(run, all);
    free(all);
    return result == 0 ? clear(run, err) : result;
}

/* Brings the memory of a rank to those whose own is empty. Their record comes
 * last, and is whole at the end.
 */
static int copy_state(struct dt_run *run, struct dt_error *err)
{
    const struct dt_state *state = run->state;
    const bool takes = state->is_empty;
    struct record copy = *state->record;
    struct dt_learner *learner;
    if (takes)
        dt_settled_begin(&state->record->content);
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++)
        if (dt_parallel_copy(learner->parallel, state->source, takes, err) < 0)
            return -1;
    if (takes)
        dt_fault("state.copy");
    if (dt_gather_bytes_of(run->comm, state->source, &copy, sizeof(copy), err) <
        0)
        return -1;
    if (!takes)
        return 0;
    copy.content = EMPTY;
    *state->record = copy;
    dt_settled_end(&state->record->content, WHOLE);
    return 0;
}

/* Ends the update of the next step, which is in flight then. */
static int take_committed(struct dt_run *run, struct dt_error *err)
{
    const uint64_t number = run->state->base + 1;
    const struct record *record = run->state->record;
    double scalars[DT_SETTLED_LEARNERS][DT_STEP_COUNT];
    struct dt_learner *learner;
    memcpy(scalars, record->scalars, sizeof(scalars));
    if (dt_gather_bytes_of(run->comm, run->state->root, scalars,
                           sizeof(scalars), err) < 0)
        return -1;
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++)
        memcpy(dt_view_data(learner->step), scalars[i], sizeof(scalars[i]));
    dt_state_commit(run);
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++)
        if (dt_learner_update(learner, number, err) < 0 ||
            dt_learner_send_result(learner, learner->step,
                                   &learner->results[number % DT_MAX_IN_FLIGHT],
                                   err) < 0)
            return -1;
    if (dt_run_reference_follow(run, (long)number, err) < 0)
        return -1;
    run->in_flight[number % DT_MAX_IN_FLIGHT] = record->step;
    run->in_flight[number % DT_MAX_IN_FLIGHT].open = true;
    run->queued++;
    return 0;
}

/* Goes on with the samples of that step. Without a generation that is needed
 * the memory is of no use.
 */
static int take_samples(struct dt_run *run, struct dt_error *err)
{
    const struct dt_state *state = run->state;
    const struct record *record = state->record;
    const struct dt_samples_point *point =
        state->committed ? &record->samples
                         : &record->settled[state->base % 2].run.samples;
    const int rc = dt_samples_take(run, point, err);
    if (rc < 0 && err->lost_rank < 0)
        dt_state_forget(run);
    return rc;
}

int dt_state_take(struct dt_run *run, struct dt_error *err)
{
    const struct dt_state *state = run->state;
    struct dt_learner *learner;
    char copies[64] = "";
    if (state->newcomers > 0) {
        snprintf(copies, sizeof(copies), ", of which %d rank%s a copy",
                 state->newcomers, state->newcomers == 1 ? " gets" : "s get");
        if (copy_state(run, err) < 0)
            return -1;
    }
    dt_settled_take(run, &state->record->settled[state->base % 2].run);
    dt_log(run->spec.rank == 0 ? DT_LOG_NEWS : DT_LOG_DEBUG, "algo",
           "continuing after step %ld with the memory of the processes "
           "before%s",
           (long)state->base + state->committed, copies);
    if (state->committed && take_committed(run, err) < 0)
        return -1;
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++) {
        dt_parallel_drop_grads(learner->parallel);
        if (dt_learner_load_rest(learner, run->spec.conf.run.seed, err) < 0 ||
            dt_parallel_renew(learner->parallel, err) < 0)
            return -1;
    }
    return dt_run_reference_renew(run, err) < 0 ? -1 : take_samples(run, err);
}
