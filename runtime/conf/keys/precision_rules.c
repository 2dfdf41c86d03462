/* SPDX-License-Identifier: Apache-2.0 */
/* precision_rules.c - the types of a run, and what its device supports */
#include "config.h"

#include <math.h>

#include "conf/keys/draft.h"

/* A key that the device does not support, and why. */
struct clash {
    const char *path; /* NULL: no clash */
    const char *text;
};

static struct clash find_clash(const struct dt_conf *conf, int device)
{
    struct clash none = {NULL, NULL};
    if (device == DT_CONF_CPU && conf->distributed.backend == DT_CONF_NCCL)
        return (struct clash){"distributed.backend",
                              "E131 nccl connects GPUs, and run.device is "
                              "cpu: write gloo or auto"};
    if (device == DT_CONF_CUDA && conf->distributed.backend == DT_CONF_GLOO)
        return (struct clash){"distributed.backend",
                              "E131 gloo connects CPUs, and run.device is "
                              "cuda: write nccl or auto"};
    if (device == DT_CONF_CPU && conf->model.attention == DT_ATTENTION_FLASH)
        return (struct clash){"model.attention",
                              "flash is for GPUs, and run.device is cpu: "
                              "write auto"};
    if (device != DT_CONF_CPU && conf->model.attention == DT_ATTENTION_FLASH &&
        conf->precision.compute == DT_CONF_FP32)
        return (struct clash){"model.attention",
                              "flash computes in bf16 and fp16, and "
                              "precision.compute is fp32: write auto"};
    return none;
}

/* Weights in bf16 are those that passes read. */
static void settle_state(struct dt_conf *conf)
{
    const bool bf16 = conf->optimizer.state_dtype == DT_CONF_BF16;
    if (bf16 && conf->precision.compute == DT_CONF_AUTO_DTYPE) {
        dt_conf_is_left(conf, "precision.compute");
        conf->precision.compute = DT_CONF_BF16;
    }
    if (conf->precision.grad_accum_dtype == DT_CONF_AUTO_DTYPE) {
        dt_conf_is_left(conf, "precision.grad_accum_dtype");
        conf->precision.grad_accum_dtype = conf->optimizer.state_dtype;
    }
}

static void settle_compute(struct dt_conf *conf, int device)
{
    settle_state(conf);
    if (conf->precision.compute == DT_CONF_AUTO_DTYPE &&
        device != DT_CONF_AUTO_DEVICE) {
        dt_conf_is_left(conf, "precision.compute");
        conf->precision.compute =
            device == DT_CONF_CUDA ? DT_CONF_BF16 : DT_CONF_FP32;
    }
    if (conf->precision.reduce_bf16 == DT_CONF_REDUCE_COMPUTE &&
        conf->precision.compute != DT_CONF_AUTO_DTYPE)
        conf->precision.reduce_bf16 = conf->precision.compute == DT_CONF_BF16;
}

/* opt_level is another spelling of compute. */
static void settle_opt_level(struct dt_conf_draft *draft)
{
    struct dt_conf *conf = draft->conf;
    struct dt_conf_place *level =
        dt_conf_place_for(conf, "precision.opt_level");
    struct dt_conf_place *compute =
        dt_conf_place_for(conf, "precision.compute");
    if (level->line <= 0)
        return;
    if (compute->line > 0 && conf->precision.compute != DT_CONF_AUTO_DTYPE &&
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
    dt_conf_is_left(draft->conf, "precision.loss_scaler");
    *scaler = DT_SCALER_TORCH;
    for (size_t i = 0; i < sizeof(deepspeed) / sizeof(deepspeed[0]); i++)
        if (dt_conf_given(draft->conf, deepspeed[i]))
            *scaler = DT_SCALER_DEEPSPEED;
    if (draft->conf->precision.loss_scale > 0)
        *scaler = DT_SCALER_STATIC;
}

void dt_conf_derive_precision(struct dt_conf_draft *draft)
{
    settle_opt_level(draft);
    settle_scaler(draft);
    settle_compute(draft->conf, draft->conf->run.device);
}

static void check_scaler(struct dt_conf_draft *draft)
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

static void check_state(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    if (conf->optimizer.state_dtype == DT_CONF_BF16 &&
        conf->precision.compute != DT_CONF_BF16)
        PROBLEM(draft, "optimizer.state_dtype",
                "bf16 are the weights that passes read, so it needs "
                "precision.compute: bf16");
    if (conf->precision.grad_accum_dtype == DT_CONF_BF16 &&
        conf->distributed.reduce_each_micro_step == DT_CONF_FALSE)
        PROBLEM(draft, "distributed.reduce_each_micro_step",
                "gradients that are summed in bf16 are reduced in each "
                "micro-batch: remove it, or write precision.grad_accum_dtype: "
                "fp32");
}

void dt_conf_check_precision(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    struct clash clash = find_clash(conf, conf->run.device);
    check_scaler(draft);
    check_state(draft);
    if (clash.path)
        PROBLEM(draft, clash.path, "%s", clash.text);
    if (conf->precision.tf32 && conf->run.device == DT_CONF_CPU)
        WARNING(draft, "precision.tf32", "no effect on cpu");
    else if (conf->precision.tf32 && (conf->precision.compute == DT_CONF_BF16 ||
                                      conf->precision.compute == DT_CONF_FP16))
        WARNING(draft, "precision.tf32",
                "no effect: it is about fp32 matrix multiplications");
}

int dt_conf_resolve_device(struct dt_conf *conf, enum dt_conf_device device,
                           struct dt_error *err)
{
    settle_compute(conf, device);
    struct clash clash = find_clash(conf, device);
    if (clash.path)
        return dt_conf_error_set(conf, clash.path, err, "%s", clash.text);
    dt_conf_is_left(conf, "run.device");
    dt_conf_is_left(conf, "distributed.backend");
    conf->run.device = (int)device;
    conf->distributed.backend =
        device == DT_CONF_CUDA ? DT_CONF_NCCL : DT_CONF_GLOO;
    if (dt_conf_fingerprint(conf) < 0)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", conf->file);
    return 0;
}
