/* SPDX-License-Identifier: Apache-2.0 */
/* top.h - finds runs, and shows their present state from their files */
#ifndef DT_TOP_TOP_H
#define DT_TOP_TOP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "live/state.h"

enum { DT_TOP_RUNS = 64 }; /* runs that are shown together */

/* Paths of status.json files; release with dt_top_found_fini. */
struct dt_top_found {
    size_t count, left_out;
    char *path[DT_TOP_RUNS];
};

/* Finds the runs of `asked`: a status.json, its directory, the output directory
 * of a run, a directory of runs, or a job of Slurm as "123" or "123.0". NULL:
 * the newest of the user's runs in Slurm, or those below this directory. -1:
 * EX_NOINPUT with the places that were searched, EX_OSERR.
 */
int dt_top_find(const char *asked, struct dt_top_found *found,
                struct dt_error *err);
void dt_top_found_fini(struct dt_top_found *found);

/* Reads a file; a torn or damaged one is an error, too. -1: EX_NOINPUT,
 * EX_IOERR, EX_DATAERR.
 */
int dt_top_read(const char *path, struct dt_live_state *state,
                struct dt_error *err);

/* Prints the runs once as plain text, or with `json` the contents of their
 * files. -1: none of the files can be read: EX_NOINPUT, EX_DATAERR.
 */
int dt_top_print(const struct dt_top_found *found, bool json,
                 struct dt_error *err);

/* Shows the runs in the terminal, updated every second, until the user ends it.
 * -1: EX_OSERR, there is no terminal.
 */
int dt_top_follow(const struct dt_top_found *found, struct dt_error *err);

#endif /* DT_TOP_TOP_H */
