/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - writes a line to a program, reads one, and ends it for sure */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "reward/process.h"

enum {
    READ_BYTES = 65536,
    SAID_LINES = 1000, /* of stderr that a request puts into the log */
};
static const double settle_s =
    0.5;                        /* for the status of one that closed a pipe */
static const double kill_s = 1; /* for SIGKILL, which state D delays */

static const char *name_of(const struct dt_process *process)
{
    return process->options.argv[0];
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Puts a byte of stderr into the line, which goes to the log when it is whole.
 */
static void take_byte(struct dt_process *process, char c)
{
    if (c != '\n' && process->line_bytes + 1 < sizeof(process->line)) {
        bool good = (unsigned char)c >= ' ' && c != 0x7f;
        process->line[process->line_bytes++] = good ? c : '?';
        return;
    }
    if (c != '\n' || process->line_bytes == 0)
        return; /* longer lines are cut */
    process->line[process->line_bytes] = '\0';
    process->line_bytes = 0;
    memcpy(process->last, process->line, sizeof(process->last));
    if (process->said++ < SAID_LINES)
        dt_log(DT_LOG_INFO, "reward", "%s: %s", process->options.name,
               process->last);
}

/* Tells how many lines of stderr the log lacks since the last time. */
static void tell_unsaid(struct dt_process *process)
{
    if (process->said > SAID_LINES)
        dt_log(DT_LOG_WARN, "reward",
               "%s: %zu more lines on stderr are left out",
               process->options.name, process->said - SAID_LINES);
    process->said = 0;
}

/* Reads at most a pipe's worth of stderr: a program that writes faster than we
 * read must not keep us from checking the time.
 */
static void read_said(struct dt_process *process)
{
    char text[4096];
    for (size_t all = 0; all < READ_BYTES;) {
        ssize_t n = read(process->err, text, sizeof(text));
        if (n == 0)
            close_fd(&process->err);
        if (n <= 0)
            return;
        for (ssize_t i = 0; i < n; i++)
            take_byte(process, text[i]);
        all += (size_t)n;
    }
}

/* True if the process has ended; it stays a zombie, so that its group's number
 * is not used again. *status is as waitpid has it.
 */
static bool has_ended(const struct dt_process *process, double wait_s,
                      siginfo_t *info)
{
    double deadline = dt_clock_now() + wait_s;
    for (;;) {
        *info = (siginfo_t){0};
        if (waitid(P_PID, (id_t)process->pid, info,
                   WEXITED | WNOHANG | WNOWAIT) < 0 ||
            info->si_pid != 0)
            return true;
        if (dt_clock_now() >= deadline)
            return false;
        dt_clock_sleep(0.002);
    }
}

/* Fails with the way a process that no longer reads or writes has ended. */
static int fail_of_end(struct dt_process *process, const char *what,
                       struct dt_error *err)
{
    char how[64] = "";
    siginfo_t info;
    bool ended = has_ended(process, settle_s, &info);
    if (process->err >= 0)
        read_said(process);
    if (process->line_bytes > 0)
        take_byte(process, '\n');
    if (ended && info.si_code == CLD_EXITED)
        snprintf(how, sizeof(how), "ended with exit status %d", info.si_status);
    else if (ended)
        snprintf(how, sizeof(how), "was killed by signal %d (%s)",
                 info.si_status, strsignal(info.si_status));
    return dt_error_set(
        err, EX_UNAVAILABLE, "%s %s%s%s", name_of(process), ended ? how : what,
        *process->last ? "; its last line on stderr: " : "", process->last);
}

/* Writes as much of the rest of a line as the pipe takes. */
static int write_some(struct dt_process *process, const char **line,
                      size_t *left, struct dt_error *err)
{
    ssize_t n = write(process->in, *line, *left);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return fail_of_end(process, "has closed its stdin", err);
    *line += n > 0 ? n : 0;
    *left -= n > 0 ? (size_t)n : 0;
    return 0;
}

/* Reads the bytes that wait on stdout, up to `most` in all. */
static int read_some(struct dt_process *process, size_t most,
                     struct dt_error *err)
{
    if (process->used > most)
        return dt_error_set(err, EX_PROTOCOL,
                            "%s wrote more than %zu bytes without an end of "
                            "the line, which begins: %.60s",
                            name_of(process), most, process->buffer);
    if (process->room - process->used < READ_BYTES + 1) {
        size_t room = 2 * process->room + READ_BYTES + 1;
        char *buffer = realloc(process->buffer, room);
        if (!buffer)
            return dt_error_set(err, EX_OSERR, "out of memory");
        process->buffer = buffer;
        process->room = room;
    }
    ssize_t n = read(process->out, process->buffer + process->used, READ_BYTES);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return fail_of_end(process, "has closed its stdout", err);
    process->used += n > 0 ? (size_t)n : 0;
    process->buffer[process->used] = '\0';
    return 0;
}

/* Waits until something can be read or written. -1: not in time, or it must
 * stop.
 */
static int wait_for(const struct dt_process *process, bool writes,
                    double deadline, struct pollfd fds[5], struct dt_error *err)
{
    double left = deadline - dt_clock_now();
    fds[0] = (struct pollfd){.fd = process->out, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = process->err, .events = POLLIN};
    fds[2] =
        (struct pollfd){.fd = writes ? process->in : -1, .events = POLLOUT};
    fds[3] = (struct pollfd){.fd = process->options.stop, .events = POLLIN};
    fds[4] = (struct pollfd){.fd = process->end, .events = POLLIN};
    if (left <= 0)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "%s did not answer in time%s%s", name_of(process),
                            *process->last ? "; its last line on stderr: " : "",
                            process->last);
    if (poll(fds, 5, (int)(left * 1e3) + 1) < 0 && errno != EINTR)
        return dt_error_set(err, EX_OSERR, "poll: %s", strerror(errno));
    if (fds[3].revents)
        return dt_error_set(err, EX_UNAVAILABLE, "%s was stopped",
                            name_of(process));
    return 0;
}

/* The line that ends in the buffer, if one does; nothing may follow it. */
static int take_line(struct dt_process *process, size_t unsent,
                     const char **reply, size_t *bytes, struct dt_error *err)
{
    char *end =
        process->used > 0 ? memchr(process->buffer, '\n', process->used) : NULL;
    if (!end)
        return 0;
    size_t n = (size_t)(end - process->buffer);
    if (n + 1 < process->used || unsent > 0)
        return dt_error_set(err, EX_PROTOCOL,
                            unsent > 0 ? "%s wrote a line before it had read "
                                         "all of the request: %.*s"
                                       : "%s wrote more than one line; the "
                                         "first is: %.*s",
                            name_of(process), n < 120 ? (int)n : 120,
                            process->buffer);
    process->used = 0;
    *reply = process->buffer;
    *bytes = n;
    return 1;
}

int dt_process_ask(struct dt_process *process, const char *line, size_t most,
                   double timeout_s, const char **reply, size_t *bytes,
                   struct dt_error *err)
{
    double deadline = dt_clock_now() + timeout_s;
    size_t left = strlen(line);
    tell_unsaid(process);
    int found = 0;
    while (found == 0) {
        struct pollfd fds[5];
        if (wait_for(process, left > 0, deadline, fds, err) < 0)
            return dt_clock_now() < deadline
                       ? -1
                       : dt_error_prefix(err, "after %g s", timeout_s);
        if (fds[1].revents)
            read_said(process);
        if (fds[2].revents && write_some(process, &line, &left, err) < 0)
            return -1;
        if (fds[0].revents && read_some(process, most, err) < 0)
            return -1;
        if (fds[4].revents && !fds[0].revents)
            return fail_of_end(process, "has ended", err);
        found = take_line(process, left, reply, bytes, err);
    }
    return found < 0 ? -1 : 0;
}

void dt_process_end(struct dt_process *process, double grace_s)
{
    siginfo_t info;
    if (process->pid > 0) {
        close_fd(&process->in);
        has_ended(process, grace_s, &info);
        kill(-process->pid, SIGKILL);
        has_ended(process, kill_s, &info);
        waitpid(process->pid, NULL, WNOHANG);
        if (process->err >= 0)
            read_said(process);
        tell_unsaid(process);
        close_fd(&process->out);
        close_fd(&process->err);
        close_fd(&process->end);
    }
    free(process->buffer);
    *process = (struct dt_process){0};
}
