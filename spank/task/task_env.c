/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task_env.c - reads and changes the environment of a task, as Slurm keeps it
 */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spank/task/task_impl.h"

char *dtspank_printable(char *text)
{
    for (char *c = text; *c; c++)
        if (iscntrl((unsigned char)*c))
            *c = '?';
    return text;
}

const char *dtspank_task_getenv(spank_t spank, const char *name)
{
    char **env = NULL;
    size_t len = strlen(name);
    if (spank_get_item(spank, S_JOB_ENV, &env) != ESPANK_SUCCESS || !env)
        return NULL;
    for (; *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

int dtspank_task_setenv(spank_t spank, const char *name, const char *value,
                        struct dt_error *err)
{
    spank_err_t rc = spank_setenv(spank, name, value, 1);
    if (rc != ESPANK_SUCCESS)
        return dt_error_set(err, EX_OSERR, "cannot set %s: %s", name,
                            spank_strerror(rc));
    return 0;
}

bool dtspank_task_number(spank_t spank, const char *name, uint32_t *number)
{
    const char *text = dtspank_task_getenv(spank, name);
    char *end = NULL;
    if (!text || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    *number = (uint32_t)value;
    return errno == 0 && value <= UINT32_MAX && *end == '\0';
}

bool dtspank_task_local(spank_t spank, uint32_t *rank, uint32_t *tasks)
{
    return dtspank_task_number(spank, "SLURM_LOCALID", rank) &&
           spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, tasks) ==
               ESPANK_SUCCESS &&
           *rank < *tasks;
}

const char *dtspank_task_node(spank_t spank)
{
    const char *node = dtspank_task_getenv(spank, "SLURMD_NODENAME");
    return node ? node : "?";
}

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
