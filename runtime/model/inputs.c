/* SPDX-License-Identifier: Apache-2.0 */
/* inputs.c - uploads a batch in one copy, from staging memory */
#include "config.h"

#include <string.h>

#include "model/model_impl.h"

/* Arrays of N I32: ids, targets and first; of a decoder ids, first, places and
 * indices.
 */
enum { ALIGN = 256, ARRAYS = 3, DECODED = 4, PICKED = 2 };

/* --- arrays on the device --- */

size_t dt_staged_bytes(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

int dt_staged_init(struct dt_staged *staged, const struct dt_exec *exec,
                   size_t bytes, const char *what, struct dt_error *err)
{
    *staged = (struct dt_staged){.exec = *exec, .bytes = bytes};
    staged->buf = dt_buffer_create(exec->device, bytes, what, err);
    if (!staged->buf)
        return -1;
    for (size_t i = 0; i < DT_MODEL_BATCHES; i++)
        if (exec->device->allocate_staging(bytes, &staged->slots[i].data, err) <
                0 ||
            exec->device->event_create(&staged->slots[i].copied, err) < 0)
            return dt_error_prefix(err, "%s", what);
    return 0;
}

void dt_staged_fini(struct dt_staged *staged)
{
    for (size_t i = 0; i < DT_MODEL_BATCHES; i++) {
        if (staged->slots[i].copied)
            staged->exec.device->event_destroy(staged->slots[i].copied);
        if (staged->slots[i].data)
            staged->exec.device->release_staging(staged->slots[i].data,
                                                 staged->bytes);
    }
    dt_buffer_destroy(staged->buf);
}

int dt_staged_begin(struct dt_staged *staged, struct dt_upload *upload,
                    struct dt_error *err)
{
    const size_t slot = staged->uploads % DT_MODEL_BATCHES;
    *upload = (struct dt_upload){staged->buf, staged->slots[slot].data, 0};
    return dt_event_wait(staged->exec.device, staged->exec.stream,
                         staged->slots[slot].copied, err);
}

void *dt_upload_reserve(struct dt_upload *upload, size_t count,
                        enum dt_dtype dtype, struct dt_view *view)
{
    const size_t size = dt_dtype_bytes(dtype);
    void *here = upload->host + upload->used;
    *view = (struct dt_view){0};
    if (count == 0)
        return NULL;
    *view = (struct dt_view){upload->buf, upload->used / size, count, dtype};
    upload->used += dt_staged_bytes(count * size);
    return here;
}

struct dt_view dt_upload_copy(struct dt_upload *upload, const void *data,
                              size_t count, enum dt_dtype dtype)
{
    struct dt_view view;
    void *here = dt_upload_reserve(upload, count, dtype, &view);
    if (!data)
        return (struct dt_view){0};
    if (count > 0)
        memcpy(here, data, count * dt_dtype_bytes(dtype));
    return view;
}

int dt_staged_finish(struct dt_staged *staged, const struct dt_upload *upload,
                     struct dt_error *err)
{
    const struct dt_device *device = staged->exec.device;
    const size_t slot = staged->uploads++ % DT_MODEL_BATCHES;
    if (device->copy(staged->exec.stream, staged->buf->data, upload->host,
                     upload->used, err) < 0)
        return -1;
    return device->event_record(staged->slots[slot].copied, staged->exec.stream,
                                err);
}

/* --- a batch --- */

size_t dt_inputs_bytes(const struct dt_inputs_limits *limits)
{
    const size_t arrays = (limits->table > 0 ? DECODED : ARRAYS) +
                          limits->axes + limits->ahead +
                          (limits->picks ? PICKED : 0);
    return dt_staged_bytes(limits->B * sizeof(int64_t)) +
           arrays * dt_staged_bytes(limits->N * sizeof(int32_t)) +
           dt_staged_bytes(dt_document_places(limits->N) *
                           sizeof(struct dt_document)) +
           dt_staged_bytes(limits->table * sizeof(int32_t)) +
           dt_staged_bytes(limits->draws * sizeof(double)) +
           dt_staged_bytes(limits->seen * sizeof(int32_t));
}

int dt_inputs_init(struct dt_inputs *inputs, const struct dt_exec *exec,
                   const struct dt_inputs_limits *limits, struct dt_error *err)
{
    *inputs = (struct dt_inputs){.limits = *limits};
    return dt_staged_init(&inputs->staged, exec, dt_inputs_bytes(limits),
                          "batches", err);
}

void dt_inputs_fini(struct dt_inputs *inputs)
{
    dt_staged_fini(&inputs->staged);
}

/* The numbers of rows. There may be more rows than numbers have memory, of
 * batches that have none.
 */
static void append_rows(struct dt_inputs *inputs, struct dt_upload *upload,
                        const struct dt_batch *batch)
{
    struct dt_view all;
    int64_t *numbers =
        dt_upload_reserve(upload, inputs->limits.B, DT_I64, &all);
    inputs->rows = (struct dt_view){0};
    if (!batch->rows)
        return;
    memcpy(numbers, batch->rows, batch->B * sizeof(*numbers));
    inputs->rows = dt_view_slice(all, 0, batch->B);
}

/* Where documents are. The view has all places, as what a run reads follows
 * from the numbers of runs.
 */
static void append_documents(struct dt_inputs *inputs, struct dt_upload *upload,
                             const struct dt_batch *batch)
{
    const size_t tokens = inputs->limits.N;
    struct dt_view all;
    struct dt_document *spans = dt_upload_reserve(
        upload, dt_document_places(tokens) * sizeof(*spans) / sizeof(int32_t),
        DT_I32, &all);
    inputs->documents = (struct dt_documents){
        .tokens = tokens, .longest = inputs->limits.document};
    if (!batch->doc_start)
        return;
    inputs->documents.spans = all;
    dt_documents_find(&inputs->documents, spans, batch->doc_start, batch->B,
                      batch->T);
}

/* The picked tokens, and the targets of these. They come last, since their
 * number is each batch's own.
 */
static void append_picked(struct dt_inputs *inputs, struct dt_upload *upload,
                          const struct dt_batch *batch)
{
    const size_t count = batch->picked_count;
    inputs->picked = dt_upload_copy(upload, batch->picked, count, DT_I32);
    int32_t *targets =
        dt_upload_reserve(upload, count, DT_I32, &inputs->picked_targets);
    for (size_t i = 0; i < count; i++)
        targets[i] = batch->targets[batch->picked[i]];
}

/* Positions count from the start of a document. */
static void set_positions(int32_t *positions, const struct dt_batch *batch)
{
    for (size_t n = 0; n < batch->B * batch->T; n++) {
        int32_t t = (int32_t)(n % batch->T);
        positions[n] = t - (batch->doc_start ? batch->doc_start[n] : 0);
    }
}

/* The tokens of a picture have the place at which it begins, and add to it how
 * far down and across they are; the text goes on behind its longer side (Wang
 * et al., "Qwen2-VL", arXiv 2409.12191, sec. 2.1). Returns the next place.
 */
static int32_t place_picture(int32_t *positions, size_t N, int32_t at,
                             const struct dt_batch_picture *picture,
                             size_t merge)
{
    const size_t width = picture->width / merge;
    for (size_t i = 0; i < picture->tokens; i++) {
        const size_t n = picture->first + i;
        positions[n] = at;
        positions[N + n] = at + (int32_t)(i / width);
        positions[2 * N + n] = at + (int32_t)(i % width);
    }
    return at + (int32_t)dt_picture_positions(picture, merge);
}

/* Positions (3, N) on three axes. */
static void set_axes(int32_t *positions, const struct dt_batch *batch,
                     size_t merge)
{
    const size_t N = batch->B * batch->T;
    const struct dt_batch_picture *next = batch->pictures;
    const struct dt_batch_picture *end = next + batch->picture_count;
    int32_t at = 0;
    for (size_t n = 0; n < N;) {
        const int32_t t = (int32_t)(n % batch->T);
        if (t == (batch->doc_start ? batch->doc_start[n] : 0))
            at = 0;
        if (next < end && next->first == n) {
            at = place_picture(positions, N, at, next, merge);
            n += next++->tokens;
            continue;
        }
        for (size_t axis = 0; axis < 3; axis++)
            positions[axis * N + n] = at;
        at++;
        n++;
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

/* The last position that each attends to: its own, or the last of its picture.
 */
static void append_last(struct dt_inputs *inputs, struct dt_upload *upload,
                        const struct dt_batch *batch,
                        const struct dt_cache *cache)
{
    const size_t N = batch->B * batch->T;
    const size_t count = inputs->limits.ahead ? N : 0;
    int32_t *last = dt_upload_reserve(upload, count, DT_I32, &inputs->last);
    if (cache && cache->indices)
        inputs->last = (struct dt_view){0};
    if (!inputs->last.buf)
        return;
    for (size_t n = 0; n < N; n++)
        last[n] = (int32_t)(n % batch->T);
    for (size_t i = 0; i < batch->picture_count; i++) {
        const struct dt_batch_picture *picture = &batch->pictures[i];
        for (size_t k = 0; k < picture->tokens; k++)
            last[picture->first + k] =
                (int32_t)(picture->first % batch->T + picture->tokens - 1);
    }
}

/* Elements of a cache's table for N tokens, of draws, and of seen tokens. */
static size_t table_count(const struct dt_cache *cache, size_t N)
{
    return cache && cache->table ? N * cache->blocks : 0;
}

static size_t draw_count(const struct dt_cache *cache, size_t N)
{
    return cache && cache->draws ? N : 0;
}

static size_t seen_count(const struct dt_cache *cache, size_t N)
{
    return cache && cache->seen ? N * cache->words : 0;
}

static void append_cache(struct dt_inputs *inputs, struct dt_upload *upload,
                         const struct dt_cache *cache, size_t N)
{
    const size_t count = table_count(cache, N);
    inputs->places = dt_upload_copy(upload, cache->places, N, DT_I32);
    inputs->indices = dt_upload_copy(upload, cache->indices, N, DT_I32);
    inputs->table = dt_upload_copy(upload, cache->table, count, DT_I32);
    inputs->draws =
        dt_upload_copy(upload, cache->draws, draw_count(cache, N), DT_F64);
    inputs->seen =
        dt_upload_copy(upload, cache->seen, seen_count(cache, N), DT_I32);
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
        {"draws", draw_count(cache, N), limits->draws},
        {"words of tokens seen", seen_count(cache, N), limits->seen},
    };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        if (sizes[i].count > sizes[i].most)
            return dt_error_set(err, EX_SOFTWARE,
                                "a batch has %zu %s, but there is memory for "
                                "%zu: please report this",
                                sizes[i].count, sizes[i].what, sizes[i].most);
    return 0;
}

/* The positions of a batch, unless a cache has them. */
static void append_positions(struct dt_inputs *inputs, struct dt_upload *upload,
                             const struct dt_batch *batch,
                             const struct dt_cache *cache)
{
    const struct dt_inputs_limits *limits = &inputs->limits;
    const size_t N = batch->B * batch->T;
    int32_t *own =
        dt_upload_reserve(upload, limits->axes * N, DT_I32, &inputs->positions);
    if (cache && cache->indices) {
        for (size_t axis = 0; axis < limits->axes; axis++)
            memcpy(own + axis * N, cache->positions, N * sizeof(*own));
        return;
    }
    if (limits->axes > 1)
        set_axes(own, batch, limits->merge);
    else
        set_positions(own, batch);
    if (limits->longest > 0)
        move_long_documents(own, N, limits->longest, limits->angles);
}

/* Recorded graphs have the addresses of the arrays. So each array takes its
 * place whether the batch has it or not, and where the next one begins depends
 * on B and T alone.
 */
int dt_inputs_upload(struct dt_inputs *inputs, const struct dt_batch *batch,
                     const struct dt_cache *cache, struct dt_error *err)
{
    const size_t N = batch->B * batch->T;
    struct dt_upload upload;
    if (check_limits(inputs, batch, cache, err) < 0 ||
        dt_staged_begin(&inputs->staged, &upload, err) < 0)
        return -1;
    inputs->ids = dt_upload_copy(&upload, batch->inputs, N, DT_I32);
    inputs->first = dt_upload_copy(&upload, batch->doc_start, N, DT_I32);
    append_documents(inputs, &upload, batch);
    append_last(inputs, &upload, batch, cache);
    append_positions(inputs, &upload, batch, cache);
    if (cache) {
        append_cache(inputs, &upload, cache, N);
    } else {
        append_rows(inputs, &upload, batch);
        inputs->targets = dt_upload_copy(&upload, batch->targets, N, DT_I32);
    }
    append_picked(inputs, &upload, batch);
    return dt_staged_finish(&inputs->staged, &upload, err);
}
