/* SPDX-License-Identifier: Apache-2.0 */
/* text_out.c - holding bytes back until they are a character */
#include "config.h"

#include <stdbool.h>

#include "cmd/text_out.h"
#include "data/utf8.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Bytes of a character that begins with c; 1 if none does. */
static size_t length_of(unsigned char c)
{
    return c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
}

static bool is_control(const unsigned char *s)
{
    return (s[0] < 0x20 && s[0] != '\n' && s[0] != '\t') || s[0] == 0x7f ||
           (s[0] == 0xc2 && s[1] < 0xa0);
}

static void write_held(struct dt_text_out *out)
{
    if (dt_utf8_check(out->held, out->count) == out->count &&
        !is_control(out->held))
        fwrite(out->held, 1, out->count, out->file);
    else
        fputs(REPLACEMENT, out->file);
    fflush(out->file);
    out->count = 0;
}

void dt_text_out_byte(struct dt_text_out *out, unsigned char byte)
{
    bool continues = (byte & 0xc0) == 0x80;
    if (out->count > 0 && !continues)
        write_held(out); /* it was cut short */
    out->held[out->count++] = byte;
    if (out->count == length_of(out->held[0]))
        write_held(out);
}

void dt_text_out_end(struct dt_text_out *out)
{
    if (out->count > 0)
        write_held(out);
}
