/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - the progress bar of a run, here or in the console of srun */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/footer.h"
#include "base/terminal.h"
#include "live/progress.h"

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

void dt_progress_bar(const struct dt_live_state *state, struct dt_bar *bar)
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
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int n = snprintf(line, sizeof(line), DT_RECORD "%s %s 0 %s %jd.%03ld%s\n",
                     bar->token, verb, bar->host, (intmax_t)now.tv_sec,
                     now.tv_nsec / 1000000, rest);
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

static void draw_bar(const struct dt_bar *now)
{
    char text[DT_BAR_BYTES];
    int columns, rows;
    dt_terminal_size(STDERR_FILENO, &columns, &rows);
    dt_bar_format(now, columns - 1, dt_terminal_utf8(), text);
    dt_footer_show(STDERR_FILENO, text);
}

void dt_progress_show(struct dt_progress_bar *bar,
                      const struct dt_live_state *state)
{
    struct dt_bar now;
    dt_progress_bar(state, &now);
    if (bar->way == DT_PROGRESS_RECORDS)
        send_bar(bar, &now);
    else if (bar->way == DT_PROGRESS_TERMINAL)
        draw_bar(&now);
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
