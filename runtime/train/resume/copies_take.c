/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copies_take.c - goes on with copies of a run in host memory
 *
 * Fault points: copy.take, before each model does; copy.drop, where the ranks
 * are about to drop their copies.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "parallel/host_copy.h"
#include "run/exchange.h"
#include "run/reference/reference.h"
#include "train/resume/copies_impl.h"

/* The record of a rank, in numbers that ranks exchange. */
enum {
    WRONG,
    SAVED,
    SECONDS,
    MARKS,
    PARTS = MARKS + DT_COPIES, /* of each model, which part it copies */
    TOLD = PARTS + DT_COPIED_MODELS
};

static void describe(const struct dt_copies *copies, double told[TOLD])
{
    const struct dt_copies_record *record = copies->record;
    const bool found = dt_segment_found(copies->segment);
    told[WRONG] = found && record->wrong;
    told[SAVED] = found ? (double)record->saved : 0;
    told[SECONDS] = found ? record->seconds : 0;
    for (size_t i = 0; i < DT_COPIES; i++)
        told[MARKS + i] = found ? (double)record->copies[i].mark : 0;
    for (size_t m = 0; m < DT_COPIED_MODELS; m++)
        told[PARTS + m] =
            m < copies->model_count
                ? (double)dt_host_copy_part(copies->models[m].parallel)
                : 0;
}

static bool has(const double told[TOLD], double mark)
{
    for (size_t i = 0; i < DT_COPIES; i++)
        if (told[MARKS + i] == mark)
            return true;
    return false;
}

static bool has_any(const double told[TOLD])
{
    for (size_t i = 0; i < DT_COPIES; i++)
        if (told[MARKS + i] > 0)
            return true;
    return false;
}

/* Finds the first rank that has each part of model m in the copy with this
 * mark. Returns whether all parts are there.
 */
static bool find_parts(const struct dt_copies *copies, size_t m,
                       const double *all, int world, double mark)
{
    const struct dt_copied *model = &copies->models[m];
    const size_t parts = dt_host_copy_parts(model->parallel);
    size_t found = 0;
    for (size_t i = 0; i < parts; i++)
        model->sources[i] = -1;
    for (int r = world; r-- > 0;) {
        const double *told = all + r * TOLD;
        if (!has(told, mark))
            continue;
        int *source = &model->sources[(size_t)told[PARTS + m]];
        found += *source < 0;
        *source = r;
    }
    return found == parts;
}

/* Whether ranks have all parts of the copy with this mark, as model->sources
 * then says.
 */
static bool is_whole(const struct dt_copies *copies, const double *all,
                     int world, double mark)
{
    for (size_t m = 0; m < copies->model_count; m++)
        if (!find_parts(copies, m, all, world, mark))
            return false;
    return true;
}

/* The mark of the newest copy that is whole; 0: there is none. */
static double find_newest(const struct dt_copies *copies, const double *all,
                          int world)
{
    double best = 0;
    for (int r = 0; r < world; r++)
        for (size_t i = 0; i < DT_COPIES; i++) {
            const double mark = all[r * TOLD + MARKS + i];
            if (mark > best && is_whole(copies, all, world, mark))
                best = mark;
        }
    return best;
}

/* The same, where no rank has lost a bit and no checkpoint is newer. Says why
 * there is none, and marks the copies of this rank as wrong, unless no rank has
 * any copy.
 */
static double judge(const struct dt_run *run, const double *all)
{
    const int world = run->spec.world;
    const double mark = find_newest(run->copies, all, world);
    double saved = 0;
    int bad = -1, without = 0;
    char why[128];
    for (int r = 0; r < world; r++) {
        saved = fmax(saved, all[r * TOLD + SAVED]);
        without += !has_any(all + r * TOLD);
        if (all[r * TOLD + WRONG] > 0)
            bad = r;
    }
    if (without == world || (bad < 0 && mark > 0))
        return mark > saved ? mark : 0;
    if (bad >= 0)
        snprintf(why, sizeof(why), "the state of rank %d is wrong", bad);
    else if (without > 0)
        snprintf(why, sizeof(why),
                 "%d rank%s lost memory of which no other rank has a copy",
                 without, without == 1 ? " has" : "s have");
    else
        snprintf(why, sizeof(why), "no copy has the parts of all ranks");
    dt_log(run->spec.rank == 0 ? DT_LOG_NEWS : DT_LOG_DEBUG, "algo",
           "the run cannot continue where it was: %s", why);
    run->copies->record->wrong = 1;
    return 0;
}

/* Only the copy with this mark stays; 0: none does, nor the word that they are
 * wrong.
 */
static void keep_only(struct dt_copies *copies, uint64_t mark)
{
    struct dt_copies_record *record = copies->record;
    for (size_t i = 0; i < DT_COPIES; i++) {
        if (mark > 0 && record->copies[i].mark == mark)
            copies->last = i;
        else
            dt_settled_begin(&record->copies[i].mark);
    }
    record->wrong = 0;
}

/* Drops the copies of this rank, once all ranks have marked theirs: if some had
 * dropped them when one is killed that has not, the next start would take the
 * copy of that one for all.
 */
static int drop(struct dt_run *run, struct dt_error *err)
{
    dt_fault("copy.drop");
    if (run->spec.world > 1 && dt_comm_barrier(run->comm, err) < 0)
        return -1;
    keep_only(run->copies, 0);
    return 0;
}

/* Finds who has the copy with this mark, and who has not. */
static void find_ranks(struct dt_copies *copies, const double *all, int world,
                       double mark)
{
    is_whole(copies, all, world, mark);
    copies->record->seconds = copies->newcomers = 0;
    for (int r = world; r-- > 0;) {
        const double *told = all + r * TOLD;
        copies->record->seconds = fmax(copies->record->seconds, told[SECONDS]);
        if (has(told, mark)) {
            copies->source = r;
        } else {
            copies->newcomer = r;
            copies->newcomers++;
        }
    }
    if (copies->newcomers > 0)
        copies->giver =
            copies->models[0]
                .sources[(size_t)all[copies->newcomer * TOLD + PARTS]];
}

int dt_copies_agree(struct dt_run *run, struct dt_error *err)
{
    struct dt_copies *copies = run->copies;
    const int world = run->spec.world;
    double told[TOLD];
    if (!copies)
        return 0;
    double *all = calloc((size_t)world * TOLD, sizeof(*all));
    if (!all)
        return dt_error_set(err, EX_OSERR, "out of memory");
    describe(copies, told);
    const int rc = dt_gather(run->comm, told, TOLD, all, err);
    const double mark = rc == 0 ? judge(run, all) : 0;
    copies->record->seconds = 0;
    if (mark > 0)
        find_ranks(copies, all, world, mark);
    free(all);
    if (rc < 0)
        return -1;
    if (mark == 0)
        return drop(run, err);
    keep_only(copies, (uint64_t)mark);
    return 1;
}

/* The copy that is taken, if this rank has it. */
static bool is_there(const struct dt_copies *copies)
{
    return copies->record->copies[copies->last].mark > 0;
}

static int put_models(struct dt_run *run, struct dt_error *err)
{
    const struct dt_copies *copies = run->copies;
    for (size_t m = 0; m < copies->model_count; m++) {
        const struct dt_copied *model = &copies->models[m];
        const void *from =
            is_there(copies) ? model->at[copies->last]->data : NULL;
        dt_fault("copy.take");
        if (dt_host_copy_put(model->parallel, from, model->sources, err) < 0)
            return -1;
    }
    return 0;
}

static void say_taken(const struct dt_run *run)
{
    const struct dt_copies *copies = run->copies;
    char others[128] = "";
    if (copies->newcomers == 1)
        snprintf(others, sizeof(others),
                 ", of which rank %d gets that of rank %d", copies->newcomer,
                 copies->giver);
    else if (copies->newcomers > 1)
        snprintf(others, sizeof(others),
                 ", of which %d ranks get those of others: rank %d that of "
                 "rank %d, and so on",
                 copies->newcomers, copies->newcomer, copies->giver);
    dt_log(run->spec.rank == 0 ? DT_LOG_NEWS : DT_LOG_DEBUG, "algo",
           "continuing after step %ld with the copy that the processes before "
           "have left in host memory%s",
           run->progress.step, others);
}

/* Goes on with the completions of the copy. */
static int take_samples(struct dt_run *run, const struct dt_settled *from,
                        struct dt_error *err)
{
    struct dt_copies *copies = run->copies;
    struct dt_buffer *samples = copies->samples[copies->last];
    if (copies->newcomers > 0 &&
        dt_samples_send_copy(run, samples, copies->source, !is_there(copies),
                             err) < 0)
        return -1;
    return dt_samples_take_copy(run, &from->samples, samples, err);
}

int dt_copies_take(struct dt_run *run, struct dt_error *err)
{
    struct dt_copies *copies = run->copies;
    struct dt_settled from = copies->record->copies[copies->last].run;
    struct dt_learner *learner;
    if (dt_gather_bytes_of(run->comm, copies->source, &from, sizeof(from),
                           err) < 0)
        return -1;
    dt_settled_take(run, &from);
    say_taken(run);
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++)
        if (dt_learner_load_rest(learner, run->spec.conf.run.seed, err) < 0)
            return -1;
    if ((!dt_run_reference_follows(run) &&
         dt_run_reference_read(run, err) < 0) ||
        put_models(run, err) < 0 || take_samples(run, &from, err) < 0)
        return -1;
    /* those who had no copy have the next one soon */
    copies->begun = copies->newcomers > 0 ? -INFINITY : dt_clock_now();
    return dt_run_wait(run, err);
}
