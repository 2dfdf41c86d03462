/* SPDX-License-Identifier: Apache-2.0 */
/* numerics.c - learning rates and loss scale from the configuration */
#include "config.h"

#include <math.h>
#include <stdio.h>

#include "run/numerics.h"

double dt_run_lr_factor(const struct dt_conf *conf, int world)
{
    double ratio =
        (double)world / (double)conf->distributed.lr_scaling_ref_world;
    switch (conf->distributed.lr_scaling) {
    case DT_CONF_LR_LINEAR:
        return ratio;
    case DT_CONF_LR_SQRT:
        return sqrt(ratio);
    default:
        return 1.0;
    }
}

struct dt_schedule dt_run_schedule(const struct dt_conf *conf, int world,
                                   long total)
{
    double factor = dt_run_lr_factor(conf, world);
    long warmup = (long)conf->scheduler.warmup_steps;
    double lr = conf->optimizer.lr, rate = conf->scheduler.warmup_lr_rate;
    double warmup_lr = lr * (rate < 0 ? 1.0 / fmax(1.0, (double)warmup) : rate);
    if (conf->scheduler.name == DT_SCHEDULE_DS_WARMUP ||
        conf->scheduler.name == DT_SCHEDULE_DS_WARMUP_DECAY) {
        lr = conf->scheduler.warmup_max_lr;
        warmup_lr = conf->scheduler.warmup_min_lr;
    }
    return (struct dt_schedule){
        .name = conf->scheduler.name,
        .lr = factor * lr,
        .min_lr = factor * conf->scheduler.min_lr,
        .warmup_lr = factor * warmup_lr,
        .num_cycles = conf->scheduler.num_cycles,
        .power = conf->scheduler.power,
        .warmup = warmup,
        .total = total,
        .stable = conf->scheduler.stable_steps,
        .decay = conf->scheduler.decay_steps,
        .timescale = conf->scheduler.timescale,
        .warmup_curve = conf->scheduler.warmup_type,
        .decay_curve = conf->scheduler.decay_type,
    };
}

void dt_run_schedule_note(const struct dt_schedule *schedule, long max_steps,
                          char *text, size_t bytes)
{
    bool told = max_steps > 0 && schedule->warmup > max_steps;
    long warmup = schedule->warmup, total = schedule->total, k = 0;
    text[0] = '\0';
    while (k < total && dt_schedule_lr(schedule, k) <= 0)
        k++;
    if (k == total)
        snprintf(text, bytes,
                 "E110 the model will not change: the run ends at step %ld "
                 "of %ld of the warm-up, and its learning rate is always 0; "
                 "train for more steps or lower scheduler.warmup_steps",
                 total, warmup);
    else if (!told && warmup >= total && schedule->name != DT_SCHEDULE_CONSTANT)
        snprintf(text, bytes,
                 "E110 the run ends after %ld of %ld steps of warm-up", total,
                 warmup);
}

enum dt_dtype dt_run_dtype(int dtype)
{
    static const enum dt_dtype types[] = {
        [DT_CONF_FP32] = DT_F32,
        [DT_CONF_BF16] = DT_BF16,
        [DT_CONF_FP16] = DT_F16,
        [DT_CONF_AUTO_DTYPE] = DT_F32, /* on the cpu */
    };
    return types[dtype];
}

struct dt_scaler dt_run_scaler(const struct dt_conf *conf)
{
    struct dt_scaler_options options = {
        .kind = conf->precision.loss_scaler,
        .scale = ldexp(1.0, (int)conf->precision.initial_scale_power),
        .window = conf->precision.loss_scale_window,
        .hysteresis = conf->precision.hysteresis,
        .consecutive_hysteresis = conf->precision.consecutive_hysteresis,
        .min_scale = conf->precision.min_loss_scale,
    };
    if (options.kind == DT_SCALER_TORCH)
        options.window = conf->precision.growth_interval;
    if (options.kind == DT_SCALER_STATIC)
        options.scale = conf->precision.loss_scale;
    if (conf->precision.compute != DT_CONF_FP16)
        options = (struct dt_scaler_options){.scale = 1.0};
    return dt_scaler_init(&options);
}

void dt_run_lr_note(const struct dt_conf *conf, int world, char *text,
                    size_t bytes)
{
    static const char *const rules[] = {
        [DT_CONF_LR_LINEAR] = "linear", [DT_CONF_LR_SQRT] = "sqrt"};
    const char *rule = rules[conf->distributed.lr_scaling];
    double factor = dt_run_lr_factor(conf, world);
    long ref = conf->distributed.lr_scaling_ref_world;
    text[0] = '\0';
    if (!rule)
        return;
    int n = snprintf(text, bytes, "lr %g x %g (%s, world %d",
                     conf->optimizer.lr, factor, rule, world);
    if (ref != 1)
        n += snprintf(text + n, bytes - (size_t)n, " instead of %ld", ref);
    snprintf(text + n, bytes - (size_t)n, ") = %g",
             conf->optimizer.lr * factor);
}
