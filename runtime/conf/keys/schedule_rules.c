/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_rules.c - rules of the sections scheduler, optimizer and precision
 */
#include "config.h"

#include <math.h>

#include "conf/keys/draft.h"

#define BIT(name) (1u << DT_SCHEDULE_##name)
#define DEEPSPEED                                                              \
    (BIT(DS_WARMUP) | BIT(DS_WARMUP_DECAY) | BIT(DS_WARMUP_COSINE))
/* Those that end at min_lr. */
#define ENDS                                                                   \
    (BIT(COSINE_WITH_MIN_LR) | BIT(COSINE_WARMUP_WITH_MIN_LR) |                \
     BIT(POLYNOMIAL) | BIT(WARMUP_STABLE_DECAY) | BIT(NANOGPT) |               \
     BIT(DS_WARMUP_COSINE))

static bool given(const struct dt_conf_draft *draft, const char *path)
{
    return dt_conf_given(draft->conf, path);
}

static struct dt_conf_place *place_of(struct dt_conf_draft *draft,
                                      const char *path)
{
    return &draft->conf->place[dt_conf_key_find(path)];
}

/* opt_level is another spelling of compute. */
static void settle_opt_level(struct dt_conf_draft *draft)
{
    struct dt_conf *conf = draft->conf;
    struct dt_conf_place *level = place_of(draft, "precision.opt_level");
    struct dt_conf_place *compute = place_of(draft, "precision.compute");
    if (level->line <= 0)
        return;
    if (compute->line > 0 &&
        conf->precision.compute != conf->precision.opt_level)
        PROBLEM(draft, "precision.opt_level",
                "E104 means %s, but precision.compute in %s says "
                "otherwise: remove one of them",
                conf->precision.opt_level == DT_CONF_FP32 ? "fp32" : "fp16",
                dt_conf_where(&draft->problems, *compute, *level));
    conf->precision.compute = conf->precision.opt_level;
    *compute = *level;
    level->line = 0;
}

static void settle_scaler(struct dt_conf_draft *draft)
{
    static const char *const deepspeed[] = {
        "precision.initial_scale_power",
        "precision.loss_scale_window",
        "precision.hysteresis",
        "precision.min_loss_scale",
        "precision.consecutive_hysteresis",
    };
    int *scaler = &draft->conf->precision.loss_scaler;
    if (*scaler != DT_CONF_AUTO_SCALER)
        return;
    *scaler = DT_SCALER_TORCH;
    for (size_t i = 0; i < sizeof(deepspeed) / sizeof(deepspeed[0]); i++)
        if (given(draft, deepspeed[i]))
            *scaler = DT_SCALER_DEEPSPEED;
    if (draft->conf->precision.loss_scale > 0)
        *scaler = DT_SCALER_STATIC;
    place_of(draft, "precision.loss_scaler")->line = -1;
}

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

/* The defaults that depend on the name. */
static void derive_schedule(struct dt_conf_draft *draft)
{
    struct dt_conf *conf = draft->conf;
    int name = conf->scheduler.name;
    bool deepspeed = name >= DT_SCHEDULE_DS_WARMUP;
    if (given(draft, "scheduler.min_lr_rate") &&
        !given(draft, "scheduler.min_lr"))
        conf->scheduler.min_lr =
            conf->scheduler.min_lr_rate * conf->optimizer.lr;
    else if (!given(draft, "scheduler.min_lr"))
        conf->scheduler.min_lr = default_min_lr(conf);
    if (deepspeed && !given(draft, "scheduler.warmup_steps") &&
        !given(draft, "scheduler.warmup_ratio")) {
        conf->scheduler.warmup_steps = 1000;
        place_of(draft, "scheduler.warmup_steps")->line = -1;
    }
    if (!given(draft, "scheduler.num_cycles"))
        conf->scheduler.num_cycles =
            name == DT_SCHEDULE_COSINE_WITH_RESTARTS ? 1 : 0.5;
    if (!given(draft, "scheduler.power"))
        conf->scheduler.power = 1;
    if (!given(draft, "scheduler.warmup_type"))
        conf->scheduler.warmup_type =
            deepspeed ? DT_CURVE_LOG : DT_CURVE_LINEAR;
    if (!given(draft, "scheduler.decay_type"))
        conf->scheduler.decay_type = DT_CURVE_COSINE;
    if (!given(draft, "scheduler.warmup_lr_rate"))
        conf->scheduler.warmup_lr_rate = deepspeed ? 0 : -1;
    if (!given(draft, "scheduler.warmup_max_lr"))
        conf->scheduler.warmup_max_lr = conf->optimizer.lr;
}

void dt_conf_derive_numerics(struct dt_conf_draft *draft)
{
    settle_opt_level(draft);
    settle_scaler(draft);
    derive_schedule(draft);
}

static void check_precision(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    double start = ldexp(1, (int)conf->precision.initial_scale_power);
    bool is_static = conf->precision.loss_scaler == DT_SCALER_STATIC;
    if (is_static && conf->precision.loss_scale == 0)
        PROBLEM(draft, "precision.loss_scaler",
                "static needs precision.loss_scale");
    if (!is_static && conf->precision.loss_scale > 0)
        PROBLEM(draft, "precision.loss_scale",
                "a scale that is given is static: remove it, or loss_scaler");
    if (conf->precision.loss_scale > 0 &&
        conf->precision.compute != DT_CONF_FP16)
        WARNING(draft, "precision.loss_scale",
                "no effect: losses are scaled in fp16 only");
    if (conf->precision.loss_scaler == DT_SCALER_DEEPSPEED &&
        conf->precision.min_loss_scale > start)
        PROBLEM(draft, "precision.min_loss_scale",
                "%g is above 2^%ld, where the scale starts",
                conf->precision.min_loss_scale,
                conf->precision.initial_scale_power);
}

static const char *schedule_name(const struct dt_conf *conf)
{
    const struct dt_conf_word *word =
        dt_conf_keys[dt_conf_key_find("scheduler.name")].words;
    while (word->value != conf->scheduler.name)
        word++;
    return word->name;
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
        if (given(draft, used[i].path) &&
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
    bool has_min = given(draft, "scheduler.min_lr");
    bool has_rate = given(draft, "scheduler.min_lr_rate");
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
        !given(draft, "scheduler.decay_steps"))
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

void dt_conf_check_numerics(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    if (conf->distributed.lr_scaling == DT_CONF_LR_AS_GIVEN &&
        conf->distributed.lr_scaling_ref_world != 1)
        WARNING(draft, "distributed.lr_scaling_ref_world",
                "no effect without lr_scaling");
    check_precision(draft);
    check_warmup(draft);
    check_end(draft);
    warn_of_unused(draft);
}
