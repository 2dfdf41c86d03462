/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parallel_offload.c - parts of a rank that are not, or not all, on the device
 */
#include "config.h"

#include <math.h>

#include "parallel/parallel_impl.h"

enum { CHUNK = 1 << 14 }; /* elements that are rounded at a time */

/* --- create and destroy --- */

static int stage(struct dt_parallel *p, size_t bytes, struct dt_buffer *buf,
                 struct dt_error *err)
{
    if (p->exec.device->allocate_staging(bytes, &buf->data, err) < 0)
        return -1;
    buf->bytes = bytes;
    buf->device = &dt_cpu;
    return 0;
}

static int init_tiles(struct dt_parallel *p,
                      const struct dt_tiles_options *options,
                      struct dt_tiles **tiles, struct dt_error *err)
{
    if (options->arrays == 0)
        return 0;
    *tiles = dt_tiles_create(options, &p->exec, err);
    return *tiles ? 0 : -1;
}

/* Staging memory for the scalars that the host reads, and for its AdamW. */
static int init_staging(struct dt_parallel *p, const struct dt_sizes *sizes,
                        struct dt_error *err)
{
    const size_t n = sizes->staging;
    if (n > 0 && (stage(p, n * dt_dtype_bytes(p->options.grads),
                        &p->staged_grads, err) < 0 ||
                  stage(p, n * dt_dtype_bytes(p->options.compute),
                        &p->staged_weights, err) < 0))
        return -1;
    if (sizes->scalars == 0)
        return 0;
    if (stage(p, sizes->scalars * sizeof(double), &p->scalars, err) < 0)
        return -1;
    return p->exec.device->event_create(&p->decided, err);
}

int dt_offload_init(struct dt_parallel *p, const struct dt_sizes *sizes,
                    struct dt_error *err)
{
    const struct dt_tiles_options *state = &sizes->state_tiles;
    if (state->arrays == 0)
        return 0;
    p->tile = sizes->tile;
    p->resident = p->layout->count / p->world - state->count;
    p->first_tiled = (enum dt_owned)(DT_OWNED_GRADS - state->arrays);
    if (init_tiles(p, state, &p->state_tiles, err) < 0 ||
        init_tiles(p, &sizes->weights_tiles, &p->weights_tiles, err) < 0)
        return -1;
    return init_staging(p, sizes, err);
}

void dt_offload_fini(struct dt_parallel *p)
{
    struct dt_buffer *staged[] = {&p->staged_grads, &p->staged_weights,
                                  &p->scalars};
    for (size_t i = 0; i < sizeof(staged) / sizeof(staged[0]); i++)
        if (staged[i]->data)
            p->exec.device->release_staging(staged[i]->data, staged[i]->bytes);
    if (p->decided)
        p->exec.device->event_destroy(p->decided);
    dt_tiles_destroy(p->state_tiles);
    dt_tiles_destroy(p->weights_tiles);
}

/* --- a part, wherever it is --- */

/* A range of one kind of the parts: on the device, or an array of the tiles. */
struct place {
    struct dt_view view; /* count 0: in tiles */
    size_t array, first; /* there */
    size_t count;
};

/* The first elements of a part that are in one of the two. */
static struct place find_place(const struct dt_parallel *p, struct dt_view part)
{
    const size_t all = p->layout->count / p->world;
    const enum dt_owned kind = (enum dt_owned)(part.offset / all);
    const size_t at = part.offset % all;
    if (part.buf)
        return (struct place){.view = part, .count = part.count};
    if (at >= p->resident)
        return (struct place){.array = (size_t)(kind - p->first_tiled),
                              .first = at - p->resident,
                              .count = part.count};
    size_t here = part.count < p->resident - at ? part.count : p->resident - at;
    return (struct place){.view = dt_view_slice(p->kinds[kind], at, here),
                          .count = here};
}

static struct dt_view skip_elements(struct dt_view view, size_t count)
{
    view.offset += count;
    view.count -= count;
    return view;
}

int dt_part_move(struct dt_parallel *p, struct dt_stream *stream,
                 struct dt_view part, char *host, bool put,
                 struct dt_error *err)
{
    while (part.count > 0) {
        struct place place = find_place(p, part);
        const size_t bytes = place.count * dt_dtype_bytes(part.dtype);
        char *here = place.view.count > 0 ? dt_view_data(place.view) : NULL;
        int rc = here  ? p->exec.device->copy(stream, put ? here : host,
                                             put ? host : here, bytes, err)
                 : put ? dt_tiles_put(p->state_tiles, place.array, place.first,
                                      place.count, host, err)
                       : dt_tiles_get(p->state_tiles, place.array, place.first,
                                      place.count, host, err);
        if (rc < 0)
            return -1;
        host += bytes;
        part = skip_elements(part, place.count);
    }
    return 0;
}

int dt_parallel_get(struct dt_parallel *p, struct dt_view part, void *to,
                    struct dt_error *err)
{
    return dt_part_move(p, p->exec.stream, part, to, false, err);
}

int dt_parallel_send(struct dt_parallel *p, struct dt_stream *stream,
                     struct dt_view part, void *to, struct dt_error *err)
{
    return dt_part_move(p, stream, part, to, false, err);
}

int dt_parallel_put(struct dt_parallel *p, struct dt_view part,
                    const void *from, struct dt_error *err)
{
    return dt_part_move(p, p->exec.stream, part, (char *)(uintptr_t)from, true,
                        err);
}

/* Makes the squares of `step` NaN if an element in tiles is not finite. */
static int judge_tiles(struct dt_parallel *p, struct place place,
                       struct dt_view step, struct dt_error *err)
{
    static const double nan = NAN;
    const struct dt_ops *cpu = dt_ops_cpu();
    double scalars[DT_STEP_COUNT] = {0};
    struct dt_buffer buf = {scalars, sizeof(scalars), &dt_cpu};
    struct dt_view seen;
    for (size_t done = 0; done < place.count; done += seen.count) {
        if (dt_tiles_see(p->state_tiles, place.array, place.first + done,
                         place.count - done, &seen, err) < 0)
            return -1;
        cpu->sum_of_squares(NULL, dt_view_of(&buf, DT_F64), seen);
    }
    if (isfinite(scalars[DT_STEP_SQUARES]))
        return 0;
    return p->exec.device->copy(
        p->exec.stream, dt_view_data(dt_view_slice(step, DT_STEP_SQUARES, 1)),
        &nan, sizeof(nan), err);
}

int dt_parallel_squares(struct dt_parallel *p, struct dt_view part,
                        struct dt_view step, struct dt_error *err)
{
    while (part.count > 0) {
        struct place place = find_place(p, part);
        if (place.view.count > 0)
            p->exec.ops->sum_of_squares(p->exec.stream, step, place.view);
        else if (judge_tiles(p, place, step, err) < 0)
            return -1;
        part = skip_elements(part, place.count);
    }
    return 0;
}

/* --- weights --- */

/* Queues rounded weights to where this rank keeps them: elements [at, ..) of
 * its part of unit u.
 */
static int keep_weights(struct dt_parallel *p, size_t u, size_t at,
                        struct dt_view rounded, struct dt_error *err)
{
    if (p->weights_tiles)
        return dt_tiles_put(p->weights_tiles, 0, dt_part_first(p, u) + at,
                            rounded.count, dt_view_data(rounded), err);
    struct dt_view to = dt_rounded_weights(p, u);
    return dt_exec_copy(&p->exec, dt_view_slice(to, at, rounded.count), rounded,
                        err);
}

/* The host rounds, since it has read or written the master anyway. */
int dt_offload_round(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    struct dt_view part = dt_parallel_part(p, DT_OWNED_MASTER, u);
    float exact[CHUNK];
    float room[CHUNK];
    struct dt_buffer from = {exact, sizeof(exact), &dt_cpu};
    struct dt_buffer to = {room, sizeof(room), &dt_cpu};
    for (size_t at = 0; at < part.count; at += CHUNK) {
        size_t n = part.count - at < CHUNK ? part.count - at : CHUNK;
        struct dt_view rounded =
            dt_view_slice(dt_view_of(&to, p->options.compute), 0, n);
        if (dt_parallel_get(p, dt_view_slice(part, at, n), exact, err) < 0 ||
            p->exec.device->stream_wait(p->exec.stream, err) < 0)
            return -1;
        struct dt_view master =
            dt_view_slice(dt_view_of(&from, part.dtype), 0, n);
        if (part.dtype == p->options.compute)
            rounded = master;
        else
            dt_ops_cpu()->convert(NULL, rounded, master);
        if (keep_weights(p, u, at, rounded, err) < 0)
            return -1;
    }
    return 0;
}
