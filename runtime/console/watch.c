/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - `disttrain console --watch`: finds hosts that do not connect to
 * rank 0
 *
 * The task_init of rank 0 starts it next to the task, as the user. It watches
 * the ports where the ranks meet, which works for any program, and ends when
 * all hosts have connected or rank 0 has ended. The console turns its records
 * into messages.
 */
#include "config.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "console/console.h"
#include "console/console_impl.h"
#include "contract/contract.h"

/* --- tables of the kernel --- */

enum {
    STATE_LISTEN = 10, /* TCP_LISTEN of the kernel */
    HEX_V4 = 8,
    HEX_V6 = 32,
};

/* Parses an address. The kernel prints it as words in the byte order of the
 * machine.
 */
static bool parse_address(const char *hex, struct in6_addr *address)
{
    uint32_t words[4] = {0, 0, htonl(0xffff), 0};
    size_t len = strlen(hex);
    size_t first = len == HEX_V4 ? 3 : 0;
    if (len != HEX_V4 && len != HEX_V6)
        return false;
    for (size_t i = first; i < 4; i++) {
        char word[9] = "";
        memcpy(word, hex + (i - first) * 8, 8);
        words[i] = (uint32_t)strtoul(word, NULL, 16);
    }
    memcpy(address, words, sizeof(words));
    return true;
}

static void add_address(struct dt_connected *connected,
                        const struct in6_addr *address)
{
    if (dt_connected_has(connected, address))
        return;
    if (connected->count == connected->size) {
        size_t size = connected->size ? 2 * connected->size : 64;
        struct in6_addr *more =
            realloc(connected->addresses, size * sizeof(*more));
        if (!more)
            return;
        connected->addresses = more;
        connected->size = size;
    }
    connected->addresses[connected->count++] = *address;
}

bool dt_connected_has(const struct dt_connected *connected,
                      const struct in6_addr *address)
{
    for (size_t i = 0; i < connected->count; i++)
        if (memcmp(&connected->addresses[i], address, sizeof(*address)) == 0)
            return true;
    return false;
}

static bool is_watched(unsigned port, const unsigned *ports, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (port > 0 && ports[i] == port)
            return true;
    return false;
}

void dt_connected_read(struct dt_connected *connected, FILE *table,
                       const unsigned *ports, size_t count)
{
    char line[512];
    while (fgets(line, sizeof(line), table)) {
        char here[HEX_V6 + 1];
        char there[HEX_V6 + 1];
        unsigned here_port;
        unsigned state;
        struct in6_addr local;
        struct in6_addr remote;
        if (sscanf(line, " %*d: %32[0-9A-F]:%x %32[0-9A-F]:%*x %x", here,
                   &here_port, there, &state) != 4 ||
            !is_watched(here_port, ports, count) ||
            !parse_address(here, &local) || !parse_address(there, &remote))
            continue;
        if (state == STATE_LISTEN)
            connected->listens = here_port;
        else if (memcmp(&local, &remote, sizeof(local)) != 0)
            add_address(connected, &remote);
    }
}

/* --- the watch --- */

enum {
    LOOK_MS = 500,
    REST = 200,     /* times the duration of a look: half a percent of a CPU */
    LISTEN_S = 600, /* time for rank 0 to listen */
    PORTS = 2,
    AGAIN_S = 300,     /* between two messages about the same hosts */
    NAMES_BYTES = 600, /* of host names in one record */
};

struct watch {
    int rank0; /* pidfd */
    double timeout;
    unsigned ports[PORTS]; /* MASTER_PORT, JAX's; 0: none */
    unsigned port;         /* on which rank 0 listens; 0: none yet */
    double since;          /* when it was first seen listening */
    const char *own;       /* host of rank 0 */
    char **hosts;          /* of the step, ending with NULL */
    char token[DT_TOKEN_BYTES];
    struct dt_connected connected;
};

static void look_at_ports(struct watch *w)
{
    static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        FILE *table = fopen(tables[i], "re");
        if (!table)
            continue;
        dt_connected_read(&w->connected, table, w->ports, PORTS);
        fclose(table);
        if (w->connected.listens && w->port == 0) {
            w->port = w->connected.listens;
            w->since = dt_clock_now();
        }
    }
}

int dt_console_watch_pause(double seconds)
{
    double rest = seconds * 1000 * REST;
    return rest < LOOK_MS ? LOOK_MS : (int)rest;
}

static double cpu_seconds(void)
{
    return (double)dt_clock_ns(CLOCK_PROCESS_CPUTIME_ID) * 1e-9;
}

/* Whether the host has connected. Subtracts its connected addresses from
 * *unknown.
 */
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
        if (dt_connected_has(&w->connected, &in6.sin6_addr)) {
            found = true;
            *unknown -= *unknown > 0;
        }
    }
    freeaddrinfo(list);
    return found;
}

/* Fills names with the hosts that have not connected, ending with ",..." if
 * there are too many. Returns their number, or 0 if it cannot be known: an
 * address that belongs to no host may be a second address of any of them.
 */
static int find_absent(const struct watch *w, char names[NAMES_BYTES])
{
    size_t unknown = w->connected.count;
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

static void write_record(const struct watch *w, double waited,
                         const char *names)
{
    int fd = open("/proc/self/fd/2", O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0)
        return;
    dprintf(fd, DT_RECORD "%s absent 0 %s %.3f %u %.0f %s\n", w->token, w->own,
            dt_clock_wall(), w->port, waited, names[0] ? names : "-");
    close(fd);
}

static void watch_ports(struct watch *w, size_t others)
{
    char names[NAMES_BYTES];
    char said[NAMES_BYTES] = "";
    double start = dt_clock_now();
    double next = 0, look = 0;
    struct pollfd rank0 = {.fd = w->rank0, .events = POLLIN};
    while (poll(&rank0, 1, dt_console_watch_pause(look)) == 0) {
        double now = dt_clock_now(), before = cpu_seconds();
        look_at_ports(w);
        look = cpu_seconds() - before;
        bool complete = w->connected.count >= others;
        if ((complete && !said[0]) || (!w->port && now > start + LISTEN_S))
            return;
        if (!w->port ||
            (!complete && (now < next || now < w->since + w->timeout)))
            continue;
        int absent = find_absent(w, names);
        if (absent > 0)
            write_record(w, now - w->since, strcpy(said, names));
        else if (said[0])
            write_record(w, now - w->since, "");
        if (complete || absent == 0)
            return;
        next = now + AGAIN_S;
    }
}

int dt_console_watch(int argc, char **argv)
{
    if (argc < 7)
        return EX_USAGE;
    struct watch w = {
        .rank0 = atoi(argv[1]),
        .timeout = atof(argv[2]),
        .ports = {(unsigned)atoi(argv[3]), (unsigned)atoi(argv[4])},
        .own = argv[5],
        .hosts = argv + 6,
    };
    if (scanf("%32s", w.token) != 1)
        return EX_PROTOCOL;
    watch_ports(&w, (size_t)(argc - 7));
    free(w.connected.addresses);
    return 0;
}
