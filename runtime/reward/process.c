/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - starts a program, writes and reads lines, and ends it for sure */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/inherited.h"
#include "base/log.h"
#include "reward/reward_impl.h"

enum {
    READ_BYTES = 65536,
    SAID_LINES = 1000, /* of stderr that a request puts into the log */
};
static const double settle_s =
    0.5;                        /* for the status of one that closed a pipe */
static const double kill_s = 1; /* for SIGKILL, which state D delays */

/* --- its start --- */

/* Memory of the child, made before it exists: it must not allocate. */
struct plan {
    const struct dt_process_options *options;
    char **path; /* candidates for the program, ends with NULL */
    char **env;
    int in, out, err; /* its ends of the pipes */
    pid_t parent;
    volatile int failed; /* errno of the child */
};

/* Variables that tell a rank its place: a library of the program that finds
 * them would wait for the other ranks.
 */
static bool is_place(const char *variable)
{
    static const char *const names[] = {
        "RANK=",          "WORLD_SIZE=",   "LOCAL_RANK=",  "LOCAL_WORLD_SIZE=",
        "NODE_RANK=",     "GROUP_RANK=",   "MASTER_ADDR=", "MASTER_PORT=",
        "PMIX_",          "PMI_",          "OMPI_",        "SLURM_PROCID=",
        "SLURM_LOCALID=", DT_INHERITED "="};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static size_t count_of(char *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    return n;
}

/* Whether `list` has the variable of "NAME=value", too. */
static bool has_variable(char *const *list, const char *variable)
{
    size_t n = strcspn(variable, "=") + 1;
    for (; list && *list; list++)
        if (strncmp(*list, variable, n) == 0)
            return true;
    return false;
}

/* The environment of the child; its strings are ours. NULL: out of memory. */
static char **make_env(const struct dt_process_options *options)
{
    static const char devices[] = "CUDA_VISIBLE_DEVICES=";
    size_t n = count_of(environ), more = count_of(options->secrets), kept = 0;
    char **env = calloc(n + more + 2, sizeof(*env));
    for (size_t i = 0; env && i < n; i++)
        if (!is_place(environ[i]) &&
            !has_variable(options->secrets, environ[i]) &&
            (options->gpu ||
             strncmp(environ[i], devices, strlen(devices)) != 0))
            env[kept++] = environ[i];
    for (size_t i = 0; env && i < more; i++)
        env[kept++] = options->secrets[i];
    if (env && !options->gpu)
        env[kept] = (char *)devices;
    return env;
}

static void free_list(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

/* Where `name` may be: itself if it has a slash, or in each folder of PATH. */
static char **make_paths(const char *name)
{
    const char *path = getenv("PATH");
    size_t count = 1, n = 0;
    path = path && *path ? path : "/usr/local/bin:/usr/bin:/bin";
    for (const char *p = path; *p; p++)
        count += *p == ':';
    char **paths = calloc(count + 1, sizeof(*paths));
    if (paths && strchr(name, '/')) {
        paths[0] = strdup(name);
        return paths;
    }
    while (paths && n < count) {
        size_t length = strcspn(path, ":");
        if (asprintf(&paths[n], "%.*s/%s", length ? (int)length : 1,
                     length ? path : ".", name) < 0) {
            paths[n] = NULL;
            break;
        }
        path += length + 1;
        n++;
    }
    return paths;
}

static void set_limit(int what, rlim_t most)
{
    struct rlimit limit = {.rlim_cur = most, .rlim_max = most};
    setrlimit(what, &limit);
}

/* In the child, which has our memory until exec: system calls only. */
static void become(struct plan *plan)
{
    const struct dt_process_options *options = plan->options;
    sigset_t none;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != plan->parent)
        _exit(127);
    for (int s = 1; s < NSIG; s++)
        if (s != SIGKILL && s != SIGSTOP)
            signal(s, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(plan->in, 0) < 0 || dup2(plan->out, 1) < 0 ||
        dup2(plan->err, 2) < 0 || chdir(options->directory) < 0) {
        plan->failed = errno;
        _exit(127);
    }
    close_range(3, UINT_MAX, 0);
    if (options->memory_mb > 0)
        set_limit(RLIMIT_AS, (rlim_t)options->memory_mb << 20);
    if (options->cpu_s > 0)
        set_limit(RLIMIT_CPU, (rlim_t)options->cpu_s);
    int why = ENOENT;
    for (char **p = plan->path; *p && why == ENOENT; p++) {
        execve(*p, options->argv, plan->env);
        why = errno == ENOTDIR ? ENOENT : errno;
    }
    plan->failed = why;
    _exit(127);
}

/* Uses vfork, since a rank may have much memory: no pages are copied, and the
 * thread waits until the program runs. The pid, or -1 and errno.
 */
static pid_t __attribute__((noinline)) launch(struct plan *plan)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pid_t pid = vfork();
    if (pid == 0)
        become(plan);
    int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = why;
    return pid;
}

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
}

/* Pipes whose end at `ours` does not block. */
static bool open_pipe(int pair[2], int ours)
{
    return pipe2(pair, O_CLOEXEC) == 0 &&
           fcntl(pair[ours], F_SETFL, O_NONBLOCK) == 0;
}

/* With it a program's end is seen at once, even while one of its children still
 * holds its pipes open. -1: an old kernel.
 */
static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

int dt_process_start(struct dt_process *process,
                     const struct dt_process_options *options,
                     struct dt_error *err)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, said[2] = {-1, -1};
    struct plan plan = {.options = options,
                        .path = make_paths(options->argv[0]),
                        .env = make_env(options),
                        .parent = getpid()};
    bool good = plan.path && plan.path[0] && plan.env && open_pipe(in, 1) &&
                open_pipe(out, 0) && open_pipe(said, 0);
    plan.in = in[0];
    plan.out = out[1];
    plan.err = said[1];
    pid_t pid = good ? launch(&plan) : -1;
    int why = pid < 0 ? errno : plan.failed;
    free_list(plan.path);
    free(plan.env);
    if (pid > 0 && plan.failed)
        waitpid(pid, NULL, 0);
    if (pid > 0 && !plan.failed) {
        close(in[0]);
        close(out[1]);
        close(said[1]);
        *process = (struct dt_process){.options = *options,
                                       .pid = pid,
                                       .in = in[1],
                                       .out = out[0],
                                       .err = said[0],
                                       .end = open_pidfd(pid)};
        return 0;
    }
    close_pair(in);
    close_pair(out);
    close_pair(said);
    return dt_error_set(err, pid > 0 ? EX_UNAVAILABLE : EX_OSERR,
                        "%s: cannot be started in %s: %s", options->argv[0],
                        options->directory, strerror(why));
}

/* --- lines to and from it, and its end --- */

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
        dt_log(DT_LOG_NEWS, "reward", "%s: %s", process->options.name,
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
