/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h - abilities of the terminal of a descriptor, and its last line.
 * Only libc: the plugin asks, too
 */
#ifndef DT_BASE_TERMINAL_H
#define DT_BASE_TERMINAL_H

#include <stdbool.h>

/* Whether lines on `fd` may be rewritten: it is a terminal, not a dumb one, and
 * nobody (CI) keeps its output.
 */
bool dt_terminal_rewrites(int fd);

/* Whether the locale of the environment is UTF-8. */
bool dt_terminal_utf8(void);

/* Whether colors are welcome: NO_COLOR is not set. */
bool dt_terminal_colors(void);

/* Its size; 80 columns and 24 rows if it has none. */
void dt_terminal_size(int fd, int *columns, int *rows);

/* --- the last line, which changes below all other output ---
 *
 * A process has one such footer. Whoever writes to the terminal lifts it before
 * and drops it after that; without a footer both do nothing. The cursor is
 * never hidden, so there is nothing to restore if the process is killed.
 * Thread-safe.
 */

/* Whether stderr may have one: it is a terminal whose lines can be rewritten,
 * and stdout is not a pipe, whose reader would write there as well.
 */
bool dt_footer_possible(void);

/* Shows `text`, which fits the terminal of `fd`, in place of the last one. */
void dt_footer_show(int fd, const char *text);

/* Clears the line, and keeps other threads from writing until dt_footer_drop.
 */
void dt_footer_lift(void);

/* Shows it again. Not if the output has ended within a line: then it stays away
 * until a call that says otherwise.
 */
void dt_footer_drop(bool mid_line);

/* Leaves the line as it is, above later output: there is no footer any more. */
void dt_footer_end(void);

#endif /* DT_BASE_TERMINAL_H */
