/* SPDX-License-Identifier: Apache-2.0 */
/* reach.h - from a keeper to the leader, and whether a host is lost */
#ifndef DT_KEEPER_REACH_H
#define DT_KEEPER_REACH_H

#include "base/answer.h"
#include "base/error.h"
#include "base/handshake.h"
#include "keeper/keeper_options.h"
#include "keeper/roster.h"

/* The token of keepers, from the secret of their step. */
void dt_keeper_token(const char *secret, struct dt_token *token);

/* When a keeper is taken to be lost that is so now, and was heard last then: it
 * has sent no further beat.
 */
double dt_keeper_lost_at(const struct dt_keeper_options *options, double heard);

/* Connects to keeper 0 at MASTER_ADDR:MASTER_PORT within options->timeout_ms,
 * and proves to be the keeper `id` of `count`. Returns the socket, which does
 * not block. -1: EX_UNAVAILABLE; EX_TEMPFAIL if the descriptor `signals` became
 * readable meanwhile.
 */
int dt_reach_leader(const struct dt_keeper_options *options, int id, int count,
                    int signals, struct dt_error *err);

/* The same for keeper `leader`, at its address in the roster. Who refuses a
 * connection, or proves nothing within three outages, is not asked again.
 */
int dt_reach_next(const struct dt_keeper_options *options,
                  const struct dt_roster *roster, int leader, int id,
                  int signals, struct dt_error *err);

/* Notes whether the kernel of srun's host answers, as far as it can be asked
 * where no keeper is. Blocks as dt_host_is_silent.
 */
void dt_reach_hear_srun(const struct dt_keeper_options *options,
                        struct dt_roster *roster);

/* Whether the host of srun is lost: its node is, and its kernel, too; or, where
 * no node of the step is on that host, its kernel alone, which used to answer.
 * Blocks as dt_host_is_silent.
 */
bool dt_reach_lost_srun(const struct dt_keeper_options *options,
                        const struct dt_roster *roster);

/* The answer from where srun listens; DT_ANSWER_OPEN while a keeper is left on
 * its host, or if that is not known. Blocks for up to 0.5 s.
 */
enum dt_answer dt_reach_srun(const struct dt_keeper_options *options,
                             const struct dt_roster *roster);

/* Whether no keeper that is left is on the host of srun: it may be lost while
 * the step goes on.
 */
bool dt_reach_misses_srun(const struct dt_keeper_options *options,
                          const struct dt_roster *roster);

/* --- host.c: whether a host is lost, and not only the keepers there --- */

/* Whether the kernel of a keeper's host answers neither where that listens, or
 * has listened, nor where nobody does. Blocks for up to 1.5 s.
 */
bool dt_host_is_silent(const struct dt_wire_row *row);

/* The answer of a port of a host within 0.5 s. */
enum dt_answer dt_host_ask(const char *address, unsigned port);

#endif /* DT_KEEPER_REACH_H */
