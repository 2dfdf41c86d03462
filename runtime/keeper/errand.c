/* SPDX-License-Identifier: Apache-2.0 */
/* errand.c - a child of a keeper for slow work */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "keeper/errand.h"

int dt_errand_start(struct dt_errand *errand, dt_errand_f *run,
                    const void *context)
{
    const pid_t keeper = getpid();
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -1;
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* it has the keeper's sockets */
        if (getppid() != keeper)
            _exit(1);
        const uint8_t result = (uint8_t)run(context);
        _exit(write(ends[1], &result, 1) == 1 ? 0 : 1);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return -1;
    }
    *errand = (struct dt_errand){pid, ends[0]};
    return 0;
}

bool dt_errand_done(struct dt_errand *errand, int *result)
{
    uint8_t byte = 0;
    const ssize_t n = read(errand->fd, &byte, 1);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    *result = n == 1 ? byte : -1;
    dt_errand_end(errand);
    return true;
}

/* The child alone can write to the pipe, until its end. */
pid_t dt_errand_pid(const struct dt_errand *errand)
{
    struct pollfd p = {errand->fd, POLLIN, 0};
    return errand->pid != 0 && poll(&p, 1, 0) == 0 ? errand->pid : 0;
}

void dt_errand_end(struct dt_errand *errand)
{
    const pid_t pid = dt_errand_pid(errand);
    if (errand->pid == 0)
        return;
    if (pid != 0)
        kill(pid, SIGKILL);
    close(errand->fd);
    *errand = (struct dt_errand){.fd = -1};
}
