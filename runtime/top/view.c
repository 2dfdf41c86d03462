/* SPDX-License-Identifier: Apache-2.0 */
/* view.c - what is shown of a run, and of several */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "live/bar.h"
#include "live/progress.h"
#include "top/view.h"

enum {
    LATE = 3, /* intervals of silence that are stale */
    SPARK_COLUMNS = 30,
    LINE = 1024,
};

/* Seconds since the file was written; never negative. */
static double state_age(const struct dt_live_state *state, double now)
{
    return isfinite(state->wall) ? fmax(now - state->wall, 0) : INFINITY;
}

bool dt_top_is_stale(const struct dt_live_state *state, double now)
{
    double interval = state->interval_s >= 1 ? state->interval_s : 1;
    return strcmp(state->status, "running") == 0 &&
           state_age(state, now) > LATE * interval;
}

static void draw_title(FILE *out, const struct dt_live_state *state,
                       const struct dt_top_view *view)
{
    char line[LINE];
    int n = snprintf(line, sizeof(line), "%s  %s  %d rank%s", state->name,
                     state->algorithm, state->world,
                     dt_str_plural((uint64_t)state->world));
    if (state->job[0])
        n += snprintf(line + n, sizeof(line) - (size_t)n, "  job %s",
                      state->job);
    if (state->user[0])
        snprintf(line + n, sizeof(line) - (size_t)n, "  %s", state->user);
    dt_top_line(out, view, DT_TOP_BOLD, line);
}

/* How it is, and how old that is. */
static void draw_verdict(FILE *out, const struct dt_live_state *state,
                         const struct dt_top_view *view)
{
    char line[LINE], age[32];
    bool running = strcmp(state->status, "running") == 0;
    bool stale = dt_top_is_stale(state, view->now);
    enum dt_top_style style = stale ? DT_TOP_RED : DT_TOP_PLAIN;
    double seconds = state_age(state, view->now);
    if (seconds < 60)
        snprintf(age, sizeof(age), "%.0f s", seconds);
    else
        dt_bar_time(seconds, age, sizeof(age));
    if (running && !stale)
        snprintf(line, sizeof(line), "running, as of %s ago", age);
    else if (stale)
        snprintf(line, sizeof(line), "no news for %s%s%s", age,
                 view->slurm[0] ? ": " : "", view->slurm);
    else
        snprintf(line, sizeof(line), "%s %s ago%s%s", state->status, age,
                 state->verdict[0] ? ": " : "", state->verdict);
    if (strcmp(state->status, "failed") == 0)
        style = DT_TOP_RED;
    dt_top_line(out, view, style, line);
}

static void draw_bar(FILE *out, const struct dt_live_state *state,
                     const struct dt_top_view *view)
{
    char line[DT_BAR_BYTES];
    struct dt_bar bar;
    dt_progress_bar(state, &bar);
    dt_bar_format(&bar, view->columns, view->utf8, line);
    if (line[0])
        dt_top_line(out, view, DT_TOP_PLAIN, line);
}

/* A number of four digits; "-": unknown. */
static const char *format_number(double value, char text[32])
{
    if (isfinite(value))
        snprintf(text, 32, "%.4g", value);
    else
        strcpy(text, "-");
    return text;
}

static void draw_curve(FILE *out, const char *name, const double *values,
                       const struct dt_live_state *state,
                       const struct dt_top_view *view)
{
    char *text = NULL, first[32], last[32];
    size_t bytes, n = state->loss_count;
    FILE *line = open_memstream(&text, &bytes);
    if (!line)
        return;
    fprintf(line, "%s %s -> %s  ", name, format_number(values[0], first),
            format_number(values[n - 1], last));
    dt_top_sparkline(line, values, n, SPARK_COLUMNS, view->utf8);
    fprintf(line, "  since step %ld", state->losses[0].step);
    fclose(line);
    dt_top_line(out, view, DT_TOP_PLAIN, text);
    free(text);
}

/* A run that samples is about its reward, of which its loss says little. */
static bool has_rewards(const struct dt_live_state *state)
{
    for (size_t i = 0; i < state->loss_count; i++)
        if (isfinite(state->losses[i].reward))
            return true;
    return false;
}

static void draw_curves(FILE *out, const struct dt_live_state *state,
                        const struct dt_top_view *view)
{
    double values[DT_LIVE_LOSSES];
    const bool rewards = has_rewards(state);
    for (size_t i = 0; i < state->loss_count; i++)
        values[i] = rewards ? state->losses[i].reward : state->losses[i].loss;
    if (state->loss_count > 0)
        draw_curve(out, rewards ? "reward" : "loss", values, state, view);
}

/* Adds "  NAME VALUE" to a line. */
static void add_value(char line[LINE], const char *format, double value)
{
    size_t n = strlen(line);
    if (isfinite(value))
        snprintf(line + n, LINE - n, format, value);
}

static void draw_numbers(FILE *out, const struct dt_live_state *state,
                         const struct dt_top_view *view)
{
    const struct dt_live_numbers *n = &state->numbers;
    char line[LINE] = "", tokens[32], age[32];
    size_t used;
    add_value(line, "KL %.3g  ", n->kl);
    add_value(line, "length %.4g  ", n->length);
    if (has_rewards(state))
        add_value(line, "loss %.4g  ", n->loss);
    add_value(line, "epoch %.3g  ", n->epoch);
    dt_bar_count(n->total_tokens, tokens, sizeof(tokens));
    if (isfinite(n->total_tokens)) {
        used = strlen(line);
        snprintf(line + used, LINE - used, "%s tokens  ", tokens);
    }
    add_value(line, "goodput %.1f %%  ", state->goodput * 100);
    add_value(line, "MFU %.1f %%  ", n->mfu * 100);
    add_value(line, "%.3g kWh  ", n->energy_j / 3.6e6);
    add_value(line, "%.3g tokens/J  ", n->tokens_per_j);
    if (isnan(n->energy_j) && state->energy_problem[0]) {
        used = strlen(line);
        snprintf(line + used, LINE - used, "energy n/a (%s)  ",
                 state->energy_problem);
    }
    used = strlen(line);
    if (state->saved) {
        dt_bar_time(fmax(view->now - state->save.wall, 0), age, sizeof(age));
        snprintf(line + used, LINE - used, "%s at step %ld, %s ago",
                 strcmp(state->save.kind, "save") == 0 ? "saved"
                                                       : "SAVE FAILED",
                 state->save.step, age);
    }
    if (line[0])
        dt_top_line(out, view, DT_TOP_PLAIN, line);
}

static void draw_events(FILE *out, const struct dt_live_state *state,
                        const struct dt_top_view *view)
{
    for (size_t i = 0; i < state->event_count; i++) {
        const struct dt_live_said *event = &state->events[i];
        char line[LINE], when[16] = "";
        const bool known = fabs(event->wall) < 1e11; /* to the year 5138 */
        time_t wall = (time_t)(known ? event->wall : 0);
        struct tm tm;
        if (localtime_r(&wall, &tm))
            strftime(when, sizeof(when), "%H:%M:%S", &tm);
        snprintf(line, sizeof(line), "%s  step %ld  %s  %s", when, event->step,
                 event->kind, event->text);
        dt_top_line(out, view, DT_TOP_PLAIN, line);
    }
}

static void draw_keys(FILE *out, const struct dt_top_view *view)
{
    char line[LINE];
    if (view->filters)
        snprintf(line, sizeof(line), "/%s_", view->filter);
    else
        snprintf(
            line, sizeof(line),
            "q quit  sort: s slowest m memory p power r rank  / filter%s%s",
            view->filter[0] ? ": " : "", view->filter);
    dt_top_line(out, view, DT_TOP_DIM, line);
}

void dt_top_draw(FILE *out, const struct dt_live_state *state,
                 const struct dt_top_view *view)
{
    enum { HEAD = 6, FOOT = 2 };
    int room = view->rows - HEAD - FOOT - (int)state->event_count;
    draw_title(out, state, view);
    draw_verdict(out, state, view);
    draw_bar(out, state, view);
    draw_curves(out, state, view);
    draw_numbers(out, state, view);
    if (state->row_count == 0 && strcmp(state->status, "running") == 0)
        dt_top_line(out, view, DT_TOP_DIM,
                    "ranks tell their numbers once a minute; none have yet");
    if (state->row_count > 0 && (view->rows == 0 || room > 2)) {
        dt_top_line(out, view, DT_TOP_PLAIN, "");
        dt_top_draw_ranks(out, state, view, view->rows == 0 ? 0 : room);
    }
    if (state->event_count > 0 && (view->rows == 0 || view->rows > HEAD + 4)) {
        dt_top_line(out, view, DT_TOP_PLAIN, "");
        draw_events(out, state, view);
    }
    if (view->rows > 0)
        draw_keys(out, view);
}

/* The bytes of a path without "/logs/status.json" at its end. */
static int run_length(const char *path)
{
    static const char end[] = "/logs/status.json";
    size_t n = strlen(path), less = strlen(end);
    return (int)(n > less && strcmp(path + n - less, end) == 0 ? n - less : n);
}

void dt_top_draw_list(FILE *out, struct dt_live_state *const *states,
                      char *const *problems, char *const *paths, size_t count,
                      const struct dt_top_view *view)
{
    char line[LINE], age[32], left[32], tokens[32], loss[32];
    snprintf(line, sizeof(line), "%-20s %-10s %-9s %15s %9s %9s %9s %8s  %s",
             "NAME", "JOB", "STATUS", "STEP", "LOSS", "TOKENS/S", "LEFT", "AGE",
             "DIRECTORY");
    dt_top_line(out, view, DT_TOP_BOLD, line);
    for (size_t i = 0; i < count; i++) {
        const struct dt_live_state *s = states[i];
        if (!s) {
            dt_top_line(out, view, DT_TOP_RED, problems[i]);
            continue;
        }
        bool stale = dt_top_is_stale(s, view->now);
        char steps[48] = "-";
        if (s->counts)
            snprintf(steps, sizeof(steps), "%ld/%ld", s->step, s->total);
        dt_bar_time(state_age(s, view->now), age, sizeof(age));
        dt_bar_time(s->left_s, left, sizeof(left));
        dt_bar_count(s->numbers.tokens_per_s, tokens, sizeof(tokens));
        snprintf(line, sizeof(line),
                 "%-20.20s %-10s %-9s %15s %9s %9s %9s %8s  %.*s", s->name,
                 s->job[0] ? s->job : "-", stale ? "no news" : s->status, steps,
                 format_number(s->numbers.loss, loss), tokens, left, age,
                 run_length(paths[i]), paths[i]);
        dt_top_line(out, view, stale ? DT_TOP_RED : DT_TOP_PLAIN, line);
    }
    if (view->rows > 0)
        dt_top_line(out, view, DT_TOP_DIM, "q quit");
}
