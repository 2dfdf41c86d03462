/* SPDX-License-Identifier: Apache-2.0 */
/* submit.c - from --disttrain=FILE to the environment of the step */
#include "config.h"

#include <dlfcn.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <slurm/slurm.h>

#include "launch/contract.h"
#include "spank/argv.h"
#include "spank/check.h"
#include "spank/hostlist.h"
#include "spank/options.h"
#include "spank/siteconf.h"
#include "spank/submit.h"

enum {
    CHECK_DEADLINE_MS = 60000,
};

static struct {
    struct dtspank_siteconf conf;
    struct dt_error runtime_error; /* of DISTTRAIN_RUNTIME; empty text: none */
    bool in_srun;                  /* and not in sbatch or salloc */
    int option;      /* index in main_argv that is still to be judged, or 0 */
    char *preset;    /* DTSPANK_PRESET as the user had it, or NULL */
    char *value;     /* the option as given last, NULL: not given */
    char *committed; /* the value that was checked and exported */
    int components;  /* of a heterogeneous job; 1 for any other */
} submit;

/* glibc hands main's arguments to constructors as well: the array that srun is
 * going to parse. Other libcs do not; then there is no argv to complete.
 */
static int main_argc;
static char **main_argv;

__attribute__((constructor)) static void keep_main_argv(int argc, char **argv)
{
    main_argc = argv ? argc : 0;
    main_argv = argv;
}

static int report(const struct dt_error *err)
{
    slurm_error("disttrain: %s", err->text);
    return -1;
}

/* Replaces the string that *to owns; value may be NULL. */
static int keep(char **to, const char *value)
{
    char *copy = value ? strdup(value) : NULL;
    if (value && !copy) {
        slurm_error("disttrain: out of memory");
        return -1;
    }
    free(*to);
    *to = copy;
    return 0;
}

/* A step started inside a task of ours inherits the task's variables. Those
 * that the plugin had set there, and nobody changed, are not the user's.
 */
static void forget_exported(void)
{
    const char *exported = getenv(DT_ENV_EXPORTED);
    char *list = exported ? strdup(exported) : NULL;
    char *rest = list;
    for (char *name; (name = strsep(&rest, " ")) != NULL;) {
        char *value = strchr(name, '=');
        if (!value)
            continue;
        *value++ = '\0';
        const char *now = getenv(name);
        if (now && strcmp(now, value) == 0)
            unsetenv(name);
    }
    free(list);
}

/* Neither is anything under our private names. */
static void forget_private(void)
{
    char **entry = environ;
    while (*entry) {
        char name[PATH_MAX];
        size_t len = strcspn(*entry, "=");
        if (strncmp(*entry, DT_ENV_PREFIX, strlen(DT_ENV_PREFIX)) == 0 &&
            (*entry)[len] == '=' && len < sizeof(name)) {
            memcpy(name, *entry, len);
            name[len] = '\0';
            unsetenv(name);
            entry = environ;
        } else {
            entry++;
        }
    }
}

/* Slurm's plugins lie beside libslurmfull, where the spank functions are. */
static bool have_mpi_pmix(void)
{
    Dl_info info;
    char path[PATH_MAX];
    if (dladdr((void *)(uintptr_t)spank_option_register, &info) == 0)
        return false;
    const char *slash = strrchr(info.dli_fname, '/');
    int dir_bytes = slash ? (int)(slash - info.dli_fname) : 0;
    int n = snprintf(path, sizeof(path), "%.*s/mpi_pmix.so", dir_bytes,
                     info.dli_fname);
    return n > 0 && (size_t)n < sizeof(path) && access(path, R_OK) == 0;
}

/* srun reads its SLURM_* input right after this, and before it has found out
 * where the command begins. An option that turns out to belong to the user's
 * program can therefore have set SLURM_KILL_BAD_EXIT for it, and no more.
 */
static void prepare_srun(void)
{
    const char *value = NULL;
    int option = dtspank_argv_find(main_argc, main_argv, &value);
    if (keep(&submit.preset, getenv(DTSPANK_PRESET)) != 0)
        return;
    if (option > 0) {
        setenv(DTSPANK_PRESET, value, 1);
        submit.option = option;
    }
    value = getenv(DTSPANK_PRESET);
    if (!value || strcmp(value, DTSPANK_OFF) == 0)
        return;
    setenv("SLURM_KILL_BAD_EXIT", "1", 0);
    bool runtime_runs =
        dtspank_argv_only_options(main_argc, main_argv) ||
        dtspank_argv_names(main_argc, main_argv, submit.conf.runtime);
    if (runtime_runs && have_mpi_pmix())
        setenv("SLURM_MPI_TYPE", "pmix", 0);
}

/* The option in argv is not srun's but an argument of the user's program. */
static const char *withdraw(void)
{
    if (submit.preset)
        setenv(DTSPANK_PRESET, submit.preset, 1);
    else
        unsetenv(DTSPANK_PRESET);
    return submit.preset;
}

/* srun has read its options once: optind is the command, or the end, or the ":"
 * before the next component. Puts the runtime where a command is missing.
 */
static int complete_argv(int option, struct dt_error *err)
{
    bool certain = dtspank_argv_only_options(main_argc, main_argv);
    bool at_end = optind >= main_argc;
    bool at_colon = !at_end && strcmp(main_argv[optind], ":") == 0;
    if (!at_end && !(at_colon && certain))
        return 0;
    bool set_mpi =
        !certain && getenv("SLURM_MPI_TYPE") == NULL && have_mpi_pmix();
    return dtspank_argv_place(main_argc, main_argv, option,
                              (char *)submit.conf.runtime,
                              set_mpi ? "--mpi=pmix" : NULL, err);
}

/* A bare `srun` in a batch job has no word that could become the command. */
static bool lacks_command(void)
{
    return submit.in_srun && main_argc > 0 && optind >= main_argc;
}

/* A mistake counts only for those who use the plugin. */
static void choose_runtime(void)
{
    const char *wish = getenv("DISTTRAIN_RUNTIME");
    submit.runtime_error.text[0] = '\0';
    if (wish && dtspank_siteconf_use_runtime(&submit.conf, wish,
                                             &submit.runtime_error) != 0)
        dt_error_prefix(&submit.runtime_error, "DISTTRAIN_RUNTIME");
}

int dtspank_submit_init(spank_t spank, int ac, char **av)
{
    struct dt_error err;
    submit.in_srun = spank_context() == S_CTX_LOCAL;
    if (dtspank_siteconf_parse(ac, av, &submit.conf, &err) != 0)
        return report(&err);
    if (dtspank_options_register(spank) != 0)
        return -1;
    choose_runtime();
    forget_exported();
    forget_private();
    if (submit.in_srun)
        prepare_srun();
    return 0;
}

int dtspank_submit_option(const char *value)
{
    struct dt_error err;
    int option = submit.option;
    submit.option = 0;
    if (option > 0 && option >= optind)
        value = withdraw();
    if (value && value[0] == '\0') {
        dt_error_set(&err, EX_USAGE,
                     "--disttrain: expected a file or \"" DTSPANK_OFF
                     "\", got nothing");
        return report(&err);
    }
    bool active = value && strcmp(value, DTSPANK_OFF) != 0;
    if (active && submit.runtime_error.text[0] != '\0')
        return report(&submit.runtime_error);
    if (active && option > 0 && option < optind &&
        complete_argv(option, &err) != 0)
        return report(&err);
    if (active && option == 0 && !submit.value && lacks_command())
        slurm_error("disttrain: --disttrain=%s comes from the job, and leaves "
                    "no place for a command: write \"srun disttrain\"",
                    value);
    return keep(&submit.value, value);
}

/* The `env:` entries, under names that survive --export=NONE. */
static int export_env(const struct dtspank_contract *contract)
{
    for (size_t i = 0; i < contract->env_count; i++) {
        char *entry = NULL;
        if (asprintf(&entry, DT_ENV_CARRY "%s", contract->env[i]) < 0)
            return -1;
        char *equals = strchr(entry, '=');
        *equals = '\0';
        int rc = setenv(entry, equals + 1, 1);
        free(entry);
        if (rc != 0)
            return -1;
    }
    return 0;
}

/* srun's tasks get the contract. sbatch and salloc only hand the file on, by
 * its absolute path because the job may change its directory: the steps of the
 * job are checked again, each by its own srun.
 */
static int export_contract(spank_t spank,
                           const struct dtspank_contract *contract)
{
    if (!submit.in_srun) {
        spank_err_t rc = spank_job_control_setenv(spank, DTSPANK_JOB_OPTION,
                                                  contract->config, 1);
        if (rc != ESPANK_SUCCESS)
            slurm_error("disttrain: cannot hand the config on to the job: %s",
                        spank_strerror(rc));
        return rc == ESPANK_SUCCESS ? 0 : -1;
    }
    if (setenv(DT_ENV_CONFIG, contract->config, 1) != 0 ||
        export_env(contract) != 0) {
        slurm_error("disttrain: out of memory");
        return -1;
    }
    return 0;
}

int dtspank_submit_post_opt(spank_t spank)
{
    struct dt_error err;
    struct dtspank_contract contract;
    submit.components++;
    if (!submit.value)
        return 0;
    if (submit.committed) {
        if (strcmp(submit.committed, submit.value) == 0)
            return 0;
        dt_error_set(&err, EX_USAGE,
                     "the components of a job share one config, but there are "
                     "two: %s and %s",
                     submit.committed, submit.value);
        return report(&err);
    }
    if (keep(&submit.committed, submit.value) != 0)
        return -1;
    if (strcmp(submit.value, DTSPANK_OFF) == 0)
        return 0;
    if (dtspank_check_run(submit.conf.runtime, submit.value, CHECK_DEADLINE_MS,
                          &contract, &err) != 0)
        return report(&err);
    int rc = export_contract(spank, &contract);
    dtspank_contract_fini(&contract);
    return rc;
}

/* The node that has task 0; -1 if none has. */
static int64_t find_rank0(const slurm_step_layout_t *layout)
{
    for (uint32_t node = 0; node < layout->node_cnt; node++)
        for (uint16_t i = 0; i < layout->tasks[node]; i++)
            if (layout->tids[node][i] == 0)
                return node;
    return -1;
}

/* Asks the controller, because only it knows where tasks are under
 * --distribution=arbitrary. Looked up at run time, because it is not one of the
 * functions that Slurm promises to plugins. Without an answer the tasks take
 * the first node. So they do in a heterogeneous job, for the sake of agreement:
 * of its components only the one that comes here first would get the variable.
 */
int dtspank_submit_step_created(spank_t spank)
{
    slurm_step_id_t id = {.step_het_comp = NO_VAL};
    char host[DTSPANK_HOST_BYTES];
    slurm_step_layout_t *(*get)(slurm_step_id_t *);
    void (*release)(slurm_step_layout_t *);
    if (getenv(DT_ENV_CONFIG) == NULL || submit.components > 1)
        return 0;
    *(void **)&get = dlsym(RTLD_DEFAULT, "slurm_job_step_layout_get");
    *(void **)&release = dlsym(RTLD_DEFAULT, "slurm_job_step_layout_free");
    if (!get || !release ||
        spank_get_item(spank, S_JOB_ID, &id.job_id) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_STEPID, &id.step_id) != ESPANK_SUCCESS)
        return 0;
    slurm_step_layout_t *layout = get(&id);
    if (!layout)
        return 0;
    int64_t node = find_rank0(layout);
    if (node >= 0 && dtspank_hostlist_nth(layout->node_list, (uint32_t)node,
                                          host, sizeof(host), NULL) == 0)
        setenv(DT_ENV_MASTER, host, 1);
    release(layout);
    return 0;
}
