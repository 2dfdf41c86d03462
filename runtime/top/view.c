/* SPDX-License-Identifier: Apache-2.0 */
/* view.c - the text that shows a run, or several */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utf8proc.h>

#include "base/median.h"
#include "base/str.h"
#include "live/bar.h"
#include "top/top_impl.h"

/* --- lines that fit a screen, and points as a small plot --- */

enum { DOTS = 4 }; /* of a column of braille, and steps in ASCII */

/* Writes as much of the text as fits the columns; without UTF-8, '?' stands for
 * characters beyond ASCII.
 */
static void put_fitting(FILE *out, const struct dt_top_view *view,
                        const char *text)
{
    int used = 0;
    while (*text) {
        utf8proc_int32_t c;
        utf8proc_ssize_t bytes =
            utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &c);
        bool good = bytes > 0 && (view->utf8 || c < 0x80);
        int width = good ? utf8proc_charwidth(c) : 1;
        used += width;
        if (used > view->columns)
            return;
        fwrite(good ? text : "?", 1, good ? (size_t)bytes : 1, out);
        text += bytes > 0 ? bytes : 1;
    }
}

void dt_top_line(FILE *out, const struct dt_top_view *view,
                 enum dt_top_style style, const char *text)
{
    static const char *const codes[] = {"", "\033[1m", "\033[2m", "\033[1;31m"};
    bool styled = view->colors && style != DT_TOP_PLAIN;
    if (styled)
        fputs(codes[style], out);
    put_fitting(out, view, text);
    if (styled)
        fputs("\033[0m", out);
    fputs(view->end, out);
}

/* The bits of a column of braille that is filled up to the height, 1 to 4. */
static unsigned column_bits(int height, bool right)
{
    static const unsigned bits[2][DOTS] = {{0x40, 0x04, 0x02, 0x01},
                                           {0x80, 0x20, 0x10, 0x08}};
    unsigned all = 0;
    for (int i = 0; i < height; i++)
        all |= bits[right][i];
    return all;
}

static void put_braille(FILE *out, unsigned bits)
{
    const unsigned c = 0x2800 + bits;
    fprintf(out, "%c%c%c", (int)(0xe0 | c >> 12), (int)(0x80 | (c >> 6 & 0x3f)),
            (int)(0x80 | (c & 0x3f)));
}

/* The height of a point, 1 to DOTS; 0: it is not finite. */
static int point_height(double value, double least, double most)
{
    if (!isfinite(value))
        return 0;
    double share = most > least ? (value - least) / (most - least) : 0;
    return 1 + (int)fmin(share * DOTS, DOTS - 1);
}

/* Draws the points as a line of at most `columns`, in braille or ASCII. Points
 * that are not finite are an x.
 */
static void draw_sparkline(FILE *out, const double *points, size_t count,
                           int columns, bool utf8)
{
    static const char steps[] = "x_.-^";
    double least = INFINITY, most = -INFINITY;
    const size_t each = utf8 ? 2 : 1;
    size_t room = columns > 0 ? (size_t)columns * each : 0;
    size_t first = count > room ? count - room : 0;
    for (size_t i = first; i < count; i++)
        if (isfinite(points[i])) {
            least = fmin(least, points[i]);
            most = fmax(most, points[i]);
        }
    for (size_t i = first; i < count; i += each) {
        int left = point_height(points[i], least, most);
        int right =
            i + 1 < count ? point_height(points[i + 1], least, most) : -1;
        if (!utf8)
            fputc(steps[left], out);
        else if (left == 0 || right == 0)
            fputc('x', out);
        else
            put_braille(out,
                        column_bits(left, false) | column_bits(right, true));
    }
}

/* --- the table of ranks --- */

#define SLOW 1.15 /* times the median; slower ranks are marked */

struct key {
    double value; /* largest first */
    size_t row;
};

static int compare_keys(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return (x->row > y->row) - (x->row < y->row);
}

static double sort_value(const struct dt_live_row *row, enum dt_top_sort sort)
{
    double value = sort == DT_TOP_SLOWEST  ? row->compute_s
                   : sort == DT_TOP_MEMORY ? row->mem
                   : sort == DT_TOP_POWER  ? row->power_w
                                           : -row->rank;
    return isnan(value) ? -INFINITY : value;
}

static bool is_wanted(const struct dt_live_row *row, const char *filter)
{
    char rank[16];
    snprintf(rank, sizeof(rank), "%d", row->rank);
    return filter[0] == '\0' || strstr(row->host, filter) ||
           strcmp(rank, filter) == 0;
}

/* Writes the indices in state->rows of the rows to show, in order. Returns
 * their number.
 */
static size_t order_rows(const struct dt_live_state *state,
                         const struct dt_top_view *view,
                         size_t order[DT_LIVE_RANKS])
{
    struct key keys[DT_LIVE_RANKS];
    size_t count = 0;
    for (size_t i = 0; i < state->row_count; i++)
        if (is_wanted(&state->rows[i], view->filter))
            keys[count++] =
                (struct key){sort_value(&state->rows[i], view->sort), i};
    qsort(keys, count, sizeof(*keys), compare_keys);
    for (size_t i = 0; i < count; i++)
        order[i] = keys[i].row;
    return count;
}

static double median_compute(const struct dt_live_state *state)
{
    double times[DT_LIVE_RANKS];
    size_t n = 0;
    for (size_t i = 0; i < state->row_count; i++)
        if (!isnan(state->rows[i].compute_s))
            times[n++] = state->rows[i].compute_s;
    return n > 0 ? dt_median(times, n) : NAN;
}

/* A time of a step in ms or s, or "-". */
static const char *format_seconds(double seconds, char text[16])
{
    if (!isfinite(seconds))
        strcpy(text, "-");
    else if (seconds < 0.9995e-3)
        snprintf(text, 16, "%.3g us", seconds * 1e6);
    else if (seconds < 0.9995)
        snprintf(text, 16, "%.3g ms", fmin(seconds * 1e3, 1e6));
    else
        snprintf(text, 16, "%.3g s", fmin(seconds, 1e6));
    return text;
}

static const char *format_with(double value, double unit, const char *name,
                               char text[16])
{
    if (!isfinite(value))
        strcpy(text, "-");
    else
        snprintf(text, 16, "%.3g %s", fmin(value / unit, 1e6), name);
    return text;
}

static void draw_row(FILE *out, const struct dt_live_row *row, double median,
                     const struct dt_top_view *view)
{
    char line[256], name[24], slower[16] = "", a[16], b[16], c[16], d[16],
                              e[16];
    double ratio = row->compute_s / median;
    if (isfinite(ratio))
        snprintf(slower, sizeof(slower), "%+.0f %%",
                 fmin(fmax(ratio - 1, -9), 99) * 100);
    if (row->count > 1)
        snprintf(name, sizeof(name), "%d+%d", row->rank, row->count - 1);
    else
        snprintf(name, sizeof(name), "%d", row->rank);
    snprintf(line, sizeof(line), "%c%6s  %-12.12s %9s %7s %9s %9s %9s %7s",
             row->straggler ? '!' : ' ', name, row->host,
             format_seconds(row->compute_s, a), slower,
             format_seconds(row->comm_s, b),
             format_seconds(row->data_wait_s, c),
             format_with(row->mem, 0x1p30, "GiB", d),
             format_with(row->power_w, 1, "W", e));
    dt_top_line(out, view,
                ratio > SLOW || row->straggler ? DT_TOP_RED : DT_TOP_PLAIN,
                line);
}

static void draw_foot(FILE *out, const struct dt_live_state *state,
                      size_t hidden, const struct dt_top_view *view)
{
    char line[160], more[48] = "";
    bool slow = false;
    for (size_t i = 0; i < state->row_count; i++)
        slow = slow || state->rows[i].straggler;
    if (hidden > 0)
        snprintf(more, sizeof(more), "%zu more rows; ", hidden);
    snprintf(line, sizeof(line),
             "%7s  %smeans of a step at step %ld, told once a minute%s", "",
             more, state->rank_step, slow ? "; ! named as slow" : "");
    dt_top_line(out, view, DT_TOP_DIM, line);
}

/* Draws the table of ranks in at most `rows` lines; 0: no limit. */
static void draw_ranks(FILE *out, const struct dt_live_state *state,
                       const struct dt_top_view *view, int rows)
{
    size_t order[DT_LIVE_RANKS];
    char line[160];
    size_t count = order_rows(state, view, order);
    double median = median_compute(state);
    if (state->row_count == 0)
        return;
    snprintf(line, sizeof(line), "%7s  %-12s %9s %7s %9s %9s %9s %7s", "RANK",
             "HOST", "COMPUTE", "MEDIAN", "COMM", "DATA", "MEMORY", "POWER");
    dt_top_line(out, view, DT_TOP_BOLD, line);
    size_t room = rows > 2 ? (size_t)rows - 2 : rows > 0 ? 0 : count;
    size_t most = count > room ? count - room : 0;
    size_t first = view->scroll < most ? view->scroll : most;
    size_t last = count - first > room ? first + room : count;
    for (size_t i = first; i < last; i++)
        draw_row(out, &state->rows[order[i]], median, view);
    draw_foot(out, state, count - (last - first) + state->rows_left_out, view);
}

/* --- a run, and several --- */

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

/* The state of the run, and its age. */
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
    dt_bar_of(state, &bar);
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
    draw_sparkline(line, values, n, SPARK_COLUMNS, view->utf8);
    fprintf(line, "  since step %ld", state->losses[0].step);
    fclose(line);
    dt_top_line(out, view, DT_TOP_PLAIN, text);
    free(text);
}

/* A run that samples is about its reward; its loss says little about that. */
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

/* Where the time went, once there are steps. */
static void draw_account(FILE *out, const struct dt_live_state *state,
                         const struct dt_top_view *view)
{
    char text[DT_ACCOUNT_TEXT];
    if (isfinite(state->goodput) && dt_account_total(&state->account) > 0)
        dt_top_line(out, view, DT_TOP_PLAIN,
                    dt_account_format(&state->account, text));
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
    enum { HEAD = 7, FOOT = 2 };
    int room = view->rows - HEAD - FOOT - (int)state->event_count;
    draw_title(out, state, view);
    draw_verdict(out, state, view);
    draw_bar(out, state, view);
    draw_curves(out, state, view);
    draw_numbers(out, state, view);
    draw_account(out, state, view);
    if (state->row_count == 0 && strcmp(state->status, "running") == 0)
        dt_top_line(out, view, DT_TOP_DIM,
                    "ranks tell their numbers once a minute; none have yet");
    if (state->row_count > 0 && (view->rows == 0 || room > 2)) {
        dt_top_line(out, view, DT_TOP_PLAIN, "");
        draw_ranks(out, state, view, view->rows == 0 ? 0 : room);
    }
    if (state->event_count > 0 && (view->rows == 0 || view->rows > HEAD + 4)) {
        dt_top_line(out, view, DT_TOP_PLAIN, "");
        draw_events(out, state, view);
    }
    if (view->rows > 0)
        draw_keys(out, view);
}

/* The length of a path without "/logs/status.json" at its end. */
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
