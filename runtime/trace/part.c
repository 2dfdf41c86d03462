/* SPDX-License-Identifier: Apache-2.0 */
/* part.c - packs and unpacks the spans of a rank */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/part.h"

#define MAGIC UINT64_C(0x6b63617274746e01)

/* --- packing --- */

/* The index of a name in the head, where it is put if it is new. */
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

/* Lanes of one name are "data", "data 2" ...: Perfetto takes tracks of a
 * process for one if they have the same name.
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

/* --- unpacking --- */

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
