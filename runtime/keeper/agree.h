/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agree.h - which nodes the next epoch has, and its file
 *
 * The nodes with which an epoch has begun vote on the next one. A leader makes
 * one proposal, and its keepers accept it. More than half of the voters decide,
 * or half of them and the file of the next epoch, which has one vote. A keeper
 * hears one leader at a time, and none with a lower id than the one before. So
 * a later leader with as many voters has one among them that has accepted
 * whatever was decided, and proposes the same: no epoch has two beginnings. If
 * the leader of the decision is lost, the epoch after it leaves that one out.
 */
#ifndef DT_KEEPER_AGREE_H
#define DT_KEEPER_AGREE_H

#include <stdint.h>

#include "base/epoch.h"
#include "keeper/roster.h"

enum dt_quorum { DT_QUORUM_LESS, DT_QUORUM_HALF, DT_QUORUM_MORE };

/* How many `live` of `all` nodes are. */
enum dt_quorum dt_quorum(int live, int all);

/* The voters, and those of them that are left. */
int dt_agree_voters(const struct dt_roster *roster);
int dt_agree_left(const struct dt_roster *roster);

/* How many those are that are left. */
enum dt_quorum dt_agree_quorum(const struct dt_roster *roster);

/* Whether the voters are the nodes that are left, and no others. */
bool dt_agree_is_whole(const struct dt_roster *roster);

/* The epoch begins with the nodes that are left. */
void dt_agree_begin(struct dt_roster *roster);

/* Makes a proposal as leader `id`: the one that was accepted before, or else
 * the nodes that are left.
 */
void dt_agree_propose(struct dt_roster *roster, int id);

/* Writes the name of the proposal: a hash of its keepers. */
void dt_agree_name(const struct dt_roster *roster,
                   char name[DT_EPOCH_PROPOSAL_BYTES]);

/* Whether all keepers that are left have accepted the proposal. */
bool dt_agree_is_complete(const struct dt_roster *roster);

/* Whether it is decided; `file`: by the vote of the file, too. */
bool dt_agree_is_decided(const struct dt_roster *roster, bool file);

/* The next epoch, as decided; its voters may be lost already. */
void dt_agree_advance(struct dt_roster *roster);

/* --- claim.c: the file of an epoch --- */

/* In place of a proposal: the step ends. */
#define DT_EPOCH_NONE "none"

enum dt_claim {
    DT_CLAIM_OURS,   /* for this proposal, by us or by others */
    DT_CLAIM_LOST,   /* for another one */
    DT_CLAIM_FAILED, /* the directory cannot be written, or not read */
};

/* Creates the file of an epoch in `dir`, for the proposal of this name; `step`
 * names the step (base/epoch.h). May take as long as the file system does.
 */
enum dt_claim dt_epoch_claim(const char *dir, const char *step, uint32_t epoch,
                             const char *proposal);

/* Writes the name of a step with this secret. */
void dt_epoch_step(const char *secret, char step[DT_EPOCH_STEP_BYTES]);

#endif /* DT_KEEPER_AGREE_H */
