/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offload.c - inputs of blocks that wait in host memory for the backward pass
 *
 * Blocks take turns with two places on the device. The last two are there when
 * the backward pass comes to them; the input of block u comes back to the place
 * that block u + 2 no longer needs.
 */
#include "config.h"

#include "model/instance.h"

enum { PLACES = 2 };

/* Bytes of the input of a block of the largest batch. */
static size_t input_bytes(const struct dt_model_config *config,
                          const struct dt_model_options *options)
{
    return options->B * options->T * config->n_embd *
           dt_dtype_bytes(options->compute);
}

size_t dt_model_host_bytes(const struct dt_model_config *config,
                           const struct dt_model_options *options)
{
    size_t bytes, one = input_bytes(config, options);
    if (!options->train || !options->offload || config->n_layer <= PLACES)
        return 0;
    return __builtin_mul_overflow(one, config->n_layer - PLACES, &bytes)
               ? SIZE_MAX
               : bytes;
}

/* Where the input of block u waits; NULL: it need not. */
static void *waiting_place(const struct dt_model *m, size_t u)
{
    if (!m->inputs_host || !m->train || u == 0 ||
        u + PLACES > m->config.n_layer)
        return NULL;
    return m->inputs_host + (u - 1) * input_bytes(&m->config, &m->options);
}

static size_t bytes_of(struct dt_view view)
{
    return view.count * dt_dtype_bytes(view.dtype);
}

int dt_model_send_input(struct dt_model *m, size_t u, struct dt_error *err)
{
    void *there = waiting_place(m, u);
    if (!there)
        return 0;
    struct dt_view x = m->blocks[u - 1].x;
    return m->exec.device->copy(m->stream, there, dt_view_data(x), bytes_of(x),
                                err);
}

int dt_model_bring_input(struct dt_model *m, size_t u, struct dt_error *err)
{
    const void *there = waiting_place(m, u);
    if (!there)
        return 0;
    struct dt_view x = m->blocks[u - 1].x;
    return m->exec.device->copy(m->stream, dt_view_data(x), there, bytes_of(x),
                                err);
}
