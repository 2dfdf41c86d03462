/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.h - parses what Slurm and the plugin say about a step, line by line
 *
 * Records come from the plugin (contract/contract.h) and are believed only with
 * the step's token. The other lines are Slurm's messages for people; the
 * wording of those that we parse is the same from 22.05 to 26.05, with or
 * without a time before them.
 */
#ifndef DT_CONSOLE_EVENT_H
#define DT_CONSOLE_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contract/contract.h"
#include "live/bar.h"

enum dt_console_event_kind {
    DT_EVENT_NONE,
    DT_EVENT_START,      /* record: rank, host, ms */
    DT_EVENT_EXIT,       /* record: rank, host, ms, status */
    DT_EVENT_ABSENT,     /* record: hosts in list have not connected to port */
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

struct dt_console_event {
    enum dt_console_event_kind kind;
    bool from_slurm; /* the line is Slurm's or the plugin's, not a program's */
    bool hearsay;    /* it may as well be about another step: nothing in the
                      * line, or around it, says whose it is
                      */
    size_t begin;    /* of a record: its offset in the line */
    uint32_t rank;
    uint32_t node;  /* position in the step's list of nodes */
    char host[256]; /* or several hosts: "n[1-2]" */
    int64_t ms;     /* since 1970, on that host's clock */
    int status;     /* a wait status */
    bool oom;
    unsigned port;
    int waited_s;
    struct dt_bar bar;
    char list[640]; /* of ranks: "4-5,7"; of hosts: "n1,n2", or "-": none */
    char reason[128];
};

/* Who may have written a line of stderr. */
enum dt_console_origin {
    DT_ORIGIN_UNKNOWN, /* srun does not label its output */
    DT_ORIGIN_SRUN,    /* srun labels its output, and the line has no label */
    DT_ORIGIN_TASK,    /* a task, or slurmstepd: the line has a label */
};

/* Distinguishes this step's lines from those of steps that its tasks start, and
 * from anything that tasks make up.
 */
struct dt_step_identity {
    char token[DT_TOKEN_BYTES];    /* of the step's records; "": no record is
                                    * believed
                                    */
    char progress[DT_TOKEN_BYTES]; /* of its records of progress */
    char id[32]; /* "JOB.STEP"; "": accept lines of any step */
};

/* Parses one line of stderr, without its label, with or without its line end.
 */
void dt_console_event_parse(const char *line, size_t len,
                            const struct dt_step_identity *step,
                            enum dt_console_origin origin,
                            struct dt_console_event *event);

/* Whether this may be the beginning of a line that dt_console_event_parse
 * understands: it has no line end yet.
 */
bool dt_console_event_is_piece(const char *line, size_t len);

/* Without labels a line of Slurm may come between the two pieces of another
 * node's line. Returns where in the line it begins, behind the first piece; 0:
 * it does not.
 */
size_t dt_console_event_find_inner(const char *line, size_t len,
                                   const struct dt_step_identity *step);

#endif /* DT_CONSOLE_EVENT_H */
