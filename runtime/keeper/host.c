/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - whether a host is lost, and not only the keepers there */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net.h"
#include "keeper/keeper_impl.h"

enum {
    TRIES = 3, /* a packet may be lost by chance */
    TRY_MS = 500,
};

/* The error of a connection after at most TRY_MS; 0: there is one. */
static int await_connection(int fd)
{
    struct pollfd p = {fd, POLLOUT, 0};
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (poll(&p, 1, TRY_MS) <= 0)
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0 ? errno
                                                                    : error;
}

/* Whether the kernel of a host answers, as far as is known: only time that
 * passes, or a network that finds no such host, says that it does not. Other
 * failures are our own.
 */
static bool answers(const union dt_net_address *at, socklen_t bytes)
{
    int fd = socket(at->any.sa_family,
                    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return true;
    int error = connect(fd, &at->any, bytes) < 0 ? errno : 0;
    if (error == EINPROGRESS)
        error = await_connection(fd);
    else if (error == EHOSTUNREACH)
        dt_clock_sleep(TRY_MS / 1e3);
    close(fd);
    return error != ETIMEDOUT && error != EHOSTUNREACH;
}

bool dt_host_is_silent(const struct dt_wire_row *row)
{
    union dt_net_address at;
    const socklen_t bytes = dt_net_parse(&at, row->address, row->hello.port);
    for (int i = 0; i < TRIES; i++)
        if (bytes == 0 || answers(&at, bytes))
            return false;
    return true;
}
