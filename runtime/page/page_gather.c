/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_gather.c - gathers the contents of a page in one pass over the files of
 * a run
 */
#include "config.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/median.h"
#include "page/page_impl.h"

/* --- times of ranks --- */

void dt_rank_times_fini(struct dt_rank_times *times)
{
    free(times->sums);
    free(times->sorted);
    memset(times, 0, sizeof(*times));
}

static int times_begin(struct dt_rank_times *times,
                       const struct dt_report_ranks *ranks)
{
    dt_rank_times_fini(times);
    times->sums = calloc(ranks->count, sizeof(*times->sums));
    times->sorted = calloc(ranks->count, sizeof(*times->sorted));
    if (!times->sums || !times->sorted) {
        dt_rank_times_fini(times);
        return -1;
    }
    times->world = ranks->count;
    times->per_band = (ranks->count + DT_RANK_BANDS - 1) / DT_RANK_BANDS;
    times->bands = (ranks->count + times->per_band - 1) / times->per_band;
    times->lines_a_column = 1;
    times->first_step = ranks->step;
    return 0;
}

/* The median of the finite values; NaN: none. */
static double median_of(struct dt_rank_times *times, const double *value)
{
    size_t n = 0;
    for (size_t i = 0; i < times->world; i++)
        if (isfinite(value[i]))
            times->sorted[n++] = value[i];
    return n > 0 ? dt_median(times->sorted, n) : NAN;
}

/* Merges each pair of columns. */
static void times_widen(struct dt_rank_times *times)
{
    for (size_t band = 0; band < times->bands; band++)
        for (size_t i = 0; i < times->columns; i++) {
            const struct dt_rank_cell from = times->cell[band][i];
            times->cell[band][i] = (struct dt_rank_cell){0};
            times->cell[band][i / 2].sum += from.sum;
            times->cell[band][i / 2].count += from.count;
        }
    times->columns = (times->columns + 1) / 2;
    times->lines_a_column *= 2;
}

static void times_add_column(struct dt_rank_times *times,
                             const double *compute_s)
{
    const double median = median_of(times, compute_s);
    if (times->lines / times->lines_a_column >= DT_RANK_COLUMNS)
        times_widen(times);
    const size_t column = times->lines++ / times->lines_a_column;
    times->columns = column + 1;
    for (size_t i = 0; median > 0 && i < times->world;) {
        struct dt_rank_cell *cell = &times->cell[i / times->per_band][column];
        double most = NAN;
        const size_t end = i + times->per_band;
        for (; i < end && i < times->world; i++)
            most = fmax(most, compute_s[i]);
        if (!isfinite(most))
            continue;
        cell->sum += most / median;
        cell->count++;
    }
}

static void add_to(double *sum, unsigned *count, const double *value, size_t i)
{
    if (!value || !isfinite(value[i]))
        return;
    *sum += value[i];
    ++*count;
}

void dt_rank_times_add(struct dt_rank_times *times,
                       const struct dt_report_ranks *ranks)
{
    if (ranks->count == 0 ||
        (times->world != ranks->count && times_begin(times, ranks) < 0))
        return;
    times->last_step = ranks->step;
    for (size_t i = 0; i < times->world; i++) {
        struct dt_rank_sums *sums = &times->sums[i];
        add_to(&sums->compute, &sums->compute_n, ranks->compute_s, i);
        add_to(&sums->comm, &sums->comm_n, ranks->comm_s, i);
        add_to(&sums->data, &sums->data_n, ranks->data_wait_s, i);
        if (ranks->mem && isfinite(ranks->mem[i]))
            sums->mem = fmax(sums->mem, ranks->mem[i]);
    }
    if (ranks->compute_s)
        times_add_column(times, ranks->compute_s);
}

/* --- metrics --- */

/* Values that are added up or from which others are derived. */
enum role {
    LOSS,
    TOKENS_PER_S,
    TOKENS,
    TOTAL_TOKENS,
    STEP_S,
    COMPUTE_S,
    COMM_S,
    DATA_S,
    SAVE_S,
    ENERGY,
    TOKENS_PER_J,
    ROLES
};

static const char *const role_names[ROLES] = {
    [LOSS] = "loss",
    [TOKENS_PER_S] = "tokens_per_s",
    [TOKENS] = "tokens",
    [TOTAL_TOKENS] = "total_tokens",
    [STEP_S] = "step_s",
    [COMPUTE_S] = "compute_s",
    [COMM_S] = "comm_exposed_s",
    [DATA_S] = "data_wait_s",
    [SAVE_S] = "ckpt_stall_s",
    [ENERGY] = "energy_j",
    [TOKENS_PER_J] = "tokens_per_j",
};

/* The properties of the value at one place of a line. */
struct place {
    const char *name;
    enum dt_split split;
    struct dt_page_curve *curve; /* NULL: none */
    enum role role;              /* ROLES: none */
    bool may_be_infinite;        /* so null is bad rather than unknown */
};

/* The state of the pass over the metrics. */
struct pass {
    struct dt_page_run *run;
    double offset;  /* seconds of earlier processes */
    double seconds; /* of this process */
    long step;      /* of the previous record */
    double value[ROLES];
    struct place place[DT_RECORD_VALUES_MAX];
    struct dt_page_curve *power, *other;
};

/* --- curves --- */

static struct dt_page_curve *find_curve(const struct dt_page_run *run,
                                        enum dt_split split, const char *name)
{
    for (size_t i = 0; i < run->curve_count; i++)
        if (run->curve[i]->split == split && !strcmp(run->curve[i]->name, name))
            return run->curve[i];
    return NULL;
}

/* Adds a curve, or finds it. NULL: there are too many, or no memory. */
static struct dt_page_curve *add_curve(struct dt_page_run *run,
                                       enum dt_split split, const char *name)
{
    struct dt_page_curve *curve = find_curve(run, split, name);
    if (curve || run->curve_count == DT_PAGE_CURVES ||
        !(curve = malloc(sizeof(*curve))))
        return curve;
    curve->name = name;
    curve->split = split;
    dt_curve_init(&curve->by_step, 1);
    return run->curve[run->curve_count++] = curve;
}

const struct dt_curve *dt_page_find(const struct dt_page_run *run,
                                    enum dt_split split, const char *name)
{
    const struct dt_page_curve *curve = find_curve(run, split, name);
    return curve ? &curve->by_step : NULL;
}

/* Lines have the same names in the same order, and equal names are equal
 * pointers.
 */
static const struct place *place_of(struct pass *pass, size_t i,
                                    enum dt_split split, const char *name)
{
    struct place *place = &pass->place[i];
    if (place->name == name && place->split == split)
        return place;
    *place = (struct place){.name = name, .split = split, .role = ROLES};
    place->curve = add_curve(pass->run, split, name);
    for (int role = 0; role < ROLES; role++)
        if (!strcmp(role_names[role], name))
            place->role = (enum role)role;
    place->may_be_infinite = place->role == LOSS || !strcmp(name, "grad_norm");
    return place;
}

/* --- records --- */

static double or_zero(double value)
{
    return isfinite(value) ? value : 0;
}

static void add_part(double *part, double value)
{
    if (isfinite(value))
        *part = or_zero(*part) + value;
}

/* Adds up the values of a line of training. */
static void sum_record(struct pass *pass, long step)
{
    struct dt_page_run *run = pass->run;
    struct dt_page_parts *parts = &run->parts;
    const double *value = pass->value;
    const double steps = step > pass->step ? (double)(step - pass->step) : 1;
    add_part(&run->tokens, value[TOKENS]);
    if (isfinite(value[TOTAL_TOKENS]))
        run->tokens = value[TOTAL_TOKENS];
    add_part(&run->joules, value[ENERGY]);
    add_part(&parts->compute, steps * value[COMPUTE_S]);
    add_part(&parts->comm, steps * value[COMM_S]);
    add_part(&parts->data, steps * value[DATA_S]);
    add_part(&parts->save, steps * value[SAVE_S]);
    if (run->first_step < 0)
        run->first_step = step;
    run->last_step = step;
    pass->step = step;
}

/* Takes the time of a record since the first process began, without the time
 * between processes. Times of one process may be out of order by a rounding
 * error.
 */
static void follow_time(struct pass *pass, double seconds)
{
    if (!isfinite(seconds))
        return;
    if (seconds < pass->seconds - 1)
        pass->offset += pass->seconds;
    pass->seconds = seconds;
    pass->run->seconds = pass->offset + seconds;
}

static void add_point(struct pass *pass, struct dt_page_curve **curve,
                      const char *name, long step, double value)
{
    if (!isfinite(value))
        return;
    if (!*curve)
        *curve = add_curve(pass->run, DT_SPLIT_TRAIN, name);
    if (*curve)
        dt_curve_add(&(*curve)->by_step, (double)step, fmax(value, 0));
}

/* Adds points to the derived curves. */
static void add_derived(struct pass *pass, long step)
{
    struct dt_page_run *run = pass->run;
    const double *value = pass->value;
    if (isfinite(run->tokens))
        dt_curve_add(&run->loss_by_tokens, run->tokens, value[LOSS]);
    if (isfinite(run->seconds))
        dt_curve_add(&run->loss_by_time, run->seconds, value[LOSS]);
    add_point(pass, &pass->power, "power_w", step,
              value[TOKENS_PER_S] / value[TOKENS_PER_J]);
    add_point(pass, &pass->other, "other_s", step,
              value[STEP_S] - value[COMPUTE_S] - or_zero(value[COMM_S]) -
                  or_zero(value[DATA_S]) - or_zero(value[SAVE_S]));
}

static void take_record(struct pass *pass,
                        const struct dt_report_record *record)
{
    for (int i = 0; i < ROLES; i++)
        pass->value[i] = NAN;
    for (size_t i = 0; i < record->count; i++) {
        const double value = record->value[i].value;
        const struct place *place =
            place_of(pass, i, record->split, record->value[i].name);
        if (place->role != ROLES)
            pass->value[place->role] = value;
        if (place->curve && (isfinite(value) || place->may_be_infinite))
            dt_curve_add(&place->curve->by_step, (double)record->step, value);
    }
    follow_time(pass, dt_history_seconds(pass->run->history));
    if (isfinite(record->wall))
        pass->run->last_wall = record->wall;
    if (record->split == DT_SPLIT_TRAIN) {
        sum_record(pass, record->step);
        add_derived(pass, record->step);
    }
}

static int gather_metrics(struct dt_page_run *run, struct dt_error *err)
{
    struct dt_report_record record;
    struct pass *pass = calloc(1, sizeof(*pass));
    if (!pass)
        return dt_error_set(err, EX_OSERR, "out of memory");
    pass->run = run;
    int rc;
    while ((rc = dt_history_next(run->history, &record, err)) > 0)
        take_record(pass, &record);
    free(pass);
    return rc;
}

/* --- events --- */

static void event_destroy(struct dt_page_event *event)
{
    if (!event)
        return;
    free(event->kind);
    free(event->host);
    free(event->text);
    free(event);
}

static struct dt_page_event *event_copy(const struct dt_report_event *from)
{
    struct dt_page_event *event = calloc(1, sizeof(*event));
    if (!event)
        return NULL;
    event->kind = strdup(from->kind);
    event->host = from->host ? strdup(from->host) : NULL;
    event->text = from->text ? strdup(from->text) : NULL;
    event->step = from->step;
    event->wall = from->wall;
    event->seconds = from->seconds;
    event->bytes = from->bytes;
    event->rank = from->rank;
    if (event->kind)
        return event;
    event_destroy(event);
    return NULL;
}

/* Adds an event; if there are too many, drops the oldest of the second half. */
static int add_event(struct dt_page_run *run,
                     const struct dt_report_event *from)
{
    enum { HALF = DT_PAGE_EVENTS / 2 };
    struct dt_page_event *event = event_copy(from);
    if (!event)
        return -1;
    if (run->event_count == DT_PAGE_EVENTS) {
        event_destroy(run->event[HALF]);
        memmove(&run->event[HALF], &run->event[HALF + 1],
                (DT_PAGE_EVENTS - HALF - 1) * sizeof(struct dt_page_event *));
        run->event_count--;
        run->events_left_out++;
    }
    event->number =
        (unsigned)run->event_count + 1 + (unsigned)run->events_left_out;
    run->event[run->event_count++] = event;
    return 0;
}

static int gather_events(struct dt_page_run *run, struct dt_error *err)
{
    struct dt_report_event event;
    int rc;
    while ((rc = dt_history_next_event(run->history, &event, err)) > 0) {
        dt_account_event(&run->account, &event);
        if (add_event(run, &event) < 0)
            return dt_error_set(err, EX_OSERR, "out of memory");
        if (isfinite(event.wall))
            run->last_wall = fmax(run->last_wall, event.wall);
    }
    /* the last line of a process that runs is the last that is known of it */
    event = (struct dt_report_event){
        .kind = "line", .step = run->last_step, .wall = run->last_wall};
    if (run->account.runs)
        dt_account_event(&run->account, &event);
    return rc;
}

static int gather_ranks(struct dt_page_run *run, struct dt_error *err)
{
    struct dt_report_ranks ranks;
    int rc;
    while ((rc = dt_history_next_ranks(run->history, &ranks, err)) > 0)
        dt_rank_times_add(&run->ranks, &ranks);
    return rc;
}

/* --- the run --- */

struct dt_page_run *dt_page_gather(const char *path, struct dt_error *err)
{
    struct dt_page_run *run = calloc(1, sizeof(*run));
    if (!run) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    run->first_step = run->last_step = -1;
    run->seconds = run->tokens = run->joules = run->last_wall = NAN;
    run->parts = (struct dt_page_parts){NAN, NAN, NAN, NAN};
    dt_curve_init(&run->loss_by_tokens, 1);
    dt_curve_init(&run->loss_by_time, 1e-3);
    run->history = dt_history_open(path, err);
    if (run->history) {
        run->facts = dt_history_facts(run->history);
        if (gather_metrics(run, err) == 0 && gather_events(run, err) == 0 &&
            gather_ranks(run, err) == 0)
            return run;
    }
    dt_page_run_destroy(run);
    return NULL;
}

void dt_page_run_destroy(struct dt_page_run *run)
{
    if (!run)
        return;
    for (size_t i = 0; i < run->curve_count; i++)
        free(run->curve[i]);
    for (size_t i = 0; i < run->event_count; i++)
        event_destroy(run->event[i]);
    dt_rank_times_fini(&run->ranks);
    dt_history_destroy(run->history);
    free(run);
}

double dt_page_mean(const struct dt_page_run *run, const char *name)
{
    const struct dt_curve *curve = dt_page_find(run, DT_SPLIT_TRAIN, name);
    return curve && curve->count > 0 ? curve->sum / (double)curve->count : NAN;
}

const char *dt_page_setting(const struct dt_page_run *run, const char *key)
{
    for (size_t i = 0; i < run->facts->setting_count; i++)
        if (!strcmp(run->facts->settings[i].key, key))
            return run->facts->settings[i].value;
    return NULL;
}

const struct dt_page_event *dt_page_last_event(const struct dt_page_run *run,
                                               const char *kinds)
{
    for (size_t i = run->event_count; i-- > 0;) {
        const size_t n = strlen(run->event[i]->kind);
        const char *found = kinds;
        while ((found = strstr(found, run->event[i]->kind)) != NULL) {
            if ((found == kinds || found[-1] == ' ') &&
                (found[n] == ' ' || found[n] == '\0'))
                return run->event[i];
            found++;
        }
    }
    return NULL;
}
