/* SPDX-License-Identifier: Apache-2.0 */
/* scaler.c - the loss scale, which keeps fp16 gradients in range */
#include "config.h"

#include <float.h>

#include "optim/optim.h"

struct dt_scaler dt_scaler_init(const struct dt_scaler_options *options)
{
    return (struct dt_scaler){
        .options = *options,
        .scale = options->scale,
        .last_overflow = -1,
        .hysteresis = options->hysteresis,
    };
}

/* A scale that fp32 cannot hold would make every loss infinite. */
static void double_scale(struct dt_scaler *s)
{
    if (s->scale <= FLT_MAX / 2)
        s->scale *= 2.0;
}

/* DeepSpeed's DynamicLossScaler: halving does not reset the hysteresis, so
 * after the first one every overflow halves until a window is complete.
 */
static int update_deepspeed(struct dt_scaler *s, bool overflow,
                            struct dt_error *err)
{
    long clean = s->steps - s->last_overflow - 1;
    double half = s->scale / 2.0;
    if (!overflow && s->options.consecutive_hysteresis)
        s->hysteresis = s->options.hysteresis;
    if (!overflow && clean > 0 && clean % s->options.window == 0) {
        s->hysteresis = s->options.hysteresis;
        double_scale(s);
    }
    if (!overflow)
        return 0;
    if (s->hysteresis > 1) {
        s->hysteresis--;
        return 0;
    }
    if (s->scale == s->options.min_scale)
        return dt_error_set(err, EX_DATAERR,
                            "loss scale already at its minimum %g: lower "
                            "optimizer.lr, use precision.compute bf16, or look "
                            "at the data of this step",
                            s->scale);
    s->scale = half > s->options.min_scale ? half : s->options.min_scale;
    return 0;
}

/* torch.amp.GradScaler: after each growth it counts clean steps from 0 again.
 */
static void update_torch(struct dt_scaler *s, bool overflow)
{
    if (overflow)
        s->scale /= 2.0;
    else if ((s->steps - s->last_overflow) % s->options.window == 0)
        double_scale(s);
}

int dt_scaler_update(struct dt_scaler *s, bool overflow, struct dt_error *err)
{
    int rc = 0;
    if (s->options.kind == DT_SCALER_DEEPSPEED)
        rc = update_deepspeed(s, overflow, err);
    else if (s->options.kind == DT_SCALER_TORCH)
        update_torch(s, overflow);
    if (overflow)
        s->last_overflow = s->steps;
    s->steps++;
    return rc;
}
