/* SPDX-License-Identifier: Apache-2.0 */
/* world.h - how the ranks that launch found reach each other through comm */
#ifndef DT_ALGO_WORLD_H
#define DT_ALGO_WORLD_H

#include "comm/comm.h"
#include "launch/launch.h"

/* The world of `launch` as dt_comm_create wants it; launch must outlive it.
 * launch and comm are of one layer and do not know each other.
 */
struct dt_comm_world dt_world_of(struct dt_launch *launch);

#endif /* DT_ALGO_WORLD_H */
