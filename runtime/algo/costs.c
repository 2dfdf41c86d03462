/* SPDX-License-Identifier: Apache-2.0 */
/*
 * costs.c - what the steps between two lines of the report cost
 *
 * Ranks tell each other their numbers once a line, never once a step.
 */
#include "config.h"

#include <math.h>

#include "algo/run.h"
#include "base/clock.h"

/* 0 bytes are none that were counted. */
static double known(size_t bytes)
{
    return bytes > 0 ? (double)bytes : NAN;
}

/* Whether ranks can talk to each other now without waiting for the device: a
 * step in flight would have to end first.
 */
static bool can_ask(const struct dt_run *run)
{
    return run->exec.device->is_host ||
           (!run->in_flight[0].open && !run->in_flight[1].open);
}

static void add(struct dt_report_values *costs, const char *name, double value)
{
    assert(costs->count < DT_REPORT_VALUES_MAX);
    costs->value[costs->count++] = (struct dt_report_value){name, value, false};
}

int dt_run_costs(struct dt_run *run, double tokens, double seconds,
                 struct dt_report_values *costs, struct dt_error *err)
{
    enum { NOW, PEAK, COUNT };
    const struct dt_device *device = run->exec.device;
    const struct dt_run_window *w = &run->window;
    double mem[COUNT] = {known(device->used_bytes()),
                         known(device->peak_bytes())};
    if (run->world > 1 && can_ask(run)) {
        if (dt_comm_reduce_scalars(run->comm, mem, COUNT, DT_MAX, err) < 0)
            return -1;
    } else if (run->world > 1) {
        mem[NOW] = mem[PEAK] = NAN;
    }
    costs->count = 0;
    add(costs, "tokens", tokens);
    add(costs, "total_tokens", run->progress.tokens);
    add(costs, "step_s", seconds / (double)w->steps);
    add(costs, "mem", mem[NOW]);
    add(costs, "mem_peak", mem[PEAK]);
    add(costs, "skipped", (double)run->progress.skipped);
    run->progress.skipped = 0;
    run->window = (struct dt_run_window){.since = dt_clock_now()};
    return 0;
}
