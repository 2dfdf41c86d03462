/* SPDX-License-Identifier: Apache-2.0 */
/* messages.c - the messages of one operation between the ranks */
#include "config.h"

#include <stdlib.h>

#include "base/clock.h"
#include "comm/comm_gloo.h"

enum { SLICE_MS = 100 }; /* how often a waiting rank looks at all the others */

void *dt_messages_workspace(struct dt_messages *m, size_t bytes,
                            struct dt_error *err)
{
    if (bytes > m->workspace_bytes) {
        free(m->workspace);
        m->workspace_bytes = 0;
        m->workspace = aligned_alloc(64, (bytes + 63) / 64 * 64);
        if (!m->workspace) {
            dt_error_set(err, EX_OSERR, "no memory for %zu bytes", bytes);
            return NULL;
        }
        m->workspace_bytes = bytes;
    }
    return m->workspace;
}

int dt_messages_post(struct dt_messages *m, const struct dt_op *op,
                     enum dt_direction direction, int peer, enum dt_phase phase,
                     size_t chunk, void *data, size_t bytes, size_t *id,
                     struct dt_error *err)
{
    uint64_t what = (op->view.count + op->scalar_count) * 8 + op->kind;
    uint64_t slot = (m->sequence & 0xffff) << 48 |
                    what * UINT64_C(0x9e3779b97f4a7c15) >> 52 << 36 |
                    (uint64_t)phase << 32 | (chunk & 0xffffffff);
    struct dt_message *message;
    m->op = op;
    peer = dt_comm_world_rank(op->on, peer);
    if (m->count == m->capacity) {
        size_t capacity = m->capacity * 2 + 64;
        message = reallocarray(m->list, capacity, sizeof(*message));
        if (!message)
            return dt_error_set(err, EX_OSERR, "no memory for messages");
        m->list = message;
        m->capacity = capacity;
    }
    message = &m->list[m->count];
    message->buffer =
        dt_transport_buffer_create(m->peers->transport, data, bytes, err);
    if (!message->buffer)
        return -1;
    message->direction = direction;
    message->peer = peer;
    if (id)
        *id = m->count;
    m->count++;
    return dt_peers_post(m->peers, message->buffer, direction, peer, slot, 0,
                         bytes, err);
}

/* Is this rank not connected to all, as in a large world? */
static bool is_far(const struct dt_messages *m)
{
    return m->peers->links.count < m->peers->size - 1;
}

/* Do all that this rank knows of wait themselves? Then one of them will name
 * the rank that is late.
 */
static bool all_wait(struct dt_messages *m)
{
    return is_far(m) && !dt_arrivals_any_missing(&m->arrivals, m->sequence);
}

/* The error for a peer that did not answer in time: its own fault, or that of a
 * rank for which it waits.
 */
static int blame_late(struct dt_messages *m, int peer, const char *what,
                      struct dt_error *err)
{
    int timeout_ms = m->peers->timeout_ms;
    if ((m->op->on->world || is_far(m)) &&
        dt_arrivals_any_missing(&m->arrivals, m->sequence))
        return dt_arrivals_missing(&m->arrivals, m->sequence, what, true,
                                   timeout_ms, err);
    return dt_peers_about(m->peers, peer, err, " did not answer within %d ms",
                          timeout_ms);
}

/* Waits for a message; after a while the others hear where this rank waits. */
static int wait_message(struct dt_messages *m, const struct dt_message *message,
                        struct dt_error *err)
{
    int timeout_ms = m->peers->timeout_ms, rc;
    double begun = dt_clock_now(), left_ms;
    bool more_time = false;
    char what[64];
    for (;;) {
        left_ms = timeout_ms - (dt_clock_now() - begun) * 1000;
        rc = dt_peers_wait(
            m->peers, message->buffer, message->direction, message->peer,
            left_ms < SLICE_MS ? (int)left_ms + 1 : SLICE_MS, err);
        if (rc != 0)
            return rc < 0 ? -1 : 0;
        left_ms = timeout_ms - (dt_clock_now() - begun) * 1000;
        if (timeout_ms - left_ms < dt_arrivals_silence_ms(timeout_ms))
            continue;
        dt_op_describe(m->op, what, sizeof(what));
        dt_arrivals_receive(&m->arrivals, m->sequence);
        dt_arrivals_announce(&m->arrivals, m->sequence, what);
        if (left_ms > 0)
            continue;
        if (more_time || !all_wait(m))
            return blame_late(m, message->peer, what, err);
        more_time = true;
        begun = dt_clock_now();
    }
}

int dt_messages_finish(struct dt_messages *m, size_t id, struct dt_error *err)
{
    struct dt_message *message = &m->list[id];
    if (!message->buffer)
        return 0;
    if (wait_message(m, message, err) < 0)
        return -1;
    dt_transport_buffer_destroy(message->buffer);
    message->buffer = NULL;
    return 0;
}

int dt_messages_finish_all(struct dt_messages *m, struct dt_error *err)
{
    for (size_t i = 0; i < m->count; i++)
        if (dt_messages_finish(m, i, err) < 0)
            return -1;
    m->count = 0;
    return 0;
}

void dt_messages_fini(struct dt_messages *m)
{
    for (size_t i = 0; i < m->count; i++)
        dt_transport_buffer_destroy(m->list[i].buffer);
    dt_arrivals_fini(&m->arrivals);
    free(m->list);
    free(m->workspace);
}
