/* SPDX-License-Identifier: Apache-2.0 */
/* device_cuda_error.c - the first error of a stream, until somebody waits for
 * it
 */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>

#include "device/device_cuda.h"

static char first_error[DT_ERROR_TEXT_BYTES / 2];

void dt_cuda_forget_failure(void)
{
    first_error[0] = '\0';
}

void dt_cuda_fail(const char *fmt, ...)
{
    va_list args;

    if (first_error[0] != '\0')
        return;
    va_start(args, fmt);
    vsnprintf(first_error, sizeof(first_error), fmt, args);
    va_end(args);
}

const char *dt_cuda_failure(void)
{
    return first_error[0] != '\0' ? first_error : NULL;
}
