/* SPDX-License-Identifier: Apache-2.0 */
/* outcome_impl.h - facts that outcome.c collects and failure.c reports */
#ifndef DT_CONSOLE_OUTCOME_IMPL_H
#define DT_CONSOLE_OUTCOME_IMPL_H

#include "console/outcome.h"

enum {
    NO_HOST = -1,
    OLD_MS = 10000,   /* lines that came so long before the end of a rank say
                       * nothing of it
                       */
    ASKED_MS = 500,   /* a rank may end this long before srun says that it stops
                       * the step
                       */
    KILLED_MS = 5000, /* and be killed this long before slurmstepd's message
                       * about it arrives
                       */
};

struct rank {
    int host; /* index, or NO_HOST */
    bool seen;
    bool started, ended;
    bool unlaunched;          /* according to srun */
    bool heard;               /* of the end, if not `ended`: by hearsay only */
    bool no_record;           /* of the end: end_ms is when srun reported it */
    int64_t start_ms, end_ms; /* on the host's clock */
    int status;
    struct dt_last_lines out, err;
    int64_t out_ms, err_ms; /* when the last of them came */
};

struct host {
    char *name;
    uint32_t first; /* its first rank, on whose stderr slurmstepd writes;
                     * DT_NO_RANK: not known
                     */
    bool has_clock;
    int64_t ahead_ms; /* upper bound of how far our clock is ahead of the host's
                       */
    bool oom;
    bool lost;
    bool ended; /* a record says how a rank of it has ended */
};

struct dt_outcome {
    uint32_t count;
    struct rank *ranks; /* one more, for DT_NO_RANK */
    int host_count, host_size;
    struct host *hosts; /* the step's nodes first, in their order */
    int64_t launch_ms;
    int64_t stop_ms;      /* 0: nobody has stopped the step */
    bool killed;          /* it was stopped by SIGKILL to every rank */
    int64_t asked_ms;     /* when srun last said that it stops the step; or 0 */
    bool asked;           /* somebody asked to stop it, but not because a rank
                           * had ended
                           */
    int64_t first_end_ms; /* when the first end of a rank was reported; or 0 */
    bool fails;      /* for sure, by a record or srun's exit status: hearsay
                      * may then be true
                      */
    char lost[256];  /* node or nodes, as Slurm names them; empty: none */
    bool lost_heard; /* by hearsay only */
    int64_t lost_ms;
    char reason[128]; /* why the first of the unlaunched ranks was not launched
                       */
    char *hang;       /* why the step was ended; NULL: not because of a hang */
};

typedef bool(dt_outcome_holds_f)(const struct dt_outcome *outcome,
                                 uint32_t rank);

/* Writes the ranks for which `holds` is true as "ranks 4-5 on n3; rank 7 on
 * n4".
 */
void dt_outcome_print_by_host(const struct dt_outcome *outcome,
                              dt_outcome_holds_f *holds, FILE *out);

/* Writes hosts, "n3,n4", as "n3 (ranks 4-5), n4 (ranks 6-7)". */
void dt_outcome_print_hosts(const struct dt_outcome *outcome, const char *list,
                            FILE *out);

/* Returns the index of the host with this name, or NO_HOST. */
int dt_outcome_find_host(const struct dt_outcome *outcome, const char *name);

/* Updates the clock difference of the host of the event's rank. The layout
 * names the host; without a layout, records name it.
 */
void dt_outcome_update_clock(struct dt_outcome *outcome,
                             const struct dt_console_event *event);

/* Notes that the step is stopped: a dt_message_note_f. */
void dt_outcome_stop(struct dt_outcome *outcome,
                     const struct dt_console_event *event);

#endif /* DT_CONSOLE_OUTCOME_IMPL_H */
