/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health.c - judges whether the run is worth saving, and which checkpoint is
 * good
 *
 * A step that explodes the weights still has a finite loss: only the next one
 * shows it. So the second newest checkpoint stays until a step after the newest
 * had a finite loss, and a diverged run goes back to it. A run that ends, or is
 * stopped, while it is well leaves no more than checkpoint.total_limit.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "run/dir/dir.h"

void dt_run_prune(const struct dt_run *run, long step, int more)
{
    struct dt_error err;
    const long limit = run->spec.conf.checkpoint.total_limit;
    const struct dt_ckpt_keep keep = {
        .limit = (int)(limit > more + 1 ? limit - more : limit > 0),
        .every = run->spec.conf.checkpoint.keep_every,
        .step = step,
    };
    if (run->spec.rank == 0 &&
        dt_ckpt_prune(run->spec.ckpt_root, &keep, &err) < 0)
        dt_log(DT_LOG_WARN, "ckpt",
               "an old checkpoint stays, and each save tries again to "
               "remove it: %s",
               err.text);
}

void dt_run_judge(struct dt_run *run, double loss, enum dt_step_outcome outcome)
{
    bool searching = run->learner.scaler.options.kind != DT_SCALER_STATIC;
    if (outcome == DT_STEP_EMPTY)
        return;
    run->health = !isfinite(loss)                             ? DT_NO_LOSS
                  : outcome == DT_STEP_OVERFLOW && !searching ? DT_NO_GRADIENT
                                                              : DT_WELL;
    if (!isfinite(loss))
        return;
    run->saves.maybe = 0;
    if (run->saves.unproven == 0)
        return;
    dt_run_prune(run, run->saves.unproven, 0);
    run->saves.unproven = 0;
}

/* Whether all weights of a learner are finite; as dt_run_weights_finite. */
static int is_finite(struct dt_learner *learner, struct dt_error *err)
{
    static const struct dt_step_params params[DT_STEP_OUTCOMES];
    const struct dt_exec *exec = learner->exec;
    const double *scalars = learner->results[0].scalars;
    exec->ops->step_begin(exec->stream, learner->eval, params);
    for (size_t u = 0; u < learner->spec->layout->unit_count; u++)
        if (dt_parallel_squares(
                learner->parallel,
                dt_parallel_part(learner->parallel, DT_OWNED_MASTER, u),
                learner->eval, err) < 0)
            return -1;
    if (dt_learner_reduce(learner, learner->eval, err) < 0 ||
        dt_learner_send_result(learner, learner->eval, &learner->results[0],
                               err) < 0 ||
        exec->device->stream_wait(exec->stream, err) < 0)
        return -1;
    return isfinite(scalars[DT_STEP_SQUARES]);
}

int dt_run_weights_finite(struct dt_run *run, struct dt_error *err)
{
    struct dt_learner *learner;
    int finite = 1;
    assert(!run->in_flight[0].open && !run->in_flight[1].open);
    for (size_t i = 0; finite > 0 && (learner = dt_run_learner(run, i)); i++)
        finite = is_finite(learner, err);
    return finite;
}

/* Sets *path to the checkpoint to resume from (free it), or NULL for none. */
static int find_good(const struct dt_run *run, char **path,
                     struct dt_error *err)
{
    long unproven =
        run->saves.unproven > 0 ? run->saves.unproven : run->saves.maybe;
    if (unproven > 0)
        return dt_ckpt_retreat(run->spec.ckpt_root, unproven, path, err);
    return dt_ckpt_find(run->spec.ckpt_root, NULL, path, err);
}

int dt_run_give_up(struct dt_run *run, struct dt_error *err)
{
    struct dt_error other;
    char *good = NULL;
    if (run->spec.rank != 0) {
        if (dt_comm_barrier(run->comm, &other) < 0)
            *err = other;
        return -1;
    }
    if (find_good(run, &good, &other) < 0)
        dt_error_add(err, err->status, "%s", other.text);
    else if (good)
        dt_error_add(err, err->status,
                     "the last good checkpoint is %s: training.resume: auto "
                     "resumes from it",
                     good);
    else
        dt_error_add(err, err->status, "there is no earlier good checkpoint");
    free(good);
    return -1;
}
