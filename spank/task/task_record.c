/* SPDX-License-Identifier: Apache-2.0 */
/* task_record.c - writes records for srun's console */
#include "config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "contract/contract.h"
#include "spank/task/task.h"
#include "spank/task/task_record.h"

enum {
    RECORD_BYTES = HOST_NAME_MAX + DT_TOKEN_BYTES + 128,
};

/* Writes "TOKEN VERB RANK HOST SECONDS.mmm" with the current time. */
static void format_record(spank_t spank, char text[RECORD_BYTES],
                          const char *verb, uint32_t rank)
{
    char host[HOST_NAME_MAX + 1] = "?";
    char token[DT_TOKEN_BYTES];
    struct timespec now;
    gethostname(host, sizeof(host) - 1);
    clock_gettime(CLOCK_REALTIME, &now);
    dtspank_record_token(spank, token);
    snprintf(text, RECORD_BYTES, DT_RECORD "%s %s %" PRIu32 " %s %jd.%03ld",
             token, verb, rank, host, (intmax_t)now.tv_sec,
             now.tv_nsec / 1000000);
}

/* A client without our plugin may send anything as the token, which slurmstepd
 * writes to its log as root: only digits are taken, and no line of its own.
 */
bool dtspank_record_token(spank_t spank, char token[DT_TOKEN_BYTES])
{
    const char *console = dtspank_task_getenv(spank, DT_ENV_CONSOLE);
    size_t n = console ? strspn(console, "0123456789abcdef") : 0;
    bool good = n > 0 && n < DT_TOKEN_BYTES &&
                (console[n] == '\0' || console[n] == ' ');
    snprintf(token, DT_TOKEN_BYTES, "%.*s", good ? (int)n : 0,
             good ? console : "");
    return good;
}

bool dtspank_record_wanted(spank_t spank)
{
    char token[DT_TOKEN_BYTES];
    return dtspank_record_token(spank, token);
}

int dtspank_record_start(spank_t spank, struct dt_error *err)
{
    char text[RECORD_BYTES];
    uint32_t rank;
    (void)err;
    if (!dtspank_record_wanted(spank))
        return 0;
    const char *console = dtspank_task_getenv(spank, DT_ENV_CONSOLE);
    bool adds_labels = strstr(console, " label") != NULL;
    if (dtspank_task_number(spank, "SLURM_PROCID", &rank)) {
        format_record(spank, text, "start", rank);
        dprintf(STDERR_FILENO, "%s\n", text);
    }
    if (adds_labels)
        spank_unsetenv(spank, "SLURM_LABELIO");
    return 0;
}

int dtspank_record_hide(spank_t spank, struct dt_error *err)
{
    (void)err;
    spank_unsetenv(spank, DT_ENV_CONSOLE);
    return 0;
}

void dtspank_record_log(spank_t spank, uint32_t rank, const char *verb,
                        int number)
{
    char text[RECORD_BYTES];
    format_record(spank, text, verb, rank);
    slurm_spank_log("%s %d", text, number);
}
