/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay.h - what a keeper and its worker print, when srun may not take it
 *
 * slurmstepd sends it to srun, and when the host of srun is silent, it takes no
 * more than some buffers hold: whoever prints more than that waits for ever. So
 * what a keeper prints goes to a pipe of its own, from which its loop passes it
 * on as srun takes it: a keeper never waits, and loses nothing before that pipe
 * is full.
 *
 * Workers print to srun themselves, unless srun may be lost while the step goes
 * on. Then they print to their keepers, which pass on whole lines; workers wait
 * for that as for srun itself. Once srun takes nothing and is gone, what comes
 * is lost until it takes the first line again.
 */
#ifndef DT_KEEPER_RELAY_H
#define DT_KEEPER_RELAY_H

#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum {
    DT_RELAY_STREAMS = 3,    /* stdout and stderr of workers, and our stderr */
    DT_RELAY_PATIENCE_S = 2, /* with srun, before we ask whether it is there */
};

struct dt_relay {
    bool (*is_gone)(const void *context); /* whether srun is; may take 1.5 s */
    const void *context;
    double asked; /* when that was asked last */
    bool gone;    /* its answer, until srun takes something */
    struct dt_relay_stream {
        int from, end;  /* a pipe: ours, and of those who print; or -1 */
        int to;         /* srun */
        double refused; /* since when srun takes nothing; 0: it does */
        size_t used;
        char text[PIPE_BUF]; /* that has come, and was not passed on */
    } streams[DT_RELAY_STREAMS];
    int worker_stderr; /* as this process has got it */
    long lost;         /* lines of workers, of which nobody was told yet, */
    int rank;          /* and whose they are */
    const char *host;
};

/* From now on this process prints to its relay. -1: EX_OSERR. */
int dt_relay_init(struct dt_relay *relay, bool (*is_gone)(const void *context),
                  const void *context, struct dt_error *err);

/* Waits so long at most until srun has taken all, and says how much is lost;
 * then this process prints to srun as before. Do it also if dt_relay_init has
 * failed.
 */
void dt_relay_fini(struct dt_relay *relay, double seconds);

/* From now on the next workers print to this process. Repeating this does
 * nothing. -1: errno.
 */
int dt_relay_open(struct dt_relay *relay);

/* Fills fds[DT_RELAY_STREAMS] for poll. */
void dt_relay_poll(const struct dt_relay *relay, struct pollfd *fds);

/* When there is something to do that poll does not see; INFINITY: never. */
double dt_relay_due(const struct dt_relay *relay);

/* In a worker: it prints where it should. */
void dt_relay_take(const struct dt_relay *relay);

/* Passes on what has come, as far as srun takes it. */
void dt_relay_serve(struct dt_relay *relay);

/* The worker of this rank has ended: passes on its last line, too, and says how
 * much is lost. `host` stays until dt_relay_fini.
 */
void dt_relay_finish(struct dt_relay *relay, int rank, const char *host);

#endif /* DT_KEEPER_RELAY_H */
