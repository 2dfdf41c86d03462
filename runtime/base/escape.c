/* SPDX-License-Identifier: Apache-2.0 */
/* escape.c - undoes the escapes of lists in variables */
#include "config.h"

#include <stdbool.h>

#include "base/escape.h"

void dt_escape_undo(char *text)
{
    char *to = text;
    for (; *text; text++) {
        bool escaped = text[0] == '\\' && text[1] != '\0';
        text += escaped;
        *to++ = (char)(!escaped       ? *text
                       : *text == 's' ? ' '
                       : *text == 'n' ? '\n'
                                      : *text);
    }
    *to = '\0';
}
