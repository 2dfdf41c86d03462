/* SPDX-License-Identifier: Apache-2.0 */
/* roster.c - which keeper has which rank */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keeper/roster.h"

int dt_roster_init(struct dt_roster *roster, int count)
{
    const size_t n = (size_t)count;
    *roster = (struct dt_roster){.count = count, .ballot = -1};
    roster->posts = calloc(n, sizeof(*roster->posts));
    roster->rows = calloc(n, sizeof(*roster->rows));
    roster->hosts = calloc(n, sizeof(*roster->hosts));
    if (!roster->posts || !roster->rows || !roster->hosts)
        return -1;
    for (int i = 0; i < count; i++)
        roster->posts[i] =
            (struct dt_post){.rank = DT_WIRE_SPARE, .left = DT_WIRE_LOST};
    return 0;
}

void dt_roster_fini(struct dt_roster *roster)
{
    free(roster->posts);
    free(roster->rows);
    free(roster->hosts);
    free(roster->losses);
    *roster = (struct dt_roster){0};
}

int dt_roster_note_losses(struct dt_roster *roster, const void *losses,
                          size_t count)
{
    free(roster->losses);
    roster->loss_count = 0;
    roster->losses = calloc(count + 1, sizeof(*roster->losses));
    if (!roster->losses)
        return -1;
    if (count > 0)
        memcpy(roster->losses, losses, count * sizeof(*roster->losses));
    roster->loss_count = count;
    return 0;
}

int dt_roster_copy(struct dt_roster *to, const struct dt_roster *from)
{
    const size_t n = (size_t)from->count;
    struct dt_roster copy;
    if (dt_roster_init(&copy, from->count) < 0 ||
        dt_roster_note_losses(&copy, from->losses, from->loss_count) < 0) {
        dt_roster_fini(&copy);
        return -1;
    }
    memcpy(copy.posts, from->posts, n * sizeof(*copy.posts));
    memcpy(copy.rows, from->rows, n * sizeof(*copy.rows));
    memcpy(copy.hosts, from->hosts, n * sizeof(*copy.hosts));
    *to = *from;
    to->posts = copy.posts;
    to->rows = copy.rows;
    to->hosts = copy.hosts;
    to->losses = copy.losses;
    return 0;
}

static int node_of(const struct dt_roster *roster, int id)
{
    return roster->rows[id].hello.node;
}

bool dt_roster_has(const struct dt_roster *roster, int id)
{
    return roster->posts[id].rank != DT_WIRE_LOST;
}

/* The keepers of a node that are left, or those of them with a rank. */
static int count_on(const struct dt_roster *roster, int node, bool ranked)
{
    int found = 0;
    for (int i = 0; i < roster->count; i++)
        found += node_of(roster, i) == node && dt_roster_has(roster, i) &&
                 (!ranked || roster->posts[i].rank >= 0);
    return found;
}

/* Whether this is the first keeper of its node, of those that are left. */
static bool is_first(const struct dt_roster *roster, int id)
{
    if (!dt_roster_has(roster, id))
        return false;
    for (int i = 0; i < id; i++)
        if (node_of(roster, i) == node_of(roster, id) &&
            dt_roster_has(roster, i))
            return false;
    return true;
}

int dt_roster_nodes(const struct dt_roster *roster)
{
    int nodes = 0;
    for (int i = 0; i < roster->count; i++)
        nodes += is_first(roster, i);
    return nodes;
}

/* Numbers the keepers of these nodes in the order of their ids; the others are
 * spares.
 */
static void number_ranks(struct dt_roster *roster, const int *nodes, int count)
{
    roster->size = 0;
    for (int i = 0; i < roster->count; i++) {
        bool in = false;
        for (int n = 0; n < count && !in; n++)
            in = nodes[n] == node_of(roster, i);
        if (dt_roster_has(roster, i))
            roster->posts[i].rank = in ? roster->size++ : DT_WIRE_SPARE;
    }
}

/* Lists the nodes that are left: first those with ranks, then the spares, each
 * in the order of their numbers.
 */
static int list_nodes(const struct dt_roster *roster, int *nodes)
{
    int found = 0;
    for (int turn = 0; turn < 2; turn++)
        for (int node = 0; node < roster->count; node++)
            if (count_on(roster, node, false) > 0 &&
                (count_on(roster, node, true) == 0) == turn)
                nodes[found++] = node;
    return found;
}

int dt_roster_begin(struct dt_roster *roster, int spares)
{
    int *nodes = calloc((size_t)roster->count, sizeof(*nodes));
    const int left = nodes ? list_nodes(roster, nodes) : 0;
    if (left > spares)
        number_ranks(roster, nodes, left - spares);
    free(nodes);
    roster->first = roster->size;
    return left > spares ? 0 : -1;
}

void dt_roster_lose(struct dt_roster *roster, int node)
{
    for (int i = 0; i < roster->count; i++)
        if (node_of(roster, i) == node && dt_roster_has(roster, i)) {
            roster->posts[i].left = roster->posts[i].rank;
            roster->posts[i].rank = DT_WIRE_LOST;
        }
}

/* Finds a spare node that has a keeper for each rank; -1: none. */
static int find_spare(const struct dt_roster *roster, int ranks)
{
    for (int node = 0; node < roster->count; node++)
        if (count_on(roster, node, true) == 0 &&
            count_on(roster, node, false) >= ranks)
            return node;
    return -1;
}

/* Gives the ranks of a lost node to the keepers of another, in their order. */
static void move_ranks(struct dt_roster *roster, int from, int to)
{
    struct dt_post *posts = roster->posts;
    int next = 0;
    for (int i = 0; i < roster->count; i++) {
        if (node_of(roster, i) != from || posts[i].left < 0)
            continue;
        while (node_of(roster, next) != to || !dt_roster_has(roster, next))
            next++;
        posts[next++].rank = posts[i].left;
        posts[i].left = DT_WIRE_LOST;
    }
}

/* Whether spare nodes have taken all ranks that were lost. */
static bool replace_all(struct dt_roster *roster)
{
    for (int node = 0; node < roster->count; node++) {
        int ranks = 0;
        for (int i = 0; i < roster->count; i++)
            ranks += node_of(roster, i) == node && roster->posts[i].left >= 0;
        const int to = ranks > 0 ? find_spare(roster, ranks) : 0;
        if (to < 0)
            return false;
        if (ranks > 0)
            move_ranks(roster, node, to);
    }
    return true;
}

/* The most nodes, of those in the list, whose ranks are enough and fit. */
static int find_most(const struct dt_roster *roster, const int *nodes,
                     int count, long least, dt_roster_fits_f *fits,
                     const void *context)
{
    for (; count > 0; count--) {
        int ranks = 0;
        for (int n = 0; n < count; n++)
            ranks += count_on(roster, nodes[n], false);
        if (ranks < least)
            return 0;
        if (ranks <= roster->size && fits(context, ranks))
            return count;
    }
    return 0;
}

/* Numbers as many nodes as fit. */
static bool shrink(struct dt_roster *roster, long least, dt_roster_fits_f *fits,
                   const void *context)
{
    int *nodes = calloc((size_t)roster->count, sizeof(*nodes));
    int most = nodes && least > 0 ? list_nodes(roster, nodes) : 0;
    most = find_most(roster, nodes, most, least, fits, context);
    if (most > 0)
        number_ranks(roster, nodes, most);
    free(nodes);
    return most > 0;
}

int dt_roster_assign(struct dt_roster *roster, long least,
                     dt_roster_fits_f *fits, const void *context)
{
    if (!replace_all(roster) && !shrink(roster, least, fits, context))
        return -1;
    for (int i = 0; i < roster->count; i++)
        roster->posts[i].left = DT_WIRE_LOST;
    return 0;
}

bool dt_roster_was_lost(const struct dt_roster *roster, int node)
{
    for (int i = 0; i < roster->count; i++)
        if (node_of(roster, i) == node &&
            roster->posts[i].left >= DT_WIRE_SPARE)
            return true;
    return false;
}

int dt_roster_find_lost(const struct dt_roster *roster, const char *host)
{
    for (int i = 0; i < roster->count; i++)
        if (!dt_roster_has(roster, i) && strcmp(roster->hosts[i], host) == 0)
            return i;
    return -1;
}

int dt_roster_find(const struct dt_roster *roster, int rank)
{
    for (int i = 0; i < roster->count; i++)
        if (roster->posts[i].rank == rank)
            return i;
    return -1;
}

/* The lowest rank of a node, which has one. */
static int lowest_on(const struct dt_roster *roster, int node)
{
    int lowest = roster->size;
    for (int i = 0; i < roster->count; i++) {
        const int rank = roster->posts[i].rank;
        if (node_of(roster, i) == node && rank >= 0 && rank < lowest)
            lowest = rank;
    }
    return lowest;
}

void dt_roster_place(const struct dt_roster *roster, int id,
                     struct dt_place *place)
{
    const int rank = roster->posts[id].rank, node = node_of(roster, id);
    const int own = lowest_on(roster, node);
    *place = (struct dt_place){.rank = rank, .size = roster->size};
    for (int i = 0; i < roster->count; i++) {
        const int other = roster->posts[i].rank;
        if (other < 0)
            continue;
        if (node_of(roster, i) == node) {
            place->local_size++;
            place->local_rank += other < rank;
        } else if (other == lowest_on(roster, node_of(roster, i))) {
            place->nodes++;
            place->node_rank += other < own;
        }
    }
    place->nodes++;
}

int dt_roster_next_leader(const struct dt_roster *roster, int before,
                          int passed)
{
    for (int id = passed + 1; id < roster->count; id++) {
        bool first = dt_roster_has(roster, id);
        for (int i = before + 1; i < id && first; i++)
            first = !dt_roster_has(roster, i) ||
                    node_of(roster, i) != node_of(roster, id);
        if (first)
            return id;
    }
    return roster->count;
}

void dt_roster_print_lost(const struct dt_roster *roster, int node, char *text,
                          size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < roster->count && used < bytes; i++) {
        if (node_of(roster, i) != node)
            continue;
        if (used == 0)
            used += (size_t)snprintf(text, bytes, "node %s", roster->hosts[i]);
        if (roster->posts[i].left >= 0 && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, ", rank %d",
                                     roster->posts[i].left);
    }
    if (strchr(text, ',') && used < bytes)
        snprintf(text + used, bytes - used, ",");
}
