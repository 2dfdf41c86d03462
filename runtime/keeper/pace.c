/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace.c - whether the workers get on
 *
 * All ranks start the same collectives in the same order. So if none has
 * started one, or ended a step, for longer than they ever take, the rank that
 * has started fewest is the one that the others wait for. Evaluations and saves
 * may take any time without one, but a worker that a signal has stopped ends
 * none of them.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "keeper/pace.h"
#include "keeper/verdict.h"

/* For a worker that is stopped, if others may take any time. */
static const double STOPPED_S = 600;

int dt_pace_init(struct dt_pace *pace, int size)
{
    *pace = (struct dt_pace){.size = size};
    pace->beats = calloc((size_t)size, sizeof(*pace->beats));
    return pace->beats ? 0 : -1;
}

void dt_pace_fini(struct dt_pace *pace)
{
    free(pace->beats);
}

void dt_pace_begin(struct dt_pace *pace)
{
    memset(pace->beats, 0, (size_t)pace->size * sizeof(*pace->beats));
    pace->moved = dt_clock_now();
}

void dt_pace_note(struct dt_pace *pace, int rank,
                  const struct dt_wire_beat *beat)
{
    struct dt_wire_beat *last = &pace->beats[rank];
    if (beat->started != last->started || beat->step != last->step ||
        beat->frozen != last->frozen)
        pace->moved = dt_clock_now();
    *last = *beat;
}

/* Seconds that the slowest worker allows; INFINITY: one may take any time. */
static double find_patience(const struct dt_pace *pace,
                            const struct dt_ending *endings)
{
    int32_t most = 0;
    bool endless = false, frozen = false;
    for (int r = 0; r < pace->size; r++) {
        const int32_t own = pace->beats[r].patience_ms;
        if (endings[r].there)
            continue;
        endless |= own == 0;
        frozen |= pace->beats[r].frozen;
        most = own > most ? own : most;
    }
    if (most > 0 && !endless)
        return most / 1e3;
    return frozen ? STOPPED_S : INFINITY;
}

bool dt_pace_hangs(const struct dt_pace *pace, const struct dt_ending *endings,
                   double *seconds)
{
    *seconds = dt_clock_now() - pace->moved;
    return *seconds > find_patience(pace, endings);
}

int dt_pace_culprit(const struct dt_pace *pace, const struct dt_ending *endings)
{
    const struct dt_wire_beat *beats = pace->beats;
    int least = -1;
    bool differ = false;
    for (int r = 0; r < pace->size; r++) {
        if (endings[r].there)
            continue;
        if (beats[r].frozen)
            return r;
        if (least < 0)
            least = r;
        differ |= beats[r].started != beats[least].started;
        if (beats[r].started < beats[least].started)
            least = r;
    }
    return differ ? least : -1;
}

int dt_pace_blame(const struct dt_pace *pace, const struct dt_ending *endings,
                  int culprit)
{
    int rank = culprit < 0 ? 0 : culprit;
    while (rank < pace->size - 1 && endings[rank].there)
        rank++;
    return rank;
}

void dt_pace_describe(const struct dt_pace *pace, int culprit, const char *host,
                      double seconds, char text[DT_KEEPER_NOTE_BYTES])
{
    if (culprit < 0)
        snprintf(text, DT_KEEPER_NOTE_BYTES,
                 "no rank has got on for %.0f s, and all wait at the same "
                 "place",
                 seconds);
    else
        snprintf(text, DT_KEEPER_NOTE_BYTES,
                 "rank %d on %s hangs: it %s, and the others have waited for "
                 "%.0f s",
                 culprit, host,
                 pace->beats[culprit].frozen ? "was stopped by a signal"
                                             : "has started fewer collectives",
                 seconds);
}
