/* SPDX-License-Identifier: Apache-2.0 */
/* bar.c - the progress of a run in one line, here or in the console of srun */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/terminal.h"
#include "live/bar.h"
#include "live/live_impl.h"

enum {
    LEAST_BAR = 5, /* columns; a shorter one tells nothing */
    PARTS = 8,     /* of a column, with blocks of Unicode */
};

void dt_bar_time(double seconds, char *text, size_t size)
{
    if (seconds >= 0 && seconds <= 1e9)
        dt_clock_format(seconds, text, size);
    else
        snprintf(text, size, "?");
}

void dt_bar_count(double count, char *text, size_t size)
{
    static const char units[] = "kMGTPE";
    const char *unit = units;
    if (!isfinite(count)) {
        snprintf(text, size, "-");
        return;
    }
    if (fabs(count) < 999.5) {
        snprintf(text, size, "%.3g", count);
        return;
    }
    for (count /= 1000; fabs(count) >= 999.5 && unit[1]; unit++)
        count /= 1000;
    snprintf(text, size, "%.*f%c",
             count < 9.995   ? 2
             : count < 99.95 ? 1
                             : 0,
             count, *unit);
}

/* "370/1000 [01:02<01:45, 5.9 step/s, loss 2.13, 12.3k tokens/s]", without
 * the last `less` parts.
 */
static void format_numbers(const struct dt_bar *bar, int less, char *text,
                           size_t size)
{
    char elapsed[32], left[32], rate[48] = "", loss[32] = "", tokens[48] = "";
    char count[32];
    dt_bar_time(bar->elapsed_s, elapsed, sizeof(elapsed));
    dt_bar_time(bar->left_s, left, sizeof(left));
    if (bar->step_s > 1)
        snprintf(rate, sizeof(rate), ", %.3g s/step", bar->step_s);
    else if (bar->step_s > 0)
        snprintf(rate, sizeof(rate), ", %.3g step/s", 1 / bar->step_s);
    if (isfinite(bar->loss))
        snprintf(loss, sizeof(loss), ", loss %.4g", bar->loss);
    if (isfinite(bar->tokens_per_s)) {
        dt_bar_count(bar->tokens_per_s, count, sizeof(count));
        snprintf(tokens, sizeof(tokens), ", %s tokens/s", count);
    }
    if (less >= 4)
        snprintf(text, size, "%ld/%ld", bar->step, bar->total);
    else
        snprintf(text, size, "%ld/%ld [%s<%s%s%s%s]", bar->step, bar->total,
                 elapsed, left, less < 3 ? rate : "", less < 2 ? loss : "",
                 less < 1 ? tokens : "");
}

/* Appends a bar of `columns`. Returns where it ends. */
static char *put_bar(char *text, double share, int columns, bool utf8)
{
    static const char *const part[PARTS] = {" ", "▏", "▎", "▍",
                                            "▌", "▋", "▊", "▉"};
    int filled = (int)(share * columns * PARTS);
    for (int i = 0; i < columns; i++) {
        int here = filled - i * PARTS;
        const char *cell = here >= PARTS ? "#" : " ";
        if (utf8)
            cell = here >= PARTS ? "█" : part[here > 0 ? here : 0];
        text = stpcpy(text, cell);
    }
    return text;
}

int dt_bar_print(const struct dt_bar *bar, char *text, size_t size)
{
    return snprintf(text, size, " %ld %ld %.6g %.6g %.6g %.6g %.6g %.6g %s",
                    bar->step, bar->total, bar->phase_s, bar->elapsed_s,
                    bar->left_s, bar->step_s, bar->loss, bar->tokens_per_s,
                    bar->phase[0] ? bar->phase : "training");
}

bool dt_bar_parse(const char *text, struct dt_bar *bar)
{
    int used = 0;
    if (sscanf(text, " %ld %ld %lf %lf %lf %lf %lf %lf %31[a-z ]%n", &bar->step,
               &bar->total, &bar->phase_s, &bar->elapsed_s, &bar->left_s,
               &bar->step_s, &bar->loss, &bar->tokens_per_s, bar->phase,
               &used) != 9 ||
        text[used] != '\0' || bar->step < 0 || bar->total < 0)
        return false;
    if (strcmp(bar->phase, "training") == 0)
        bar->phase[0] = '\0';
    return true;
}

/* Formats a phase that counts no steps. */
static void format_phase(const struct dt_bar *bar, int columns,
                         char text[DT_BAR_BYTES])
{
    char time[32];
    dt_bar_time(bar->phase_s, time, sizeof(time));
    snprintf(text, DT_BAR_BYTES, "%.31s [%s]", bar->phase, time);
    if (columns < (int)strlen(text))
        text[columns] = '\0';
}

void dt_bar_format(const struct dt_bar *bar, int columns, bool utf8,
                   char text[DT_BAR_BYTES])
{
    enum { MOST = 200 }; /* columns; 3 bytes each */
    char numbers[256], before[64];
    columns = columns < 1 ? 1 : columns > MOST ? MOST : columns;
    if (bar->total <= 0) {
        format_phase(bar, columns, text);
        return;
    }
    double share = (double)bar->step / (double)bar->total;
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    snprintf(before, sizeof(before), "%.31s%s%3d%%", bar->phase,
             bar->phase[0] ? ": " : "", (int)(share * 100));
    int room = -1;
    for (int less = 0; less <= 4 && room < LEAST_BAR; less++) {
        format_numbers(bar, less, numbers, sizeof(numbers));
        room = columns - (int)(strlen(before) + strlen(numbers) + 3);
    }
    if (room < LEAST_BAR) {
        snprintf(text, DT_BAR_BYTES, "%s %s", before, numbers);
        if (columns < (int)strlen(text))
            text[columns] = '\0';
        return;
    }
    char *end = stpcpy(stpcpy(text, before), "|");
    stpcpy(stpcpy(put_bar(end, share, room, utf8), "| "), numbers);
}

/* --- where the bar is shown --- */

enum { RECORD_BYTES = 1000 }; /* a message of srun has at most 1024 */

void dt_progress_init(struct dt_progress_bar *bar)
{
    const char *token = getenv(DT_ENV_PROGRESS);
    *bar = (struct dt_progress_bar){.sent_at = -INFINITY};
    gethostname(bar->host, sizeof(bar->host) - 1);
    snprintf(bar->token, sizeof(bar->token), "%s", token ? token : "");
    if (bar->token[0])
        bar->way = DT_PROGRESS_RECORDS;
    else if (dt_footer_possible())
        bar->way = DT_PROGRESS_TERMINAL;
}

int dt_progress_columns(const struct dt_progress_bar *bar)
{
    enum { USUAL = 80 };
    int columns = bar->way == DT_PROGRESS_RECORDS ? USUAL : 0, rows;
    if (bar->way == DT_PROGRESS_TERMINAL)
        dt_terminal_size(STDERR_FILENO, &columns, &rows);
    return columns;
}

void dt_bar_of(const struct dt_live_state *state, struct dt_bar *bar)
{
    *bar = (struct dt_bar){
        .step = state->counts ? state->step : 0,
        .total = state->counts ? state->total : 0,
        .phase_s = state->phase_s,
        .elapsed_s = state->elapsed_s,
        .left_s = state->left_s,
        .step_s = state->step_s,
        .loss = state->numbers.loss,
        .tokens_per_s = state->numbers.tokens_per_s,
    };
    snprintf(bar->phase, sizeof(bar->phase), "%s",
             strcmp(state->phase, DT_LIVE_ENDED) == 0 ? "" : state->phase);
}

/* Writes "disttrain: record: TOKEN progress RANK HOST SECONDS.mmm" and more, as
 * one line in one write.
 */
static void send_record(const struct dt_progress_bar *bar, const char *verb,
                        const char *rest)
{
    char line[RECORD_BYTES];
    int n = snprintf(line, sizeof(line), DT_RECORD "%s %s 0 %s %.3f%s\n",
                     bar->token, verb, bar->host, dt_clock_wall(), rest);
    if (n < 0 || (size_t)n >= sizeof(line) ||
        write(STDERR_FILENO, line, (size_t)n) < 0)
        return; /* nobody is listening */
}

static void send_bar(struct dt_progress_bar *bar, const struct dt_bar *now)
{
    char rest[512], fixed[512];
    struct dt_bar timeless = *now;
    timeless.phase_s = timeless.elapsed_s = timeless.left_s = 0;
    dt_bar_print(&timeless, fixed, sizeof(fixed));
    double clock = dt_clock_now();
    if (strcmp(fixed, bar->sent) == 0 && clock < bar->sent_at + 1)
        return;
    memcpy(bar->sent, fixed, sizeof(fixed));
    bar->sent_at = clock;
    dt_bar_print(now, rest, sizeof(rest));
    send_record(bar, "progress", rest);
}

void dt_bar_draw(const struct dt_bar *bar, int fd)
{
    char text[DT_BAR_BYTES];
    int columns, rows;
    dt_terminal_size(fd, &columns, &rows);
    dt_bar_format(bar, columns - 1, dt_terminal_utf8(), text);
    dt_footer_show(fd, text);
}

void dt_progress_show(struct dt_progress_bar *bar,
                      const struct dt_live_state *state)
{
    struct dt_bar now;
    dt_bar_of(state, &now);
    if (bar->way == DT_PROGRESS_RECORDS)
        send_bar(bar, &now);
    else if (bar->way == DT_PROGRESS_TERMINAL)
        dt_bar_draw(&now, STDERR_FILENO);
}

void dt_progress_end(struct dt_progress_bar *bar,
                     const struct dt_live_state *state)
{
    bar->sent[0] = '\0';
    if (state->counts)
        dt_progress_show(bar, state);
    if (bar->way == DT_PROGRESS_RECORDS)
        send_record(bar, "ended", "");
    else if (bar->way == DT_PROGRESS_TERMINAL)
        dt_footer_end();
    bar->way = DT_PROGRESS_NONE;
}
