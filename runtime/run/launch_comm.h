/* SPDX-License-Identifier: Apache-2.0 */
/* launch_comm.h - the ranks of launch as a world of comm */
#ifndef DT_RUN_LAUNCH_COMM_H
#define DT_RUN_LAUNCH_COMM_H

#include "comm/comm.h"
#include "launch/launch.h"

/* The world of `launch` for dt_comm_create; launch must outlive it. launch and
 * comm are in one layer and do not include each other.
 */
struct dt_comm_world dt_world_of(struct dt_launch *launch);

#endif /* DT_RUN_LAUNCH_COMM_H */
