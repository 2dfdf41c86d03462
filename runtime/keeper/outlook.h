/* SPDX-License-Identifier: Apache-2.0 */
/* outlook.h - the state of a step as a keeper sees it, in a message */
#ifndef DT_KEEPER_OUTLOOK_H
#define DT_KEEPER_OUTLOOK_H

#include "keeper/roster.h"

/* The bytes of a view of this step. */
size_t dt_view_bytes(const struct dt_roster *roster);

/* Fills them in. */
void dt_view_put(const struct dt_roster *roster, void *bytes);

/* Takes the view of the leader with a proposal, or with a life that begins,
 * which has ranks. -1: it makes no sense.
 */
int dt_view_take_proposal(struct dt_roster *roster, const void *bytes,
                          size_t count);
int dt_view_take_life(struct dt_roster *roster, const void *bytes, size_t count,
                      uint32_t life);

/* A new leader learns from the view of a keeper, which has seen `life`. Who is
 * lost remains so.
 */
void dt_view_learn(struct dt_roster *roster, const void *bytes, size_t count,
                   uint32_t life);

#endif /* DT_KEEPER_OUTLOOK_H */
