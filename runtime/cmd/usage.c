/* SPDX-License-Identifier: Apache-2.0 */
/* usage.c - usage errors, and errors of stdout, in one form */
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
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

int dt_cmd_fail(const char *name, const struct dt_error *err)
{
    fprintf(stderr, "disttrain %s: %s\n", name, err->text);
    return err->status;
}

const char *dt_cmd_dtype_name(enum dt_dtype dtype)
{
    static const char *const names[] = {
        [DT_F32] = "fp32", [DT_BF16] = "bf16", [DT_F16] = "fp16"};
    return names[dtype];
}

int dt_cmd_flush(const char *name, int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "disttrain %s: stdout: %s\n", name, strerror(errno));
    return EX_IOERR;
}
