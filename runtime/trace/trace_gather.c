/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_gather.c - parts travel to rank 0, one rank after the other
 *
 * By broadcasts, since comm has no messages between two ranks: no directory has
 * to be seen by all nodes, and a trace is small beside the weights that travel
 * in a step.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rankset.h"
#include "trace/choose.h"
#include "trace/trace_gather.h"

enum {
    PIECE = 1 << 20, /* bytes that travel at a time */
    FILE_BYTES = 100000000,
    SPAN_BYTES = 64, /* in the file, about */
};

/* --- which ranks --- */

/* The hosts of ranks as numbers: that of the first rank with the same name. */
static int node_of(const struct dt_comm *comm, int rank)
{
    const char *host = dt_comm_host(comm, rank);
    for (int r = 0; r < rank; r++)
        if (strcmp(dt_comm_host(comm, r), host) == 0)
            return r;
    return rank;
}

static bool is_wanted(const struct dt_rankset *wanted, const char *ranks,
                      int rank)
{
    return rank == 0 || !ranks || wanted->has[rank];
}

/* The same choice on all ranks, from numbers that all have: seconds and events
 * of rank 0, of rank 1 ... Returns whether ranks are left out for the size.
 */
static bool choose(const struct dt_trace_gather *g,
                   const struct dt_rankset *wanted, const double *numbers,
                   struct dt_trace_rank *chosen)
{
    const int world = dt_comm_size(g->comm);
    for (int r = 0; r < world; r++)
        chosen[r] = (struct dt_trace_rank){
            .node = node_of(g->comm, r),
            .seconds = numbers[2 * r],
            .events =
                is_wanted(wanted, g->ranks, r)
                    ? numbers[2 * r + 1] / (double)sizeof(struct dt_trace_event)
                    : 0};
    return dt_trace_choose(chosen, (size_t)world,
                           (double)FILE_BYTES / SPAN_BYTES);
}

/* --- the way to rank 0 --- */

/* A buffer through which pieces travel, and where the host reads and writes it.
 */
struct piece {
    struct dt_buffer *buf;
    void *host; /* the buffer itself, or staging memory */
};

static int piece_init(struct piece *piece, const struct dt_trace_gather *g,
                      struct dt_error *err)
{
    if (!(piece->buf = dt_buffer_create(g->device, PIECE, "a trace", err)))
        return -1;
    piece->host = piece->buf->data;
    return g->device->is_host
               ? 0
               : g->device->allocate_staging(PIECE, &piece->host, err);
}

static void piece_fini(struct piece *piece, const struct dt_trace_gather *g)
{
    if (!g->device->is_host && piece->host)
        g->device->release_staging(piece->host, PIECE);
    dt_buffer_destroy(piece->buf);
}

/* Moves the piece between host and device, if they are apart. */
static int piece_move(const struct piece *piece,
                      const struct dt_trace_gather *g, bool to_device,
                      struct dt_error *err)
{
    if (g->device->is_host)
        return 0;
    if (g->device->copy(g->stream, to_device ? piece->buf->data : piece->host,
                        to_device ? piece->host : piece->buf->data, PIECE,
                        err) < 0)
        return -1;
    return g->device->stream_wait(g->stream, err);
}

static int piece_send(const struct piece *piece,
                      const struct dt_trace_gather *g, int from, size_t bytes,
                      struct dt_error *err)
{
    const size_t count = (bytes + sizeof(int32_t) - 1) / sizeof(int32_t);
    const struct dt_view view =
        dt_view_slice(dt_view_of(piece->buf, DT_I32), 0, count);
    dt_ticket_t ticket;
    if (piece_move(piece, g, true, err) < 0 ||
        dt_comm_broadcast(g->comm, view, from, &ticket, err) < 0 ||
        dt_comm_wait(g->comm, ticket, err) < 0)
        return -1;
    return piece_move(piece, g, false, err);
}

/* Brings what rank `from` has to `to` on rank 0, unless that is NULL. */
static int send_part(const struct dt_trace_gather *g, const struct piece *piece,
                     int from, size_t bytes, char *to, struct dt_error *err)
{
    const int rank = dt_comm_rank(g->comm);
    for (size_t at = 0; at < bytes; at += PIECE) {
        const size_t left = bytes - at, n = left < PIECE ? left : PIECE;
        if (rank == from)
            memcpy(piece->host, (const char *)g->data + at, n);
        if (piece_send(piece, g, from, n, err) < 0)
            return -1;
        if (to)
            memcpy(to + at, piece->host, n);
    }
    return 0;
}

/* Adds a part; one that is no good is left out. */
static void add_part(struct dt_trace_set *set, const void *data, size_t bytes)
{
    struct dt_error why = {0};
    struct dt_trace_part *part = &set->parts[set->count];
    if (data && dt_trace_unpack(part, data, bytes, &why) == 0) {
        set->count++;
        return;
    }
    dt_trace_part_fini(part);
    dt_log(DT_LOG_WARN, "trace", "a rank is left out: %s",
           data ? why.text : "no memory for its spans");
}

static int gather_parts(const struct dt_trace_gather *g,
                        const struct dt_trace_rank *chosen,
                        const double *numbers, struct dt_trace_set *set,
                        struct dt_error *err)
{
    const int world = dt_comm_size(g->comm);
    const bool here = dt_comm_rank(g->comm) == 0;
    struct piece piece = {0};
    int rc = world > 1 ? piece_init(&piece, g, err) : 0;
    if (here)
        add_part(set, g->data, g->bytes);
    for (int r = 1; r < world && rc == 0; r++) {
        const size_t bytes =
            sizeof(struct dt_trace_head) + (size_t)numbers[2 * r + 1];
        if (!chosen[r].chosen)
            continue;
        char *data = here ? malloc(bytes) : NULL;
        rc = send_part(g, &piece, r, bytes, data, err);
        if (here && rc == 0)
            add_part(set, data, bytes);
        free(data);
    }
    piece_fini(&piece, g);
    return rc;
}

/* --- on all ranks --- */

/* What ranks know of each other: seconds, and bytes of events. */
static int share_numbers(const struct dt_trace_gather *g, double *numbers,
                         struct dt_error *err)
{
    const int rank = dt_comm_rank(g->comm), world = dt_comm_size(g->comm);
    const size_t head = sizeof(struct dt_trace_head);
    numbers[2 * rank] = g->seconds;
    numbers[2 * rank + 1] = g->data ? (double)(g->bytes - head) : 0;
    return world > 1 ? dt_comm_reduce_scalars(g->comm, numbers,
                                              2 * (size_t)world, DT_SUM, err)
                     : 0;
}

static int gather(const struct dt_trace_gather *g,
                  const struct dt_rankset *wanted, double *numbers,
                  struct dt_trace_rank *chosen, struct dt_trace_set *set,
                  struct dt_error *err)
{
    if (share_numbers(g, numbers, err) < 0)
        return -1;
    set->sampled = choose(g, wanted, numbers, chosen);
    if (numbers[1] > 0)
        return gather_parts(g, chosen, numbers, set, err) < 0 ? -1 : 1;
    if (dt_comm_rank(g->comm) == 0)
        dt_log(DT_LOG_WARN, "trace",
               "no trace: rank 0 has no memory for its spans");
    return 0;
}

int dt_trace_gather(const struct dt_trace_gather *g, struct dt_trace_set *set,
                    struct dt_error *err)
{
    const size_t world = (size_t)dt_comm_size(g->comm);
    double *numbers = calloc(2 * world, sizeof(*numbers));
    struct dt_trace_rank *chosen = calloc(world, sizeof(*chosen));
    struct dt_rankset wanted = {0};
    int rc = -1;
    set->world = (int)world;
    set->parts = calloc(world, sizeof(*set->parts));
    if (!numbers || !chosen || !set->parts)
        dt_error_set(err, EX_OSERR, "a trace: no memory for %zu ranks", world);
    else if (dt_rankset_init(&wanted, (uint32_t)world, err) == 0 &&
             (!g->ranks || dt_rankset_parse(&wanted, g->ranks, err) == 0))
        rc = gather(g, &wanted, numbers, chosen, set, err);
    dt_rankset_fini(&wanted);
    free(chosen);
    free(numbers);
    return rc;
}
