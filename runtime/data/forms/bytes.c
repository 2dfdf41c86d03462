/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.c - a file byte by byte, for readers of rows */
#include "config.h"

#include <string.h>

#include "data/forms/reader.h"

int dt_bytes_fill(struct dt_bytes *bytes, struct dt_error *err)
{
    bytes->at = 0;
    return dt_input_read(bytes->input, bytes->buffer, sizeof(bytes->buffer),
                         &bytes->count, err);
}

int dt_bytes_look(struct dt_bytes *bytes, struct dt_error *err)
{
    if (bytes->at == bytes->count && dt_bytes_fill(bytes, err) < 0)
        return -2;
    return bytes->count > 0 ? bytes->buffer[bytes->at] : -1;
}

int dt_bytes_next(struct dt_bytes *bytes, struct dt_error *err)
{
    int c = dt_bytes_look(bytes, err);
    bytes->at += c >= 0;
    bytes->line += c == '\n';
    return c;
}

int dt_bytes_skip_mark(struct dt_bytes *bytes, struct dt_error *err)
{
    if (dt_bytes_fill(bytes, err) < 0)
        return -1;
    if (bytes->count >= 3 && memcmp(bytes->buffer, "\xef\xbb\xbf", 3) == 0)
        bytes->at = 3;
    return 0;
}
