/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c - whether the kernel of a host answers */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/answer.h"

/* A router that has no way to the host says so after a packet; before that it
 * is this host that has none.
 */
enum dt_answer dt_answer_of(int error, bool sent)
{
    switch (error) {
    case 0:
    case ECONNRESET:
        return DT_ANSWER_OPEN;
    case ECONNREFUSED:
        return DT_ANSWER_REFUSED;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
        return DT_ANSWER_SILENCE;
    case ENETUNREACH:
        return sent ? DT_ANSWER_SILENCE : DT_ANSWER_UNKNOWN;
    default:
        return DT_ANSWER_UNKNOWN;
    }
}

int dt_answer_ask(const union dt_net_address *host, unsigned port,
                  enum dt_answer *answer)
{
    union dt_net_address to = *host;
    const bool v6 = to.any.sa_family == AF_INET6;
    int fd =
        socket(to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int error = 0;
    *(v6 ? &to.v6.sin6_port : &to.v4.sin_port) = htons((in_port_t)port);
    if (fd < 0 || connect(fd, &to.any, v6 ? sizeof(to.v6) : sizeof(to.v4)) < 0)
        error = errno;
    if (error == EINPROGRESS)
        return fd;
    if (fd >= 0)
        close(fd);
    *answer = dt_answer_of(error, false);
    return -1;
}

enum dt_answer dt_answer_take(int fd)
{
    int error = 0;
    socklen_t bytes = sizeof(error);
    const bool known =
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0;
    close(fd);
    return known ? dt_answer_of(error, true) : DT_ANSWER_UNKNOWN;
}

enum dt_answer dt_answer_get(const char *address, unsigned port, int ms)
{
    union dt_net_address host;
    enum dt_answer answer = DT_ANSWER_UNKNOWN;
    if (dt_net_parse(&host, address, 0) == 0)
        return answer;
    struct pollfd p = {dt_answer_ask(&host, port, &answer), POLLOUT, 0};
    if (p.fd < 0)
        return answer;
    if (poll(&p, 1, ms) == 1)
        return dt_answer_take(p.fd);
    close(p.fd);
    return DT_ANSWER_SILENCE;
}
