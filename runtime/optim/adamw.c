/* SPDX-License-Identifier: Apache-2.0 */
/* adamw.c - AdamW on ranges of the flat buffers */
#include "config.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"

/* A unit of the flat buffer that is not empty. */
struct unit {
    size_t begin, end;
    double rate;
    size_t number; /* of its first element, for any number of ranks */
};

struct dt_optim {
    struct dt_exec exec;
    struct dt_optim_options options;
    struct dt_buffer *bounds_buf, *host_bounds_buf;
    struct dt_adamw adamw;
    struct unit *units;
    long steps;
};

static bool param_decays(const struct dt_param *param,
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

/* Writes the bounds of runs with and without decay (struct dt_adamw) to
 * bounds(param_count + 3) and returns their number. Padding between parameters
 * belongs to the run before it: its values are zero, and AdamW keeps them zero.
 */
static size_t find_runs(const struct dt_optim *optim,
                        const struct dt_layout *layout, int64_t *bounds)
{
    size_t count = 0;
    bool decaying = false;
    bounds[count++] = 0;
    for (size_t i = 0; i < layout->param_count; i++) {
        const struct dt_param *param = &layout->params[i];
        bool decay = optim->options.weight_decay != 0.0 &&
                     param_decays(param, &optim->options);
        if (decay != decaying)
            bounds[count++] = (int64_t)param->offset;
        decaying = decay;
    }
    bounds[count++] = (int64_t)layout->count;
    return count;
}

/* The runs, in host memory and on the device. */
static int allocate_runs(struct dt_optim *optim, const struct dt_layout *layout,
                         struct dt_error *err)
{
    const struct dt_exec *exec = &optim->exec;
    int64_t *bounds = calloc(layout->param_count + 3, sizeof(*bounds));
    if (!bounds)
        return dt_error_set(err, EX_OSERR, "out of memory");
    size_t bytes = find_runs(optim, layout, bounds) * sizeof(*bounds);
    optim->host_bounds_buf =
        dt_buffer_create(&dt_cpu, bytes, "AdamW's runs", err);
    optim->bounds_buf =
        dt_buffer_create(exec->device, bytes, "AdamW's runs", err);
    bool there = optim->host_bounds_buf && optim->bounds_buf;
    if (there)
        memcpy(optim->host_bounds_buf->data, bounds, bytes);
    free(bounds);
    return there ? exec->device->copy(exec->stream, optim->bounds_buf->data,
                                      optim->host_bounds_buf->data, bytes, err)
                 : -1;
}

/* The units, one after another. */
static int find_units(struct dt_optim *optim, const struct dt_layout *layout,
                      struct dt_error *err)
{
    struct unit *next = calloc(layout->unit_count + 1, sizeof(*next));
    if (!next)
        return dt_error_set(err, EX_OSERR, "out of memory");
    optim->units = next;
    for (size_t u = 0; u < layout->unit_count; u++) {
        const struct dt_unit *unit = &layout->units[u];
        const double rate = optim->options.rates[unit->part];
        if (unit->count > 0)
            *next++ = (struct unit){
                .begin = unit->offset,
                .end = unit->offset + unit->count,
                .rate = rate != 0 ? rate : 1,
                .number = dt_layout_number(layout, u),
            };
    }
    return 0;
}

void dt_optim_destroy(struct dt_optim *optim)
{
    if (!optim)
        return;
    free(optim->units);
    dt_buffer_destroy(optim->bounds_buf);
    dt_buffer_destroy(optim->host_bounds_buf);
    free(optim);
}

struct dt_optim *dt_optim_create(const struct dt_layout *layout,
                                 const struct dt_exec *exec,
                                 const struct dt_optim_options *options,
                                 struct dt_error *err)
{
    struct dt_optim *optim = calloc(1, sizeof(*optim));
    if (!optim) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    optim->exec = *exec;
    optim->options = *options;
    if (allocate_runs(optim, layout, err) < 0 ||
        find_units(optim, layout, err) < 0) {
        dt_optim_destroy(optim);
        return NULL;
    }
    optim->adamw = (struct dt_adamw){
        .beta1 = options->beta1,
        .beta2 = options->beta2,
        .eps = options->eps,
        .weight_decay = options->weight_decay,
        .coupled = options->coupled,
        .bounds = dt_view_of(optim->bounds_buf, DT_I64),
        .dither.seed = options->seed,
    };
    return optim;
}

struct dt_step_params dt_optim_step_params(const struct dt_optim *optim, long n,
                                           double lr)
{
    return (struct dt_step_params){
        .lr = lr,
        .bias1 = 1.0 - pow(optim->options.beta1, (double)n),
        .bias2 = 1.0 - pow(optim->options.beta2, (double)n),
    };
}

void dt_optim_begin(struct dt_optim *optim, uint64_t number)
{
    optim->adamw.dither.step = number;
}

/* A view that may be absent, or `count` elements of it. */
static struct dt_view cut(struct dt_view view, size_t first, size_t count)
{
    return view.count > 0 ? dt_view_slice(view, first, count) : view;
}

void dt_optim_update(const struct dt_optim *optim, bool on_host,
                     struct dt_view step, size_t first, struct dt_view master,
                     struct dt_view weights, struct dt_view grads,
                     struct dt_view m, struct dt_view v,
                     const struct dt_undo *undo)
{
    const struct dt_exec exec = on_host ? dt_exec_cpu() : optim->exec;
    const struct unit *unit = optim->units;
    struct dt_adamw adamw = optim->adamw;
    adamw.undo = undo;
    if (on_host)
        adamw.bounds = dt_view_of(optim->host_bounds_buf, DT_I64);
    for (size_t at = 0, count; at < master.count; at += count) {
        while (unit->end <= first + at)
            unit++;
        count = unit->end - first - at;
        if (count > master.count - at)
            count = master.count - at;
        assert(!undo || count == master.count);
        adamw.rate = unit->rate;
        adamw.first = first + at;
        adamw.dither.first = unit->number + adamw.first - unit->begin;
        exec.ops->adamw(exec.stream, step, cut(master, at, count),
                        cut(weights, at, count), cut(grads, at, count),
                        cut(m, at, count), cut(v, at, count), &adamw);
    }
}

long dt_optim_steps(const struct dt_optim *optim)
{
    return optim->steps;
}

void dt_optim_set_steps(struct dt_optim *optim, long steps)
{
    optim->steps = steps;
}
