/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - `disttrain console --watch`: who has not connected to rank 0
 *
 * Started beside rank 0 by its task_init, as the user. Looks at the port that
 * the ranks meet at, which tells about any program, and ends when all hosts
 * have connected, or with rank 0. The console makes a message of the records.
 */
#include "config.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/watch.h"
#include "contract/contract.h"
#include "report/peers.h"

enum {
    LOOK_MS = 500,
    LISTEN_S = 600, /* for rank 0 to listen at all */
    PORTS = 2,
    AGAIN_S = 300,     /* between two messages about the same */
    NAMES_BYTES = 600, /* of hosts in one record */
};

struct watch {
    int rank0; /* pidfd */
    double patience;
    unsigned ports[PORTS]; /* MASTER_PORT, JAX's; 0: none */
    unsigned port;         /* that one is listened on; 0: none yet */
    double since;          /* when that was first seen */
    const char *own;       /* host of rank 0 */
    char **hosts;          /* of the step, to the NULL */
    char token[DT_TOKEN_BYTES];
    struct dt_peers peers;
};

static void look(struct watch *w)
{
    static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    for (int i = 0; i < 2 * PORTS; i++) {
        FILE *table = fopen(tables[i / PORTS], "re");
        if (!table)
            continue;
        dt_peers_read(&w->peers, table, w->ports[i % PORTS]);
        fclose(table);
        if (w->peers.listens && w->port == 0) {
            w->port = w->ports[i % PORTS];
            w->since = dt_clock_now();
        }
    }
}

/* Takes each address of the host that is known out of `unknown`. */
static bool has_connected(const struct watch *w, const char *host,
                          size_t *unknown)
{
    const struct addrinfo hints = {.ai_family = AF_INET6,
                                   .ai_flags = AI_V4MAPPED | AI_ALL,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    bool found = false;
    if (getaddrinfo(host, NULL, &hints, &list) != 0)
        return false;
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        struct sockaddr_in6 in6;
        memcpy(&in6, a->ai_addr, sizeof(in6));
        if (dt_peers_has(&w->peers, &in6.sin6_addr)) {
            found = true;
            *unknown -= *unknown > 0;
        }
    }
    freeaddrinfo(list);
    return found;
}

/* Fills names with the hosts that have not connected, ",..." at the end if they
 * are too many. Returns how many they are, or 0 if nobody can say: an address
 * that belongs to no host may be the second one of any.
 */
static int find_absent(const struct watch *w, char names[NAMES_BYTES])
{
    size_t unknown = w->peers.count;
    size_t used = 0;
    int absent = 0;
    bool cut = false;
    names[0] = '\0';
    for (char **host = w->hosts; *host; host++) {
        if (strcmp(*host, w->own) == 0 || has_connected(w, *host, &unknown))
            continue;
        absent++;
        cut = cut || used + strlen(*host) + sizeof(",,...") > NAMES_BYTES;
        if (!cut)
            used += (size_t)snprintf(names + used, NAMES_BYTES - used, "%s%s",
                                     used > 0 ? "," : "", *host);
    }
    if (cut)
        strcpy(names + used, ",...");
    return unknown > 0 ? 0 : absent;
}

static void say(const struct watch *w, double waited, const char *names)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    dprintf(STDERR_FILENO, DT_RECORD "%s absent 0 %s %jd.%03ld %u %.0f %s\n",
            w->token, w->own, (intmax_t)now.tv_sec, now.tv_nsec / 1000000,
            w->port, waited, names[0] ? names : "-");
}

static void watch(struct watch *w, size_t others)
{
    char names[NAMES_BYTES];
    char said[NAMES_BYTES] = "";
    double start = dt_clock_now();
    double next = 0;
    struct pollfd rank0 = {.fd = w->rank0, .events = POLLIN};
    while (poll(&rank0, 1, LOOK_MS) == 0) {
        double now = dt_clock_now();
        look(w);
        bool complete = w->peers.count >= others;
        if ((complete && !said[0]) || (!w->port && now > start + LISTEN_S))
            return;
        if (!w->port ||
            (!complete && (now < next || now < w->since + w->patience)))
            continue;
        int absent = find_absent(w, names);
        if (absent > 0)
            say(w, now - w->since, strcpy(said, names));
        else if (said[0])
            say(w, now - w->since, "");
        if (complete || absent == 0)
            return;
        next = now + AGAIN_S;
    }
}

int dt_cmd_watch(int argc, char **argv)
{
    if (argc < 7)
        return EX_USAGE;
    struct watch w = {
        .rank0 = atoi(argv[1]),
        .patience = atof(argv[2]),
        .ports = {(unsigned)atoi(argv[3]), (unsigned)atoi(argv[4])},
        .own = argv[5],
        .hosts = argv + 6,
    };
    if (scanf("%32s", w.token) != 1)
        return EX_PROTOCOL;
    watch(&w, (size_t)(argc - 7));
    free(w.peers.addresses);
    return 0;
}
