/* SPDX-License-Identifier: Apache-2.0 */
/* live.c - the state of a run, and the thread that writes it */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/median.h"
#include "base/thread.h"
#include "live/live.h"
#include "live/live_impl.h"
#include "live/state.h"

enum {
    END_S = 5,     /* how long the thread may take to end */
    EXPORT_S = 15, /* between two files for Prometheus */
    DRAW_MS = 250, /* between two drawings of the bar */
};

struct dt_live {
    pthread_mutex_t lock; /* of all below up to the thread's own */
    pthread_cond_t wake;
    struct dt_live_state state;
    struct dt_account account;        /* up to the last event */
    double spent[DT_ACCOUNT_COUNTED]; /* up to the present phase */
    enum dt_account_part part;        /* of the present time */
    double since;                     /* when that began */
    double phase_since;               /* when the phase began */
    double begun;                     /* when the first step began */
    double last;                      /* when the last step ended */
    double last_other_s;              /* other_seconds at that time */
    double times[DT_LIVE_TIMES];      /* of the last steps; a ring */
    long timed;                       /* how many have been put there */
    char **hosts;
    size_t host_count;
    char *dir;               /* NULL: nothing is published yet */
    bool (*mine)(void *ctx); /* whether dir is still this run's; NULL: yes */
    void *ctx;
    bool left;        /* the thread hangs and was abandoned */
    char *prometheus; /* a directory, or NULL */
    bool end;

    pthread_t thread;
    bool started;
    struct dt_progress_bar bar; /* under the lock */
    double exported;            /* time of the last export */
    bool deaf;                  /* an export has failed */
    bool failing;               /* the last file could not be written */
};

/* --- the thread --- */

static double median_time(const struct dt_live *live)
{
    double times[DT_LIVE_TIMES];
    size_t n = live->timed < DT_LIVE_TIMES ? (size_t)live->timed
                                           : (size_t)DT_LIVE_TIMES;
    if (n == 0)
        return NAN;
    memcpy(times, live->times, n * sizeof(*times));
    return dt_median(times, n);
}

/* What this process has spent until now. */
static void spent_now(const struct dt_live *live, double now,
                      double spent[DT_ACCOUNT_COUNTED])
{
    memcpy(spent, live->spent, sizeof(live->spent));
    spent[live->part] += now - live->since;
}

/* Seconds without steps, since the first one. */
static double other_seconds(const double spent[DT_ACCOUNT_COUNTED])
{
    return spent[DT_ACCOUNT_SAVING] + spent[DT_ACCOUNT_EVALUATION];
}

/* Copies the present state. The rest of the run is estimated from the median of
 * the last steps and from the share of evaluations and saves so far.
 */
static void copy_state(struct dt_live *live, struct dt_live_state *copy)
{
    double now = dt_clock_now(), spent[DT_ACCOUNT_COUNTED];
    struct dt_live_state *s = &live->state;
    spent_now(live, now, spent);
    dt_account_now(&live->account, spent, &s->account);
    s->wall = dt_clock_wall();
    s->phase_s = now - live->phase_since;
    s->step_s = median_time(live);
    s->left_s = NAN;
    s->elapsed_s = s->counts ? now - live->begun : NAN;
    s->goodput = s->counts ? dt_account_goodput(&s->account) : NAN;
    dt_table_mark_slow(s);
    if (s->counts && s->step > s->first) {
        double each =
            s->step_s + other_seconds(spent) / (double)(s->step - s->first);
        s->left_s = each * (double)(s->total - s->step);
    }
    *copy = *s;
}

/* Warns once when writing files fails, and says when it works again. */
static void tell_failure(struct dt_live *live, const struct dt_error *err)
{
    if (err && !live->failing)
        dt_log(DT_LOG_WARN, "live",
               "%s; the run continues, and what `disttrain top` shows of it "
               "is old",
               err->text);
    else if (!err && live->failing)
        dt_log(DT_LOG_WARN, "live", "%s/status.json: written again", live->dir);
    live->failing = err != NULL;
}

/* Writes the file for Prometheus every 15 seconds, which is a common scrape
 * interval, and removes it at the end. A failure costs one warning and the
 * file.
 */
static void export_state(struct dt_live *live, const struct dt_live_state *copy,
                         bool end)
{
    struct dt_error err;
    double now = dt_clock_now();
    if (!live->prometheus || live->deaf)
        return;
    if (end)
        dt_prometheus_remove(copy, live->prometheus);
    else if (now >= live->exported + EXPORT_S) {
        if (isinf(live->exported))
            dt_prometheus_clean(live->prometheus);
        live->exported = now;
        live->deaf = dt_prometheus_write(copy, live->prometheus, &err) < 0;
        if (live->deaf)
            dt_log(DT_LOG_WARN, "live",
                   "logging.prometheus: %s; nothing more is written there, and "
                   "the run continues",
                   err.text);
    }
}

static bool may_write(struct dt_live *live)
{
    pthread_mutex_lock(&live->lock);
    bool may =
        live->dir && !live->left && (!live->mine || live->mine(live->ctx));
    pthread_mutex_unlock(&live->lock);
    return may;
}

static void write_files(struct dt_live *live, const struct dt_live_state *copy)
{
    struct dt_error err;
    int rc = dt_live_write_status(copy, live->dir, &err);
    tell_failure(live, rc < 0 ? &err : NULL);
}

/* Waits until something is due, and copies the state. Returns whether to write
 * files; *end: this was the last time.
 */
static bool next_copy(struct dt_live *live, double next,
                      struct dt_live_state *copy, bool *end)
{
    pthread_mutex_lock(&live->lock);
    const int ms =
        live->bar.way == DT_PROGRESS_NONE ? DT_LIVE_INTERVAL * 1000 : DRAW_MS;
    const struct timespec until = dt_clock_in(CLOCK_MONOTONIC, ms);
    const bool published = live->dir;
    while (!live->end && published == (live->dir != NULL) &&
           pthread_cond_timedwait(&live->wake, &live->lock, &until) == 0)
        ;
    *end = live->end;
    copy_state(live, copy);
    dt_progress_show(&live->bar, copy);
    bool due = (live->dir || live->prometheus) &&
               (live->end || !published || dt_clock_now() >= next);
    pthread_mutex_unlock(&live->lock);
    return due;
}

static void *write_state(void *arg)
{
    struct dt_live *live = arg;
    struct dt_live_state *copy = calloc(1, sizeof(*copy));
    double next = 0;
    for (bool end = !copy; !end;)
        if (next_copy(live, next, copy, &end)) {
            next = dt_clock_now() + DT_LIVE_INTERVAL - DRAW_MS / 2e3;
            if (may_write(live))
                write_files(live, copy);
            export_state(live, copy, end);
        }
    free(copy);
    return NULL;
}

/* --- calls of the run --- */

static int init_wake(struct dt_live *live)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    int rc = pthread_cond_init(&live->wake, &attr);
    pthread_condattr_destroy(&attr);
    return rc ? rc : pthread_mutex_init(&live->lock, NULL);
}

static void copy_text(char *copy, size_t size, const char *text)
{
    snprintf(copy, size, "%.*s", (int)size - 1, text ? text : "");
}

/* Fills in the user, and the job and step if Slurm runs this process. */
static void find_owner(struct dt_live_state *state)
{
    const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    struct passwd entry, *found = NULL;
    char buffer[4096];
    if (job)
        snprintf(state->job, sizeof(state->job), "%.20s.%.10s", job,
                 step ? step : "batch");
    if (getpwuid_r(getuid(), &entry, buffer, sizeof(buffer), &found) == 0 &&
        found)
        copy_text(state->user, sizeof(state->user), entry.pw_name);
}

struct dt_live *dt_live_create(const struct dt_live_options *options,
                               struct dt_error *err)
{
    struct dt_live *live = calloc(1, sizeof(*live));
    int rc = live ? init_wake(live) : ENOMEM;
    if (rc) {
        free(live);
        dt_error_set(err, EX_OSERR, "cannot start a thread: %s", strerror(rc));
        return NULL;
    }
    struct dt_live_state *state = &live->state;
    copy_text(state->name, sizeof(state->name), options->name);
    copy_text(state->algorithm, sizeof(state->algorithm), options->algorithm);
    copy_text(state->status, sizeof(state->status), "running");
    find_owner(state);
    state->world = options->world;
    state->interval_s = DT_LIVE_INTERVAL;
    state->started = dt_clock_wall();
    state->stop_s = NAN;
    copy_text(state->phase, sizeof(state->phase), "starting");
    state->numbers = (struct dt_live_numbers){0,   NAN, NAN, NAN, NAN, NAN,
                                              NAN, NAN, NAN, NAN, NAN};
    live->since = live->phase_since =
        options->began > 0 ? options->began : dt_clock_now();
    live->exported = -INFINITY;
    if (options->prometheus)
        live->prometheus = strdup(options->prometheus);
    if (options->progress)
        dt_progress_init(&live->bar);
    rc = dt_thread_start(&live->thread, "dt-live", write_state, live);
    if (rc) {
        dt_error_set(err, EX_OSERR, "cannot start a thread: %s", strerror(rc));
        dt_live_destroy(live);
        return NULL;
    }
    live->started = true;
    return live;
}

void dt_live_destroy(struct dt_live *live)
{
    if (!live)
        return;
    if (live->started) {
        pthread_mutex_lock(&live->lock);
        live->end = true;
        pthread_cond_signal(&live->wake);
        pthread_mutex_unlock(&live->lock);
        const struct timespec until = dt_clock_in(CLOCK_REALTIME, END_S * 1000);
        if (pthread_timedjoin_np(live->thread, NULL, &until) != 0) {
            dt_log(DT_LOG_WARN, "live",
                   "%s/status.json: not written within %d s: the disk hangs",
                   live->dir ? live->dir : "", END_S);
            pthread_mutex_lock(&live->lock);
            live->left = true; /* `mine` may not be called any more */
            pthread_mutex_unlock(&live->lock);
            pthread_detach(live->thread);
            return; /* the thread still uses it */
        }
    }
    for (size_t i = 0; i < live->host_count; i++)
        free(live->hosts[i]);
    free(live->hosts);
    free(live->dir);
    free(live->prometheus);
    pthread_cond_destroy(&live->wake);
    pthread_mutex_destroy(&live->lock);
    free(live);
}

int dt_live_columns(const struct dt_live *live)
{
    return live ? dt_progress_columns(&live->bar) : 0;
}

void dt_live_publish(struct dt_live *live, const char *dir,
                     bool (*mine)(void *ctx), void *ctx)
{
    if (!live)
        return;
    pthread_mutex_lock(&live->lock);
    if (!live->dir)
        live->dir = strdup(dir);
    live->mine = mine;
    live->ctx = ctx;
    pthread_cond_signal(&live->wake);
    pthread_mutex_unlock(&live->lock);
}

/* Begins a phase, or continues that of this name. */
static void begin_phase(struct dt_live *live, enum dt_account_part part,
                        const char *name)
{
    const double now = dt_clock_now();
    spent_now(live, now, live->spent);
    live->since = now;
    live->part = part;
    if (strcmp(live->state.phase, name) == 0)
        return;
    live->phase_since = now;
    copy_text(live->state.phase, sizeof(live->state.phase), name);
}

void dt_live_no_energy(struct dt_live *live, const char *problem)
{
    if (!live)
        return;
    pthread_mutex_lock(&live->lock);
    copy_text(live->state.energy_problem, sizeof(live->state.energy_problem),
              problem);
    pthread_mutex_unlock(&live->lock);
}

void dt_live_stop_time(struct dt_live *live, double seconds)
{
    if (!live)
        return;
    pthread_mutex_lock(&live->lock);
    live->state.stop_s = seconds;
    pthread_mutex_unlock(&live->lock);
}

void dt_live_phase(struct dt_live *live, enum dt_account_part part,
                   const char *phase)
{
    if (!live)
        return;
    pthread_mutex_lock(&live->lock);
    begin_phase(live, part, phase ? phase : "");
    pthread_mutex_unlock(&live->lock);
}

void dt_live_earlier(struct dt_live *live, const struct dt_account *earlier)
{
    if (!live)
        return;
    pthread_mutex_lock(&live->lock);
    live->account = *earlier;
    pthread_mutex_unlock(&live->lock);
}

void dt_live_spent(struct dt_live *live, double spent[DT_ACCOUNT_COUNTED])
{
    if (!live)
        return;
    pthread_mutex_lock(&live->lock);
    spent_now(live, dt_clock_now(), spent);
    pthread_mutex_unlock(&live->lock);
}

void dt_live_sums(struct dt_live *live, struct dt_account_sums *sums)
{
    double spent[DT_ACCOUNT_COUNTED];
    *sums = (struct dt_account_sums){0};
    if (!live)
        return;
    pthread_mutex_lock(&live->lock);
    spent_now(live, dt_clock_now(), spent);
    dt_account_now(&live->account, spent, sums);
    pthread_mutex_unlock(&live->lock);
}

void dt_live_step(struct dt_live *live, long step, long total)
{
    if (!live)
        return;
    double now = dt_clock_now();
    pthread_mutex_lock(&live->lock);
    struct dt_live_state *s = &live->state;
    if (!s->counts) {
        live->begun = now;
        s->first = step;
        s->counts = true;
    } else if (step > s->step) {
        double other = other_seconds(live->spent) - live->last_other_s;
        double each = (now - live->last - other) / (double)(step - s->step);
        live->times[live->timed++ % DT_LIVE_TIMES] = fmax(each, 0);
    }
    live->last = now;
    live->last_other_s = other_seconds(live->spent);
    s->step = step;
    s->total = total;
    pthread_mutex_unlock(&live->lock);
}

void dt_live_numbers(struct dt_live *live,
                     const struct dt_live_numbers *numbers)
{
    if (!live)
        return;
    pthread_mutex_lock(&live->lock);
    struct dt_live_state *s = &live->state;
    s->numbers = *numbers;
    if (s->loss_count == DT_LIVE_LOSSES)
        memmove(s->losses, s->losses + 1, --s->loss_count * sizeof(*s->losses));
    s->losses[s->loss_count++] =
        (struct dt_live_point){numbers->step, numbers->loss, numbers->reward};
    pthread_mutex_unlock(&live->lock);
}

void dt_live_event(struct dt_live *live, const struct dt_report_event *event)
{
    struct dt_live_said said = {.step = event->step,
                                .wall = event->wall,
                                .seconds = event->seconds,
                                .rank = event->rank};
    if (!live)
        return;
    copy_text(said.kind, sizeof(said.kind), event->kind);
    copy_text(said.host, sizeof(said.host), event->host);
    copy_text(said.text, sizeof(said.text), event->text);
    pthread_mutex_lock(&live->lock);
    struct dt_live_state *s = &live->state;
    dt_account_event(&live->account, event);
    /* small data has an end of epoch each second, and numbers tell the epoch */
    const bool listed = strcmp(said.kind, "epoch") != 0;
    if (listed && s->event_count == DT_LIVE_EVENTS)
        memmove(s->events, s->events + 1,
                --s->event_count * sizeof(*s->events));
    if (listed)
        s->events[s->event_count++] = said;
    if (strncmp(said.kind, "save", 4) == 0) {
        s->save = said;
        s->saved = true;
    }
    if (strcmp(said.kind, "straggler") == 0 && said.rank >= 0)
        dt_table_note_slow(s, said.rank, said.wall);
    pthread_mutex_unlock(&live->lock);
}

void dt_live_hosts(struct dt_live *live, const char *const *hosts, size_t count)
{
    if (!live || live->hosts)
        return;
    char **copy = calloc(count, sizeof(*copy));
    for (size_t i = 0; copy && i < count; i++)
        copy[i] = strdup(hosts[i]);
    pthread_mutex_lock(&live->lock);
    live->hosts = copy;
    live->host_count = copy ? count : 0;
    pthread_mutex_unlock(&live->lock);
}

void dt_live_ranks(struct dt_live *live, const struct dt_report_ranks *ranks)
{
    if (!live)
        return;
    pthread_mutex_lock(&live->lock);
    dt_table_make(&live->state, ranks,
                  live->host_count >= ranks->count ? live->hosts : NULL);
    pthread_mutex_unlock(&live->lock);
}

/* The last state of the bar stays on the terminal. */
static void show_end(struct dt_live *live)
{
    struct dt_live_state *copy = calloc(1, sizeof(*copy));
    if (copy) {
        copy_state(live, copy);
        dt_progress_end(&live->bar, copy);
    }
    free(copy);
}

void dt_live_end(struct dt_live *live, const char *status, const char *verdict)
{
    if (!live)
        return;
    pthread_mutex_lock(&live->lock);
    begin_phase(live, live->part, DT_LIVE_ENDED);
    copy_text(live->state.status, sizeof(live->state.status), status);
    copy_text(live->state.verdict, sizeof(live->state.verdict), verdict);
    show_end(live);
    pthread_mutex_unlock(&live->lock);
}
