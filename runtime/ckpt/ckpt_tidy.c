/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt_tidy.c - removes what interrupted saves left, and old checkpoints */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "ckpt/ckpt_impl.h"

/* --- the rest of interrupted saves --- */

/* Cleans up after an exchange that was interrupted: restores the old checkpoint
 * if no new one took its place, else removes it.
 */
static int settle_old(const char *root, const char *name, struct dt_error *err)
{
    char *old = dt_ckpt_format(err, "%s/%s", root, name);
    char *path = dt_ckpt_format(err, "%s/%s", root, name + strlen(OLD_PREFIX));
    int rc = -1;
    if (old && path) {
        int there = dt_file_exists(path, err);
        rc = there > 0    ? dt_file_remove(old, err)
             : there == 0 ? dt_ckpt_rename(old, path, err)
                          : -1;
    }
    free(path);
    free(old);
    return rc;
}

/* Cleans up after a save that was interrupted. If the save got as far as its
 * checkpoint, the temporary link becomes `latest`; all else is removed.
 */
static int settle_temp(const char *root, const char *name, struct dt_error *err)
{
    char *temp = dt_ckpt_format(err, "%s/%s", root, name);
    char *latest = dt_ckpt_format(err, "%s/latest", root);
    int rc = -1;
    if (temp && latest) {
        bool link = strcmp(name, TEMP_LATEST) == 0;
        int there = link ? dt_file_exists(temp, err) : 0;
        rc = there > 0    ? dt_ckpt_rename(temp, latest, err)
             : there == 0 ? dt_file_remove(temp, err)
                          : -1;
    }
    free(latest);
    free(temp);
    return rc;
}

/* Calls `settle` for every entry of root of one kind but `keep`. An entry that
 * remains is in nobody's way, and goes with one of the next saves or by hand.
 */
static void settle_all(const char *root, const char *keep,
                       int (*is_one)(const struct dirent *),
                       int (*settle)(const char *root, const char *name,
                                     struct dt_error *err),
                       void (*note)(const char *text))
{
    struct dirent **entries;
    struct dt_error why = {0};
    int n = dt_ckpt_list(root, &entries, is_one, &why);
    if (n < 0 && note)
        note(why.text);
    for (int i = 0; i < n; i++)
        if (!(keep && strcmp(entries[i]->d_name, keep) == 0) &&
            settle(root, entries[i]->d_name, &why) < 0 && note) {
            dt_error_add(&why, why.status,
                         "left by an earlier save; remove it by hand, or leave "
                         "it: each save tries again");
            note(why.text);
        }
    dt_ckpt_free_list(entries, n);
}

void dt_ckpt_tidy_beside(const char *root, const char *keep,
                         void (*note)(const char *text))
{
    settle_all(root, keep, dt_ckpt_is_old_step, settle_old, note);
    settle_all(root, keep, dt_ckpt_is_temp, settle_temp, note);
}

void dt_ckpt_tidy(const char *root, void (*note)(const char *text))
{
    dt_ckpt_tidy_beside(root, NULL, note);
}

/* --- old checkpoints --- */

/* Renames the checkpoint first, so that none is ever visible with files
 * missing.
 */
static int remove_old(const char *root, const char *name, struct dt_error *err)
{
    char *path = dt_ckpt_format(err, "%s/%s", root, name);
    char *temp = dt_ckpt_format(err, "%s/" TEMP_PREFIX "%s", root, name);
    int rc = -1;
    if (path && temp && dt_ckpt_clear(root, temp, err) == 0 &&
        dt_ckpt_rename(path, temp, err) == 0)
        rc = dt_file_remove(temp, err);
    free(temp);
    free(path);
    return rc;
}

/* Whether this step counts in keep->limit. */
static bool is_counted(const struct dt_ckpt_keep *keep, long step)
{
    return keep->every == 0 || step % keep->every != 0;
}

int dt_ckpt_prune(const char *root, const struct dt_ckpt_keep *keep,
                  struct dt_error *err)
{
    struct dirent **entries;
    struct dt_error why;
    int n = dt_ckpt_list(root, &entries, dt_ckpt_is_step, err);
    int rc = n < 0 ? -1 : 0, excess = -keep->limit;
    const long best = dt_ckpt_best(root);
    for (int i = 0; i < n; i++)
        excess += is_counted(keep, dt_ckpt_step_of(entries[i]->d_name));
    for (int i = n - 1; i >= 0 && excess > 0 && keep->limit > 0; i--) {
        const long here = dt_ckpt_step_of(entries[i]->d_name);
        if (here == keep->step || here == best || !is_counted(keep, here))
            continue;
        excess--;
        if (remove_old(root, entries[i]->d_name, &why) < 0 && rc == 0) {
            rc = -1;
            if (err)
                *err = why;
        }
    }
    dt_ckpt_free_list(entries, n);
    return rc;
}
