/* SPDX-License-Identifier: Apache-2.0 */
/* pace.h - whether the workers get on */
#ifndef DT_KEEPER_PACE_H
#define DT_KEEPER_PACE_H

#include "keeper/verdict.h"

struct dt_pace {
    int size;
    struct dt_wire_beat *beats; /* [size]: the last one of each rank */
    double moved;               /* when a worker was last seen to get on, or
                                   to be stopped */
};

/* -1: no memory. */
int dt_pace_init(struct dt_pace *pace, int size);
void dt_pace_fini(struct dt_pace *pace);

/* The workers start. */
void dt_pace_begin(struct dt_pace *pace);

/* Takes the beat of a rank. */
void dt_pace_note(struct dt_pace *pace, int rank,
                  const struct dt_wire_beat *beat);

/* Whether all workers that are there have done nothing for longer than they
 * allow, and for how long. None is known to hang before each has sent a beat.
 */
bool dt_pace_hangs(const struct dt_pace *pace, const struct dt_ending *endings,
                   double *seconds);

/* The rank that a signal has stopped, or that has started fewest collectives;
 * -1: all have started as many.
 */
int dt_pace_culprit(const struct dt_pace *pace,
                    const struct dt_ending *endings);

/* The rank that is ended for a hang: the culprit, or else one that has not
 * ended by itself, as some rank is there.
 */
int dt_pace_blame(const struct dt_pace *pace, const struct dt_ending *endings,
                  int culprit);

/* Writes "rank 3 on n2 hangs: it was stopped by a signal, and the others have
 * waited for 31 s"; `culprit` as above.
 */
void dt_pace_describe(const struct dt_pace *pace, int culprit, const char *host,
                      double seconds, char text[DT_KEEPER_NOTE_BYTES]);

#endif /* DT_KEEPER_PACE_H */
