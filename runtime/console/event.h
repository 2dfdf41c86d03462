/* SPDX-License-Identifier: Apache-2.0 */
/* event.h - what a line of stderr says about a step */
#ifndef DT_CONSOLE_EVENT_H
#define DT_CONSOLE_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "live/bar.h"

struct dt_message;

enum dt_console_event_kind {
    DT_EVENT_NONE,
    DT_EVENT_START,      /* record: rank, host, ms */
    DT_EVENT_EXIT,       /* record: rank, host, ms, status */
    DT_EVENT_NOTICE,     /* record: the sentence of its message, and no more */
    DT_EVENT_PROGRESS,   /* record: bar */
    DT_EVENT_ENDED,      /* record: there is no bar any more */
    DT_EVENT_BROKEN,     /* record: without labels, a part of it is missing */
    DT_EVENT_TASKS,      /* srun: ranks have ended with status; host, oom */
    DT_EVENT_UNLAUNCHED, /* srun: these ranks, or those of host, cannot be
                          * launched: reason
                          */
    DT_EVENT_STOP,       /* the step is ended; status: SIGKILL, if by that */
    DT_EVENT_ASKED,      /* the same, because the user or a limit wants it */
    DT_EVENT_OOM,        /* the kernel has killed a process on this host */
    DT_EVENT_NODE_LOST,  /* the node is lost: host or, if that is empty, node */
};

enum { DT_EVENT_NUMBERS = 4 };

struct dt_console_event {
    enum dt_console_event_kind kind;
    const struct dt_message *message; /* its row of messages.c; NULL: none */
    bool from_slurm; /* the line is Slurm's or the plugin's, not a program's */
    bool hearsay;    /* neither the line nor its label says which step it is
                      * about: it may be another
                      */
    size_t begin;    /* offset of a record in the line */
    uint32_t label;  /* of the line: a rank, or DT_NO_RANK */
    int64_t came_ms; /* when it came, since 1970 */
    uint32_t rank;
    uint32_t node;  /* position in the step's list of nodes */
    char host[256]; /* or several hosts: "n[1-2]" */
    int64_t ms;     /* since 1970, on that host's clock */
    int status;     /* a wait status */
    bool oom;
    uint64_t number[DT_EVENT_NUMBERS]; /* in the order of the pattern */
    struct dt_bar bar;
    char list[640]; /* of ranks: "4-5,7"; of hosts: "n1,n2" */
    char reason[128];
};

#endif /* DT_CONSOLE_EVENT_H */
