/* SPDX-License-Identifier: Apache-2.0 */
/* whole.c - a model as a whole: its text, what a batch gives it, and a tower */
#include "config.h"

#include <string.h>

#include "model/family/family.h"
#include "model/model_impl.h"

/* B * T may overflow, but then there is no plan of the activations. */
static struct dt_inputs_limits limits_of(const struct dt_model_config *config,
                                         const struct dt_model_options *options)
{
    return (struct dt_inputs_limits){
        .B = options->B,
        .N = options->B * options->T,
        .document = dt_model_longest_document(options),
        .picks = options->values,
        .table = options->table,
        .draws = options->draws,
        .seen = options->seen,
        .longest = dt_model_two_lengths(config) ? config->rope_original : 0,
        .angles = dt_rope_rows(options),
        .axes = dt_rope_axes(config),
        .merge = config->vision ? config->vision->merge : 1,
        .ahead = config->vision && config->vision->family->bidirectional,
    };
}

size_t dt_model_activation_bytes(const struct dt_model_config *config,
                                 const struct dt_ops *ops,
                                 const struct dt_model_options *options)
{
    const struct dt_inputs_limits limits = limits_of(config, options);
    const struct dt_tower_for tower = {config->vision, options, config->n_embd};
    const size_t seen = config->vision ? dt_tower_bytes(&tower, ops) : 0;
    size_t bytes = dt_model_part_bytes(config, ops, options);
    if (bytes == SIZE_MAX || seen == SIZE_MAX ||
        __builtin_add_overflow(bytes, dt_inputs_bytes(&limits), &bytes) ||
        __builtin_add_overflow(bytes, seen, &bytes))
        return SIZE_MAX;
    return bytes;
}

struct dt_model *dt_model_create(const struct dt_model_config *config,
                                 const struct dt_layout *layout,
                                 const struct dt_exec *exec,
                                 struct dt_places weights,
                                 struct dt_places grads,
                                 const struct dt_model_options *options,
                                 struct dt_error *err)
{
    const struct dt_inputs_limits limits = limits_of(config, options);
    const struct dt_tower_for tower = {config->vision, options, config->n_embd};
    struct dt_model *m = dt_model_create_part(config, NULL, layout, exec,
                                              weights, grads, options, err);
    if (!m)
        return NULL;
    if (config->vision)
        m->tower = dt_tower_create(&tower, layout, exec, weights, grads, err);
    if ((config->vision && !m->tower) ||
        dt_inputs_init(&m->inputs, exec, &limits, err) < 0) {
        dt_model_destroy(m);
        return NULL;
    }
    return m;
}

void dt_model_destroy(struct dt_model *m)
{
    if (!m)
        return;
    dt_tower_destroy(m->tower);
    dt_inputs_fini(&m->inputs);
    dt_model_destroy_part(m);
}

struct dt_graph_shape dt_model_shape(const struct dt_model *m,
                                     const struct dt_batch *batch,
                                     bool accumulate)
{
    struct dt_documents documents = {.tokens = m->inputs.limits.N,
                                     .longest = m->inputs.limits.document};
    struct dt_graph_shape shape = {.B = batch->B,
                                   .T = batch->T,
                                   .doc_start = batch->doc_start,
                                   .accumulate = accumulate};
    if (batch->doc_start && batch->B * batch->T <= documents.tokens)
        dt_documents_find(&documents, NULL, batch->doc_start, batch->B,
                          batch->T);
    memcpy(shape.runs, documents.runs, sizeof(shape.runs));
    return shape;
}

int dt_model_bind(struct dt_model *m, const struct dt_batch *batch, bool train,
                  struct dt_error *err)
{
    m->kept = 0;
    if (dt_model_bind_rows(m, batch->B, batch->T, train, err) < 0)
        return -1;
    if (m->tower && dt_tower_bind(m->tower, batch, train, err) < 0)
        return -1;
    return dt_inputs_upload(&m->inputs, batch, m->cache, err);
}

void dt_model_keep(struct dt_model *m, size_t first)
{
    m->kept = first < m->first_unit ? first : m->first_unit;
}

void dt_model_use(struct dt_model *m, struct dt_places weights)
{
    m->weights = weights;
    if (m->tower)
        m->tower->model->weights = weights;
}

static void use_adapter(struct dt_model *m, const struct dt_places *weights)
{
    m->adapter_on = weights;
    if (weights)
        m->trained = *weights;
}

void dt_model_use_adapter(struct dt_model *m, const struct dt_places *weights)
{
    use_adapter(m, weights);
    if (m->tower)
        use_adapter(m->tower->model, weights);
}
