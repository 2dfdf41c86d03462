/* SPDX-License-Identifier: Apache-2.0 */
/* generation.c - makes the generations that steps train on */
#include "config.h"

#include "run/dir/output.h"
#include "run/run.h"
#include "sampling/sampling.h"

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

int dt_run_order_rows(struct dt_run *run, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    struct dt_samples *s = &run->samples;
    uint64_t first = s->generation - (s->use > 0);
    uint64_t key = spec->algo->critic_loss
                       ? first * (spec->sampling.uses / spec->sampling.parts) +
                             s->use / spec->sampling.parts
                       : first;
    return dt_sample_batches_begin(&s->batches, &s->experience, key, err);
}

/* Samples and scores completions of the next prompts, unless that was done
 * ahead.
 */
static int next_scored(struct dt_run *run, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    struct dt_samples *s = &run->samples;
    if (spec->conf.rollout.overlap > 0)
        return dt_run_sample_ahead(run, err);
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

static int make_generation(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    int rc = sample_and_score(run, err);
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
