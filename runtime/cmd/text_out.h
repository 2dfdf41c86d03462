/* SPDX-License-Identifier: Apache-2.0 */
/* text_out.h - bytes of a model shown as text while they come */
#ifndef DT_CMD_TEXT_OUT_H
#define DT_CMD_TEXT_OUT_H

#include <stddef.h>
#include <stdio.h>

/* What is not UTF-8, and control characters that a terminal would obey, are
 * shown as U+FFFD. Begin with {.file = out}.
 */
struct dt_text_out {
    FILE *file;
    unsigned char held[4]; /* the beginning of a character */
    size_t count;
};

/* Takes one byte; whole characters are written and flushed. */
void dt_text_out_byte(struct dt_text_out *out, unsigned char byte);

/* No more bytes: a beginning that is still held is no character. */
void dt_text_out_end(struct dt_text_out *out);

#endif /* DT_CMD_TEXT_OUT_H */
