/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refill.c - dynamic sampling: prompts whose completions teach something
 *
 * Completions with equal rewards have no advantage, so a step with many such
 * groups learns from few. They are replaced by the next prompts of the stream,
 * as many as are missing, in a few rounds (Yu et al., "DAPO", arXiv 2503.14476,
 * which samples more than it needs and drops the rest). Every rank decides by
 * the rewards of all. A generation always has its full size: when the rounds
 * run out, the first groups with equal rewards fill it.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sampling/sampling_impl.h"

const char *const dt_refill_names[DT_REFILL_NUMBERS] = {
    [DT_REFILL_ROUNDS] = "dynamic_sampling/refills",
    [DT_REFILL_PROMPTS] = "dynamic_sampling/prompts",
    [DT_REFILL_FLAT] = "dynamic_sampling/frac_reward_zero_std",
    [DT_REFILL_REWARD] = "dynamic_sampling/reward",
};

/* Totals of everything sampled for a generation. */
struct tally {
    double rounds, prompts,
        flat; /* flat: prompts whose completions teach nothing */
    double rewards,
        scored; /* of completions: sum of rewards, number with a reward */
};

/* Fills flat(groups) for the prompts that were sampled last, and counts them.
 */
static int judge(const struct dt_run *run, bool *flat, struct tally *tally,
                 struct dt_error *err)
{
    const struct dt_samples *s = &run->samples;
    const struct dt_advantage_options options =
        dt_advantage_options(&run->spec.conf);
    struct dt_group_rewards r;
    int rc = dt_group_rewards_init(&r, s, &s->experience, err);
    if (rc == 0) {
        tally->flat +=
            (double)dt_advantage_find_flat(&options, &r.table, r.rewards, flat);
        tally->prompts += (double)s->experience.groups;
        for (size_t i = 0; i < s->experience.rows; i++) {
            if (isnan(r.rewards[i]))
                continue;
            tally->rewards += r.rewards[i];
            tally->scored++;
        }
    }
    dt_group_rewards_fini(&r);
    return rc;
}

static size_t count_flat(const bool *flat, size_t groups)
{
    size_t count = 0;
    for (size_t g = 0; g < groups; g++)
        count += flat[g];
    return count;
}

/* Keeps `groups` of `all` groups: those that are not flat, of which there are
 * at most `groups`, and the first of the flat ones. Then flat(groups) describes
 * the kept ones.
 */
static void choose(bool *flat, size_t all, size_t groups, bool *keep)
{
    size_t room = groups - (all - count_flat(flat, all)), kept = 0;
    for (size_t g = 0; g < all; g++) {
        keep[g] = !flat[g] || room > 0;
        room -= flat[g] && keep[g];
        if (keep[g])
            flat[kept++] = flat[g];
    }
}

/* Samples as many further prompts as there are flat groups. flat, keep: (2 *
 * groups). 1: a rank was told to stop; then, and after -1, the experience is
 * unchanged.
 */
static int replace(struct dt_run *run, bool *flat, bool *keep,
                   struct tally *tally, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    struct dt_experience before = s->experience;
    const size_t groups = before.groups, missing = count_flat(flat, groups);
    s->experience = (struct dt_experience){0};
    int rc = dt_run_sample_scored(run, s->position + (uint64_t)tally->prompts,
                                  missing, err);
    if (rc == 0)
        rc = judge(run, flat + groups, tally, err);
    if (rc == 0) {
        tally->rounds++;
        choose(flat, groups + missing, groups, keep);
        rc = dt_experience_merge(&before, &s->experience, keep, err);
    }
    dt_experience_fini(&s->experience);
    s->experience = before;
    return rc;
}

int dt_run_refill(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    const size_t groups = s->experience.groups;
    const long most = run->spec.conf.grpo.dynamic_sampling.max_refills;
    struct tally tally = {0};
    bool *flat = calloc(2 * groups, sizeof(*flat));
    bool *keep = calloc(2 * groups, sizeof(*keep));
    int rc = flat && keep
                 ? judge(run, flat, &tally, err)
                 : dt_error_set(err, EX_OSERR, "a generation: out of memory");
    for (long i = 0; i < most && rc == 0 && count_flat(flat, groups) > 0; i++)
        rc = replace(run, flat, keep, &tally, err);
    free(keep);
    free(flat);
    s->sampled = (size_t)tally.prompts;
    s->refill[DT_REFILL_ROUNDS] = tally.rounds;
    s->refill[DT_REFILL_PROMPTS] = tally.prompts;
    s->refill[DT_REFILL_FLAT] = tally.flat / tally.prompts;
    s->refill[DT_REFILL_REWARD] = tally.rewards / tally.scored;
    return rc;
}
