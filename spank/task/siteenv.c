/* SPDX-License-Identifier: Apache-2.0 */
/* siteenv.c - sets the site's variables in tasks */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spank/task/siteenv.h"
#include "spank/task/task.h"

enum {
    PARTITION_BYTES = 256,
};

static int export_entry(spank_t spank, const char *entry, bool force,
                        struct dt_error *err)
{
    int rc = 0;
    uint32_t rank = 0;
    const char *value = strchr(entry, '=') + 1;
    char *name = strndup(entry, (size_t)(value - 1 - entry));
    if (!name)
        return dt_error_set(err, EX_OSERR, "out of memory");
    const char *jobs = dtspank_task_getenv(spank, name);
    bool differs = jobs && strcmp(jobs, value) != 0;
    if (!jobs || (force && differs))
        rc = dtspank_task_setenv(spank, name, value, err);
    if (force && differs && dtspank_task_number(spank, "SLURM_PROCID", &rank) &&
        rank == 0)
        slurm_spank_log("disttrain: %s of the job is not used: this site has "
                        "its own value",
                        name);
    free(name);
    return rc;
}

static int export_all(spank_t spank, const struct dtspank_siteconf *conf,
                      bool force, struct dt_error *err)
{
    char partition[PARTITION_BYTES];
    const char *value = dtspank_task_getenv(spank, "SLURM_JOB_PARTITION");
    const char *entry;
    int at = 0;
    snprintf(partition, sizeof(partition), "%s", value ? value : "");
    while ((entry = dtspank_siteconf_variable(conf, force ? "force" : "env",
                                              partition, &at)) != NULL)
        if (export_entry(spank, entry, force, err) != 0)
            return -1;
    return 0;
}

/* force= comes first, so that it does not take a value of env= for the job's.
 */
int dtspank_siteenv_export(spank_t spank, const struct dtspank_siteconf *conf,
                           struct dt_error *err)
{
    if (export_all(spank, conf, true, err) != 0)
        return -1;
    return export_all(spank, conf, false, err);
}
