/* SPDX-License-Identifier: Apache-2.0 */
/* lines.h - the rows of a file of any form as lines of JSON */
#ifndef DT_DATA_FORMS_LINES_H
#define DT_DATA_FORMS_LINES_H

#include <stdint.h>

#include "base/error.h"
#include "base/file.h"
#include "base/kind.h"
#include "data/forms/stop.h"

/* Reads rows, at most `most` of them if that is not 0, into a file without a
 * name in `dir`, or in memory if dir is NULL, and maps it; release with
 * dt_map_fini. Lines are numbered as messages do it, with dt_kind_mark before
 * the number. -1: EX_NOINPUT, EX_IOERR; EX_DATAERR with the file and the place
 * in it; EX_CANTCREAT, EX_OSERR; as dt_stop_check, unless stop is NULL.
 */
int dt_lines_read(struct dt_map *lines, const char *path,
                  const struct dt_found *found, const char *dir, uint64_t most,
                  struct dt_stop *stop, struct dt_error *err);

#endif /* DT_DATA_FORMS_LINES_H */
