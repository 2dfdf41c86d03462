/* SPDX-License-Identifier: Apache-2.0 */
/* doing.h - what the ranks of a step are doing, those that do the same in one
 * line
 */
#ifndef DT_REPORT_DOING_H
#define DT_REPORT_DOING_H

#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

/* `text` is what the probes of nodes[0..count) have said, and is changed:
 *
 *     rank RANK TASKS PID PERCENT HOST <tab> STATE <tab> COMMAND
 *     end HOST
 *
 * Ranks with the same state share a line. Nodes that have said nothing come
 * first, then ranks that are not there, that have ended, that are stopped, and
 * that hang in the kernel (state D): none of these can go on. Of the others the
 * fewest come first, because the odd one out is usually the one for which the
 * rest wait. -1: EX_OSERR.
 */
int dt_doing_print(char *text, char *const *nodes, size_t count, FILE *out,
                   struct dt_error *err);

#endif /* DT_REPORT_DOING_H */
