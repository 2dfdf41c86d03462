/* SPDX-License-Identifier: Apache-2.0 */
/*
 * part.h - what one rank kept of a trace, as it travels to rank 0
 *
 * A part is a head and its events, in the byte order of the ranks, which is the
 * same on all of them.
 */
#ifndef DT_TRACE_PART_H
#define DT_TRACE_PART_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/span.h"

enum {
    DT_TRACE_HOST = 64,  /* bytes of a host's name */
    DT_TRACE_NAMES = 24, /* that spans have besides those of their kinds */
    DT_TRACE_NAME = 24,  /* bytes of one, and of a lane's name */
};

/* A span, or a counter if end < begin: as struct dt_span_event. */
struct dt_trace_event {
    int64_t begin, end; /* ns on the rank's clock; joined: on rank 0's */
    uint64_t number, bytes;
    int32_t first, size;
    uint8_t kind, lane;
    uint8_t name; /* of head.name; DT_TRACE_NAMES: that of the kind */
    uint8_t unused[5];
};

struct dt_trace_head {
    uint64_t magic;
    int32_t rank;
    uint32_t events, lanes, names;
    uint64_t dropped;   /* spans for which there was no room */
    int64_t begin, end; /* of the window, on the rank's clock: what is outside
                           of it only compares clocks */
    char host[DT_TRACE_HOST];
    char lane[DT_SPAN_LANES][DT_TRACE_NAME];
    char name[DT_TRACE_NAMES][DT_TRACE_NAME];
};

struct dt_trace_part {
    struct dt_trace_head head;
    struct dt_trace_event *events; /* (head.events), owned */
};

/* Packs what the last trace kept with what is set in *head: rank, host, begin
 * and end. The caller frees *data. -1: EX_OSERR, no memory.
 */
int dt_trace_pack(const struct dt_trace_head *head, void **data, size_t *bytes,
                  struct dt_error *err);

/* Reads a part of `bytes` bytes. -1: EX_DATAERR, it is none; EX_OSERR. Release
 * with dt_trace_part_fini in any case.
 */
int dt_trace_unpack(struct dt_trace_part *part, const void *data, size_t bytes,
                    struct dt_error *err);
void dt_trace_part_fini(struct dt_trace_part *part);

/* "all_reduce", "forward": as traces show an event of the part. */
const char *dt_trace_name(const struct dt_trace_part *part,
                          const struct dt_trace_event *event);

#endif /* DT_TRACE_PART_H */
