/* SPDX-License-Identifier: Apache-2.0 */
/*
 * energy.c - energy that the devices of a run use
 *
 * Each rank counts its GPU. Without GPUs the first rank of each node counts the
 * processors of that node.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "device/device_energy.h"
#include "run/run.h"
#include "train/watch/watch.h"

enum { READ_S = 10 }; /* often enough to miss no wrap of a counter */

static bool is_first_on_host(const struct dt_run *run)
{
    const char *host = dt_comm_host(run->comm, run->spec.rank);
    for (int rank = 0; rank < run->spec.rank; rank++)
        if (strcmp(dt_comm_host(run->comm, rank), host) == 0)
            return false;
    return true;
}

/* Adds the joules used since the last reading. */
static void read_energy(struct dt_run *run)
{
    struct dt_run_energy *e = &run->energy;
    struct dt_energy_reading reading = {NAN, NAN};
    if (e->counters)
        dt_energy_read(e->counters, &reading);
    const double all = reading.gpu_j + reading.cpu_j;
    e->joules += all - e->last;
    e->last = all;
    e->read = dt_clock_now();
}

void dt_run_energy_begin(struct dt_run *run)
{
    const struct dt_device *device = run->spec.exec.device;
    const struct dt_energy_options options = {
        .node = device->is_host && is_first_on_host(run),
        .gpu = device->bus_id ? device->bus_id() : NULL,
    };
    run->energy = (struct dt_run_energy){.counters = dt_energy_open(&options)};
    read_energy(run);
    if (run->energy.counters)
        dt_live_no_energy(run->live, dt_energy_problem(run->energy.counters));
}

void dt_run_energy_end(struct dt_run *run)
{
    dt_energy_close(run->energy.counters);
    run->energy.counters = NULL;
}

void dt_run_energy_poll(struct dt_run *run)
{
    if (dt_clock_now() >= run->energy.read + READ_S)
        read_energy(run);
}

double dt_run_energy_take(struct dt_run *run)
{
    read_energy(run);
    const double joules = run->energy.joules;
    run->energy.joules = 0;
    return joules;
}
