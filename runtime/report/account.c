/* SPDX-License-Identifier: Apache-2.0 */
/* account.c - where the time of a run went, from its events */
#include "config.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "report/account.h"

/* --- steps that are done again --- */

/* Notes that the step is done now. */
static void mark_step(struct dt_account *a, long step)
{
    const double now = a->sums.seconds[DT_ACCOUNT_STEPS];
    if (step > a->reached)
        a->reached = step;
    if (a->marks > 0 && step < a->mark[a->marks - 1].step)
        return;
    if (a->marks > 0 && step == a->mark[a->marks - 1].step)
        a->marks--;
    if (a->marks == DT_ACCOUNT_MARKS) { /* every second one will do */
        for (size_t i = 0; 2 * i < DT_ACCOUNT_MARKS; i++)
            a->mark[i] = a->mark[2 * i];
        a->marks = DT_ACCOUNT_MARKS / 2;
    }
    a->mark[a->marks].step = step;
    a->mark[a->marks++].seconds = now;
}

/* The time in steps up to `step`. */
static double time_of(const struct dt_account *a, long step)
{
    size_t i = a->marks;
    while (i > 0 && a->mark[i - 1].step > step)
        i--;
    if (i == 0)
        return 0;
    const bool newest = i == a->marks;
    const double from = a->mark[i - 1].seconds;
    const double to =
        newest ? a->sums.seconds[DT_ACCOUNT_STEPS] : a->mark[i].seconds;
    const long first = a->mark[i - 1].step;
    const long last = newest ? a->reached : a->mark[i].step;
    if (step >= last)
        return step > first ? to : from;
    return from + (to - from) * (double)(step - first) / (double)(last - first);
}

/* Those after `step` are lost. */
static void go_back(struct dt_account *a, long step)
{
    double *seconds = a->sums.seconds;
    const double kept = time_of(a, step);
    seconds[DT_ACCOUNT_LOST] += seconds[DT_ACCOUNT_STEPS] - kept;
    seconds[DT_ACCOUNT_STEPS] = kept;
    if (a->reached > step)
        a->sums.redone += a->reached - step;
    a->reached = step;
    while (a->marks > 0 && a->mark[a->marks - 1].step > step)
        a->marks--;
}

/* --- events --- */

static double sum_of(const double spent[DT_ACCOUNT_COUNTED])
{
    double sum = 0;
    for (int i = 0; i < DT_ACCOUNT_COUNTED; i++)
        sum += spent[i];
    return sum;
}

/* All that a later start does before its first step is recovery. */
static int part_of(const struct dt_account *a, int counted)
{
    return counted == DT_ACCOUNT_STARTUP && a->sums.starts > 1
               ? DT_ACCOUNT_RECOVERY
               : counted;
}

/* Adds what the process has spent since the last event. */
static void add_spent(const struct dt_account *a,
                      const double spent[DT_ACCOUNT_COUNTED],
                      double seconds[DT_ACCOUNT_PARTS])
{
    for (int i = 0; i < DT_ACCOUNT_COUNTED; i++)
        seconds[part_of(a, i)] += fmax(spent[i] - a->spent[i], 0);
}

void dt_account_guess(const struct dt_account *a,
                      const struct dt_account_sums *last, double wall,
                      double spent[DT_ACCOUNT_COUNTED])
{
    double left = wall - a->wall;
    memset(spent, 0, sizeof(a->spent));
    if (!a->runs || !last->known || !(left > 0))
        return;
    memcpy(spent, a->spent, sizeof(a->spent));
    for (int i = 0; i < DT_ACCOUNT_COUNTED; i++) {
        const int part = part_of(a, i);
        const double more = last->seconds[part] - a->sums.seconds[part];
        if (i == DT_ACCOUNT_STEPS || !(more > 0))
            continue;
        spent[i] += fmin(more, left);
        left -= fmin(more, left);
    }
    spent[DT_ACCOUNT_STEPS] += left;
}

/* A rank was lost at `wall`, and the others have waited until they could tell
 * their own end.
 */
static void take_back_wait(struct dt_account *a, double wall)
{
    double *steps = &a->sums.seconds[DT_ACCOUNT_STEPS];
    const double kept = a->marks > 0 ? a->mark[a->marks - 1].seconds : 0;
    if (!(wall < a->wall))
        return;
    const double waited = fmin(a->wall - wall, *steps - kept);
    *steps -= waited;
    a->wall -= waited;
}

/* Adds the time up to an event. A process of which nobody knows what it spent,
 * as it was killed, did steps. It may have told something after the time of its
 * loss, as nobody had found that yet.
 */
static void take_time(struct dt_account *a, const struct dt_report_event *event)
{
    if (sum_of(event->spent) > 0) {
        add_spent(a, event->spent, a->sums.seconds);
        memcpy(a->spent, event->spent, sizeof(a->spent));
    } else if (event->wall > a->wall) {
        a->sums.seconds[DT_ACCOUNT_STEPS] += event->wall - a->wall;
    } else {
        return;
    }
    if (isfinite(event->wall))
        a->wall = event->wall;
}

static void begin_process(struct dt_account *a,
                          const struct dt_report_event *event)
{
    const char *allocation = event->allocation ? event->allocation : "";
    const double own = sum_of(event->spent), began = event->wall - own;
    const bool same = allocation[0] && strcmp(allocation, a->allocation) == 0;
    a->sums.known = own > 0 && (a->sums.known || a->sums.starts == 0);
    if (a->sums.starts++ > 0) {
        if (began > a->wall)
            a->sums.seconds[same ? DT_ACCOUNT_RECOVERY : DT_ACCOUNT_IDLE] +=
                began - a->wall;
        go_back(a, event->step);
    }
    snprintf(a->allocation, sizeof(a->allocation), "%s", allocation);
    memset(a->spent, 0, sizeof(a->spent));
    a->runs = true;
    a->wall = event->wall;
    take_time(a, event);
}

static bool is_one_of(const char *kind, const char *const kinds[])
{
    for (size_t i = 0; kinds[i]; i++)
        if (strcmp(kind, kinds[i]) == 0)
            return true;
    return false;
}

void dt_account_event(struct dt_account *account,
                      const struct dt_report_event *event)
{
    static const char *const starts[] = {"start", "resume", NULL};
    static const char *const ends[] = {"restart", "stop", "end", "failed",
                                       NULL};
    const bool ends_it = is_one_of(event->kind, ends);
    if (is_one_of(event->kind, starts))
        begin_process(account, event);
    else if (account->runs)
        take_time(account, event);
    else if (strcmp(event->kind, "restart") == 0)
        take_back_wait(account, event->wall);
    else if (!ends_it)
        return;
    account->runs = !ends_it;
    if (!ends_it)
        mark_step(account, event->step);
    else if (event->step > account->reached)
        account->reached = event->step;
}

/* --- sums --- */

void dt_account_now(const struct dt_account *account,
                    const double spent[DT_ACCOUNT_COUNTED],
                    struct dt_account_sums *sums)
{
    *sums = account->sums;
    if (account->runs)
        add_spent(account, spent, sums->seconds);
}

double dt_account_total(const struct dt_account_sums *sums)
{
    double sum = 0;
    for (int i = 0; i < DT_ACCOUNT_PARTS; i++)
        sum += i == DT_ACCOUNT_IDLE ? 0 : sums->seconds[i];
    return sums->known ? sum : NAN;
}

double dt_account_goodput(const struct dt_account_sums *sums)
{
    return sums->seconds[DT_ACCOUNT_STEPS] / dt_account_total(sums);
}

__attribute__((format(printf, 2, 3))) static void add_text(
    char text[DT_ACCOUNT_TEXT], const char *format, ...)
{
    const size_t used = strlen(text);
    va_list ap;
    va_start(ap, format);
    vsnprintf(text + used, DT_ACCOUNT_TEXT - used, format, ap);
    va_end(ap);
}

char *dt_account_format(const struct dt_account_sums *sums,
                        char text[DT_ACCOUNT_TEXT])
{
    static const char *const names[DT_ACCOUNT_PARTS] = {
        [DT_ACCOUNT_STARTUP] = "start-up",
        [DT_ACCOUNT_STEPS] = "steps",
        [DT_ACCOUNT_DATA] = "waiting for data",
        [DT_ACCOUNT_SAVING] = "saving",
        [DT_ACCOUNT_EVALUATION] = "evaluation",
        [DT_ACCOUNT_RECOVERY] = "recovery",
        [DT_ACCOUNT_LOST] = "lost",
        [DT_ACCOUNT_IDLE] = "idle between jobs",
    };
    static const enum dt_account_part order[DT_ACCOUNT_PARTS] = {
        DT_ACCOUNT_STEPS,  DT_ACCOUNT_STARTUP,    DT_ACCOUNT_DATA,
        DT_ACCOUNT_SAVING, DT_ACCOUNT_EVALUATION, DT_ACCOUNT_RECOVERY,
        DT_ACCOUNT_LOST,   DT_ACCOUNT_IDLE};
    const long restarts = sums->starts - 1;
    char time[32];
    snprintf(text, DT_ACCOUNT_TEXT, "goodput %.1f %%",
             100 * dt_account_goodput(sums));
    for (int i = 0; i < DT_ACCOUNT_PARTS; i++) {
        const enum dt_account_part part = order[i];
        const bool counts = part == DT_ACCOUNT_RECOVERY ? restarts > 0
                            : part == DT_ACCOUNT_LOST   ? sums->redone > 0
                                                        : i == 0;
        if (!counts && sums->seconds[part] < 0.5)
            continue;
        dt_clock_format(sums->seconds[part], time, sizeof(time));
        add_text(text, "%s %s %s", i == 0 ? ":" : ",", names[part], time);
        if (part == DT_ACCOUNT_RECOVERY && restarts > 0)
            add_text(text, " (%ld restart%s)", restarts,
                     restarts == 1 ? "" : "s");
        if (part == DT_ACCOUNT_LOST && sums->redone > 0)
            add_text(text, " (%ld step%s)", sums->redone,
                     sums->redone == 1 ? "" : "s");
    }
    return text;
}

/* In microseconds, as in events. */
static json_t *seconds_json(double seconds)
{
    return json_real(round(seconds * 1e6) / 1e6);
}

json_t *dt_account_json(const struct dt_account_sums *sums)
{
    if (!(dt_account_total(sums) > 0))
        return json_null();
    json_t *object = json_pack("{s:f, s:I, s:I}", "goodput",
                               round(dt_account_goodput(sums) * 1e4) / 1e4,
                               "restarts", (json_int_t)(sums->starts - 1),
                               "redone", (json_int_t)sums->redone);
    for (int i = 0; i < DT_ACCOUNT_PARTS; i++)
        json_object_set_new(object, dt_account_names[i],
                            seconds_json(sums->seconds[i]));
    return object;
}

/* A number of at least 0; 0 for anything else. */
static double number_of(const json_t *object, const char *key)
{
    const double value = json_number_value(json_object_get(object, key));
    return value > 0 && value < 1e15 ? value : 0;
}

void dt_account_read(const json_t *object, struct dt_account_sums *sums)
{
    *sums = (struct dt_account_sums){
        .known = json_is_object(object),
        .starts = 1 + (long)number_of(object, "restarts"),
        .redone = (long)number_of(object, "redone"),
    };
    for (int i = 0; i < DT_ACCOUNT_PARTS; i++)
        sums->seconds[i] = number_of(object, dt_account_names[i]);
}
