/* SPDX-License-Identifier: Apache-2.0 */
/* error.c - what went wrong in an operation, until somebody waits for it */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>

#include "ops/cuda/cuda.h"

static char first_error[DT_ERROR_TEXT_BYTES / 2];

void dt_cuda_ops_fail(const char *fmt, ...)
{
    va_list args;

    if (first_error[0] != '\0')
        return;
    va_start(args, fmt);
    vsnprintf(first_error, sizeof(first_error), fmt, args);
    va_end(args);
}

const char *dt_cuda_ops_error(void)
{
    return first_error[0] != '\0' ? first_error : NULL;
}
