/* SPDX-License-Identifier: Apache-2.0 */
/* links.c - which ranks are connected */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "comm/links.h"

int dt_links_init(struct dt_links *links, int rank, int size, bool all,
                  struct dt_error *err)
{
    *links = (struct dt_links){
        .rank = rank,
        .size = size,
        .peers = calloc((size_t)size, sizeof(*links->peers)),
    };
    if (!links->peers)
        return dt_error_set(err, EX_OSERR, "no memory for %d ranks", size);
    bool complete = all || size <= DT_LINKS_ALL;
    for (int r = 0; complete && r < size; r++)
        if (r != rank)
            links->peers[links->count++] = r;
    for (int s = 1; !complete && s < size; s *= 2) {
        int peers[] = {(rank + s) % size, (rank - s + size) % size};
        for (int i = 0; i < 2; i++)
            if (!dt_links_have(links, peers[i]))
                dt_links_add(links, peers[i]);
    }
    return 0;
}

void dt_links_fini(struct dt_links *links)
{
    free(links->peers);
}

/* Compares two int. */
static int by_rank(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

bool dt_links_have(const struct dt_links *links, int peer)
{
    return bsearch(&peer, links->peers, (size_t)links->count,
                   sizeof(*links->peers), by_rank);
}

void dt_links_add(struct dt_links *links, int peer)
{
    int i = links->count++;
    for (; i > 0 && links->peers[i - 1] > peer; i--)
        links->peers[i] = links->peers[i - 1];
    links->peers[i] = peer;
}

/* Do the ranks at these places of a group talk to each other? */
static bool talk(int count, int a, int b)
{
    if (count <= DT_LINKS_ALL)
        return true;
    for (int s = 1; s < count; s *= 2)
        if ((a + s) % count == b || (b + s) % count == a)
            return true;
    return false;
}

int dt_links_missing(const struct dt_links *links, const int *ranks, int count,
                     int self, bool all, int *missing)
{
    int n = 0;
    for (int i = 0; i < count; i++)
        if (i != self && (all || talk(count, self, i)) &&
            !dt_links_have(links, ranks[i]))
            missing[n++] = ranks[i];
    qsort(missing, (size_t)n, sizeof(*missing), by_rank);
    return n;
}
