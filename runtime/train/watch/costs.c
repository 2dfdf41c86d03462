/* SPDX-License-Identifier: Apache-2.0 */
/*
 * costs.c - times, memory and energy of the steps between two report lines
 *
 * Ranks exchange their numbers once a line, never once a step. Times are
 * differences of the totals of spans (base/span.h).
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/median.h"
#include "run/flops.h"
#include "run/gather.h"
#include "train/watch/costs.h"
#include "train/watch/watch.h"

enum { RANKS_SECONDS = 60 }; /* between lines of ranks.jsonl */

/* Numbers of a rank: times of a step, bytes, and the energy it has counted. */
enum { NOW = DT_TIMES, PEAK, JOULES, NUMBERS };

struct dt_costs {
    struct dt_spent spent; /* at the last line */
    double *ranks;         /* (world, NUMBERS) of the last line */
    double *sums;     /* (NUMBERS, world) since the last line of ranks.jsonl */
    double *room;     /* (world) */
    long steps, step; /* number of summed steps, and the last of them */
    double seconds;   /* that these steps took */
    double written;   /* time of that line */
    double asked;     /* time of the last exchange between ranks */
    double tokens;    /* since then */
};

void dt_costs_destroy(struct dt_costs *costs)
{
    if (!costs)
        return;
    free(costs->ranks);
    free(costs->sums);
    free(costs->room);
    free(costs);
}

int dt_costs_begin(struct dt_run *run, struct dt_error *err)
{
    const size_t world = (size_t)run->spec.world;
    struct dt_costs *costs = calloc(1, sizeof(*costs));
    run->costs = costs;
    if (costs) {
        costs->ranks = calloc(world * NUMBERS, sizeof(double));
        costs->sums = calloc(world * NUMBERS, sizeof(double));
        costs->room = calloc(world, sizeof(double));
    }
    if (!costs || !costs->ranks || !costs->sums || !costs->room)
        return dt_error_set(err, EX_OSERR, "costs of a step: out of memory");
    dt_spent_now(run->spec.exec.device, &costs->spent);
    run->window.since = costs->written = costs->asked = dt_clock_now();
    return 0;
}

bool dt_run_can_ask(const struct dt_run *run)
{
    return run->spec.world == 1 || run->spec.exec.device->is_host ||
           (!run->in_flight[0].open && !run->in_flight[1].open);
}

/* A number of bytes; NaN for 0, which means that none were counted. */
static double known(size_t bytes)
{
    return bytes > 0 ? (double)bytes : NAN;
}

void dt_spent_now(const struct dt_device *device, struct dt_spent *spent)
{
    dt_span_totals(&spent->spans);
    if (device->lap_times)
        device->lap_times(&spent->laps);
}

/* Takes the times from the device's laps, as its spans measure queueing only.
 */
static void take_laps(const struct dt_lap_times *since,
                      const struct dt_lap_times *now, double times[DT_TIMES])
{
    const double steps = (double)(now->steps - since->steps);
    times[DT_TIME_COMM] = NAN;
    times[DT_TIME_COMPUTE] = times[DT_TIME_EXPOSED] = NAN;
    if (steps > 0) {
        times[DT_TIME_COMPUTE] =
            (now->seconds[DT_LAP_COMPUTE] - since->seconds[DT_LAP_COMPUTE]) /
            steps;
        times[DT_TIME_EXPOSED] =
            (now->seconds[DT_LAP_WAIT] - since->seconds[DT_LAP_WAIT]) / steps;
    }
}

void dt_step_times(const struct dt_device *device, struct dt_spent *since,
                   long steps, double times[DT_TIMES])
{
    static const enum dt_step_time of[DT_SPAN_KINDS] = {
        [DT_SPAN_STEP] = DT_TIMES,
        [DT_SPAN_DATA_WAIT] = DT_TIME_DATA_WAIT,
        [DT_SPAN_FORWARD] = DT_TIME_COMPUTE,
        [DT_SPAN_BACKWARD] = DT_TIME_COMPUTE,
        [DT_SPAN_LOSS] = DT_TIME_COMPUTE,
        [DT_SPAN_VALUES] = DT_TIME_COMPUTE,
        [DT_SPAN_OPTIMIZER] = DT_TIME_COMPUTE,
        [DT_SPAN_DEVICE_WAIT] = DT_TIMES,
        [DT_SPAN_COMM_WAIT] = DT_TIME_EXPOSED,
        [DT_SPAN_COLLECTIVE] = DT_TIME_COMM,
        [DT_SPAN_ROLLOUT] = DT_TIME_COMPUTE,
        [DT_SPAN_REWARD] = DT_TIMES,
        [DT_SPAN_SAVE] = DT_TIME_STALL,
        [DT_SPAN_EVALUATION] = DT_TIMES,
        [DT_SPAN_BATCH] = DT_TIMES,
        [DT_SPAN_SCORE] = DT_TIMES,
        [DT_SPAN_DRIVE] = DT_TIMES,
    };
    struct dt_spent now;
    dt_spent_now(device, &now);
    memset(times, 0, DT_TIMES * sizeof(*times));
    for (size_t kind = 0; kind < DT_SPAN_KINDS; kind++)
        if (of[kind] < DT_TIMES)
            times[of[kind]] +=
                (now.spans.seconds[kind] - since->spans.seconds[kind]) /
                (double)steps;
    if (device->lap_times)
        take_laps(&since->laps, &now.laps, times);
    *since = now;
}

double dt_own_time(const struct dt_device *device, const double times[DT_TIMES])
{
    const double data_wait = device->is_host ? times[DT_TIME_DATA_WAIT] : 0;
    return times[DT_TIME_COMPUTE] + data_wait;
}

/* Measures the numbers of this rank since the last line, and its energy since
 * the last exchange. Without an exchange (`asks` is false) the energy stays
 * counted.
 */
static void measure(struct dt_run *run, bool asks, double mine[NUMBERS])
{
    const struct dt_device *device = run->spec.exec.device;
    dt_step_times(device, &run->costs->spent, run->window.steps, mine);
    mine[NOW] = known(device->used_bytes());
    mine[PEAK] = fmax(mine[NOW], known(device->peak_bytes()));
    mine[JOULES] = asks ? dt_run_energy_take(run) : NAN;
}

static double of_rank(const struct dt_run *run, size_t rank, size_t i)
{
    return run->costs->ranks[rank * NUMBERS + i];
}

static double mean(const struct dt_run *run, size_t i)
{
    double sum = 0;
    for (size_t r = 0; r < (size_t)run->spec.world; r++)
        sum += of_rank(run, r, i);
    return sum / run->spec.world;
}

static double most(const struct dt_run *run, size_t i)
{
    double value = NAN;
    for (size_t r = 0; r < (size_t)run->spec.world; r++)
        value = fmax(value, of_rank(run, r, i));
    return value;
}

static void add(struct dt_report_values *costs, const char *name, double value)
{
    assert(costs->count < DT_REPORT_VALUES_MAX);
    costs->value[costs->count++] = (struct dt_report_value){name, value, false};
}

static void add_extremes(const struct dt_run *run,
                         struct dt_report_values *costs)
{
    const size_t world = (size_t)run->spec.world;
    double *times = run->costs->room;
    size_t slowest = 0;
    for (size_t r = 0; r < world; r++) {
        times[r] =
            dt_own_time(run->spec.exec.device, run->costs->ranks + r * NUMBERS);
        if (times[r] > times[slowest])
            slowest = r;
    }
    const bool is_known = isfinite(times[slowest]);
    const double median = dt_median(times, world); /* sorts them */
    add(costs, "rank_step_s/min", times[0]);
    add(costs, "rank_step_s/median", median);
    add(costs, "rank_step_s/max", times[world - 1]);
    add(costs, "rank_step_s/argmax", is_known ? (double)slowest : NAN);
}

/* Converts joules to watts. A rank with none counts nothing: its host has no
 * counter, or another rank there reads it. Returns whether any is known.
 */
static bool make_power(double *joules, size_t world, double seconds)
{
    bool known = false;
    for (size_t r = 0; r < world; r++) {
        joules[r] = joules[r] > 0 && seconds > 0 ? joules[r] / seconds : NAN;
        known = known || !isnan(joules[r]);
    }
    return known;
}

static void write_ranks(struct dt_run *run)
{
    struct dt_costs *c = run->costs;
    const size_t world = (size_t)run->spec.world;
    double *power = c->sums + JOULES * world;
    for (size_t i = 0; i < DT_TIMES * world; i++)
        c->sums[i] /= (double)c->steps;
    const bool powered = make_power(power, world, c->seconds);
    dt_report_ranks(run->report,
                    &(struct dt_report_ranks){
                        .step = c->step,
                        .count = world,
                        .compute_s = c->sums + DT_TIME_COMPUTE * world,
                        .comm_s = c->sums + DT_TIME_COMM * world,
                        .data_wait_s = c->sums + DT_TIME_DATA_WAIT * world,
                        .mem = c->sums + NOW * world,
                        .power_w = powered ? power : NULL});
    for (size_t i = 0; i < NUMBERS * world; i++)
        c->sums[i] = 0;
    c->steps = 0;
    c->seconds = 0;
    c->written = dt_clock_now();
}

/* Adds the numbers of ranks to those of the next line of ranks.jsonl. */
static void sum_ranks(struct dt_run *run)
{
    struct dt_costs *c = run->costs;
    const size_t world = (size_t)run->spec.world;
    const double now = dt_clock_now();
    for (size_t r = 0; r < world; r++) {
        for (size_t i = 0; i < DT_TIMES; i++)
            c->sums[i * world + r] +=
                of_rank(run, r, i) * (double)run->window.steps;
        c->sums[NOW * world + r] = of_rank(run, r, NOW);
        c->sums[JOULES * world + r] += of_rank(run, r, JOULES);
    }
    c->steps += run->window.steps;
    c->step = run->progress.step;
    c->seconds += now - c->asked;
    c->asked = now;
    if (now - c->written >= RANKS_SECONDS)
        write_ranks(run);
}

void dt_costs_end(struct dt_run *run)
{
    if (run->report && run->costs && run->costs->steps > 0)
        write_ranks(run);
}

static void add_times(const struct dt_run *run, const double mine[NUMBERS],
                      bool asked, struct dt_report_values *costs)
{
    static const char *const names[DT_TIMES] = {
        [DT_TIME_COMPUTE] = "compute_s",
        [DT_TIME_COMM] = "comm_s",
        [DT_TIME_EXPOSED] = "comm_exposed_s",
        [DT_TIME_DATA_WAIT] = "data_wait_s",
        [DT_TIME_STALL] = "ckpt_stall_s",
    };
    for (size_t i = 0; i < DT_TIMES; i++)
        add(costs, names[i], asked ? mean(run, i) : mine[i]);
}

/* Adds the energy of all ranks since the last exchange, and the tokens per
 * joule.
 */
static void add_energy(const struct dt_run *run, bool asked,
                       struct dt_report_values *costs)
{
    double all = asked ? 0 : NAN;
    for (size_t r = 0; asked && r < (size_t)run->spec.world; r++)
        all += of_rank(run, r, JOULES);
    add(costs, "energy_j", all);
    add(costs, "tokens_per_j", all > 0 ? run->costs->tokens / all : NAN);
    if (asked)
        run->costs->tokens = 0;
}

/* Share of the peak of all devices that so many tokens a second use; NaN if
 * either is unknown.
 */
static double utilization(const struct dt_run *run, double tokens)
{
    const struct dt_peak *peak =
        dt_peak_of(run->spec.exec.device->describe(), run->learner.compute);
    return peak ? tokens * dt_flops_per_token(&run->spec) /
                      (run->spec.world * peak->flops)
                : NAN;
}

int dt_run_costs(struct dt_run *run, double tokens, double seconds,
                 struct dt_report_values *costs, struct dt_error *err)
{
    const bool asks = dt_run_can_ask(run);
    double mine[NUMBERS];
    measure(run, asks, mine);
    run->costs->tokens += tokens;
    if (asks && dt_gather(run->comm, mine, NUMBERS, run->costs->ranks, err) < 0)
        return -1;
    costs->count = 0;
    add(costs, "tokens", tokens);
    add(costs, "total_tokens", run->progress.tokens);
    add(costs, "step_s", seconds / (double)run->window.steps);
    add_times(run, mine, asks, costs);
    add(costs, "mem", asks ? most(run, NOW) : NAN);
    add(costs, "mem_peak", asks ? most(run, PEAK) : NAN);
    add(costs, "mfu", utilization(run, tokens / seconds));
    add(costs, "skipped", (double)run->progress.skipped);
    if (asks) {
        add_extremes(run, costs);
        if (run->report)
            sum_ranks(run);
    }
    add_energy(run, asks, costs);
    run->progress.skipped = 0;
    /* The exchange may have waited for weights on their way to the ranks. That
     * time belongs to the next step.
     */
    run->window = (struct dt_run_window){.since = run->window.since + seconds};
    return 0;
}
