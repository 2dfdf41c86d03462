/* SPDX-License-Identifier: Apache-2.0 */
/* connected.c - reads from the kernel's tables which hosts are connected to a
 * port
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "console/connected.h"

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
