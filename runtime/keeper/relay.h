/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay.h - what a worker prints, when srun may not be there to take it
 *
 * slurmstepd sends it to srun, and when the host of srun is silent, it takes no
 * more than some buffers hold: whoever prints more than that waits for ever. So
 * once nodes are lost and no keeper that is left is beside srun, workers print
 * to their keepers. These pass on whole lines as they are taken, and workers
 * wait for that as for srun itself. Once srun has taken nothing for some
 * seconds, what comes is lost until it takes the first line again.
 */
#ifndef DT_KEEPER_RELAY_H
#define DT_KEEPER_RELAY_H

#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    DT_RELAY_STREAMS = 2,    /* stdout and stderr */
    DT_RELAY_PATIENCE_S = 2, /* of workers, with srun */
};

/* {0}: what is printed goes straight to srun. */
struct dt_relay {
    bool on;
    struct dt_relay_stream {
        int from, to;   /* a pipe */
        double refused; /* since when srun takes nothing; 0: it does */
        size_t used;
        char text[PIPE_BUF]; /* that has come, and was not passed on */
    } streams[DT_RELAY_STREAMS];
    long lost; /* lines, of which nobody was told yet */
};

/* From now on the next workers print to this process, and it never waits for
 * srun itself. Repeating this does nothing. -1: errno.
 */
int dt_relay_open(struct dt_relay *relay);
void dt_relay_close(struct dt_relay *relay);

/* Fills fds[DT_RELAY_STREAMS] for poll. */
void dt_relay_poll(const struct dt_relay *relay, struct pollfd *fds);

/* When there is something to do that poll does not see; INFINITY: never. */
double dt_relay_due(const struct dt_relay *relay);

/* In a worker: it prints where it should. */
void dt_relay_take(const struct dt_relay *relay);

/* Passes on what has come. */
void dt_relay_serve(struct dt_relay *relay);

/* The worker has ended: passes on the rest, for which it waits as long as a
 * worker, and says how much is lost.
 */
void dt_relay_finish(struct dt_relay *relay, int rank, const char *host);

#endif /* DT_KEEPER_RELAY_H */
