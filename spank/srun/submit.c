/* SPDX-License-Identifier: Apache-2.0 */
/* submit.c - turns --disttrain=FILE into the environment of the step */
#include "config.h"

#include <getopt.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <slurm/slurm.h>

#include "contract/contract.h"
#include "spank/hostlist.h"
#include "spank/options.h"
#include "spank/siteconf.h"
#include "spank/srun/srun_impl.h"
#include "spank/srun/submit.h"

enum {
    CHECK_DEADLINE_MS = 60000,
    ASK_DEADLINE_MS = 5000, /* the check comes later, and says what is wrong */
};

static struct {
    struct dtspank_siteconf conf;
    struct dt_error runtime_error; /* of DISTTRAIN_RUNTIME; empty text: none */
    bool in_srun;                  /* rather than in sbatch or salloc */
    bool is_session;               /* an srun that starts salloc's shell */
    bool in_job;                   /* started in an allocation */
    struct dtspank_argv argv;      /* as parsed in slurm_spank_init */
    int option;    /* index in main_argv, not yet confirmed; or 0 */
    char *preset;  /* DTSPANK_PRESET as the user had it, or NULL */
    char *value;   /* the last value of the option; NULL: not given */
    char *checked; /* the value whose answer is in contract, or NULL */
    struct dtspank_overrides overrides; /* of the command line */
    struct dtspank_overrides applied;   /* that were checked with it */
    char *committed;                    /* the value that was exported */
    int components; /* of a heterogeneous job; 1 for any other */
    int command;    /* index in main_argv, if there is one component */
    struct dtspank_contract contract;
    char **words; /* as dtspank_argv_scan finds them */
    bool ours[4]; /* variables of `kept` below, not the user's, */
    bool jobs[2]; /* and of `no_kill`, */
    bool unclear; /* for which there was no answer */
} submit;

/* glibc passes main's arguments to constructors as well: this is the array that
 * srun is going to parse. Other libcs do not; then there is no argv to
 * complete.
 */
static int main_argc;
static char **main_argv;

__attribute__((constructor)) static void keep_main_argv(int argc, char **argv)
{
    main_argc = argv ? argc : 0;
    main_argv = argv;
}

static int report_error(const struct dt_error *err)
{
    slurm_error("disttrain: %s", err->text);
    return -1;
}

static int report_memory(void)
{
    slurm_error("disttrain: out of memory");
    return -1;
}

/* Replaces the string that *to owns; value may be NULL. */
static int keep_string(char **to, const char *value)
{
    char *copy = value ? strdup(value) : NULL;
    if (value && !copy)
        return report_memory();
    free(*to);
    *to = copy;
    return 0;
}

static bool is_active(const char *value)
{
    return value && strcmp(value, DTSPANK_OFF) != 0;
}

static int check_value(const char *value)
{
    struct dt_error err;
    return dtspank_options_check(value, &err) == 0 ? 0 : report_error(&err);
}

/* Whether a value names the file that sbatch or salloc has passed on. */
static bool is_file_of_job(const char *value)
{
    struct stat a;
    struct stat b;
    return submit.preset &&
           (strcmp(value, submit.preset) == 0 ||
            (stat(value, &a) == 0 && stat(submit.preset, &b) == 0 &&
             a.st_dev == b.st_dev && a.st_ino == b.st_ino));
}

/* Collects the overrides of the file: those of the job, then those of our own
 * command line. The caller frees them.
 */
static int find_overrides(const char *value, struct dtspank_overrides *found)
{
    const char *job = getenv(DTSPANK_PRESET_OVERRIDES);
    int rc =
        job && is_file_of_job(value) ? dtspank_overrides_decode(found, job) : 0;
    for (size_t i = 0; rc == 0 && i < submit.overrides.count; i++)
        rc = dtspank_overrides_add(found, submit.overrides.text[i]);
    return rc == 0 ? 0 : report_memory();
}

/* Adds --disttrain-set of argv, before Slurm reads it. Values that are not
 * KEY=VALUE are left to the callback.
 */
static int scan_overrides(struct dtspank_overrides *found)
{
    int at = 1;
    const char *text;
    while ((text = dtspank_argv_next_set(main_argc, main_argv, &at)) != NULL)
        if (strchr(text, '=') && dtspank_overrides_add(found, text) != 0)
            return report_memory();
    return 0;
}

/* Whether the config has been checked with the present overrides. */
static bool is_checked(const char *value)
{
    struct dtspank_overrides now = {0};
    bool checked = submit.checked && strcmp(submit.checked, value) == 0 &&
                   find_overrides(value, &now) == 0 &&
                   dtspank_overrides_equal(&now, &submit.applied);
    dtspank_overrides_fini(&now);
    return checked;
}

/* Has the config checked; words are srun's own options and its command, NULL:
 * none is known. With a script, they are those of sbatch or salloc.
 */
static int check_config(const char *value, char **words, const char *script)
{
    struct dt_error err;
    bool no_file = strcmp(value, DTSPANK_NO_FILE) == 0;
    if (submit.runtime_error.text[0] != '\0')
        return report_error(&submit.runtime_error);
    dtspank_contract_fini(&submit.contract);
    dtspank_overrides_fini(&submit.applied);
    if (keep_string(&submit.checked, value) != 0 ||
        (!no_file && find_overrides(value, &submit.applied) != 0))
        return -1;
    if (dtspank_check_run(submit.conf.runtime, no_file ? "/dev/null" : value,
                          &submit.applied, words, script, CHECK_DEADLINE_MS,
                          &submit.contract, &err) == 0)
        return 0;
    if (err.status == EX_CONFIG && dtspank_argv_took_word(&submit.argv, value))
        dt_error_set(&err, EX_USAGE,
                     "%s: nothing is submitted; it is the value of "
                     "--disttrain: write --disttrain=FILE.yaml or "
                     "--disttrain=" DTSPANK_NO_FILE " before it",
                     value);
    return report_error(&err);
}

enum kind {
    OF_RANKS,   /* ends with the first of them */
    OF_KEEPERS, /* they replace ranks */
    OUTLIVING,  /* and nodes */
    KINDS,
};

/* Variables of srun, and their values in each kind of step. NULL: srun's own.
 */
static const struct {
    const char *name, *value[KINDS];
} kept[] = {
    {"SLURM_KILL_BAD_EXIT", {"1", "1", "0"}},
    {"SLURM_NO_KILL", {NULL, NULL, "set"}},
    {"SLURM_OOM_KILL_STEP", {NULL, "0", "0"}},
    {"SLURM_WAIT", {NULL, NULL, "0"}},
};

enum { KEPT = sizeof(kept) / sizeof(*kept) };

/* Without the console nobody would end srun. */
static void set_kept(void)
{
    if (getenv(DT_ENV_OUTLIVES) && !dtspank_console_follows()) {
        slurm_error("disttrain: warning: the output of the ranks does not pass "
                    "through the console of srun: the step ends when it loses "
                    "a node");
        unsetenv(DT_ENV_OUTLIVES);
    }
    const enum kind kind = getenv(DT_ENV_OUTLIVES) ? OUTLIVING
                           : getenv(DT_ENV_KEPT)   ? OF_KEEPERS
                                                   : OF_RANKS;
    for (int i = 0; i < KEPT; i++) {
        const char *value = kept[i].value[kind];
        if (value && !getenv(kept[i].name))
            submit.ours[i] = setenv(kept[i].name, value, 1) == 0;
    }
    if (!dtspank_console_follows())
        unsetenv(DT_ENV_KEPT);
}

/* Variables of sbatch and salloc. */
static const char *const no_kill[] = {"SBATCH_NO_KILL", "SALLOC_NO_KILL"};

enum { NO_KILLS = sizeof(no_kill) / sizeof(*no_kill) };

/* Each component of a job reads them, and the job would inherit them. */
static void forget_no_kill(void)
{
    for (size_t i = 0; i < NO_KILLS; i++) {
        if (submit.jobs[i])
            unsetenv(no_kill[i]);
        submit.jobs[i] = false;
    }
}

/* In sbatch and salloc: Slurm ends a job with the first of its nodes, unless it
 * is told otherwise. They read these variables after the options of the script,
 * and before those of the command line and of the environment, which are known
 * already and count for more; not yet known is what else is asked for, so that
 * the file cannot be checked.
 */
static int set_no_kill(void)
{
    const char *value = submit.argv.value ? submit.argv.value
                        : submit.preset   ? submit.preset
                                          : submit.value;
    struct dtspank_overrides sets = {0};
    forget_no_kill();
    if (!is_active(value) || strcmp(value, DTSPANK_NO_FILE) == 0 ||
        submit.runtime_error.text[0] != '\0' ||
        dtspank_siteconf_off(&submit.conf, DTSPANK_CONSOLE))
        return 0;
    int rc = find_overrides(value, &sets) == 0 ? scan_overrides(&sets) : -1;
    const int outlives =
        rc == 0 ? dtspank_check_outlives(submit.conf.runtime, value, &sets,
                                         ASK_DEADLINE_MS)
                : 0;
    submit.unclear = outlives < 0;
    for (size_t i = 0; outlives > 0 && i < NO_KILLS; i++)
        submit.jobs[i] =
            !getenv(no_kill[i]) && setenv(no_kill[i], "set", 1) == 0;
    dtspank_overrides_fini(&sets);
    return rc;
}

static bool trains_natively(void)
{
    return strcmp(submit.contract.runs, "train") == 0;
}

/* Sets srun's defaults: those of `launch:` and our own. */
static int set_srun_input(void)
{
    const struct dtspank_contract *contract = &submit.contract;
    if (dtspank_apply_set("", contract->srun, contract->srun_count) != 0)
        return -1;
    bool bare = submit.argv.sure && !submit.argv.has_command;
    bool runtime_runs =
        bare || dtspank_argv_names(main_argc, main_argv, submit.conf.runtime);
    if (trains_natively() && bare && getenv(DT_ENV_KEEPER))
        setenv("SLURM_MPI_TYPE", "none", 0); /* keepers meet by themselves */
    else if (trains_natively() && runtime_runs && dtspank_pmix_is_there())
        setenv("SLURM_MPI_TYPE", "pmix", 0);
    if (!dtspank_siteconf_off(&submit.conf, DTSPANK_CONSOLE))
        dtspank_console_prepare(main_argc, main_argv);
    set_kept();
    return 0;
}

/* The option in argv turned out to be an argument of the user's program, not
 * srun's. The settings of its file were not meant for this srun, so it is an
 * error if srun has already read any of them.
 */
static int withdraw_option(struct dt_error *err)
{
    if (dtspank_apply_has_input(&submit.contract))
        return dt_error_set(
            err, EX_USAGE,
            "--disttrain=%s is an argument of the command %s, but srun read "
            "it as an option of its own: write \"--\" before the command, or "
            "give srun's long options as --name=value",
            submit.checked, main_argv[optind]);
    dtspank_inherited_forget_private();
    if (submit.preset)
        setenv(DTSPANK_PRESET, submit.preset, 1);
    else
        unsetenv(DTSPANK_PRESET);
    return 0;
}

/* srun has read its options once: optind is at the command, at the end, or at
 * the ":" before the next component. Puts the runtime where a command is
 * missing.
 */
static int complete_argv(int option, struct dt_error *err)
{
    bool certain = submit.argv.sure && !submit.argv.has_command;
    bool at_end = optind >= main_argc;
    bool at_colon = !at_end && strcmp(main_argv[optind], ":") == 0;
    if (!at_end && !(at_colon && certain))
        return 0;
    if (strcmp(submit.checked, DTSPANK_NO_FILE) == 0)
        return dt_error_set(err, EX_USAGE,
                            "--disttrain=" DTSPANK_NO_FILE
                            " needs a command, because there is no file to "
                            "name one");
    if (strcmp(submit.contract.runs, "nothing") == 0)
        return dt_error_set(err, EX_USAGE,
                            "%s trains nothing (no algorithm:) and names no "
                            "launch.command: give srun a command",
                            submit.checked);
    bool set_mpi = trains_natively() && !certain &&
                   getenv("SLURM_MPI_TYPE") == NULL && dtspank_pmix_is_there();
    return dtspank_argv_place(main_argc, main_argv, option,
                              (char *)submit.conf.runtime,
                              set_mpi ? "--mpi=pmix" : NULL, err);
}

/* Whether it is a bare `srun` in a batch job, without a word that could become
 * the command.
 */
static bool lacks_command(void)
{
    return submit.in_srun && main_argc > 0 && optind >= main_argc;
}

/* Applies DISTTRAIN_RUNTIME. A mistake in it is reported only if the plugin is
 * used.
 */
static void choose_runtime(void)
{
    const char *asked = getenv("DISTTRAIN_RUNTIME");
    submit.runtime_error.text[0] = '\0';
    if (asked && dtspank_siteconf_use_runtime(&submit.conf, asked,
                                              &submit.runtime_error) != 0)
        dt_error_prefix(&submit.runtime_error, "DISTTRAIN_RUNTIME");
}

/* Whether it is the srun that salloc becomes with LaunchParameters=
 * use_interactive_step. Its step is a shell and trains nothing, so this srun
 * takes nothing from the config: its environment, with the option in it,
 * is that of the session.
 */
static bool starts_session(void)
{
    int end = dtspank_argv_command(main_argc, main_argv);
    return submit.in_srun &&
           dtspank_argv_has(end, main_argv, '\0', "interactive");
}

/* In sbatch and salloc within a job: removes the option of that job, which is
 * for its own sruns. One that the user has put into the environment stays.
 */
static void forget_option_of_job(void)
{
    const char *own = getenv(DTSPANK_PRESET_OWN);
    const char *preset = getenv(DTSPANK_PRESET);
    if (!own)
        return;
    if (preset && strcmp(preset, own) == 0)
        unsetenv(DTSPANK_PRESET);
    unsetenv(DTSPANK_PRESET_OVERRIDES);
    unsetenv(DTSPANK_PRESET_OWN);
}

int dtspank_submit_init(spank_t spank, int ac, char **av)
{
    struct dt_error err;
    submit.in_srun = spank_context() == S_CTX_LOCAL;
    submit.is_session = starts_session();
    submit.in_job = getenv("SLURM_JOB_ID") != NULL;
    if (dtspank_siteconf_parse(ac, av, &submit.conf, &err) != 0)
        return report_error(&err);
    if (submit.is_session)
        return dtspank_options_register(spank, NULL, NULL);
    if (dtspank_options_register(spank, dtspank_submit_option,
                                 dtspank_submit_override) != 0)
        return -1;
    choose_runtime();
    if (!submit.in_srun)
        forget_option_of_job();
    dtspank_change_keep();
    dtspank_inherited_forget_exported();
    dtspank_inherited_forget_private();
    return 0;
}

/* In sbatch and salloc the config is checked when all options are known. Says
 * now that a value was forgotten, before sbatch misses the word that was taken
 * for it.
 */
static int check_early(void)
{
    const char *value = submit.argv.value;
    return value && value[0] == '-' ? check_value(value) : 0;
}

/* srun reads its SLURM_* input right after this, before it has found out where
 * the command begins. dtspank_submit_option finds out whether the option really
 * was srun's.
 */
int dtspank_submit_prepare(void)
{
    if (submit.is_session)
        return 0;
    submit.words = calloc((size_t)main_argc + 1, sizeof(*submit.words));
    if (!submit.words ||
        keep_string(&submit.preset, getenv(DTSPANK_PRESET)) != 0)
        return -1;
    dtspank_argv_scan(main_argc, main_argv, &submit.argv, submit.words);
    if (!submit.in_srun)
        return check_early() == 0 ? set_no_kill() : -1;
    if (submit.argv.value) {
        setenv(DTSPANK_PRESET, submit.argv.value, 1);
        submit.option = submit.argv.option;
    }
    const char *value = getenv(DTSPANK_PRESET);
    if (!is_active(value) || value[0] == '\0')
        return 0;
    int rc = check_value(value) == 0 &&
                     scan_overrides(&submit.overrides) == 0 &&
                     check_config(value, submit.words, NULL) == 0
                 ? set_srun_input()
                 : -1;
    /* from now on, srun finds its own options */
    dtspank_overrides_fini(&submit.overrides);
    return rc;
}

int dtspank_submit_option(const char *value)
{
    struct dt_error err;
    int option = submit.option;
    submit.option = 0;
    if (option > 0 && option >= optind) {
        if (withdraw_option(&err) != 0)
            return report_error(&err);
        value = submit.preset;
    }
    if (value && check_value(value) != 0)
        return -1;
    if (is_active(value) && option > 0 && option < optind &&
        complete_argv(option, &err) != 0)
        return report_error(&err);
    if (is_active(value) && option == 0 && !submit.value && lacks_command())
        slurm_error("disttrain: --disttrain=%s comes from the job, and leaves "
                    "no place for a command: write \"srun disttrain\"",
                    value);
    if (keep_string(&submit.value, value) != 0)
        return -1;
    return submit.in_srun ? 0 : set_no_kill();
}

/* Slurm reads the list of the job as an option, too: it is known already. */
int dtspank_submit_override(const char *value)
{
    struct dt_error err;
    const char *job = getenv(DTSPANK_PRESET_OVERRIDES);
    if (job && strcmp(value, job) == 0)
        return 0;
    if (dtspank_overrides_check(value, &err) != 0)
        return report_error(&err);
    if (dtspank_overrides_add(&submit.overrides, value) != 0)
        return report_memory();
    return submit.in_srun ? 0 : set_no_kill();
}

/* Passes the overrides on: to the tasks, or with the file to the job. */
static int export_overrides(spank_t spank)
{
    char *list = dtspank_overrides_encode(&submit.applied);
    bool any = submit.applied.count > 0;
    int rc = list ? 0 : -1;
    if (rc == 0 && submit.in_srun && any)
        rc = setenv(DT_ENV_OVERRIDES, list, 1);
    if (rc == 0 && !submit.in_srun && any &&
        spank_job_control_setenv(spank, DTSPANK_JOB_OVERRIDES, list, 1) !=
            ESPANK_SUCCESS)
        rc = -1;
    if (!submit.in_srun && !any)
        unsetenv(DTSPANK_PRESET_OVERRIDES);
    if (rc != 0)
        slurm_error("disttrain: cannot pass --disttrain-set on");
    free(list);
    return rc;
}

/* sbatch and salloc only pass the file on, by its absolute path because the job
 * may change its directory: each srun of the job checks the config again.
 */
static int export_to_job(spank_t spank)
{
    const char *config = strcmp(submit.value, DTSPANK_NO_FILE) == 0
                             ? DTSPANK_NO_FILE
                             : submit.contract.config;
    const bool own = !submit.preset || strcmp(submit.preset, submit.value) != 0;
    if (submit.unclear)
        slurm_error("disttrain: warning: %s check did not answer within %d s: "
                    "if the run is to outlive its nodes, add --no-kill",
                    submit.conf.runtime, ASK_DEADLINE_MS / 1000);
    dtspank_change_leave(&submit.contract);
    spank_err_t rc =
        own ? spank_job_control_setenv(spank, DTSPANK_JOB_OWN, config, 1)
            : ESPANK_SUCCESS;
    if (export_overrides(spank) != 0)
        return -1;
    if (rc == ESPANK_SUCCESS)
        rc = spank_job_control_setenv(spank, DTSPANK_JOB_OPTION, config, 1);
    if (rc != ESPANK_SUCCESS)
        slurm_error(
            "disttrain: cannot pass the configuration on to the job: %s",
            spank_strerror(rc));
    return rc == ESPANK_SUCCESS ? 0 : -1;
}

/* srun's tasks get the contract. */
static int export_contract(spank_t spank)
{
    const struct dtspank_contract *contract = &submit.contract;
    char secret[DT_TOKEN_BYTES], ports[24];
    if (!submit.in_srun)
        return export_to_job(spank);
    if (export_overrides(spank) != 0)
        return -1;
    dtspank_change_tell();
    snprintf(ports, sizeof(ports), "%u-%u", submit.conf.port_first,
             submit.conf.port_last);
    /* `env:` travels under names that survive --export=NONE */
    if (setenv(DT_ENV_CONFIG, contract->config, 1) != 0 ||
        setenv(DT_ENV_PORTS, ports, 1) != 0 ||
        dtspank_token_make(secret) != 0 ||
        setenv(DT_ENV_STEP_SECRET, secret, 0) !=
            0) { /* one for all components */
        slurm_error("disttrain: cannot pass the configuration on: %s",
                    strerror(errno));
        return -1;
    }
    return dtspank_apply_set(DT_ENV_CARRY, contract->env, contract->env_count);
}

static int count_components(void)
{
    int components = 1;
    for (int i = 1; i < main_argc; i++)
        components += strcmp(main_argv[i], ":") == 0;
    return components;
}

/* Handles an option that was found only after srun had read its SLURM_* input,
 * and that of sbatch and salloc, which have options that srun does not have:
 * the words are now those that getopt has read. It reads each component by
 * itself; for several, which are not compared, the words from before are good
 * enough.
 */
static int check_late(void)
{
    int command = dtspank_argv_command(main_argc, main_argv);
    if (count_components() == 1 && optind > 0 && optind <= main_argc) {
        command = optind;
        dtspank_argv_exact(main_argc, main_argv, command, submit.words);
    }
    if (!submit.in_srun)
        return check_config(submit.value, submit.words,
                            dtspank_argv_script(main_argc, main_argv, command));
    if (check_config(submit.value, submit.words, NULL) != 0)
        return -1;
    if (dtspank_apply_has_input(&submit.contract)) {
        slurm_error("disttrain: --disttrain=%s comes too late for what the "
                    "file sets in launch: write it before the command, as the "
                    "first and only --disttrain",
                    submit.value);
        return -1;
    }
    return dtspank_apply_set("", submit.contract.srun,
                             submit.contract.srun_count);
}

/* srun has read its input for the last component: a step that is started inside
 * a task must not find variables that the user has not set. SLURM_MPI_TYPE
 * stays, because srun passes it to slurmstepd, even if it was an option.
 */
static void forget_srun_input(void)
{
    dtspank_apply_forget_input(&submit.contract);
    for (int i = 0; i < KEPT; i++)
        if (submit.ours[i])
            unsetenv(kept[i].name);
}

/* Whether the value is the config of the first component: as it was written, or
 * by the absolute path that sbatch and salloc have put into the environment,
 * where the next component finds it.
 */
static bool is_committed(const char *value)
{
    const char *path = submit.contract.config;
    return strcmp(submit.committed, value) == 0 ||
           (path && strcmp(path, value) == 0);
}

/* Takes the option of one component, the only one except in a heterogeneous
 * job.
 */
static int take_component(spank_t spank)
{
    forget_no_kill();
    if (submit.in_srun && submit.components == count_components())
        forget_srun_input();
    bool has_file =
        is_active(submit.value) && strcmp(submit.value, DTSPANK_NO_FILE) != 0;
    if (submit.overrides.count > 0 && !has_file) {
        slurm_error("disttrain: --disttrain-set %s: there is no file that it "
                    "is of: add --disttrain=FILE",
                    submit.overrides.text[0]);
        return -1;
    }
    if (!submit.value)
        return 0;
    if (submit.committed) {
        if (is_committed(submit.value))
            return 0;
        slurm_error("disttrain: the components of a job share one config, but "
                    "there are two: %s and %s",
                    submit.committed, submit.value);
        return -1;
    }
    if (keep_string(&submit.committed, submit.value) != 0)
        return -1;
    if (!is_active(submit.value))
        return 0;
    if (!is_checked(submit.value) && check_late() != 0)
        return -1;
    return export_contract(spank);
}

int dtspank_submit_post_opt(spank_t spank)
{
    struct dt_error err;
    submit.components++;
    submit.command = optind;
    if (take_component(spank) != 0)
        return -1;
    const char *when = getenv(DT_ENV_SIGNAL);
    if (when && !dtspank_siteconf_off(&submit.conf, DTSPANK_SIGNAL) &&
        dtspank_deadline_set(when, submit.components, &err) != 0)
        return report_error(&err);
    return 0;
}

/* Returns the value of the key in the config; NULL, after a message, if the
 * site has turned that part off.
 */
static const char *get_setting(const char *key, const char *name,
                               enum dtspank_part part)
{
    const char *value = getenv(name);
    if (!value || !dtspank_siteconf_off(&submit.conf, part))
        return value;
    slurm_error("disttrain: %s: this site has turned it off", key);
    return NULL;
}

/* Prepares for the end of the step. */
static int watch_end(uint32_t job, uint32_t step, struct dt_error *err)
{
    if (get_setting("launch.signal", DT_ENV_SIGNAL, DTSPANK_SIGNAL) &&
        dtspank_deadline_start(job, step, getenv(DT_ENV_RUN), err) != 0)
        return -1;
    return get_setting("launch.requeue", DT_ENV_REQUEUE, DTSPANK_REQUEUE)
               ? dtspank_requeue_arm(submit.in_job, err)
               : 0;
}

/* Does the work that depends on the places of the ranks. If the controller does
 * not answer, the tasks assume that rank 0 is on the first node. They do the
 * same in a heterogeneous job, so that they agree: only the component that
 * comes here first would get the variable. Returns false if the nodes are not
 * fit.
 */
static bool use_layout(spank_t spank, uint32_t job, uint32_t step)
{
    struct dt_error err;
    char host[DTSPANK_HOST_BYTES];
    struct dtspank_console_step launch = {.job = job, .step = step};
    slurm_step_layout_t *layout = dtspank_layout_get(job, step);
    if (layout && dtspank_layout_rank0(layout, host, sizeof(host)) == 0)
        setenv(DT_ENV_MASTER, host, 1);
    bool fit =
        !get_setting("launch.preflight", DT_ENV_PREFLIGHT, DTSPANK_PREFLIGHT) ||
        dtspank_preflight_run(submit.conf.runtime, job, step, &err) == 0;
    if (!fit)
        report_error(&err);
    else if (spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &launch.tasks) ==
             ESPANK_SUCCESS) {
        launch.layout = layout;
        if (layout)
            dtspank_advice_launcher(main_argc, main_argv, submit.command,
                                    launch.tasks, layout->node_cnt);
        dtspank_console_start(submit.conf.runtime, &launch);
    }
    dtspank_layout_release(layout);
    return fit;
}

void dtspank_submit_step_created(spank_t spank)
{
    struct dt_error err;
    uint32_t job = 0;
    uint32_t step = 0;
    if (getenv(DT_ENV_CONFIG) == NULL ||
        spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
        return;
    if (submit.components == 1 && !use_layout(spank, job, step)) {
        dtspank_refuse_tasks();
        return;
    }
    /* the tasks apply these, but srun reports them only once */
    get_setting("launch.gpu_visibility", DT_ENV_GPU_VISIBILITY, DTSPANK_GPU);
    get_setting("logging.console_ranks", DT_ENV_CONSOLE_RANKS, DTSPANK_CONSOLE);
    get_setting("launch.hang_timeout", DT_ENV_HANG, DTSPANK_CONSOLE);
    get_setting("logging.rank_logs", DT_ENV_RANK_LOGS, DTSPANK_CONSOLE);
    if (watch_end(job, step, &err) != 0) {
        report_error(&err);
        dtspank_refuse_tasks();
    }
}
