/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c - translates `launch:` into options and variables of Slurm, and
 * holds back the variables of a job to come
 */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/slurm_impl.h"

#define NUMBER(name) offsetof(struct dt_conf, name), false
#define TEXT(name) offsetof(struct dt_conf, name), true
#define PYXIS_IMAGE "SLURM_SPANK__SLURM_SPANK_OPTION_pyxis_container_image"

/* The variable names are those that srun 22.05 to 26.05 reads. The options and
 * variables in the last column make srun fail or warn if they are given as
 * well.
 */
/* clang-format off */
const struct dt_setting dt_settings[] = {
    {"launch.nodes", "nodes", 'N', true, NUMBER(launch.nodes),
     {"SLURM_JOB_NUM_NODES"}, {"w:nodelist", "F:nodefile"}},
    {"launch.ntasks_per_node", "ntasks-per-node", 0, true,
     NUMBER(launch.ntasks_per_node), {"SLURM_NTASKS_PER_NODE"},
     {"n:ntasks", ":ntasks-per-gpu", "SLURM_NTASKS", "SLURM_NPROCS",
      "SLURM_NTASKS_PER_GPU"}},
    {"launch.gpus_per_node", "gpus-per-node", 0, true,
     NUMBER(launch.gpus_per_node), {"SLURM_GPUS_PER_NODE"},
     {"G:gpus", ":gpus-per-task", ":gpus-per-socket", ":gres",
      ":tres-per-task", "SLURM_GPUS", "SLURM_GPUS_PER_TASK", "SLURM_GRES"}},
    {"launch.cpus_per_task", "cpus-per-task", 'c', true,
     NUMBER(launch.cpus_per_task),
     {"SRUN_CPUS_PER_TASK", "SLURM_CPUS_PER_TASK"},
     {":tres-per-task", ":cpus-per-gpu", "SLURM_TRES_PER_TASK",
      "SLURM_CPUS_PER_GPU"}},
    {"launch.mem", "mem", 0, false, TEXT(launch.mem), {"SLURM_MEM_PER_NODE"},
     {":mem-per-cpu", ":mem-per-gpu", "SLURM_MEM_PER_CPU",
      "SLURM_MEM_PER_GPU"}},
    {"launch.partition", "partition", 'p', false, TEXT(launch.partition),
     {"SLURM_PARTITION"}, {0}},
    {"launch.account", "account", 'A', false, TEXT(launch.account),
     {"SLURM_ACCOUNT"}, {0}},
    {"launch.qos", "qos", 'q', false, TEXT(launch.qos), {"SLURM_QOS"}, {0}},
    {"launch.time", "time", 't', false, TEXT(launch.time),
     {"SLURM_TIMELIMIT"}, {0}},
    {"launch.constraint", "constraint", 'C', false, TEXT(launch.constraint),
     {"SLURM_CONSTRAINT"}, {0}},
    {"launch.exclude", "exclude", 'x', false, TEXT(launch.exclude), {0}, {0}},
    {"launch.container", "container-image", 0, true, TEXT(launch.container),
     {PYXIS_IMAGE}, {0}},
    {0},
};
/* clang-format on */

const char *dt_setting_text(const struct dt_conf *conf,
                            const struct dt_setting *setting, char *buffer)
{
    const char *at = (const char *)conf + setting->offset;
    if (setting->is_text)
        return *(char *const *)at;
    if (*(const long *)at == 0)
        return NULL;
    snprintf(buffer, DT_SETTING_BYTES, "%ld", *(const long *)at);
    return buffer;
}

void dt_job_name(const struct dt_conf *conf, char name[DT_NAME_BYTES])
{
    snprintf(name, DT_NAME_BYTES, "%s", conf->run.name);
    char *end = strstr(name, "${");
    while (end && end > name && strchr("-_. ", end[-1]))
        end--;
    if (end)
        *end = '\0';
    for (char *c = name; *c; c++)
        *c = iscntrl((unsigned char)*c) ? ' ' : *c;
    if (name[0] == '\0')
        snprintf(name, DT_NAME_BYTES, "disttrain");
}

void dt_shell_print(const char *word, FILE *out)
{
    if (*word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyz"
                                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789_-+=:,./@%")]) {
        fputs(word, out);
        return;
    }
    putc('\'', out);
    for (; *word; word++)
        fputs(*word == '\'' ? "'\\''" : (const char[]){*word, '\0'}, out);
    putc('\'', out);
}

void dt_shell_print_overrides(const struct dt_conf *conf, const char *option,
                              FILE *out)
{
    for (size_t i = 0; i < conf->overrides.count; i++) {
        fputs(option, out);
        dt_shell_print(conf->overrides.text[i], out);
    }
}

bool dt_srun_has(const struct dt_srun_words *words, const char *option,
                 char letter)
{
    size_t n = strlen(option);
    for (int i = 0; i < words->count; i++) {
        const char *word = words->word[i];
        if (letter && word[0] == '-' && word[1] == letter)
            return true;
        if (strncmp(word, "--", 2) == 0 && strncmp(word + 2, option, n) == 0 &&
            (word[2 + n] == '=' || word[2 + n] == '\0'))
            return true;
    }
    return false;
}

/* --- variables of a job to come --- */

static struct promise {
    const char *name;
    bool array; /* only in the jobs of an array */
    bool made;
    char *before; /* NULL: it was not set */
} promises[] = {
    {.name = "SLURM_CLUSTER_NAME"},
    {.name = "SLURM_JOB_CPUS_PER_NODE"},
    {.name = "SLURM_JOB_ID"},
    {.name = "SLURM_JOBID"},
    {.name = "SLURM_JOB_NAME"},
    {.name = "SLURM_JOB_NODELIST"},
    {.name = "SLURM_NODELIST"},
    {.name = "SLURM_JOB_NUM_NODES"},
    {.name = "SLURM_NNODES"},
    {.name = "SLURM_JOB_PARTITION"},
    {.name = "SLURM_JOB_UID"},
    {.name = "SLURM_JOB_USER"},
    {.name = "SLURM_SUBMIT_DIR"},
    {.name = "SLURM_SUBMIT_HOST"},
    {.name = "SLURM_ARRAY_JOB_ID", .array = true},
    {.name = "SLURM_ARRAY_TASK_COUNT", .array = true},
    {.name = "SLURM_ARRAY_TASK_ID", .array = true},
    {.name = "SLURM_ARRAY_TASK_MAX", .array = true},
    {.name = "SLURM_ARRAY_TASK_MIN", .array = true},
    {.name = "SLURM_ARRAY_TASK_STEP", .array = true},
};

enum { PROMISES = sizeof(promises) / sizeof(promises[0]) };

void dt_promise_begin(bool array)
{
    for (struct promise *p = promises; p < promises + PROMISES; p++) {
        char itself[64];
        const char *value = getenv(p->name);
        if (p->array && !array)
            continue;
        p->before = value ? strdup(value) : NULL;
        snprintf(itself, sizeof(itself), "${%s}", p->name);
        p->made = setenv(p->name, itself, 1) == 0;
    }
}

void dt_promise_end(void)
{
    for (struct promise *p = promises; p < promises + PROMISES; p++) {
        if (p->made && p->before)
            setenv(p->name, p->before, 1);
        else if (p->made)
            unsetenv(p->name);
        free(p->before);
        p->before = NULL;
        p->made = false;
    }
}
