/* SPDX-License-Identifier: Apache-2.0 */
/* inputs.c - uploads a batch in one copy, from staging memory */
#include "config.h"

#include <string.h>

#include "model/model_impl.h"

enum { ALIGN = 256, ARRAYS = 5, PICKED = 2 }; /* arrays of N I32 */

static size_t align_bytes(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

size_t dt_inputs_bytes(const struct dt_inputs_limits *limits)
{
    return align_bytes(limits->B * sizeof(int64_t)) +
           (limits->picks ? ARRAYS + PICKED : ARRAYS) *
               align_bytes(limits->N * sizeof(int32_t)) +
           align_bytes(limits->table * sizeof(int32_t));
}

int dt_inputs_init(struct dt_inputs *inputs, const struct dt_exec *exec,
                   const struct dt_inputs_limits *limits, struct dt_error *err)
{
    *inputs = (struct dt_inputs){
        .exec = *exec, .limits = *limits, .bytes = dt_inputs_bytes(limits)};
    inputs->buf = dt_buffer_create(exec->device, inputs->bytes, "batches", err);
    if (!inputs->buf)
        return -1;
    for (size_t i = 0; i < DT_MODEL_BATCHES; i++)
        if (exec->device->allocate_staging(inputs->bytes,
                                           &inputs->staging[i].data, err) < 0 ||
            exec->device->event_create(&inputs->staging[i].copied, err) < 0)
            return dt_error_prefix(err, "batches");
    return 0;
}

void dt_inputs_fini(struct dt_inputs *inputs)
{
    for (size_t i = 0; i < DT_MODEL_BATCHES; i++) {
        if (inputs->staging[i].copied)
            inputs->exec.device->event_destroy(inputs->staging[i].copied);
        if (inputs->staging[i].data)
            inputs->exec.device->release_staging(inputs->staging[i].data,
                                                 inputs->bytes);
    }
    dt_buffer_destroy(inputs->buf);
}

/* A batch being assembled in staging memory; offsets on the device are equal.
 */
struct upload {
    struct dt_inputs *inputs;
    char *host;
    size_t used; /* bytes */
};

/* Appends an array, unless it is NULL. Returns its view on the device. */
static struct dt_view append_array(struct upload *upload, const void *data,
                                   size_t count, enum dt_dtype dtype)
{
    size_t size = dt_dtype_bytes(dtype);
    struct dt_view v = {upload->inputs->buf, upload->used / size, count, dtype};
    if (!data)
        return (struct dt_view){0};
    if ((const char *)data != upload->host + upload->used)
        memcpy(upload->host + upload->used, data, count * size);
    upload->used += align_bytes(count * size);
    return v;
}

/* The picked tokens, and the targets of these. They come last: recorded graphs
 * have the addresses of all other arrays, which depend on B and T alone, while
 * the number of picked tokens is each batch's own.
 */
static void append_picked(struct upload *upload, const struct dt_batch *batch)
{
    struct dt_inputs *inputs = upload->inputs;
    size_t count = batch->picked_count;
    inputs->picked = append_array(upload, batch->picked, count, DT_I32);
    int32_t *targets = (int32_t *)(upload->host + upload->used);
    for (size_t i = 0; i < count; i++)
        targets[i] = batch->targets[batch->picked[i]];
    inputs->picked_targets =
        append_array(upload, count > 0 ? targets : NULL, count, DT_I32);
}

/* Positions count from the start of a document. */
static void set_positions(int32_t *positions, const struct dt_batch *batch)
{
    for (size_t n = 0; n < batch->B * batch->T; n++) {
        int32_t t = (int32_t)(n % batch->T);
        positions[n] = t - (batch->doc_start ? batch->doc_start[n] : 0);
    }
}

/* Those of documents with more than `longest` positions go to the rows of the
 * second table, which begin at `rows`.
 */
static void move_long_documents(int32_t *positions, size_t count,
                                size_t longest, size_t rows)
{
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && positions[end] > 0;)
            end++;
        for (size_t n = first; n < end && end - first > longest; n++)
            positions[n] += (int32_t)rows;
    }
}

/* Elements of a cache's table for N tokens. */
static size_t table_count(const struct dt_cache *cache, size_t N)
{
    return cache && cache->table ? N * cache->blocks : 0;
}

static void append_cache(struct upload *upload, const struct dt_cache *cache,
                         size_t N)
{
    struct dt_inputs *inputs = upload->inputs;
    size_t count = table_count(cache, N);
    inputs->places =
        append_array(upload, cache ? cache->places : NULL, N, DT_I32);
    inputs->table =
        append_array(upload, count > 0 ? cache->table : NULL, count, DT_I32);
}

static int check_limits(const struct dt_inputs *inputs,
                        const struct dt_batch *batch,
                        const struct dt_cache *cache, struct dt_error *err)
{
    const struct dt_inputs_limits *limits = &inputs->limits;
    const size_t N = batch->B * batch->T, most = limits->picks ? N : 0;
    const struct {
        const char *what;
        size_t count, most;
    } sizes[] = {
        {"tokens", N, limits->N},
        {"numbered rows", batch->rows ? batch->B : 0, limits->B},
        {"picked tokens", batch->picked_count, most},
        {"places of a cache", table_count(cache, N), limits->table},
    };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        if (sizes[i].count > sizes[i].most)
            return dt_error_set(err, EX_SOFTWARE,
                                "a batch has %zu %s, but there is memory for "
                                "%zu: please report this",
                                sizes[i].count, sizes[i].what, sizes[i].most);
    return 0;
}

int dt_inputs_upload(struct dt_inputs *inputs, const struct dt_batch *batch,
                     const struct dt_cache *cache, struct dt_error *err)
{
    const struct dt_device *device = inputs->exec.device;
    size_t slot = inputs->uploads++ % DT_MODEL_BATCHES, N = batch->B * batch->T;
    struct upload upload = {inputs, inputs->staging[slot].data, 0};
    const int32_t *positions = cache ? cache->positions : NULL;
    if (check_limits(inputs, batch, cache, err) < 0 ||
        dt_event_wait(device, inputs->staging[slot].copied, err) < 0)
        return -1;
    inputs->rows = append_array(&upload, batch->rows, batch->B, DT_I64);
    inputs->ids = append_array(&upload, batch->inputs, N, DT_I32);
    inputs->targets = append_array(&upload, batch->targets, N, DT_I32);
    inputs->doc_start = append_array(&upload, batch->doc_start, N, DT_I32);
    append_cache(&upload, cache, N);
    if (!positions) {
        int32_t *own = (int32_t *)(upload.host + upload.used);
        set_positions(own, batch);
        if (inputs->limits.longest > 0)
            move_long_documents(own, N, inputs->limits.longest,
                                inputs->limits.angles);
        positions = own;
    }
    inputs->positions = append_array(&upload, positions, N, DT_I32);
    append_picked(&upload, batch);
    if (device->copy(inputs->exec.stream, inputs->buf->data, upload.host,
                     upload.used, err) < 0)
        return -1;
    return device->event_record(inputs->staging[slot].copied,
                                inputs->exec.stream, err);
}
