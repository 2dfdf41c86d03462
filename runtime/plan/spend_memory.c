/* SPDX-License-Identifier: Apache-2.0 */
/* spend_memory.c - spends remaining GPU memory on speed */
#include "config.h"

#include "plan/plan.h"

/* Takes the options if the run then fits into `left` bytes. */
static void take_if_it_fits(const struct dt_spec *spec,
                            struct dt_model_options *options,
                            const struct dt_model_options *more, size_t left)
{
    struct dt_plan plan = dt_plan_make(spec, more);
    if (dt_plan_total(&plan) <= left)
        *options = *more;
}

void dt_plan_spend(const struct dt_spec *spec, struct dt_model_options *options,
                   size_t left)
{
    struct dt_model_options more;
    options->save_activations = options->whole_head = false;
    if (spec->exec.device->is_host || spec->conf.run.deterministic)
        return;
    more = *options;
    more.save_activations = !options->recompute;
    take_if_it_fits(spec, options, &more, left);
    more = *options;
    more.whole_head = true;
    take_if_it_fits(spec, options, &more, left);
}
