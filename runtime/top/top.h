/* SPDX-License-Identifier: Apache-2.0 */
/* top.h - shows what runs are doing now, from the files that they write */
#ifndef DT_TOP_TOP_H
#define DT_TOP_TOP_H

#include "top/find.h"

/* Prints the runs once as plain text, a single one as JSON if `json`, which is
 * its file. -1: none of the files can be read: EX_NOINPUT, EX_DATAERR.
 */
int dt_top_print(const struct dt_top_found *found, bool json,
                 struct dt_error *err);

/* Shows them in the terminal, anew every second, until the user ends it. -1:
 * EX_OSERR, there is no terminal.
 */
int dt_top_follow(const struct dt_top_found *found, struct dt_error *err);

#endif /* DT_TOP_TOP_H */
