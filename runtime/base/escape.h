/* SPDX-License-Identifier: Apache-2.0 */
/* escape.h - undoes the escapes of lists in variables */
#ifndef DT_BASE_ESCAPE_H
#define DT_BASE_ESCAPE_H

/* Undoes \s (a blank), \n and \\ in place. Another character stays without the
 * backslash before it, and a backslash at the end as it is.
 */
void dt_escape_undo(char *text);

#endif /* DT_BASE_ESCAPE_H */
