/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.h - failures on purpose, for tests
 *
 * DISTTRAIN_FAULT=POINT[:rank=R][:step=S][:nth=N][:life=L]:ACTION makes the N-th
 * passage (from 1) of a named point fail, of the L-th start of the ranks. ACTION is `kill` (SIGKILL), `stop`
 * (SIGSTOP), each after a line to stderr, or `error` (the caller sees a
 * failure). With `sleep=MS` it takes so many milliseconds longer, and so do all
 * passages after it. Up to four of these, with commas between them. Without
 * --enable-fault-injection every point is compiled to "no".
 */
#ifndef DT_BASE_FAULT_H
#define DT_BASE_FAULT_H

#include <stdbool.h>

#ifdef ENABLE_FAULT_INJECTION
/* Where in the run this process is; points match against it. */
void dt_fault_rank(int rank);
void dt_fault_step(long step);

/* True if the caller must now behave as if `point` had failed. */
bool dt_fault(const char *point);
#else
static inline void dt_fault_rank(int rank)
{
    (void)rank;
}
static inline void dt_fault_step(long step)
{
    (void)step;
}
static inline bool dt_fault(const char *point)
{
    (void)point;
    return false;
}
#endif

#endif /* DT_BASE_FAULT_H */
