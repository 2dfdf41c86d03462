/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd.h - the subcommands of `disttrain`, one source file each
 *
 * Each takes the arguments from its own name on, prints for people and returns
 * the exit status of the process (sysexits.h).
 */
#ifndef DT_CMD_CMD_H
#define DT_CMD_CMD_H

#include <stdbool.h>

#include "conf/conf.h"
#include "tensor/tensor.h"

/* The subcommands. */
int dt_cmd_train(int argc, char **argv);
int dt_cmd_check(int argc, char **argv);
int dt_cmd_plan(int argc, char **argv);
int dt_cmd_sbatch(int argc, char **argv);
int dt_cmd_prepare(int argc, char **argv);
int dt_cmd_generate(int argc, char **argv);
int dt_cmd_export(int argc, char **argv);
int dt_cmd_trace(int argc, char **argv);
int dt_cmd_report(int argc, char **argv);
int dt_cmd_doctor(int argc, char **argv);
int dt_cmd_console(int argc, char **argv);
int dt_cmd_top(int argc, char **argv);
int dt_cmd_info(int argc, char **argv);

/* Executes the program of DT_ENV_COMMAND (launch.command), found through PATH.
 * Returns only on failure, after a message: 127 if there is no such program,
 * 126 if it cannot be run, EX_OSERR without memory.
 */
int dt_cmd_command(void);

/* Prints `disttrain NAME: <formatted>` and a hint at --help on stderr; returns
 * EX_USAGE.
 */
int dt_cmd_usage_error(const char *name, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints `disttrain NAME: <err>` on stderr; returns the status of err. */
int dt_cmd_fail(const char *name, const struct dt_error *err);

/* Returns the name of a type as --dtype has it. */
const char *dt_cmd_dtype_name(enum dt_dtype dtype);

/* The values of --set, for dt_conf_load. */
const struct dt_conf_overrides *dt_cmd_overrides(void);

/* Removes all values of --set; appends one; puts a list of DT_ENV_OVERRIDES
 * before them. -1: EX_USAGE, something is no KEY=VALUE; EX_OSERR.
 */
void dt_cmd_overrides_clear(void);
int dt_cmd_overrides_add(const char *word, struct dt_error *err);
int dt_cmd_overrides_inherit(const char *list, struct dt_error *err);

/* Flushes stdout. Returns status, or EX_IOERR after a message. */
int dt_cmd_flush(const char *name, int status);

/* Loads a configuration for the subcommand NAME, finds its models
 * (dt_models_find) and prints its problems and, if `warn`, its warnings on
 * stderr. NULL if there is a problem.
 */
struct dt_conf *dt_cmd_load(const char *name, const char *file, bool warn);

/* Writes the strategy that distributed.strategy: auto takes in the job of
 * `launch:`, and why, as dt_ballot_text does. -1: as dt_candidates_init.
 */
int dt_cmd_strategy_text(const struct dt_conf *conf, char text[256],
                         struct dt_error *err);

/* Prints the warnings of a configuration, read as `file`, unless the check that
 * srun has made before has printed the same (DT_ENV_WARNED).
 */
void dt_cmd_warn_once(const char *file,
                      const struct dt_conf_problems *warnings);

/* Checks a configuration against its model and tokenizer, and prints a problem
 * as dt_cmd_load does. Returns EX_OK, or EX_CONFIG if there is one.
 */
int dt_cmd_check_training(const char *file, const struct dt_conf *conf);

#endif /* DT_CMD_CMD_H */
