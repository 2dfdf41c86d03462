/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generation.c - makes the generations that steps train on
 *
 * With rollout.overlap the next generation is sampled before training on this
 * one. Step t samples generation t + 1 with the weights that step t is about to
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

#include "run/dir/dir.h"
#include "sampling/sampling_impl.h"

/* Checks that all ranks have the same numbers. Otherwise they would train
 * different models.
 */
static int compare_hashes(struct dt_run *run, struct dt_error *err)
{
    uint64_t hash = dt_experience_hash(&run->samples.experience);
    double most[] = {(double)(hash >> 32), (double)(hash & UINT32_MAX),
                     -(double)(hash >> 32), -(double)(hash & UINT32_MAX)};
    if (run->spec.world == 1)
        return 0;
    if (dt_comm_reduce_scalars(run->comm, most, 4, DT_MAX, err) < 0)
        return -1;
    if (most[0] == -most[2] && most[1] == -most[3])
        return 0;
    return dt_error_set(err, EX_SOFTWARE,
                        "rank %d: generation %llu differs between ranks, whose "
                        "rewards and advantages have to be equal",
                        run->spec.rank,
                        (unsigned long long)run->samples.generation);
}

/* --- ahead of training --- */

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

/* Samples and scores in the order of rollout.overlap, which also samples the
 * generation of the step after this one. 0; 1: a rank was told to stop, and
 * nothing that is saved has changed; -1: as dt_run_next_samples.
 */
static int sample_ahead(struct dt_run *run, struct dt_error *err)
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
    if (next.groups > 0)
        dt_generation_put(run, &next, s->generation + 2);
    dt_experience_fini(&s->experience);
    s->experience = s->ahead;
    s->ahead = next;
    s->ahead_scored = false;
    s->sampled = next.groups;
    return next.groups > 0 ? score_ahead(run, step + 1, err) : 0;
}

/* --- the next one --- */

/* Samples and scores completions of the next prompts, unless that was done
 * ahead.
 */
static int next_scored(struct dt_run *run, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    struct dt_samples *s = &run->samples;
    if (spec->conf.rollout.overlap > 0)
        return sample_ahead(run, err);
    s->sampled = spec->sampling.groups;
    int rc = dt_run_sample_scored(run, s->position, spec->sampling.groups, err);
    if (rc == 0 && spec->conf.grpo.dynamic_sampling.enabled)
        rc = dt_run_refill(run, err);
    return rc;
}

static int sample_and_score(struct dt_run *run, struct dt_error *err)
{
    int rc = next_scored(run, err);
    if (rc == 0)
        rc = dt_run_order_rows(run, err);
    if (rc == 0 && run->spec.sampling.stores_old)
        rc = dt_run_old_values(run, err);
    if (rc == 0)
        rc = run->spec.algo->advantages(run, err);
    return rc == 0 ? compare_hashes(run, err) : rc;
}

/* The generation that a process before this one has completed. */
static int take_kept(struct dt_run *run, uint64_t number, struct dt_error *err)
{
    if (dt_generation_get(run, &run->samples.experience, number, err) < 0 ||
        dt_run_order_rows(run, err) < 0)
        return -1;
    return run->spec.algo->advantages(run, err);
}

/* One that is sampled ahead is kept without its rewards. */
static int next_generation(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    const uint64_t number = s->generation + 1;
    if (run->spec.conf.rollout.overlap > 0)
        return sample_and_score(run, err);
    if (dt_generation_is_kept(run, number))
        return take_kept(run, number, err);
    int rc = sample_and_score(run, err);
    if (rc == 0)
        dt_generation_put(run, &s->experience, number);
    return rc;
}

static int make_generation(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    int rc = next_generation(run, err);
    if (rc != 0)
        return rc;
    if (dt_run_keep_output(run, err) < 0)
        return -1;
    s->position += s->sampled;
    s->generation++;
    dt_run_make_numbers(run);
    dt_run_warn_idle(run);
    dt_run_log_samples(run, run->queued + 1);
    return 0;
}

int dt_run_next_samples(struct dt_run *run, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    struct dt_samples *s = &run->samples;
    int rc = s->use == 0 ? make_generation(run, err) : 0;
    if (rc != 0)
        return rc;
    if ((s->use > 0 && s->use % spec->sampling.parts == 0 &&
         dt_run_order_rows(run, err) < 0) ||
        dt_sample_batches_step(&s->batches, s->use % spec->sampling.parts,
                               err) < 0)
        return -1;
    s->use = (s->use + 1) % spec->sampling.uses;
    return spec->algo->denominator(run, err);
}
