/* SPDX-License-Identifier: Apache-2.0 */
/* inherited.c - removes inherited variables that the user has not set */
#include "config.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "contract/contract.h"
#include "spank/srun/inherited.h"

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
        if (strncmp(*entry, DT_ENV_PREFIX, strlen(DT_ENV_PREFIX)) == 0 &&
            (*entry)[len] == '=' && len < sizeof(name)) {
            memcpy(name, *entry, len);
            name[len] = '\0';
            unsetenv(name);
            entry = environ;
        } else {
            entry++;
        }
    }
}
