/* SPDX-License-Identifier: Apache-2.0 */
/* ranklogs.h - writes one log file per rank */
#ifndef DT_CONSOLE_RANKLOGS_H
#define DT_CONSOLE_RANKLOGS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct dt_ranklogs;

/* Creates the directory. The files (rank-0012.log and so on) are opened for
 * appending when a rank first writes. NULL and err: EX_CANTCREAT, EX_OSERR.
 */
struct dt_ranklogs *dt_ranklogs_create(const char *dir, uint32_t ranks,
                                       struct dt_error *err);

/* Writes the buffers and frees the logs. NULL is fine. */
void dt_ranklogs_destroy(struct dt_ranklogs *logs);

/* Appends text to the log of a rank. -1 and err: EX_CANTCREAT. */
int dt_ranklogs_write(struct dt_ranklogs *logs, uint32_t rank, const char *text,
                      size_t len, struct dt_error *err);

/* Writes the buffers to the files. -1 and err: EX_IOERR. */
int dt_ranklogs_flush(struct dt_ranklogs *logs, struct dt_error *err);

#endif /* DT_CONSOLE_RANKLOGS_H */
