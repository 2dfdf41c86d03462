/* SPDX-License-Identifier: Apache-2.0 */
/* outcome_impl.h - what outcome.c collects and failure.c reports */
#ifndef DT_REPORT_OUTCOME_IMPL_H
#define DT_REPORT_OUTCOME_IMPL_H

#include "report/outcome.h"

enum {
    NO_HOST = -1,
    ASKED_MS = 500, /* a rank can know so much earlier than srun says it */
};

struct rank {
    int host; /* index, or NO_HOST */
    bool seen;
    bool started, ended;
    bool no_record;           /* of the end: end_ms is when srun said so */
    int64_t start_ms, end_ms; /* on the host's clock */
    int status;
    struct dt_tail out, err;
};

struct host {
    char *name;
    bool has_clock;
    int64_t ahead_ms; /* our clock is that far ahead of the host's, at most */
    bool oom;
    bool lost;
};

struct dt_outcome {
    uint32_t count;
    struct rank *ranks; /* and one more for DT_NO_RANK */
    int host_count, host_size;
    struct host *hosts; /* first those of the nodes, in their order */
    int64_t launch_ms;
    int64_t stop_ms;      /* 0: nobody has stopped the step */
    bool asked;           /* to stop, and not because a rank had ended */
    int64_t first_end_ms; /* when the first end of a rank was heard of; or 0 */
    char lost[256];       /* node or nodes, as Slurm names them; empty: none */
    int64_t lost_ms;
    char *hang; /* NULL: none for which the step was ended */
};

typedef bool(dt_outcome_holds_f)(const struct dt_outcome *outcome,
                                 uint32_t rank);

/* Writes "ranks 4-5 on n3; rank 7 on n4" of those for which it holds. */
void dt_outcome_print_by_host(const struct dt_outcome *outcome,
                              dt_outcome_holds_f *holds, FILE *out);

#endif /* DT_REPORT_OUTCOME_IMPL_H */
