/* SPDX-License-Identifier: Apache-2.0 */
/* world.h - the ranks of launch as a world of comm */
#ifndef DT_ALGO_WORLD_H
#define DT_ALGO_WORLD_H

#include "comm/comm.h"
#include "launch/launch.h"

/* The world of `launch` for dt_comm_create; launch must outlive it. launch and
 * comm are in one layer and do not include each other.
 */
struct dt_comm_world dt_world_of(struct dt_launch *launch);

#endif /* DT_ALGO_WORLD_H */
