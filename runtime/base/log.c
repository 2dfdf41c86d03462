/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - one line, one write(2) */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/said.h"
#include "base/secret.h"
#include "base/terminal.h"

static int log_rank;
static enum dt_log_level log_level = DT_LOG_INFO;

void dt_log_init(int rank, enum dt_log_level level)
{
    log_rank = rank;
    log_level = level;
}

static int wanted(enum dt_log_level level)
{
    if (level == DT_LOG_NEWS)
        level = DT_LOG_INFO;
    if (level > log_level)
        return 0;
    return level <= DT_LOG_WARN || log_rank == 0 || log_level == DT_LOG_DEBUG;
}

/* Appends to line[used..size), keeping one byte for the newline. */
static size_t append(char *line, size_t used, size_t size, const char *fmt,
                     va_list ap)
{
    int n = vsnprintf(line + used, size - used, fmt, ap);
    used += n < 0 ? 0 : (size_t)n;
    return used < size ? used : size - 1;
}

void dt_log(enum dt_log_level level, const char *module, const char *fmt, ...)
{
    static const char *const names[] = {"error: ", "warning: ", "",
                                        "debug: ", ""};
    char line[4096];
    struct timespec now;
    struct tm tm;
    va_list ap;

    if (!wanted(level))
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    int n = snprintf(line, sizeof(line), "%02d:%02d:%02d.%03ld %d %s: %s",
                     tm.tm_hour, tm.tm_min, tm.tm_sec, now.tv_nsec / 1000000,
                     log_rank, module, names[level]);
    va_start(ap, fmt);
    size_t used = append(line, (size_t)n, sizeof(line) - 1, fmt, ap);
    va_end(ap);
    dt_secret_clean(line, sizeof(line) - 1);
    if (level == DT_LOG_INFO && dt_said_before(line + n))
        return;
    used = strlen(line);
    line[used++] = '\n';
    dt_footer_lift();
    ssize_t wrote = write(STDERR_FILENO, line, used);
    dt_footer_drop(false);
    (void)wrote; /* nobody is listening: there is nowhere left to say so */
}
