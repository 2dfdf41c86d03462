/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notice.h - what Slurm and the plugin say about a step, line by line
 *
 * Records are the plugin's (launch/contract.h), and are believed only with the
 * step's token. The other lines are Slurm's own for people; those understood
 * here are worded the same from 22.05 to 26.05, with or without a time before
 * them.
 */
#ifndef DT_REPORT_NOTICE_H
#define DT_REPORT_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contract/contract.h"

enum dt_notice_kind {
    DT_NOTICE_NONE,
    DT_NOTICE_START,     /* record: rank, host, ms */
    DT_NOTICE_EXIT,      /* record: rank, host, ms, status */
    DT_NOTICE_ABSENT,    /* record: hosts in list do not connect to port */
    DT_NOTICE_TASKS,     /* srun: ranks have ended with status; host, oom */
    DT_NOTICE_STOP,      /* the step is ended */
    DT_NOTICE_ASKED,     /* the same, and the user or a limit wants it */
    DT_NOTICE_OOM,       /* the kernel has killed a process on this host */
    DT_NOTICE_NODE_LOST, /* host, or else node, is gone */
};

struct dt_notice {
    enum dt_notice_kind kind;
    bool from_slurm; /* the line is Slurm's or the plugin's, not a program's */
    size_t begin;    /* of a record: where in the line it begins */
    uint32_t rank;
    uint32_t node;  /* position in the step's list of nodes */
    char host[256]; /* or hosts: "n[1-2]" */
    int64_t ms;     /* since 1970, on that host's clock */
    int status;     /* as waitpid has it */
    bool oom;
    unsigned port;
    int waited_s;
    char list[640]; /* of ranks: "4-5,7"; of hosts: "n1,n2", or "-": none */
};

/* Who can have written a line of stderr. */
enum dt_notice_origin {
    DT_ORIGIN_UNKNOWN, /* srun does not label its output */
    DT_ORIGIN_SRUN,    /* it does, and the line has no label */
    DT_ORIGIN_TASK,    /* a task, or slurmstepd: the line has a label */
};

/* What tells this step's lines from those of steps that its tasks start, and
 * from what tasks make up.
 */
struct dt_notice_step {
    char token[DT_TOKEN_BYTES]; /* of its records; "": no record is believed */
    char id[32]; /* "JOB.STEP"; "": lines of any step are taken */
};

/* Reads one line of stderr, without its label; its end does not matter. */
void dt_notice_parse(const char *line, size_t len,
                     const struct dt_notice_step *step,
                     enum dt_notice_origin origin, struct dt_notice *notice);

#endif /* DT_REPORT_NOTICE_H */
