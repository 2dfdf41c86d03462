/* SPDX-License-Identifier: Apache-2.0 */
/*
 * costs.c - times, memory and energy of the steps between two report lines
 *
 * Ranks exchange their numbers once a line, never once a step. Times are
 * differences of the totals of spans (base/span.h). Each rank counts the energy
 * of its GPU. Without GPUs the first rank of each node counts the processors of
 * that node.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/median.h"
#include "run/spec.h"
#include "run/exchange.h"
#include "train/watch/watch_impl.h"

enum {
    RANKS_SECONDS = 60, /* between lines of ranks.jsonl */
    READ_SECONDS = 10, /* often enough to miss no wrap of a counter of energy */
};

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

/* --- energy --- */

static bool is_first_on_host(const struct dt_run *run)
{
    const char *host = dt_comm_host(run->comm, run->spec.rank);
    for (int rank = 0; rank < run->spec.rank; rank++)
        if (strcmp(dt_comm_host(run->comm, rank), host) == 0)
            return false;
    return true;
}

/* Adds the joules used since the last reading. */
static void read_energy(struct dt_watch *w)
{
    struct dt_energy_reading reading = {NAN, NAN};
    if (w->energy.counters)
        dt_energy_read(w->energy.counters, &reading);
    const double all = reading.gpu_j + reading.cpu_j;
    w->energy.joules += all - w->energy.last;
    w->energy.last = all;
    w->energy.read = dt_clock_now();
}

void dt_watch_energy(struct dt_run *run)
{
    const struct dt_device *device = run->spec.exec.device;
    const struct dt_energy_options options = {
        .node = device->is_host && is_first_on_host(run),
        .gpu = device->bus_id ? device->bus_id() : NULL,
    };
    struct dt_watch *w = run->watch;
    w->energy.counters = dt_energy_open(&options);
    read_energy(w);
    if (w->energy.counters)
        dt_live_no_energy(run->live, dt_energy_problem(w->energy.counters));
}

void dt_energy_poll(struct dt_watch *w)
{
    if (dt_clock_now() >= w->energy.read + READ_SECONDS)
        read_energy(w);
}

/* Joules that this rank has counted since the previous call. NAN: unknown; 0:
 * another rank of its host counts them.
 */
static double take_energy(struct dt_watch *w)
{
    read_energy(w);
    const double joules = w->energy.joules;
    w->energy.joules = 0;
    return joules;
}

/* --- the numbers of ranks --- */

/* Measures the numbers of this rank since the last line, and its energy since
 * the last exchange. Without an exchange (`asks` is false) the energy stays
 * counted.
 */
static void measure(struct dt_run *run, bool asks, double mine[DT_COSTS])
{
    const struct dt_device *device = run->spec.exec.device;
    dt_step_times(device, &run->watch->costs.spent, run->watch->window.steps,
                  mine);
    mine[DT_COST_NOW] = known(device->used_bytes());
    mine[DT_COST_PEAK] = fmax(mine[DT_COST_NOW], known(device->peak_bytes()));
    mine[DT_COST_JOULES] = asks ? take_energy(run->watch) : NAN;
}

static double of_rank(const struct dt_run *run, size_t rank, size_t i)
{
    return run->watch->costs.ranks[rank * DT_COSTS + i];
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
    double *times = run->watch->room;
    size_t slowest = 0;
    for (size_t r = 0; r < world; r++) {
        times[r] = dt_own_time(run->spec.exec.device,
                               run->watch->costs.ranks + r * DT_COSTS);
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
    struct dt_watch *w = run->watch;
    const size_t world = (size_t)run->spec.world;
    double *power = w->costs.sums + DT_COST_JOULES * world;
    for (size_t i = 0; i < DT_TIMES * world; i++)
        w->costs.sums[i] /= (double)w->costs.steps;
    const bool powered = make_power(power, world, w->costs.seconds);
    dt_report_ranks(
        run->report,
        &(struct dt_report_ranks){
            .step = w->costs.step,
            .count = world,
            .compute_s = w->costs.sums + DT_TIME_COMPUTE * world,
            .comm_s = w->costs.sums + DT_TIME_COMM * world,
            .data_wait_s = w->costs.sums + DT_TIME_DATA_WAIT * world,
            .mem = w->costs.sums + DT_COST_NOW * world,
            .power_w = powered ? power : NULL});
    for (size_t i = 0; i < DT_COSTS * world; i++)
        w->costs.sums[i] = 0;
    w->costs.steps = 0;
    w->costs.seconds = 0;
    w->costs.written = dt_clock_now();
}

/* Adds the numbers of ranks to those of the next line of ranks.jsonl. */
static void sum_ranks(struct dt_run *run)
{
    struct dt_watch *w = run->watch;
    const size_t world = (size_t)run->spec.world;
    const double now = dt_clock_now();
    for (size_t r = 0; r < world; r++) {
        for (size_t i = 0; i < DT_TIMES; i++)
            w->costs.sums[i * world + r] +=
                of_rank(run, r, i) * (double)run->watch->window.steps;
        w->costs.sums[DT_COST_NOW * world + r] = of_rank(run, r, DT_COST_NOW);
        w->costs.sums[DT_COST_JOULES * world + r] +=
            of_rank(run, r, DT_COST_JOULES);
    }
    w->costs.steps += run->watch->window.steps;
    w->costs.step = run->progress.step;
    w->costs.seconds += now - w->costs.asked;
    w->costs.asked = now;
    if (now - w->costs.written >= RANKS_SECONDS)
        write_ranks(run);
}

void dt_watch_end(struct dt_run *run)
{
    if (run->report && run->watch && run->watch->costs.steps > 0)
        write_ranks(run);
}

static void add_times(const struct dt_run *run, const double mine[DT_COSTS],
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
        all += of_rank(run, r, DT_COST_JOULES);
    add(costs, "energy_j", all);
    add(costs, "tokens_per_j", all > 0 ? run->watch->costs.tokens / all : NAN);
    if (asked)
        run->watch->costs.tokens = 0;
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

double dt_watch_tokens(const struct dt_run *run)
{
    const struct dt_progress *p = &run->progress;
    return run->spec.algo->loss ? p->metrics.tokens : p->loss_tokens;
}

int dt_watch_costs(struct dt_run *run, struct dt_report_step *line,
                   struct dt_error *err)
{
    struct dt_watch *w = run->watch;
    struct dt_report_values *costs = &line->costs;
    const bool asks = dt_run_can_ask(run);
    double mine[DT_COSTS];
    const double tokens = dt_watch_tokens(run);
    line->seconds = dt_clock_now() - w->window.since;
    line->tokens = tokens - w->window.before;
    measure(run, asks, mine);
    w->costs.tokens += line->tokens;
    if (asks && dt_gather(run->comm, mine, DT_COSTS, w->costs.ranks, err) < 0)
        return -1;
    costs->count = 0;
    add(costs, "tokens", tokens);
    add(costs, "total_tokens", run->progress.tokens);
    add(costs, "step_s", line->seconds / (double)w->window.steps);
    add_times(run, mine, asks, costs);
    add(costs, "mem", asks ? most(run, DT_COST_NOW) : NAN);
    add(costs, "mem_peak", asks ? most(run, DT_COST_PEAK) : NAN);
    add(costs, "mfu", utilization(run, line->tokens / line->seconds));
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
    w->window.since += line->seconds;
    w->window.before = 0;
    w->window.steps = 0;
    return 0;
}
