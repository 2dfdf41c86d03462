/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd.h - the subcommands of disttrain, one source each
 *
 * Each takes the arguments from its own name on, prints, and returns the exit
 * status of the process (sysexits.h).
 */
#ifndef DT_CMD_CMD_H
#define DT_CMD_CMD_H

int dt_cmd_check(int argc, char **argv); /* disttrain check */

#endif /* DT_CMD_CMD_H */
