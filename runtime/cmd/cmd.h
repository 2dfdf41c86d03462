/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd.h - the subcommands of `disttrain`, a source file cmd_NAME.c each
 *
 * Each takes the arguments from its own name on, prints for people and returns
 * the exit status of the process (sysexits.h). Options, wiring and messages are
 * here; the work is done by the rooms below.
 */
#ifndef DT_CMD_CMD_H
#define DT_CMD_CMD_H

#include <stdbool.h>

/* The subcommands. */
int dt_cmd_train(int argc, char **argv);
int dt_cmd_check(int argc, char **argv);
int dt_cmd_plan(int argc, char **argv);
int dt_cmd_sbatch(int argc, char **argv);
int dt_cmd_steps(int argc, char **argv);
int dt_cmd_prepare(int argc, char **argv);
int dt_cmd_generate(int argc, char **argv);
int dt_cmd_export(int argc, char **argv);
int dt_cmd_verify(int argc, char **argv);
int dt_cmd_trace(int argc, char **argv);
int dt_cmd_report(int argc, char **argv);
int dt_cmd_doctor(int argc, char **argv);
int dt_cmd_console(int argc, char **argv);
int dt_cmd_top(int argc, char **argv);
int dt_cmd_keep(int argc, char **argv);
int dt_cmd_info(int argc, char **argv);

/* Executes the program of DT_ENV_COMMAND (launch.command), found through PATH.
 * Returns only on failure, after a message: 127 if there is no such program,
 * 126 if it cannot be run, EX_OSERR without memory.
 */
int dt_cmd_command(void);

/* --- how long threads that wait keep their CPUs busy --- */

/* Sets how long, unless the user has said so, and returns true if this comes
 * too late for this process: GCC's OpenMP reads its variables before main, and
 * the process has to execute itself again. In the second execution, and if
 * nothing needs to be set, it returns false and has removed the variables, so
 * that programs of the run inherit the user's environment.
 */
bool dt_cmd_spin_limit(void);

/* Executes this program again, with the arguments of main. Returns only if that
 * fails; then the variables are removed, and threads wait as by default.
 */
void dt_cmd_spin_restart(char **argv);

#endif /* DT_CMD_CMD_H */
