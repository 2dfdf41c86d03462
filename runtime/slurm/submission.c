/* SPDX-License-Identifier: Apache-2.0 */
/* submission.c - prints the keys of a config that the Slurm plugin needs */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/file.h"
#include "contract/contract.h"
#include "slurm/slurm_impl.h"

enum {
    CONFIG_BYTES = 16 << 20,
    JOB_BYTES = 64,
};

struct printer {
    const struct dt_conf *conf;
    const char *file;
    const struct dt_srun_words *words;
    const char *job; /* the job that srun runs in, for messages; or NULL */
    struct dt_slurm_size size; /* of that job */
    bool keeps;                /* tasks become keepers */
    const char *nodes;         /* what launch.nodes of conf counts */
    FILE *out;
    int status;
};

/* Prints a value on one line, escaped as contract/contract.h specifies. */
static void print_escaped(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (*text == '\\' || *text == '\n')
            putc('\\', out);
        putc(*text == '\n' ? 'n' : *text, out);
    }
}

static void print_line(struct printer *p, const char *kind, const char *name,
                       const char *value)
{
    fprintf(p->out, "%s%s=", kind, name);
    print_escaped(value, p->out);
    putc('\n', p->out);
}

static void print_srun(struct printer *p, const char *name, const char *value)
{
    print_line(p, DT_CONTRACT_SRUN, name, value);
}

__attribute__((format(printf, 3, 4))) static void report_problem(
    struct printer *p, const char *key, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    p->status = dt_conf_print_problem(p->conf, p->file, key, text, stderr);
}

__attribute__((format(printf, 3, 4))) static void print_warning(
    const struct printer *p, const char *key, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    fputs("warning: ", stderr);
    dt_conf_print_problem(p->conf, p->file, key, text, stderr);
}

/* Whether srun's command line or, outside of a job, the user's environment has
 * already set it.
 */
static bool is_settled(const struct printer *p, const struct dt_setting *s)
{
    if (dt_srun_has(p->words, s->option, s->letter))
        return true;
    for (const char *const *v = s->variables; *v && !p->job; v++)
        if (getenv(*v))
            return true;
    for (const char *const *o = s->others; *o; o++) {
        const char *colon = strchr(*o, ':');
        if (colon
                ? dt_srun_has(p->words, colon + 1, colon > *o ? (*o)[0] : '\0')
                : !p->job && getenv(*o) != NULL)
            return true;
    }
    return false;
}

static bool is_settled_key(const struct printer *p, const char *key)
{
    const struct dt_setting *s = dt_settings;
    while (strcmp(s->key, key) != 0)
        s++;
    return is_settled(p, s);
}

/* Reports a problem if the file says `wanted` but the job `has` something else
 * (0: unknown).
 */
static void check_equal(struct printer *p, const char *key, long wanted,
                        long has, const char *what)
{
    if (wanted > 0 && has > 0 && wanted != has && !is_settled_key(p, key))
        report_problem(p, key, "%ld %s, but %s has %ld", wanted, what, p->job,
                       has);
}

/* The same for sizes that the file has per node, and the job in total. */
static void check_total(struct printer *p, const char *key, long wanted,
                        long has, const char *what)
{
    long nodes = p->size.nodes ? p->size.nodes : p->conf->launch.nodes;
    if (has == 0 || nodes == 0 || wanted == 0)
        return;
    if (has % nodes == 0)
        check_equal(p, key, wanted, has / nodes, what);
    else if (!is_settled_key(p, "launch.nodes") && !is_settled_key(p, key))
        report_problem(p, key, "%ld %s are %ld on %ld nodes, but %s has %ld",
                       wanted, what, wanted * nodes, nodes, p->job, has);
}

/* Refuses an srun whose nodes are those that are to have ranks: its last ones
 * would be the spares.
 */
static void check_spares(struct printer *p)
{
    const struct dt_conf *conf = p->conf;
    const long spares = conf->launch.spares;
    struct dt_slurm_size asked;
    dt_request_read_step(p->words, &asked);
    if (asked.nodes > spares && asked.nodes < conf->launch.nodes)
        report_problem(p, "launch.spares",
                       "%ld of the %ld nodes of --nodes, so that ranks have "
                       "%ld, and not the %ld of launch.nodes: give "
                       "--nodes=%ld, or --disttrain-set=launch.spares=0",
                       spares, asked.nodes, asked.nodes - spares,
                       conf->launch.nodes - spares, conf->launch.nodes);
    dt_slurm_size_fini(&asked);
}

/* Names the sizes that sbatch or salloc is not asked for. The job gets one node
 * for sure, and the rest only where jobs get whole nodes, as on many clusters.
 */
static void check_open(struct printer *p)
{
    static const char more[] =
        "but this job does not ask for them: unless it gets whole nodes, add";
    const struct dt_conf *conf = p->conf;
    const struct dt_slurm_size *size = &p->size;
    long nodes = conf->launch.nodes;
    long ranks = conf->launch.ntasks_per_node;
    long cpus = conf->launch.cpus_per_task;
    long gpus = conf->launch.gpus_per_node;
    if (size->one_node && nodes > 1)
        report_problem(p, "launch.nodes",
                       "%ld %s, but %s asks for one: add --nodes=%ld", nodes,
                       p->nodes, p->job, nodes);
    if (size->any_nodes && nodes > 0)
        print_warning(p, "launch.nodes",
                      "%ld %s, but %s may get another number: add "
                      "--nodes=%ld",
                      nodes, p->nodes, p->job, nodes);
    if (size->no_ranks && ranks > 1)
        print_warning(p, "launch.ntasks_per_node",
                      "%ld ranks a node, %s --ntasks-per-node=%ld", ranks, more,
                      ranks);
    if (size->no_cpus && cpus > 1)
        print_warning(p, "launch.cpus_per_task",
                      "%ld CPUs a rank, %s --cpus-per-task=%ld", cpus, more,
                      cpus);
    if (size->no_gpus && gpus > 0)
        print_warning(p, "launch.gpus_per_node",
                      "%ld GPUs a node, %s --gpus-per-node=%ld", gpus, more,
                      gpus);
}

/* In a job, srun uses the job's sizes or mixes both, so they must be the same.
 */
static void check_allocation(struct printer *p)
{
    const struct dt_conf *conf = p->conf;
    const struct dt_slurm_size *size = &p->size;
    long ranks = conf->launch.ntasks_per_node;
    long cpus = conf->launch.cpus_per_task;
    long gpus = conf->launch.gpus_per_node;
    check_equal(p, "launch.nodes", conf->launch.nodes, size->nodes, p->nodes);
    if (size->ranks > 0)
        check_total(p, "launch.ntasks_per_node", ranks, size->ranks,
                    "ranks a node");
    else
        check_equal(p, "launch.ntasks_per_node", ranks, size->ranks_per_node,
                    "ranks a node");
    if (size->gpus_per_node == 0)
        check_total(p, "launch.gpus_per_node", gpus, size->gpus, "GPUs a node");
    check_equal(p, "launch.gpus_per_node", gpus, size->gpus_per_node,
                "GPUs a node");
    check_equal(p, "launch.cpus_per_task", cpus, size->cpus_per_rank,
                "CPUs a rank");
    if (size->cpus_per_node > 0 && ranks * cpus > size->cpus_per_node &&
        !is_settled_key(p, "launch.ntasks_per_node") &&
        !is_settled_key(p, "launch.cpus_per_task"))
        report_problem(p, "launch.cpus_per_task",
                       "%ld ranks of %ld CPUs are %ld a node, but %s has %ld",
                       ranks, cpus, ranks * cpus, p->job, size->cpus_per_node);
    if (conf->launch.partition && size->partition &&
        strcmp(conf->launch.partition, size->partition) != 0)
        print_warning(p, "launch.partition", "%s, but %s is in %s",
                      conf->launch.partition, p->job, size->partition);
    check_open(p);
}

const char *dt_submission_shared(const struct dt_conf *conf)
{
    const char *dir = conf->run.output_dir;
    return conf->trains && !strstr(dir, "${SLURM_ARRAY_TASK_ID}") &&
                   !strstr(dir, "${SLURM_JOB_ID}")
               ? "the same for all jobs of the array: make "
                 "${SLURM_ARRAY_TASK_ID} part of it"
               : NULL;
}

/* Whether a word of srun's command is this program. */
static bool is_program(const char *word)
{
    const char *slash = strrchr(word, '/');
    return strcmp(slash ? slash + 1 : word, program_invocation_short_name) == 0;
}

/* Whether srun's command, which may be the one that it adds, becomes a keeper.
 */
static bool keeps(const struct dt_conf *conf,
                  const struct dt_srun_words *command)
{
    char *const *word = command->word;
    if (command->count > 0 && !is_program(word[0]))
        return false;
    if (command->count > 1 && strcmp(word[1], "keep") == 0)
        return true;
    return dt_job_is_kept(conf) &&
           (command->count <= 1 || strcmp(word[1], "train") == 0);
}

/* Whether srun's command trains as this file says. */
static bool trains(const struct printer *p, const struct dt_srun_words *command)
{
    char *const *word = command->word;
    int count = command->count;
    if (count == 0)
        return true;
    if (!is_program(word[0]))
        return false;
    return count == 1 || (strcmp(word[1], "train") == 0 &&
                          (count == 2 || strcmp(word[2], p->file) == 0));
}

/* Warns of what the command of srun, another program, does not look at. */
static void tell_unread(const struct printer *p,
                        const struct dt_srun_words *command)
{
    const char *text = dt_conf_trained_override(p->conf);
    for (int i = 0; i < command->count; i++)
        if (is_program(command->word[i]))
            return;
    if (p->conf->launch.keeper == DT_CONF_KEEPER_ON && command->count > 0)
        print_warning(p, "launch.keeper",
                      "on keeps launch.command only; write: disttrain keep %s",
                      command->word[0]);
    if (text && command->count > 0)
        fprintf(stderr,
                "warning: --set: %s: only disttrain reads it, and the command "
                "is %s\n",
                text, command->word[0]);
}

/* Warns of variables in the shell that srun was started from. */
static void lint_environment(const struct printer *p)
{
    for (char **entry = environ; *entry; entry++) {
        char name[64];
        size_t len = strcspn(*entry, "=");
        bool refused = false;
        if ((*entry)[len] != '=' || len >= sizeof(name))
            continue;
        memcpy(name, *entry, len);
        name[len] = '\0';
        if (p->job && strcmp(name, "CUDA_VISIBLE_DEVICES") == 0)
            continue; /* Slurm sets it */
        const char *text = dt_conf_lint_variable(
            name, *entry + len + 1, false, p->conf->launch.nodes, &refused);
        if (text && !refused)
            fprintf(stderr, "warning: environment: %s: %s\n", name, text);
    }
}

/* Whether the contract includes the variable. Outside of a job it includes all,
 * as defaults. In a job, the job's own variables are already set and agree with
 * the file by now; a step's GPUs are those of its job.
 */
static bool is_included(const struct printer *p, const struct dt_setting *s,
                        const char *variable)
{
    if (!p->job)
        return true;
    return s->of_step && !getenv(variable) &&
           strcmp(variable, "SLURM_GPUS_PER_NODE") != 0 &&
           !(strcmp(variable, "SLURM_NTASKS_PER_NODE") == 0 &&
             getenv("SLURM_NTASKS"));
}

static void print_settings(struct printer *p)
{
    char number[DT_SETTING_BYTES];
    for (const struct dt_setting *s = dt_settings; s->key; s++) {
        const char *value = dt_setting_text(p->conf, s, number);
        if (!value || is_settled(p, s))
            continue;
        if (!s->variables[0] && !p->job)
            print_warning(p, s->key, "no effect on srun: give it --%s=%s",
                          s->option, value);
        for (const char *const *v = s->variables; *v; v++)
            if (is_included(p, s, *v))
                print_srun(p, *v, value);
    }
}

/* In a job, srun takes no name of a step from a variable. */
static void print_name(struct printer *p)
{
    char name[DT_NAME_BYTES];
    if (p->job || !dt_conf_given(p->conf, "run.name") ||
        getenv("SLURM_JOB_NAME"))
        return;
    dt_job_name(p->conf, name);
    print_srun(p, "SLURM_JOB_NAME", name);
}

/* Prints a list. Its words are escaped individually, and then again as part of
 * a line.
 */
static void print_list(struct printer *p, const char *name,
                       const struct dt_conf_list *list, const char *separator)
{
    if (list->count == 0)
        return;
    fprintf(p->out, DT_CONTRACT_SRUN "%s=", name);
    for (size_t i = 0; i < list->count; i++) {
        fputs(i > 0 ? separator : "", p->out);
        for (const char *c = list->text[i]; *c; c++)
            if (*c == '\\' || *c == '\n')
                fputs(*c == '\n' ? "\\\\n" : "\\\\\\\\", p->out);
            else
                putc(*c, p->out);
    }
    putc('\n', p->out);
}

static void print_step(struct printer *p)
{
    const struct dt_conf *conf = p->conf;
    char number[64];
    print_list(p, DT_ENV_FRAMEWORKS, &conf->launch.frameworks, ",");
    print_list(p, DT_ENV_COMMAND, &conf->launch.command, "\\n");
    if (dt_job_is_kept(conf)) {
        snprintf(number, sizeof(number), "%ld",
                 conf->launch.max_worker_restarts);
        print_srun(p, DT_ENV_KEEPER, number);
    }
    if (p->keeps)
        print_srun(p, DT_ENV_KEPT, "1");
    if (dt_job_outlives(conf) && p->keeps) {
        snprintf(number, sizeof(number), "%ld %ld", conf->launch.spares,
                 conf->launch.min_ranks);
        print_srun(p, DT_ENV_SPARES, number);
        print_srun(p, DT_ENV_OUTLIVES, "1");
    }
    if (conf->launch.one_gpu)
        print_srun(p, DT_ENV_GPU_VISIBILITY, "one");
    if (conf->launch.no_cpu_bind)
        print_srun(p, DT_ENV_CPU_BIND, "none");
    if (conf->launch.requeue) {
        snprintf(number, sizeof(number), "%ld", conf->launch.max_requeues);
        print_srun(p, DT_ENV_REQUEUE, number);
    }
    if (dt_conf_given(conf, "launch.hang_timeout")) {
        snprintf(number, sizeof(number), "%ld%s", conf->launch.hang_timeout_s,
                 conf->launch.hang_ends ? " end" : "");
        print_srun(p, DT_ENV_HANG, number);
    }
    if (!conf->launch.job_comment)
        print_srun(p, DT_ENV_JOB_COMMENT, "no");
    if (conf->launch.preflight)
        print_srun(p, DT_ENV_PREFLIGHT, "1");
    if (conf->logging.console_ranks)
        print_srun(p, DT_ENV_CONSOLE_RANKS, conf->logging.console_ranks);
    if (conf->logging.rank_logs)
        print_srun(p, DT_ENV_RANK_LOGS, conf->logging.dir);
    if (conf->trains && conf->logging.to_jsonl && !conf->training.eval_only)
        print_srun(p, DT_ENV_RUN, conf->logging.dir);
    if (conf->launch.signal_number > 0) {
        snprintf(number, sizeof(number), "%d@%ld%s", conf->launch.signal_number,
                 conf->launch.signal_s,
                 conf->launch.signal_measured ? " measured" : "");
        print_srun(p, DT_ENV_SIGNAL, number);
    }
}

static void print_env(struct printer *p)
{
    const struct dt_conf *conf = p->conf;
    char number[DT_SETTING_BYTES];
    if (conf->launch.master_addr)
        print_line(p, DT_CONTRACT_ENV, "MASTER_ADDR", conf->launch.master_addr);
    if (conf->launch.master_port > 0) {
        snprintf(number, sizeof(number), "%ld", conf->launch.master_port);
        print_line(p, DT_CONTRACT_ENV, "MASTER_PORT", number);
    }
    for (size_t i = 0; i < conf->env_count; i++)
        print_line(p, DT_CONTRACT_ENV, conf->env[i].name, conf->env[i].value);
}

/* Continues the hash *sum with the text of a file. False: it cannot be read. */
static bool add_to_sum(const char *path, uint64_t *sum)
{
    char *text = dt_file_read(path, CONFIG_BYTES, NULL);
    if (!text)
        return false;
    *sum = XXH3_64bits_withSeed(text, strlen(text), *sum);
    free(text);
    return true;
}

char *dt_submission_sum(const struct dt_conf *conf)
{
    const char *deepspeed = conf->distributed.deepspeed_config;
    char *text;
    uint64_t sum = 0;
    if ((deepspeed && !add_to_sum(deepspeed, &sum)) ||
        !add_to_sum(conf->file, &sum) ||
        asprintf(&text, "%016" PRIx64 ":%s", sum, conf->file) < 0)
        return NULL;
    return text;
}

/* See DT_ENV_SUM. */
static void print_sum(struct printer *p)
{
    char *sum = dt_submission_sum(p->conf);
    if (sum)
        print_srun(p, DT_ENV_SUM, sum);
    free(sum);
}

/* Prints the contract, with the sum in a job or before the job exists. */
static void print_all(struct printer *p, bool with_sum)
{
    const struct dt_conf *conf = p->conf;
    const char *runs = conf->launch.command.count > 0 ? "command"
                       : conf->trains                 ? "train"
                                                      : "nothing";
    fputs(DT_CONTRACT_VERSION_LINE "\n" DT_CONTRACT_CONFIG, p->out);
    print_escaped(conf->file, p->out);
    fprintf(p->out, "\n" DT_CONTRACT_RUNS "%s\n", runs);
    print_name(p);
    print_settings(p);
    print_step(p);
    if (getenv(DT_ENV_WARNED))
        print_srun(p, DT_ENV_WARNED, getenv(DT_ENV_WARNED));
    if (with_sum)
        print_sum(p);
    print_env(p);
}

/* Finds the size of the job and how messages name it; NULL: there is none. */
static const char *find_job(const char *script,
                            const struct dt_srun_words *words,
                            char job[JOB_BYTES], struct dt_slurm_size *size)
{
    const char *id = getenv("SLURM_JOB_ID");
    *size = (struct dt_slurm_size){0};
    if (script)
        return dt_request_read(script, words, size) ? "this job" : NULL;
    if (!id)
        return NULL;
    dt_slurm_size_read(size);
    snprintf(job, JOB_BYTES, "job %s", id);
    return job;
}

int dt_submission_print(struct dt_conf *conf, const char *file,
                        const struct dt_srun_words *words,
                        const struct dt_srun_words *command, const char *script)
{
    static const struct dt_srun_words none;
    char job[JOB_BYTES];
    char *text = NULL;
    size_t bytes = 0;
    struct dt_conf step = *conf;
    struct printer p = {.conf = &step,
                        .file = file,
                        .words = script ? &none : words,
                        .keeps = !script && keeps(conf, command),
                        .nodes = "nodes",
                        .out = open_memstream(&text, &bytes)};
    if (!p.out)
        return EX_OSERR;
    p.job = find_job(script, words, job, &p.size);
    const long nodes = conf->launch.nodes + conf->launch.spares;
    if (conf->launch.spares > 0 &&
        (script || (p.keeps && dt_job_outlives(conf)) ||
         p.size.nodes == nodes)) { /* of other commands in the job, too */
        step.launch.nodes = nodes;
        p.nodes = "nodes with launch.spares";
    }
    if (p.keeps && conf->launch.spares > 0 && dt_job_outlives(conf))
        check_spares(&p);
    if (p.job)
        check_allocation(&p);
    if (p.size.array_together && dt_submission_shared(conf))
        print_warning(&p, "run.output_dir", "%s", dt_submission_shared(conf));
    if (p.status == EX_OK && script)
        p.status = dt_world_check(conf, dt_world_job(conf, &p.size));
    else if (p.status == EX_OK && trains(&p, command))
        p.status = dt_world_check(conf, dt_world_srun(conf, words));
    if (!script)
        tell_unread(&p, command);
    lint_environment(&p);
    print_all(&p, script || p.job);
    if (ferror(p.out))
        p.status = EX_OSERR;
    if (fclose(p.out) != 0 || !text)
        p.status = EX_OSERR;
    if (p.status == EX_OK && bytes > DT_CONTRACT_BYTES) {
        fprintf(stderr, "%s: env: more than %d bytes\n", file,
                DT_CONTRACT_BYTES);
        p.status = EX_CONFIG;
    }
    if (p.status == EX_OK)
        fwrite(text, 1, bytes, stdout);
    dt_slurm_size_fini(&p.size);
    free(text);
    return p.status;
}
