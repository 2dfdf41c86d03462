/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ahead.c - samples the next generation before training on this one
 *
 * Step t samples generation t + 1 with the weights that step t is about to
 * change, then collects the rewards of generation t, submits the completions of
 * t + 1 for scoring, and trains on t. So rewards have the time of a step and of
 * a rollout before anybody waits for them. Completions come from weights one
 * step older than those that train on them, no matter how long anything takes.
 * Only the first generation comes from the same weights.
 *
 * A checkpoint has the completions that were sampled ahead, without their
 * rewards. A run that resumes asks for these again.
 */
#include "config.h"

#include "run/run.h"
#include "sampling/sampling.h"

/* Submits the generation that was sampled ahead for scoring. */
static int score_ahead(struct dt_run *run, long step, struct dt_error *err)
{
    int rc = dt_scoring_begin(run, &run->samples.ahead, step, err);
    return rc == 0 ? dt_scoring_submit_all(run, err) : rc;
}

/* Samples the generation that this step trains on, if there is none: in the
 * first step, or after the last step of a run that was extended.
 */
static int sample_this(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    int rc = dt_run_sample(run, &s->ahead, s->position,
                           run->spec.sampling.groups, err);
    if (rc == 0)
        s->position += run->spec.sampling.groups;
    else
        dt_experience_fini(&s->ahead);
    return rc;
}

int dt_run_settle_ahead(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    int rc = s->scoring ? dt_scoring_end(run, err) : 0;
    if (rc == 0 && s->scoring) {
        dt_scoring_fini(run);
        s->ahead_scored = true;
    }
    return rc;
}

int dt_run_sample_ahead(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    struct dt_experience next = {0};
    const long step = run->queued + 1;
    int rc = s->ahead.groups == 0 ? sample_this(run, err) : 0;
    if (rc == 0 && !s->scoring && !s->ahead_scored)
        rc = score_ahead(run, step, err);
    if (rc == 0 && step < run->total_steps)
        rc = dt_run_sample(run, &next, s->position, run->spec.sampling.groups,
                           err);
    if (rc == 0)
        rc = dt_run_settle_ahead(run, err);
    if (rc != 0) {
        dt_experience_fini(&next);
        return rc;
    }
    dt_experience_fini(&s->experience);
    s->experience = s->ahead;
    s->ahead = next;
    s->ahead_scored = false;
    s->sampled = next.groups;
    return next.groups > 0 ? score_ahead(run, step + 1, err) : 0;
}
