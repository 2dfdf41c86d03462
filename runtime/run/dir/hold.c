/* SPDX-License-Identifier: Apache-2.0 */
/* hold.c - what of run.output_dir is of this step of keepers */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/epoch.h"
#include "base/file.h"
#include "run/dir/dir.h"

enum { MAX_BYTES = 256 };

/* The file has one of these words after the name of the step. */
static const char *const words[] = {
    [DT_HOLD_TAKEN] = "taken",
    [DT_HOLD_ALL] = "all",
};

static void format(char line[MAX_BYTES], const char *step, enum dt_hold hold)
{
    snprintf(line, MAX_BYTES, "%s %s\n", step, words[hold]);
}

int dt_hold_find(const char *dir, enum dt_hold *hold, struct dt_error *err)
{
    char path[PATH_MAX], line[MAX_BYTES], step[DT_EPOCH_STEP_BYTES];
    struct dt_error why;
    uint32_t epoch;
    *hold = DT_HOLD_NONE;
    if (!dt_epoch_find(step, &epoch))
        return 0;
    snprintf(path, sizeof(path), "%s/.owner-step", dir);
    char *text = dt_file_read(path, MAX_BYTES, &why);
    if (!text && why.status == EX_IOERR) {
        if (err)
            *err = why;
        return -1;
    }
    for (enum dt_hold i = DT_HOLD_TAKEN; text && i <= DT_HOLD_ALL; i++) {
        format(line, step, i);
        if (strcmp(text, line) == 0)
            *hold = i;
    }
    free(text);
    return 0;
}

int dt_hold_set(const char *dir, enum dt_hold hold, struct dt_error *err)
{
    char path[PATH_MAX], line[MAX_BYTES], step[DT_EPOCH_STEP_BYTES];
    enum dt_hold now;
    uint32_t epoch;
    if (!dt_epoch_find(step, &epoch))
        return 0;
    if (dt_hold_find(dir, &now, err) < 0)
        return -1;
    if (now >= hold)
        return 0;
    snprintf(path, sizeof(path), "%s/.owner-step", dir);
    format(line, step, hold);
    return dt_file_replace(path, line, strlen(line), err);
}

int dt_hold_begin(struct dt_run *run, struct dt_error *err)
{
    struct dt_conf *conf = &run->spec.conf;
    enum dt_hold hold;
    if (!conf->training.restarted)
        return 0;
    if (dt_hold_find(conf->run.output_dir, &hold, err) < 0)
        return -1;
    conf->training.restarted = hold == DT_HOLD_ALL;
    return 0;
}
