/* SPDX-License-Identifier: Apache-2.0 */
/* learner_load.c - reads the weights and the optimizer state of a learner */
#include "config.h"

#include <string.h>

#include "base/log.h"
#include "run/learner.h"
#include "weights/parts.h"
#include "weights/weights.h"

int dt_learner_check_optimizer(const char *dir, struct dt_error *err)
{
    int there = dt_parts_exist(dir, err);
    if (there != 0)
        return there < 0 ? -1 : 0;
    return dt_error_set(err, EX_NOINPUT,
                        "%s: has no optimizer state (checkpoint.only_model was "
                        "set, or checkpoint.strategy was no): name it in "
                        "model.path to start from its weights",
                        dir);
}

/* The optimizer's files without moments. */
static int check_moments(const char *dir, const struct dt_parts *parts,
                         struct dt_error *err)
{
    int m = parts ? dt_parts_have(parts, DT_OWNED_M, err) : 0;
    int v = m > 0 ? dt_parts_have(parts, DT_OWNED_V, err) : m;
    if (v != 0)
        return v < 0 ? -1 : 0;
    return dt_error_set(err, EX_DATAERR,
                        "%s: the optimizer's files have no moments", dir);
}

/* --- weights that are only read --- */

/* Elements of unit u of a layout, as elements of another one that has all of
 * the same unit.
 */
static struct dt_range range_in(const struct dt_layout *model,
                                const struct dt_layout *layout, size_t u,
                                struct dt_range part)
{
    part.first += model->units[u].offset - layout->units[u].offset;
    return part;
}

/* to = from, in fp32, rounded to the nearest. */
static void round_weights(struct dt_view to, struct dt_view from)
{
    const struct dt_exec host = dt_exec_cpu();
    if (to.dtype == DT_F32)
        memcpy(dt_view_data(to), dt_view_data(from), dt_view_bytes(from));
    else
        host.ops->convert(host.stream, to, from);
}

/* The range of unit u of random weights into `to`; the unit goes to `unit`. */
static void make_frozen(const struct dt_frozen *from, size_t u,
                        struct dt_range part, struct dt_view unit,
                        struct dt_view to)
{
    memset(dt_view_data(unit), 0, unit.count * sizeof(float));
    dt_model_init_unit(from->config, from->model, u, unit, from->seed);
    round_weights(to, dt_view_slice(unit,
                                    part.first - from->layout->units[u].offset,
                                    part.count));
}

static int read_frozen(const struct dt_frozen *from, size_t u,
                       struct dt_range part, struct dt_view unit,
                       struct dt_view to, struct dt_error *err)
{
    const bool is_new = from->new_head && u + 1 == from->layout->unit_count;
    memset(dt_view_data(to), 0, to.count * dt_dtype_bytes(to.dtype));
    if (!from->weights || is_new)
        make_frozen(from, u, part, unit, to);
    part = range_in(from->model, from->layout, u, part);
    return from->weights ? dt_weights_read(from->weights, part, to, err) : 0;
}

int dt_frozen_load(struct dt_parallel *parallel, const struct dt_frozen *from,
                   int world, struct dt_error *err)
{
    const struct dt_layout *layout = from->layout;
    const size_t most = dt_layout_largest(layout);
    struct dt_buffer *room =
        dt_buffer_create(&dt_cpu, 2 * most * sizeof(float), "a unit", err);
    int result = room ? 0 : -1;
    for (size_t u = dt_layout_next(layout, 0);
         u < layout->unit_count && result == 0;
         u = dt_layout_next(layout, u + 1)) {
        const struct dt_range range =
            dt_layout_part(layout, u, dt_parallel_index(parallel), world);
        struct dt_view part = dt_parallel_part(parallel, DT_OWNED_MASTER, u);
        struct dt_view unit =
            dt_view_slice(dt_view_of(room, DT_F32), 0, layout->units[u].count);
        size_t second = most * sizeof(float) / dt_dtype_bytes(part.dtype);
        struct dt_view here =
            dt_view_slice(dt_view_of(room, part.dtype), second, part.count);
        result = read_frozen(from, u, range, unit, here, err);
        if (result == 0)
            result = dt_parallel_put(parallel, part, dt_view_data(here), err);
    }
    dt_buffer_destroy(room);
    for (size_t u = 0; u < layout->unit_count && result == 0; u++)
        result = dt_parallel_loaded(parallel, u, err);
    return result;
}

/* --- trained weights, and the state of their optimizer --- */

struct source {
    struct dt_weights *frozen;  /* weights that are only read; NULL: there are
                                   none, or random ones */
    struct dt_weights *weights; /* trained ones; NULL: not needed */
    struct dt_parts *parts;     /* of the optimizer; NULL: a new run */
    bool master;                /* parts have the fp32 weights */
    bool new_head;              /* the model's weights lack score.weight, which
                                   ends the last unit */
    uint64_t seed;              /* of random weights */
};

static void close_source(struct source *source)
{
    dt_weights_close(source->frozen);
    dt_weights_close(source->weights);
    dt_parts_close(source->parts);
}

/* Opens the model that a learner starts from, whose heads may be missing; with
 * `saved` one that has all of them. NULL and err.
 */
static struct dt_weights *open_model(const struct dt_learner_spec *spec,
                                     const char *dir, bool saved,
                                     bool *new_head, struct dt_error *err)
{
    const struct dt_layout *layout = dt_learner_model_layout(spec);
    bool scores = true;
    struct dt_weights *weights =
        spec->config.value_head || (spec->config.scores && !saved)
            ? dt_weights_open_trunk(dir, layout, &scores, err)
            : dt_weights_open(dir, layout, err);
    *new_head = weights && !scores;
    if (!*new_head || !saved)
        return weights;
    dt_error_set(err, EX_DATAERR,
                 "%s: has no " DT_VALUE_HEAD_FILE ", the critic's head", dir);
    dt_weights_close(weights);
    return NULL;
}

/* The optimizer's files of a checkpoint. */
static int open_parts(const struct dt_layout *layout, const char *dir,
                      struct source *source, struct dt_error *err)
{
    if (dt_parts_open(dir, layout, &source->parts, err) < 0 ||
        check_moments(dir, source->parts, err) < 0)
        return -1;
    int master = dt_parts_have(source->parts, DT_OWNED_MASTER, err);
    source->master = master > 0;
    return master < 0 ? -1 : 0;
}

/* Opens an adapter, and its frozen weights. */
static int open_adapter(const struct dt_learner *learner, const char *dir,
                        struct source *source, struct dt_error *err)
{
    source->frozen = open_model(learner->spec, learner->spec->start, false,
                                &source->new_head, err);
    if (!source->frozen)
        return -1;
    if (!dir)
        dir = learner->spec->adapter_start;
    if (!dir || source->master)
        return 0;
    source->weights = dt_weights_open_adapter(dir, learner->spec->layout, err);
    return source->weights ? 0 : -1;
}

/* The directory of frozen weights: a checkpoint in `dir` has them, too, but if
 * they were rounded for it the run has to begin again with its first ones.
 * NULL: they are random. -1: EX_DATAERR, EX_NOINPUT.
 */
static int find_frozen(const struct dt_learner *learner, const char *dir,
                       const char **found, struct dt_error *err)
{
    enum dt_dtype stored;
    *found = learner->spec->start;
    if (!dir)
        return 0;
    if (dt_weights_dtype(dir, learner->spec->whole, &stored, err) < 0)
        return -1;
    if (stored == DT_F32 || stored == learner->compute)
        *found = dir;
    return 0;
}

/* Opens a model of which some parts are frozen. */
static int open_divided(const struct dt_learner *learner, const char *dir,
                        struct source *source, struct dt_error *err)
{
    const struct dt_learner_spec *spec = learner->spec;
    const char *frozen;
    if (find_frozen(learner, dir, &frozen, err) < 0)
        return -1;
    if (frozen && !(source->frozen = open_model(spec, frozen, frozen == dir,
                                                &source->new_head, err)))
        return -1;
    if (source->master || (!dir && !spec->start))
        return 0;
    source->weights =
        open_model(spec, dir ? dir : spec->start, dir, &source->new_head, err);
    return source->weights ? 0 : -1;
}

/* Opens the files of a checkpoint in `dir`, or for NULL the model that the
 * learner starts from. close_source in any case.
 */
static int open_source(const struct dt_learner *learner, const char *dir,
                       struct source *source, struct dt_error *err)
{
    const struct dt_layout *layout = learner->spec->layout;
    const char *start = learner->spec->start;
    *source = (struct source){0};
    if (dir && open_parts(layout, dir, source, err) < 0)
        return -1;
    if (dt_learner_adapts(learner->spec))
        return open_adapter(learner, dir, source, err);
    if (learner->spec->frozen)
        return open_divided(learner, dir, source, err);
    if (source->master || (!dir && !start))
        return 0;
    source->weights = open_model(learner->spec, dir ? dir : start, dir,
                                 &source->new_head, err);
    return source->weights ? 0 : -1;
}

int dt_learner_check_files(const struct dt_learner *learner, const char *dir,
                           struct dt_error *err)
{
    struct source source;
    int result = open_source(learner, dir, &source, err);
    if (result == 0 && source.frozen)
        result = dt_weights_check_twins(source.frozen, err);
    else if (result == 0 && source.weights)
        result = dt_weights_check_twins(source.weights, err);
    if (result == 0 && source.new_head)
        dt_log(DT_LOG_INFO, "algo",
               "%s has no %s: it begins at random (normal, standard "
               "deviation %g, run.seed)",
               learner->spec->start,
               learner->spec->config.value_head ? DT_VALUE_HEAD_FILE
                                                : "score.weight",
               learner->spec->config.initializer_range);
    close_source(&source);
    return result;
}

/* The first values of a copy of parameter i of the frozen layout, which the
 * files may lack.
 */
static int copy_frozen(const struct dt_learner *learner,
                       const struct source *source, size_t i, struct dt_view to,
                       struct dt_error *err)
{
    const struct dt_layout *layout = learner->spec->frozen;
    const struct dt_param *param = &layout->params[i];
    const struct dt_unit *unit = &layout->units[param->unit];
    if (source->new_head && param->unit + 1 == layout->unit_count) {
        struct dt_buffer *room = dt_buffer_create(
            &dt_cpu, unit->count * sizeof(float), "a unit", err);
        if (!room)
            return -1;
        dt_model_init_unit(&learner->spec->config, layout, param->unit,
                           dt_view_of(room, DT_F32), source->seed);
        memcpy(dt_view_data(to),
               (float *)room->data + (param->offset - unit->offset),
               to.count * sizeof(float));
        dt_buffer_destroy(room);
    }
    return dt_weights_read(source->frozen,
                           (struct dt_range){param->offset, param->count}, to,
                           err);
}

/* Initial weights of unit u of a new adapter: pairs, and copies of frozen
 * weights.
 */
static int make_adapter(const struct dt_learner *learner,
                        const struct source *source, size_t u,
                        struct dt_view unit, struct dt_error *err)
{
    const struct dt_layout *layout = learner->spec->layout;
    const struct dt_unit *own = &layout->units[u];
    dt_adapter_init_unit(layout, u, unit, source->seed);
    for (size_t i = own->first_param; i < own->first_param + own->param_count;
         i++) {
        const struct dt_param *param = &layout->params[i];
        const int copied =
            dt_adapter_copied(learner->spec->frozen, param->name);
        struct dt_view to =
            dt_view_slice(unit, param->offset - own->offset, param->count);
        if (copied >= 0 &&
            copy_frozen(learner, source, (size_t)copied, to, err) < 0)
            return -1;
    }
    return 0;
}

/* Reads one kind of this rank's part of unit u into `to`, in host memory. A
 * unit that no file has is made in `unit` first.
 */
static int read_part(const struct dt_learner *learner,
                     const struct source *source, enum dt_owned kind, size_t u,
                     struct dt_view unit, struct dt_view to,
                     struct dt_error *err)
{
    const struct dt_layout *layout = learner->spec->layout;
    const bool adapts = dt_learner_adapts(learner->spec);
    const struct dt_layout *model =
        adapts ? layout : dt_learner_model_layout(learner->spec);
    const struct dt_range part =
        dt_layout_part(layout, u, dt_parallel_index(learner->parallel),
                       dt_comm_size(learner->comm));
    const struct dt_range there = range_in(model, layout, u, part);
    if (kind != DT_OWNED_MASTER || source->master)
        return dt_parts_read(source->parts, kind, part, to, err);
    bool is_new = !adapts && source->new_head && u + 1 == layout->unit_count;
    if (source->weights && !is_new)
        return dt_weights_read(source->weights, there, to, err);
    memset(dt_view_data(unit), 0, unit.count * sizeof(float));
    if (!adapts)
        dt_model_init_unit(&learner->spec->config, model, u, unit,
                           source->seed);
    else if (make_adapter(learner, source, u, unit, err) < 0)
        return -1;
    round_weights(to, dt_view_slice(unit, part.first - layout->units[u].offset,
                                    part.count));
    return is_new ? dt_weights_read(source->weights, there, to, err) : 0;
}

/* Loads one kind of this rank's part of unit u. `room`: two units in host
 * memory.
 */
static int load_part(struct dt_learner *learner, const struct source *source,
                     enum dt_owned kind, size_t u, struct dt_buffer *room,
                     struct dt_error *err)
{
    size_t count = learner->spec->layout->units[u].count;
    struct dt_view there = dt_parallel_part(learner->parallel, kind, u);
    struct dt_view unit = dt_view_slice(dt_view_of(room, DT_F32), 0, count);
    struct dt_view here = there;
    if (!learner->exec->device->is_host || !there.buf) {
        size_t first = count * sizeof(float) / dt_dtype_bytes(there.dtype);
        here = dt_view_slice(dt_view_of(room, there.dtype), first, there.count);
        memset(dt_view_data(here), 0, dt_view_bytes(here));
    }
    if (read_part(learner, source, kind, u, unit, here, err) < 0)
        return -1;
    if (here.buf == there.buf)
        return 0;
    return dt_parallel_put(learner->parallel, there, dt_view_data(here), err);
}

static int load_parts(struct dt_learner *learner, const struct source *source,
                      struct dt_error *err)
{
    const struct dt_layout *layout = learner->spec->layout;
    size_t units = layout->unit_count;
    size_t elements = 2 * dt_learner_unit_elements(learner);
    enum dt_owned end = source->parts ? DT_OWNED_GRADS : DT_OWNED_M;
    struct dt_buffer *room =
        dt_buffer_create(&dt_cpu, elements * sizeof(float), "a unit", err);
    int result = room ? 0 : -1;
    for (size_t u = dt_layout_next(layout, 0); u < units && result == 0;
         u = dt_layout_next(layout, u + 1))
        for (enum dt_owned kind = 0; kind < end && result == 0; kind++)
            result = load_part(learner, source, kind, u, room, err);
    dt_buffer_destroy(room);
    for (size_t u = 0; u < units && result == 0; u++)
        result = dt_parallel_loaded(learner->parallel, u, err);
    return result;
}

/* Loads what is not trained: `files` are those of a model, or NULL. */
static int load_rest(struct dt_learner *learner, const struct source *source,
                     const char *files, struct dt_error *err)
{
    const struct dt_layout *model = dt_learner_model_layout(learner->spec);
    dt_carried_fini(&learner->carried);
    if (files && learner->spec->adapter.r == 0 &&
        dt_carried_load(&learner->carried, files, model, err) < 0)
        return -1;
    if (!learner->frozen)
        return 0;
    const struct dt_frozen from = {
        .config = &learner->spec->config,
        .layout = learner->spec->frozen,
        .model = model,
        .weights = source->frozen,
        .new_head = source->new_head,
        .seed = source->seed,
    };
    return dt_frozen_load(learner->frozen, &from, dt_comm_size(learner->comm),
                          err);
}

int dt_learner_load(struct dt_learner *learner, const char *dir, uint64_t seed,
                    struct dt_error *err)
{
    struct source source;
    int result = open_source(learner, dir, &source, err);
    source.seed = seed;
    if (result == 0)
        result =
            load_rest(learner, &source, dir ? dir : learner->spec->start, err);
    if (result == 0)
        result = load_parts(learner, &source, err);
    close_source(&source);
    return result;
}

int dt_learner_load_rest(struct dt_learner *learner, uint64_t seed,
                         struct dt_error *err)
{
    struct source source;
    int result = open_source(learner, NULL, &source, err);
    source.seed = seed;
    if (result == 0)
        result = load_rest(learner, &source, learner->spec->start, err);
    close_source(&source);
    return result;
}
