/* SPDX-License-Identifier: Apache-2.0 */
/* tiles.c - arrays that the device has no room for, in tiles */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>

#include "parallel/swap.h"
#include "parallel/tiles.h"

/* A buffer of the swap, which holds one array of a tile: tile `id % tiles` of
 * array `id / tiles`.
 */
struct held {
    size_t id;
    bool full;                      /* it holds one */
    bool changed;                   /* and the file has an older one */
    dt_swap_ticket_t read, written; /* its last transfers, not waited for */
    uint64_t used;                  /* when it was, last */
    struct dt_buffer buf;           /* its memory */
    struct dt_event *copied; /* the end of the device's copies from and to it;
                                NULL: the device is the host */
};

struct dt_tiles {
    struct dt_tiles_options options;
    struct dt_exec exec;
    size_t tile_count;
    struct dt_buffer host[DT_TILES_ARRAYS];    /* in host memory: the arrays */
    struct dt_buffer *device[DT_TILES_ARRAYS]; /* a tile on its way */
    struct dt_swap *swap;
    struct held *held; /* (held_count), one for each buffer of the swap */
    size_t held_count;
    uint64_t uses;
    size_t open; /* tile; tile_count: none */
};

/* --- sizes --- */

static size_t count_tiles(const struct dt_tiles_options *o)
{
    return (o->count + o->tile - 1) / o->tile;
}

static struct dt_swap_options swap_options(const struct dt_tiles_options *o)
{
    return (struct dt_swap_options){
        .tile_bytes = o->tile * dt_dtype_bytes(o->type),
        .tile_count = count_tiles(o) * o->arrays,
        .buffer_count = o->buffers * o->arrays,
        .block_bytes = o->block_bytes,
        .queue_depth = o->queue_depth,
    };
}

struct dt_tiles_bytes dt_tiles_plan(const struct dt_tiles_options *o)
{
    const size_t element = o->arrays * dt_dtype_bytes(o->type);
    struct dt_tiles_bytes bytes = {
        .device = o->on_device ? o->tile * element : 0,
        .host = o->count * element,
    };
    if (o->tier == DT_TIER_FILE) {
        const struct dt_swap_options swap = swap_options(o);
        const struct dt_swap_bytes taken = dt_swap_plan(&swap);
        bytes.host = taken.memory;
        bytes.file = taken.file;
    }
    return bytes;
}

/* Elements of tile i. */
static size_t tile_length(const struct dt_tiles *tiles, size_t i)
{
    const struct dt_tiles_options *o = &tiles->options;
    size_t left = o->count - i * o->tile;
    return left < o->tile ? left : o->tile;
}

/* --- create and destroy --- */

static int allocate_host(struct dt_tiles *tiles, struct dt_error *err)
{
    const struct dt_tiles_options *o = &tiles->options;
    const size_t bytes = o->count * dt_dtype_bytes(o->type);
    for (size_t array = 0; array < o->arrays; array++) {
        struct dt_buffer *buf = &tiles->host[array];
        if (tiles->exec.device->allocate_staging(bytes, &buf->data, err) < 0)
            return dt_error_prefix(err, "offloaded state");
        buf->bytes = bytes;
        buf->device = &dt_cpu;
    }
    return 0;
}

/* Lets the device copy from a buffer, and to it, without the host. */
static int lock_buffer(const struct dt_tiles *tiles, struct held *held,
                       struct dt_error *err)
{
    const struct dt_device *device = tiles->exec.device;
    if (!device->lock)
        return 0;
    if (device->event_create(&held->copied, err) < 0)
        return -1;
    if (device->lock(held->buf.data, held->buf.bytes, err) == 0)
        return 0;
    device->event_destroy(held->copied);
    held->copied = NULL;
    return dt_error_prefix(err, "buffers of offloaded state");
}

static int allocate_file(struct dt_tiles *tiles, struct dt_error *err)
{
    const struct dt_tiles_options *o = &tiles->options;
    const struct dt_swap_options swap = swap_options(o);
    tiles->held = calloc(swap.buffer_count, sizeof(*tiles->held));
    if (!tiles->held)
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (!(tiles->swap = dt_swap_create(o->path, &swap, err)))
        return -1;
    tiles->held_count = swap.buffer_count;
    for (size_t i = 0; i < tiles->held_count; i++) {
        tiles->held[i].buf =
            (struct dt_buffer){.data = dt_swap_buffer(tiles->swap, i),
                               .bytes = swap.tile_bytes,
                               .device = &dt_cpu};
        if (lock_buffer(tiles, &tiles->held[i], err) < 0)
            return -1;
    }
    return 0;
}

static int allocate_device(struct dt_tiles *tiles, struct dt_error *err)
{
    const struct dt_tiles_options *o = &tiles->options;
    for (size_t array = 0; o->on_device && array < o->arrays; array++)
        if (!(tiles->device[array] = dt_buffer_create(
                  tiles->exec.device, o->tile * dt_dtype_bytes(o->type),
                  "a tile of offloaded state", err)))
            return -1;
    return 0;
}

struct dt_tiles *dt_tiles_create(const struct dt_tiles_options *options,
                                 const struct dt_exec *exec,
                                 struct dt_error *err)
{
    struct dt_tiles *tiles = calloc(1, sizeof(*tiles));
    assert(options->arrays > 0 && options->arrays <= DT_TILES_ARRAYS);
    assert(options->tile > 0 && options->tile <= options->count);
    assert(!(options->on_device && exec->device->is_host));
    if (!tiles) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    tiles->options = *options;
    tiles->exec = *exec;
    tiles->open = tiles->tile_count = count_tiles(options);
    int rc = options->tier == DT_TIER_FILE ? allocate_file(tiles, err)
                                           : allocate_host(tiles, err);
    if (rc == 0 && allocate_device(tiles, err) == 0)
        return tiles;
    dt_tiles_destroy(tiles);
    return NULL;
}

void dt_tiles_destroy(struct dt_tiles *tiles)
{
    if (!tiles)
        return;
    for (size_t array = 0; array < DT_TILES_ARRAYS; array++) {
        struct dt_buffer *host = &tiles->host[array];
        if (host->data)
            tiles->exec.device->release_staging(host->data, host->bytes);
        dt_buffer_destroy(tiles->device[array]);
    }
    for (size_t i = 0; i < tiles->held_count; i++) {
        struct held *held = &tiles->held[i];
        if (!held->copied)
            continue;
        tiles->exec.device->unlock(held->buf.data);
        tiles->exec.device->event_destroy(held->copied);
    }
    dt_swap_destroy(tiles->swap);
    free(tiles->held);
    free(tiles);
}

/* --- buffers of the swap --- */

static int write_back(struct dt_tiles *tiles, struct held *held,
                      struct dt_error *err)
{
    held->changed = false;
    return dt_swap_start_write(tiles->swap, held->id,
                               (size_t)(held - tiles->held), &held->written,
                               err);
}

/* The buffer that holds `id`, or else the one that was used longest ago. */
static struct held *choose_buffer(const struct dt_tiles *tiles, size_t id)
{
    struct held *oldest = &tiles->held[0];
    for (size_t i = 0; i < tiles->held_count; i++) {
        struct held *held = &tiles->held[i];
        if (held->full && held->id == id)
            return held;
        if (held->used < oldest->used)
            oldest = held;
    }
    return oldest;
}

static int wait_copied(const struct dt_tiles *tiles, const struct held *held,
                       struct dt_error *err)
{
    if (!held->copied)
        return 0;
    return dt_event_wait(tiles->exec.device, tiles->exec.stream, held->copied,
                         err);
}

/* Makes a buffer hold an array of tile i, or starts to if it is `read`. NULL:
 * the drive or the device failed.
 */
static struct held *hold(struct dt_tiles *tiles, size_t array, size_t i,
                         bool read, struct dt_error *err)
{
    const size_t id = array * tiles->tile_count + i;
    struct held *held = choose_buffer(tiles, id);
    held->used = ++tiles->uses;
    if (held->full && held->id == id)
        return held;
    if (wait_copied(tiles, held, err) < 0 ||
        (held->full && held->changed && write_back(tiles, held, err) < 0))
        return NULL;
    held->full = true;
    held->id = id;
    if (read &&
        dt_swap_start_read(tiles->swap, id, (size_t)(held - tiles->held),
                           &held->read, err) < 0)
        return NULL;
    return held;
}

/* Waits until its content is there, and may be changed too. */
static int wait_content(struct dt_tiles *tiles, struct held *held,
                        struct dt_error *err)
{
    dt_swap_ticket_t ticket = held->read;
    held->read = 0;
    return dt_swap_wait(tiles->swap, ticket, err);
}

static int wait_unused(struct dt_tiles *tiles, struct held *held,
                       struct dt_error *err)
{
    dt_swap_ticket_t ticket = held->written;
    if (wait_content(tiles, held, err) < 0 || wait_copied(tiles, held, err) < 0)
        return -1;
    held->written = 0;
    return dt_swap_wait(tiles->swap, ticket, err);
}

/* --- a tile at a time --- */

/* Array of tile i in host memory, to be changed; the buffer of a swap waits
 * until it is open.
 */
static struct dt_view host_view(struct dt_tiles *tiles, size_t array, size_t i)
{
    const struct dt_tiles_options *o = &tiles->options;
    const size_t length = tile_length(tiles, i);
    struct dt_view all;
    if (o->tier == DT_TIER_HOST) {
        all = dt_view_of(&tiles->host[array], o->type);
        return dt_view_slice(all, i * o->tile, length);
    }
    struct held *held = choose_buffer(tiles, array * tiles->tile_count + i);
    return dt_view_slice(dt_view_of(&held->buf, o->type), 0, length);
}

/* Gets all arrays of tile i into buffers, and starts to read those after it. */
static int hold_tile(struct dt_tiles *tiles, size_t i, bool overwrite,
                     struct dt_error *err)
{
    const struct dt_tiles_options *o = &tiles->options;
    size_t end = overwrite ? i + 1 : i + o->buffers;
    for (size_t next = i; next < end && next < tiles->tile_count; next++)
        for (size_t array = 0; array < o->arrays; array++)
            if (!hold(tiles, array, next, !overwrite, err))
                return -1;
    for (size_t array = 0; array < o->arrays; array++)
        if (wait_unused(tiles, hold(tiles, array, i, !overwrite, err), err) < 0)
            return -1;
    return 0;
}

static int copy(const struct dt_tiles *tiles, void *to, const void *from,
                size_t bytes, struct dt_error *err)
{
    return tiles->exec.device->copy(tiles->exec.stream, to, from, bytes, err);
}

int dt_tiles_open(struct dt_tiles *tiles, size_t i, bool overwrite,
                  struct dt_view *views, struct dt_error *err)
{
    const struct dt_tiles_options *o = &tiles->options;
    assert(i < tiles->tile_count && tiles->open == tiles->tile_count);
    if (o->tier == DT_TIER_FILE && hold_tile(tiles, i, overwrite, err) < 0)
        return -1;
    tiles->open = i;
    for (size_t array = 0; array < o->arrays; array++) {
        struct dt_view here = host_view(tiles, array, i);
        views[array] = here;
        if (!o->on_device)
            continue;
        views[array] = dt_view_slice(dt_view_of(tiles->device[array], o->type),
                                     0, here.count);
        if (!overwrite &&
            copy(tiles, dt_view_data(views[array]), dt_view_data(here),
                 dt_view_bytes(here), err) < 0)
            return -1;
    }
    return 0;
}

int dt_tiles_close(struct dt_tiles *tiles, struct dt_error *err)
{
    const struct dt_tiles_options *o = &tiles->options;
    const size_t i = tiles->open;
    for (size_t array = 0; o->on_device && array < o->arrays; array++) {
        struct dt_view here = host_view(tiles, array, i);
        if (copy(tiles, dt_view_data(here), tiles->device[array]->data,
                 dt_view_bytes(here), err) < 0)
            return -1;
    }
    tiles->open = tiles->tile_count;
    if (o->tier != DT_TIER_FILE)
        return 0;
    if (o->on_device &&
        tiles->exec.device->stream_wait(tiles->exec.stream, err) < 0)
        return -1;
    for (size_t array = 0; array < o->arrays; array++)
        if (write_back(tiles,
                       choose_buffer(tiles, array * tiles->tile_count + i),
                       err) < 0)
            return -1;
    return 0;
}

/* --- any range of an array --- */

/* The first of elements [first, first + count) of an array that are in one
 * tile, in host memory, to be read, or to be overwritten if `change`.
 */
static int find_range(struct dt_tiles *tiles, size_t array, size_t first,
                      size_t count, bool change, struct dt_view *view,
                      struct dt_error *err)
{
    const struct dt_tiles_options *o = &tiles->options;
    const size_t i = first / o->tile, at = first % o->tile;
    const size_t length = tile_length(tiles, i);
    const size_t taken = length - at < count ? length - at : count;
    assert(first + count <= o->count);
    if (o->tier == DT_TIER_FILE) {
        struct held *held =
            hold(tiles, array, i, !change || taken < length, err);
        if (!held)
            return -1;
        if (change ? wait_unused(tiles, held, err) < 0
                   : wait_content(tiles, held, err) < 0)
            return -1;
        held->changed = held->changed || change;
    }
    *view = dt_view_slice(host_view(tiles, array, i), at, taken);
    return 0;
}

/* The device copies from or to the buffer that holds this element. */
static int note_copy(struct dt_tiles *tiles, size_t array, size_t first,
                     struct dt_error *err)
{
    const size_t i = first / tiles->options.tile;
    if (tiles->options.tier != DT_TIER_FILE)
        return 0;
    struct held *held = choose_buffer(tiles, array * tiles->tile_count + i);
    return held->copied ? tiles->exec.device->event_record(
                              held->copied, tiles->exec.stream, err)
                        : 0;
}

/* Queues copies of a range of an array to or from other memory. */
static int move_range(struct dt_tiles *tiles, size_t array, size_t first,
                      size_t count, char *other, bool put, struct dt_error *err)
{
    struct dt_view view;
    for (size_t done = 0; done < count; done += view.count) {
        if (find_range(tiles, array, first + done, count - done, put, &view,
                       err) < 0)
            return -1;
        char *here = dt_view_data(view);
        if (copy(tiles, put ? here : other, put ? other : here,
                 dt_view_bytes(view), err) < 0 ||
            note_copy(tiles, array, first + done, err) < 0)
            return -1;
        other += dt_view_bytes(view);
    }
    return 0;
}

int dt_tiles_get(struct dt_tiles *tiles, size_t array, size_t first,
                 size_t count, void *to, struct dt_error *err)
{
    return move_range(tiles, array, first, count, to, false, err);
}

int dt_tiles_put(struct dt_tiles *tiles, size_t array, size_t first,
                 size_t count, const void *from, struct dt_error *err)
{
    if (move_range(tiles, array, first, count, (char *)(uintptr_t)from, true,
                   err) < 0)
        return -1;
    /* the drive, and the host, read buffers without the stream */
    return tiles->exec.device->stream_wait(tiles->exec.stream, err);
}

int dt_tiles_see(struct dt_tiles *tiles, size_t array, size_t first,
                 size_t count, struct dt_view *view, struct dt_error *err)
{
    if (tiles->exec.device->stream_wait(tiles->exec.stream, err) < 0)
        return -1;
    return find_range(tiles, array, first, count, false, view, err);
}

int dt_tiles_expect(struct dt_tiles *tiles, size_t first, size_t count,
                    struct dt_error *err)
{
    const struct dt_tiles_options *o = &tiles->options;
    size_t room = o->buffers / 2;
    if (o->tier != DT_TIER_FILE || count == 0)
        return 0;
    for (size_t i = first / o->tile;
         i <= (first + count - 1) / o->tile && room-- > 0; i++)
        for (size_t array = 0; array < o->arrays; array++)
            if (!hold(tiles, array, i, true, err))
                return -1;
    return 0;
}
