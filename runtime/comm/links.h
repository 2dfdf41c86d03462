/* SPDX-License-Identifier: Apache-2.0 */
/*
 * links.h - which ranks are connected; for comm/ only
 *
 * In a small world each rank is connected to all others. In a large one, where
 * that would be W * W connections, it is connected to the ranks before and
 * after it by a power of two, around the world: collectives use these
 * (comm_gloo.h), and so does the news of a loss, which reaches every rank over
 * at most log2 W others. A group adds what it needs, by the same rule (meet.c).
 * So 128 nodes of 8 ranks, with a group for each node and each rail, take 38
 * connections a rank.
 */
#ifndef DT_COMM_LINKS_H
#define DT_COMM_LINKS_H

#include <stdbool.h>

#include "base/error.h"

enum {
    DT_LINKS_ALL = 16, /* ranks of which each is connected to each */
};

struct dt_links {
    int rank, size; /* of the world */
    int count;
    int *peers; /* [count], ascending */
};

/* The connections of `rank` in a world of `size`; with `all`, to everybody
 * however large the world is. -1: EX_OSERR.
 */
int dt_links_init(struct dt_links *links, int rank, int size, bool all,
                  struct dt_error *err);
void dt_links_fini(struct dt_links *links); /* zeroed is fine */

/* Is there a connection to `peer`? */
bool dt_links_have(const struct dt_links *links, int peer);

/* Writes to missing[links->size] the ranks, ascending, that this rank has to
 * talk to in a group, and is not connected to: ranks[count] is the group, and
 * `self` the place of this rank in it. With `all` it talks to everybody there.
 * Returns how many there are.
 */
int dt_links_missing(const struct dt_links *links, const int *ranks, int count,
                     int self, bool all, int *missing);

/* Adds a connection that there was not. */
void dt_links_add(struct dt_links *links, int peer);

#endif /* DT_COMM_LINKS_H */
