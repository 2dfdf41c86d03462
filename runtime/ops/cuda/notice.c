/* SPDX-License-Identifier: Apache-2.0 */
/* notice.c - what operations have to tell the user, until it is fetched */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>

#include "ops/cuda/cuda.h"

enum { MOST_NOTICES = 32 };

static struct {
    char texts[MOST_NOTICES][DT_ERROR_TEXT_BYTES];
    size_t first, count;
} waiting;

void dt_cuda_tell(const char *fmt, ...)
{
    va_list args;

    if (waiting.count == MOST_NOTICES)
        return;
    va_start(args, fmt);
    vsnprintf(waiting.texts[(waiting.first + waiting.count++) % MOST_NOTICES],
              DT_ERROR_TEXT_BYTES, fmt, args);
    va_end(args);
}

const char *dt_cuda_notice(void)
{
    const char *text = waiting.texts[waiting.first];

    if (waiting.count == 0)
        return NULL;
    waiting.first = (waiting.first + 1) % MOST_NOTICES;
    waiting.count--;
    return text;
}
