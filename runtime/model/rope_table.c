/* SPDX-License-Identifier: Apache-2.0 */
/* rope_table.c - the angles of RoPE, and how they scale for long contexts */
#include "config.h"

#include <math.h>

#include "model/rope_table.h"

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

double dt_rope_frequency(const struct dt_model_config *config, size_t j)
{
    double exponent = -2.0 * (double)j / (double)config->head_size;
    double plain = pow(config->rope_theta, exponent);
    switch (config->rope_scaling) {
    case DT_ROPE_LINEAR:
        return plain / config->rope_factor;
    case DT_ROPE_LLAMA3:
        return scale_llama3(config, plain);
    default:
        return plain;
    }
}

void dt_rope_table(const struct dt_model_config *config, float *table,
                   size_t positions)
{
    size_t HS = config->head_size;
    for (size_t j = 0; j < HS / 2; j++) {
        /* models were trained with angles rounded to fp32 */
        float frequency = (float)dt_rope_frequency(config, j);
        for (size_t p = 0; p < positions; p++) {
            float angle = (float)p * frequency;
            table[p * HS + j] = cosf(angle);
            table[p * HS + HS / 2 + j] = sinf(angle);
        }
    }
}
