/* SPDX-License-Identifier: Apache-2.0 */
/* pty.h - runs a function behind a terminal of its own and sees all it writes
 */
#ifndef TESTS_UNIT_PTY_H
#define TESTS_UNIT_PTY_H

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"

struct pty {
    int master, slave; /* the slave stays open: its modes outlive the child */
    pid_t pid;
    size_t used;
    char text[1 << 18]; /* what was written so far */
};

static inline void pty_resize(struct pty *pty, int columns, int rows)
{
    const struct winsize size = {.ws_row = (unsigned short)rows,
                                 .ws_col = (unsigned short)columns};
    ioctl(pty->master, TIOCSWINSZ, &size);
}

/* Starts run(arg) as the foreground process of a terminal, which is its stdin,
 * stdout and stderr; its result is the exit status.
 */
static inline void pty_start(struct pty *pty, int columns, int rows,
                             int (*run)(void *arg), void *arg)
{
    memset(pty, 0, sizeof(*pty));
    pty->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(pty->master >= 0 && grantpt(pty->master) == 0 &&
                unlockpt(pty->master) == 0);
    const char *name = ptsname(pty->master);
    pty->slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(pty->slave >= 0);
    pty_resize(pty, columns, rows);
    fflush(NULL);
    pty->pid = fork();
    if (pty->pid == 0) {
        setsid();
        for (int i = 1; i < SIGSYS; i++) /* nohup has some ignored */
            signal(i, SIG_DFL);
        int fd = open(name, O_RDWR); /* becomes the controlling terminal */
        for (int i = 0; i < 3; i++)
            dup2(fd, i);
        int status = run(arg);
        fflush(NULL);
        _exit(status);
    }
}

/* Reads what there is, waiting 10 ms at most; what has no room is dropped.
 * False: there was nothing.
 */
static inline bool pty_read(struct pty *pty)
{
    struct pollfd p = {.fd = pty->master, .events = POLLIN};
    char rest[4096];
    const size_t room = sizeof(pty->text) - 1 - pty->used;
    if (poll(&p, 1, 10) <= 0)
        return false;
    ssize_t n = read(pty->master, room > 0 ? pty->text + pty->used : rest,
                     room > 0 ? room : sizeof(rest));
    if (n > 0 && room > 0)
        pty->used += (size_t)n;
    pty->text[pty->used] = '\0';
    return n > 0;
}

/* Reads until `text` was written after `from`. False: it was not within 60 s.
 */
static inline bool pty_sees(struct pty *pty, size_t from, const char *text)
{
    const double end = dt_clock_now() + 60;
    while (dt_clock_now() < end) {
        if (from <= pty->used && strstr(pty->text + from, text))
            return true;
        pty_read(pty);
    }
    return false;
}

static inline void pty_type(struct pty *pty, const char *keys)
{
    assert_int_equal(write(pty->master, keys, strlen(keys)), strlen(keys));
}

/* Waits for its end, reads the rest and returns the wait status. */
static inline int pty_end(struct pty *pty)
{
    const double end = dt_clock_now() + 60;
    int status = -1;
    while (waitpid(pty->pid, &status, WNOHANG) == 0 && dt_clock_now() < end)
        pty_read(pty);
    while (pty_read(pty))
        ;
    return status;
}

static inline void pty_close(struct pty *pty)
{
    close(pty->master);
    close(pty->slave);
}

/* Whether the terminal echoes and has lines, as a shell expects. */
static inline bool pty_is_sane(const struct pty *pty)
{
    struct termios modes;
    return tcgetattr(pty->slave, &modes) == 0 &&
           (modes.c_lflag & (ICANON | ECHO | ISIG)) == (ICANON | ECHO | ISIG);
}

#endif /* TESTS_UNIT_PTY_H */
