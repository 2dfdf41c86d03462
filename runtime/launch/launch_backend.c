/* SPDX-License-Identifier: Apache-2.0 */
/* launch_backend.c - what all ways of being started share */
#include "config.h"

#include <stdlib.h>

#include "launch/launch_impl.h"

long dt_launch_env_number(const char *name)
{
    const char *text = getenv(name);
    char *end;
    long value;
    if (!text)
        return -1;
    value = strtol(text, &end, 10);
    return end == text || *end || value < 0 ? -2 : value;
}

int dt_launch_alloc_hosts(struct dt_launch *launch, struct dt_error *err)
{
    launch->hosts = calloc((size_t)launch->size, sizeof(*launch->hosts));
    if (!launch->hosts)
        return dt_error_set(err, EX_OSERR, "launch: no memory for %d ranks",
                            launch->size);
    return 0;
}

void dt_launch_destroy(struct dt_launch *launch)
{
    char **hosts;
    int size;
    if (!launch)
        return;
    hosts = launch->hosts;
    size = launch->size;
    launch->backend->destroy(launch);
    for (int i = 0; hosts && i < size; i++)
        free(hosts[i]);
    free(hosts);
}
