/* SPDX-License-Identifier: Apache-2.0 */
/* numerics.c - rules of the sections scheduler, optimizer and precision */
#include "config.h"

#include <math.h>

#include "conf/read.h"

static bool given(const struct dt_conf_reader *reader, const char *path)
{
    return dt_conf_given(reader->conf, path);
}

static struct dt_conf_place *place_of(struct dt_conf_reader *reader,
                                      const char *path)
{
    return &reader->conf->place[dt_conf_key_find(path)];
}

/* opt_level is another spelling of compute. */
static void settle_opt_level(struct dt_conf_reader *reader)
{
    struct dt_conf *conf = reader->conf;
    struct dt_conf_place *level = place_of(reader, "precision.opt_level");
    struct dt_conf_place *compute = place_of(reader, "precision.compute");
    if (level->line <= 0)
        return;
    if (compute->line > 0 &&
        conf->precision.compute != conf->precision.opt_level)
        PROBLEM(reader, "precision.opt_level",
                "E104 means %s, but precision.compute in line %d says "
                "otherwise: remove one of them",
                conf->precision.opt_level == DT_CONF_FP32 ? "fp32" : "fp16",
                compute->line);
    conf->precision.compute = conf->precision.opt_level;
    *compute = *level;
    level->line = 0;
}

static void settle_scaler(struct dt_conf_reader *reader)
{
    static const char *const deepspeed[] = {
        "precision.initial_scale_power",
        "precision.loss_scale_window",
        "precision.hysteresis",
        "precision.min_loss_scale",
        "precision.consecutive_hysteresis",
    };
    int *scaler = &reader->conf->precision.loss_scaler;
    if (*scaler != DT_CONF_AUTO_SCALER)
        return;
    *scaler = DT_CONF_SCALER_TORCH;
    for (size_t i = 0; i < sizeof(deepspeed) / sizeof(deepspeed[0]); i++)
        if (given(reader, deepspeed[i]))
            *scaler = DT_CONF_SCALER_DEEPSPEED;
    if (reader->conf->precision.loss_scale > 0)
        *scaler = DT_CONF_SCALER_STATIC;
    place_of(reader, "precision.loss_scaler")->line = -1;
}

void dt_conf_derive_numerics(struct dt_conf_reader *reader)
{
    struct dt_conf *conf = reader->conf;
    settle_opt_level(reader);
    settle_scaler(reader);
    if (conf->precision.reduce_bf16 == DT_CONF_REDUCE_COMPUTE)
        conf->precision.reduce_bf16 = conf->precision.compute == DT_CONF_BF16;
    if (given(reader, "scheduler.min_lr_rate") &&
        !given(reader, "scheduler.min_lr"))
        conf->scheduler.min_lr =
            conf->scheduler.min_lr_rate * conf->optimizer.lr;
}

static void check_precision(struct dt_conf_reader *reader)
{
    const struct dt_conf *conf = reader->conf;
    double start = ldexp(1, (int)conf->precision.initial_scale_power);
    bool is_static = conf->precision.loss_scaler == DT_CONF_SCALER_STATIC;
    if (is_static && conf->precision.loss_scale == 0)
        PROBLEM(reader, "precision.loss_scaler",
                "static needs precision.loss_scale");
    if (!is_static && conf->precision.loss_scale > 0)
        PROBLEM(reader, "precision.loss_scale",
                "a scale that is given is static: remove it, or loss_scaler");
    if (conf->precision.loss_scale > 0 &&
        conf->precision.compute != DT_CONF_FP16)
        WARNING(reader, "precision.loss_scale",
                "no effect: losses are scaled in fp16 only");
    if (conf->precision.loss_scaler == DT_CONF_SCALER_DEEPSPEED &&
        conf->precision.min_loss_scale > start)
        PROBLEM(reader, "precision.min_loss_scale",
                "%g is above 2^%ld, where the scale begins",
                conf->precision.min_loss_scale,
                conf->precision.initial_scale_power);
}

static void check_schedule(struct dt_conf_reader *reader)
{
    const struct dt_conf *conf = reader->conf;
    bool has_min = given(reader, "scheduler.min_lr");
    bool has_rate = given(reader, "scheduler.min_lr_rate");
    double steps = conf->scheduler.warmup_steps;
    if (steps > 0 && conf->scheduler.warmup_ratio > 0)
        PROBLEM(reader, "scheduler.warmup_ratio",
                "E107 warmup_steps is given "
                "too: remove one of them");
    if (steps >= 1 && steps != (double)(long)steps)
        PROBLEM(reader, "scheduler.warmup_steps",
                "expected an integer or a "
                "ratio in [0, 1), got %g",
                steps);
    if (conf->training.max_steps > 0 &&
        steps > (double)conf->training.max_steps)
        WARNING(reader, "scheduler.warmup_steps",
                "E110 longer than the run "
                "of %ld steps",
                conf->training.max_steps);
    if (conf->scheduler.name == DT_CONF_CONSTANT &&
        (steps > 0 || conf->scheduler.warmup_ratio > 0))
        WARNING(reader,
                steps > 0 ? "scheduler.warmup_steps" : "scheduler.warmup_ratio",
                "no effect with scheduler constant: use constant_with_warmup");
    if (conf->scheduler.name != DT_CONF_COSINE_WITH_MIN_LR) {
        if (has_min || has_rate)
            WARNING(reader,
                    has_min ? "scheduler.min_lr" : "scheduler.min_lr_rate",
                    "no effect: only cosine_with_min_lr has a minimum");
    } else if (has_min == has_rate) {
        PROBLEM(reader, "scheduler.name",
                "E108 cosine_with_min_lr needs "
                "exactly one of min_lr and min_lr_rate");
    } else if (conf->scheduler.min_lr > conf->optimizer.lr) {
        PROBLEM(reader, "scheduler.min_lr", "%g is above optimizer.lr %g",
                conf->scheduler.min_lr, conf->optimizer.lr);
    }
}

void dt_conf_check_numerics(struct dt_conf_reader *reader)
{
    const struct dt_conf *conf = reader->conf;
    if (conf->distributed.lr_scaling == DT_CONF_LR_AS_GIVEN &&
        conf->distributed.lr_scaling_ref_world != 1)
        WARNING(reader, "distributed.lr_scaling_ref_world",
                "no effect without lr_scaling");
    check_precision(reader);
    check_schedule(reader);
}
