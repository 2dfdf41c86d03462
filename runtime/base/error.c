/* SPDX-License-Identifier: Apache-2.0 */
/* error.c - filling and prefixing struct dt_error */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/secret.h"

/* Formats without secrets, also where the text is cut within one. */
static void format(char *to, size_t size, const char *fmt, va_list ap)
{
    char whole[2 * DT_ERROR_TEXT_BYTES];
    vsnprintf(whole, sizeof(whole), fmt, ap);
    dt_secret_clean(whole, sizeof(whole));
    size_t n = strnlen(whole, size - 1);
    memcpy(to, whole, n);
    to[n] = '\0';
}

int dt_error_set(struct dt_error *err, int status, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        err->status = status;
        err->lost_rank = -1;
        va_start(ap, fmt);
        format(err->text, sizeof(err->text), fmt, ap);
        va_end(ap);
    }
    return -1;
}

int dt_error_prefix(struct dt_error *err, const char *fmt, ...)
{
    if (err) {
        char prefix[sizeof(err->text)];
        va_list ap;
        va_start(ap, fmt);
        format(prefix, sizeof(prefix), fmt, ap);
        va_end(ap);
        size_t n = strlen(prefix);
        size_t room = sizeof(err->text) - 1;
        n = n < room - 2 ? n : room - 2;
        size_t rest = strlen(err->text);
        rest = rest < room - n - 2 ? rest : room - n - 2;
        memmove(err->text + n + 2, err->text, rest);
        memcpy(err->text, prefix, n);
        memcpy(err->text + n, ": ", 2);
        err->text[n + 2 + rest] = '\0';
    }
    return -1;
}

int dt_error_add(struct dt_error *err, int status, const char *fmt, ...)
{
    size_t used = strlen(err->text), room = sizeof(err->text) - used;
    va_list ap;
    if (used > 0) {
        snprintf(err->text + used, room, "; ");
        used = strlen(err->text);
        room = sizeof(err->text) - used;
    }
    err->status = status;
    err->lost_rank = -1;
    va_start(ap, fmt);
    format(err->text + used, room, fmt, ap);
    va_end(ap);
    return -1;
}
