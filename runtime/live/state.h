/* SPDX-License-Identifier: Apache-2.0 */
/* state.h - the state of a run, as in status.json */
#ifndef DT_LIVE_STATE_H
#define DT_LIVE_STATE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "report/account.h"

enum {
    DT_LIVE_LOSSES = 60,  /* points that are kept */
    DT_LIVE_EVENTS = 5,   /* as above */
    DT_LIVE_TIMES = 50,   /* steps whose median is the time of a step */
    DT_LIVE_RANKS = 256,  /* rows; a row is a host in larger runs */
    DT_LIVE_TEXT = 160,   /* bytes of an event's text */
    DT_LIVE_NAME = 64,    /* of a name or a host */
    DT_LIVE_INTERVAL = 2, /* seconds between two files */
    DT_LIVE_SLOW = 16,    /* slow ranks that are known at a time */
};

/* The phase after the last step. */
#define DT_LIVE_ENDED "ended"

/* Numbers of one line of the report. */
struct dt_live_numbers {
    long step;
    double epoch, loss, tokens_per_s, total_tokens;
    double mfu, energy_j, tokens_per_j; /* NAN: unknown */
    double reward, kl, length; /* of completions; NAN: the run samples none */
};

struct dt_live_point {
    long step;
    double loss, reward; /* NAN: unknown */
};

struct dt_live_said {
    char kind[16], host[DT_LIVE_NAME], text[DT_LIVE_TEXT];
    long step;
    double wall, seconds;
    int rank;
};

/* A rank that was called slow. */
struct dt_live_slow {
    int rank;
    double wall; /* the last time */
};

/* A row of the table of ranks. NAN: unknown. */
struct dt_live_row {
    int rank;       /* the first one, in the row of a host */
    int count;      /* ranks of the row */
    bool straggler; /* one of them was called slow in the last minutes */
    char host[DT_LIVE_NAME];
    double compute_s, comm_s, data_wait_s, mem, power_w;
};

/* The size is fixed, so that the state is copied under the lock and written
 * without it.
 */
struct dt_live_state {
    char name[DT_LIVE_NAME], algorithm[16], job[32], user[33];
    int world;            /* ranks */
    double interval_s;    /* between two files */
    double started, wall; /* since 1970, of the process and of this state */
    char phase[32];       /* "": it trains */
    double phase_s;       /* since it began */
    bool counts;          /* the number of steps is known */
    long step, total, first;
    double elapsed_s; /* since step `first` */
    double step_s;    /* median of the last steps; NAN: none yet */
    double left_s;    /* until the end; NAN: unknown */
    double stop_s;    /* that a stop with a checkpoint takes; NAN: unknown */
    double goodput;   /* dt_account_goodput; NAN: unknown */
    struct dt_account_sums account; /* of all starts */
    struct dt_live_numbers numbers;
    char energy_problem[160];                    /* why energy is unknown */
    struct dt_live_point losses[DT_LIVE_LOSSES]; /* oldest first */
    size_t loss_count;
    struct dt_live_said events[DT_LIVE_EVENTS]; /* oldest first */
    size_t event_count;
    struct dt_live_said save; /* the last event "save" or "save_failed" */
    bool saved;               /* there is one */
    char status[16];          /* running, finished, stopped, failed */
    char verdict[512];
    struct dt_live_slow slow[DT_LIVE_SLOW]; /* not in the file */
    size_t slow_count;
    long rank_step; /* of the rows */
    size_t row_count, rows_left_out;
    struct dt_live_row rows[DT_LIVE_RANKS]; /* slowest first */
};

/* Writes status.json, replaced in one rename. -1: EX_IOERR, EX_CANTCREAT. */
int dt_live_write_status(const struct dt_live_state *state, const char *dir,
                         struct dt_error *err);

/* Reads `text`, the content of the status.json `path`, without trusting it: a
 * value that is missing or of another type is unknown, and control characters
 * become '?'. -1: EX_DATAERR, it is no JSON object of version 1.
 */
int dt_live_parse_status(struct dt_live_state *state, const char *path,
                         const char *text, struct dt_error *err);

#endif /* DT_LIVE_STATE_H */
