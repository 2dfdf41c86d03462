/* SPDX-License-Identifier: Apache-2.0 */
/* replicas.c - hashes memory that other ranks hold, too, and copies it */
#include "config.h"

#include <stdio.h>

#include "base/fault.h"
#include "parallel/parallel_impl.h"
#include "parallel/replicas.h"

/* The weights that passes read, in the compute type, come after the kinds of
 * enum dt_owned.
 */
enum { WEIGHTS = DT_OWNED_COUNT, KINDS };

static const struct {
    const char *name, *fault;
} kinds[KINDS] = {
    [DT_OWNED_MASTER] = {"fp32 weights", "replica.master"},
    [DT_OWNED_M] = {"AdamW's m", "replica.m"},
    [DT_OWNED_V] = {"AdamW's v", "replica.v"},
    [DT_OWNED_GRADS] = {"gradients", "replica.grads"},
    [WEIGHTS] = {"weights", "replica.weights"},
};

size_t dt_parallel_replicas(const struct dt_parallel *p)
{
    return p->layout->unit_count * KINDS;
}

const char *dt_parallel_replica_name(const struct dt_parallel *p, size_t i,
                                     char *text, size_t bytes)
{
    const struct dt_unit *unit = &p->layout->units[i / KINDS];
    snprintf(text, bytes, "%s from %s on", kinds[i % KINDS].name,
             p->layout->params[unit->first_param].name);
    return text;
}

int dt_parallel_replica_set(const struct dt_parallel *p)
{
    return p->kept.weights == DT_SHARE ? (int)p->levels.place : 0;
}

/* Replica i of this rank; no elements: it has none. The master may be the
 * weights.
 */
static struct dt_view replica(const struct dt_parallel *p, size_t i)
{
    const size_t u = i / KINDS, kind = i % KINDS;
    if (p->layout->units[u].count == 0)
        return (struct dt_view){0};
    if (kind == WEIGHTS && p->kept.weights == DT_WHOLE)
        return dt_unit_weights(p, u);
    if (kind == WEIGHTS && p->kept.weights == DT_SHARE)
        return dt_unit_share(p, u);
    if (kind == WEIGHTS || p->kept.state != DT_WHOLE ||
        (kind == DT_OWNED_MASTER && !dt_rounds_weights(p)))
        return (struct dt_view){0};
    return dt_owned_unit(p, (enum dt_owned)kind, u);
}

int dt_parallel_hash(struct dt_parallel *p, struct dt_view sums,
                     struct dt_error *err)
{
    for (size_t i = 0; i < dt_parallel_replicas(p); i++) {
        const struct dt_view view = replica(p, i);
        if (view.count == 0)
            continue;
        if (i % KINDS == WEIGHTS && dt_weights_bring(p, i / KINDS, err) < 0)
            return -1;
        p->exec.ops->hash(p->exec.stream, dt_view_slice(sums, i, 1), view);
    }
    return 0;
}

/* Flips a bit of the first word, for which no rounding makes up. */
static int flip(struct dt_parallel *p, struct dt_view view,
                struct dt_error *err)
{
    const struct dt_device *device = p->exec.device;
    uint32_t word;
    if (device->copy(p->exec.stream, &word, dt_view_data(view), sizeof(word),
                     err) < 0 ||
        device->stream_wait(p->exec.stream, err) < 0)
        return -1;
    word ^= UINT32_C(1) << 22;
    return device->copy(p->exec.stream, dt_view_data(view), &word, sizeof(word),
                        err);
}

int dt_parallel_spoil(struct dt_parallel *p, struct dt_error *err)
{
    const size_t u = dt_layout_next(p->layout, p->layout->unit_count / 2);
    for (size_t kind = 0; kind < KINDS && u <= p->last; kind++) {
        const struct dt_view view = replica(p, u * KINDS + kind);
        if (view.count > 0 && dt_fault(kinds[kind].fault) &&
            flip(p, view, err) < 0)
            return -1;
    }
    return 0;
}

/* --- memory in options.segment --- */

enum { CHUNK = 4 << 20 }; /* bytes that travel at once */

bool dt_parallel_is_replicated(const struct dt_parallel *p)
{
    return p->options.segment && p->kept.weights == DT_WHOLE &&
           p->kept.grads == DT_WHOLE && p->kept.state == DT_WHOLE;
}

/* Copies a buffer in chunks. Ranks that have their own receive them in `room`.
 */
static int copy_buffer(struct dt_parallel *p, struct dt_buffer *buf, int from,
                       struct dt_buffer *room, struct dt_error *err)
{
    dt_ticket_t ticket;
    for (size_t at = 0, n; at < buf->bytes; at += n) {
        n = buf->bytes - at < CHUNK ? buf->bytes - at : CHUNK;
        const struct dt_view chunk =
            room ? dt_view_slice(dt_view_of(room, DT_U8), 0, n)
                 : dt_view_slice(dt_view_of(buf, DT_U8), at, n);
        if (dt_comm_broadcast(p->comm, chunk, from, &ticket, err) < 0 ||
            dt_comm_wait(p->comm, ticket, err) < 0)
            return -1;
    }
    return 0;
}

int dt_parallel_copy(struct dt_parallel *p, int from, bool takes,
                     struct dt_error *err)
{
    struct dt_buffer *bufs[] = {
        p->kinds[DT_OWNED_MASTER].buf,
        p->grads_buf,
        p->m_buf,
        p->v_buf,
        p->stamps_buf,
        p->undo_buf,
    };
    struct dt_buffer *room = NULL;
    int rc = 0;
    if (!takes && dt_comm_rank(p->comm) != from &&
        !(room = dt_buffer_create(&dt_cpu, CHUNK, "a copy", err)))
        return -1;
    for (size_t i = 0; rc == 0 && i < sizeof(bufs) / sizeof(bufs[0]); i++)
        rc = copy_buffer(p, bufs[i], from, room, err);
    dt_comm_forget_memory(p->comm);
    dt_buffer_destroy(room);
    return rc;
}
