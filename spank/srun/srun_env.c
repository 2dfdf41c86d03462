/* SPDX-License-Identifier: Apache-2.0 */
/* srun_env.c - variables that srun inherits, and those that it gets from a
 * config */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <slurm/spank.h>

#include "base/str.h"
#include "contract/contract.h"
#include "spank/srun/srun_impl.h"

/* Whether srun itself reads the variable; the others are for our own parts. */
static bool is_input(const char *assignment)
{
    return !dt_str_after(assignment, DT_ENV_PREFIX);
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
        if (set_variable(prefix, list[i]) != 0) {
            slurm_error("disttrain: out of memory");
            return -1;
        }
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

void dtspank_inherited_forget_exported(void)
{
    const char *exported = getenv(DT_ENV_EXPORTED);
    char *list = exported ? strdup(exported) : NULL;
    char *rest = list;
    for (char *name; (name = strsep(&rest, " ")) != NULL;) {
        char *value = strchr(name, '=');
        if (!value)
            continue;
        *value++ = '\0';
        dt_escape_undo(value);
        const char *now = getenv(name);
        if (now && strcmp(now, value) == 0)
            unsetenv(name);
    }
    free(list);
}

void dtspank_inherited_forget_private(void)
{
    char **entry = environ;
    while (*entry) {
        char name[PATH_MAX];
        size_t len = strcspn(*entry, "=");
        if (dt_str_after(*entry, DT_ENV_PREFIX) && (*entry)[len] == '=' &&
            !dt_str_after(*entry, DT_ENV_LAUNCH "=") && len < sizeof(name)) {
            memcpy(name, *entry, len);
            name[len] = '\0';
            unsetenv(name);
            entry = environ;
        } else {
            entry++;
        }
    }
}

static char *submitted; /* NULL: nothing is known */

void dtspank_change_keep(void)
{
    const char *sum = getenv(DT_ENV_SUM);
    free(submitted);
    submitted = sum ? strdup(sum) : NULL;
}

void dtspank_change_leave(const struct dtspank_contract *contract)
{
    for (size_t i = 0; i < contract->srun_count; i++) {
        const char *sum = dt_str_after(contract->srun[i], DT_ENV_SUM "=");
        if (sum)
            setenv(DT_ENV_SUM, sum, 1);
    }
}

void dtspank_change_tell(void)
{
    const char *now = getenv(DT_ENV_SUM);
    const char *path = now ? strchr(now, ':') : NULL;
    const char *then = submitted ? strchr(submitted, ':') : NULL;
    if (path && then && strcmp(path, then) == 0 && strcmp(now, submitted) != 0)
        slurm_spank_log("disttrain: warning: %s has changed since the job "
                        "was submitted: this step uses it as it is now",
                        path + 1);
}

int dtspank_token_make(char token[DT_TOKEN_BYTES])
{
    unsigned char bytes[(DT_TOKEN_BYTES - 1) / 2];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return -1;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}
