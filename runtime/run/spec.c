/* SPDX-License-Identifier: Apache-2.0 */
/* spec.c - sizes that follow from the specification of a run */
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "run/spec.h"

enum { DEVICE_LENGTH_STEP = 128 }; /* tokens: tiles of attention */

void dt_spec_fini(struct dt_spec *spec)
{
    dt_learner_spec_fini(&spec->critic);
    dt_learner_spec_fini(&spec->learner);
    dt_nodes_fini(&spec->nodes);
}

/* Each new length costs a GPU graph and autotuning, so there should be few. */
size_t dt_spec_length_step(const struct dt_spec *spec)
{
    const struct dt_conf *conf = &spec->conf;
    bool given = dt_conf_given(conf, "data.pad_to_multiple_of");
    return given || spec->exec.device->is_host
               ? (size_t)conf->data.pad_to_multiple_of
               : DEVICE_LENGTH_STEP;
}

double dt_spec_samples_of_step(const struct dt_spec *spec)
{
    return spec->algo->advantages
               ? (double)spec->sampling.groups / (double)spec->sampling.uses
               : (double)(spec->B * spec->A * (size_t)spec->world);
}

long dt_spec_count_steps(const struct dt_spec *spec, uint64_t samples)
{
    const struct dt_conf *conf = &spec->conf;
    double all = conf->training.epochs * (double)samples;
    if (spec->algo->critic_loss && conf->ppo.total_episodes > 0)
        all = (double)conf->ppo.total_episodes;
    return conf->training.max_steps > 0
               ? conf->training.max_steps
               : (long)ceil(all / dt_spec_samples_of_step(spec));
}
