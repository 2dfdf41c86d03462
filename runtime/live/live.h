/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.h - the present state of a run, for people and programs that watch it
 *
 * Only rank 0 has one; all functions accept NULL, which the other ranks have.
 * The run reports its progress, which takes a lock and copies numbers. A
 * separate thread writes them to files, so that no step waits for a disk. A
 * file that cannot be written costs one warning.
 */
#ifndef DT_LIVE_LIVE_H
#define DT_LIVE_LIVE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "live/state.h"
#include "report/record.h"

struct dt_live;

/* Strings are copied; NULL is "". */
struct dt_live_options {
    const char *name;       /* of the run */
    const char *algorithm;  /* "sft" */
    int world;              /* ranks */
    const char *prometheus; /* a directory for its file; NULL: none */
    bool progress;          /* draw a bar, if somebody sees it */
    double began;           /* dt_clock_now when the process began; 0: now */
};

/* Starts the thread. Destroy it with dt_live_destroy. NULL and err: EX_OSERR.
 */
struct dt_live *dt_live_create(const struct dt_live_options *options,
                               struct dt_error *err);

/* Writes the last state and ends the thread; a thread that hangs on a disk for
 * seconds is abandoned with a warning.
 */
void dt_live_destroy(struct dt_live *live);

/* The columns of a line above the progress bar. Those of srun's terminal are
 * not known here; 80 are assumed. 0: there is no bar, and no limit.
 */
int dt_live_columns(const struct dt_live *live);

/* From now on status.json in `dir` has the state of the run, two seconds old at
 * most. It is written only if `mine(ctx)`, called under a lock, says that the
 * directory is still this run's; NULL: it is.
 */
void dt_live_publish(struct dt_live *live, const char *dir,
                     bool (*mine)(void *ctx), void *ctx);

/* Notes why the energy of the run is not known. */
void dt_live_no_energy(struct dt_live *live, const char *problem);

/* Begins a phase, such as "loading weights", or continues it. Its time counts
 * as this part from now on. NULL: training.
 */
void dt_live_phase(struct dt_live *live, enum dt_account_part part,
                   const char *phase);

/* Takes the account of earlier starts of the run, before the first event. */
void dt_live_earlier(struct dt_live *live, const struct dt_account *earlier);

/* Fills in what this process has spent so far; leaves `spent` without a live.
 */
void dt_live_spent(struct dt_live *live, double spent[DT_ACCOUNT_COUNTED]);

/* Fills in the sums of all starts up to now; all 0 without a live. */
void dt_live_sums(struct dt_live *live, struct dt_account_sums *sums);

/* Notes that `step` optimizer steps of `total` are done. The first call gives
 * the step at which the run starts. Each later one ends a step; time in which
 * it was saved or evaluated does not count.
 */
void dt_live_step(struct dt_live *live, long step, long total);

/* Notes how many seconds a stop with a checkpoint takes. The plugin reads them,
 * to ask for one in time.
 */
void dt_live_stop_time(struct dt_live *live, double seconds);

/* Takes the numbers of one line of the report. */
void dt_live_numbers(struct dt_live *live,
                     const struct dt_live_numbers *numbers);

/* Adds an event to the last ones; its texts are copied. */
void dt_live_event(struct dt_live *live, const struct dt_report_event *event);

/* Makes the table of the ranks from their times and memory. */
void dt_live_ranks(struct dt_live *live, const struct dt_report_ranks *ranks);

/* Takes the hosts of `count` ranks; the strings are copied. */
void dt_live_hosts(struct dt_live *live, const char *const *hosts,
                   size_t count);

/* Ends the run: "finished", "stopped" or "failed", with a sentence that says
 * why, or NULL. The bar is not drawn any more.
 */
void dt_live_end(struct dt_live *live, const char *status, const char *verdict);

/* Takes numbers, events and ranks from the report; its context is a struct
 * dt_live, which it does not own.
 */
extern const struct dt_sink_type dt_live_sink;

/* --- a run whose rank 0 was killed --- */

struct dt_live_ending {
    const char *step;   /* the run's "JOB.STEP" */
    const char *status; /* "failed" or "stopped" */
    const char *text;   /* why */
    int rank;           /* the first to fail; -1: none in particular */
    const char *host;   /* of that rank; "": unknown */
};

/* Writes the end of the run into run.json, events.jsonl and status.json of
 * `dir`, if it is still running as that step according to run.json. No process
 * of the run may be alive. *page: whether the run wants report.html. Returns 1;
 * 0: there is no such run, or it has recorded its end itself; -1: EX_DATAERR,
 * EX_OSERR, EX_CANTCREAT, EX_IOERR.
 */
int dt_live_record_ending(const char *dir, const struct dt_live_ending *ending,
                          bool *page, struct dt_error *err);

#endif /* DT_LIVE_LIVE_H */
