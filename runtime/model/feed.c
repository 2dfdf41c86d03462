/* SPDX-License-Identifier: Apache-2.0 */
/* feed.c - staging memory, and one copy a batch */
#include "config.h"

#include <assert.h>
#include <string.h>

#include "model/feed.h"

enum { ALIGN = 256, ARRAYS = 5 }; /* arrays of N I32 */

static size_t round_up(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

size_t dt_feed_bytes(size_t B, size_t N)
{
    return round_up(B * sizeof(int64_t)) +
           ARRAYS * round_up(N * sizeof(int32_t));
}

int dt_feed_init(struct dt_feed *feed, const struct dt_exec *exec, size_t B,
                 size_t N, struct dt_error *err)
{
    *feed = (struct dt_feed){
        .exec = *exec, .B = B, .N = N, .bytes = dt_feed_bytes(B, N)};
    feed->buf = dt_buffer_create(exec->device, feed->bytes, "batches", err);
    if (!feed->buf)
        return -1;
    for (size_t i = 0; i < DT_MODEL_BATCHES; i++)
        if (exec->device->allocate_staging(feed->bytes, &feed->slots[i].staging,
                                           err) < 0 ||
            exec->device->event_create(&feed->slots[i].copied, err) < 0)
            return dt_error_prefix(err, "batches");
    return 0;
}

void dt_feed_fini(struct dt_feed *feed)
{
    for (size_t i = 0; i < DT_MODEL_BATCHES; i++) {
        if (feed->slots[i].copied)
            feed->exec.device->event_destroy(feed->slots[i].copied);
        if (feed->slots[i].staging)
            feed->exec.device->release_staging(feed->slots[i].staging,
                                               feed->bytes);
    }
    dt_buffer_destroy(feed->buf);
}

/* A batch being laid out, on the host and on the device alike. */
struct place {
    struct dt_feed *feed;
    char *host;
    size_t used; /* bytes */
};

/* Copies an array, if there is one, and returns where the device finds it. */
static struct dt_view put(struct place *place, const void *data, size_t count,
                          enum dt_dtype dtype)
{
    size_t size = dt_dtype_bytes(dtype);
    struct dt_view v = {place->feed->buf, place->used / size, count, dtype};
    if (!data)
        return (struct dt_view){0};
    if (data != place->host + place->used)
        memcpy(place->host + place->used, data, count * size);
    place->used += round_up(count * size);
    return v;
}

/* Positions count from the start of a document; a sequence that is continued
 * has one in its cache, or has ended.
 */
static void set_positions(int32_t *positions, const struct dt_batch *batch,
                          const int32_t *places, bool next)
{
    for (size_t n = 0; n < batch->B * batch->T; n++) {
        int32_t t = (int32_t)(n % batch->T);
        if (next)
            t = places[n];
        else if (batch->starts)
            t -= batch->starts[n];
        positions[n] = t > 0 ? t : 0;
    }
}

int dt_feed_batch(struct dt_feed *feed, const struct dt_batch *batch,
                  const int32_t *places, bool next, struct dt_error *err)
{
    const struct dt_device *device = feed->exec.device;
    size_t slot = feed->turn++ % DT_MODEL_BATCHES, N = batch->B * batch->T;
    struct place place = {feed, feed->slots[slot].staging, 0};
    assert((!batch->rows || batch->B <= feed->B) && N <= feed->N);
    if (dt_event_wait(device, feed->slots[slot].copied, err) < 0)
        return -1;
    feed->rows = put(&place, batch->rows, batch->B, DT_I64);
    feed->inputs = put(&place, batch->inputs, N, DT_I32);
    feed->targets = put(&place, batch->targets, N, DT_I32);
    feed->starts = put(&place, batch->starts, N, DT_I32);
    feed->places = put(&place, places, N, DT_I32);
    set_positions((int32_t *)(place.host + place.used), batch, places, next);
    feed->positions = put(&place, place.host + place.used, N, DT_I32);
    if (device->copy(feed->exec.stream, feed->buf->data, place.host, place.used,
                     err) < 0)
        return -1;
    return device->event_record(feed->slots[slot].copied, feed->exec.stream,
                                err);
}
