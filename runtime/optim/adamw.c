/* SPDX-License-Identifier: Apache-2.0 */
/* adamw.c - AdamW over the flat buffers, and clipping by the global norm */
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "optim/optim.h"

/* Neighbouring parameters with the same weight decay, updated in one call. */
struct run {
    size_t first, count;
    bool decay;
};

struct dt_optim {
    const struct dt_ops *ops;
    struct dt_optim_options options;
    struct dt_buffer *m_buf, *v_buf;
    struct dt_view m, v;
    struct run *runs;
    size_t run_count;
    long steps; /* n of the formula: steps taken so far */
};

static bool decays(const struct dt_param *param,
                   const struct dt_optim_options *options)
{
    switch (options->decay_filter) {
    case DT_DECAY_HF:
        return param->decay;
    case DT_DECAY_NDIM2:
        return param->ndim >= 2;
    case DT_DECAY_ALL:
        return true;
    case DT_DECAY_NONE:
        break;
    }
    return false;
}

/* Padding between parameters joins the run before it: all its values are zero
 * and AdamW keeps them zero.
 */
static void find_runs(struct dt_optim *optim, const struct dt_layout *layout)
{
    for (size_t i = 0; i < layout->param_count; i++) {
        const struct dt_param *param = &layout->params[i];
        bool decay = optim->options.weight_decay != 0.0 &&
                     decays(param, &optim->options);
        struct run *last = &optim->runs[optim->run_count];
        if (optim->run_count == 0 || last[-1].decay != decay) {
            *last = (struct run){param->offset, 0, decay};
            optim->run_count++;
            last++;
        }
        last[-1].count = param->offset + param->count - last[-1].first;
    }
}

void dt_optim_destroy(struct dt_optim *optim)
{
    if (!optim)
        return;
    dt_buffer_destroy(optim->m_buf);
    dt_buffer_destroy(optim->v_buf);
    free(optim->runs);
    free(optim);
}

struct dt_optim *dt_optim_create(const struct dt_layout *layout,
                                 const struct dt_ops *ops,
                                 const struct dt_optim_options *options,
                                 struct dt_error *err)
{
    size_t bytes = layout->count * sizeof(float);
    struct dt_optim *optim = calloc(1, sizeof(*optim));
    if (!optim) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    optim->ops = ops;
    optim->options = *options;
    optim->runs = calloc(layout->param_count, sizeof(*optim->runs));
    if (!optim->runs) {
        dt_error_set(err, EX_OSERR, "out of memory");
        goto error;
    }
    if (!(optim->m_buf = dt_buffer_create(bytes, "AdamW's m", err)) ||
        !(optim->v_buf = dt_buffer_create(bytes, "AdamW's v", err)))
        goto error;
    optim->m = dt_view_of(optim->m_buf, DT_F32);
    optim->v = dt_view_of(optim->v_buf, DT_F32);
    find_runs(optim, layout);
    return optim;
error:
    dt_optim_destroy(optim);
    return NULL;
}

double dt_optim_grad_norm(const struct dt_optim *optim, struct dt_view grads,
                          double grad_scale)
{
    return grad_scale * sqrt(optim->ops->sum_of_squares(NULL, grads));
}

double dt_optim_clip(double norm, double max_norm)
{
    double coef = max_norm / (norm + 1e-6);
    return max_norm > 0.0 && coef < 1.0 ? coef : 1.0;
}

void dt_optim_step(struct dt_optim *optim, struct dt_view master,
                   struct dt_view weights, struct dt_view grads, double lr,
                   double grad_scale)
{
    const struct dt_optim_options *options = &optim->options;
    long n = ++optim->steps;
    struct dt_adamw args = {
        .lr = lr,
        .beta1 = options->beta1,
        .beta2 = options->beta2,
        .eps = options->eps,
        .grad_scale = grad_scale,
        .bias1 = 1.0 - pow(options->beta1, (double)n),
        .bias2 = 1.0 - pow(options->beta2, (double)n),
        .coupled = options->coupled,
    };
    for (size_t i = 0; i < optim->run_count; i++) {
        const struct run *run = &optim->runs[i];
        args.weight_decay = run->decay ? options->weight_decay : 0.0;
        struct dt_view copy = weights;
        if (copy.count > 0)
            copy = dt_view_slice(weights, run->first, run->count);
        optim->ops->adamw(NULL, dt_view_slice(master, run->first, run->count),
                          copy, dt_view_slice(grads, run->first, run->count),
                          dt_view_slice(optim->m, run->first, run->count),
                          dt_view_slice(optim->v, run->first, run->count),
                          &args);
    }
}

struct dt_view dt_optim_m(const struct dt_optim *optim)
{
    return optim->m;
}

struct dt_view dt_optim_v(const struct dt_optim *optim)
{
    return optim->v;
}

long dt_optim_steps(const struct dt_optim *optim)
{
    return optim->steps;
}

void dt_optim_set_steps(struct dt_optim *optim, long steps)
{
    optim->steps = steps;
}
