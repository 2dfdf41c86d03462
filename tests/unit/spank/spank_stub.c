/* SPDX-License-Identifier: Apache-2.0 */
/* spank_stub.c - the spank functions that the plugin calls, without a Slurm */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/spank/spank_stub.h"

struct spank_stub stub;

void stub_reset(void)
{
    for (int i = 0; i < STUB_ENV_MAX; i++)
        free(stub.env[i]);
    stub = (struct spank_stub){.context = S_CTX_REMOTE, .local_tasks = 1};
}

static int env_index(const char *name)
{
    size_t len = strlen(name);
    int i = 0;
    while (stub.env[i] &&
           (strncmp(stub.env[i], name, len) != 0 || stub.env[i][len] != '='))
        i++;
    return i;
}

const char *stub_getenv(const char *name)
{
    const char *entry = stub.env[env_index(name)];
    return entry ? entry + strlen(name) + 1 : NULL;
}

spank_err_t spank_setenv(spank_t spank, const char *name, const char *value,
                         int overwrite)
{
    int i = env_index(name);
    (void)spank;
    if (stub.env[i] && !overwrite)
        return ESPANK_ENV_EXISTS;
    free(stub.env[i]);
    if (i == STUB_ENV_MAX - 1 ||
        asprintf(&stub.env[i], "%s=%s", name, value) < 0)
        abort();
    return ESPANK_SUCCESS;
}

spank_err_t spank_unsetenv(spank_t spank, const char *name)
{
    int i = env_index(name);
    (void)spank;
    free(stub.env[i]);
    for (; i < STUB_ENV_MAX - 1; i++)
        stub.env[i] = stub.env[i + 1];
    return ESPANK_SUCCESS;
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
    va_list ap;
    spank_err_t rc = ESPANK_SUCCESS;
    (void)spank;
    va_start(ap, item);
    switch (item) {
    case S_JOB_ENV:
        *va_arg(ap, char ***) = stub.env;
        break;
    case S_JOB_ARGV:
        *va_arg(ap, int *) = stub.argv[0] ? 1 : 0;
        *va_arg(ap, char ***) = stub.argv;
        break;
    case S_TASK_GLOBAL_ID:
        *va_arg(ap, uint32_t *) = stub.task;
        break;
    case S_TASK_EXIT_STATUS:
        *va_arg(ap, int *) = stub.exit_status;
        break;
    case S_JOB_STEPID:
        *va_arg(ap, uint32_t *) = stub.step_id;
        break;
    case S_JOB_LOCAL_TASK_COUNT:
        *va_arg(ap, uint32_t *) = stub.local_tasks;
        break;
    case S_JOB_TOTAL_TASK_COUNT:
        *va_arg(ap, uint32_t *) = stub.component_tasks;
        break;
    default:
        rc = ESPANK_BAD_ARG;
    }
    va_end(ap);
    return rc;
}

spank_context_t spank_context(void)
{
    return stub.context;
}

spank_err_t spank_option_register(spank_t spank, struct spank_option *option)
{
    (void)spank;
    (void)option;
    return ESPANK_SUCCESS;
}

spank_err_t spank_job_control_setenv(spank_t spank, const char *name,
                                     const char *value, int overwrite)
{
    (void)spank;
    (void)overwrite;
    memcpy(stub.job_before, stub.job_option, sizeof(stub.job_before));
    snprintf(stub.job_option, sizeof(stub.job_option), "%s=%s", name, value);
    return ESPANK_SUCCESS;
}

const char *spank_strerror(spank_err_t err)
{
    return err == ESPANK_SUCCESS ? "success" : "spank error";
}

static void say(const char *format, va_list ap)
{
    size_t used = strlen(stub.said);
    vsnprintf(stub.said + used, sizeof(stub.said) - used, format, ap);
    used = strlen(stub.said);
    snprintf(stub.said + used, sizeof(stub.said) - used, "\n");
}

void slurm_error(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    say(format, ap);
    va_end(ap);
}

void slurm_spank_log(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    say(format, ap);
    va_end(ap);
}

/* Takes the place of libc's, and sleeps for a millisecond: no srun is here that
 * the plugin could wait for.
 */
int nanosleep(const struct timespec *duration, struct timespec *left)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    (void)left;
    stub.slept_ms += duration->tv_sec * 1000 + duration->tv_nsec / 1000000;
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL) == 0 ? 0 : -1;
}
