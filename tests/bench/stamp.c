/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stamp.c - a SPANK plugin that leaves the time in the variable it is given
 *
 * One before and one behind another plugin in plugstack.conf: the difference is
 * what that one takes in task_init, in microseconds, by the clock and by the
 * time on a CPU.
 */
#include "config.h"

#include <stdio.h>
#include <time.h>

#include <slurm/spank.h>

SPANK_PLUGIN(STAMP, 1)

static long long now_us(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

int slurm_spank_task_init(spank_t spank, int ac, char *argv[])
{
    char name[64];
    char value[32];
    for (int cpu = 0; ac == 1 && cpu < 2; cpu++) {
        snprintf(name, sizeof(name), "%s_%s", argv[0], cpu ? "CPU" : "WALL");
        snprintf(value, sizeof(value), "%lld",
                 now_us(cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC));
        spank_setenv(spank, name, value, 1);
    }
    return 0;
}
