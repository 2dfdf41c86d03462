/* SPDX-License-Identifier: Apache-2.0 */
/*
 * learner_parts.c - the trained and the frozen weights of a learner
 *
 * Each has an engine of its own, with a layout of the same units. A unit of the
 * model is in one of them; an adapter has units of its own, beside those of the
 * model, which are all frozen then. Gradients, sums, norms, updates and the
 * optimizer's files are of the trained engine and know nothing of the other.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "run/learner.h"

/* --- layouts --- */

/* Whether a layout has parameters of a part that is frozen, or of another. */
static bool has_part(const struct dt_layout *layout,
                     const struct dt_learner_spec *spec, bool frozen)
{
    for (size_t u = 0; u < layout->unit_count; u++)
        if (layout->units[u].count > 0 &&
            spec->freezes[layout->units[u].part] == frozen)
            return true;
    return false;
}

int dt_learner_divide(struct dt_learner_spec *spec, int world,
                      struct dt_error *err)
{
    bool trains[DT_PARTS];
    if (dt_learner_adapts(spec) || !has_part(spec->layout, spec, true))
        return 0;
    if (!has_part(spec->layout, spec, false))
        return dt_error_set(err, EX_CONFIG,
                            "all parts of the model are frozen: nothing would "
                            "be trained");
    for (int part = 0; part < DT_PARTS; part++)
        trains[part] = !spec->freezes[part];
    spec->whole = spec->layout;
    spec->layout = dt_layout_of_parts(spec->whole, trains, world, err);
    spec->frozen = dt_layout_of_parts(spec->whole, spec->freezes, world, err);
    return spec->layout && spec->frozen ? 0 : -1;
}

/* Writes the names of the parts that are frozen, or trained, and which of both.
 * Returns the bytes.
 */
static size_t name_parts(const struct dt_learner_spec *spec, bool frozen,
                         char *text, size_t room)
{
    static const char *const names[] = {[DT_PART_VISION] = "vision",
                                        [DT_PART_PROJECTOR] = "projector",
                                        [DT_PART_LANGUAGE] = "language"};
    const char *found[DT_PARTS];
    size_t count = 0, n = 0;
    for (int part = DT_PARTS; part-- > 0;)
        if (spec->freezes[part] == frozen)
            found[count++] = names[part];
    for (size_t i = 0; i < count; i++)
        n += (size_t)snprintf(text + n, room - n, "%s%s",
                              i == 0           ? ""
                              : i + 1 == count ? " and "
                                               : ", ",
                              found[i]);
    if (count > 0)
        n += (size_t)snprintf(text + n, room - n, " %s",
                              frozen ? "frozen" : "trained");
    return n;
}

const char *dt_learner_parts_text(const struct dt_learner_spec *spec,
                                  char text[DT_PARTS_TEXT])
{
    size_t n = name_parts(spec, true, text, DT_PARTS_TEXT);
    if (n > 0)
        n += (size_t)snprintf(text + n, DT_PARTS_TEXT - n, ", ");
    n += name_parts(spec, false, text + n, DT_PARTS_TEXT - n);
    snprintf(text + n, DT_PARTS_TEXT - n, ": %zu of %zu parameters",
             spec->layout->param_total,
             dt_learner_model_layout(spec)->param_total);
    return text;
}

/* --- options --- */

struct dt_parallel_options dt_learner_trained_options(
    const struct dt_learner_spec *spec,
    const struct dt_parallel_options *parallel)
{
    struct dt_parallel_options options = *parallel;
    options.lowest = dt_learner_lowest(spec);
    options.name = spec->folder;
    if (dt_learner_adapts(spec) && options.strategy == DT_ZERO3)
        options.strategy = DT_ZERO2;
    return options;
}

struct dt_parallel_options dt_learner_frozen_options(
    const struct dt_learner_spec *spec,
    const struct dt_parallel_options *parallel)
{
    struct dt_parallel_options options = *parallel;
    options.lowest = dt_learner_lowest(spec);
    options.use = DT_FROZEN;
    options.segment = NULL;
    return options;
}

struct dt_model_options dt_learner_model_options(
    const struct dt_learner_spec *spec, const struct dt_model_options *options)
{
    struct dt_model_options own = *options;
    own.lowest = dt_learner_lowest(spec);
    own.adapter = (struct dt_model_adapter){0};
    if (dt_learner_adapts(spec))
        own.adapter = (struct dt_model_adapter){
            .r = spec->adapter.r,
            .scale = dt_adapter_scale(&spec->adapter),
            .dropout = spec->adapter.dropout,
            .layout = spec->layout,
        };
    return own;
}

struct dt_parallel_bytes dt_learner_bytes(
    const struct dt_learner_spec *spec, int world,
    const struct dt_parallel_options *parallel)
{
    const struct dt_parallel_options trained =
        dt_learner_trained_options(spec, parallel);
    struct dt_parallel_bytes bytes =
        dt_parallel_plan(spec->layout, world, &trained);
    if (!spec->frozen)
        return bytes;
    const struct dt_parallel_options frozen =
        dt_learner_frozen_options(spec, parallel);
    const struct dt_parallel_bytes more =
        dt_parallel_plan(spec->frozen, world, &frozen);
    bytes.weights += more.weights;
    bytes.master += more.master;
    return bytes;
}

/* --- engines --- */

/* The engine that has unit u of the model. */
static struct dt_parallel *engine_of(const struct dt_learner *learner, size_t u)
{
    const struct dt_layout *frozen = learner->spec->frozen;
    return frozen && frozen->units[u].count > 0 ? learner->frozen
                                                : learner->parallel;
}

struct dt_places dt_learner_weights(const struct dt_learner *learner)
{
    if (!learner->weights_at)
        return dt_parallel_weights(learner->frozen ? learner->frozen
                                                   : learner->parallel);
    return (struct dt_places){
        .flat = {.dtype = learner->compute},
        .units = learner->weights_at,
    };
}

struct dt_places dt_learner_weights_with(const struct dt_learner *learner,
                                         const struct dt_parallel *trained,
                                         struct dt_view *views)
{
    const struct dt_learner_spec *spec = learner->spec;
    const struct dt_places places = dt_parallel_weights(trained);
    if (!spec->whole)
        return places;
    const struct dt_places frozen = dt_parallel_weights(learner->frozen);
    for (size_t u = 0; u < spec->whole->unit_count; u++)
        views[u] = spec->frozen->units[u].count > 0
                       ? dt_layout_unit(spec->frozen, &frozen, u)
                       : dt_layout_unit(spec->layout, &places, u);
    return (struct dt_places){.flat = {.dtype = learner->compute},
                              .units = views};
}

bool dt_learner_has_weights(const struct dt_learner *learner)
{
    const bool frozen =
        !learner->frozen || !dt_parallel_weights(learner->frozen).units;
    return frozen && (dt_learner_adapts(learner->spec) ||
                      !dt_parallel_weights(learner->parallel).units);
}

int dt_learner_gather(struct dt_learner *learner, size_t u, bool master,
                      struct dt_view *unit, struct dt_error *err)
{
    struct dt_parallel *engine = engine_of(learner, u);
    return dt_parallel_gather(engine, u, master && engine == learner->parallel,
                              unit, err);
}

int dt_learner_forward(struct dt_learner *learner, size_t u,
                       struct dt_error *err)
{
    if (learner->frozen && dt_parallel_forward(learner->frozen, u, err) < 0)
        return -1;
    return dt_parallel_forward(learner->parallel, u, err);
}

int dt_learner_take_all(struct dt_learner *learner, struct dt_error *err)
{
    for (size_t u = 0; u < learner->spec->layout->unit_count; u++)
        if (dt_learner_forward(learner, u, err) < 0)
            return -1;
    return 0;
}

int dt_learner_backward(struct dt_learner *learner, size_t u,
                        struct dt_error *err)
{
    if (learner->frozen && dt_parallel_backward(learner->frozen, u, err) < 0)
        return -1;
    return dt_parallel_backward(learner->parallel, u, err);
}
