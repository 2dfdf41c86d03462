/* SPDX-License-Identifier: Apache-2.0 */
/* usage.c - the one form of a usage error */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <sysexits.h>

#include "cmd/cmd.h"

int dt_cmd_usage_error(const char *name, const char *fmt, ...)
{
    va_list ap;
    fprintf(stderr, "disttrain %s: ", name);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, " (see disttrain %s --help)\n", name);
    return EX_USAGE;
}

int dt_cmd_option_error(const char *name, int c, const char *word)
{
    return dt_cmd_usage_error(
        name, c == ':' ? "'%s' needs a value" : "unknown option '%s'", word);
}
