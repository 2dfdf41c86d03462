/* SPDX-License-Identifier: Apache-2.0 */
/* last_lines.h - keeps a rank's last output and prints the telling part */
#ifndef DT_CONSOLE_LAST_LINES_H
#define DT_CONSOLE_LAST_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum {
    DT_LAST_LINES_LINES = 20, /* printed of a text without a traceback */
    DT_TRACEBACK_LINES = 60,  /* printed of a text with a traceback */
};

/* Initialize with {.keep = N}: keeps at least the last N bytes and at most 2N.
 * Free text at the end.
 */
struct dt_last_lines {
    size_t keep;
    char *text;
    size_t used;
    size_t size;
    bool cut; /* the first line may have lost its beginning */
};

/* Appends bytes, which may include NUL. They are lost if memory is short. */
void dt_last_lines_append(struct dt_last_lines *tail, const char *bytes,
                          size_t count);

/* Writes, with `indent` before each line, the last Python traceback with its
 * chain and the lines after it, or else the last lines. Of a progress bar, only
 * the last state is written; of a C stack from Python's faulthandler, a line
 * that says it is left out. Returns false, and writes nothing, if all lines are
 * empty.
 */
bool dt_last_lines_print(const struct dt_last_lines *tail, const char *indent,
                         FILE *out);

/* Copies the last line that is not empty, cut to size, without its newline; ""
 * if there is none.
 */
void dt_last_lines_last(const struct dt_last_lines *tail, char *text,
                        size_t size);

/* Whether the last line that is not empty begins with `prefix`. */
bool dt_last_lines_ends_with(const struct dt_last_lines *tail,
                             const char *prefix);

#endif /* DT_CONSOLE_LAST_LINES_H */
