/* SPDX-License-Identifier: Apache-2.0 */
/* apply.c - sets the variables of a contract in the environment of srun */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contract/contract.h"
#include "spank/srun/apply.h"

/* Whether srun itself reads the variable; the others are for our own parts. */
static bool is_input(const char *assignment)
{
    return strncmp(assignment, DT_ENV_PREFIX, strlen(DT_ENV_PREFIX)) != 0;
}

bool dtspank_apply_has_input(const struct dtspank_contract *contract)
{
    for (size_t i = 0; i < contract->srun_count; i++)
        if (is_input(contract->srun[i]))
            return true;
    return false;
}

static int set_variable(const char *prefix, const char *assignment)
{
    char *name = NULL;
    if (asprintf(&name, "%s%s", prefix, assignment) < 0)
        return -1;
    char *equals = strchr(name, '=');
    *equals = '\0';
    int rc = setenv(name, equals + 1, 1);
    free(name);
    return rc;
}

int dtspank_apply_set(const char *prefix, char **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (set_variable(prefix, list[i]) != 0)
            return -1;
    return 0;
}

void dtspank_apply_forget_input(struct dtspank_contract *contract)
{
    for (size_t i = 0; i < contract->srun_count; i++) {
        char *entry = contract->srun[i];
        if (is_input(entry)) {
            entry[strcspn(entry, "=")] = '\0';
            unsetenv(entry);
        }
    }
}
