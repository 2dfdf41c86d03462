/* SPDX-License-Identifier: Apache-2.0 */
/* flops.c - counts operations, and knows data sheets */
#include "config.h"

#include <math.h>
#include <string.h>

#include "run/data.h"
#include "run/flops.h"

/* Longer names before those that they begin with. */
static const struct dt_peak peaks[] = {
    {"NVIDIA A100", 312e12},       {"NVIDIA H100 NVL", 835.5e12},
    {"NVIDIA H100 PCIe", 756e12},  {"NVIDIA H100 80GB HBM3", 989.4e12},
    {"NVIDIA H200 NVL", 835.5e12}, {"NVIDIA H200", 989.4e12},
    {"NVIDIA L40S", 362e12},
};

const struct dt_peak *dt_peak_of(const char *device, enum dt_dtype compute)
{
    if ((compute != DT_BF16 && compute != DT_F16) || strstr(device, "MIG"))
        return NULL;
    for (size_t i = 0; i < sizeof(peaks) / sizeof(*peaks); i++)
        if (strncmp(device, peaks[i].name, strlen(peaks[i].name)) == 0)
            return &peaks[i];
    return NULL;
}

/* Elements that are looked up and not multiplied: positions, and the token
 * embedding unless it is the head, too.
 */
static double looked_up(const struct dt_model_config *config)
{
    double rows =
        dt_model_learns_positions(config) ? (double)config->n_positions : 0;
    if (!dt_model_tied(config))
        rows += (double)config->vocab_size;
    return rows * (double)config->n_embd;
}

/* Scores and their product with the values, both ways, of a row of T. */
static double attention(const struct dt_model_config *config, size_t T)
{
    double reach = 0;
    for (size_t u = 1; u <= config->n_layer; u++) {
        const size_t window = dt_model_window(config, u);
        reach += (double)(window > 0 && window < T ? window : T);
    }
    return 12 * reach * (double)(config->n_head * config->head_size);
}

double dt_flops_per_token(const struct dt_spec *spec)
{
    const struct dt_learner_spec *learner = &spec->learner;
    const struct dt_model_config *config = &learner->config;
    const double trained = (double)learner->layout->param_total;
    double flops = 6 * trained;
    if (spec->algo->advantages)
        return NAN;
    if (learner->frozen)
        flops += 4 * ((double)learner->frozen->param_total - looked_up(config));
    else
        flops -= 6 * looked_up(config);
    if (dt_run_is_stream(&spec->conf))
        flops += attention(config, spec->T);
    return flops;
}
