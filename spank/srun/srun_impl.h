/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun_impl.h - the parts of the plugin in srun, sbatch and salloc
 *
 * submit.c calls them, in the order of submit.h. All run as the user.
 */
#ifndef DTSPANK_SRUN_IMPL_H
#define DTSPANK_SRUN_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <slurm/slurm.h>

#include "base/error.h"
#include "contract/contract.h"

/*
 * argv.c: the command line of srun
 *
 * srun wants a command before it asks any plugin, and no plugin interface can
 * give it one. But srun reads its options twice, and after the first time
 * `optind` says where the command begins. A callback that srun makes between
 * the two can therefore complete the very array that srun is about to read
 * again. Its length cannot change: each word that we add must replace another.
 */

struct dtspank_argv {
    int option;        /* index of the first --disttrain; 0: there is none */
    const char *value; /* of the last --disttrain, inside argv; NULL: none */
    bool next_word;    /* that value is a word of its own */
    bool has_command;
    bool sure; /* false: a word may be the value of an unknown option */
};

enum {
    DTSPANK_COMMAND_WORDS = 4, /* enough to see whether disttrain trains */
};

/* Finds --disttrain among srun's own words (see dtspank_argv_command), with
 * VALUE as "=VALUE" or as the next word. words has room for argc + 1 pointers;
 * it receives srun's own words without --disttrain and --disttrain-set, then
 * "--" and the first DTSPANK_COMMAND_WORDS of the command, if there is one,
 * then NULL.
 */
void dtspank_argv_scan(int argc, char **argv, struct dtspank_argv *found,
                       char **words);

/* Fills words in the same way, with --disttrain, once it is known that srun's
 * own words end before argv[end].
 */
void dtspank_argv_exact(int argc, char **argv, int end, char **words);

/* The next value of --disttrain-set among srun's own words, as above. NULL:
 * there is none. *at is where to look, 1 at first.
 */
const char *dtspank_argv_next_set(int argc, char **argv, int *at);

/* Whether the value, which is no good configuration, may be a word that getopt
 * has taken because the value was forgotten, such as the command.
 */
bool dtspank_argv_took_word(const struct dtspank_argv *found,
                            const char *value);

/* Whether a word of argv has the same last path component as path. */
bool dtspank_argv_names(int argc, char **argv, const char *path);

/* Returns the index of the first word that is not srun's own, according to the
 * options known here: the command, the "--" before it, or argc. Use it before
 * srun itself has read its options; afterwards optind is exact. An unknown long
 * option is assumed to have a value, unless another option follows it. A ":"
 * before the command leads on to the next component of a heterogeneous job.
 */
int dtspank_argv_command(int argc, char **argv);

/* Returns the file that sbatch reads its script from, its standard input among
 * them; "" with --wrap, or if this is another program. `command` is the index
 * of the first word that is not sbatch's own. The text stays valid.
 */
const char *dtspank_argv_script(int argc, char **argv, int command);

/* Whether srun's own words argv[1..end) contain the option: `letter` in a word
 * of short options ('\0': it has none), or `name`, abbreviated as far as srun
 * allows.
 */
bool dtspank_argv_has(int end, char **argv, char letter, const char *name);

/* Removes the option at index `option` and makes `command` the last word.
 * first_option (NULL: none) becomes argv[1], before the user's own options, if
 * there is room: if `option` was two words, or if another option and its value
 * can be written as one word. argv must have no command. Merged words are
 * allocated and belong to argv, which is never freed. Fails on --multi-prog or
 * without memory.
 */
int dtspank_argv_place(int argc, char **argv, int option, char *command,
                       char *first_option, struct dt_error *err);

/* srun is about to run its command, the words from argv[command] on, as `tasks`
 * tasks on `nodes` nodes. If the command is torchrun or a similar launcher and
 * there are more tasks than nodes, prints the command line to use instead.
 */
void dtspank_advice_launcher(int argc, char **argv, int command, uint32_t tasks,
                             uint32_t nodes);

/*
 * srun_overrides.c: the values of --disttrain-set, KEY=VALUE each
 */

/* Texts in the order in which they apply, owned. All zero is empty. */
struct dtspank_overrides {
    char **text;
    size_t count;
};

/* Refuses any text but KEY=VALUE, such as the word after a forgotten value. */
int dtspank_overrides_check(const char *text, struct dt_error *err);

/* Appends a copy. An equal one before it is removed: srun, sbatch and salloc
 * read their options several times. -1: out of memory.
 */
int dtspank_overrides_add(struct dtspank_overrides *overrides,
                          const char *text);

/* Appends the overrides of a list as in DT_ENV_OVERRIDES. -1: out of memory. */
int dtspank_overrides_decode(struct dtspank_overrides *overrides,
                             const char *list);

/* Returns such a list, to be freed. NULL: out of memory. */
char *dtspank_overrides_encode(const struct dtspank_overrides *overrides);

/* Whether both have the same texts in the same order. */
bool dtspank_overrides_equal(const struct dtspank_overrides *left,
                             const struct dtspank_overrides *right);

/* Frees the texts and empties the list. */
void dtspank_overrides_fini(struct dtspank_overrides *overrides);

/*
 * srun_runtime.c: programs of the runtime that srun runs, with a deadline
 *
 * Not base/child.h, whose promises are others: that one handles signals of its
 * process, leaves those that the user ignores ignored, looks in PATH, and gives
 * a child a second after SIGTERM. In srun, signals belong to srun, a program is
 * named by its path, and no wait is longer than its deadline.
 */

/* Milliseconds of the monotonic clock; deadlines are given in them. */
int64_t dtspank_now_ms(void);

/* Kills the child and does not wait for its end. */
void dtspank_child_kill(pid_t pid);

/* The answer of `RUNTIME check --contract FILE`. The plugin does not read the
 * config itself: the runtime does, as the user, on the submit host.
 * contract/contract.h has the grammar.
 */
struct dtspank_contract {
    char *text;         /* owned; the other strings point into it */
    const char *config; /* absolute path */
    const char *runs;   /* train, command or nothing: see contract.h */
    size_t srun_count;
    char **srun; /* NAME=value, unescaped */
    size_t env_count;
    char **env; /* NAME=value, unescaped */
};

/* Runs the check and fills contract on success; the caller calls
 * dtspank_contract_fini. overrides apply to the file; NULL means none. words
 * are the options of srun, sbatch or salloc, ending with NULL; NULL means none.
 * script is sbatch's script, "" if there is none, and NULL for srun. The child
 * writes its own messages to our stderr; err says only that nothing is
 * submitted, or why there was no answer. Waits at most deadline_ms.
 */
int dtspank_check_run(const char *runtime, const char *file,
                      const struct dtspank_overrides *overrides, char **words,
                      const char *script, int deadline_ms,
                      struct dtspank_contract *contract, struct dt_error *err);

/* Runs `RUNTIME check --outlives FILE`: whether the run goes on without nodes
 * that it loses: 1; 0, also for a file with mistakes, which dtspank_check_run
 * tells later; -1: there is no answer, within deadline_ms.
 */
int dtspank_check_outlives(const char *runtime, const char *file,
                           const struct dtspank_overrides *overrides,
                           int deadline_ms);

/* Parses the answer. text (from malloc) belongs to contract afterwards, also on
 * failure, which means that the runtime is of another release.
 */
int dtspank_contract_parse(char *text, struct dtspank_contract *contract,
                           struct dt_error *err);

/* Frees the strings of contract; an all-zero contract is fine. */
void dtspank_contract_fini(struct dtspank_contract *contract);

/* In srun, once the step exists: runs `RUNTIME doctor` on its nodes, with the
 * table on stderr (launch.preflight). Returns -1 if they are not fit or if that
 * cannot be found out; call dtspank_refuse_tasks then.
 */
int dtspank_preflight_run(const char *runtime, uint32_t job, uint32_t step,
                          struct dt_error *err);

/* Tells the tasks through DT_ENV_PREFLIGHT to exit before they execute
 * anything. Slurm gives plugins no way to cancel a step: an srun that just
 * exits leaves it behind, and its allocation if it made one. So srun continues.
 */
void dtspank_refuse_tasks(void);

/*
 * srun_env.c: variables that srun inherits, and those that it gets from a
 * config
 */

/* Whether the config sets anything that srun itself reads. */
bool dtspank_apply_has_input(const struct dtspank_contract *contract);

/* Sets prefix + NAME for each NAME=value. Fails without memory, after a
 * message.
 */
int dtspank_apply_set(const char *prefix, char **list, size_t count);

/* Unsets the variables that srun itself reads; afterwards the contract has only
 * their names.
 */
void dtspank_apply_forget_input(struct dtspank_contract *contract);

/* A step that is started inside one of our tasks inherits the task's variables.
 * Removes those that the plugin set and that still have the same value.
 */
void dtspank_inherited_forget_exported(void);

/* Removes all of our private variables (DT_ENV_PREFIX) but DT_ENV_LAUNCH. */
void dtspank_inherited_forget_private(void);

/* Three functions that warn of a config that was edited while its job waited.
 */

/* Keeps the DT_ENV_SUM that sbatch left in the environment of its job; call it
 * before our private variables are removed.
 */
void dtspank_change_keep(void);

/* In sbatch and salloc: leaves the config's DT_ENV_SUM in the job's
 * environment.
 */
void dtspank_change_leave(const struct dtspank_contract *contract);

/* In srun, once DT_ENV_SUM describes the config as it is now: warns if sbatch
 * left another sum for the same file. A different file is not a change.
 */
void dtspank_change_tell(void);

/* Writes 32 hexadecimal digits drawn at random. Returns 0, or -1 and errno. */
int dtspank_token_make(char token[DT_TOKEN_BYTES]);

/*
 * srun_slurm.c: values of Slurm that it does not promise to plugins
 */

/* Asks the controller, because only it knows where tasks are under
 * --distribution=arbitrary. The function is looked up at run time, because
 * Slurm does not promise it to plugins. Returns NULL if there is no answer;
 * release the layout with dtspank_layout_release.
 */
slurm_step_layout_t *dtspank_layout_get(uint32_t job, uint32_t step);

/* Frees a layout; NULL is fine. */
void dtspank_layout_release(slurm_step_layout_t *layout);

/* Writes the name of the node that has task 0. -1: no node has it, or the name
 * does not fit.
 */
int dtspank_layout_rank0(const slurm_step_layout_t *layout, char *host,
                         size_t size);

/* Whether Slurm's plugin mpi_pmix.so is installed on the submit host. */
bool dtspank_pmix_is_there(void);

/*
 * srun_console.c: `RUNTIME console` between srun and its stdout and stderr
 *
 * No failure here keeps srun from running the step. contract/contract.h has the
 * grammar of the facts that the console gets.
 */

/* In slurm_spank_init, while srun's SLURM_* input can still be set: makes srun
 * label its output, unless argv or the environment makes srun write it
 * unbuffered or elsewhere. The console then does not know ranks, or reads only
 * srun's own messages. There is no console in heterogeneous jobs and with
 * --async.
 */
void dtspank_console_prepare(int argc, char **argv);

/* After that: whether the console is going to see the records of the tasks. */
bool dtspank_console_follows(void);

/* A step before its launch. */
struct dtspank_console_step {
    uint32_t job, step, tasks;
    const slurm_step_layout_t *layout; /* NULL: not known */
};

/* Starts the console and connects it to descriptors 1 and 2. On failure it
 * prints a message and leaves the output as it is.
 */
void dtspank_console_start(const char *runtime,
                           const struct dtspank_console_step *step);

/* When srun exits with *srun_status: tells the console, restores srun's stdout
 * and stderr and waits until the console has written the rest. A console that
 * does not end is killed, after a message. Returns the exit status of the run
 * for contract/requeue_rule.h, as the console has seen it; 0: it has ended
 * well, or Slurm or the user has ended it, or there is no console. If keepers
 * have ended the step, *srun_status becomes theirs. A second call returns the
 * same. If srun exits with status 0 and output may be lost, its status becomes
 * EX_IOERR.
 */
int dtspank_console_finish(int *srun_status);

/*
 * deadline.c: launch.signal
 */

/* In srun, before there is a step: which signal, and when (DT_ENV_SIGNAL).
 * components is 1 except in a heterogeneous job, where only the signals that
 * srun itself forwards reach every rank; any other is an error there.
 */
int dtspank_deadline_set(const char *when, int components,
                         struct dt_error *err);

/* In srun, once the step exists: starts a thread that sends that signal to all
 * ranks of the step so long before the end of the job, or when status.json in
 * the directory `run` says, if our own trainer records its run there; NULL: it
 * does not. The thread asks Slurm for the end again when the time has come,
 * because a time limit can be changed.
 */
int dtspank_deadline_start(uint32_t job, uint32_t step, const char *run,
                           struct dt_error *err);

/* Whether that signal has been sent. */
bool dtspank_deadline_passed(void);

/*
 * requeue.c: launch.requeue
 */

/* In srun, once, when the step exists: from now on srun requeues its batch job
 * when it exits, if contract/requeue_rule.h says so. It prints the requeue, or
 * why there is none. in_job: srun was started in a job and has not made its own
 * allocation.
 */
int dtspank_requeue_arm(bool in_job, struct dt_error *err);

#endif /* DTSPANK_SRUN_IMPL_H */
