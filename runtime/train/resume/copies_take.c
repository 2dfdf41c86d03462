/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copies_take.c - goes on with copies of a run in host memory
 *
 * Fault point: copy.take, before each model does.
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
enum { WRONG, SAVED, SECONDS, MARKS, TOLD = MARKS + DT_COPIES };

static void describe(const struct dt_copies *copies, double told[TOLD])
{
    const struct dt_copies_record *record = copies->record;
    const bool found = dt_segment_found(copies->segment);
    told[WRONG] = found && record->wrong;
    told[SAVED] = found ? (double)record->saved : 0;
    told[SECONDS] = found ? record->seconds : 0;
    for (size_t i = 0; i < DT_COPIES; i++)
        told[MARKS + i] = found ? (double)record->copies[i].mark : 0;
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

/* The mark of the newest copy that all ranks have whole; 0: there is none. */
static double find_common(const double *all, int world)
{
    double best = 0;
    for (size_t i = 0; i < DT_COPIES; i++) {
        const double mark = all[MARKS + i];
        int count = 0;
        for (int r = 0; r < world; r++)
            count += has(all + r * TOLD, mark);
        if (count == world && mark > best)
            best = mark;
    }
    return best;
}

/* The same, where no rank has lost a bit and no checkpoint is newer. Says why
 * there is none, unless no rank has any copy.
 */
static double judge(const struct dt_run *run, const double *all)
{
    const int world = run->spec.world;
    const double mark = find_common(all, world);
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
        snprintf(why, sizeof(why), "no copy is whole on all ranks");
    dt_log(run->spec.rank == 0 ? DT_LOG_INFO : DT_LOG_DEBUG, "algo",
           "the run cannot continue where it was: %s", why);
    return 0;
}

/* Only the copy with this mark stays; 0: none does. */
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

int dt_copies_agree(struct dt_run *run, struct dt_error *err)
{
    struct dt_copies *copies = run->copies;
    double told[TOLD];
    if (!copies)
        return 0;
    double *all = calloc((size_t)run->spec.world * TOLD, sizeof(*all));
    if (!all)
        return dt_error_set(err, EX_OSERR, "out of memory");
    describe(copies, told);
    int rc = dt_gather(run->comm, told, TOLD, all, err);
    const double mark = rc == 0 ? judge(run, all) : 0;
    copies->record->seconds = 0;
    for (int r = 0; rc == 0 && mark > 0 && r < run->spec.world; r++)
        copies->record->seconds =
            fmax(copies->record->seconds, all[r * TOLD + SECONDS]);
    free(all);
    if (rc < 0)
        return -1;
    keep_only(copies, (uint64_t)mark);
    return mark > 0;
}

static int put_models(struct dt_run *run, struct dt_error *err)
{
    const struct dt_copies *copies = run->copies;
    for (size_t m = 0; m < copies->model_count; m++) {
        const struct dt_copied *model = &copies->models[m];
        dt_fault("copy.take");
        if (dt_host_copy_put(model->parallel, model->at[copies->last]->data,
                             err) < 0)
            return -1;
    }
    return 0;
}

int dt_copies_take(struct dt_run *run, struct dt_error *err)
{
    struct dt_copies *copies = run->copies;
    const struct dt_settled *from = &copies->record->copies[copies->last].run;
    struct dt_learner *learner;
    dt_settled_take(run, from);
    dt_log(run->spec.rank == 0 ? DT_LOG_INFO : DT_LOG_DEBUG, "algo",
           "continuing after step %ld with the copy that the processes before "
           "have left in host memory",
           run->progress.step);
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++)
        if (dt_learner_load_rest(learner, run->spec.conf.run.seed, err) < 0)
            return -1;
    if ((!dt_run_reference_follows(run) &&
         dt_run_reference_read(run, err) < 0) ||
        put_models(run, err) < 0 ||
        dt_samples_take_copy(run, &from->samples, copies->samples[copies->last],
                             err) < 0)
        return -1;
    copies->begun = dt_clock_now();
    return dt_run_wait(run, err);
}
