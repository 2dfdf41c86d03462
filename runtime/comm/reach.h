/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reach.h - which addresses of another host answer; for comm/ only
 *
 * That there is a route says little: a network may end at the next switch, or
 * swallow packets. So one host opens a door, and others knock at all of its
 * addresses at the same time. Nothing is said at a door.
 */
#ifndef DT_COMM_REACH_H
#define DT_COMM_REACH_H

#include "base/net.h"

enum {
    DT_REACH_DOORS = 16, /* at most */
};

struct dt_door;

/* Opens a door at all addresses of this host, on the port *port: a thread
 * accepts connections, and closes them. NULL: EX_OSERR.
 */
struct dt_door *dt_door_open(unsigned *port, struct dt_error *err);
void dt_door_close(struct dt_door *door); /* NULL is fine */

/* How long to wait at doors. */
struct dt_reach_times {
    int answer_ms; /* for any answer */
    int prefer_ms; /* for a better one, after the first */
};

/* Returns the first of doors[count] that answers, in the order of the array,
 * and the address *source of this host that it is reached from. -1:
 * EX_UNAVAILABLE, with what came from each.
 */
int dt_reach_first(const union dt_net_address *doors, int count,
                   const struct dt_reach_times *times,
                   union dt_net_address *source, struct dt_error *err);

#endif /* DT_COMM_REACH_H */
