/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h - what the terminal of a descriptor can show. Only libc: the
 * plugin asks, too
 */
#ifndef DT_BASE_TERMINAL_H
#define DT_BASE_TERMINAL_H

#include <stdbool.h>

/* Whether lines on `fd` may be rewritten: it is a terminal, not a dumb one, and
 * nobody (CI) keeps what it shows.
 */
bool dt_terminal_rewrites(int fd);

/* Whether the locale of the environment is UTF-8. */
bool dt_terminal_utf8(void);

/* Whether colors are welcome: NO_COLOR is not set. */
bool dt_terminal_colors(void);

/* Its size; 80 columns and 24 rows if it has none. */
void dt_terminal_size(int fd, int *columns, int *rows);

#endif /* DT_BASE_TERMINAL_H */
