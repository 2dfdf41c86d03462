/* SPDX-License-Identifier: Apache-2.0 */
/* inherited.c - the descriptors that a worker has from its keeper */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/inherited.h"

bool dt_inherited_find(struct dt_inherited *found)
{
    const char *text = getenv(DT_INHERITED);
    int end = 0;
    if (!text ||
        sscanf(text, "%d,%d,%d%n", &found->socket, &found->board, &found->state,
               &end) != 3 ||
        text[end] != '\0')
        return false;
    fcntl(found->socket, F_SETFD, FD_CLOEXEC);
    fcntl(found->board, F_SETFD, FD_CLOEXEC);
    fcntl(found->state, F_SETFD, FD_CLOEXEC);
    return true;
}

int dt_inherited_set(const struct dt_inherited *inherited)
{
    char text[64];
    snprintf(text, sizeof(text), "%d,%d,%d", inherited->socket,
             inherited->board, inherited->state);
    return setenv(DT_INHERITED, text, 1);
}
