/* SPDX-License-Identifier: Apache-2.0 */
/* epoch.c - the files of epochs */
#include "config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/epoch.h"

void dt_epoch_path(char *path, const char *dir, const char *step,
                   uint32_t epoch)
{
    snprintf(path, PATH_MAX, "%s/" DT_EPOCH_DIR "/%s-%" PRIu32, dir, step,
             epoch);
}

bool dt_epoch_find(char step[DT_EPOCH_STEP_BYTES], uint32_t *epoch)
{
    const char *text = getenv(DT_EPOCH_ENV);
    return text && sscanf(text, "%16s %" SCNu32, step, epoch) == 2;
}

bool dt_epoch_is_over(const char *dir)
{
    char path[PATH_MAX], step[DT_EPOCH_STEP_BYTES];
    uint32_t epoch;
    if (!dt_epoch_find(step, &epoch))
        return false;
    dt_epoch_path(path, dir, step, epoch + 1);
    return access(path, F_OK) == 0;
}
