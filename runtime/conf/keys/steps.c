/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c - resolves keys that depend on the number of optimizer steps */
#include "config.h"

#include <math.h>
#include <stdio.h>

#include "conf/keys/draft.h"

static void ratio_to_steps(long *steps, double ratio, long total)
{
    if (ratio > 0)
        *steps = (long)ceil(ratio * (double)total);
}

/* Turns a warm-up ratio into steps; warmup_steps below 1 is a ratio, too, as in
 * Hugging Face. Rounds up, but leaves at least one step after the warm-up:
 * warm-up starts at rate 0, so a run of one step would otherwise learn nothing.
 */
static void settle_warmup(struct dt_conf *conf, long total)
{
    double *steps = &conf->scheduler.warmup_steps;
    double ratio = *steps > 0 ? *steps : conf->scheduler.warmup_ratio;
    if (*steps < 1)
        *steps = fmin(ceil(ratio * (double)total), (double)total - 1);
    conf->scheduler.warmup_ratio = 0;
}

static void settle_all(struct dt_conf *conf, long total)
{
    ratio_to_steps(&conf->training.eval_steps, conf->training.eval_steps_ratio,
                   total);
    ratio_to_steps(&conf->checkpoint.steps, conf->checkpoint.steps_ratio,
                   total);
    ratio_to_steps(&conf->logging.steps, conf->logging.steps_ratio, total);
    ratio_to_steps(&conf->scheduler.decay_steps,
                   conf->scheduler.decay_steps_ratio, total);
    ratio_to_steps(&conf->scheduler.stable_steps,
                   conf->scheduler.stable_steps_ratio, total);
    settle_warmup(conf, total);
}

const char *dt_conf_misfit(const struct dt_conf *conf, long total,
                           char text[DT_CONF_MISFIT_BYTES])
{
    struct dt_conf settled = *conf;
    settle_all(&settled, total);
    long wanted = settled.scheduler.total_num_steps;
    long warmup = (long)settled.scheduler.warmup_steps;
    long stable = settled.scheduler.stable_steps;
    long decay = settled.scheduler.decay_steps;
    if (wanted > 0 && wanted != total) {
        snprintf(text, DT_CONF_MISFIT_BYTES,
                 "E110 %ld, but the run has %ld steps", wanted, total);
        return "scheduler.total_num_steps";
    }
    if (conf->scheduler.name == DT_SCHEDULE_WARMUP_STABLE_DECAY &&
        warmup + stable + decay > total) {
        snprintf(text, DT_CONF_MISFIT_BYTES,
                 "E110 %ld, with %ld of warm-up and %ld stable ones, do not "
                 "fit into a run of %ld steps",
                 decay, warmup, stable, total);
        return "scheduler.decay_steps";
    }
    return NULL;
}

int dt_conf_resolve_steps(struct dt_conf *conf, long total,
                          struct dt_error *err)
{
    char text[DT_CONF_MISFIT_BYTES];
    const char *key = dt_conf_misfit(conf, total, text);
    if (key)
        return dt_conf_error_set(conf, key, err, "%s", text);
    settle_all(conf, total);
    return 0;
}
