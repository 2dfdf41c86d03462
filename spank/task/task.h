/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task.h - the environment of a task, as Slurm keeps it
 *
 * For slurm_spank_task_init and slurm_spank_task_exit only. It is not environ:
 * Slurm makes the task's environment from it after the last hook.
 */
#ifndef DTSPANK_TASK_H
#define DTSPANK_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include <slurm/spank.h>

#include "base/error.h"

/* Returns a variable of the task, NULL if unset. It points into Slurm's copy
 * and is valid until the environment changes.
 */
const char *dtspank_task_getenv(spank_t spank, const char *name);

/* Sets a variable of the task, even if it is already set. */
int dtspank_task_setenv(spank_t spank, const char *name, const char *value,
                        struct dt_error *err);

/* Reads a decimal number that Slurm has put into the environment. If there is
 * none, returns false and *number is unchanged or undefined.
 */
bool dtspank_task_number(spank_t spank, const char *name, uint32_t *number);

/* Returns the task's index and the number of the step's tasks on this node.
 * False if Slurm does not say.
 */
bool dtspank_task_local(spank_t spank, uint32_t *rank, uint32_t *tasks);

/* Returns the NodeName of this node for messages; "?" if Slurm does not say. */
const char *dtspank_task_node(spank_t spank);

/* Replaces control characters with "?" in text that also goes to the log of
 * slurmd. Returns text.
 */
char *dtspank_printable(char *text);

#endif /* DTSPANK_TASK_H */
