/* SPDX-License-Identifier: Apache-2.0 */
/* task_step.c - sets RANK, WORLD_SIZE, MASTER_ADDR and the like in each task */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <slurm/slurm.h>

#include "base/str.h"
#include "contract/contract.h"
#include "contract/variables.h"
#include "spank/options.h"
#include "spank/siteconf.h"
#include "spank/task/task_impl.h"
#include "spank/task/task_step.h"

enum {
    EXPORTED_BYTES = DT_VARIABLE_BYTES + 16384,
};

static struct {
    struct dtspank_siteconf conf;
    bool active;                /* with --disttrain; known from user_init on */
    bool heterogeneous;         /* likewise */
    struct dt_error conf_error; /* empty text: none */
} step;

struct export
{
    spank_t spank;
    size_t used;
    char list[EXPORTED_BYTES]; /* "NAME=value NAME=value" */
};

/* Appends a character; false: the list is full. */
static bool export_char(struct export *export, char c)
{
    bool fits = export->used + 1 < sizeof(export->list);
    if (fits)
        export->list[export->used++] = c;
    return fits;
}

/* Appends NAME=value, escaped as DT_ENV_EXPORTED specifies. */
static bool export_entry(struct export *export, const char *name,
                         const char *value)
{
    bool fits = export->used == 0 || export_char(export, ' ');
    for (; *name; name++)
        fits = fits && export_char(export, *name);
    fits = fits && export_char(export, '=');
    for (; *value && fits; value++) {
        char c = *value == ' ' ? 's' : *value == '\n' ? 'n' : *value;
        if (c != *value || c == '\\')
            fits = export_char(export, '\\');
        fits = fits && export_char(export, c);
    }
    return fits;
}

/* Sets a variable of the table and adds it to the list of our variables. If the
 * user has set a fixed variable to something else, that is an error; any other
 * variable stays as the user set it, empty or not.
 */
static int export_variable(void *context, const char *name, const char *value,
                           bool fixed, struct dt_error *err)
{
    struct export *export = context;
    const char *users = dtspank_task_getenv(export->spank, name);
    if (users && (!fixed || strcmp(users, value) == 0))
        return 0;
    if (users && users[0] != '\0')
        return dt_error_set(err, EX_USAGE,
                            "the environment has %s=%.32s, but this task has "
                            "%s; unset %s before srun",
                            name, users, value, name);
    if (!export_entry(export, name, value))
        return dt_error_set(err, EX_SOFTWARE, "%s: too many variables", name);
    return dtspank_task_setenv(export->spank, name, value, err);
}

/* Slurm leaves the number that srun or the job was given, even where the nodes
 * of this step have other numbers. It is not the user's then.
 */
static void forget_stale_shape(spank_t spank, const struct dt_task_facts *facts)
{
    static const char name[] = "SLURM_NTASKS_PER_NODE";
    uint32_t each = 0;
    bool holds =
        dtspank_task_number(spank, name, &each) && each == facts->local_size;
    for (uint32_t i = 0; facts->tasks && i < facts->nodes; i++)
        holds = holds && facts->tasks[i] == each;
    if (!holds)
        spank_unsetenv(spank, name);
}

static int export_facts(spank_t spank, const struct dt_task_facts *facts,
                        struct dt_error *err)
{
    struct export export = {.spank = spank};
    const char *frameworks = dtspank_task_getenv(spank, DT_ENV_FRAMEWORKS);
    forget_stale_shape(spank, facts);
    if (dt_variables_each(facts, frameworks, export_variable, &export, err) !=
        0)
        return -1;
    return dtspank_task_setenv(spank, DT_ENV_EXPORTED, export.list, err);
}

/* Rank 0 checks that no other program has the port, before the other ranks
 * connect to it. A torchelastic agent holds it on purpose.
 */
static int test_master_port(spank_t spank, const struct dt_task_facts *facts,
                            struct dt_error *err)
{
    const char *agent =
        dtspank_task_getenv(spank, "TORCHELASTIC_USE_AGENT_STORE");
    if (facts->rank != 0 || facts->master_port == 0 ||
        facts->master_port > UINT16_MAX ||
        (agent && strcmp(agent, "True") == 0))
        return 0;
    return dtspank_port_test("MASTER_PORT", facts->master_port, err);
}

/* Whether a list such as "torch,jax" has the name. */
static bool list_names(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = list; p; p = strchr(p, ','), p = p ? p + 1 : NULL)
        if (strncmp(p, name, len) == 0 && (p[len] == ',' || p[len] == '\0'))
            return true;
    return false;
}

/* Tests the ports that only one framework uses. A taken port ends the task only
 * if launch.frameworks names that framework: other programs do not need it.
 */
static int test_framework_ports(spank_t spank,
                                const struct dt_task_facts *facts,
                                struct dt_error *err)
{
    const struct {
        const char *variable, *framework;
        unsigned port; /* 0: none, or another task tests it */
    } ports[] = {
        {"JAX_COORDINATOR_PORT", "jax", facts->rank == 0 ? facts->jax_port : 0},
        {"TF_CONFIG", "tensorflow",
         facts->tf_port > 0 ? facts->tf_port + facts->local_rank : 0},
        {"NCCL_RAS_ADDR", NULL, facts->local_rank == 0 ? facts->ras_port : 0},
    };
    const char *list = dtspank_task_getenv(spank, DT_ENV_FRAMEWORKS);
    for (size_t i = 0; i < sizeof(ports) / sizeof(*ports); i++) {
        const char *framework = ports[i].framework;
        bool named = framework && list && list_names(list, framework);
        if (ports[i].port == 0 || ports[i].port > UINT16_MAX ||
            (framework && list && !named) ||
            dtspank_task_getenv(spank, ports[i].variable) ||
            dtspank_port_test(ports[i].variable, ports[i].port, err) == 0)
            continue;
        if (named)
            return -1;
        slurm_spank_log("disttrain: warning: rank %u: %s", facts->rank,
                        err->text);
    }
    return 0;
}

static int test_ports(spank_t spank, const struct dt_task_facts *facts,
                      struct dt_error *err)
{
    if (dtspank_siteconf_off(&step.conf, DTSPANK_PORTS))
        return 0;
    if (test_master_port(spank, facts, err) != 0)
        return -1;
    return test_framework_ports(spank, facts, err);
}

static int export_variables(spank_t spank, struct dt_error *err)
{
    struct dtspank_facts facts;
    if (dtspank_facts_collect(spank, &step.conf, &facts, err) != 0)
        return -1;
    int rc = test_ports(spank, &facts.task, err);
    if (rc == 0)
        rc = export_facts(spank, &facts.task, err);
    dtspank_facts_fini(&facts);
    return rc;
}

/* Moves one `env:` entry from its carrier to its own name. A value that the
 * user has in the environment stays; rank 0 says so, without the values, which
 * may be secret.
 */
static int unpack_entry(spank_t spank, char *entry, struct dt_error *err)
{
    char *equals = strchr(entry, '=');
    *equals = '\0';
    char *name = entry + strlen(DT_ENV_CARRY);
    const char *value = equals + 1;
    spank_err_t rc = spank_unsetenv(spank, entry);
    if (rc != ESPANK_SUCCESS)
        return dt_error_set(err, EX_OSERR, "cannot unset %.64s: %s", entry,
                            spank_strerror(rc));
    const char *users = dtspank_task_getenv(spank, name);
    if (!users)
        return dtspank_task_setenv(spank, name, value, err);
    uint32_t rank = 0;
    if (strcmp(users, value) != 0 &&
        dtspank_task_number(spank, "SLURM_PROCID", &rank) && rank == 0)
        slurm_spank_log(
            "disttrain: env: %s of the configuration is not used: the "
            "environment has another value",
            dtspank_printable(name));
    return 0;
}

/* Removing an entry moves the next one to the same index. */
static int unpack_env(spank_t spank, struct dt_error *err)
{
    char **env = NULL;
    size_t i = 0;
    while (spank_get_item(spank, S_JOB_ENV, &env) == ESPANK_SUCCESS && env &&
           env[i]) {
        if (!dt_str_after(env[i], DT_ENV_CARRY) || !strchr(env[i], '=')) {
            i++;
            continue;
        }
        char *entry = strdup(env[i]);
        if (!entry)
            return dt_error_set(err, EX_OSERR, "out of memory");
        int rc = unpack_entry(spank, entry, err);
        free(entry);
        if (rc != 0)
            return -1;
    }
    return 0;
}

int dtspank_step_init(spank_t spank, int ac, char **av)
{
    if (dtspank_siteconf_parse(ac, av, &step.conf, &step.conf_error) != 0)
        slurm_error("disttrain: %s", dtspank_printable(step.conf_error.text));
    return dtspank_options_register(spank, NULL, NULL);
}

/* False for the step of a batch script, an interactive shell or adopted
 * processes.
 */
static bool is_srun_step(spank_t spank)
{
    uint32_t id = 0;
    return spank_get_item(spank, S_JOB_STEPID, &id) == ESPANK_SUCCESS &&
           id <= SLURM_MAX_NORMAL_STEP_ID;
}

static int take_ports(spank_t spank, struct dt_error *err)
{
    const char *range = dtspank_task_getenv(spank, DT_ENV_PORTS);
    return range ? dtspank_siteconf_set_ports(&step.conf, range, err) : 0;
}

static int export_site_env(spank_t spank, struct dt_error *err)
{
    return dtspank_siteenv_export(spank, &step.conf, err);
}

static int check_program(spank_t spank, struct dt_error *err)
{
    return dtspank_program_check(spank, step.conf.runtime, err);
}

static int warn_mpi(spank_t spank, struct dt_error *err)
{
    (void)err;
    dtspank_program_warn_mpi(spank, step.conf.runtime);
    return 0;
}

static int start_watch(spank_t spank, struct dt_error *err)
{
    (void)err;
    dtspank_watch_start(spank, step.conf.runtime);
    return 0;
}

/* Keepers that have lost srun end its job as srun's part of the plugin would.
 */
static int bind_keepers(spank_t spank, struct dt_error *err)
{
    (void)err;
    if (dtspank_siteconf_off(&step.conf, DTSPANK_REQUEUE))
        spank_unsetenv(spank, DT_ENV_REQUEUE);
    if (dtspank_siteconf_off(&step.conf, DTSPANK_SIGNAL))
        spank_unsetenv(spank, DT_ENV_SIGNAL);
    return 0;
}

/* The actions of each task of an active step, in this order, except for parts
 * that the site has turned off (DTSPANK_PART_COUNT: cannot be turned off). The
 * first failure ends the task.
 */
static const struct task_step {
    int (*run)(spank_t spank, struct dt_error *err);
    enum dtspank_part part;
} task_steps[] = {
    {dtspank_record_start, DTSPANK_CONSOLE},
    {check_program, DTSPANK_PART_COUNT},
    {bind_keepers, DTSPANK_PART_COUNT},
    {unpack_env, DTSPANK_PART_COUNT},
    {export_site_env, DTSPANK_PART_COUNT},
    {dtspank_gpu_apply, DTSPANK_GPU},
    {dtspank_cpu_apply, DTSPANK_CPU},
    {dtspank_limits_apply, DTSPANK_LIMITS},
    {take_ports, DTSPANK_PART_COUNT},
    {export_variables, DTSPANK_PART_COUNT},
    {warn_mpi, DTSPANK_PART_COUNT},
    {start_watch, DTSPANK_CONSOLE},
    {dtspank_record_hide, DTSPANK_PART_COUNT},
};

static int run_task_steps(spank_t spank, struct dt_error *err)
{
    for (size_t i = 0; i < sizeof(task_steps) / sizeof(*task_steps); i++)
        if (!dtspank_siteconf_off(&step.conf, task_steps[i].part) &&
            task_steps[i].run(spank, err) != 0)
            return -1;
    return 0;
}

void dtspank_step_user_init(spank_t spank)
{
    struct dt_error err; /* the tasks report it */
    step.active =
        is_srun_step(spank) && dtspank_task_getenv(spank, DT_ENV_CONFIG);
    step.heterogeneous = dtspank_task_getenv(spank, "SLURM_HET_SIZE");
    if (!step.active)
        return;
    dtspank_record_keep(spank);
    if (step.conf_error.text[0] == '\0' &&
        !dtspank_siteconf_off(&step.conf, DTSPANK_PORTS) &&
        take_ports(spank, &err) == 0)
        dtspank_facts_skip_taken_ports(spank, &step.conf);
}

/* srun examines the nodes when the step already exists and cannot be cancelled,
 * so the tasks exit before they execute anything.
 */
static bool preflight_has_failed(spank_t spank)
{
    const char *state = dtspank_task_getenv(spank, DT_ENV_PREFLIGHT);
    return state && strcmp(state, DT_PREFLIGHT_FAILED) == 0;
}

int dtspank_step_task_init(spank_t spank)
{
    struct dt_error err = step.conf_error;
    if (!is_srun_step(spank))
        return 0;
    /* Batch and interactive steps keep it for the sruns that they start; a task
     * must not pass it on to the sruns that it starts.
     */
    spank_unsetenv(spank, DTSPANK_PRESET);
    spank_unsetenv(spank, DTSPANK_PRESET_OVERRIDES);
    spank_unsetenv(spank, DTSPANK_PRESET_OWN);
    if (!dtspank_task_getenv(spank, DT_ENV_CONFIG))
        return 0;
    if (preflight_has_failed(spank))
        return -1; /* srun has said why */
    if (err.text[0] == '\0' && run_task_steps(spank, &err) == 0)
        return 0;
    const char *rank = dtspank_task_getenv(spank, "SLURM_PROCID");
    dt_error_prefix(&err, "rank %.16s", rank ? rank : "?");
    slurm_error("disttrain: %s", dtspank_printable(err.text));
    return -1;
}

/* Without a console: a rank that fails reports its own failure and exits; only
 * for a killed rank must we say why. Slurm ends a step with SIGTERM, and the
 * user with SIGINT.
 */
static void tell_killed(uint32_t task, int status)
{
    static bool told; /* Slurm then kills the others, which is not worth saying
                       */
    char host[HOST_NAME_MAX + 1] = "?";
    if (told || !WIFSIGNALED(status) || WTERMSIG(status) == SIGTERM ||
        WTERMSIG(status) == SIGINT)
        return;
    told = true;
    gethostname(host, sizeof(host) - 1);
    /* S_TASK_GLOBAL_ID counts within a component of a het job */
    const char *what = step.heterogeneous ? "task" : "rank";
    slurm_spank_log("disttrain: %s %u on %s was killed by signal %d (%s)", what,
                    (unsigned)task, host, WTERMSIG(status),
                    strsignal(WTERMSIG(status)));
}

/* A rank's output and its exit reach srun over different connections. On a
 * failed exit srun ends the other ranks, and once one of them has died of
 * SIGTERM, it drops the output that it has not read. It starts to read only
 * about 10 ms after the last node has connected. So the rank's last words and
 * the record of its exit get a head start.
 */
static void let_output_arrive(int status)
{
    static bool waited; /* for the first failed rank of this node */
    const struct timespec head_start = {.tv_nsec = 200L * 1000 * 1000};
    if (waited || status == 0 ||
        (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM))
        return;
    waited = true;
    nanosleep(&head_start, NULL);
}

int dtspank_step_task_exit(spank_t spank)
{
    int status = 0;
    uint32_t task = 0;
    if (!step.active ||
        spank_get_item(spank, S_TASK_EXIT_STATUS, &status) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_TASK_GLOBAL_ID, &task) != ESPANK_SUCCESS)
        return 0;
    if (!dtspank_record_is_kept())
        tell_killed(task, status);
    else if (status != 0)
        dtspank_record_log(task, "exit", status);
    let_output_arrive(status);
    return 0;
}
