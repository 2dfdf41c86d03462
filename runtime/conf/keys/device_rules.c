/* SPDX-License-Identifier: Apache-2.0 */
/* device_rules.c - resolves keys by the device, and refuses what it cannot do
 */
#include "config.h"

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

static void set_key(struct dt_conf *conf, const char *path, int *field,
                    int value)
{
    struct dt_conf_place *place = &conf->place[dt_conf_key_find(path)];
    *field = value;
    if (place->line <= 0)
        place->line = -1;
}

static void settle_precision(struct dt_conf *conf, int device)
{
    if (conf->precision.compute == DT_CONF_AUTO_DTYPE &&
        device != DT_CONF_AUTO_DEVICE)
        set_key(conf, "precision.compute", &conf->precision.compute,
                device == DT_CONF_CUDA ? DT_CONF_BF16 : DT_CONF_FP32);
    if (conf->precision.reduce_bf16 == DT_CONF_REDUCE_COMPUTE &&
        conf->precision.compute != DT_CONF_AUTO_DTYPE)
        conf->precision.reduce_bf16 = conf->precision.compute == DT_CONF_BF16;
}

void dt_conf_derive_device(struct dt_conf_draft *draft)
{
    settle_precision(draft->conf, draft->conf->run.device);
}

void dt_conf_check_device(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    struct clash clash = find_clash(conf, conf->run.device);
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
    settle_precision(conf, device);
    struct clash clash = find_clash(conf, device);
    if (clash.path)
        return dt_conf_error_set(conf, clash.path, err, "%s", clash.text);
    set_key(conf, "run.device", &conf->run.device, (int)device);
    set_key(conf, "distributed.backend", &conf->distributed.backend,
            device == DT_CONF_CUDA ? DT_CONF_NCCL : DT_CONF_GLOO);
    if (dt_conf_fingerprint(conf) < 0)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", conf->file);
    return 0;
}
