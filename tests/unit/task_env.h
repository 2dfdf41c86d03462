/* SPDX-License-Identifier: Apache-2.0 */
/* task_env.h - the environment that a task gets from srun and variables.c */
#ifndef TASK_ENV_H
#define TASK_ENV_H

#include <stdbool.h>

#include "contract/variables.h"

/* Rank 11, on the second of two nodes with 8 tasks each. */
extern const struct dt_task_facts rank_11;

/* Removes all variables. */
void forget_env(void);

/* The number of variables. */
int env_count(void);

/* A variable's value, or NULL. */
const char *get(const char *name);

/* Lists all variables in order, one on each line, with "!" after fixed ones. */
void list_env(char *list, size_t size);

/* Stores a variable as the plugin does; each may be set only once. */
int set(void *context, const char *name, const char *value, bool fixed,
        struct dt_error *err);

/* Sets the environment of a task under srun. */
void start(const struct dt_task_facts *facts, const char *frameworks);

/* A teardown that removes all variables. */
int teardown(void **state);

#endif /* TASK_ENV_H */
