/* SPDX-License-Identifier: Apache-2.0 */
/* srun_child.c - runs programs for the plugin in srun, with a deadline */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spank/srun/srun_child.h"

enum { REAP_MS = 1000 };

int64_t dtspank_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int dtspank_child_spawn(char *const argv[], int out_fd, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null",
                                     O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out_fd, STDOUT_FILENO);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int rc = posix_spawn(pid, argv[0], &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

int dtspank_child_wait(pid_t pid, int64_t deadline, int *status,
                       struct dt_error *err)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    for (;;) {
        pid_t got = waitpid(pid, status, WNOHANG);
        if (got == pid)
            return 0;
        if (got < 0 && errno != EINTR)
            return dt_error_set(err, EX_OSERR, "waitpid: %s", strerror(errno));
        if (dtspank_now_ms() > deadline) {
            dtspank_child_kill(pid);
            return dt_error_set(err, EX_UNAVAILABLE, "it did not end");
        }
        nanosleep(&nap, NULL);
    }
}

/* A process in state D ignores SIGKILL. */
void dtspank_child_kill(pid_t pid)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    const int64_t deadline = dtspank_now_ms() + REAP_MS;
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, WNOHANG) == 0 && dtspank_now_ms() < deadline)
        nanosleep(&nap, NULL);
}
