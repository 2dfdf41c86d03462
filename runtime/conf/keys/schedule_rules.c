/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_rules.c - the learning rate: its schedule, and steps that are ratios
 */
#include "config.h"

#include <math.h>
#include <stdio.h>

#include "conf/keys/draft.h"

#define BIT(name) (1u << DT_SCHEDULE_##name)
#define DEEPSPEED                                                              \
    (BIT(DS_WARMUP) | BIT(DS_WARMUP_DECAY) | BIT(DS_WARMUP_COSINE))
/* Those that end at min_lr. */
#define ENDS                                                                   \
    (BIT(COSINE_WITH_MIN_LR) | BIT(COSINE_WARMUP_WITH_MIN_LR) |                \
     BIT(POLYNOMIAL) | BIT(WARMUP_STABLE_DECAY) | BIT(NANOGPT) |               \
     BIT(DS_WARMUP_COSINE))

static double default_min_lr(const struct dt_conf *conf)
{
    switch (conf->scheduler.name) {
    case DT_SCHEDULE_POLYNOMIAL:
        return 1e-7;
    case DT_SCHEDULE_NANOGPT:
        return conf->optimizer.lr / 10;
    case DT_SCHEDULE_DS_WARMUP_COSINE:
        return conf->optimizer.lr * 1e-4;
    default:
        return 0;
    }
}

/* Derives the defaults that depend on the name. */
void dt_conf_derive_schedule(struct dt_conf_draft *draft)
{
    struct dt_conf *conf = draft->conf;
    int name = conf->scheduler.name;
    bool deepspeed = name >= DT_SCHEDULE_DS_WARMUP;
    if (dt_conf_given(conf, "scheduler.min_lr_rate") &&
        !dt_conf_given(conf, "scheduler.min_lr"))
        conf->scheduler.min_lr =
            conf->scheduler.min_lr_rate * conf->optimizer.lr;
    else if (!dt_conf_given(conf, "scheduler.min_lr"))
        conf->scheduler.min_lr = default_min_lr(conf);
    if (deepspeed && !dt_conf_given(conf, "scheduler.warmup_steps") &&
        !dt_conf_given(conf, "scheduler.warmup_ratio")) {
        conf->scheduler.warmup_steps = 1000;
        dt_conf_is_left(conf, "scheduler.warmup_steps");
    }
    if (!dt_conf_given(conf, "scheduler.num_cycles"))
        conf->scheduler.num_cycles =
            name == DT_SCHEDULE_COSINE_WITH_RESTARTS ? 1 : 0.5;
    if (!dt_conf_given(conf, "scheduler.power"))
        conf->scheduler.power = 1;
    if (!dt_conf_given(conf, "scheduler.warmup_type"))
        conf->scheduler.warmup_type =
            deepspeed ? DT_CURVE_LOG : DT_CURVE_LINEAR;
    if (!dt_conf_given(conf, "scheduler.decay_type"))
        conf->scheduler.decay_type = DT_CURVE_COSINE;
    if (!dt_conf_given(conf, "scheduler.warmup_lr_rate"))
        conf->scheduler.warmup_lr_rate = deepspeed ? 0 : -1;
    if (!dt_conf_given(conf, "scheduler.warmup_max_lr"))
        conf->scheduler.warmup_max_lr = conf->optimizer.lr;
}

static const char *schedule_name(const struct dt_conf *conf)
{
    return dt_conf_word_of(&dt_conf_keys[dt_conf_key_find("scheduler.name")],
                           conf->scheduler.name);
}

/* Keys that only these names look at. */
static void warn_of_unused(struct dt_conf_draft *draft)
{
    static const struct {
        const char *path;
        unsigned names;
    } used[] = {
        {"scheduler.min_lr", ENDS},
        {"scheduler.min_lr_rate", ENDS},
        {"scheduler.num_cycles",
         BIT(COSINE) | BIT(COSINE_WITH_RESTARTS) | BIT(COSINE_WITH_MIN_LR) |
             BIT(COSINE_WARMUP_WITH_MIN_LR) | BIT(WARMUP_STABLE_DECAY)},
        {"scheduler.power", BIT(POLYNOMIAL)},
        {"scheduler.timescale", BIT(INVERSE_SQRT)},
        {"scheduler.decay_steps", BIT(WARMUP_STABLE_DECAY)},
        {"scheduler.stable_steps", BIT(WARMUP_STABLE_DECAY)},
        {"scheduler.decay_type", BIT(WARMUP_STABLE_DECAY)},
        {"scheduler.warmup_type", BIT(WARMUP_STABLE_DECAY) | DEEPSPEED},
        {"scheduler.warmup_lr_rate",
         BIT(COSINE_WARMUP_WITH_MIN_LR) | BIT(DS_WARMUP_COSINE)},
        {"scheduler.warmup_min_lr", BIT(DS_WARMUP) | BIT(DS_WARMUP_DECAY)},
        {"scheduler.warmup_max_lr", BIT(DS_WARMUP) | BIT(DS_WARMUP_DECAY)},
    };
    const struct dt_conf *conf = draft->conf;
    for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++)
        if (dt_conf_given(conf, used[i].path) &&
            !(used[i].names & 1u << conf->scheduler.name))
            WARNING(draft, used[i].path, "no effect with scheduler %s",
                    schedule_name(conf));
}

static void check_warmup(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    double steps = conf->scheduler.warmup_steps;
    double ratio = conf->scheduler.warmup_ratio;
    int curve = conf->scheduler.warmup_type;
    bool deepspeed = conf->scheduler.name >= DT_SCHEDULE_DS_WARMUP;
    if (steps > 0 && ratio > 0)
        PROBLEM(draft, "scheduler.warmup_ratio",
                "E107 warmup_steps is given too: remove one of them");
    if (steps >= 1 && steps != (double)(long)steps)
        PROBLEM(draft, "scheduler.warmup_steps",
                "expected an integer or a ratio in [0, 1), got %g", steps);
    if (deepspeed && steps == 0 && ratio == 0)
        PROBLEM(draft, "scheduler.warmup_steps",
                "%s needs at least 1 step of warm-up", schedule_name(conf));
    if (conf->training.max_steps > 0 &&
        steps > (double)conf->training.max_steps)
        WARNING(draft, "scheduler.warmup_steps",
                "E110 longer than the run of %ld steps",
                conf->training.max_steps);
    if (conf->scheduler.name == DT_SCHEDULE_CONSTANT &&
        (steps > 0 || ratio > 0))
        WARNING(draft,
                steps > 0 ? "scheduler.warmup_steps" : "scheduler.warmup_ratio",
                "no effect with scheduler constant: use constant_with_warmup");
    if (deepspeed && curve != DT_CURVE_LOG && curve != DT_CURVE_LINEAR)
        PROBLEM(draft, "scheduler.warmup_type",
                "only log and linear with scheduler %s", schedule_name(conf));
    if (conf->scheduler.name == DT_SCHEDULE_WARMUP_STABLE_DECAY &&
        curve == DT_CURVE_LOG)
        PROBLEM(draft, "scheduler.warmup_type",
                "log is for DeepSpeed's schedules only");
}

/* Where the rate ends, and how long it takes. */
static void check_end(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    int name = conf->scheduler.name;
    unsigned bit = 1u << name;
    double lr = conf->optimizer.lr, min_lr = conf->scheduler.min_lr;
    bool has_min = dt_conf_given(conf, "scheduler.min_lr");
    bool has_rate = dt_conf_given(conf, "scheduler.min_lr_rate");
    bool needs = name == DT_SCHEDULE_COSINE_WITH_MIN_LR ||
                 name == DT_SCHEDULE_COSINE_WARMUP_WITH_MIN_LR;
    if (needs && has_min == has_rate)
        PROBLEM(draft, "scheduler.name",
                "E108 %s needs exactly one of min_lr and min_lr_rate",
                schedule_name(conf));
    else if (has_min && has_rate)
        PROBLEM(draft, "scheduler.min_lr_rate",
                "E108 min_lr is given too: remove one of them");
    else if (bit & ENDS &&
             (min_lr > lr || (name == DT_SCHEDULE_POLYNOMIAL && min_lr == lr)))
        PROBLEM(draft, "scheduler.min_lr", "%g is %s optimizer.lr %g", min_lr,
                min_lr > lr ? "above" : "not below", lr);
    if (name == DT_SCHEDULE_WARMUP_STABLE_DECAY &&
        !dt_conf_given(conf, "scheduler.decay_steps"))
        PROBLEM(draft, "scheduler.name",
                "E108 warmup_stable_decay needs decay_steps");
    if (bit & (BIT(DS_WARMUP) | BIT(DS_WARMUP_DECAY)) &&
        conf->scheduler.warmup_min_lr > conf->scheduler.warmup_max_lr)
        PROBLEM(draft, "scheduler.warmup_min_lr",
                "%g is above the highest rate %g",
                conf->scheduler.warmup_min_lr, conf->scheduler.warmup_max_lr);
    char text[DT_CONF_MISFIT_BYTES];
    const char *key = conf->training.max_steps > 0
                          ? dt_conf_misfit(conf, conf->training.max_steps, text)
                          : NULL;
    if (key)
        PROBLEM(draft, key, "%s", text);
}

void dt_conf_check_schedule(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    if (conf->distributed.lr_scaling == DT_CONF_LR_AS_GIVEN &&
        conf->distributed.lr_scaling_ref_world != 1)
        WARNING(draft, "distributed.lr_scaling_ref_world",
                "no effect without lr_scaling");
    check_warmup(draft);
    check_end(draft);
    warn_of_unused(draft);
}

/* --- steps --- */

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
