/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comm_probe.c - one rank of a job that only communicates
 *
 * Usage: comm_probe [-i INTERFACE] [-t TIMEOUT_MS] [-o OUTAGE_MS] [-n COUNT]
 *     [-r RANK] WHAT
 *
 *   hello   joins, adds up ranks, prints which rank it is
 *   loop    reduces COUNT floats forever, until something fails
 *   late    RANK (1) is late by COUNT ms for the second operation
 *   absent  RANK never joins the exchange of addresses
 *
 * Prints an error, whose status becomes the exit status.
 */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/exchange.h"
#include "base/clock.h"
#include "base/fault.h"
#include "comm/comm.h"
#include "launch/launch.h"

static struct dt_error err;
static double started;
static int odd_rank = 1;

static int failed(void)
{
    printf("error after %.1f s: %s\n", dt_clock_now() - started, err.text);
    fflush(stdout);
    return err.status;
}

static struct dt_comm *join_world(struct dt_launch *launch,
                                  const struct dt_comm_options *options)
{
    const struct dt_comm_world world = dt_world_of(launch);
    return dt_comm_create(world.size > 1 ? "gloo" : "self", &world, options,
                          &err);
}

static int hello(struct dt_launch *launch, struct dt_comm *comm)
{
    double sum = dt_launch_rank(launch);
    if (dt_comm_reduce_scalars(comm, &sum, 1, DT_SUM, &err) < 0)
        return failed();
    printf("rank %d of %d, local %d of %d, on %s, %s, %s, sum %g\n",
           dt_launch_rank(launch), dt_launch_size(launch),
           dt_launch_local_rank(launch), dt_launch_local_size(launch),
           dt_launch_host(launch, dt_launch_rank(launch)),
           dt_launch_backend(launch), dt_comm_backend(comm), sum);
    return 0;
}

/* odd_rank sleeps `late_ms` before its second operation, unless it is 0. */
static int reduce(struct dt_comm *comm, size_t count, long rounds, int late_ms)
{
    struct dt_buffer *buf =
        dt_buffer_create(&dt_cpu, count * 4, "the probe", &err);
    dt_ticket_t ticket;
    if (!buf)
        return failed();
    for (long i = 0; i != rounds; i++) {
        if (i == 1 && dt_comm_rank(comm) == odd_rank)
            dt_clock_sleep(late_ms / 1000.0);
        dt_fault_step(i);
        if (dt_comm_all_reduce(comm, dt_view_of(buf, DT_F32), DT_SUM, DT_F32,
                               &ticket, &err) < 0 ||
            dt_comm_wait(comm, ticket, &err) < 0)
            return failed();
        if (i == 0 && dt_comm_rank(comm) == 0) {
            puts("running");
            fflush(stdout);
        }
    }
    dt_buffer_destroy(buf);
    return 0;
}

static int probe(struct dt_launch *launch, struct dt_comm *comm,
                 const char *what, int count)
{
    started = dt_clock_now();
    if (!strcmp(what, "loop"))
        return reduce(comm, (size_t)count, -1, 0);
    if (!strcmp(what, "late"))
        return reduce(comm, 1000, 3, count);
    return hello(launch, comm);
}

int main(int argc, char **argv)
{
    struct dt_comm_options options = {.timeout_ms = 30000};
    int count = 1000, option, rc;
    struct dt_launch *launch;
    struct dt_comm *comm;
    while ((option = getopt(argc, argv, "i:t:o:n:r:")) != -1) {
        if (option == 'i')
            options.interface = optarg;
        else if (option == 't')
            options.timeout_ms = atoi(optarg);
        else if (option == 'o')
            options.outage_ms = atoi(optarg);
        else if (option == 'n')
            count = atoi(optarg);
        else if (option == 'r')
            odd_rank = atoi(optarg);
        else
            return EX_USAGE;
    }
    if (optind + 1 != argc)
        return EX_USAGE;
    started = dt_clock_now();
    launch = dt_launch_create(options.timeout_ms, &err);
    if (!launch)
        return failed();
    dt_fault_rank(dt_launch_rank(launch));
    if (!strcmp(argv[optind], "absent") && dt_launch_rank(launch) == odd_rank) {
        dt_clock_sleep(options.timeout_ms / 1000.0 + 4);
        dt_launch_destroy(launch);
        return 0;
    }
    comm = join_world(launch, &options);
    rc = comm ? probe(launch, comm, argv[optind], count) : failed();
    started = dt_clock_now();
    dt_comm_destroy(comm);
    if (dt_clock_now() - started > 1)
        printf("dt_comm_destroy took %.1f s\n", dt_clock_now() - started);
    dt_launch_destroy(launch);
    return rc;
}
