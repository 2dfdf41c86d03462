/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spin.h - how long OpenMP threads that wait keep their CPUs busy
 *
 * By default they do so for milliseconds. On a machine where others compute
 * too, a thread whose CPU is taken from it then makes the others wait for its
 * turn in each of the many short operations of a small model, so that a step
 * takes 10 to 40 times as long. Some microseconds are enough where the CPUs are
 * free, and harm nobody where they are not.
 */
#ifndef DT_CMD_SPIN_H
#define DT_CMD_SPIN_H

#include <stdbool.h>

/* Sets how long, unless the user has said so, and returns true if this comes
 * too late for this process: GCC's OpenMP reads its variables before main, and
 * the process has to execute itself again. In the second execution, and if
 * nothing needs to be set, it returns false and has removed the variables, so
 * that programs of the run inherit the user's environment.
 */
bool dt_cmd_spin_limit(void);

/* Executes this program again, with the arguments of main. Returns only if that
 * fails; then the variables are removed, and threads wait as by default.
 */
void dt_cmd_spin_restart(char **argv);

#endif /* DT_CMD_SPIN_H */
