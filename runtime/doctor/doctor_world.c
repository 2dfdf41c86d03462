/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_world.c - determines which nodes are examined */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "doctor/doctor_world.h"

enum {
    ASK_MS = 5000,
    TEXT_BYTES = 1024 * 1024,
};

static int keep_string(char **to, const char *text, struct dt_error *err)
{
    *to = strdup(text);
    return *to ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
}

/* Returns the nodes of the step if this is one, otherwise those of the job. The
 * numbers of batch, interactive and extern steps are higher than any other.
 */
static const char *own_nodes(void)
{
    const char *step = getenv("SLURM_STEP_ID");
    const char *nodes = getenv("SLURM_STEP_NODELIST");
    if (step && nodes && strtoul(step, NULL, 10) < 0xfffffff0)
        return nodes;
    return getenv("SLURM_JOB_NODELIST");
}

/* Runs a program of Slurm and stores its output. */
static int ask_slurm(char *const argv[], char *text, struct dt_error *err)
{
    int status = dt_child_ask(argv, ASK_MS, text, TEXT_BYTES, err);
    if (status > 0)
        dt_error_set(err, EX_UNAVAILABLE, "%s: exit status %d", argv[0],
                     status);
    else if (status < 0)
        dt_error_prefix(err, "the nodes of a job are examined with Slurm's "
                             "own programs, outside of a container");
    return status == 0 ? 0 : -1;
}

static int ask_nodes(struct dt_doctor_world *world, const char *job,
                     struct dt_error *err)
{
    char which[64];
    char *const argv[] = {"squeue", "--noheader", "--format=%N", which, NULL};
    snprintf(which, sizeof(which), "--%s=%s",
             strchr(job, '.') ? "steps" : "jobs", job);
    if (ask_slurm(argv, world->text, err) < 0)
        return -1;
    world->text[strcspn(world->text, "\n")] = '\0';
    if (world->text[0] == '\0')
        return dt_error_set(err, EX_UNAVAILABLE, "job %s has no nodes", job);
    return keep_string(&world->list, world->text, err);
}

/* Fills job, list, and text with the names, one per line. */
static int find_nodes(struct dt_doctor_world *world, const char *job,
                      struct dt_error *err)
{
    const char *own = getenv("SLURM_JOB_ID");
    char *argv[] = {"scontrol", "show", "hostnames", NULL, NULL};
    if (!job && (!own || !own_nodes())) {
        gethostname(world->text, HOST_NAME_MAX);
        return 0;
    }
    if (keep_string(&world->job, job ? job : own, err) < 0)
        return -1;
    if (job ? ask_nodes(world, job, err) < 0
            : keep_string(&world->list, own_nodes(), err) < 0)
        return -1;
    world->job[strcspn(world->job, ".")] = '\0';
    argv[3] = world->list;
    return ask_slurm(argv, world->text, err);
}

int dt_doctor_world_init(struct dt_doctor_world *world, const char *job,
                         struct dt_error *err)
{
    *world = (struct dt_doctor_world){.text = calloc(1, TEXT_BYTES)};
    if (!world->text)
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (find_nodes(world, job, err) < 0)
        return -1;
    size_t lines = 1;
    for (const char *c = world->text; *c; c++)
        lines += *c == '\n';
    world->names = calloc(lines, sizeof(*world->names));
    if (!world->names)
        return dt_error_set(err, EX_OSERR, "out of memory");
    char *rest = world->text;
    for (char *name; (name = strsep(&rest, "\n")) != NULL;)
        if (name[0])
            world->names[world->count++] = name;
    if (world->count == 0)
        return dt_error_set(err, EX_UNAVAILABLE, "%s: no nodes", world->list);
    return 0;
}

void dt_doctor_world_fini(struct dt_doctor_world *world)
{
    free(world->job);
    free(world->list);
    free(world->text);
    free(world->names);
}

static void add_word(struct dt_doctor_probes *probes, const char *word)
{
    char **end = probes->argv;
    while (*end)
        end++;
    *end = (char *)word;
}

int dt_doctor_probes_init(struct dt_doctor_probes *probes, const char *job,
                          const char *list, size_t count, const char *step,
                          struct dt_error *err)
{
    static const char *const always[] = {
        "--ntasks-per-node=1",  "--overlap", "--mpi=none", "--quiet",
        "--kill-on-bad-exit=0",
    };
    *probes = (struct dt_doctor_probes){.argv = {NULL}};
    if (readlink("/proc/self/exe", probes->self, sizeof(probes->self) - 1) < 0)
        return dt_error_set(err, EX_OSERR, "/proc/self/exe: %s",
                            strerror(errno));
    snprintf(probes->job, sizeof(probes->job), "--jobid=%s", job ? job : "");
    snprintf(probes->nodes, sizeof(probes->nodes), "--nodes=%zu", count);
    snprintf(probes->tasks, sizeof(probes->tasks), "--ntasks=%zu", count);
    snprintf(probes->step, sizeof(probes->step), "--job=%s", step ? step : "");
    if (job) {
        const char *const where[] = {"srun", probes->job,   "--nodelist",
                                     list,   probes->nodes, probes->tasks};
        for (size_t i = 0; i < sizeof(where) / sizeof(*where); i++)
            add_word(probes, where[i]);
        for (size_t i = 0; i < sizeof(always) / sizeof(*always); i++)
            add_word(probes, always[i]);
    }
    add_word(probes, probes->self);
    add_word(probes, "doctor");
    add_word(probes, "--probe");
    if (step) {
        add_word(probes, "--ranks");
        add_word(probes, probes->step);
    }
    return 0;
}
