/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_gather.c - sends parts to rank 0, one rank after the other
 *
 * By broadcasts, since comm has no messages between two ranks. So no directory
 * has to be shared by all nodes; and a trace is small compared with the weights
 * that travel in a step.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rankset.h"
#include "trace/trace_impl.h"

#define MAGIC UINT64_C(0x6b63617274746e01)

/* --- packing a part --- */

/* The index of a name in the head; adds a new one. */
static uint8_t name_index(struct dt_trace_head *head, const char *name)
{
    if (!name)
        return DT_TRACE_NAMES;
    for (uint32_t i = 0; i < head->names; i++)
        if (strncmp(head->name[i], name, DT_TRACE_NAME - 1) == 0)
            return (uint8_t)i;
    if (head->names == DT_TRACE_NAMES)
        return DT_TRACE_NAMES;
    snprintf(head->name[head->names], DT_TRACE_NAME, "%s", name);
    return (uint8_t)head->names++;
}

static struct dt_trace_event pack_event(struct dt_trace_head *head, size_t lane,
                                        const struct dt_span_event *event)
{
    const struct dt_span_detail *detail = &event->detail;
    return (struct dt_trace_event){
        .begin = event->begin,
        .end = event->end,
        .number = detail->number,
        .bytes = detail->bytes,
        .first = detail->first,
        .size = detail->size,
        .kind = (uint8_t)event->kind,
        .lane = (uint8_t)lane,
        .name = name_index(head, detail->name),
    };
}

/* Lanes with the same name become "data", "data 2" ...: Perfetto merges tracks
 * of a process that have the same name.
 */
static void name_lane(struct dt_trace_head *head,
                      const struct dt_span_lane *lanes, size_t lane)
{
    int number = 1;
    for (size_t i = 0; i < lane; i++)
        number += strcmp(lanes[i].name, lanes[lane].name) == 0;
    if (number == 1)
        snprintf(head->lane[lane], DT_TRACE_NAME, "%s", lanes[lane].name);
    else
        snprintf(head->lane[lane], DT_TRACE_NAME, "%.12s %d", lanes[lane].name,
                 number);
}

int dt_trace_pack(const struct dt_trace_head *of, void **data, size_t *bytes,
                  struct dt_error *err)
{
    struct dt_span_lane lanes[DT_SPAN_LANES];
    struct dt_trace_head *head;
    size_t lane_count = dt_span_trace_lanes(lanes), events = 0;
    for (size_t i = 0; i < lane_count; i++)
        events += lanes[i].count;
    *bytes = sizeof(*head) + events * sizeof(struct dt_trace_event);
    if (!(head = malloc(*bytes)))
        return dt_error_set(err, EX_OSERR, "no memory for %zu spans", events);
    struct dt_trace_event *next = (struct dt_trace_event *)(head + 1);
    *data = head;
    *head = *of;
    head->magic = MAGIC;
    head->events = (uint32_t)events;
    head->lanes = (uint32_t)lane_count;
    head->names = 0;
    head->dropped = 0;
    memset(head->name, 0, sizeof(head->name));
    memset(head->lane, 0, sizeof(head->lane));
    for (size_t i = 0; i < lane_count; i++) {
        name_lane(head, lanes, i);
        head->dropped += lanes[i].dropped;
        for (size_t k = 0; k < lanes[i].count; k++)
            *next++ = pack_event(head, i, &lanes[i].events[k]);
    }
    return 0;
}

/* --- unpacking a part --- */

static int refuse(const struct dt_trace_part *part, const char *why,
                  struct dt_error *err)
{
    return dt_error_set(err, EX_DATAERR, "the trace of rank %d: %s",
                        part->head.rank, why);
}

static bool ends(const char *text, size_t bytes)
{
    return memchr(text, '\0', bytes) != NULL;
}

static bool head_is_good(const struct dt_trace_head *head)
{
    if (head->magic != MAGIC || head->lanes > DT_SPAN_LANES ||
        head->names > DT_TRACE_NAMES || !ends(head->host, DT_TRACE_HOST))
        return false;
    for (uint32_t i = 0; i < head->lanes; i++)
        if (!ends(head->lane[i], DT_TRACE_NAME))
            return false;
    for (uint32_t i = 0; i < head->names; i++)
        if (!ends(head->name[i], DT_TRACE_NAME))
            return false;
    return true;
}

static bool event_is_good(const struct dt_trace_head *head,
                          const struct dt_trace_event *event)
{
    return event->kind < DT_SPAN_KINDS && event->lane < head->lanes &&
           (event->name < head->names || event->name == DT_TRACE_NAMES);
}

int dt_trace_unpack(struct dt_trace_part *part, const void *data, size_t bytes,
                    struct dt_error *err)
{
    *part = (struct dt_trace_part){0};
    if (bytes < sizeof(part->head))
        return refuse(part, "it is too short", err);
    memcpy(&part->head, data, sizeof(part->head));
    const size_t events = part->head.events;
    const size_t rest = bytes - sizeof(part->head);
    if (!head_is_good(&part->head) || rest / sizeof(*part->events) != events ||
        rest % sizeof(*part->events) != 0)
        return refuse(part, "its head is damaged", err);
    if (!(part->events = malloc(rest + 1)))
        return dt_error_set(err, EX_OSERR, "no memory for %zu spans", events);
    memcpy(part->events, (const char *)data + sizeof(part->head), rest);
    for (size_t i = 0; i < events; i++)
        if (!event_is_good(&part->head, &part->events[i]))
            return refuse(part, "a span is damaged", err);
    return 0;
}

void dt_trace_part_fini(struct dt_trace_part *part)
{
    free(part->events);
    part->events = NULL;
}

const char *dt_trace_name(const struct dt_trace_part *part,
                          const struct dt_trace_event *event)
{
    return event->name < part->head.names
               ? part->head.name[event->name]
               : dt_span_name((enum dt_span_kind)event->kind);
}

/* --- the slowest, the median and the fastest rank of each node --- */

enum class { SLOWEST, MEDIAN, FASTEST, CLASSES };

struct candidate {
    struct dt_trace_rank *rank;
    enum class class;
};

/* By node, slow ones first. */
static int by_node(const void *left, const void *right)
{
    const struct dt_trace_rank *a = ((const struct candidate *)left)->rank;
    const struct dt_trace_rank *b = ((const struct candidate *)right)->rank;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    if (a->seconds != b->seconds)
        return a->seconds > b->seconds ? -1 : 1;
    return (a > b) - (a < b);
}

/* By class, slow ones first. */
static int by_class(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->class != b->class)
        return a->class < b->class ? -1 : 1;
    if (a->rank->seconds != b->rank->seconds)
        return a->rank->seconds > b->rank->seconds ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static bool choose_all(struct dt_trace_rank *ranks, size_t count, double limit)
{
    double events = 0;
    for (size_t i = 0; i < count; i++)
        events += ranks[i].events;
    for (size_t i = 0; i < count; i++)
        ranks[i].chosen = ranks[i].events > 0 && (events <= limit || i == 0);
    return events <= limit;
}

/* Keeps up to three of the ranks of a node, which are in order. */
static size_t keep_three(struct candidate *kept, const struct candidate *of,
                         size_t count)
{
    const size_t place[CLASSES] = {
        [SLOWEST] = 0, [MEDIAN] = count / 2, [FASTEST] = count - 1};
    size_t n = 0;
    for (int class = 0; class < CLASSES; class ++) {
        bool seen = false;
        for (int before = 0; before < class; before++)
            seen |= place[before] == place[class];
        if (!seen)
            kept[n++] =
                (struct candidate){of[place[class]].rank, (enum class) class};
    }
    return n;
}

/* Replaces the ranks by the candidates of all nodes. Returns their number. */
static size_t find_candidates(struct candidate *candidates, size_t count)
{
    size_t kept = 0, end;
    struct candidate three[CLASSES];
    qsort(candidates, count, sizeof(*candidates), by_node);
    for (size_t i = 0; i < count; i = end) {
        for (end = i + 1; end < count && candidates[end].rank->node ==
                                             candidates[i].rank->node;)
            end++;
        size_t n = keep_three(three, candidates + i, end - i);
        for (size_t k = 0; k < n; k++)
            candidates[kept++] = three[k];
    }
    qsort(candidates, kept, sizeof(*candidates), by_class);
    return kept;
}

bool dt_trace_choose(struct dt_trace_rank *ranks, size_t count, double limit)
{
    if (choose_all(ranks, count, limit))
        return false;
    struct candidate *candidates = calloc(count, sizeof(*candidates));
    double events = ranks[0].events;
    size_t n = 0;
    for (size_t i = 0; candidates && i < count; i++)
        if (ranks[i].events > 0)
            candidates[n++].rank = &ranks[i];
    n = candidates ? find_candidates(candidates, n) : 0;
    for (size_t i = 0; i < n; i++) {
        struct dt_trace_rank *rank = candidates[i].rank;
        if (rank->chosen || events + rank->events > limit)
            continue;
        rank->chosen = true;
        events += rank->events;
    }
    free(candidates);
    return true;
}

enum {
    PIECE = 1 << 20, /* bytes of a broadcast */
    FILE_BYTES = 100000000,
    SPAN_BYTES = 64, /* in the file, approximately */
};

/* --- the choice of ranks --- */

/* The host of a rank as a number: the first rank with the same name. */
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

/* Makes the same choice on all ranks, from numbers that all have: seconds and
 * events of rank 0, of rank 1 ... Returns whether ranks are left out because of
 * the size.
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

/* A buffer for broadcasts, and the memory in which the host reads and writes
 * it.
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

/* Copies the piece between host and device, if their memory is separate. */
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

/* Sends the data of rank `from` to `to` on rank 0, unless that is NULL. */
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

/* Adds a part; a bad one is left out. */
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

/* Shares the numbers of all ranks: seconds, and bytes of events. */
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
