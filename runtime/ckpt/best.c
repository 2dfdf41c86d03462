/* SPDX-License-Identifier: Apache-2.0 */
/* best.c - the link to the best checkpoint of a run */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "ckpt/checkpoint_impl.h"
#include "ckpt/ckpt.h"

int dt_ckpt_set_best(const char *root, long step, struct dt_error *err)
{
    char *link = dt_ckpt_format(err, "%s/best", root);
    char *temp = dt_ckpt_format(err, "%s/" TEMP_PREFIX "best", root);
    char *name = dt_ckpt_format(err, "checkpoint-%ld", step);
    int rc = -1;
    if (link && temp && name)
        rc = dt_file_remove(step < 0 ? link : temp, err);
    if (rc == 0 && step >= 0 && symlink(name, temp) < 0)
        rc = dt_error_set(err, EX_IOERR, "%s: cannot create: %s", temp,
                          strerror(errno));
    if (rc == 0 && step >= 0)
        rc = dt_ckpt_rename(temp, link, err);
    free(name);
    free(temp);
    free(link);
    return rc;
}
