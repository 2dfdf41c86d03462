/* SPDX-License-Identifier: Apache-2.0 */
/* instance.c - memory, weights, gradients and the current batch of a part of a
 * model: of the text, or of a tower
 */
#include "config.h"

#include <stdlib.h>

#include "model/family/family.h"
#include "model/model_adapter.h"
#include "model/model_impl.h"

size_t dt_model_memory_bytes(const struct dt_model_config *config,
                             const struct dt_ops *ops,
                             const struct dt_model_options *options)
{
    const struct dt_acts_for plan = {config, ops, options, options->B,
                                     options->T};
    struct dt_acts acts;
    return dt_acts_plan(&acts, NULL, NULL, &plan);
}

/* Elements of one. */
static size_t rope_count(const struct dt_model_config *config,
                         const struct dt_model_options *options)
{
    return dt_rope_rows(options) * dt_model_rotary(config);
}

size_t dt_model_part_bytes(const struct dt_model_config *config,
                           const struct dt_ops *ops,
                           const struct dt_model_options *options)
{
    const size_t bytes = dt_model_memory_bytes(config, ops, options);
    const size_t angles = dt_rope_tables(config) * rope_count(config, options);
    size_t all;
    return bytes == SIZE_MAX ||
                   __builtin_add_overflow(bytes, angles * sizeof(float), &all)
               ? SIZE_MAX
               : all;
}

static bool trains_all(const struct dt_model *m)
{
    size_t u = 0;
    while (u < m->layout->unit_count &&
           (m->layout->units[u].count == 0 || dt_places_have(&m->grads, u)))
        u++;
    return u == m->layout->unit_count;
}

/* Assigns memory to the activations of a batch of this size. */
static int plan_acts(struct dt_model *m, size_t B, size_t T,
                     struct dt_error *err)
{
    const struct dt_acts_for plan = {&m->config, m->ops, &m->options, B, T};
    size_t bytes = dt_acts_plan(&m->acts, m->blocks, m->buf, &plan);
    if (bytes > m->buf->bytes || T > m->options.T)
        return dt_error_set(
            err, EX_SOFTWARE,
            "a batch of %zu x %zu tokens takes %zu bytes of activations, but "
            "%zu bytes are there, planned for %zu x %zu tokens: please report "
            "this",
            B, T, bytes, m->buf->bytes, m->options.B, m->options.T);
    if (!trains_all(m)) /* a frozen norm does not sum for biases below it */
        m->acts.d_sums = (struct dt_view){0};
    return 0;
}

/* Copies `count` elements of 4 bytes to a buffer of the device. */
static int upload_constants(struct dt_model *m, struct dt_buffer **buf,
                            const void *data, size_t count, const char *what,
                            struct dt_error *err)
{
    *buf = dt_buffer_create(m->exec.device, count * sizeof(float), what, err);
    if (!*buf)
        return -1;
    return m->exec.device->copy(m->stream, (*buf)->data, data,
                                count * sizeof(float), err);
}

/* Which axis of positions turns each pair of a head. */
static int upload_axes(struct dt_model *m, struct dt_error *err)
{
    int32_t axes[DT_MAX_HEAD_SIZE / 2];
    const size_t pairs = dt_model_rotary(&m->config) / 2;
    if (dt_rope_axes(&m->config) == 1)
        return 0;
    for (size_t j = 0; j < pairs; j++)
        axes[j] = (int32_t)dt_rope_axis(&m->config, j);
    return upload_constants(m, &m->axes_buf, axes, pairs, "axes", err);
}

/* Computes the tables of RoPE's angles and copies them to the device. */
static int upload_rope(struct dt_model *m, struct dt_error *err)
{
    size_t count = rope_count(&m->config, &m->options);
    size_t tables = dt_rope_tables(&m->config);
    if (tables * count == 0)
        return 0;
    float *angles = malloc(tables * count * sizeof(*angles));
    if (!angles)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t i = 0; i < tables; i++)
        dt_rope_table(&m->config, i, angles + i * count,
                      dt_rope_rows(&m->options));
    int result = upload_constants(m, &m->rope_buf, angles, tables * count,
                                  "angles", err);
    free(angles);
    return result < 0 ? -1 : upload_axes(m, err);
}

static int allocate_host(struct dt_model *m, struct dt_error *err)
{
    size_t bytes = dt_model_host_bytes(&m->config, &m->options);
    void *data;
    if (bytes == 0)
        return 0;
    if (m->exec.device->allocate_staging(bytes, &data, err) < 0)
        return dt_error_prefix(err, "inputs of blocks in host memory");
    m->inputs_host = data;
    m->inputs_host_bytes = bytes;
    return 0;
}

static int allocate_model(struct dt_model *m, struct dt_error *err)
{
    const struct dt_model_options *options = &m->options;
    size_t bytes = dt_model_memory_bytes(&m->config, m->ops, options);
    m->buf = options->memory
                 ? options->memory
                 : dt_buffer_create(m->exec.device, bytes, "activations", err);
    if (!m->buf)
        return -1;
    if (plan_acts(m, options->B, options->T, err) < 0 ||
        allocate_host(m, err) < 0)
        return -1;
    return upload_rope(m, err);
}

struct dt_model *dt_model_create_part(
    const struct dt_model_config *config, const struct dt_vision_config *vision,
    const struct dt_layout *layout, const struct dt_exec *exec,
    struct dt_places weights, struct dt_places grads,
    const struct dt_model_options *options, struct dt_error *err)
{
    const bool adapts = options->adapter.r > 0;
    struct dt_model *m = calloc(1, sizeof(*m));
    struct dt_block *blocks = calloc(config->n_layer, sizeof(*blocks));
    struct dt_adapter_place *adapted =
        adapts ? calloc(layout->param_count, sizeof(*adapted)) : NULL;
    if (!m || !blocks || (adapts && !adapted)) {
        dt_error_set(err, EX_OSERR, "out of memory");
        free(adapted);
        free(blocks);
        free(m);
        return NULL;
    }
    *m = (struct dt_model){.config = *config,
                           .family = config->family,
                           .scales =
                               dt_model_scales_of(config, options->compute),
                           .options = *options,
                           .layout = layout,
                           .exec = *exec,
                           .ops = exec->ops,
                           .stream = exec->stream,
                           .weights = weights,
                           .grads = grads,
                           .trained = options->adapter.weights,
                           .adapter_on = adapts,
                           .adapted = adapted,
                           .blocks = blocks,
                           .projects_in_out = vision && vision->family->in_out,
                           .first_unit = dt_model_first_unit(config)};
    m->config.text = NULL;
    if (adapts)
        dt_adapter_find(options->adapter.layout, layout, adapted);
    dt_params_find(config, vision, m->roles);
    if (allocate_model(m, err) < 0) {
        dt_model_destroy_part(m);
        return NULL;
    }
    return m;
}

void dt_model_destroy_part(struct dt_model *m)
{
    if (!m)
        return;
    if (m->inputs_host)
        m->exec.device->release_staging(m->inputs_host, m->inputs_host_bytes);
    if (!m->options.memory)
        dt_buffer_destroy(m->buf);
    dt_buffer_destroy(m->axes_buf);
    dt_buffer_destroy(m->rope_buf);
    free(m->adapted);
    free(m->blocks);
    free(m);
}

/* The index, in the adapter's layout, of its copy of a role of unit u; -1: it
 * has none.
 */
static int copy_of(const struct dt_model *m, size_t u, enum dt_role role)
{
    const struct dt_role_range range = m->roles[role];
    if (!m->adapted || range.count != 1)
        return -1;
    return m
        ->adapted[m->layout->units[m->first_unit + u].first_param + range.first]
        .copy;
}

struct dt_view dt_model_weight(const struct dt_model *m, size_t u,
                               enum dt_role role)
{
    const int copy = m->adapter_on ? copy_of(m, u, role) : -1;
    if (copy >= 0)
        return dt_layout_params(m->options.adapter.layout, &m->trained,
                                (size_t)copy, 1);
    return dt_params_view(m->layout, &m->weights, m->first_unit + u,
                          m->roles[role]);
}

/* Frozen weights have none. */
struct dt_view dt_model_grad(const struct dt_model *m, size_t u,
                             enum dt_role role)
{
    const int copy = copy_of(m, u, role);
    if (copy >= 0)
        return dt_layout_params(m->options.adapter.layout,
                                &m->options.adapter.grads, (size_t)copy, 1);
    if (!dt_places_have(&m->grads, m->first_unit + u))
        return (struct dt_view){0};
    return dt_params_view(m->layout, &m->grads, m->first_unit + u,
                          m->roles[role]);
}

struct dt_view dt_model_unit_grads(const struct dt_model *m, size_t u)
{
    const struct dt_model_adapter *adapter = &m->options.adapter;
    u += m->first_unit;
    if (m->adapted)
        return dt_layout_unit(adapter->layout, &adapter->grads, u);
    return dt_places_have(&m->grads, u)
               ? dt_layout_unit(m->layout, &m->grads, u)
               : (struct dt_view){0};
}

struct dt_buffer *dt_model_memory(const struct dt_model *m)
{
    return m->buf;
}

struct dt_norm_rule dt_model_norm_rule(const struct dt_model *m)
{
    return (struct dt_norm_rule){.eps = (float)m->config.norm_epsilon,
                                 .shift = m->family->shifted ? 1.0f : 0.0f};
}

struct dt_dropout dt_model_dropout(const struct dt_model *m, double rate,
                                   size_t u, enum dt_place place)
{
    bool on = m->train && m->options.dropout;
    return (struct dt_dropout){
        .rate = on ? rate : 0,
        .seed = m->options.seed,
        .place = u > 0 ? (uint32_t)(3 * (u - 1)) + place : place,
        .rows = m->inputs.rows,
    };
}

int dt_model_bind_rows(struct dt_model *m, size_t B, size_t T, bool train,
                       struct dt_error *err)
{
    if (plan_acts(m, B, T, err) < 0)
        return -1;
    m->B = B;
    m->T = T;
    m->N = B * T;
    m->train = train;
    return 0;
}

/* --- inputs of blocks that wait in host memory for the backward pass ---
 *
 * Blocks take turns with two places on the device. The last two are there when
 * the backward pass comes to them; the input of block u comes back to the place
 * that block u + 2 no longer needs.
 */

enum { PLACES = 2 };

/* Bytes of the input of a block of the largest batch. */
static size_t input_bytes(const struct dt_model_config *config,
                          const struct dt_model_options *options)
{
    return options->B * options->T * config->n_embd *
           dt_dtype_bytes(options->compute);
}

/* Blocks that go back. */
static size_t kept_blocks(const struct dt_model_config *config,
                          const struct dt_model_options *options)
{
    const size_t first = dt_acts_first_kept(config, options);
    return first < config->n_layer ? config->n_layer - first : 0;
}

size_t dt_model_host_bytes(const struct dt_model_config *config,
                           const struct dt_model_options *options)
{
    size_t bytes, one = input_bytes(config, options);
    size_t kept = kept_blocks(config, options);
    if (!options->train || !options->offload || kept <= PLACES)
        return 0;
    return __builtin_mul_overflow(one, kept - PLACES, &bytes) ? SIZE_MAX
                                                              : bytes;
}

/* The place where the input of block u of the text waits; NULL: it need not. */
static void *waiting_place(const struct dt_model *m, size_t u)
{
    const size_t first = dt_acts_first_kept(&m->config, &m->options);
    if (!m->inputs_host || !m->train || u < first + 1 ||
        u + PLACES > m->config.n_layer)
        return NULL;
    return m->inputs_host +
           (u - 1 - first) * input_bytes(&m->config, &m->options);
}

static int move_input(struct dt_model *m, size_t u, bool back,
                      struct dt_error *err)
{
    void *there = NULL;
    if (u >= m->first_unit)
        there = waiting_place(m, u -= m->first_unit);
    if (!there)
        return 0;
    struct dt_view x = m->blocks[u - 1].x;
    void *here = dt_view_data(x);
    return m->exec.device->copy(m->stream, back ? here : there,
                                back ? there : here, dt_view_bytes(x), err);
}

int dt_model_send_input(struct dt_model *m, size_t u, struct dt_error *err)
{
    return move_input(m, u, false, err);
}

int dt_model_bring_input(struct dt_model *m, size_t u, struct dt_error *err)
{
    return move_input(m, u, true, err);
}
