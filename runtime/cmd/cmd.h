/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd.h - the subcommands of `disttrain`, one source file each
 *
 * Each takes the arguments from its own name on, prints for people and returns
 * the exit status of the process (sysexits.h).
 */
#ifndef DT_CMD_CMD_H
#define DT_CMD_CMD_H

#include <getopt.h>
#include <stdbool.h>

#include "conf/conf.h"
#include "tensor/view.h"

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

/* The command line of a subcommand while it is parsed. Initialize the first
 * three, and status with DT_CMD_RUN.
 */
struct dt_cmd_line {
    const char *name;           /* of the subcommand */
    const char *help;           /* what --help prints */
    const struct option *table; /* of getopt_long; 'h' is --help */
    const char *letters;        /* options of one letter besides -h, as getopt
                                   has them; NULL: none */
    int status;                 /* DT_CMD_RUN, or end with this status */
    int index;                  /* in table, of the last long option */
    bool begun;
};

enum { DT_CMD_RUN = -1 };

/* --set KEY=VALUE, in the table of a command that reads a configuration. It may
 * be given several times, and is kept by dt_cmd_next_option.
 */
enum { DT_CMD_SET = 1000 };
#define DT_CMD_SET_OPTION                                                      \
    {                                                                          \
        "set", required_argument, NULL, DT_CMD_SET                             \
    }

/* What the options --set of the command say, for dt_conf_load. */
const struct dt_conf_overrides *dt_cmd_overrides(void);

/* Empties it; appends a word; puts a list of DT_ENV_OVERRIDES before the words.
 * -1: EX_USAGE, something is no KEY=VALUE; EX_OSERR.
 */
void dt_cmd_overrides_clear(void);
int dt_cmd_overrides_add(const char *word, struct dt_error *err);
int dt_cmd_overrides_inherit(const char *list, struct dt_error *err);

/* Returns the letter of the next option, as getopt_long does. -1: there are no
 * more, and argv[optind] is the first word; or else status is set, because the
 * help was printed (0) or an option is unknown or has no value (EX_USAGE, after
 * a message).
 */
int dt_cmd_next_option(struct dt_cmd_line *line, int argc, char **argv);

/* Writes out what is printed. Returns status, or EX_IOERR after a message. */
int dt_cmd_flush(const char *name, int status);

/* Parses the value of --dtype of the subcommand NAME (fp32, bf16 or fp16 in any
 * case) into *dtype. Returns 0, or EX_USAGE after a message.
 */
int dt_cmd_take_dtype(const char *name, const char *value,
                      enum dt_dtype *dtype);

/* Returns the name of a type as --dtype has it. */
const char *dt_cmd_dtype_name(enum dt_dtype dtype);

/* Loads a configuration for the subcommand NAME, finds its models
 * (dt_models_find) and prints its problems and, if `warn`, its warnings on
 * stderr. NULL if there is a problem.
 */
struct dt_conf *dt_cmd_load(const char *name, const char *file, bool warn);

/* Writes what distributed.strategy: auto takes in the job of `launch:`, and
 * why, as dt_ballot_text does. -1: as dt_candidates_init.
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
