/* SPDX-License-Identifier: Apache-2.0 */
/* script.c - writes a batch script from `launch:`, or previews its job */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/proc.h"
#include "contract/contract.h"
#include "contract/variables.h"
#include "slurm/slurm_impl.h"

/* --- the script --- */

/* Prints an #SBATCH line; sbatch parses it much as a shell would. */
static void print_option(const char *option, const char *value, FILE *out)
{
    fprintf(out, "#SBATCH --%s", option);
    if (value) {
        putc('=', out);
        dt_shell_print(value, out);
    }
    putc('\n', out);
}

/* The options of the plugin, which make it read the file again. */
static void print_disttrain(const struct dt_conf *conf, FILE *out)
{
    fputs(" --disttrain=", out);
    dt_shell_print(conf->file, out);
    dt_shell_print_overrides(conf, " --disttrain-set=", out);
}

/* The user's additional options for the job must reach the step as well:
 * otherwise srun would take the sizes from the file, which would contradict the
 * job's.
 */
static void print_of_step(const struct dt_srun_words *extra, FILE *out)
{
    for (const struct dt_setting *s = dt_settings; s->key; s++) {
        size_t n = strlen(s->option);
        for (int i = 0; i < extra->count && s->of_step; i++) {
            const char *word = extra->word[i];
            if (strncmp(word + 2, s->option, n) != 0 || word[2 + n] != '=')
                continue;
            putc(' ', out);
            dt_shell_print(word, out);
        }
    }
}

static void print_srun(const struct dt_script *script,
                       const struct dt_conf *conf, FILE *out)
{
    fputs("srun", out);
    print_of_step(&script->extra, out);
    print_disttrain(conf, out);
    putc('\n', out);
}

/* Prints the command that starts srun again if a step fails. PATH may be
 * another one in the job.
 */
static void print_steps(const struct dt_script *script,
                        const struct dt_conf *conf, FILE *out)
{
    char self[PATH_MAX];
    if (dt_proc_path(self) < 0)
        strcpy(self, program_invocation_name);
    fputs("exec ", out);
    dt_shell_print(self, out);
    fputs(" steps", out);
    dt_shell_print_overrides(conf, " --set ", out);
    putc(' ', out);
    dt_shell_print(conf->file, out);
    fputs(" --", out);
    print_of_step(&script->extra, out);
    putc('\n', out);
}

/* With this sum, srun can say that the file has changed when the job starts. */
static void print_sum(const struct dt_conf *conf, FILE *out)
{
    char *sum = dt_submission_sum(conf);
    if (!sum)
        return;
    fputs("export " DT_ENV_SUM "=", out);
    dt_shell_print(sum, out);
    putc('\n', out);
    free(sum);
}

/* Prints `launch:` as options. The job has its spares, too. */
static void print_settings(const struct dt_script *script,
                           const struct dt_conf *conf, FILE *out)
{
    char number[DT_SETTING_BYTES];
    struct dt_conf job = *conf;
    job.launch.nodes += job.launch.spares;
    for (const struct dt_setting *s = dt_settings; s->key; s++) {
        const char *value = dt_setting_text(&job, s, number);
        if (value && !dt_srun_has(&script->extra, s->option, '\0'))
            print_option(s->option, value, out);
    }
}

void dt_script_print(const struct dt_script *script, const struct dt_conf *conf,
                     FILE *out)
{
    char text[DT_NAME_BYTES + 16], name[DT_NAME_BYTES];
    dt_job_name(conf, name);
    fprintf(out, "#!/bin/bash\n# %s: ", PACKAGE_STRING);
    fputs("disttrain sbatch ", out);
    dt_shell_print(conf->file, out);
    dt_shell_print_overrides(conf, " --set ", out);
    putc('\n', out);
    print_option("job-name", name, out);
    print_settings(script, conf, out);
    if (script->array)
        print_option("array", script->array, out);
    snprintf(text, sizeof(text), "%s-%s.out", name,
             script->array ? "%A_%a" : "%j");
    print_option("output", text, out);
    print_option("open-mode", "append", out);
    print_option(conf->launch.requeue ? "requeue" : "no-requeue", NULL, out);
    if (dt_job_outlives(conf) && !dt_srun_has(&script->extra, "no-kill", 'k'))
        print_option("no-kill", NULL, out);
    for (int i = 0; i < script->extra.count; i++) {
        fputs("#SBATCH ", out);
        dt_shell_print(script->extra.word[i], out);
        putc('\n', out);
    }
    putc('\n', out);
    if (script->with_sum)
        print_sum(conf, out);
    if (conf->launch.max_restarts > 0)
        print_steps(script, conf, out);
    else
        print_srun(script, conf, out);
}

/* --- the preview --- */

enum {
    VARIABLES_MAX = 256,
    RANKS_MAX = 1 << 20,
    PORT = 61000, /* an example, like all ports here */
    CONTEXT = 33, /* bytes before a difference: the task in TF_CONFIG */
};

/* The variables of one rank. */
struct list {
    char *name[VARIABLES_MAX], *value[VARIABLES_MAX];
    bool common[VARIABLES_MAX]; /* the same on all ranks */
    size_t count;
};

struct job {
    const struct dt_conf *conf;
    char *frameworks; /* such as "torch,jax"; NULL: all */
    long nodes, tasks;
    const char **hosts;
    uint32_t *tasks_on;
};

static void clear_list(struct list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->name[i]);
        free(list->value[i]);
    }
    list->count = 0;
}

static int add_variable(struct list *list, const char *name, const char *value,
                        struct dt_error *err)
{
    size_t i = list->count;
    if (i == VARIABLES_MAX)
        return dt_error_set(err, EX_SOFTWARE, "too many variables");
    list->name[i] = strdup(name);
    list->value[i] = strdup(value);
    list->common[i] = true;
    list->count++;
    if (!list->name[i] || !list->value[i])
        return dt_error_set(err, EX_OSERR, "out of memory");
    return 0;
}

static const char *find_variable(const struct list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->name[i], name) == 0)
            return list->value[i];
    return NULL;
}

/* Adds a default unless env: of the file, which is in the list already, sets
 * it.
 */
static int add_default(void *context, const char *name, const char *value,
                       bool fixed, struct dt_error *err)
{
    (void)fixed; /* the configuration cannot set a fixed variable */
    return find_variable(context, name)
               ? 0
               : add_variable(context, name, value, err);
}

static int collect_variables(const struct job *job, long rank,
                             struct list *list, struct dt_error *err)
{
    const struct dt_conf *conf = job->conf;
    char port[16];
    long gpus = conf->launch.gpus_per_node;
    const struct dt_task_facts facts = {
        .rank = (uint32_t)rank,
        .world_size = (uint32_t)(job->nodes * job->tasks),
        .local_rank = (uint32_t)(rank % job->tasks),
        .local_size = (uint32_t)job->tasks,
        .node_rank = (uint32_t)(rank / job->tasks),
        .nodes = (uint32_t)job->nodes,
        .cpus = (uint32_t)conf->launch.cpus_per_task,
        .gpus = gpus == 0              ? -1
                : conf->launch.one_gpu ? 1
                                       : (int)gpus,
        .master_port = PORT,
        .jax_port = PORT + 1,
        .tf_port = PORT + 2,
        .ras_port = PORT + 2 + (unsigned)job->tasks,
        .logs = conf->logging.rank_logs ? conf->logging.dir : NULL,
        .master_addr = job->hosts[0],
        .host = job->hosts[rank / job->tasks],
        .hosts = job->hosts,
        .tasks = job->tasks_on,
    };
    for (size_t i = 0; i < conf->env_count; i++)
        if (add_variable(list, conf->env[i].name, conf->env[i].value, err) < 0)
            return -1;
    if (conf->launch.master_addr &&
        add_variable(list, "MASTER_ADDR", conf->launch.master_addr, err) < 0)
        return -1;
    snprintf(port, sizeof(port), "%ld", conf->launch.master_port);
    if (conf->launch.master_port > 0 &&
        add_variable(list, "MASTER_PORT", port, err) < 0)
        return -1;
    return dt_variables_each(&facts, job->frameworks, add_default, list, err);
}

/* Prints a value; of a long one that begins as rank 0's, the end. All ranks
 * have the list of all ranks in TF_CONFIG.
 */
static void print_value(const char *value, const char *first)
{
    size_t same = 0;
    while (value[same] && value[same] == first[same])
        same++;
    bool cut = value[same] && same > CONTEXT;
    fputs(cut ? "..." : "", stdout);
    dt_shell_print(cut ? value + same - CONTEXT : value, stdout);
}

/* Prints the variables of one rank, or those that all ranks have in common. */
static void print_list(const struct list *list, const struct list *first,
                       bool common, const char *before, const char *after)
{
    for (size_t i = 0; i < list->count; i++) {
        if (first->common[i] != common)
            continue;
        printf("%s%s=", before, list->name[i]);
        print_value(list->value[i], first->value[i]);
        fputs(after, stdout);
    }
}

static int print_ranks(const struct job *job, struct dt_error *err)
{
    long size = job->nodes * job->tasks;
    struct list first = {.count = 0}, list = {.count = 0};
    int rc = collect_variables(job, 0, &first, err);
    for (long rank = 1; rank < size && rc == 0; rank++) {
        rc = collect_variables(job, rank, &list, err);
        for (size_t i = 0; i < first.count && rc == 0; i++)
            if (strcmp(first.value[i], list.value[i]) != 0)
                first.common[i] = false;
        clear_list(&list);
    }
    if (rc == 0) {
        puts("every rank:");
        print_list(&first, &first, true, "    ", "\n");
    }
    for (long rank = 0; rank < size && size > 1 && rc == 0; rank++) {
        rc = collect_variables(job, rank, &list, err);
        if (rc == 0) {
            printf("rank %ld on %s:", rank, job->hosts[rank / job->tasks]);
            print_list(&list, &first, false, " ", "");
            putchar('\n');
        }
        clear_list(&list);
    }
    clear_list(&list);
    clear_list(&first);
    return rc;
}

/* The step of keepers has its spares, too. */
static void print_step(const struct dt_conf *conf)
{
    char number[DT_SETTING_BYTES];
    struct dt_conf step = *conf;
    if (dt_job_outlives(conf))
        step.launch.nodes += conf->launch.spares;
    fputs("srun", stdout);
    for (const struct dt_setting *s = dt_settings; s->key; s++) {
        const char *value = dt_setting_text(&step, s, number);
        if (!value)
            continue;
        printf(" --%s=", s->option);
        dt_shell_print(value, stdout);
    }
    print_disttrain(conf, stdout);
    for (size_t i = 0; i < conf->launch.command.count; i++) {
        putchar(' ');
        dt_shell_print(conf->launch.command.text[i], stdout);
    }
    putchar('\n');
}

/* NCCL reads these files as well, and nobody sees which of their values it
 * uses.
 */
static void print_nccl_files(void)
{
    const char *home = getenv("HOME"), *named = getenv("NCCL_CONF_FILE");
    char path[4096];
    snprintf(path, sizeof(path), "%s/.nccl.conf", home ? home : "");
    const char *const files[] = {named ? named : path, "/etc/nccl.conf"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (access(files[i], R_OK) == 0)
            printf("# NCCL also reads %s on each node\n", files[i]);
}

/* Returns "torch,jax", to be freed; NULL: out of memory. */
static char *join_list(const struct dt_conf_list *list)
{
    size_t bytes = 1;
    for (size_t i = 0; i < list->count; i++)
        bytes += strlen(list->text[i]) + 1;
    char *text = calloc(1, bytes);
    for (size_t i = 0; i < list->count && text; i++) {
        strcat(text, i > 0 ? "," : "");
        strcat(text, list->text[i]);
    }
    return text;
}

static int job_init(struct job *job, const struct dt_conf *conf)
{
    *job = (struct job){.conf = conf,
                        .nodes = conf->launch.nodes,
                        .tasks = conf->launch.ntasks_per_node};
    if (job->nodes == 0)
        job->nodes = 1;
    if (job->tasks == 0)
        job->tasks = 1;
    job->hosts = calloc((size_t)job->nodes, sizeof(job->hosts[0]));
    job->tasks_on = calloc((size_t)job->nodes, sizeof(job->tasks_on[0]));
    bool good = job->hosts && job->tasks_on;
    if (conf->launch.frameworks.count > 0)
        good &= (job->frameworks = join_list(&conf->launch.frameworks)) != NULL;
    for (long i = 0; i < job->nodes && good; i++) {
        char *host;
        good = asprintf(&host, "node%ld", i) > 0;
        job->hosts[i] = good ? host : NULL;
        job->tasks_on[i] = (uint32_t)job->tasks;
    }
    return good ? 0 : -1;
}

static void job_fini(struct job *job)
{
    for (long i = 0; i < job->nodes && job->hosts; i++)
        free((char *)job->hosts[i]);
    free(job->hosts);
    free(job->tasks_on);
    free(job->frameworks);
}

int dt_preview(const struct dt_conf *conf)
{
    struct dt_error err = {.status = EX_OSERR, .text = "out of memory"};
    struct job job;
    if (conf->launch.nodes > RANKS_MAX / (conf->launch.ntasks_per_node + 1)) {
        fprintf(stderr, "disttrain sbatch: more than %d ranks\n", RANKS_MAX);
        return EX_USAGE;
    }
    print_step(conf);
    puts("# node0 ... and the ports are placeholders for those of the job");
    print_nccl_files();
    int rc = job_init(&job, conf);
    if (rc == 0)
        rc = print_ranks(&job, &err);
    job_fini(&job);
    if (rc == 0)
        return EX_OK;
    fprintf(stderr, "disttrain sbatch: %s\n", err.text);
    return err.status;
}
