/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.h - why the workers have ended, and whether they start again */
#ifndef DT_KEEPER_VERDICT_H
#define DT_KEEPER_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keeper/keeper_options.h"
#include "launch/launch.h"
#include "launch/wire.h"

enum { DT_KEEPER_NOTE_BYTES = 512 };

/* The end of a worker. */
struct dt_ending {
    bool there;
    bool lost; /* with its node; the note says how */
    int turn;  /* it was the n-th to end */
    struct dt_wire_down down;
    char note[DT_KEEPER_NOTE_BYTES]; /* the loss that it has noticed; or "" */
};

/* The history of a step; begin with {0}. */
struct dt_verdict {
    bool asked; /* a signal has told a task of the last life to end */
    int restarts;
    long best;                     /* the furthest step so far */
    long fruitless;                /* restarts since that step */
    struct dt_wire_down cause;     /* of the last restart, or of the end */
    struct dt_launch_loss *losses; /* for the workers, see launch.h */
    size_t loss_count;
};

/* The signals that ask a task to end. Slurm signals the worker, too: the keeper
 * only has to know of it.
 */
enum { DT_KEEPER_ASKING = 5 };
extern const int dt_keeper_asking[DT_KEEPER_ASKING];

/* Whether a worker has ended by such a signal, which may reach it before it
 * reaches its keeper.
 */
bool dt_ended_as_asked(int status);

/* Whether a worker has done its work, or was stopped in order. */
bool dt_ended_well(int status);

/* The end that explains those of the others; NULL: all have ended well. */
const struct dt_ending *dt_ending_cause(const struct dt_ending *endings,
                                        int count);

/* Writes "rank 2 on n2 was killed by signal 9 (Killed) after step 6". */
void dt_ending_describe(const struct dt_ending *ending, const char *host,
                        char *text, size_t bytes);

/* Judges the ends of all workers, and whether nodes are `gone` with them or
 * without. Returns whether they are to start again. If not, *why is the reason,
 * or NULL if the worker or the user knows it.
 */
bool dt_verdict_restart(struct dt_verdict *verdict,
                        const struct dt_keeper_options *options,
                        const struct dt_ending *endings, int count, bool gone,
                        const char **why);

/* Notes a loss, which the workers that start now are to record; losses before a
 * life that came to its steps have been recorded by that one. `at` is
 * dt_clock_now of the first end, `host` that of the cause, and `why` the
 * sentence about it. Without memory nothing is noted.
 */
void dt_verdict_note(struct dt_verdict *verdict,
                     const struct dt_ending *endings, int count, double at,
                     const char *host, const char *why);

/* The furthest step that a worker of this life has done; -1: none. */
int64_t dt_endings_step(const struct dt_ending *endings, int count);

#endif /* DT_KEEPER_VERDICT_H */
