/* SPDX-License-Identifier: Apache-2.0 */
/* tail.h - the last of what a rank has written, and what matters of it */
#ifndef DT_REPORT_TAIL_H
#define DT_REPORT_TAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum {
    DT_TAIL_LINES = 20,      /* shown of a text without a traceback */
    DT_TRACEBACK_LINES = 60, /* shown of one with a traceback */
};

/* Begin with {.keep = N}: at least the last N bytes are kept, and at most 2N.
 * Free text at the end.
 */
struct dt_tail {
    size_t keep;
    char *text;
    size_t used;
    size_t size;
    bool cut; /* the first line may have lost its beginning */
};

/* Adds bytes, also NUL. Without memory they are lost. */
void dt_tail_append(struct dt_tail *tail, const char *bytes, size_t count);

/* Writes, each line after `indent`, the last Python traceback with the chain
 * that leads to it and what comes after, or else the last lines. Of a progress
 * bar only its last state is shown. Returns false, and writes nothing, if there
 * is nothing but empty lines.
 */
bool dt_tail_print(const struct dt_tail *tail, const char *indent, FILE *out);

/* Whether the last line that is not empty begins with `prefix`. */
bool dt_tail_ends_with(const struct dt_tail *tail, const char *prefix);

#endif /* DT_REPORT_TAIL_H */
