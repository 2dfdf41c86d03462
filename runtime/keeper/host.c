/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - whether a host is lost, and not only the keepers there */
#include "config.h"

#include <poll.h>
#include <unistd.h>

#include "base/answer.h"
#include "base/clock.h"
#include "keeper/reach.h"

enum {
    TRIES = 3, /* a packet may be lost by chance */
    TRY_MS = 500,
    PORTS = 2,
};

/* Whether a host gives another answer than silence at one of the ports, within
 * TRY_MS.
 */
static bool answers(const union dt_net_address *host,
                    const unsigned ports[PORTS])
{
    const double until = dt_clock_now() + TRY_MS / 1e3;
    struct pollfd asked[PORTS];
    double left;
    bool silent = true;
    for (int i = 0; i < PORTS; i++) {
        enum dt_answer answer = DT_ANSWER_SILENCE;
        asked[i] =
            (struct pollfd){dt_answer_ask(host, ports[i], &answer), POLLOUT, 0};
        silent &= answer == DT_ANSWER_SILENCE;
    }
    while (silent && (left = until - dt_clock_now()) > 0 &&
           poll(asked, PORTS, (int)(left * 1e3) + 1) >= 0)
        for (int i = 0; i < PORTS; i++) {
            if (asked[i].fd < 0 || !asked[i].revents)
                continue;
            silent &= dt_answer_take(asked[i].fd) == DT_ANSWER_SILENCE;
            asked[i].fd = -1;
        }
    for (int i = 0; i < PORTS; i++)
        if (asked[i].fd >= 0)
            close(asked[i].fd);
    return !silent;
}

bool dt_host_is_silent(const struct dt_wire_row *row)
{
    const unsigned ports[PORTS] = {row->hello.port, DT_ANSWER_PORT};
    union dt_net_address host;
    for (int i = 0; i < TRIES; i++)
        if (dt_net_parse(&host, row->address, 0) == 0 || answers(&host, ports))
            return false;
    return true;
}

enum dt_answer dt_host_ask(const char *address, unsigned port)
{
    return dt_answer_get(address, port, TRY_MS);
}
