/* SPDX-License-Identifier: Apache-2.0 */
/* keeper_options.h - what keepers are to keep, and how */
#ifndef DT_KEEPER_KEEPER_OPTIONS_H
#define DT_KEEPER_KEEPER_OPTIONS_H

#include <stdbool.h>

enum { DT_KEEPER_BEAT_MS = 1000 };

/* How a step has ended, for its job. */
struct dt_keeper_end {
    int status;          /* as a shell has it */
    bool late;           /* options->last_signal came first */
    bool short_of_nodes; /* too few were left, and nobody had asked for it */
    double seconds;
};

struct dt_keeper_options {
    const char *program; /* the worker's; NULL: argv[0], as a shell finds it */
    char *const *argv;   /* its words */
    /* Those of a step of `size` ranks that began with `first`; NULL: it cannot
     * have so many. NULL: argv, for any number.
     */
    char *const *(*argv_of)(void *context, int first, int size);
    /* Takes nodes, "n2,n3", out of the job, in a child of its own, for the
     * n-th time; NULL: none has to. If it fails, it is tried again.
     */
    int (*leave_out)(const char *nodes, int n);
    double shrink_s; /* between two tries */
    /* Tells the user that the node of srun is lost, and the run's output with
     * it, while the run goes on; in that child, too. NULL: nobody does.
     */
    void (*tell_lost)(const char *node);
    /* Whether Slurm has taken a node out of the job, and ends what it finds of
     * the job there; NULL: it cannot be asked.
     */
    bool (*is_left_out)(const char *node);
    /* Ends the job for srun, whose node is lost: the step has ended, and no
     * part of it goes on.
     */
    void (*end_job)(const struct dt_keeper_end *end);
    int last_signal;  /* it is sent before the time limit; 0: none */
    double silence_s; /* of srun's host, at least, before the job is ended */
    double boot_s;    /* in which Slurm finds that the host has booted, */
    double down_s;    /* or that lost nodes are down */
    const char *srun_node;    /* NULL: none of a job */
    const char *srun_address; /* of that host; NULL: not known */
    int srun_port;            /* where srun listens; 0: not known */
    void *context;
    const char *dir;    /* for the files of epochs, seen by all nodes; NULL:
                           half of the nodes never go on */
    bool replaces;      /* the step outlives its nodes */
    int spares;         /* its last nodes, which have no ranks at first */
    long least;         /* ranks with which it may go on; 0: as many as before
                           only */
    const char *token;  /* of records for srun; NULL: none is written */
    double hear_s;      /* in which srun's console hears the verdict */
    bool trains;        /* it is `disttrain train`: it tells its step, and its
                           exit status says whether another try is of use */
    long max_restarts;  /* in a row, without a new step in between */
    const char *spent;  /* told when no more are allowed */
    int timeout_ms;     /* until all keepers have come */
    int beat_ms;        /* from one beat to the next */
    double outage_s;    /* a keeper that is not heard for longer is lost */
    const char *secret; /* of the step, as srun's plugin has drawn it */
};

#endif /* DT_KEEPER_KEEPER_OPTIONS_H */
