/* SPDX-License-Identifier: Apache-2.0 */
/* child.c - programs that are asked something, with a deadline */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"

enum {
    MERCY_MS = 1000,  /* between SIGTERM and SIGKILL */
    HANDLER_MS = 300, /* the same, where a signal ends ourselves */
    REAP_MS = 1000,   /* for SIGKILL, which a process in state D ignores */
};

static const int deadly[] = {SIGHUP, SIGINT, SIGTERM};
static volatile sig_atomic_t guarded; /* the child; 0: none */

/* Nothing here may be anything but async-signal-safe. */
static void end_both(int number)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    pid_t pid = guarded;
    if (pid > 0) {
        kill(pid, SIGTERM);
        for (int i = 0; i < HANDLER_MS && waitpid(pid, NULL, WNOHANG) == 0; i++)
            nanosleep(&nap, NULL);
        kill(pid, SIGKILL);
    }
    signal(number, SIG_DFL);
    raise(number);
}

void dt_child_guard(void)
{
    const struct sigaction end = {.sa_handler = end_both};
    for (size_t i = 0; i < sizeof(deadly) / sizeof(*deadly); i++)
        sigaction(deadly[i], &end, NULL);
}

static int start(struct dt_child *child, char *const argv[], bool quiet,
                 struct dt_error *err)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr; /* the console has all signals blocked */
    sigset_t none;
    sigset_t ends;
    sigset_t before;
    int in[2] = {-1, -1};
    int out[2] = {-1, -1};
    int rc = 0;
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
        rc = errno;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
    if (quiet)
        posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null",
                                         O_WRONLY, 0);
    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    sigemptyset(&ends);
    for (size_t i = 0; i < sizeof(deadly) / sizeof(*deadly); i++)
        sigaddset(&ends, deadly[i]);
    sigprocmask(SIG_BLOCK, &ends, &before);
    if (rc == 0)
        rc = posix_spawnp(&child->pid, argv[0], &files, &attr, argv, environ);
    if (rc == 0)
        guarded = child->pid;
    sigprocmask(SIG_SETMASK, &before, NULL);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    if (in[0] >= 0)
        close(in[0]);
    if (out[1] >= 0)
        close(out[1]);
    child->in = in[1];
    child->out = out[0];
    if (rc == 0)
        return 0;
    if (child->in >= 0)
        close(child->in);
    if (child->out >= 0)
        close(child->out);
    return dt_error_set(err, EX_UNAVAILABLE, "%s: %s", argv[0], strerror(rc));
}

int dt_child_start(struct dt_child *child, char *const argv[],
                   struct dt_error *err)
{
    return start(child, argv, false, err);
}

/* True if the child has ended; *status is as waitpid has it. */
static bool ends_within(pid_t pid, int timeout_ms, int *status)
{
    double deadline = dt_clock_now() + timeout_ms / 1e3;
    for (;;) {
        if (waitpid(pid, status, WNOHANG) != 0)
            return true;
        if (dt_clock_now() > deadline)
            return false;
        dt_clock_sleep(0.002);
    }
}

int dt_child_wait(struct dt_child *child, int timeout_ms, struct dt_error *err)
{
    int status = 0;
    if (child->in >= 0)
        close(child->in);
    child->in = -1;
    bool ended = ends_within(child->pid, timeout_ms, &status);
    if (!ended) {
        kill(child->pid, SIGTERM);
        if (!ends_within(child->pid, MERCY_MS, &status)) {
            kill(child->pid, SIGKILL);
            ends_within(child->pid, REAP_MS, &status);
        }
    }
    guarded = 0;
    close(child->out);
    if (!ended)
        return dt_error_set(err, EX_UNAVAILABLE, "it did not end in time");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int ask(char *const argv[], bool quiet, int timeout_ms, char *text,
               size_t size, struct dt_error *err)
{
    struct dt_child child;
    double deadline = dt_clock_now() + timeout_ms / 1e3;
    char lost[4096];
    size_t used = 0;
    if (start(&child, argv, quiet, err) < 0)
        return -1;
    for (;;) {
        struct pollfd p = {.fd = child.out, .events = POLLIN};
        double left = deadline - dt_clock_now();
        bool full = used + 1 >= size;
        int ready = left <= 0 ? 0 : poll(&p, 1, (int)(left * 1e3) + 1);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            break;
        ssize_t n = read(child.out, full ? lost : text + used,
                         full ? sizeof(lost) : size - 1 - used);
        if (n <= 0)
            break;
        used += full ? 0 : (size_t)n;
    }
    text[used] = '\0';
    double left = deadline - dt_clock_now();
    int rc = dt_child_wait(&child, left > 0 ? (int)(left * 1e3) : 0, err);
    return rc < 0 ? dt_error_prefix(err, "%s", argv[0]) : rc;
}

int dt_child_ask(char *const argv[], int timeout_ms, char *text, size_t size,
                 struct dt_error *err)
{
    return ask(argv, true, timeout_ms, text, size, err);
}

int dt_child_hear(char *const argv[], int timeout_ms, char *text, size_t size,
                  struct dt_error *err)
{
    return ask(argv, false, timeout_ms, text, size, err);
}
