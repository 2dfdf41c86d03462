/* SPDX-License-Identifier: Apache-2.0 */
/* overrides.c - keeps the values of --set until the configuration is read */
#include "config.h"

#include "cmd/cmd.h"

/* A command has one configuration, and a process one command. */
static struct dt_conf_overrides kept;

const struct dt_conf_overrides *dt_cmd_overrides(void)
{
    return &kept;
}

void dt_cmd_overrides_clear(void)
{
    dt_conf_overrides_fini(&kept);
}

int dt_cmd_overrides_add(const char *word, struct dt_error *err)
{
    return dt_conf_overrides_add(&kept, word, err);
}

int dt_cmd_overrides_inherit(const char *list, struct dt_error *err)
{
    struct dt_conf_overrides all = {0};
    int rc = dt_conf_overrides_decode(&all, list, err);
    for (size_t i = 0; rc == 0 && i < kept.count; i++)
        rc = dt_conf_overrides_add(&all, kept.text[i], err);
    dt_conf_overrides_fini(rc == 0 ? &kept : &all);
    if (rc == 0)
        kept = all;
    return rc;
}
