/* SPDX-License-Identifier: Apache-2.0 */
/* apply.h - sets the variables of a contract in the environment of srun */
#ifndef DTSPANK_APPLY_H
#define DTSPANK_APPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "spank/srun/srun_check.h"

/* Whether the config sets anything that srun itself reads. */
bool dtspank_apply_has_input(const struct dtspank_contract *contract);

/* Sets prefix + NAME for each NAME=value. Fails without memory. */
int dtspank_apply_set(const char *prefix, char **list, size_t count);

/* Unsets what srun itself reads; afterwards the contract has only the names of
 * these variables.
 */
void dtspank_apply_forget_input(struct dtspank_contract *contract);

#endif /* DTSPANK_APPLY_H */
