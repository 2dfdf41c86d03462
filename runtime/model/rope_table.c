/* SPDX-License-Identifier: Apache-2.0 */
/* rope_table.c - the angles of RoPE, and how they scale for long contexts */
#include "config.h"

#include <math.h>

#include "model/family.h"
#include "model/rope_table.h"

size_t dt_rope_tables(const struct dt_model_config *config)
{
    if (config->family->centered)
        return 0;
    return config->rope_local_theta > 0 || dt_model_two_lengths(config) ? 2 : 1;
}

/* Llama 3.1: long waves are stretched, short ones are not; in between the
 * factor is interpolated.
 */
static double scale_llama3(const struct dt_model_config *config, double inverse)
{
    double low = config->rope_low, high = config->rope_high;
    double waves = (double)config->rope_original * inverse / (2 * M_PI);
    if (waves > high)
        return inverse;
    if (waves < low)
        return inverse / config->rope_factor;
    double smooth = (waves - low) / (high - low);
    return inverse * ((1 - smooth) / config->rope_factor + smooth);
}

/* The pair that turns so many times in the positions of before (Peng et al.,
 * "YaRN", eq. 17, for pairs).
 */
static double pair_of_turns(const struct dt_model_config *config, double turns)
{
    double waves = (double)config->rope_original / (turns * 2 * M_PI);
    return (double)dt_model_rotary(config) * log(waves) /
           (2 * log(config->rope_theta));
}

/* YaRN: pairs that turn often stay, those that turn rarely are stretched; in
 * between is a ramp.
 */
static double scale_yarn(const struct dt_model_config *config, double inverse,
                         size_t j)
{
    double low = pair_of_turns(config, config->rope_fast);
    double high = pair_of_turns(config, config->rope_slow);
    if (config->rope_truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)dt_model_rotary(config) - 1);
    if (low == high)
        high += 0.001;
    double ramp = fmin(fmax(((double)j - low) / (high - low), 0), 1);
    return inverse * (ramp / config->rope_factor + 1 - ramp);
}

double dt_rope_frequency(const struct dt_model_config *config, size_t table,
                         size_t j)
{
    double exponent = -2.0 * (double)j / (double)dt_model_rotary(config);
    double plain = pow(config->rope_theta, exponent);
    if (table == 1 && config->rope_local_theta > 0)
        return pow(config->rope_local_theta, exponent);
    switch (config->rope_scaling) {
    case DT_ROPE_LINEAR:
        return plain / config->rope_factor;
    case DT_ROPE_LLAMA3:
        return scale_llama3(config, plain);
    case DT_ROPE_YARN:
        return scale_yarn(config, plain, j);
    case DT_ROPE_LONGROPE:
        return plain / (double)(table == 1 ? config->rope_long[j]
                                           : config->rope_short[j]);
    default: /* dynamic scales beyond n_positions, where no document is */
        return plain;
    }
}

void dt_rope_table(const struct dt_model_config *config, size_t table,
                   float *angles, size_t positions)
{
    size_t R = dt_model_rotary(config);
    bool local = table == 1 && config->rope_local_theta > 0;
    bool scaled = config->rope_scaling == DT_ROPE_YARN ||
                  config->rope_scaling == DT_ROPE_LONGROPE;
    float factor = scaled && !local ? (float)config->rope_attention : 1.0f;
    for (size_t j = 0; j < R / 2; j++) {
        /* models were trained with angles rounded to fp32 */
        float frequency = (float)dt_rope_frequency(config, table, j);
        for (size_t p = 0; p < positions; p++) {
            float angle = (float)p * frequency;
            angles[p * R + j] = factor * cosf(angle);
            angles[p * R + R / 2 + j] = factor * sinf(angle);
        }
    }
}
