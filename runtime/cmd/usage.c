/* SPDX-License-Identifier: Apache-2.0 */
/* usage.c - reports usage errors in one form, and parses --dtype */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <strings.h>
#include <sysexits.h>

#include "cmd/cmd.h"

static const char *const dtypes[] = {
    [DT_F32] = "fp32", [DT_BF16] = "bf16", [DT_F16] = "fp16"};

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

int dt_cmd_take_dtype(const char *name, const char *value, enum dt_dtype *dtype)
{
    for (int i = DT_F32; i <= DT_F16; i++)
        if (strcasecmp(value, dtypes[i]) == 0) {
            *dtype = (enum dt_dtype)i;
            return 0;
        }
    return dt_cmd_usage_error(
        name, "--dtype: expected fp32, bf16 or fp16, got '%s'", value);
}

const char *dt_cmd_dtype_name(enum dt_dtype dtype)
{
    return dtypes[dtype];
}
