/* SPDX-License-Identifier: Apache-2.0 */
/* low_rank.c - the pairs beside linear layers, which may be parts of one */
#include "config.h"

#include "model/low_rank.h"

/* Dropouts of adapters come after those of the model (instance.h). */
enum { FIRST_PLACE = 1 << 15 };

/* The parameters of a role of unit u, in the layout of the model. */
static struct dt_role_range params_of(const struct dt_model *m, size_t u,
                                      enum dt_role role)
{
    struct dt_role_range range = m->roles[role];
    range.first += m->layout->units[u].first_param;
    return range;
}

/* The pair of parameter i. */
static struct dt_low_rank pair_of(const struct dt_model *m, size_t i,
                                  size_t width, size_t first)
{
    const struct dt_model_adapter *adapter = &m->options.adapter;
    const struct dt_adapter_sizes sizes =
        dt_adapter_sizes_of(&m->config, &m->layout->params[i], adapter->r);
    const size_t a = (size_t)m->adapted[i].a, b = (size_t)m->adapted[i].b;
    const bool drops = m->train && m->options.dropout && adapter->dropout > 0;
    assert(i < FIRST_PLACE);
    return (struct dt_low_rank){
        .a = dt_layout_params(adapter->layout, &m->trained, a, 1),
        .b = dt_layout_params(adapter->layout, &m->trained, b, 1),
        .C = sizes.C,
        .R = sizes.R,
        .OC = sizes.OC,
        .width = width,
        .first = first,
        .scale = adapter->scale,
        .dropout = {.rate = drops ? adapter->dropout : 0,
                    .seed = m->options.seed,
                    .place = FIRST_PLACE + (uint32_t)i,
                    .rows = m->inputs.rows},
        .low = m->acts.low,
        .dropped = m->acts.dropped,
    };
}

bool dt_low_rank_any(const struct dt_model *m, size_t u, enum dt_role role)
{
    const struct dt_role_range range = params_of(m, u, role);
    for (size_t i = 0; m->adapter_on && i < range.count; i++)
        if (m->adapted[range.first + i].a >= 0)
            return true;
    return false;
}

void dt_low_rank_forward(const struct dt_model *m, size_t u, enum dt_role role,
                         struct dt_view out, struct dt_view x, size_t N,
                         size_t OC)
{
    const struct dt_role_range range = params_of(m, u, role);
    size_t first = 0;
    if (!dt_low_rank_any(m, u, role))
        return;
    for (size_t i = range.first; i < range.first + range.count; i++) {
        if (m->adapted[i].a >= 0) {
            const struct dt_low_rank pair = pair_of(m, i, OC, first);
            m->ops->low_rank_forward(m->stream, out, x, &pair, N);
        }
        first += dt_adapter_sizes_of(&m->config, &m->layout->params[i], 1).OC;
    }
}

void dt_low_rank_backward(const struct dt_model *m, size_t u, enum dt_role role,
                          struct dt_view dx, struct dt_view dout,
                          struct dt_view x, size_t OC, bool accumulate)
{
    const struct dt_layout *layout = m->options.adapter.layout;
    const struct dt_role_range range = params_of(m, u, role);
    size_t first = 0;
    if (!dt_low_rank_any(m, u, role))
        return;
    for (size_t i = range.first; i < range.first + range.count; i++) {
        if (m->adapted[i].a >= 0) {
            const struct dt_low_rank pair = pair_of(m, i, OC, first);
            const size_t a = (size_t)m->adapted[i].a;
            m->ops->low_rank_backward(
                m->stream, dx, dt_layout_params(layout, &m->grads, a, 1),
                dt_layout_params(layout, &m->grads, a + 1, 1), dout, x, &pair,
                m->N, accumulate);
        }
        first += dt_adapter_sizes_of(&m->config, &m->layout->params[i], 1).OC;
    }
}
