/* SPDX-License-Identifier: Apache-2.0 */
/*
 * save_files.c - adds the files of a rank to a checkpoint
 *
 * All ranks write: each its parts of the optimizer state, and the files of the
 * model in turn. Weights are gathered unit by unit, so no rank holds more than
 * one unit besides its own.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "run/numerics.h"
#include "run/reference/reference.h"
#include "sampling/sampling.h"
#include "train/resume/resume_impl.h"
#include "weights/parts.h"
#include "weights/adapter_file.h"
#include "weights/weights.h"

/* The type of the weights in the model's files. */
static enum dt_dtype stored_type(const struct dt_run *run)
{
    return dt_spec_stored_type(&run->spec, run->learner.compute);
}

/* --- fetching state while files are written --- */

struct fetch {
    struct dt_run *run;
    struct dt_learner *learner;
    struct dt_stream *stream;             /* of copies to a stage */
    const struct dt_ckpt_tensor *tensors; /* those of the model, else NULL */
    bool master;                          /* gather updated weights */
    size_t unit;           /* the gathered unit; unit_count: none yet */
    struct dt_view view;   /* of it, in host memory */
    struct dt_buffer *buf; /* room for a unit if the device is not the host */
    struct dt_view room;   /* for values that the host cannot see in place; of
                              any type */
    bool lost;             /* the device or a peer failed */
};

/* Makes weights of a unit visible to the host: in place, or in fetch->buf. */
static int bring_unit(struct fetch *fetch, struct dt_view view,
                      struct dt_view *here, struct dt_error *err)
{
    const struct dt_exec *exec = &fetch->run->spec.exec;
    *here = view;
    if (exec->device->is_host)
        return 0;
    *here = dt_view_slice(dt_view_of(fetch->buf, view.dtype), 0, view.count);
    if (exec->device->copy(exec->stream, dt_view_data(*here),
                           dt_view_data(view),
                           view.count * dt_dtype_bytes(view.dtype), err) < 0)
        return -1;
    return dt_run_wait(fetch->run, err);
}

/* The first `count` elements of a type in memory for another one. */
static struct dt_view use_room(struct dt_view room, enum dt_dtype type,
                               size_t count)
{
    const size_t was = dt_dtype_bytes(room.dtype), is = dt_dtype_bytes(type);
    room.offset = room.offset * was / is;
    room.count = room.count * was / is;
    room.dtype = type;
    return dt_view_slice(room, 0, count);
}

/* The same for a slice of this rank's part, which may be in tiles. */
static int bring_part(struct fetch *fetch, struct dt_view part,
                      struct dt_view *here, struct dt_error *err)
{
    *here = part;
    if (part.buf && fetch->run->spec.exec.device->is_host)
        return 0;
    *here = use_room(fetch->room, part.dtype, part.count);
    if (dt_parallel_get(fetch->learner->parallel, part, dt_view_data(*here),
                        err) < 0)
        return -1;
    return dt_run_wait(fetch->run, err);
}

/* The layout of what the model's files have: the model, or an adapter. */
static const struct dt_layout *saved_layout(const struct dt_learner *learner)
{
    return dt_learner_adapts(learner->spec)
               ? learner->spec->layout
               : dt_learner_model_layout(learner->spec);
}

/* All of unit u of that; frozen weights are saved as the passes read them. */
static int gather_unit(struct fetch *fetch, size_t u, struct dt_view *unit,
                       struct dt_error *err)
{
    struct dt_learner *learner = fetch->learner;
    return dt_learner_adapts(learner->spec)
               ? dt_parallel_gather(learner->parallel, u, fetch->master, unit,
                                    err)
               : dt_learner_gather(learner, u, fetch->master, unit, err);
}

/* Makes a parameter visible to the host. All ranks call it in the same order.
 */
static int bring_param(struct fetch *fetch, const struct dt_param *param,
                       struct dt_view *view, struct dt_error *err)
{
    const struct dt_layout *layout = saved_layout(fetch->learner);
    struct dt_view unit;
    if (fetch->lost)
        return -1;
    if (param->unit != fetch->unit &&
        (gather_unit(fetch, param->unit, &unit, err) < 0 ||
         bring_unit(fetch, unit, &fetch->view, err) < 0)) {
        fetch->lost = true;
        return -1;
    }
    fetch->unit = param->unit;
    *view = dt_view_slice(fetch->view,
                          param->offset - layout->units[param->unit].offset,
                          param->count);
    return 0;
}

static int fetch_param(void *ctx, const struct dt_ckpt_tensor *tensor,
                       struct dt_view *view, struct dt_error *err)
{
    struct fetch *fetch = ctx;
    const struct dt_layout *layout = saved_layout(fetch->learner);
    return bring_param(fetch, &layout->params[tensor - fetch->tensors], view,
                       err);
}

static int fetch_part(void *ctx, const struct dt_ckpt_tensor *tensor,
                      struct dt_view *view, struct dt_error *err)
{
    struct fetch *fetch = ctx;
    if (bring_part(fetch, tensor->view, view, err) == 0)
        return 0;
    fetch->lost = true;
    return -1;
}

/* Queues the copy of a part to where it is written from. */
static int send_part(void *ctx, const struct dt_ckpt_tensor *tensor, void *to,
                     struct dt_error *err)
{
    struct fetch *fetch = ctx;
    if (dt_parallel_send(fetch->learner->parallel, fetch->stream, tensor->view,
                         to, err) == 0)
        return 0;
    fetch->lost = true;
    return -1;
}

/* --- files --- */

/* Adds score.weight, the last parameter, as a file of its own after the other
 * files. `result` is the result of writing those on this rank.
 */
static int add_value_head(struct fetch *fetch, struct dt_ckpt_writer *writer,
                          int result, struct dt_error *err)
{
    const struct dt_layout *layout = saved_layout(fetch->learner);
    const size_t last = layout->param_count - 1;
    const struct dt_param *param = &layout->params[last];
    struct dt_ckpt_tensor tensor = dt_weights_tensor(layout, last, param->name);
    struct dt_error late;
    if (bring_param(fetch, param, &tensor.view, result < 0 ? &late : err) < 0)
        return -1;
    tensor.stored = stored_type(fetch->run);
    return result < 0 || fetch->run->spec.rank > 0
               ? result
               : dt_ckpt_add_tensors(writer, DT_VALUE_HEAD_FILE, &tensor, 1,
                                     NULL, err);
}

/* The text of config.json, or of adapter_config.json for an adapter. */
static char *describe(const struct dt_learner *learner, enum dt_dtype stored,
                      struct dt_error *err)
{
    return dt_learner_adapts(learner->spec)
               ? dt_adapter_format(&learner->spec->adapter,
                                   &learner->spec->config,
                                   learner->spec->layout, err)
               : dt_model_config_format(&learner->spec->config, stored, err);
}

/* Adds the config, the weights, and the tokenizer's files. */
static int add_model(struct fetch *fetch, struct dt_ckpt_writer *writer,
                     struct dt_error *err)
{
    struct dt_run *run = fetch->run;
    const struct dt_learner *learner = fetch->learner;
    const struct dt_layout *layout = saved_layout(learner);
    const struct dt_conf *conf = &run->spec.conf;
    enum dt_dtype stored = stored_type(run);
    const bool apart = !dt_learner_adapts(learner->spec) &&
                       dt_model_head_apart(&learner->spec->config);
    char *config = describe(learner, stored, err);
    const struct dt_ckpt_source source = {.fetch = fetch_param, .ctx = fetch};
    const struct dt_image_files *images = &run->spec.images.files;
    const struct dt_weights_text texts[] = {
        {DT_IMAGE_FILE, images->image},
        {DT_IMAGE_FILE_WHOLE, images->whole},
        {NULL, NULL},
    };
    fetch->master = stored != learner->compute;
    const struct dt_weights_files files = {
        .config = config,
        .adapter = dt_learner_adapts(learner->spec) ? config : NULL,
        .layout = layout,
        .param_count = layout->param_count - apart,
        .carried = &learner->carried,
        .weights = {.dtype = fetch->master ? learner->state : learner->compute},
        .stored = stored,
        .max_shard_bytes = (size_t)conf->checkpoint.max_shard_size,
        .tokenizer = dt_run_tokenizer_dir(conf),
        .texts = run->spec.images.there ? texts : NULL,
        .source = &source,
        .rank = run->spec.rank,
        .world = run->spec.world,
        .tensors = &fetch->tensors,
    };
    int result = config ? dt_weights_save(writer, &files, err) : -1;
    free(config);
    return apart ? add_value_head(fetch, writer, result, err) : result;
}

/* This rank's part of unit u of one kind of state (parts.h). */
static struct dt_view part_of(const struct fetch *fetch, size_t kind, size_t u)
{
    return kind == DT_PARTS_REFERENCE
               ? dt_parallel_part(fetch->run->reference.parallel,
                                  DT_OWNED_MASTER, u)
               : dt_parallel_part(fetch->learner->parallel, (enum dt_owned)kind,
                                  u);
}

/* Adds AdamW's state, its weights if the model's files have rounded ones, and a
 * reference that follows the model.
 */
static int add_parts(struct fetch *fetch, struct dt_ckpt_writer *writer,
                     struct dt_error *err)
{
    struct dt_run *run = fetch->run;
    const struct dt_learner *learner = fetch->learner;
    size_t units = learner->spec->layout->unit_count, count = 0;
    const struct dt_ckpt_source source = {
        .fetch = fetch_part,
        .ctx = fetch,
        .send = run->spec.exec.device->is_host ? NULL : send_part};
    struct dt_ckpt_tensor *tensors = NULL;
    char name[DT_PARTS_NAME_BYTES];
    bool follows = learner == &run->learner && dt_run_reference_follows(run);
    int end = follows ? DT_PARTS_KINDS : DT_OWNED_GRADS;
    struct dt_view *parts = calloc((size_t)end * units, sizeof(*parts));
    for (size_t i = 0; parts && i < (size_t)end * units; i++)
        parts[i] = part_of(fetch, i / units, i % units);
    if (parts)
        tensors = dt_parts_list(
            learner->spec->layout, dt_parallel_index(learner->parallel),
            run->spec.world,
            dt_spec_rounds_saved(&run->spec, stored_type(run)) ? DT_OWNED_MASTER
                                                               : DT_OWNED_M,
            end, parts, &count, err);
    else
        dt_error_set(err, EX_OSERR, "out of memory");
    dt_parts_name(name, run->spec.rank, run->spec.world);
    int result = tensors ? dt_ckpt_add_tensors(writer, name, tensors, count,
                                               &source, err)
                         : -1;
    dt_parts_free_list(tensors, count);
    free(parts);
    return result;
}

static int add_progress(struct dt_run *run, struct dt_ckpt_writer *writer,
                        struct dt_error *err)
{
    char *text = dt_progress_format(run, err);
    int result =
        text ? dt_ckpt_add_text(writer, DT_PROGRESS_FILE, text, err) : -1;
    free(text);
    return result < 0 ? -1 : dt_alignment_save(run, writer, err);
}

/* Makes room in host memory for the largest part. If the device is the host,
 * the gradients of that unit, no longer in use, are the room, unless they are
 * narrower.
 */
static int make_room(struct fetch *fetch, struct dt_error *err)
{
    const struct dt_learner *learner = fetch->learner;
    const struct dt_layout *layout = learner->spec->layout;
    size_t largest = 0;
    for (size_t u = 1; u < layout->unit_count; u++)
        if (layout->units[u].count > layout->units[largest].count)
            largest = u;
    fetch->room = dt_parallel_part(learner->parallel, DT_OWNED_GRADS, largest);
    if (!learner->exec->device->is_host ||
        dt_dtype_bytes(fetch->room.dtype) < dt_dtype_bytes(learner->state)) {
        fetch->buf = dt_buffer_create(
            &dt_cpu, dt_learner_unit_elements(learner) * sizeof(float),
            "a unit", err);
        if (fetch->buf)
            fetch->room = dt_view_of(fetch->buf, DT_F32);
        return fetch->buf ? 0 : -1;
    }
    return 0;
}

bool dt_run_saves_model_alone(const struct dt_run *run)
{
    return run->spec.conf.checkpoint.only_model ||
           (run->spec.conf.checkpoint.strategy == DT_CONF_NO &&
            run->total_steps > 0 && run->progress.step == run->total_steps);
}

size_t dt_run_checkpoint_bytes(struct dt_run *run)
{
    enum dt_dtype stored = stored_type(run);
    size_t kinds = dt_spec_rounds_saved(&run->spec, stored) ? 3 : 2;
    size_t optim = kinds * dt_dtype_bytes(dt_spec_state_type(&run->spec));
    size_t saved = 0, trained = 0;
    const struct dt_learner *learner;
    if (dt_run_reference_follows(run))
        optim += sizeof(float);
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++) {
        saved += saved_layout(learner)->param_total;
        trained += learner->spec->layout->param_total;
    }
    if (dt_run_saves_model_alone(run))
        optim = 0;
    return saved * dt_dtype_bytes(stored) + trained * optim;
}

/* Adds this rank's files of a learner. *lost: the other ranks must not wait for
 * any more.
 */
static int add_learner(struct dt_run *run, struct dt_learner *learner,
                       struct dt_ckpt_writer *writer, struct dt_stream *stream,
                       bool *lost, struct dt_error *err)
{
    struct fetch fetch = {.run = run,
                          .learner = learner,
                          .stream = stream,
                          .unit = learner->spec->layout->unit_count};
    if (make_room(&fetch, err) < 0) {
        *lost = true; /* the others must not wait for it */
        return -1;
    }
    int result = add_model(&fetch, writer, err);
    if (result == 0 && !dt_run_saves_model_alone(run))
        result = add_parts(&fetch, writer, err);
    dt_buffer_destroy(fetch.buf);
    *lost = fetch.lost;
    return result;
}

int dt_run_add_files(struct dt_run *run, struct dt_ckpt_writer *writer,
                     struct dt_stream *stream, bool *lost, struct dt_error *err)
{
    struct dt_learner *learner;
    struct dt_error first;
    int result = 0;
    for (size_t i = 0; (learner = dt_run_learner(run, i)) && !*lost; i++) {
        if (dt_ckpt_enter(writer, learner->spec->folder, err) < 0 &&
            result == 0) {
            result = -1;
            first = *err;
        }
        if (add_learner(run, learner, writer, stream, lost, err) < 0 &&
            result == 0) {
            result = -1;
            first = *err;
        }
    }
    if (result < 0 && !*lost)
        *err = first;
    if (result < 0 || *lost || dt_ckpt_enter(writer, "", err) < 0)
        return -1;
    return run->spec.rank > 0 || dt_run_saves_model_alone(run)
               ? 0
               : add_progress(run, writer, err);
}
