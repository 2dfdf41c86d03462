/* SPDX-License-Identifier: Apache-2.0 */
/* find.h - finds the status.json of runs: by path, by job, or the newest */
#ifndef DT_TOP_FIND_H
#define DT_TOP_FIND_H

#include <limits.h>
#include <stddef.h>

#include "base/error.h"
#include "live/state.h"

enum { DT_TOP_RUNS = 64 }; /* that are shown together */

/* Paths of files; free with dt_top_found_fini. */
struct dt_top_found {
    size_t count, left_out;
    char *path[DT_TOP_RUNS];
};

/* What `asked` names: a status.json, the directory of one, a run's output
 * directory, a directory of runs, or a job of Slurm as "123" or "123.0". NULL:
 * the newest of the user's runs that Slurm has, or those below this directory.
 * -1: EX_NOINPUT with where it was looked for, EX_OSERR.
 */
int dt_top_find(const char *asked, struct dt_top_found *found,
                struct dt_error *err);
void dt_top_found_fini(struct dt_top_found *found);

/* Reads a file; a torn or damaged one is an error, too. -1: EX_NOINPUT,
 * EX_IOERR, EX_DATAERR.
 */
int dt_top_read(const char *path, struct dt_live_state *state,
                struct dt_error *err);

/* Asks Slurm once what has become of a job, "123.0": a sentence. */
void dt_top_ask(const char *job, char *text, size_t size);

#endif /* DT_TOP_FIND_H */
