/* SPDX-License-Identifier: Apache-2.0 */
/*
 * footer.h - the last line of a terminal, which changes below all other output
 *
 * A process has one. Whoever writes to the terminal lifts it before and drops
 * it after that; without a footer both do nothing. The cursor is never hidden,
 * so there is nothing to restore if the process is killed. Thread-safe.
 */
#ifndef DT_BASE_FOOTER_H
#define DT_BASE_FOOTER_H

#include <stdbool.h>

/* Whether stderr may have one: it is a terminal whose lines can be rewritten,
 * and stdout is not a pipe, whose reader would write there as well. libc only:
 * the plugin asks, too.
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

/* Leaves the line as it is, above what comes: there is no footer any more. */
void dt_footer_end(void);

#endif /* DT_BASE_FOOTER_H */
