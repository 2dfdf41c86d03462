/* SPDX-License-Identifier: Apache-2.0 */
/* agree.c - which nodes the next epoch has */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/siphash.h"
#include "keeper/agree.h"
#include "keeper/roster.h"

enum dt_quorum dt_quorum(int live, int all)
{
    return 2 * live > all    ? DT_QUORUM_MORE
           : 2 * live == all ? DT_QUORUM_HALF
                             : DT_QUORUM_LESS;
}

typedef bool test_f(const struct dt_roster *roster, int id);

static bool votes(const struct dt_roster *roster, int id)
{
    return roster->posts[id].votes;
}

static bool is_next(const struct dt_roster *roster, int id)
{
    return roster->posts[id].next;
}

static bool accepts(const struct dt_roster *roster, int id)
{
    return roster->posts[id].accepts;
}

/* The voters all of whose keepers pass the test. */
static int count_nodes(const struct dt_roster *roster, test_f *test)
{
    int count = 0;
    for (int node = 0; node < roster->count; node++) {
        bool any = false, all = true;
        for (int i = 0; i < roster->count; i++) {
            if (roster->rows[i].hello.node != node || !votes(roster, i))
                continue;
            any = true;
            all &= test(roster, i);
        }
        count += any && all;
    }
    return count;
}

int dt_agree_voters(const struct dt_roster *roster)
{
    return count_nodes(roster, votes);
}

int dt_agree_left(const struct dt_roster *roster)
{
    return count_nodes(roster, dt_roster_has);
}

enum dt_quorum dt_agree_quorum(const struct dt_roster *roster)
{
    return dt_quorum(dt_agree_left(roster), dt_agree_voters(roster));
}

bool dt_agree_is_whole(const struct dt_roster *roster)
{
    for (int i = 0; i < roster->count; i++)
        if (votes(roster, i) != dt_roster_has(roster, i))
            return false;
    return true;
}

/* No proposal of the next epoch is known. */
static void forget(struct dt_roster *roster)
{
    roster->ballot = -1;
    for (int i = 0; i < roster->count; i++)
        roster->posts[i].next = roster->posts[i].accepts = false;
}

void dt_agree_begin(struct dt_roster *roster)
{
    forget(roster);
    for (int i = 0; i < roster->count; i++)
        roster->posts[i].votes = dt_roster_has(roster, i);
}

void dt_agree_propose(struct dt_roster *roster, int id)
{
    for (int i = 0; i < roster->count; i++) {
        struct dt_post *post = &roster->posts[i];
        post->accepts = false;
        if (roster->ballot < 0)
            post->next = dt_roster_has(roster, i);
    }
    roster->ballot = id;
}

void dt_agree_name(const struct dt_roster *roster,
                   char name[DT_EPOCH_PROPOSAL_BYTES])
{
    uint8_t key[DT_SIPHASH_BYTES] = "dt.nodes", hash[DT_SIPHASH_BYTES];
    for (int i = 0; i < roster->count; i++) {
        const uint8_t next = is_next(roster, i);
        dt_siphash(key, &next, sizeof(next), hash);
        memcpy(key, hash, sizeof(key));
    }
    for (size_t i = 0; i < DT_EPOCH_PROPOSAL_BYTES / 2; i++)
        snprintf(name + 2 * i, 3, "%02x", hash[i]);
}

bool dt_agree_is_complete(const struct dt_roster *roster)
{
    for (int i = 0; i < roster->count; i++)
        if (dt_roster_has(roster, i) && !accepts(roster, i))
            return false;
    return true;
}

bool dt_agree_is_decided(const struct dt_roster *roster, bool file)
{
    const enum dt_quorum quorum =
        dt_quorum(count_nodes(roster, accepts), dt_agree_voters(roster));
    return quorum == DT_QUORUM_MORE || (quorum == DT_QUORUM_HALF && file);
}

void dt_agree_advance(struct dt_roster *roster)
{
    for (int i = 0; i < roster->count; i++)
        roster->posts[i].votes = is_next(roster, i);
    forget(roster);
    roster->epoch++;
}
