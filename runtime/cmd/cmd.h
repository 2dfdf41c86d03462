/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd.h - the subcommands of `disttrain`, one source each
 *
 * Each takes the arguments from its own name on, prints for people and returns
 * the exit status of the process (sysexits.h).
 */
#ifndef DT_CMD_CMD_H
#define DT_CMD_CMD_H

#include <stdbool.h>

#include "conf/conf.h"
#include "doctor/world.h"
#include "tensor/view.h"

/* One for each subcommand. */
int dt_cmd_train(int argc, char **argv);
int dt_cmd_check(int argc, char **argv);
int dt_cmd_sbatch(int argc, char **argv);
int dt_cmd_prepare(int argc, char **argv);
int dt_cmd_generate(int argc, char **argv);
int dt_cmd_export(int argc, char **argv);
int dt_cmd_doctor(int argc, char **argv);
int dt_cmd_console(int argc, char **argv);
int dt_cmd_info(int argc, char **argv);

/* Prints what the ranks of `step` ("ID.STEP") on the nodes of `world` are
 * doing. -1: EX_UNAVAILABLE, no node answers; EX_OSERR.
 */
int dt_cmd_doctor_ranks(const struct dt_doctor_world *world, const char *step,
                        struct dt_error *err);

/* Becomes the program of DT_ENV_COMMAND (launch.command), found through PATH.
 * Returns only on failure, after a message: 127 if there is no such program,
 * 126 if it cannot be run.
 */
int dt_cmd_command(void);

/* Prints `disttrain NAME: <formatted>` and the hint at --help on stderr;
 * returns EX_USAGE.
 */
int dt_cmd_usage_error(const char *name, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The same for what getopt_long has not understood: c is its ':' or '?', word
 * the argument before optind.
 */
int dt_cmd_option_error(const char *name, int c, const char *word);

/* The value of --dtype of the subcommand NAME, fp32, bf16 or fp16 in any case,
 * into *dtype. 0, or EX_USAGE after a message.
 */
int dt_cmd_take_dtype(const char *name, const char *value,
                      enum dt_dtype *dtype);

/* The same back. */
const char *dt_cmd_dtype_name(enum dt_dtype dtype);

/* Loads a configuration for the subcommand NAME and prints its problems and, if
 * asked, its warnings on stderr. NULL if there is a problem.
 */
struct dt_conf *dt_cmd_load(const char *name, const char *file, bool warn);

/* Checks what the model and the tokenizer of a configuration tell of it, and
 * prints a problem as dt_cmd_load does: EX_CONFIG; EX_OK if there is none.
 */
int dt_cmd_check_training(const char *file, const struct dt_conf *conf);

/* Prints one more problem of a key, as dt_cmd_load does; returns EX_CONFIG. */
int dt_cmd_problem(const char *file, const struct dt_conf *conf,
                   const char *key, const char *text);

#endif /* DT_CMD_CMD_H */
