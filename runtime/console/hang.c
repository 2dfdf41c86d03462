/* SPDX-License-Identifier: Apache-2.0 */
/* hang.c - reports ranks that hang, and ends the step if configured */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/proc.h"
#include "console/console_impl.h"
#include "contract/contract.h"

/* --- the timer --- */

void dt_hang_timer_reset(struct dt_hang_timer *timer, double now)
{
    if (timer->told)
        timer->limit_s = fmax(timer->limit_s, 2 * (now - timer->since));
    timer->since = now;
    timer->told = false;
}

double dt_hang_timer_left(const struct dt_hang_timer *timer, double now)
{
    if (timer->limit_s == 0 || timer->told)
        return INFINITY;
    return fmax(timer->since + timer->limit_s - now, 0);
}

bool dt_hang_timer_expired(struct dt_hang_timer *timer, double now)
{
    if (dt_hang_timer_left(timer, now) > 0)
        return false;
    timer->told = true;
    return true;
}

/* --- the doctor --- */

#define ASK_S 30.0 /* longer than the doctor's own deadlines */

enum {
    ANSWER_BYTES = 64 * 1024,
    LEAVE_MS = 1000,
};

struct dt_hang {
    struct dt_hang_timer timer;
    bool ends;
    char job[64]; /* --job=ID.STEP */
    struct dt_child doctor;
    bool asking;
    double deadline;
    size_t used;
    char answer[ANSWER_BYTES];
    pid_t srun;
};

struct dt_hang *dt_hang_create(const char *setting, const char *step)
{
    char action[8] = "";
    struct dt_hang *hang = calloc(1, sizeof(*hang));
    if (!hang)
        return NULL;
    sscanf(setting ? setting : DT_HANG_DEFAULT, "%lf %7s", &hang->timer.limit_s,
           action);
    hang->ends = strcmp(action, "end") == 0;
    snprintf(hang->job, sizeof(hang->job), "--job=%s", step);
    hang->srun = getppid();
    /* the doctor must not inherit srun's pipes */
    fcntl(DT_CONSOLE_OUT_FD, F_SETFD, FD_CLOEXEC);
    fcntl(DT_CONSOLE_ERR_FD, F_SETFD, FD_CLOEXEC);
    dt_hang_timer_reset(&hang->timer, dt_clock_now());
    return hang;
}

static void stop_asking(struct dt_hang *hang, int timeout_ms)
{
    if (hang->asking)
        dt_child_wait(&hang->doctor, timeout_ms, NULL);
    hang->asking = false;
}

void dt_hang_destroy(struct dt_hang *hang)
{
    if (hang)
        stop_asking(hang, 0);
    free(hang);
}

void dt_hang_break(struct dt_hang *hang)
{
    stop_asking(hang, 0);
    dt_hang_timer_reset(&hang->timer, dt_clock_now());
}

int dt_hang_fd(const struct dt_hang *hang)
{
    return hang->asking ? hang->doctor.out : -1;
}

double dt_hang_left(const struct dt_hang *hang)
{
    double now = dt_clock_now();
    return hang->asking ? fmax(hang->deadline - now, 0)
                        : dt_hang_timer_left(&hang->timer, now);
}

static bool ask_doctor(struct dt_hang *hang)
{
    char *const argv[] = {DT_PROC_SELF, "doctor", "--ranks", hang->job, NULL};
    hang->used = 0;
    hang->deadline = dt_clock_now() + ASK_S;
    hang->asking = dt_child_start(&hang->doctor, argv, NULL) == 0;
    return hang->asking;
}

/* Reads a part of the answer. Returns true if it is complete. */
static bool read_answer(struct dt_hang *hang)
{
    struct pollfd p = {.fd = hang->doctor.out, .events = POLLIN};
    if (poll(&p, 1, 0) <= 0)
        return dt_clock_now() >= hang->deadline;
    ssize_t n = read(hang->doctor.out, hang->answer + hang->used,
                     sizeof(hang->answer) - 1 - hang->used);
    if (n < 0)
        return errno != EINTR;
    hang->used += (size_t)n;
    return n == 0; /* or the buffer is full */
}

/* Ends the step. The answer's first line names the suspected ranks; an answer
 * of one line describes all ranks alike.
 */
static void end_step(const struct dt_hang *hang, struct dt_outcome *outcome,
                     int64_t now_ms)
{
    char text[640];
    const char *first = hang->answer;
    int len = (int)strcspn(first, "\n");
    bool odd = first[len] == '\n' && first[len + 1] != '\0';
    snprintf(
        text, sizeof(text), "no rank has printed anything for %.0f s%s%.*s",
        hang->timer.limit_s, odd ? "; suspect: " : "", odd ? len : 0, first);
    dt_outcome_hang(outcome, text, now_ms);
    if (getppid() == hang->srun)
        kill(hang->srun, SIGTERM);
}

static void print_answer(const struct dt_hang *hang, FILE *out)
{
    fprintf(out,
            "disttrain: no rank has printed anything for %.0f s; what they "
            "are doing:\n",
            hang->timer.limit_s);
    if (hang->used == 0)
        fputs("    unknown: disttrain doctor --ranks does not answer\n", out);
    for (const char *line = hang->answer; *line;) {
        int len = (int)strcspn(line, "\n");
        fprintf(out, "    %.*s\n", len, line);
        line += len + (line[len] != '\0');
    }
    fputs(hang->ends
              ? "disttrain: the step is ended (launch.hang_action: end)\n"
              : "disttrain: the step continues: a compilation or a slow "
                "checkpoint looks the same (launch.hang_timeout)\n",
          out);
}

/* Asks the doctor when the time has come. Returns true when its answer is
 * complete.
 */
static bool has_answer(struct dt_hang *hang, bool started)
{
    double now = dt_clock_now();
    if (hang->asking) {
        if (!read_answer(hang))
            return false;
        stop_asking(hang, now < hang->deadline ? LEAVE_MS : 0);
        return true;
    }
    if (!started)
        dt_hang_timer_reset(&hang->timer, now);
    return dt_hang_timer_expired(&hang->timer, now) && !ask_doctor(hang);
}

char *dt_hang_watch(struct dt_hang *hang, struct dt_outcome *outcome,
                    int64_t now_ms)
{
    char *text = NULL;
    size_t bytes;
    if (!hang->asking && dt_hang_left(hang) > 0)
        return NULL;
    if (!has_answer(hang, dt_outcome_missing(outcome) == 0))
        return NULL;
    hang->answer[hang->used] = '\0';
    FILE *out = open_memstream(&text, &bytes);
    if (out) {
        print_answer(hang, out);
        fclose(out);
    }
    if (hang->ends)
        end_step(hang, outcome, now_ms);
    return text;
}
