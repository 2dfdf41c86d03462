/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resume_verify.c - all ranks compare a checkpoint with its sums, each a share
 *
 * Rank 0 looks for a checkpoint to resume from, and calls the others for each
 * that it tries: it sends them the path and the list of sums, so that nobody
 * has to see that file of the shared directory at once. What a rank finds goes
 * to rank 0, which decides and reports.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/exchange.h"
#include "train/resume/resume_impl.h"

/* A call of rank 0. */
struct call {
    char path[PATH_MAX]; /* of the checkpoint; "": no more calls follow */
    size_t bytes;        /* of the list of sums, with its end */
};

/* What a rank has found; a higher one counts. */
enum finding { WHOLE, DAMAGED, STOPPED, UNKNOWN };

static enum finding finding_of(int result, const struct dt_error *err)
{
    return result == 0                  ? WHOLE
           : err->status == EX_DATAERR  ? DAMAGED
           : err->status == EX_TEMPFAIL ? STOPPED
                                        : UNKNOWN;
}

/* Rank 0 has seen every file. */
static void tell_unseen(const struct dt_run *run, struct dt_error *err)
{
    if (err->status == EX_NOINPUT)
        dt_error_add(err, EX_IOERR,
                     "rank 0 sees it, and this host does not: run.output_dir "
                     "has to be on a file system that all nodes share");
    if (run->spec.rank > 0)
        dt_error_prefix(err, "%s", dt_comm_host(run->comm, run->spec.rank));
}

/* Gives the worst finding of all ranks to each, with its error, and that of the
 * lowest rank among equal ones. Returns 0, or -1 for a bad one. -2: a peer
 * failed.
 */
static int agree(struct dt_run *run, int result, struct dt_error *err)
{
    const int world = run->spec.world;
    double worst =
        finding_of(result, err) * world + (world - 1 - run->spec.rank);
    if (dt_comm_reduce_scalars(run->comm, &worst, 1, DT_MAX, err) < 0)
        return -2;
    if (worst < world)
        return 0;
    const int rank = world - 1 - (int)worst % world;
    return dt_gather_bytes_of(run->comm, rank, err, sizeof(*err), err) < 0 ? -2
                                                                           : -1;
}

/* Compares this rank's share, and agrees with the others. */
static int verify_share(struct dt_run *run, const char *path, const char *sums,
                        struct dt_error *err)
{
    const struct dt_ckpt_watch watch = {.stop = run->stop};
    int rc = dt_ckpt_verify_share(path, sums, run->spec.rank, run->spec.world,
                                  &watch, err);
    if (rc < 0)
        tell_unseen(run, err);
    return agree(run, rc, err);
}

int dt_verify_together(void *ctx, const char *path, struct dt_error *err)
{
    struct dt_run *run = ctx;
    struct call call = {0};
    char *sums = dt_ckpt_read_sums(path, err);
    int rc = -1;
    if (!sums)
        return -1;
    snprintf(call.path, sizeof(call.path), "%s", path);
    call.bytes = strlen(sums) + 1;
    if (dt_gather_bytes_of(run->comm, 0, &call, sizeof(call), err) == 0 &&
        dt_gather_bytes_of(run->comm, 0, sums, call.bytes, err) == 0)
        rc = verify_share(run, path, sums, err);
    free(sums);
    return rc < 0 ? -1 : 0;
}

/* Answers one call. Returns 1, or 0 if no more follow. -1: a peer failed,
 * EX_OSERR.
 */
static int answer(struct dt_run *run, struct dt_error *err)
{
    struct call call;
    struct dt_error why;
    if (dt_gather_bytes_of(run->comm, 0, &call, sizeof(call), err) < 0)
        return -1;
    if (!call.path[0])
        return 0;
    char *sums = malloc(call.bytes);
    int rc = -2;
    if (!sums)
        dt_error_set(&why, EX_OSERR, "%s: out of memory", call.path);
    else if (dt_gather_bytes_of(run->comm, 0, sums, call.bytes, &why) == 0)
        rc = verify_share(run, call.path, sums, &why);
    free(sums);
    if (rc == -2)
        *err = why;
    return rc == -2 ? -1 : 1;
}

int dt_verify_end(struct dt_run *run, struct dt_error *err)
{
    struct call none = {0};
    int rc = 1;
    if (run->spec.world == 1)
        return 0;
    if (run->spec.rank == 0)
        return dt_gather_bytes_of(run->comm, 0, &none, sizeof(none), err);
    while (rc > 0)
        rc = answer(run, err);
    return rc;
}
